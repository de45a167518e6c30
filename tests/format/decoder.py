"""The rows of keys and values, written and read slowly, from FORMAT.md alone (sections 2 to 5). Standard library only.

Schemas are what the registry stores: ``{"columns": [{"name": ..., "type": ..., "nullable": ...}], "record": ...}``. Values are
plain, so that nothing is lost on the way: whole numbers for integers, dates, times, timestamps and durations in their unit; the
bits of a float and the unscaled number of a decimal, both as whole numbers; ``bool``, ``str``, ``bytes``; a list of its fields
for a struct, of its items for a list, of ``[key, value]`` for a map; None for null. A key is the list of its columns, and so is
a value.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

Description = dict[str, Any]  # of a column, or of a schema


class Malformed(Exception):
    """Bytes that are no row of the schema."""


# --- Types: section 5 has their names, sections 3 and 4 what they are in rows.

_SIGNED = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "date32": 4, "date64": 8, "time32": 4, "time64": 8}
_SIGNED |= {"timestamp": 8, "duration": 8, "decimal128": 16, "decimal256": 32}
_UNSIGNED = {"uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8}
_FLOATS = {"float16": 2, "float32": 4, "float64": 8}
_INFINITIES = {"float16": 0x7C00, "float32": 0x7F800000, "float64": 0x7FF0000000000000}
_TEXTS = {"utf8", "large_utf8", "utf8_view"}
_BINARIES = {"binary", "large_binary", "binary_view"}
_ITEM = {"list", "large_list", "fixed_size_list"}


def kind_of(type: str | Description) -> str:
    """A type's name, without its parameters."""
    return type.split("[")[0] if isinstance(type, str) else next(name for name in (*_ITEM, "struct", "map") if name in type)


def is_variable(type: str | Description) -> bool:
    return not isinstance(type, str) or type in _TEXTS or type in _BINARIES


def width_of(type: str | Description) -> int:
    """Bytes of a cell of fixed width."""
    kind = kind_of(type)
    if kind == "null":
        return 0
    if kind == "bool":
        return 1
    if kind == "fixed_size_binary":
        return int(re.search(r"\[(\d+)\]", str(type)).group(1))  # type: ignore[union-attr]
    return (_SIGNED | _UNSIGNED | _FLOATS)[kind]


def item_of(type: Description) -> Description:
    """The column that a list's items, or a map's entries, are of."""
    if "map" in type:
        return {"name": "entries", "type": {"struct": type["map"]}, "nullable": False}
    return next(type[name] for name in _ITEM if name in type)


# --- Section 3: keys.


def encode_key_row(schema: Description, key: list[Any]) -> bytes:
    row = b""
    for column, value in zip(schema["columns"], key, strict=True):
        if column["nullable"]:
            row += b"\0" if value is None else b"\1"
        if value is not None:
            row += ordered(column["type"], value)
        elif not column["nullable"]:
            raise ValueError(f"{column['name']} is null")
    return row


