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
from sfkv._stored_types import NO_DEFAULT, TYPE_NAMES, Column, field_text, type_text
from sfkv.config._options import chosen_columns

_MAX_COLUMNS = 1024
_MAX_LIST_SIZE = 1 << 24

# A type may hold types, which may hold types, ...: so deep, itself counted. The core reads one more (type.h).
MAX_TYPE_DEPTH = 16

_SHORT_NAMES: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.utf8(),
    bytes: pa.binary(),
    dt.datetime: pa.timestamp("us"),
    dt.date: pa.date32(),
    dt.time: pa.time64("us"),
    dt.timedelta: pa.duration("us"),
}


def is_java_hashed(arrow: pa.DataType) -> bool:
    """Whether keys of this type are hashed as Flink hashes them."""
    return arrow in (pa.int32(), pa.int64(), pa.utf8(), pa.large_utf8(), pa.string_view())


class Msgpack:
    """Values that are Python objects, stored as msgpack by msgspec.

    Args:
        type: what to decode to, as msgspec understands it: ``dict``, ``list[int]``, a dataclass, a ``msgspec.Struct``.
            The default keeps what msgpack has: numbers, text, bytes, lists, dicts, None.

    Raises:
        SchemaError: ``type`` is no type that msgspec knows; on reading, if what is stored is not of it; on writing, if msgpack
            cannot hold the object.
    """

    name = "msgpack"

    def __init__(self, type: Any = Any) -> None:
        self.type = type
        try:
            self._decode = msgspec.msgpack.Decoder(type).decode
        except TypeError as error:
            text = f"msgpack cannot be decoded to {type!r}: pass a class, or a type such as list[int] ({error})"
            raise SchemaError(text) from error
        self.is_live = False  # its bytes are what is stored
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


