"""What other libraries hold goes in as it is: pandas, Polars, DuckDB, NumPy; and comes out as Arrow that they read."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import sfkv
from sfkv._columns import ColumnReader
from sfkv._stored_types import Column

RECORD = pa.schema([("n", pa.int64()), ("word", pa.utf8()), ("at", pa.timestamp("us"))])
MOMENT = dt.datetime(2024, 1, 1, 5)
ROWS = [{"n": 1, "word": "ü", "at": MOMENT}, {"n": None, "word": None, "at": None}, {"n": 3, "word": "a\0", "at": MOMENT}]
KEYS = ["a", "b", "c"]


@pytest.fixture
def state(keyed):
    return keyed.value_state("s", RECORD)


# --- pandas.


@pytest.fixture
def pd():
    return pytest.importorskip("pandas", reason="pandas is not installed")


def test_pandas_frames_go_in(state, pd):
    frame = pd.DataFrame({"at": [MOMENT, None, MOMENT], "n": pd.array([1, None, 3], "Int64"), "word": ["ü", None, "a\0"]})
    state.put_many(pd.Series(KEYS), frame)
    assert state.get_many(pd.Index(KEYS)).to_pylist() == ROWS
    state.put_many(KEYS, frame.convert_dtypes(dtype_backend="pyarrow"))
    assert state.get_many(pd.Series(KEYS, dtype="category")).to_pylist() == ROWS
    state.put_many(KEYS, {"n": frame["n"], "word": frame["word"].astype("category"), "at": frame["at"]})
    assert state.get_many(pd.Series(KEYS, dtype="string")).to_pylist() == ROWS


@pytest.mark.parametrize(
    ("arrow", "values", "dtype"),
    [
        (pa.int64(), [1, 2, 3], "int64"),
        (pa.int64(), [1, None, 3], "Int64"),
        (pa.int32(), [1, 2, 3], "int8"),
        (pa.uint16(), [1, None, 3], "UInt16"),
        (pa.float64(), [1.5, None, 3.5], "Float64"),
        (pa.float32(), [1.5, 2.5, 3.5], "float32"),
        (pa.bool_(), [True, None, False], "boolean"),
        (pa.bool_(), [True, True, False], "bool"),
        (pa.utf8(), ["a", None, "b"], "string"),
        (pa.utf8(), ["a", None, "b"], "object"),
        (pa.utf8(), ["a", None, "a"], "category"),
        (pa.int64(), [1, 2, 1], "category"),
        (pa.int64(), [1, None, 3], "int64[pyarrow]"),
        (pa.utf8(), ["a", None, "b"], "string[pyarrow]"),
        (pa.timestamp("us"), [MOMENT, None, MOMENT], "datetime64[us]"),
        (pa.timestamp("ns"), [MOMENT, None, MOMENT], "datetime64[s]"),
        (pa.duration("us"), [dt.timedelta(1), None, dt.timedelta(microseconds=1)], "timedelta64[us]"),
        (pa.date32(), [dt.date(2024, 1, 1), None, dt.date(1969, 1, 1)], "object"),
        (pa.list_(pa.int64()), [[1, 2], None, []], "object"),
        (pa.struct([("x", pa.int64())]), [{"x": 1}, None, {"x": None}], "object"),
    ],
)
def test_a_pandas_series_of_each_kind_goes_in(arrow, values, dtype, keyed, pd):
    state = keyed.value_state("s", arrow)
    state.put_many(KEYS, pd.Series(values, dtype=dtype))
    assert state.get_many(KEYS).to_pylist() == values


def test_a_series_of_pandas_nan_is_null_where_pandas_means_null(keyed, pd):
    state = keyed.value_state("s", str)
    state.put_many(KEYS, pd.Series(["a", np.nan, "b"]))
    assert state.get_many(KEYS).to_pylist() == ["a", None, "b"]


def test_a_series_that_does_not_fit_is_refused(keyed, pd):
    state = keyed.value_state("s", pa.int8())
    with pytest.raises(sfkv.SchemaError) as raised:
        state.put_many(KEYS, pd.Series([1, 2, 300]))
    assert raised.value.row == 2
    assert not any(state.contains_many(KEYS).to_pylist())


# --- Polars.


@pytest.fixture
def pl():
    return pytest.importorskip("polars", reason="polars is not installed")


def test_polars_frames_go_in_and_scans_come_out(state, pl):
    frame = pl.DataFrame({"word": ["ü", None, "a\0"], "at": [MOMENT, None, MOMENT], "n": [1, None, 3]})
    state.put_many(pl.Series(KEYS), frame)
    assert state.get_many(pl.Series(KEYS)).to_pylist() == ROWS
    assert pl.from_arrow(state.get_many(KEYS)).struct.unnest().rows() == [tuple(row.values()) for row in ROWS]
    with state.scan() as scan:
        assert sorted(pl.DataFrame(scan)["key"].to_list()) == KEYS
    state.put_many(pl.Series(KEYS, dtype=pl.Categorical), frame.to_struct("s"))
    assert state.get_many(pl.Series(KEYS, dtype=pl.Categorical)).to_pylist() == ROWS


@pytest.mark.parametrize(
    ("arrow", "values"),
    [
        (pa.int64(), [1, None, 3]),
        (pa.uint8(), [1, None, 3]),
        (pa.float64(), [1.5, None, 3.5]),
        (pa.bool_(), [True, None, False]),
        (pa.utf8(), ["a", None, "of more than twelve bytes"]),
        (pa.binary(), [b"a", None, b"\0"]),
        (pa.timestamp("us"), [MOMENT, None, MOMENT]),
        (pa.timestamp("us", tz="UTC"), [MOMENT.replace(tzinfo=dt.timezone.utc), None, None]),
        (pa.date32(), [dt.date(2024, 1, 1), None, dt.date(1969, 1, 1)]),
        (pa.time64("ns"), [dt.time(1, 2, 3), None, dt.time(0)]),
        (pa.duration("us"), [dt.timedelta(1), None, dt.timedelta(microseconds=1)]),
        (pa.list_(pa.int64()), [[1, 2], None, []]),
        (pa.list_(pa.utf8()), [["a", None], None, []]),
        (pa.struct([("x", pa.int64()), ("y", pa.utf8())]), [{"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": 2, "y": ""}]),
        (pa.list_(pa.struct([("x", pa.list_(pa.utf8()))])), [[{"x": ["a"]}, None], None, []]),
    ],
    ids=str,
)
def test_a_polars_series_of_each_kind_goes_in_and_comes_out(arrow, values, keyed, pl):
    state = keyed.value_state("s", arrow)
    series = pl.concat([pl.Series(values, strict=False), pl.Series(values, strict=False)])  # in two chunks
    state.put_many(KEYS * 2, series)
    assert state.get_many(KEYS).to_pylist() == values
    assert pl.from_arrow(state.get_many(KEYS)).to_list() == values


def test_polars_lists_and_arrays_go_in_as_lists_and_embeddings(keyed, pl):
    vectors = keyed.value_state("vectors", pa.list_(pa.float32(), 2))
    vectors.put_many(["a", "b"], pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float32, 2)))
    assert vectors.get_many(["a", "b"]).to_pylist() == [[1.0, 2.0], [3.0, 4.0]]
    lists = keyed.list_state("lists", int)
    lists.update_many(["a", "b"], pl.Series([[1, 2], [3]]))
    lists.add_many(["a"], pl.Series([5]))
    assert lists.get_many(["a", "b"]).to_pylist() == [[1, 2, 5], [3]]
    maps = keyed.map_state("maps", str, int)
    maps.put_many(pl.Series(["a", "a"]), pl.Series(["x", "y"]), pl.Series([1, None]))
    assert dict(maps["a"].items()) == {"x": 1, "y": None}


# --- DuckDB.


@pytest.fixture
def connection():
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    with duckdb.connect() as connection:
        yield connection


QUERY = """select * from (values
    (1, 'ü', timestamp '2024-01-01 05:00:00'), (null, null, null), (3, 'a' || chr(0), timestamp '2024-01-01 05:00:00')
) t(n, word, "at")"""


def test_duckdb_results_go_in(state, connection):
    query = QUERY.replace("(1,", "(1::bigint,")
    state.put_many(KEYS, connection.sql(query))
    assert state.get_many(KEYS).to_pylist() == ROWS
    state.put_many(KEYS, connection.sql(query).to_arrow_table())
    assert state.get_many(KEYS).to_pylist() == ROWS
    state.put_many(KEYS, connection.sql(query).to_arrow_reader())
    assert state.get_many(KEYS).to_pylist() == ROWS


def test_duckdb_reads_what_states_give(state, connection):
    state.put_many(KEYS, ROWS)
    with state.scan() as scan:
        rows = pa.table(scan)
    assert rows.num_rows == 3
    assert connection.sql("select sum(n), count(word) from rows").fetchall() == [(4, 2)]


def test_nested_duckdb_results_go_in(keyed, connection):
    arrow = pa.schema(
        [("l", pa.list_(pa.int32())), ("s", pa.struct([("x", pa.int32())])), ("m", pa.map_(pa.utf8(), pa.int32()))]
    )
    state = keyed.value_state("s", arrow)
    query = "select [1, null] as l, {'x': 2} as s, map {'k': 3} as m, 12.50::decimal(9, 2) as d"
    state.put_many(["a"], connection.sql(query).project("m, l, s"))
    assert state.get("a") == {"l": [1, None], "s": {"x": 2}, "m": [("k", 3)]}
    prices = keyed.value_state("prices", pa.decimal128(9, 2))
    prices.put_many(["a"], connection.sql(query).project("d").to_arrow_table()["d"])
    assert str(prices.get("a")) == "12.50"


# --- NumPy.


@pytest.mark.parametrize(
    "dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "M8[us]", "M8[ns]", "m8[s]"]
)
def test_numpy_arrays_are_not_copied(dtype):
    numbers = np.arange(1000).astype(dtype)
    arrow = pa.from_numpy_dtype(numbers.dtype)
    array = ColumnReader([Column("value", arrow, False)], False, "value", "s").read(numbers)
    assert array.type == arrow
    assert array.buffers()[1].address == numbers.ctypes.data


@pytest.mark.parametrize(
    ("arrow", "values"),
    [
        (pa.int64(), np.arange(20)[::2]),
        (pa.int64(), np.arange(20)[::-1]),
        (pa.int64(), np.arange(3, dtype=">i8")),
        (pa.bool_(), np.array([True, False, True])),
        (pa.float64(), np.array([1.5, np.nan, -0.0])),
        (pa.float64(), np.arange(3, dtype="f4")),
        (pa.utf8(), np.array(["a", "ü", ""])),
        (pa.binary(), np.array([b"a", b"bc"])),
        (pa.date32(), np.array(["2024-01-01", "1969-12-31"], "M8[D]")),
        (pa.timestamp("us"), np.array(["2024-01-01T05:00", "NaT"], "M8[us]")),
        (pa.int64(), np.array([], "i8")),
    ],
    ids=lambda part: str(part) if isinstance(part, pa.DataType) else f"{part.dtype}",
)
def test_numpy_arrays_of_each_kind_go_in(arrow, values, keyed):
    state = keyed.value_state("s", arrow)
    keys = [f"k{i}" for i in range(len(values))]
    state.put_many(np.array(keys, "U"), values)
    expected = [None if value != value and arrow != pa.float64() else value for value in values.tolist()]
    np.testing.assert_equal(state.get_many(keys).to_pylist(), expected)


def test_numpy_keys_are_the_same_as_others(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("s", pa.float32())
        state.put_many(np.arange(5, dtype="i4"), np.arange(5, dtype="f4"))
        assert state.get_many(np.arange(5)[::-1]).to_pylist() == [4.0, 3.0, 2.0, 1.0, 0.0]
        assert state.get(np.int16(3)) == 3.0


# --- Records, and some of their columns.


def test_records_are_taken_as_batches_structs_and_dicts_and_matched_by_name(state):
    columns = {"at": [MOMENT, None, MOMENT], "word": ["ü", None, "a\0"], "n": [1, None, 3]}
    batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    for values in (batch, pa.table(batch), batch.to_struct_array(), columns, ROWS, pa.chunked_array([batch.to_struct_array()])):
        state.put_many(KEYS, values)
        answer = state.get_many(KEYS)
        assert answer.type == pa.struct(list(RECORD))
        assert answer.to_pylist() == ROWS
        state.clear_many(KEYS)
    assert pa.RecordBatch.from_struct_array(state.get_many(KEYS)).schema == RECORD


def test_some_columns_are_read_in_the_order_asked_for(state):
    state.put_many(KEYS, ROWS)
    answer = state._table.get_many([*KEYS, "none"], ["at", "n"])
    answer.validate(full=True)
    assert answer.type == pa.struct([RECORD.field("at"), RECORD.field("n")])
    assert answer.to_pylist() == [*({"at": row["at"], "n": row["n"]} for row in ROWS), None]
    for wrong in (["other"], ["n", "n"], [], "n"):
        with pytest.raises(sfkv.SchemaError, match="state 's'"):
            state._table.get_many(KEYS, wrong)


def test_some_nested_columns_are_read(keyed):
    inner = pa.struct([("x", pa.list_(pa.utf8()))])
    state = keyed.value_state("s", pa.schema([("a", inner), ("b", pa.int8()), ("c", pa.list_(inner, 1))]))
    rows = [{"a": {"x": ["p", None]}, "b": 1, "c": [None]}, {"a": None, "b": None, "c": [{"x": []}]}]
    state.put_many(["a", "b"], rows)
    answer = state._table.get_many(["b", "none", "a", "b"], ["c", "a"])
    answer.validate(full=True)
    expected = [{"c": row["c"], "a": row["a"]} for row in rows]
    assert answer.to_pylist() == [expected[1], None, expected[0], expected[1]]


def test_a_plain_value_has_no_columns_to_choose_from(keyed):
    state = keyed.value_state("s", int)
    with pytest.raises(sfkv.SchemaError, match="no columns to choose from"):
        state._table.get_many(["a"], ["value"])
