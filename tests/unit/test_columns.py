"""Batches: what is taken as a column, what is converted, and what is refused, with its row."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

import sfkv
from sfkv._cells import can_read
from sfkv._columns import ColumnReader
from sfkv._stored_types import Column

UTC = dt.timezone.utc


def read(batch, arrow):
    return ColumnReader([Column("value", arrow, False)], False, "value", "s").read(batch)


class Foreign:
    """What another Arrow library hands over."""

    def __init__(self, array):
        self.array = array

    def __arrow_c_array__(self, requested_schema=None):
        return self.array.__arrow_c_array__(requested_schema)


class ForeignStream:
    def __init__(self, chunks):
        self.chunks = pa.chunked_array(chunks)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.chunks.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    ("batch", "arrow"),
    [
        ([1, None, 3], pa.int64()),
        ((1, 2), pa.int8()),
        (range(3), pa.int32()),
        (np.array([1, 2], "u1"), pa.int64()),
        (np.array([1, 2]), pa.float64()),
        ([1, 2.5], pa.float64()),
        ([0.1], pa.float32()),
        (np.array(["a", None], object), pa.utf8()),
        (np.array(["a", "b"]), pa.utf8()),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.utf8()),
        (pa.array(["a"], pa.large_utf8()), pa.utf8()),
        (pa.array(["a"], pa.string_view()), pa.utf8()),
        (pa.array([b"ab"], pa.binary(2)), pa.binary()),
        ([b"a", bytearray(b"b"), memoryview(b"c")], pa.binary()),
        (np.array(["2020-01-02"], "M8[D]"), pa.date32()),
        (np.array(["2020-01-02T03:04"], "M8[s]"), pa.timestamp("us")),
        ([dt.datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="Europe/Berlin")),
        (pa.chunked_array([[1], [2]]), pa.int64()),
        (Foreign(pa.array([1, 2])), pa.int64()),
        (ForeignStream([[1], [2, 3]]), pa.int64()),
        ([], pa.utf8()),
        ([None, None], pa.utf8()),
        ([np.int64(3), np.int64(4)], pa.int64()),
        ([np.array([1, 2]), (3,), range(2), None], pa.list_(pa.int8())),
        ([[1, 2], None], pa.list_(pa.int8(), 2)),
        ([{"a": 1}, [("a", 1), ("a", 2)], None], pa.map_(pa.utf8(), pa.int8())),
        ([decimal.Decimal("1E+5"), 7, None], pa.decimal128(20, 0)),
        ([decimal.Decimal("1E+5"), 700, None], pa.decimal128(5, -2)),
    ],
)
def test_conversions_that_lose_nothing_are_made(batch, arrow):
    array = read(batch, arrow)
    assert array.type == arrow or can_read(array.type, arrow)  # the layout may be another
    if isinstance(batch, (list, tuple, range)) and arrow != pa.float32():
        assert array.to_pylist() == [as_pyarrow_gives(value) for value in batch]


def as_pyarrow_gives(value):
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, dict):
        return list(value.items())
    return list(value) if isinstance(value, (np.ndarray, tuple, range)) else value


# Faults of the kind "a batch silently stores something else": what pyarrow alone would truncate, decode or drop.
@pytest.mark.parametrize(
    ("batch", "arrow", "row"),
    [
        ([1, 1.5], pa.int64(), 1),
        ([1.0], pa.int64(), 0),
        (["1"], pa.int64(), 0),
        ([1, "a"], pa.int64(), 1),
        ([True, 1], pa.int64(), 0),
        ([1], pa.bool_(), 0),
        ([300], pa.int8(), 0),
        ([1, 2**63], pa.int64(), 1),
        ([2**53 + 1], pa.float64(), 0),
        ([0.0, 1e300], pa.float32(), 1),
        ([b"a"], pa.utf8(), 0),
        (["a", b"b"], pa.utf8(), 1),
        (["a"], pa.binary(), 0),
        ([b"a", "b"], pa.binary(), 1),
        (["a", "\ud800"], pa.utf8(), 1),
        ([dt.datetime(2020, 1, 1, 0, 0, 0, 5)], pa.timestamp("s"), 0),
        ([dt.datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us"), 0),
        ([dt.datetime(2020, 1, 1)], pa.timestamp("us", tz="UTC"), 0),
        ([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us"), 1),
        ([5], pa.timestamp("us"), 0),
        ([dt.datetime(2020, 1, 1)], pa.date32(), 0),
        ([dt.date(2020, 1, 1)], pa.timestamp("us"), 0),
        ([object()], pa.utf8(), 0),
        ([dt.time(1), dt.time(1, tzinfo=UTC)], pa.time64("us"), 1),
        ([[1], 1], pa.list_(pa.int8()), 1),
        ([[1], [300]], pa.list_(pa.int8()), 1),
        ([[1], "ab"], pa.list_(pa.utf8()), 1),
        ([[1], bytearray(b"ab")], pa.list_(pa.int8()), 1),
        ([[1], {1: 2}], pa.list_(pa.int8()), 1),
        ([[1], {1, 2}], pa.list_(pa.int8()), 1),
        ([[1], iter([1])], pa.list_(pa.int8()), 1),
        ([[1, 2], [1]], pa.list_(pa.int8(), 2), 1),
        ([[1, 2], 1], pa.list_(pa.int8(), 2), 1),
        ([["a", "b"], "ab"], pa.list_(pa.utf8(), 2), 1),
        ([{"a": 1}, 1], pa.map_(pa.utf8(), pa.int8()), 1),
        ([{"a": 1}, {None: 1}], pa.map_(pa.utf8(), pa.int8()), 1),
        ([{"a": 1}, [("a",)]], pa.map_(pa.utf8(), pa.int8()), 1),
        ([{"a": 1}, iter([("a", 1)])], pa.map_(pa.utf8(), pa.int8()), 1),
        ([{"a": 1}, {"a": 300}], pa.map_(pa.utf8(), pa.int8()), 1),
        ([{"x": 1}, {"y": 1}], pa.struct([("x", pa.int8())]), 1),
        ([{"x": 1}, 1], pa.struct([("x", pa.int8())]), 1),
        ([decimal.Decimal("1.5"), decimal.Decimal("1.005")], pa.decimal128(5, 2), 1),
        ([decimal.Decimal("1.5"), 1.5], pa.decimal128(5, 2), 1),
        ([decimal.Decimal("1.5"), True], pa.decimal128(5, 2), 1),
        ([1, decimal.Decimal("NaN")], pa.decimal128(5, 2), 1),
    ],
)
def test_conversions_that_would_lose_something_are_refused_with_their_row(batch, arrow, row):
    with pytest.raises(sfkv.SchemaError, match="state 's'") as raised:
        read(batch, arrow)
    assert raised.value.row == row


@pytest.mark.parametrize(
    ("batch", "arrow"),
    [
        (np.array([1.0]), pa.int64()),
        (np.array([True]), pa.int64()),
        (pa.array(["a"]), pa.int64()),
        (pa.array([b"a"]), pa.utf8()),
        ("text", pa.utf8()),
        (b"bytes", pa.binary()),
        ({"a": 1}, pa.utf8()),
        (7, pa.int64()),
        (iter([1]), pa.int64()),
        (np.zeros((2, 2)), pa.float64()),
    ],
)
def test_what_is_no_column_of_the_type_is_refused(batch, arrow):
    with pytest.raises(sfkv.SchemaError):
        read(batch, arrow)


def test_overflow_in_an_array_names_its_row():
    with pytest.raises(sfkv.SchemaError) as raised:
        read(np.array([1, 2, 300, 4]), pa.int8())
    assert raised.value.row == 2


def test_nanoseconds_in_a_list_are_refused_and_kept_from_an_array():
    pd = pytest.importorskip("pandas", reason="needs a Timestamp")
    moment = pd.Timestamp("2020-01-01 00:00:00.000000001")
    with pytest.raises(sfkv.SchemaError, match="nanoseconds"):
        read([moment], pa.timestamp("ns"))
    assert read(pd.Series([moment]), pa.timestamp("ns")).cast(pa.int64()).to_pylist() == [moment.value]


RECORD = [Column("a", pa.int64(), True), Column("b", pa.utf8(), True)]


def read_records(batch):
    return ColumnReader(RECORD, True, "value", "s").read(batch)


class Row:
    def __init__(self, a, b):
        self.a, self.b = a, b


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"b": ["x", None], "a": [1, 2]}),
        pa.table({"a": [1, 2], "b": ["x", None]}),
        pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        {"a": np.array([1, 2]), "b": ["x", None]},
        ([1, 2], ["x", None]),
        (np.array([1, 2]), pa.array(["x", None])),
        [(1, "x"), (2, None)],
        ((1, "x"), (2, None)),
        [{"a": 1, "b": "x"}, {"a": 2}],
        [Row(1, "x"), Row(2, None)],
    ],
)
def test_records_are_taken_in_every_shape(batch):
    assert read_records(batch).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_a_missing_record_is_null_as_a_whole():
    assert read_records([None, {"a": 1, "b": "x"}]).to_pylist() == [None, {"a": 1, "b": "x"}]
    assert read_records(pa.array([None, {"a": 1, "b": "x"}])).to_pylist() == [None, {"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    ("batch", "row"),
    [
        ([(1, "x"), (2,)], 1),
        ([{"a": 1, "c": 2}], 0),
        ([7], 0),
        ({"a": [1]}, None),
        ({"a": [1], "b": ["x", "y"]}, None),
        (pa.table({"a": [1], "c": [2]}), None),
        (pa.array([1, 2]), None),
        ("text", None),
    ],
)
def test_records_of_another_form_are_refused(batch, row):
    with pytest.raises(sfkv.SchemaError, match="state 's'") as raised:
        read_records(batch)
    assert raised.value.row == row
