"""The shape of what stores and snapshots say of themselves in JSON. FORMAT.md sections 5 and 6.

Members that are not named here are passed over. What does not fit raises one of ``UNREADABLE``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from sfkv._types import KeySchema

# What bytes raise that are no JSON or msgpack, or have another shape; RecursionError where they nest too deeply.
UNREADABLE = (ValueError, TypeError, RecursionError)


class Column(msgspec.Struct):
    name: str
    type: str | dict[str, Any]  # of those that hold others: _types.describe_type
    nullable: bool
    default: str | msgspec.UnsetType = msgspec.UNSET


Columns = Annotated[list[Column], msgspec.Meta(min_length=1, max_length=1024)]


class Key(msgspec.Struct):
    columns: Columns
    record: bool
    hash: str
    group_by: list[str] | msgspec.UnsetType = msgspec.UNSET


class Value(msgspec.Struct):
    columns: Columns
    record: bool
    serializer: str | None
    older: list[Columns] | msgspec.UnsetType = msgspec.UNSET


class Table(msgspec.Struct):
    name: str
    kind: Literal["value", "list", "map", "table", "reducing", "aggregating", "payloads"]
    value: Value
    ttl: Any
    user_key: Key | msgspec.UnsetType = msgspec.UNSET
    key: Key | msgspec.UnsetType = msgspec.UNSET
    aggregate: str | msgspec.UnsetType | None = msgspec.UNSET  # of folds: a built-in, or null for what Python does
    accumulator: Value | msgspec.UnsetType = msgspec.UNSET
    dropping: bool | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.kind == "table" and self.key is msgspec.UNSET:
            raise ValueError(f"the table {self.name!r} does not tell its key")
        if (self.kind in ("reducing", "aggregating")) == (self.aggregate is msgspec.UNSET):
            raise ValueError(f"the state {self.name!r} is a {self.kind}, and tells its fold if it is one")


class Operator(msgspec.Struct):
    """What never changes in the life of a store."""

    key: Key
    max_parallelism: Annotated[int, msgspec.Meta(ge=1, le=32768)]
    key_groups: tuple[int, int]

    def __post_init__(self) -> None:
        first, last = self.key_groups
        if not 0 <= first <= last < self.max_parallelism:
            raise ValueError(f"the key groups {first} to {last} are not among {self.max_parallelism}")
        if self.key.group_by is not msgspec.UNSET:
            raise ValueError("the key of a backend is grouped by all its columns")
        described = msgspec.to_builtins(self.key)
        try:
            schema = KeySchema.parse(described)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the key has a column of a type that is none: {error!r}") from error
        if schema.describe() != described or not (self.key.record or len(self.key.columns) == 1):
            raise ValueError(f"the key {described} contradicts itself")

    @property
    def key_schema(self) -> KeySchema:
        return KeySchema.parse(msgspec.to_builtins(self.key))


read_operator = msgspec.json.Decoder(Operator).decode


def read_table(row: bytes) -> dict[str, Any]:
    """The description of a state, as it was stored."""
    msgspec.json.decode(row, type=Table)
    stored: dict[str, Any] = msgspec.json.decode(row)
    return stored
