"""Rows: order, prefixes, round trips, and the equality of single objects and columns."""

import datetime as dt
import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfkv
from sfkv._rows import KeyRows, ValueRows
from sfkv._types import KeySchema, ValueSchema

INTS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def of_bits(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


# For each type a strategy of its values, which compare as their rows must.
TYPES = {
    **{arrow: of_bits(bits) for bits, arrow in INTS.items()},
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=False),
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.utf8(): st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\0\x01\xff")),
    pa.binary(): st.binary() | st.lists(st.sampled_from([b"\0", b"\xff", b"a"])).map(b"".join),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("ms"): st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    pa.timestamp("s"): st.datetimes().map(lambda t: t.replace(microsecond=0)),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(dt.timezone.utc)),
}
each_type = pytest.mark.parametrize("arrow", TYPES, ids=str)


def sort_key(value):
    return value.encode() if isinstance(value, str) else value


@each_type
@given(data=st.data())
def test_key_rows_sort_as_their_values_and_none_is_a_prefix(arrow, data):
    rows = KeyRows(KeySchema.of(arrow))
    one, other = data.draw(TYPES[arrow]), data.draw(TYPES[arrow])
    row, other_row = rows.row_of(one), rows.row_of(other)
    assert (row < other_row) == (sort_key(one) < sort_key(other))
    assert (row == other_row) == (one == other)
    assert one == other or not (row.startswith(other_row) or other_row.startswith(row))


@each_type
@given(data=st.data())
def test_keys_and_values_come_back_and_columns_make_the_same_rows(arrow, data):
    value = data.draw(TYPES[arrow])
    keys, values = KeyRows(KeySchema.of(arrow)), ValueRows(ValueSchema.of(arrow))
    assert keys.key_of(keys.row_of(value)) == value
    assert values.value_of(values.row_of(value)) == value
    assert keys.rows_of(pa.array([value], arrow)) == [keys.row_of(value)]
    assert values.rows_of(pa.array([value], arrow)) == [values.row_of(value)]


COLUMNS = {"text": pa.utf8(), "number": pa.int64(), "bytes": pa.binary(), "flag": pa.bool_(), "real": pa.float64()}
composite = st.fixed_dictionaries({name: st.none() | TYPES[arrow] for name, arrow in COLUMNS.items()})


def nulls_first(key):
    return [(cell is not None, sort_key(cell) if cell is not None else 0) for cell in key]


@given(composite, composite)
def test_composite_keys_sort_column_by_column_with_nulls_first(one, other):
    rows = KeyRows(KeySchema.of(pa.schema(list(COLUMNS.items()))))
    one, other = (tuple(key[name] for name in COLUMNS) for key in (one, other))
    row, other_row = rows.row_of(one), rows.row_of(other)
    assert (row < other_row) == (nulls_first(one) < nulls_first(other))
    assert one == other or not (row.startswith(other_row) or other_row.startswith(row))
    assert rows.key_of(row) == one
    assert rows.rows_of([one, other]) == [row, other_row]


@given(composite)
def test_records_come_back_and_columns_make_the_same_rows(record):
    rows = ValueRows(ValueSchema.of(pa.struct(list(COLUMNS.items()))))
    assert rows.value_of(rows.row_of(record)) == record
    assert rows.rows_of([record, record]) == [rows.row_of(record)] * 2


@pytest.mark.parametrize(("arrow", "pack"), [(pa.float64(), ">d"), (pa.float32(), ">f")])
def test_floats_are_totally_ordered_with_one_zero_and_one_nan(arrow, pack):
    rows = KeyRows(KeySchema.of(arrow))
    ordered = [-math.inf, -1.5, -1e-30, 0.0, 1e-30, 1.5, math.inf]
    encoded = [rows.row_of(value) for value in ordered]
    assert encoded == sorted(encoded)
    assert rows.row_of(-0.0) == rows.row_of(0.0)
    assert math.copysign(1, rows.key_of(rows.row_of(-0.0))) == 1
    size = struct.calcsize(pack)
    nan_with_payload = struct.unpack(pack, b"\xff\xf8\0\x01\0\0\0\x02"[:size])[0]
    assert rows.row_of(math.nan) == rows.row_of(nan_with_payload) == b"\xff" * size > encoded[-1]
    assert math.isnan(rows.key_of(rows.row_of(math.nan)))


def test_values_keep_every_bit_of_a_float():
    rows = ValueRows(ValueSchema.of(float))
    assert rows.row_of(-0.0) == struct.pack("<d", -0.0)
    assert math.isnan(rows.value_of(rows.row_of(math.nan)))


def test_sliced_columns_are_read_from_where_they_begin():
    array = pa.array(["zz", None, "a", "", "bc"])
    rows = ValueRows(ValueSchema.of(str))
    assert rows.rows_of(array.slice(2)) == [b"a", b"", b"bc"]
    flags = ValueRows(ValueSchema.of(bool))
    assert flags.rows_of(pa.array([True] * 9 + [False, True]).slice(9)) == [b"\0", b"\x01"]
    structs = pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": "yy"}, {"a": 3, "b": ""}])
    records = ValueRows(ValueSchema.of(structs.type))
    assert records.rows_of(structs.slice(1)) == [records.row_of({"a": 2, "b": "yy"}), records.row_of({"a": 3, "b": ""})]


MALFORMED = [
    b"",
    b"\1" + b"\0" * 40,
    b"\0" * 3,
    b"\0\0" + b"\0" * 8 + b"\xff\xff\xff\xff",
    b"\0\0" + b"\0" * 8 + b"\5\0\0\0abc",
]


@pytest.mark.parametrize("row", MALFORMED)
def test_a_malformed_row_is_corruption_and_never_read_beyond(row):
    rows = ValueRows(ValueSchema.of(pa.struct({"n": pa.int64(), "a": pa.utf8(), "b": pa.utf8()})))
    with pytest.raises(sfkv.CorruptionError):
        rows.value_of(row)


@pytest.mark.parametrize(
    ("key", "row"),
    [
        *((str, row) for row in (b"", b"ab", b"ab\0", b"a\0\x01\0\0", b"ab\0\0c")),
        *((int, row) for row in (b"", b"\x80" * 7, b"\x80" * 9)),
        *((bool, row) for row in (b"\x02", b"\xff")),
        # -0.0, and a NaN, in forms that are not written.
        *((float, row) for row in (b"\x7f" + b"\xff" * 7, b"\xff" * 7 + b"\xfe")),
        *(({"a": int | None, "b": str}, row) for row in (b"", b"\0", b"\1", b"\1" + b"\x80" * 8, b"\0a", b"\2a\0\0")),
    ],
)
def test_a_malformed_key_is_corruption_and_never_read_beyond(key, row):
    with pytest.raises(sfkv.CorruptionError):
        KeyRows(KeySchema.of(key)).key_of(row)
