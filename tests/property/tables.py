"""A table as a dict: rows by key, their order, key groups and ranges. What tests of tables compare the store with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import sfkv

INTS = [-(2**63), -(2**63) + 1, -1, 0, 1, 2, 5, 2**63 - 1]
SMALL_INTS = [-128, -1, 0, 1, 126, 127]
TEXTS = ["", "\0", "\0\0", "a", "a\0", "b", "\x7f", "\U0001f600"]
BYTES = [b"", b"\0", b"\0\xff", b"\xff", b"\xff\xff"]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of keys.

    Attributes:
        name: for messages.
        key: the schema, as ``keyed.table`` takes it.
        cells: for each column the values that are drawn.
        group_by: as ``keyed.table`` takes it.
        hashed: the columns that make the key group, in the order in which they are hashed.
        group_key: the schema of these, as ``sfkv.key_groups`` takes it.
    """

    name: str
    key: Any
    cells: list[list[Any]]
    group_by: Any
    hashed: list[int]
    group_key: Any

    @property
    def is_plain(self) -> bool:
        return not isinstance(self.key, dict)

    def groups(self, keys: list[tuple[Any, ...]], max_parallelism: int) -> dict[tuple[Any, ...], int]:
        if not keys:
            return {}
        columns = [[key[i] for key in keys] for i in self.hashed]
        parts: Any = dict(zip(self.group_key, columns, strict=True)) if isinstance(self.group_key, dict) else columns[0]
        return dict(zip(keys, sfkv.key_groups(parts, max_parallelism, key=self.group_key).to_pylist(), strict=True))

    def keys(self) -> st.SearchStrategy[tuple[Any, ...]]:
        return st.tuples(*(st.sampled_from(cells) for cells in self.cells))

    def bounds(self) -> st.SearchStrategy[tuple[Any, ...]]:
        """Values of some leading columns."""
        return st.integers(1, len(self.cells)).flatmap(
            lambda count: st.tuples(*(st.sampled_from(cells) for cells in self.cells[:count]))
        )

    def given(self, key: tuple[Any, ...]) -> Any:
        """A key as single calls take it."""
        return key[0] if self.is_plain else key


KINDS = [
    Kind("time, user", {"end": int, "user": str}, [INTS, TEXTS], "user", [1], str),
    Kind(
        "null time, user, n",
        {"end": int | None, "user": int, "n": pa.int8()},
        [[None, *INTS], [1, 2, -7], SMALL_INTS],
        ["user"],
        [1],
        int,
    ),
    Kind("plain", int, [INTS], None, [0], int),
    Kind(
        "swapped",
        {"a": str | None, "b": bytes, "c": int},
        [[None, *TEXTS], BYTES, [-1, 0, 1]],
        ("c", "a"),
        [2, 0],
        {"c": int, "a": str | None},
    ),
    Kind("all", {"a": bool | None, "b": float}, [[None, False, True], [-1.5, 0.0, 2.5, 1e300]], None, [0, 1], None),
]
KINDS[-1] = dataclasses.replace(KINDS[-1], group_key=KINDS[-1].key)


def order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((0,) if cell is None else (1, cell) for cell in key)


class Model:
    """What a table holds."""

    def __init__(self, kind: Kind, max_parallelism: int) -> None:
        self.kind = kind
        self.max_parallelism = max_parallelism
        self.rows: dict[tuple[Any, ...], Any] = {}

    def write(self, key: tuple[Any, ...], value: Any) -> None:
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

    def matching(self, inside: Callable[[tuple[Any, ...]], bool], reverse: bool = False) -> list[tuple[Any, ...]]:
        """The keys that lie inside, in the table's order."""
        groups = self.kind.groups(list(self.rows), self.max_parallelism)
        return sorted(filter(inside, self.rows), key=lambda key: (groups[key], order(key)), reverse=reverse)

    @staticmethod
    def between(lower: Any, upper: Any, lower_inclusive: bool, upper_inclusive: bool) -> Callable[[tuple[Any, ...]], bool]:
        def inside(key: tuple[Any, ...]) -> bool:
            if lower is not None:
                low, at = order(lower), order(key[: len(lower)])
                if at < low or (at == low and not lower_inclusive):
                    return False
            if upper is not None:
                high, at = order(upper), order(key[: len(upper)])
                if at > high or (at == high and not upper_inclusive):
                    return False
            return True

        return inside
