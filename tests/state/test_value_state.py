"""ValueState: single calls, batches, and their edges."""

import dataclasses
import datetime as dt
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import sfkv
from tests.backends import new_backend

pytestmark = pytest.mark.backends


@dataclasses.dataclass
class Trip:
    plane: str
    minutes: int | None
    at: dt.datetime


class Score(msgspec.Struct):
    points: float
    label: str | None = None


VALUES = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 127],
    pa.int16(): [-(2**15), 2**15 - 1],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1],
    pa.float32(): [0.5, -0.0],
    pa.float64(): [0.1, float("inf")],
    pa.utf8(): ["", "a\0b€\U0001f600"],
    pa.binary(): [b"", b"\0\xff"],
    pa.date32(): [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    pa.timestamp("s"): [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)],
    pa.timestamp("ms"): [dt.datetime(1969, 12, 31, 23, 59, 59, 999000)],
    pa.timestamp("us"): [dt.datetime(1, 1, 1, 0, 0, 0, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    pa.timestamp("ns"): [dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11)],
    pa.timestamp("us", tz="Europe/Berlin"): [dt.datetime(2020, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))],
    pa.struct({"a": pa.int64(), "b": pa.utf8(), "c": pa.binary()}): [
        {"a": None, "b": None, "c": None},
        {"a": 1, "b": "xyz", "c": b""},
        {"a": -1, "b": "", "c": b"xyz"},
    ],
    Trip: [Trip("N1", None, dt.datetime(2020, 1, 1)), Trip("", -5, dt.datetime(2020, 1, 2, 3, 4, 5, 6))],
    Score: [Score(1.5), Score(-1.5, "x")],
    object: [0, "x", [1, {"a": b"b"}], {"k": [None, 1.5, True]}],
    dict[str, list[int]]: [{}, {"a": [1, 2]}],
    sfkv.Msgpack(Trip): [Trip("N1", 3, dt.datetime(2020, 1, 1))],
    int: [5],
    str: ["five"],
    dt.datetime: [dt.datetime(2020, 1, 1)],
}


@pytest.mark.parametrize("type", VALUES, ids=str)
def test_values_of_every_type_come_back_by_every_way(keyed, tmp_path, type):
    values = VALUES[type]
    single, many, bundled = (keyed.value_state(name, type) for name in ("single", "many", "bundled"))
    keys = [f"k{i}" for i in range(len(values))]
    for key, value in zip(keys, values, strict=True):
        single.put(key, value)
    many.put_many(keys, values)
    with bundled.bundle(keys) as rows:
        rows.update(zip(keys, values, strict=True))
    for state in (single, many, bundled):
        assert [state.get(key) for key in keys] == values
        assert [state[key] for key in keys] == values
        with state.bundle(keys) as rows:
            assert rows == dict(zip(keys, values, strict=True))
    answers = many.get_many([*reversed(keys), "absent", keys[0]])
    assert single.get_many([*reversed(keys), "absent", keys[0]]) == answers
    if isinstance(answers, pa.Array):
        assert answers.type == many.type
        plain = [vars(v) if isinstance(v, Trip) else msgspec.structs.asdict(v) if isinstance(v, Score) else v for v in values]
        assert answers.to_pylist() == [*reversed(plain), None, plain[0]]
    else:
        assert answers == [*reversed(values), None, values[0]]


def test_absent_is_none_and_none_clears(keyed):
    state = keyed.value_state("v", int)
    assert state.get("a") is None
    assert state.get("a", 7) == 7
    assert "a" not in state
    with pytest.raises(KeyError, match="a"):
        state["a"]
    state.put("a", 0)
    assert state.get("a", 7) == 0
    assert "a" in state
    state.put("a", None)
    assert "a" not in state
    state.put("a", 1)
    state.clear("a")
    state.clear("never")
    assert state.get_many(["a", "never"]).to_pylist() == [None, None]
    state.put_many(["a", "b"], [1, 2])
    state.put_many(["a", "b"], [None, 3])
    assert state.get_many(["a", "b"]).to_pylist() == [None, 3]


