"""Byte for byte what FORMAT.md says. The files here are rewritten only on purpose, together with the format version:

SFKV_REWRITE_GOLDEN=1 python -m pytest tests/golden
"""

from __future__ import annotations

import datetime as dt
import os
import struct
from pathlib import Path

import pyarrow as pa
import pytest

import sfkv
from sfkv._rows import KeyRows, ValueRows
from sfkv._types import KeySchema, ValueSchema
from tests.golden import vectors

HERE = Path(__file__).parent
UTC = dt.timezone.utc

RECORD = pa.struct(
    [
        pa.field("name", pa.utf8()),
        pa.field("n", pa.int32(), nullable=False),
        pa.field("at", pa.timestamp("ms")),
        pa.field("raw", pa.binary(), nullable=False),
        pa.field("ok", pa.bool_()),
    ]
)
PLAIN = [
    (pa.bool_(), [False, True]),
    (pa.int8(), [-128, -1, 0, 1, 127]),
    (pa.int16(), [-32768, -1, 0, 258, 32767]),
    (pa.int32(), [-(2**31), -1, 0, 0x01020304, 2**31 - 1]),
    (pa.int64(), [-(2**63), -1, 0, 0x0102030405060708, 2**63 - 1]),
    (pa.float32(), [float("-inf"), -1.5, -0.0, 0.0, 1.5, float("inf"), float("nan")]),
    (pa.float64(), [float("-inf"), -1.5, -0.0, 0.0, 1.5, float("inf"), float("nan")]),
    (pa.utf8(), ["", "a", "a\0b", "ü\U0001f600"]),
    (pa.binary(), [b"", b"\0", b"\xff\0\xff"]),
    (pa.date32(), [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2013, 1, 1)]),
    (pa.timestamp("us"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2013, 1, 1, 5)]),
    (pa.timestamp("s", tz="UTC"), [dt.datetime(2013, 1, 1, 5, tzinfo=UTC)]),
]


def rows():
    yield "# type | value | key row | value row"
    for arrow, values in PLAIN:
        keys, codec = KeyRows(KeySchema.of(arrow)), ValueRows(ValueSchema.of(arrow))
        for value in values:
            yield f"{arrow} | {value!r} | {keys.row_of(value).hex(' ')} | {codec.row_of(value).hex(' ')}"
    yield "# columns | key | key row"
    columns = KeyRows(
        KeySchema.of(pa.schema([("user", pa.utf8()), pa.field("day", pa.int32(), nullable=False), ("raw", pa.binary())]))
    )
    for key in [("a", 1, b""), (None, -1, None), ("", 0, b"\0")]:
        yield f"user, day not null, raw | {key!r} | {columns.row_of(key).hex(' ')}"
    yield "# record | row"
    record = ValueRows(ValueSchema.of(RECORD))
    for value in [
        {"name": "ü", "n": 1, "at": dt.datetime(1970, 1, 1, 0, 0, 1), "raw": b"xyz", "ok": True},
        {"name": None, "n": -1, "at": None, "raw": b"", "ok": None},
        {"name": "", "n": 0, "at": None, "raw": b"\0", "ok": False},
    ]:
        yield f"{value!r} | {record.row_of(value).hex(' ')}"
    objects = ValueRows(ValueSchema.of(object))
    yield f"{[1, 'x', None, {'a': 1.5}]!r} | {objects.row_of([1, 'x', None, {'a': 1.5}]).hex(' ')}"
    yield from vectors.rows()


def store(path):
    """Every row of a small store, as the database has it."""
    with sfkv.open(path, key=str, max_parallelism=300, key_groups=(0, 299)) as keyed:
        keyed.value_state("count", int).put_many(["a", "ü", ""], [1, -1, 0])
        keyed.value_state("plane", {"flights": int, "airport": str | None}).put("N14228", {"flights": 3, "airport": "IAH"})
        keyed.value_state("notes", object).put(
            "a",
            ["x", 1],
        )
        keyed.list_state("delays", int).add_many(["a", "b", "a"], [1, 2, 300])
        keyed.list_state("words", str).update("a", ["", "x" * 200])
        keyed.map_state("routes", {"to": str, "year": int}, int).put_many(["a", "a"], [("IAH", 1), ("", 2)], [7, None])
        keyed.cells.set("watermark", 1357016400000)
        keyed.cells.set("mean", 1.5, merge="sum")
        keyed.cells.set("blob", b"xyz", merge="union")
        keyed.payloads.set(299, b"payload")
        keyed.value_state("count", int).put_many([], [], offset={"flights": 20000})
        for key, value in sorted(keyed._store.read_range(b"", b"\xff\xff\xff").items()):
            yield f"{key.hex(' ')} | {value.decode() if value.startswith(b'{') else value.hex(' ')}"


def compare(name, lines):
    path = HERE / name
    text = "\n".join(lines) + "\n"
    if os.environ.get("SFKV_REWRITE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()


def test_rows_are_as_they_were():
    compare("rows.txt", rows())


def test_a_store_is_as_it_was(tmp_path):
    compare("store.txt", store(tmp_path / "s"))


# --- By hand from FORMAT.md, so that the files above were not merely copied from the code.


@pytest.mark.parametrize(
    ("arrow", "value", "row"),
    [
        (pa.int32(), 1, "80 00 00 01"),
        (pa.int64(), -1, "7f ff ff ff ff ff ff ff"),
        (pa.bool_(), True, "01"),
        (pa.utf8(), "a\0", "61 00 ff 00 00"),
        (pa.float64(), 1.0, "bf f0 00 00 00 00 00 00"),
        (pa.float64(), -1.0, "40 0f ff ff ff ff ff ff"),
        (pa.date32(), dt.date(1970, 1, 2), "80 00 00 01"),
    ],
)
def test_key_rows_by_hand(arrow, value, row):
    assert KeyRows(KeySchema.of(arrow)).row_of(value).hex(" ") == row


def test_a_record_by_hand():
    row = ValueRows(ValueSchema.of(RECORD)).row_of({"name": "ab", "n": 7, "at": None, "raw": b"xyz", "ok": True})
    # version, nulls (name, at, ok: at is null), n, at, ok, the end of name, then name and raw
    assert row == b"\0" + b"\x02" + struct.pack("<i", 7) + bytes(8) + b"\x01" + struct.pack("<I", 2) + b"ab" + b"xyz"


def test_an_encoded_key_by_hand(tmp_path):
    with sfkv.open(tmp_path / "s", key=str, max_parallelism=4096) as keyed:
        keyed.value_state("first", int)
        keyed.value_state("second", int).put("hello", 5)
        rows = keyed._store.read_range(b"", b"\xff\xff")
    assert rows == {(2723).to_bytes(2, "big") + b"\x01" + b"hello\0\0": struct.pack("<q", 5)}
