"""Columns and their types as they are stored with a state, in JSON, and as errors show them. FORMAT.md section 5."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import msgspec
import pyarrow as pa

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
TYPE_NAMES = {arrow: name for name, arrow in _PLAIN.items()}
_SIZED = re.compile(r"(time32|time64|timestamp|duration|decimal128|decimal256|fixed_size_binary)\[(.*)\]")

# A column without a default.
NO_DEFAULT: Any = msgspec.NODEFAULT


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a key or value. ``default``: what rows have that were written before it was added."""

    name: str
    type: pa.DataType
    nullable: bool
    default: Any = NO_DEFAULT

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
    if arrow in TYPE_NAMES:
        return TYPE_NAMES[arrow]
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


def type_text(arrow: pa.DataType) -> str:
    """A type as errors show it."""
    described = describe_type(arrow)
    if isinstance(described, str):
        return described
    if pa.types.is_map(arrow):
        return f"map<{type_text(arrow.key_type)}, {type_text(arrow.item_type)}>"
    inside = ", ".join(field_text(Column.of(arrow.field(i))) for i in range(arrow.num_fields))
    size = f", {arrow.list_size}" if pa.types.is_fixed_size_list(arrow) else ""
    return f"{next(iter(described))}<{inside}{size}>"


def field_text(column: Column) -> str:
    return f"{column.name}: {type_text(column.type)}{'' if column.nullable else ' not null'}"