class Serializer(typing.Protocol):
    """What makes bytes of objects, and objects of bytes."""

    @property
    def name(self) -> str | None:
        """As the registry knows it."""

    @property
    def is_live(self) -> bool:
        """Whether the objects themselves live in memory, and its bytes are made for files only."""

    def dumps(self, value: Any) -> bytes: ...

    def loads(self, encoded: bytes) -> Any: ...


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
        java = len(hashed) == 1 and not hashed[0].nullable and is_java_hashed(hashed[0].type)
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

    Attributes:
        older: the columns of earlier versions, which rows may have been written by.
        defaults: by column, the cell that rows of versions without it are read with.
    """

    def __init__(self, columns: list[Column], is_record: bool, serializer: Serializer | None = None, make: Any = None) -> None:
        self.columns = columns
        self.is_record = is_record
        self.serializer = serializer
        self.make = make
        self.older: list[list[Column]] = []
        self.defaults: dict[str, bytes] = {}

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

    @classmethod
    def parse(cls, description: dict[str, Any]) -> ValueSchema:
        """The columns of a stored description, as they are stored: where there is a serializer, its bytes."""
        return cls(_parse_columns(description), description["record"])

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
    return f"struct<{', '.join(map(field_text, columns))}>" if is_record else type_text(columns[0].type)


def _group_text(group_by: list[str] | None) -> str:
    return "" if group_by is None else f" grouped by {', '.join(group_by)}"


def _check_group(group_by: Sequence[str] | str, names: list[str]) -> list[str] | None:
    """The columns that make the key group; None if they are all of them in their own order."""
    group = chosen_columns(group_by, "group_by", names)
    return None if group == names else group


def _arrow(columns: list[Column], is_record: bool) -> pa.DataType:
    return pa.struct([column.field for column in columns]) if is_record else columns[0].type


def _parse_columns(description: dict[str, Any]) -> list[Column]:
    return [Column.parse(column) for column in description["columns"]]


def _is_struct(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, msgspec.Struct)


def _plain_type(wanted: Any, where: str, *, nullable: bool = False) -> pa.DataType:
    """The type that a user names by itself or by a short name, as it is stored."""
    try:
        arrow = _SHORT_NAMES.get(wanted, wanted)
    except TypeError:
        arrow = wanted
    if not isinstance(arrow, pa.DataType):
        names = ", ".join(getattr(name, "__name__", str(name)) for name in _SHORT_NAMES)
        has_arrow = isinstance(getattr(wanted, "arrow", None), pa.DataType)
        hint = "; of sfkv.flink's types, their .arrow" if has_arrow else ""
        raise SchemaError(f"{where} type {wanted!r} is not known: pass a pyarrow type, or one of {names}{hint}")
    return _stored_type(arrow, where, nullable, 1)


def _stored_type(arrow: pa.DataType, where: str, nullable: bool, depth: int) -> pa.DataType:
    """The type without dictionaries, which are stored by value. Refuses what sfkv does not have, by its path."""
    types = pa.types
    if types.is_dictionary(arrow):
        return _stored_type(arrow.value_type, where, nullable, depth)
    if depth > MAX_TYPE_DEPTH:
        raise SchemaError(f"{where} is nested more than {MAX_TYPE_DEPTH} types deep")
    is_key = where.startswith("key")
    if types.is_null(arrow) and not (nullable and not is_key):
        raise SchemaError(f"{where} type null can hold nothing: it is for columns of values, fields and items that may be null")
    if arrow in TYPE_NAMES:
        return arrow
    is_sized = types.is_temporal(arrow) or types.is_decimal128(arrow) or types.is_decimal256(arrow)
    if is_sized or (types.is_fixed_size_binary(arrow) and not types.is_decimal(arrow) and arrow.byte_width > 0):
        if not types.is_interval(arrow):
            return arrow
    elif not is_key:
        nested = _stored_nested(arrow, where, depth)
        if nested is not None:
            return nested
    raise SchemaError(
        f"{where} type {arrow} is not supported: use bool, int, uint, float, decimal128 or decimal256, date, time, timestamp, "
        + "duration, utf8, binary or fixed-size binary"
        + ("" if is_key else ", lists, maps and structs of them, or sfkv.Msgpack() for objects")
    )


def _stored_nested(arrow: pa.DataType, where: str, depth: int) -> pa.DataType | None:
    """The same for a type that holds others; None if it is none."""
    types = pa.types

    inner = depth + (2 if types.is_map(arrow) else 1)  # a map holds structs of its keys and values

    def stored(field: pa.Field, of: str) -> pa.Field:
        return field.with_type(_stored_type(field.type, f"{where}.{of}", field.nullable, inner)).remove_metadata()

    if types.is_struct(arrow):
        _check_fields([field.name for field in arrow], where)
        return pa.struct([stored(field, field.name) for field in arrow])
    if types.is_map(arrow):
        return pa.map_(stored(arrow.key_field, "key"), stored(arrow.item_field, "value"), keys_sorted=arrow.keys_sorted)
    if types.is_fixed_size_list(arrow):
        if not 1 <= arrow.list_size <= _MAX_LIST_SIZE:
            raise SchemaError(
                f"{where} is a list of {arrow.list_size} items: use 1 to {_MAX_LIST_SIZE}, or a list of any length"
            )
        return pa.list_(stored(arrow.value_field, "item"), arrow.list_size)
    if types.is_large_list(arrow):
        return pa.large_list(stored(arrow.value_field, "item"))
    if types.is_list(arrow):
        return pa.list_(stored(arrow.value_field, "item"))
    return None


def _check_fields(names: list[str], where: str) -> None:
    if not 1 <= len(names) <= _MAX_COLUMNS:
        count = f"of {len(names)} fields" if names else "without fields"
        raise SchemaError(f"{where} is a struct {count}: it must have 1 to {_MAX_COLUMNS}")
    for place, name in enumerate(names):
        if name in names[:place]:
            raise SchemaError(f"{where} is a struct with the field {name!r} twice: give each another name")


def _record_columns(wanted: Any, where: str) -> list[Column] | None:
    """The columns of a schema, struct type, dict or class; None if ``wanted`` names one plain type."""
    fields = _fields(wanted, where)
    if fields is None:
        return None
    if not 1 <= len(fields) <= _MAX_COLUMNS:
        raise SchemaError(f"the {where} has {len(fields)} columns, and must have 1 to {_MAX_COLUMNS}")
    names = [name for name, *_ in fields]
    if len(set(names)) != len(names) or not all(map(_is_text, names)):
        raise SchemaError(f"the {where}'s column names are not different texts: {names}")
    return [
        Column(name, _plain_type(type, f"{where} column {name!r}", nullable=nullable), nullable, default)
        for name, type, nullable, default in fields
    ]


def _is_text(name: Any) -> bool:
    """Whether it is a text of whole characters, which UTF-8 has."""
    return isinstance(name, str) and not any("\ud800" <= character <= "\udfff" for character in name)


def _fields(wanted: Any, where: str) -> list[tuple[str, Any, bool, Any]] | None:
    """Name, type, whether it may be null, and default of each column."""
    if (isinstance(wanted, pa.DataType) and pa.types.is_struct(wanted)) or isinstance(wanted, pa.Schema):
        return [(field.name, field.type, field.nullable, _arrow_default(field, where)) for field in wanted]
    if isinstance(wanted, dict):
        return [(name, *_split_optional(type), NO_DEFAULT) for name, type in wanted.items()]
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        hints = typing.get_type_hints(wanted)
        return [
            (
                field.name,
                *_split_optional(hints[field.name]),
                NO_DEFAULT if field.default is dataclasses.MISSING else field.default,
            )
            for field in dataclasses.fields(wanted)
            if field.init
        ]
    if _is_struct(wanted):
        hints = typing.get_type_hints(wanted)
        return [(field.name, *_split_optional(hints[field.name]), field.default) for field in msgspec.structs.fields(wanted)]
    return None


def _arrow_default(field: pa.Field, where: str) -> Any:
    """What a field's metadata give as its default, in JSON."""
    text = (field.metadata or {}).get(b"default")
    if text is None:
        return NO_DEFAULT
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise SchemaError(f"the default of {where} column {field.name!r} is no JSON: {text!r}", column=field.name) from error


def _split_optional(hint: Any) -> tuple[Any, bool]:
    """``int | None`` is a nullable int."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(rest) == 1 and len(rest) < len(typing.get_args(hint)):
            return rest[0], True
    return hint, False
