"""What keys and values are made of: columns of pyarrow's types, Python's short names for them, and named serializers.

A schema describes itself as JSON, which is stored with the state and compared when the state is opened again.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import types
import typing
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from sfkv._errors import SchemaError

# How a cell lies in memory: the values of CellType in include/sfkv/column.h.
_BOOL, _INT8, _INT16, _INT32, _INT64, _FLOAT32, _FLOAT64, _UTF8, _BINARY = range(9)

_TYPES: dict[str, tuple[pa.DataType, int]] = {
    "bool": (pa.bool_(), _BOOL),
    "int8": (pa.int8(), _INT8),
    "int16": (pa.int16(), _INT16),
    "int32": (pa.int32(), _INT32),
    "int64": (pa.int64(), _INT64),
    "float32": (pa.float32(), _FLOAT32),
    "float64": (pa.float64(), _FLOAT64),
    "utf8": (pa.utf8(), _UTF8),
    "binary": (pa.binary(), _BINARY),
    "date32": (pa.date32(), _INT32),
}
_NAMES = {arrow: name for name, (arrow, _) in _TYPES.items()}

_SHORT_NAMES: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.utf8(),
    bytes: pa.binary(),
    dt.datetime: pa.timestamp("us"),
    dt.date: pa.date32(),
}

_JAVA_HASHED = (pa.int32(), pa.int64(), pa.utf8())


class Msgpack:
    """Values that are Python objects, stored as msgpack by msgspec.

    Args:
        type: what to decode to, as msgspec understands it: ``dict``, ``list[int]``, a dataclass, a ``msgspec.Struct``.
            The default keeps what msgpack has: numbers, text, bytes, lists, dicts, None.

    Raises:
        SchemaError: on reading, if what is stored is not of that type; on writing, if msgpack cannot hold it.
    """

    name = "msgpack"

    def __init__(self, type: Any = Any) -> None:
        self.type = type
        self._decode = msgspec.msgpack.Decoder(type).decode
        self._encode = msgspec.msgpack.Encoder().encode

    def __repr__(self) -> str:
        return f"Msgpack({'' if self.type is Any else getattr(self.type, '__name__', self.type)})"

    def dumps(self, value: object) -> bytes:
        try:
            return self._encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SchemaError(f"msgpack cannot hold {type(value).__name__}: {error}") from error

    def loads(self, encoded: bytes) -> Any:
        try:
            return self._decode(encoded)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise SchemaError(f"what is stored is no msgpack of {self.type!r}: {error}") from error


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a key or value."""

    name: str
    type: pa.DataType
    nullable: bool

    @property
    def cell_type(self) -> int:
        return _INT64 if pa.types.is_timestamp(self.type) else _TYPES[_NAMES[self.type]][1]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "type": type_name(self.type), "nullable": self.nullable}


def type_name(arrow: pa.DataType) -> str:
    """The name that is stored for a type that sfkv supports."""
    if pa.types.is_timestamp(arrow):
        return f"timestamp[{arrow.unit}]" if arrow.tz is None else f"timestamp[{arrow.unit}, tz={arrow.tz}]"
    return _NAMES[arrow]


def parse_type_name(name: str) -> pa.DataType:
    if name.startswith("timestamp["):
        unit, _, zone = name[len("timestamp[") : -1].partition(", tz=")
        return pa.timestamp(unit, tz=zone or None)
    return _TYPES[name][0]


class KeySchema:
    """The columns of a key.

    Args:
        columns: what they are, in order.
        is_record: whether a key is a tuple of its columns, rather than one plain value.
        group_by: the names of those that make the key group, in this order; None for all.

    Raises:
        SchemaError: ``group_by`` names no column, one twice, or one that there is not.
    """

    def __init__(self, columns: list[Column], is_record: bool, group_by: Sequence[str] | None = None) -> None:
        self.columns = columns
        self.is_record = is_record
        names = [column.name for column in columns]
        self.group_by = None if group_by is None else _check_group(group_by, names)
        # Where these columns stand; empty for all of them.
        self.group_indices = [] if self.group_by is None else [names.index(name) for name in self.group_by]
        hashed = [columns[i] for i in self.group_indices] or columns
        java = len(hashed) == 1 and not hashed[0].nullable and hashed[0].type in _JAVA_HASHED
        self.hash = "java" if java else "murmur3"

    @classmethod
    def of(cls, key: Any, name: str = "key", group_by: Sequence[str] | str | None = None) -> KeySchema:
        """The schema that a user's ``key=`` names: a type, or a pyarrow schema, struct type, or dict of several.

        ``name`` is what the one column is called, where there is one: "key", or "user_key" for a map's.
        """
        columns = _record_columns(key, "key")
        if columns is None:
            return cls([Column(name, _plain_type(key, "key"), nullable=False)], is_record=False, group_by=group_by)
        return cls(columns, is_record=True, group_by=group_by)

    @property
    def arrow(self) -> pa.DataType:
        return _arrow(self.columns, self.is_record)

    @property
    def record_arrow(self) -> pa.DataType:
        return _arrow(self.columns, is_record=True)

    def describe(self) -> dict[str, Any]:
        described = {"columns": [column.describe() for column in self.columns], "record": self.is_record, "hash": self.hash}
        return described if self.group_by is None else {**described, "group_by": self.group_by}

    @classmethod
    def parse(cls, description: dict[str, Any]) -> KeySchema:
        return cls(_parse_columns(description), description["record"], description.get("group_by"))

    def __str__(self) -> str:
        return _text(self.columns, self.is_record) + _group_text(self.group_by)


