"""Values of the kinds that states hold, and sfkv's answers as plain Python objects that compare with the model's."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import strategies as st

import sfkv
from tests.property.keys import Kind, canonical


@dataclasses.dataclass
class Seen:
    n: int
    label: str | None
    raw: bytes


class Spread:
    """An aggregate object: the least and the greatest number, and what lies between them."""

    def create(self) -> list[int]:
        return []

    def add(self, accumulator: list[int], value: int) -> list[int]:
        return [min([*accumulator, value]), max([*accumulator, value])]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [min(a + b), max(a + b)]

    def result(self, accumulator: list[int]) -> int:
        return accumulator[1] - accumulator[0]


def last_letters(a: str, b: str) -> str:
    return (a + b)[-9:]


@dataclasses.dataclass(frozen=True)
class FoldType:
    """What a state folds, of which type, and how the model does it."""

    of: str
    fold: Any
    result: Callable[[list[Any]], Any]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


# By kind and a name that stands for the type. Sums of what VALUES has fit.
FOLDS: dict[str, dict[str, FoldType]] = {
    "reducing": {
        "sum": FoldType("small", "sum", sum),
        "max": FoldType("text", "max", lambda texts: max(texts, key=str.encode)),
        "first": FoldType("blob", "first", lambda values: values[0]),
        "last": FoldType("text", "last", lambda values: values[-1]),
        "letters": FoldType("text", last_letters, lambda texts: functools.reduce(last_letters, texts)),
    },
    "aggregating": {
        "count": FoldType("object", "count", len),
        "mean": FoldType("small", "mean", lambda numbers: sum(numbers) / len(numbers)),
        "distinct": FoldType("text", "count_distinct", lambda texts: len(set(texts))),
        "collected": FoldType("int", "collect", list),
        "spread": FoldType("small", Spread(), lambda numbers: max(numbers) - min(numbers), {"result": int}),
    },
}
RESULTS = {name: fold.result for folds in FOLDS.values() for name, fold in folds.items()}


def types_of(kind: str) -> list[str]:
    """What a state of a kind may be of."""
    return sorted(FOLDS.get(kind, VALUES.keys() - {"small"}))


def values_of(kind: str, type: str) -> str:
    """The type of what is put into a state, or added to it."""
    return FOLDS[kind][type].of if kind in FOLDS else type


def open_state(keyed: sfkv.KeyedStateBackend, kind: str, name: str, type: str, user_key: Any) -> Any:
    """A state of a kind, of what ``type`` stands for."""
    if kind in FOLDS:
        fold = FOLDS[kind][type]
        return getattr(keyed, f"{kind}_state")(name, TYPES[fold.of], fold.fold, **fold.options)
    return getattr(keyed, f"{kind}_state")(name, *([user_key] if kind == "map" else []), TYPES[type])


_TEXT = st.characters(exclude_categories=["Cs"])
_INT64 = st.integers(-(2**63), 2**63 - 1)

TYPES: dict[str, Any] = {"int": int, "text": str, "record": Seen, "object": object, "blob": bytes, "small": int}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": _INT64,
    "small": st.integers(-(2**40), 2**40),
    "text": st.text(_TEXT, max_size=20),
    "record": st.builds(Seen, _INT64, st.none() | st.text(_TEXT, max_size=5), st.binary(max_size=5)),
    "object": st.recursive(
        st.integers(-5, 5) | st.text("ab", max_size=3), lambda inner: st.lists(inner, max_size=3), max_leaves=5
    ),
    # Some fill a memtable of 64 KiB by themselves.
    "blob": st.builds(bytes.__mul__, st.binary(min_size=1, max_size=2), st.sampled_from([0, 1, 100, 5000, 40_000])),
}


def random_value(rng: random.Random, type: str) -> Any:
    if type == "int":
        return rng.choice([0, -(2**63), 2**63 - 1, rng.randrange(1000)])
    if type == "small":
        return rng.randrange(-(2**40), 2**40)
    if type == "text":
        return rng.choice(["", "\0", "ü" * rng.randrange(200), chr(rng.randrange(0xD800)) * rng.randrange(2000)])
    if type == "record":
        return Seen(rng.randrange(100), rng.choice([None, "", "x" * rng.randrange(500)]), rng.randbytes(rng.randrange(300)))
    if type == "object":
        return rng.choice([0, "", [], {"a": [1, None, {"b": 2.5}]}, "y" * rng.randrange(1000), [rng.randrange(9)] * 20])
    return rng.randbytes(rng.choice([0, 1, 1000, 10_000, rng.randrange(30_000)]))


def plain(type: str, answers: Any) -> Any:
    """Values from an Arrow array, or from a list of objects."""
    if isinstance(answers, pa.Array):
        answers = answers.to_pylist()
    return [Seen(**answer) if type == "record" and isinstance(answer, dict) else answer for answer in answers]


def plain_lists(type: str, answers: Any) -> list[list[Any]]:
    if isinstance(answers, pa.Array):
        answers = answers.to_pylist()
    return [plain(type, answer) for answer in answers]


def plain_entries(type: str, answers: Any) -> list[list[tuple[Any, Any]]]:
    """What ``items_many`` gives, as pairs in its order."""
    maps = answers.to_pylist() if isinstance(answers, pa.Array) else [list(answer.items()) for answer in answers]
    keys = [[tuple(key.values()) if isinstance(key, dict) else key for key, _ in entries] for entries in maps]
    return [
        list(zip(map(canonical, of), plain(type, [value for _, value in entries]), strict=True))
        for of, entries in zip(keys, maps, strict=True)
    ]


def plain_rows(kind: Kind, state: str, type: str, table: pa.Table) -> list[tuple[Any, ...]]:
    """A scan's rows, in its order: (key,), (key, value) or (key, user key, value)."""
    width = len(kind.rows.schema.columns)
    columns = [column.to_pylist() for column in table.columns]
    parts = [[kind.key_of_cells(cells) for cells in zip(*columns[:width], strict=True)]]
    rest = columns[width:]
    if state == "map" and rest:
        parts.append([kind.key_of_cells(cells) for cells in zip(*rest[:width], strict=True)])
        rest = rest[width:]
    if rest and state == "list":
        parts.append([[_value(type, element) for element in elements] for elements in rest[0]])
    elif rest:
        parts.append([_value(type, cells if len(cells) > 1 else cells[0]) for cells in zip(*rest, strict=True)])
    return list(zip(*parts, strict=True))


def _value(type: str, cell: Any) -> Any:
    if type == "object" and isinstance(cell, bytes):
        return msgspec.msgpack.decode(cell)
    if type == "record":
        cells = tuple(cell.values()) if isinstance(cell, dict) else cell
        return None if cells[0] is None else Seen(*cells)
    return cell
