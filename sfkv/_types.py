"""What keys and values are made of: columns of pyarrow's types, Python's short names for them, and named serializers.

A schema describes itself as JSON, which is stored with the state and compared when the state is opened again.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import types
import typing
from typing import Any

import msgspec
import pyarrow as pa

from sfkv._errors import SchemaError

# Types without parameters, by the names that are stored.
_PLAIN = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "utf8": pa.utf8(),
    "large_utf8": pa.large_utf8(),
    "utf8_view": pa.string_view(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "binary_view": pa.binary_view(),
    "date32": pa.date32(),
    "date64": pa.date64(),
}
_NAMES = {arrow: name for name, arrow in _PLAIN.items()}
_SIZED = re.compile(r"(time32|time64|timestamp|duration|decimal128|decimal256|fixed_size_binary)\[(.*)\]")

_MAX_COLUMNS = 1024
_MAX_LIST_SIZE = 1 << 24

# A type may hold types, which may hold types, ...: so deep, itself counted. kMaxTypeDepth in include/sfkv/type.h.
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
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, self.nullable)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "type": describe_type(self.type), "nullable": self.nullable}

    @classmethod
    def of(cls, field: pa.Field) -> Column:
        return cls(field.name, field.type, field.nullable)

    @classmethod
    def parse(cls, description: dict[str, Any]) -> Column:
        return cls(description["name"], parse_type(description["type"]), description["nullable"])


def describe_type(arrow: pa.DataType) -> str | dict[str, Any]:
    """What is stored of a type that sfkv supports. FORMAT.md section 5."""
    types = pa.types
    if arrow in _NAMES:
        return _NAMES[arrow]
    if types.is_struct(arrow):
        return {"struct": [Column.of(field).describe() for field in arrow]}
    if types.is_map(arrow):
        return {
            "map": [Column.of(arrow.key_field).describe(), Column.of(arrow.item_field).describe()],
            "sorted": arrow.keys_sorted,
        }
    if types.is_fixed_size_list(arrow):
        return {"fixed_size_list": Column.of(arrow.value_field).describe(), "size": arrow.list_size}
    if types.is_list(arrow) or types.is_large_list(arrow):
        return {"list" if types.is_list(arrow) else "large_list": Column.of(arrow.value_field).describe()}
    if types.is_fixed_size_binary(arrow) and not types.is_decimal(arrow):
        return f"fixed_size_binary[{arrow.byte_width}]"
    if types.is_decimal(arrow):
        return f"decimal{arrow.bit_width}[{arrow.precision}, {arrow.scale}]"
    zone = f", tz={arrow.tz}" if types.is_timestamp(arrow) and arrow.tz is not None else ""
    kind = "timestamp" if types.is_timestamp(arrow) else "duration" if types.is_duration(arrow) else f"time{arrow.bit_width}"
    return f"{kind}[{arrow.unit}{zone}]"


def parse_type(description: str | dict[str, Any]) -> pa.DataType:
    """The type that ``describe_type`` described.

    Raises:
        KeyError, ValueError, TypeError: it is none.
    """
    if isinstance(description, str):
        return _PLAIN[description] if description in _PLAIN else _parse_sized(description)
    if "struct" in description:
        return pa.struct([Column.parse(column).field for column in description["struct"]])
    if "map" in description:
        key, item = (Column.parse(column).field for column in description["map"])
        return pa.map_(key, item, keys_sorted=description["sorted"])
    if "fixed_size_list" in description:
        return pa.list_(Column.parse(description["fixed_size_list"]).field, description["size"])
    if "large_list" in description:
        return pa.large_list(Column.parse(description["large_list"]).field)
    return pa.list_(Column.parse(description["list"]).field)


def _parse_sized(name: str) -> pa.DataType:
    matched = _SIZED.fullmatch(name)
    if matched is None:
        raise KeyError(name)
    kind, inside = matched.groups()
    if kind == "fixed_size_binary":
        return pa.binary(int(inside))
    if kind.startswith("decimal"):
        precision, scale = map(int, inside.split(","))
        return (pa.decimal128 if kind == "decimal128" else pa.decimal256)(precision, scale)
    unit, _, zone = inside.partition(", tz=")
    if kind == "timestamp":
        return pa.timestamp(unit, tz=zone or None)
    made: pa.DataType = {"time32": pa.time32, "time64": pa.time64, "duration": pa.duration}[kind](unit)
    return made


class KeySchema:
    """The columns of a key.

    Args:
        columns: what they are, in order.
        is_record: whether a key is a tuple of its columns, rather than one plain value.
    """

    def __init__(self, columns: list[Column], is_record: bool) -> None:
        self.columns = columns
        self.is_record = is_record
        java = len(columns) == 1 and not columns[0].nullable and is_java_hashed(columns[0].type)
        self.hash = "java" if java else "murmur3"

    @classmethod
    def of(cls, key: Any, name: str = "key") -> KeySchema:
        """The schema that a user's ``key=`` names: a type, or a pyarrow schema, struct type, or dict of several.

        ``name`` is what the one column is called, where there is one: "key", or "user_key" for a map's.
        """
        columns = _record_columns(key, "key")
        if columns is None:
            return cls([Column(name, _plain_type(key, "key"), nullable=False)], is_record=False)
        return cls(columns, is_record=True)

    @property
    def arrow(self) -> pa.DataType:
        return _arrow(self.columns, self.is_record)

    @property
    def record_arrow(self) -> pa.DataType:
        return _arrow(self.columns, is_record=True)

    def describe(self) -> dict[str, Any]:
        return {"columns": [column.describe() for column in self.columns], "record": self.is_record, "hash": self.hash}

    @classmethod
    def parse(cls, description: dict[str, Any]) -> KeySchema:
        return cls(_parse_columns(description), description["record"])

    def __str__(self) -> str:
        return _text(self.columns, self.is_record)


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
    return description.get("serializer") or _text(_parse_columns(description), description["record"])


def type_text(arrow: pa.DataType) -> str:
    """A type as errors show it."""
    described = describe_type(arrow)
    if isinstance(described, str):
        return described
    if pa.types.is_map(arrow):
        return f"map<{type_text(arrow.key_type)}, {type_text(arrow.item_type)}>"
    inside = ", ".join(_field_text(Column.of(arrow.field(i))) for i in range(arrow.num_fields))
    size = f", {arrow.list_size}" if pa.types.is_fixed_size_list(arrow) else ""
    return f"{next(iter(described))}<{inside}{size}>"


def _field_text(column: Column) -> str:
    return f"{column.name}: {type_text(column.type)}{'' if column.nullable else ' not null'}"


def _text(columns: list[Column], is_record: bool) -> str:
    return f"struct<{', '.join(map(_field_text, columns))}>" if is_record else type_text(columns[0].type)


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
        raise SchemaError(f"{where} type {wanted!r} is not known: pass a pyarrow type, or one of {names}")
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
    if arrow in _NAMES:
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
        f"{where} type {arrow} is not supported: use bool, int, uint, float, decimal128 or decimal256, date, time, "
        + "timestamp, duration, utf8, binary or fixed-size binary"
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
    if not 1 <= len(fields) <= _MAX_COLUMNS:
        raise SchemaError(f"the {where} has {len(fields)} columns, and must have 1 to {_MAX_COLUMNS}")
    names = [name for name, _, _ in fields]
    if len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"the {where}'s column names are not different texts: {names}")
    return [
        Column(name, _plain_type(type, f"{where} column {name!r}", nullable=nullable), nullable)
        for name, type, nullable in fields
    ]


def _split_optional(hint: Any) -> tuple[Any, bool]:
    """``int | None`` is a nullable int."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(rest) == 1 and len(rest) < len(typing.get_args(hint)):
            return rest[0], True
    return hint, False