class ValueSchema:
    """The columns of a value, or the serializer that makes bytes of it.

    Args:
        columns: what they are, in order.
        is_record: whether a value is a dict of its columns, rather than one plain value.
        serializer: turns a value into the bytes of the one binary column.
        make: builds what users get from a record's columns; the default is a dict.
    """

    def __init__(self, columns: list[Column], is_record: bool, serializer: Msgpack | None = None, make: Any = None) -> None:
        self.columns = columns
        self.is_record = is_record
        self.serializer = serializer
        self.make = make

    @classmethod
    def of(cls, value: Any) -> ValueSchema:
        """The schema that a user's type names."""
        if value is object:
            value = Msgpack()
        elif value is dict or value is list or typing.get_origin(value) in (dict, list):
            value = Msgpack(value)
        if isinstance(value, Msgpack):
            return cls([Column("value", pa.binary(), nullable=False)], is_record=False, serializer=value)
        columns = _record_columns(value, "value")
        if columns is None:
            return cls([Column("value", _plain_type(value, "value"), nullable=False)], is_record=False)
        is_class = dataclasses.is_dataclass(value) or _is_struct(value)
        return cls(columns, is_record=True, make=value if is_class else None)

    @property
    def arrow(self) -> pa.DataType:
        return _arrow(self.columns, self.is_record)

    @property
    def record_arrow(self) -> pa.DataType:
        return _arrow(self.columns, is_record=True)

    def describe(self) -> dict[str, Any]:
        return {
            "columns": [column.describe() for column in self.columns],
            "record": self.is_record,
            "serializer": None if self.serializer is None else self.serializer.name,
        }

    @property
    def item(self) -> pa.Field:
        """A list's element in Arrow."""
        return pa.field("item", self.arrow, nullable=False)

    def scan_arrow(self, of_lists: bool) -> pa.DataType:
        """What a scan gives: the value's columns, or one column of lists."""
        return pa.struct([pa.field("value", pa.list_(self.item), nullable=False)]) if of_lists else self.record_arrow

    def __str__(self) -> str:
        return "msgpack" if self.serializer is not None else _text(self.columns, self.is_record)


def describe_text(description: dict[str, Any]) -> str:
    """A stored description as errors show it."""
    text = description.get("serializer") or _text(_parse_columns(description), description["record"])
    return text + _group_text(description.get("group_by"))


def _text(columns: list[Column], is_record: bool) -> str:
    if not is_record:
        return type_name(columns[0].type)
    fields = (f"{c.name}: {type_name(c.type)}{'' if c.nullable else ' not null'}" for c in columns)
    return f"struct<{', '.join(fields)}>"


def _group_text(group_by: list[str] | None) -> str:
    return "" if group_by is None else f" grouped by {', '.join(group_by)}"


def _check_group(group_by: Sequence[str] | str, names: list[str]) -> list[str] | None:
    """The columns that make the key group; None if they are all of them in their own order."""
    group = [group_by] if isinstance(group_by, str) else list(group_by)
    if not group or not all(group.count(name) == 1 and name in names for name in group):
        raise SchemaError(f"group_by is {group_by!r}: name one or more of the key's columns, each once: {', '.join(names)}")
    return None if group == names else group


def _arrow(columns: list[Column], is_record: bool) -> pa.DataType:
    if not is_record:
        return columns[0].type
    return pa.struct([pa.field(c.name, c.type, c.nullable) for c in columns])


def _parse_columns(description: dict[str, Any]) -> list[Column]:
    return [Column(c["name"], parse_type_name(c["type"]), c["nullable"]) for c in description["columns"]]


def _is_struct(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, msgspec.Struct)


def _plain_type(wanted: Any, where: str) -> pa.DataType:
    try:
        arrow = _SHORT_NAMES.get(wanted, wanted)
    except TypeError:
        arrow = wanted
    if not isinstance(arrow, pa.DataType):
        names = ", ".join(getattr(name, "__name__", str(name)) for name in _SHORT_NAMES)
        raise SchemaError(f"{where} type {wanted!r} is not known: pass a pyarrow type, or one of {names}")
    if arrow not in _NAMES and not pa.types.is_timestamp(arrow):
        raise SchemaError(
            f"{where} type {arrow} is not supported: use one of {', '.join(_TYPES)}, timestamp"
            + (", or sfkv.Msgpack() for objects" if where != "key" else "")
        )
    return arrow


def _record_columns(wanted: Any, where: str) -> list[Column] | None:
    """The columns of a schema, struct type, dict or class; None if ``wanted`` names one plain type."""
    if (isinstance(wanted, pa.DataType) and pa.types.is_struct(wanted)) or isinstance(wanted, pa.Schema):
        fields = [(field.name, field.type, field.nullable) for field in wanted]
    elif isinstance(wanted, dict):
        fields = [(name, *_split_optional(type)) for name, type in wanted.items()]
    elif dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        hints = typing.get_type_hints(wanted)
        fields = [(field.name, *_split_optional(hints[field.name])) for field in dataclasses.fields(wanted) if field.init]
    elif _is_struct(wanted):
        hints = typing.get_type_hints(wanted)
        fields = [(name, *_split_optional(hints[name])) for name in wanted.__struct_fields__]
    else:
        return None
    if not 1 <= len(fields) <= 1024:
        raise SchemaError(f"the {where} has {len(fields)} columns, and must have 1 to 1024")
    names = [name for name, _, _ in fields]
    if len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"the {where}'s column names are not different texts: {names}")
    return [Column(name, _plain_type(type, f"{where} column {name!r}"), nullable) for name, type, nullable in fields]


def _split_optional(hint: Any) -> tuple[Any, bool]:
    """``int | None`` is a nullable int."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(rest) == 1 and len(rest) < len(typing.get_args(hint)):
            return rest[0], True
    return hint, False