def test_batches_answer_by_position_and_the_last_write_wins(keyed):
    state = keyed.value_state("v", int)
    state.put_many(["a", "b", "a", "c", "a"], [1, 2, 3, None, 4])
    assert state.get_many(["c", "a", "b", "a"]).to_pylist() == [None, 4, 2, 4]
    assert state.contains_many(["c", "a", "b", "a"]).to_pylist() == [False, True, True, True]
    state.put_many(["a", "a"], [9, None])
    assert state.get("a") is None
    state.put_many(["a", "a"], [None, 9])
    assert state.get("a") == 9
    state.clear_many(["a", "z", "a"])
    assert state.contains_many(["a", "b"]).to_pylist() == [False, True]


@pytest.mark.parametrize("shape", [list, tuple, np.array, pa.array, lambda keys: pa.chunked_array([keys[:2], keys[2:]])])
def test_empty_and_other_batches_in_every_shape(keyed, shape):
    state = keyed.value_state("v", pa.int32())
    state.put_many(shape(["a", "b", "c"]), shape([1, 2, 3]))
    assert state.get_many(shape(["c", "a", "x"])).to_pylist() == [3, 1, None]
    none_at_all = pa.array([], pa.utf8())
    assert state.get_many(none_at_all) == pa.array([], pa.int32())
    assert state.contains_many(none_at_all) == pa.array([], pa.bool_())
    state.put_many(none_at_all, [])
    state.clear_many([])
    with state.bundle([]) as rows:
        assert rows == {}


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 1000, 10_000])
@pytest.mark.parametrize("key", [int, str])
def test_batches_of_every_size_sort_right(tmp_path, key, count):
    """Around the limits of the sort and of the chunks, with duplicates, in an order that is not the keys'."""
    rng = np.random.default_rng(count)
    numbers = rng.integers(-(2**63), 2**63 - 1, count) if count % 2 else rng.integers(0, 3 * count, count)
    keys = [key(number) for number in numbers.tolist()]
    with sfkv.open(tmp_path / "s", key=key) as keyed:
        state = keyed.value_state("v", int)
        state.put_many(keys, list(range(count)))
        expected = dict(zip(keys, range(count), strict=True))
        asked = [keys[i] for i in rng.integers(0, count, count)]
        assert state.get_many(asked).to_pylist() == [expected[one] for one in asked]
        assert sorted(state.scan_keys().to_arrow()["key"].to_pylist()) == sorted(expected)


def test_keys_that_begin_alike_are_told_apart(keyed):
    """Longer shared beginnings than the sorted word has bytes, zero bytes, and keys that are beginnings of others."""
    keys = ["x" * n for n in range(70)] + ["x" * 40 + c for c in "\0\1a\x7fÿ"] + ["\0" * n for n in range(1, 70)]
    state = keyed.value_state("v", int)
    state.put_many(keys, list(range(len(keys))))
    assert state.get_many(keys).to_pylist() == list(range(len(keys)))
    assert [state.get(key) for key in keys] == list(range(len(keys)))


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        (bytes, [b"", b"\0", b"\xff" * 300]),
        (int, [-(2**63), 0, 2**63 - 1]),
        (bool, [True, False]),
        (float, [1.5, float("-inf")]),
        (dt.date, [dt.date(2020, 2, 29)]),
        (dt.datetime, [dt.datetime(2020, 2, 29, 1)]),
        ({"user": str, "day": dt.date | None}, [("a", dt.date(2020, 1, 1)), ("a", None), ("", None)]),
        (pa.schema([("a", pa.int32()), ("b", pa.binary())]), [(1, b""), (None, b"x"), (None, None)]),
    ],
    ids=str,
)
def test_keys_of_every_kind(tmp_path, key, keys):
    with sfkv.open(tmp_path / "s", key=key) as keyed:
        state = keyed.value_state("v", int)
        for i, one in enumerate(keys):
            state.put(one, i)
        assert state.get_many(keys).to_pylist() == list(range(len(keys)))
        with state.bundle(keys) as rows:
            assert rows == {one: i for i, one in enumerate(keys)}
            for one in keys:
                rows[one] += 10
        assert [state.get(one) for one in keys] == [i + 10 for i in range(len(keys))]


