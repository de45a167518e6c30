"""Golden vectors of all types, nested ones too: plain values, as tests/format/decoder.py has them, and their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sfkv._rows import KeyRows, ValueRows
from sfkv._stored_types import Column
from sfkv._types import KeySchema, ValueSchema
from tests.format.arrays import simplest

MOMENTS = [-(2**63), -1, 0, 1357016400, 2**63 - 1]

# Types with an order, which have key rows too.
ORDERED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.uint8(), [0, 1, 255]),
    (pa.uint16(), [0, 258, 65535]),
    (pa.uint32(), [0, 0x01020304, 2**32 - 1]),
    (pa.uint64(), [0, 0x0102030405060708, 2**64 - 1]),
    # -inf, -1.5, -0.0, 0.0, the least number, inf, and two NaNs
    (pa.float16(), [0xFC00, 0xBE00, 0x8000, 0, 1, 0x7C00, 0x7E00, 0xFE01]),
    (pa.float32(), [0xFFC00001]),
    (pa.decimal128(5, 2), [-99999, -1, 0, 1, 258, 99999]),
    (pa.decimal128(38, -3), [-(10**38) + 1, 10**38 - 1]),
    (pa.decimal256(76, 10), [-(10**76) + 1, -1, 0, 10**76 - 1]),
    (pa.date64(), [-86_400_000, 0, 86_400_000]),
    (pa.time32("s"), [0, 86_399]),
    (pa.time32("ms"), [0, 86_399_999]),
    (pa.time64("us"), [0, 86_399_999_999]),
    (pa.time64("ns"), [0, 86_399_999_999_999]),
    *((pa.timestamp(unit), MOMENTS) for unit in ("s", "ms", "ns")),
    (pa.timestamp("us", tz="Europe/Berlin"), MOMENTS),
    (pa.timestamp("ns", tz="+05:30"), [1]),
    *((pa.duration(unit), [-(2**63), -1, 0, 2**63 - 1]) for unit in ("s", "ms", "us", "ns")),
    (pa.large_utf8(), ["", "a\0b", "\uffff", "\U00010000"]),
    (pa.string_view(), ["", "longer than the twelve bytes of a view"]),
    (pa.large_binary(), [b"", b"\0\0"]),
    (pa.binary_view(), [b"\xff\0"]),
    (pa.binary(1), [b"\0", b"\xff"]),
    (pa.binary(5), [b"\0\0\0\0\0", b"a\0b\0c"]),
]

POINT = pa.struct([pa.field("x", pa.int16(), nullable=False), pa.field("y", pa.int16())])
MIXED = pa.struct(
    [
        *(pa.field("a", pa.utf8()), pa.field("b", pa.bool_(), nullable=False), pa.field("c", pa.null())),
        *(pa.field("d", pa.binary(), nullable=False), pa.field("e", pa.decimal128(9, 2)), pa.field("f", pa.utf8())),
    ]
)


def item(arrow: pa.DataType, *, nullable: bool = True) -> pa.Field:
    return pa.field("item", arrow, nullable)


NESTED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(item(pa.int32(), nullable=False)), [[], [1], [1, -1, 258]]),
    (pa.list_(item(pa.int32())), [[], [None], [1, None, -1]]),
    (pa.list_(item(pa.bool_())), [[True, None, False] * 3]),
    (pa.list_(item(pa.null())), [[], [None] * 9]),
    (pa.large_list(item(pa.utf8(), nullable=False)), [[], [""], ["a", "", "bc"]]),
    (pa.list_(item(pa.utf8())), [[None], ["a", None, ""]]),
    (pa.list_(item(pa.int8(), nullable=False)), [[7] * 127, [7] * 128]),
    (pa.list_(item(pa.float32(), nullable=False), 2), [[0x3F800000, 0x80000000]]),
    (pa.list_(item(pa.utf8()), 3), [["a", None, "bc"]]),
    (pa.list_(item(pa.binary(2)), 1), [[None], [b"ab"]]),
    (pa.map_(pa.utf8(), pa.int64()), [[], [["a", 1], ["b", None]], [["b", 1], ["a", 2], ["b", 3]]]),
    (pa.map_(pa.int8(), pa.field("value", pa.utf8(), nullable=False), keys_sorted=True), [[[1, "x"], [2, ""]]]),
    (pa.list_(item(POINT)), [[[1, 2], None, [3, None]]]),
    (pa.list_(item(MIXED, nullable=False)), [[["ü", True, None, b"", 12345, None], [None, False, None, b"\0", None, "z"]]]),
    (pa.list_(item(pa.list_(item(pa.list_(item(pa.uint8())))))), [[[[1], None, []], None, []]]),
    (pa.list_(item(pa.map_(pa.date32(), pa.list_(item(pa.time64("ns")), 2)))), [[[[1, [1000, None]], [2, None]], None]]),
]
RECORDS: list[tuple[pa.DataType, list[Any]]] = [
    (POINT, [[1, 2], [-1, None]]),
    (MIXED, [[None, False, None, b"", None, None], ["ab", True, None, b"cd", -1, "ef"]]),
    (
        pa.struct([("p", POINT), pa.field("tags", pa.list_(pa.utf8()), nullable=False), ("m", pa.map_(pa.int8(), MIXED))]),
        [[None, [], None], [[1, None], ["x", None], [[1, None], [2, ["a", True, None, b"b", 3, "c"]]]]],
    ),
    (pa.struct([(f"c{i}", pa.int8()) for i in range(9)]), [[None] * 9, list(range(9))]),
]
KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (
        pa.struct([("d", pa.decimal128(3, 1)), pa.field("b", pa.binary(2), nullable=False), ("f", pa.float16())]),
        [[None, b"\0\0", None], [-1, b"ab", 0x7E01], [1, b"\xff\xff", 0x8000]],
    ),
]


def plain_text(value: Any) -> str:
    """A plain value as text, which does not depend on Python's version."""
    return json.dumps(value, default=lambda part: part.hex())


def described(schema: KeySchema | ValueSchema) -> str:
    """The columns as the registry has them; the type alone of a plain value."""
    columns: list[Column] = schema.columns
    return json.dumps([column.describe() for column in columns] if schema.is_record else columns[0].describe()["type"])


def rows() -> Iterator[str]:
    yield "# type | plain value | key row | value row"
    for arrow, values in ORDERED:
        schema = ValueSchema.of(arrow)
        array = simplest(values, arrow)
        made = zip(values, KeyRows(KeySchema.of(arrow)).rows_of(array), ValueRows(schema).rows_of(array), strict=True)
        for value, key_row, row in made:
            yield f"{described(schema)} | {plain_text(value)} | {key_row.hex(' ')} | {row.hex(' ')}"
    yield "# columns of a key | plain value | key row"
    for arrow, values in KEYS:
        keys = KeySchema.of(arrow)
        for value, row in zip(values, KeyRows(keys).rows_of(simplest(values, arrow)), strict=True):
            yield f"{described(keys)} | {plain_text(value)} | {row.hex(' ')}"
    yield "# type, or columns of a record | plain value | value row"
    for arrow, values in NESTED + RECORDS:
        schema = ValueSchema.of(arrow)
        for value, row in zip(values, ValueRows(schema).rows_of(simplest(values, arrow)), strict=True):
            yield f"{described(schema)} | {plain_text(value)} | {row.hex(' ')}"