def ordered(type: str, value: Any) -> bytes:
    kind = kind_of(type)
    if kind in _TEXTS:
        value = value.encode()
    if is_variable(type):
        return value.replace(b"\0", b"\0\xff") + b"\0\0"
    if kind == "bool":
        return bytes([value])
    if kind == "fixed_size_binary":
        return value
    bits = 8 * width_of(type)
    if kind in _SIGNED:
        value += 1 << (bits - 1)  # the same as flipping the sign bit of two's complement
    if kind in _FLOATS:
        value = _ordered_float(kind, value, 1 << (bits - 1))
    return value.to_bytes(bits // 8, "big")


def _ordered_float(kind: str, bits: int, sign: int) -> int:
    magnitude = bits & (sign - 1)
    if magnitude > _INFINITIES[kind]:
        return sign | (sign - 1)
    if magnitude == 0:
        return sign  # -0.0 too
    return (sign | (sign - 1)) ^ bits if bits & sign else bits | sign


def decode_key_row(schema: Description, row: bytes) -> list[Any]:
    key = []
    for column in schema["columns"]:
        value, row = _take_key_cell(column, row)
        key.append(value)
    if row:
        raise Malformed
    return key


def _take_key_cell(column: Description, row: bytes) -> tuple[Any, bytes]:
    type = column["type"]
    if column["nullable"]:
        if not row or row[0] > 1:
            raise Malformed
        if row[0] == 0:
            return None, row[1:]
        row = row[1:]
    if is_variable(type):
        return _take_ordered_text(type, row)
    width = width_of(type)
    if len(row) < width:
        raise Malformed
    value = _from_ordered(type, row[:width])
    if ordered(type, value) != row[:width]:
        raise Malformed
    return value, row[width:]


def _take_ordered_text(type: str, row: bytes) -> tuple[Any, bytes]:
    text = bytearray()
    at = 0
    while row[at : at + 2] != b"\0\0":
        if at >= len(row) or (row[at] == 0 and row[at + 1 : at + 2] != b"\xff"):
            raise Malformed
        text.append(row[at])
        at += 1 if row[at] else 2
    return bytes(text).decode() if type in _TEXTS else bytes(text), row[at + 2 :]


def _from_ordered(type: str, cell: bytes) -> Any:
    kind = kind_of(type)
    if kind == "fixed_size_binary":
        return cell
    if kind == "bool":
        return bool(cell[0])
    number = int.from_bytes(cell, "big")
    sign = 1 << (8 * len(cell) - 1)
    if kind in _SIGNED:
        return number - sign
    if kind in _FLOATS:
        if number == sign | (sign - 1):
            return _INFINITIES[kind] | (_INFINITIES[kind] >> 1)  # NaN
        return number ^ sign if number & sign else number ^ (sign | (sign - 1))
    return number


# --- Section 4: values.


def encode_value_row(schema: Description, value: list[Any]) -> bytes:
    """A row of the schema's newest version."""
    version = bytes([len(schema.get("older", ()))]) if schema["record"] else b""
    return version + encode_record(schema["columns"], value)


def encode_record(columns: list[Description], values: list[Any]) -> bytes:
    nulls = _bits([value is None for column, value in zip(columns, values, strict=True) if column["nullable"]])
    fixed = b"".join(
        _fixed_cell(column["type"], value)
        for column, value in zip(columns, values, strict=True)
        if not is_variable(column["type"])
    )
    variable = [
        _variable_cell(column["type"], value)
        for column, value in zip(columns, values, strict=True)
        if is_variable(column["type"])
    ]
    return nulls + fixed + _with_ends(variable)


def _encode_items(item: Description, values: list[Any]) -> bytes:
    nulls = _bits([value is None for value in values]) if item["nullable"] else b""
    if is_variable(item["type"]):
        return nulls + _with_ends([_variable_cell(item["type"], value) for value in values])
    return nulls + b"".join(_fixed_cell(item["type"], value) for value in values)


def _with_ends(cells: list[bytes]) -> bytes:
    ends = b""
    end = 0
    for cell in cells[:-1]:
        end += len(cell)
        ends += end.to_bytes(4, "little")
    return ends + b"".join(cells)


def _bits(flags: list[bool]) -> bytes:
    return sum(flag << i for i, flag in enumerate(flags)).to_bytes((len(flags) + 7) // 8, "little")


def _fixed_cell(type: str, value: Any) -> bytes:
    kind = kind_of(type)
    if value is None:
        return bytes(width_of(type))
    if kind == "fixed_size_binary":
        return value
    return int(value).to_bytes(width_of(type), "little", signed=kind in _SIGNED)


def _variable_cell(type: str | Description, value: Any) -> bytes:
    if value is None:
        return b""
    kind = kind_of(type)
    if isinstance(type, str):
        return value.encode() if kind in _TEXTS else value
    if kind == "struct":
        return encode_record(type["struct"], value)
    items = _encode_items(item_of(type), value)
    return items if kind == "fixed_size_list" else leb128(len(value)) + items


def leb128(number: int) -> bytes:
    low = number & 127
    return bytes([low]) if number == low else bytes([low | 128]) + leb128(number >> 7)


def decode_value_row(schema: Description, row: bytes) -> list[Any]:
    """The columns of today; of those that the row's version lacks the default, or None."""
    if not schema["record"]:
        return decode_record(schema["columns"], row)
    versions = [*schema.get("older", ()), schema["columns"]]
    if not row or row[0] >= len(versions):
        raise Malformed
    stored = versions[row[0]]
    values = dict(zip((column["name"] for column in stored), decode_record(stored, row[1:]), strict=True))
    return [values.get(column["name"]) for column in schema["columns"]]


def decode_record(columns: list[Description], row: bytes) -> list[Any]:
    nullable = [column["name"] for column in columns if column["nullable"]]
    flags, row = _take_bits(row, len(nullable))
    is_null = dict(zip(nullable, flags, strict=True))
    values: dict[str, Any] = {}
    for column in columns:
        if not is_variable(column["type"]):
            cell, row = _take(row, width_of(column["type"]))
            values[column["name"]] = None if is_null.get(column["name"]) else _read_fixed(column["type"], cell)
    variable = [column for column in columns if is_variable(column["type"])]
    for column, cell in zip(variable, _take_cells(row, len(variable)), strict=True):
        values[column["name"]] = None if is_null.get(column["name"]) else _read_variable(column["type"], cell)
    return [values[column["name"]] for column in columns]


def _read_items(item: Description, count: int, cell: bytes) -> list[Any]:
    flags = [False] * count
    if item["nullable"]:
        flags, cell = _take_bits(cell, count)
    read: Callable[[Any, bytes], Any]
    if is_variable(item["type"]):
        read, cells = _read_variable, _take_cells(cell, count)
    else:
        width = width_of(item["type"])
        if len(cell) != count * width:
            raise Malformed
        read, cells = _read_fixed, [cell[i * width : (i + 1) * width] for i in range(count)]
    return [None if is_null else read(item["type"], part) for is_null, part in zip(flags, cells, strict=True)]


def _take(row: bytes, count: int) -> tuple[bytes, bytes]:
    if len(row) < count:
        raise Malformed
    return row[:count], row[count:]


def _take_bits(row: bytes, count: int) -> tuple[list[bool], bytes]:
    taken, row = _take(row, (count + 7) // 8)
    return [bool(taken[i // 8] >> (i % 8) & 1) for i in range(count)], row


def _take_cells(row: bytes, count: int) -> list[bytes]:
    """All that is left of a row: the ends of its variable cells, and the cells."""
    if count == 0:
        if row:
            raise Malformed
        return []
    ends, row = _take(row, 4 * (count - 1))
    bounds = [0, *(int.from_bytes(ends[i : i + 4], "little") for i in range(0, len(ends), 4)), len(row)]
    if bounds != sorted(bounds):
        raise Malformed
    return [row[begin:end] for begin, end in itertools.pairwise(bounds)]


def _read_fixed(type: str, cell: bytes) -> Any:
    kind = kind_of(type)
    if kind == "fixed_size_binary":
        return cell
    if kind == "bool":
        return cell != b"\0"
    return int.from_bytes(cell, "little", signed=kind in _SIGNED)


def _read_variable(type: str | Description, cell: bytes) -> Any:
    kind = kind_of(type)
    if isinstance(type, str):
        return cell.decode() if kind in _TEXTS else cell
    if kind == "struct":
        return decode_record(type["struct"], cell)
    if kind == "fixed_size_list":
        return _read_items(item_of(type), type["size"], cell)
    count, cell = take_leb128(cell)
    return _read_items(item_of(type), count, cell)


def take_leb128(row: bytes) -> tuple[int, bytes]:
    number = 0
    for i, byte in enumerate(row):
        number |= (byte & 127) << (7 * i)
        if byte < 128:
            return number, row[i + 1 :]
    raise Malformed


# --- What states store.


def encode_list(schema: Description, values: list[list[Any]]) -> bytes:
    """The value of a list state without a TTL."""
    rows = [encode_value_row(schema, value) for value in values]
    return b"".join(leb128(len(row)) + row for row in rows)


def decode_list(schema: Description, stored: bytes) -> list[list[Any]]:
    values = []
    while stored:
        length, stored = take_leb128(stored)
        row, stored = _take(stored, length)
        values.append(decode_value_row(schema, row))
    return values


def encode_entry(schema: Description, value: list[Any] | None) -> bytes:
    """The value of a map's entry without a TTL; None for an entry that is None."""
    return b"\1" if value is None else b"\0" + encode_value_row(schema, value)


def decode_entry(schema: Description, stored: bytes) -> list[Any] | None:
    if stored == b"\1":
        return None
    if stored[:1] != b"\0":
        raise Malformed
    return decode_value_row(schema, stored[1:])


def encode_key(schema: Description, key: list[Any], table: int, max_parallelism: int) -> bytes:
    """An encoded key, without a user key behind it."""
    group = key_group(schema, key, max_parallelism)
    return group.to_bytes(2, "big") + bytes([table]) + encode_key_row(schema, key)


# --- Section 2: key groups.

_MASK = 0xFFFFFFFF


def _rotl(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _MASK


def _stir(hash: int, block: int) -> int:
    return hash ^ _rotl(block * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _finish(hash: int) -> int:
    hash = (hash ^ hash >> 16) * 0x85EBCA6B & _MASK
    hash = (hash ^ hash >> 13) * 0xC2B2AE35 & _MASK
    return hash ^ hash >> 16


def mix(hash: int) -> int:
    mixed = _finish((_rotl(_stir(0, hash & _MASK), 13) * 5 + 0xE6546B64 & _MASK) ^ 4)
    if mixed == 1 << 31:
        return 0
    return mixed if mixed < 1 << 31 else (1 << 32) - mixed


def murmur3(row: bytes) -> int:
    hash = 42
    whole = len(row) // 4 * 4
    for at in range(0, whole, 4):
        hash = _rotl(_stir(hash, int.from_bytes(row[at : at + 4], "little")), 13) * 5 + 0xE6546B64 & _MASK
    if row[whole:]:
        hash = _stir(hash, int.from_bytes(row[whole:], "little"))
    return _finish(hash ^ len(row))


def java_hash(type: str, value: Any) -> int:
    if type == "int32":
        return value & _MASK
    if type == "int64":
        return (value >> 32 ^ value) & _MASK
    hash = 0
    units = value.encode("utf-16-be")
    for at in range(0, len(units), 2):
        hash = 31 * hash + int.from_bytes(units[at : at + 2], "big") & _MASK
    return hash


def key_group(schema: Description, key: list[Any], max_parallelism: int) -> int:
    java = schema["hash"] == "java"
    hash = java_hash(schema["columns"][0]["type"], key[0]) if java else murmur3(encode_key_row(schema, key))
    return mix(hash) % max_parallelism