def test_numpy_scalars_and_subclasses_are_taken_like_their_values(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", float)
        state.put(np.int32(5), np.float64(1.5))
        state.put(np.int64(6), 2)
        assert [state.get(5), state.get(np.uint8(6))] == [1.5, 2.0]


def test_answers_outlive_the_backend(tmp_path):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        state = keyed.value_state("v", str)
        state.put_many(["a", "b"], ["x" * 100, "y"])
        answer = state.get_many(["b", "a"])
    assert answer.to_pylist() == ["y", "x" * 100]


def test_writes_are_split_and_all_arrive(tmp_path):
    backend = new_backend(write_batch_bytes=64)
    with backend.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", str)
        state.put_many(range(500), [str(i) * (i % 7) for i in range(500)])
        with state.bundle(range(500)) as rows:
            for i in range(0, 500, 2):
                rows[i] = "even"
        state.clear_many(range(0, 500, 4))
        expected = [None if i % 4 == 0 else "even" if i % 2 == 0 else str(i) * (i % 7) for i in range(500)]
        assert state.get_many(range(500)).to_pylist() == expected


# --- What bad input gets: an error that names state and row, and nothing written.

BAD_KEYS = [(1, None), (None, None), (b"a", None), ("\ud800", None), (["a"], None), (("a",), None)]


@pytest.mark.parametrize("key", [1, None, b"a", "\ud800", ["a"], ("a",), 1.5, object()])
def test_a_bad_key_is_refused_everywhere(keyed, key):
    state = keyed.value_state("seen", int)
    state.put("good", 1)
    calls = [
        lambda: state.get(key),
        lambda: state.put(key, 2),
        lambda: state.clear(key),
        lambda: key in state,
        lambda: state[key],
        lambda: state.get_many(["good", key]),
        lambda: state.put_many(["good", key], [2, 2]),
        lambda: state.clear_many(["good", key]),
        lambda: state.contains_many(["good", key]),
        lambda: state.bundle(["good", key]).__enter__(),
    ]
    for call in calls:
        with pytest.raises(sfkv.SchemaError, match="seen"):
            call()
    assert state.get("good") == 1


@pytest.mark.parametrize("value", ["1", 1.5, True, 2**63, b"1", [1]])
def test_a_bad_value_is_refused_before_anything_is_written(keyed, value):
    state = keyed.value_state("seen", int)
    state.put("good", 1)
    with pytest.raises(sfkv.SchemaError, match="seen"):
        state.put("good", value)
    with pytest.raises(sfkv.SchemaError, match="seen") as raised:
        state.put_many(["good", "other"], [2, value])
    assert raised.value.state == "seen"
    with pytest.raises(sfkv.SchemaError, match="seen"), state.bundle(["good", "other"]) as rows:
        rows["good"] = 2
        rows["other"] = value
    assert state.get_many(["good", "other"]).to_pylist() == [1, None]


def test_lengths_that_differ_are_refused(keyed):
    state = keyed.value_state("seen", int)
    with pytest.raises(sfkv.SchemaError, match="2 keys and 1 values.*seen"):
        state.put_many(["a", "b"], [1])
    assert state.get("a") is None


def test_a_null_in_a_column_that_has_none_names_row_and_column(keyed):
    state = keyed.value_state("trips", Trip)
    good = Trip("N1", None, dt.datetime(2020, 1, 1))
    with pytest.raises(sfkv.SchemaError, match="plane") as raised:
        state.put("a", Trip(None, 1, dt.datetime(2020, 1, 1)))
    assert raised.value.column == "plane"
    with pytest.raises(sfkv.SchemaError, match="plane") as raised:
        state.put_many(["a", "b"], [good, Trip(None, 1, dt.datetime(2020, 1, 1))])
    assert (raised.value.row, raised.value.column, raised.value.state) == (1, "plane", "trips")
    assert state.get("a") is None
    state.put_many(["a", "b"], [good, None])
    assert state.get_many(["a", "b"]).is_null().to_pylist() == [False, True]


def test_a_record_with_other_fields_is_refused(keyed):
    state = keyed.value_state("s", pa.struct({"a": pa.int64(), "b": pa.int64()}))
    for value in ({"a": 1, "c": 2}, {"a": 1, "b": 2, "c": 3}, [1, 2, 3], 7):
        with pytest.raises(sfkv.SchemaError):
            state.put("k", value)
    state.put("k", {"a": 1})
    assert state.get("k") == {"a": 1, "b": None}


def test_objects_that_msgpack_cannot_hold_are_refused(keyed):
    state = keyed.value_state("o", object)
    for value in (object(), {1, 2} | {object()}, 2**70, lambda: 0):
        with pytest.raises(sfkv.SchemaError, match="msgpack"):
            state.put("k", value)
        with pytest.raises(sfkv.SchemaError, match="msgpack"):
            state.put_many(["k", "l"], [1, value])
    nested = []
    nested.append(nested)
    with pytest.raises(sfkv.SchemaError, match="msgpack"):
        state.put("k", nested)
    assert state.get_many(["k", "l"]) == [None, None]


def test_objects_of_another_class_than_stored_are_refused_on_reading(keyed):
    keyed.value_state("o", object).put("k", {"a": 1})
    with pytest.raises(sfkv.SchemaError, match="msgpack"):
        keyed.value_state("o", sfkv.Msgpack(list[int])).get("k")


def test_times_that_python_cannot_hold_say_so(keyed):
    state = keyed.value_state("t", pa.timestamp("ns"))
    state.put_many(["a"], pa.array([1], pa.timestamp("ns")))
    with pytest.raises(sfkv.SchemaError, match="nanoseconds.*get_many"):
        state.get("a")
    seconds = keyed.value_state("s", pa.timestamp("s"))
    seconds.put_many(["a"], pa.array([2**40], pa.timestamp("s")))
    with pytest.raises(sfkv.SchemaError, match="years.*get_many"):
        seconds.get("a")
    days = keyed.value_state("d", pa.date32())
    days.put_many(["a"], pa.array([2**30], pa.int32()).cast(pa.date32()))
    with pytest.raises(sfkv.SchemaError, match="years.*get_many"):
        days.get("a")
    with pytest.raises(sfkv.SchemaError):
        seconds.put("a", dt.datetime(2020, 1, 1, 0, 0, 0, 1))
    with pytest.raises(sfkv.SchemaError):
        state.put("a", dt.datetime(3000, 1, 1))


# --- Limits: FORMAT.md sections 3 and 4.


def test_the_longest_key_is_taken_and_one_byte_more_refused(keyed):
    state = keyed.value_state("v", int)
    longest = "k" * (65535 - 2)
    state.put(longest, 1)
    state.put_many([longest], [2])
    assert state.get(longest) == 2
    for call in (lambda: state.put(longest + "k", 1), lambda: state.get_many(["a", longest + "k"])):
        with pytest.raises(sfkv.LimitError, match="65535"):
            call()


def test_the_longest_value_is_taken_and_one_byte_more_refused(keyed):
    state = keyed.value_state("v", bytes)
    longest = bytes(256 << 20)
    state.put("a", longest)
    assert len(state.get("a")) == len(longest)
    with pytest.raises(sfkv.LimitError, match="268435456.*split"):
        state.put("b", longest + b"x")
    with pytest.raises(sfkv.LimitError) as raised:
        state.put_many(["c", "b"], [b"", longest + b"x"])
    assert raised.value.row == 1
    assert state.get_many(["b", "c"]).to_pylist() == [None, None]


def test_an_answer_beyond_an_arrow_array_is_refused(keyed):
    state = keyed.value_state("v", bytes)
    state.put("a", bytes(200 << 20))
    with pytest.raises(sfkv.LimitError, match="fewer keys"):
        state.get_many(["a"] * 11)
