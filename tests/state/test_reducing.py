"""ReducingState: values that are folded into one."""

import datetime as dt
import operator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import sfkv
from sfkv import _batch
from tests.backends import new_backend
from tests.state.aggregates import rows_of

pytestmark = pytest.mark.backends


DAYS = [dt.date(2013, 1, 3), dt.date(2013, 1, 1), dt.date(2013, 1, 2)]
MOMENTS = [dt.datetime(2013, 1, 1, hour) for hour in (5, 3, 4)]
LENGTHS = [dt.timedelta(minutes=minutes) for minutes in (5, -3, 4)]
CASES = [
    *(
        (type, [3, 1, 2])
        for type in (int, pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    ),
    *((type, [1.5, -0.5, 1.0]) for type in (float, pa.float32(), pa.float16())),
    (pa.decimal128(10, 2), [Decimal("3.30"), Decimal("-1.10"), Decimal("2.20")]),
    (pa.decimal256(60, 3), [Decimal("3.300"), Decimal("-1.100"), Decimal("2.200")]),
    (dt.timedelta, LENGTHS),
    (dt.date, DAYS),
    (dt.datetime, MOMENTS),
    (bool, [True, False, True]),
    (str, ["b", "", "ü"]),
    (bytes, [b"b", b"", b"\xff"]),
    (pa.binary(2), [b"b\0", b"\0\0", b"\xff\0"]),
]
IDS = [getattr(type, "__name__", str(type)) for type, _ in CASES]
FOLDS = {
    "sum": lambda values: sum(values[1:], values[0]),
    "min": min,
    "max": max,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}
SUMMED = (int, float, Decimal, dt.timedelta)


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize(("type", "values"), CASES, ids=IDS)
def test_every_fold_of_every_type_by_every_way(keyed, type, values, name):
    if name == "sum" and (isinstance(values[0], bool) or not isinstance(values[0], SUMMED)):
        with pytest.raises(sfkv.SchemaError, match="there is no sum of .* it takes whole numbers, floats and decimals"):
            keyed.reducing_state("s", type, name)
        assert keyed.states == {}
        return
    expected = FOLDS[name](values)
    one, many, mixed = (keyed.reducing_state(state, type, name) for state in ("one", "many", "mixed"))
    for value in values:
        one.add("k", value)
        one.add("l", value)
    many.add_many(["k", "l"] * len(values), [value for value in values for _ in "kl"])
    mixed.add("k", values[0])
    keyed._store.flush()
    mixed.add_many(["k", "l"], [values[1], values[0]])
    keyed.compact()
    mixed.add("k", values[2])
    mixed.add_many(pa.array(["l", "l"]), pa.array(values[1:], mixed.type))
    for state in (one, many, mixed):
        assert state.get("k") == state["l"] == expected
        answer = state.get_many(["absent", "k", "l", "k"])
        assert answer.type == state.type
        assert answer.to_pylist() == [None, *[expected] * 3]
        assert rows_of(state) == {"k": expected, "l": expected}


def test_absent_is_none_and_a_zero_is_not(keyed):
    state = keyed.reducing_state("s", int, "sum")
    assert state.get("a") is None
    assert state.get("a", 7) == 7
    assert "a" not in state
    with pytest.raises(KeyError):
        state["a"]
    state.add("a", 0)
    assert state.get("a", 7) == state["a"] == 0
    assert "a" in state
    assert state.get_many(["a", "b"]).to_pylist() == [0, None]
    assert state.contains_many(["a", "b"]).to_pylist() == [True, False]
    assert state.scan_keys().to_arrow().to_pydict() == {"key": ["a"]}
    state.clear("a")
    state.clear("a")
    assert "a" not in state
    state.add_many(["a", "b", "c"], [1, 2, 3])
    state.clear_many(["a", "x", "c"])
    assert rows_of(state) == {"b": 2}
    state.add("a", 5)
    assert state.get("a") == 5  # from the beginning


def test_an_empty_batch_does_nothing(keyed):
    state = keyed.reducing_state("s", int, "sum")
    state.add_many([], [])
    assert state.get_many([]).to_pylist() == []
    state.add_many([], [], offset=7)
    assert keyed.offset == 7
    assert rows_of(state) == {}


@pytest.mark.parametrize("reduce", ["sum", "first", "last", operator.add])
def test_none_cannot_be_added(keyed, reduce):
    state = keyed.reducing_state("s", int, reduce)
    state.add("a", 1)
    with pytest.raises(sfkv.SchemaError, match=r"None cannot be added \[state 's', add\]"):
        state.add("a", None)
    with pytest.raises(sfkv.SchemaError, match=r"None cannot be added \[state 's', add_many, row 1\]") as caught:
        state.add_many(["b", "a"], [1, None], offset=1)
    assert caught.value.row == 1
    assert rows_of(state) == {"a": 1}
    assert keyed.offset is None


@pytest.mark.parametrize("reduce", ["sum", "min", "last", operator.add])
def test_bad_values_and_keys_leave_everything_as_it_was(keyed, reduce):
    state = keyed.reducing_state("s", pa.int8(), reduce)
    state.add("a", 1)
    with pytest.raises(sfkv.SchemaError):
        state.add("a", 1000)
    with pytest.raises(sfkv.SchemaError):
        state.add("a", "1")
    with pytest.raises(sfkv.SchemaError) as caught:
        state.add_many(["a", "b", "a"], [1, 2, 128])
    assert caught.value.row == 2
    with pytest.raises(sfkv.SchemaError, match="2 keys and 1 values"):
        state.add_many(["a", "b"], [1])
    with pytest.raises(sfkv.SchemaError, match="a key cannot be None"):
        state.add_many(["a", None], [1, 1])
    assert rows_of(state) == {"a": 1}


@pytest.mark.parametrize(
    ("type", "most", "text"),
    [
        (int, 2**63 - 1, str(2**64 - 2)),
        (int, -(2**63), str(-(2**64))),
        (pa.int8(), 100, "200"),
        (pa.uint8(), 255, "510"),
        (pa.uint64(), 2**64 - 1, str(2**65 - 2)),
        (pa.decimal128(3, 1), Decimal("-99.9"), "-1998"),
        (pa.decimal128(38, 0), Decimal(10**38 - 1), str(2 * (10**38 - 1))),
        (pa.decimal256(76, 0), Decimal(10**76 - 1), str(2 * (10**76 - 1))),
        (pa.duration("ns"), pa.scalar(2**63 - 1, pa.duration("ns")), str(2**64 - 2)),
    ],
    ids=str,
)
def test_a_sum_that_its_type_does_not_hold_is_an_error_and_never_wraps(keyed, type, most, text):
    state = keyed.reducing_state("s", type, "sum")
    most_of_two = pa.array([most.value if isinstance(most, pa.Scalar) else most] * 2, state.type)
    state.add_many(["a", "a"], most_of_two)
    state.add_many(["b"], most_of_two[:1])
    with pytest.raises(sfkv.SchemaError, match=f"the result is {text}.* its type does not hold: clear the key"):
        state.get("a")
    with pytest.raises(sfkv.SchemaError, match="row 1") as caught:
        state.get_many(["b", "a"])
    assert caught.value.row == 1
    with pytest.raises(sfkv.SchemaError, match="its type does not hold"):
        state.scan().to_arrow()
    assert state.get_many(["b"]) == most_of_two[:1]
    assert "a" in state
    state.clear("a")
    assert state.get_many(["a", "b"]).null_count == 1


def test_an_overflow_goes_away_with_what_is_added_later(keyed):
    state = keyed.reducing_state("s", pa.int8(), "sum")
    state.add_many(["a"] * 3, [127, 127, -128])
    assert state.get("a") == 126


def test_float_sums_are_compensated_and_as_ieee_says(keyed):
    state = keyed.reducing_state("s", float, "sum")
    state.add_many(["a"] * 3, [1e100, 1.0, -1e100])
    assert state.get("a") == 1.0
    for _ in range(10):
        state.add("tenths", 0.1)
    assert state.get("tenths") == 1.0
    state.add_many(["inf"] * 2, [float("inf"), 1.0])
    state.add_many(["nan"] * 2, [float("inf"), float("-inf")])
    assert state.get("inf") == float("inf")
    assert np.isnan(state.get("nan"))
    small = keyed.reducing_state("h", pa.float16(), "sum")
    small.add_many(["a"] * 2, np.array([65504, 65504], np.float16))
    small.add_many(["b"] * 3, np.array([2049, 1, -0.5], np.float32).astype(np.float16))
    assert small.get("a") == float("inf")
    assert small.get("b") == 2048 + 0  # 2048.5, of whose neighbours 2048 is the even one


def test_min_and_max_order_zeros_and_nans(keyed):
    least, most = keyed.reducing_state("min", float, "min"), keyed.reducing_state("max", float, "max")
    for state in (least, most):
        state.add_many(["z"] * 2, [0.0, -0.0])
        state.add("y", -0.0)
        state.add("y", 0.0)
        state.add_many(["n"] * 3, [1.0, float("nan"), float("inf")])
        state.add("m", float("nan"))
    assert [np.signbit(least.get(key)) for key in "zy"] == [True, True]
    assert [np.signbit(most.get(key)) for key in "zy"] == [False, False]
    assert least.get("n") == 1.0
    assert np.isnan(most.get("n"))
    assert np.isnan(least.get("m"))


@pytest.mark.parametrize("draw", ["hot", "spread"])
def test_many_operands_of_many_keys_are_settled_right(keyed, draw):
    """More adds than a key's operands may be: some are folded into what is stored, by a read and a put."""
    states = {name: keyed.reducing_state(name, int, name) for name in FOLDS}
    rng = np.random.default_rng(5)
    expected = {}
    for _ in range(60):
        keys = rng.integers(0, 3 if draw == "hot" else 300, 50)
        values = rng.integers(-(2**40), 2**40, 50)
        for state in states.values():
            state.add_many([str(key) for key in keys], values)
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            expected.setdefault(str(key), []).append(value)
        value = int(values[0])
        for state in states.values():
            state.add("one", value)
        expected.setdefault("one", []).append(value)
    for name, state in states.items():
        assert rows_of(state) == {key: FOLDS[name](values) for key, values in expected.items()}


def test_records_are_folded_by_first_last_and_functions(keyed):
    @dataclass
    class Flight:
        to: str
        delay: int | None = None

    first, last = (keyed.reducing_state(name, Flight, name) for name in ("first", "last"))
    worst = keyed.reducing_state("worst", Flight, lambda a, b: max(a, b, key=lambda flight: flight.delay or 0))
    flights = [Flight("IAH", 2), Flight("ORD", 9), Flight("MIA")]
    for state in (first, last, worst):
        state.add_many(["a", "a", "b"], [flights[0], flights[1], flights[2]])
        state.add("a", flights[2])
    assert (first.get("a"), last.get("a"), worst.get("a")) == (flights[0], flights[2], flights[1])
    assert first.get_many(["b", "c"]).to_pylist() == [{"to": "MIA", "delay": None}, None]
    assert first.scan().to_arrow().sort_by("key").to_pydict() == {"key": ["a", "b"], "to": ["IAH", "MIA"], "delay": [2, None]}
    assert worst.scan().to_arrow().sort_by("key").to_pydict() == {"key": ["a", "b"], "to": ["ORD", "MIA"], "delay": [9, None]}
    with pytest.raises(sfkv.SchemaError, match="there is no sum of struct"):
        keyed.reducing_state("s", Flight, "sum")


def test_a_record_that_gains_a_column_is_read_as_before(keyed):
    old = {"to": str}
    new = {"to": str, "delay": int | None}
    for name in ("first", "last"):
        keyed.reducing_state(name, old, name).add("a", {"to": "IAH"})
        state = keyed.reducing_state(name, new, name)
        state.add("b", {"to": "ORD", "delay": 3})
        state.add("a", {"to": "MIA", "delay": 1})
        assert state.get("a") == ({"to": "IAH", "delay": None} if name == "first" else {"to": "MIA", "delay": 1})
        assert state.get_many(["b", "a"]).to_pylist()[0] == {"to": "ORD", "delay": 3}


def test_objects_are_folded_by_first_last_and_functions(keyed):
    first = keyed.reducing_state("first", dict, "first")
    merged = keyed.reducing_state("merged", dict, lambda a, b: {**a, **b})
    for state in (first, merged):
        state.add_many(["a", "a"], [{"x": 1}, {"y": 2}])
        state.add("a", {"z": 3})
    assert first.get("a") == {"x": 1}
    assert merged.get("a") == {"x": 1, "y": 2, "z": 3}
    assert merged.get_many(["a", "b"]) == [{"x": 1, "y": 2, "z": 3}, None]
    assert first.get_many(["a", "b"]) == [{"x": 1}, None]
    assert first.type == pa.binary()
    assert first.scan().to_arrow()["value"].to_pylist() == [b"\x81\xa1x\x01"]


def test_a_function_is_called_in_the_order_of_adding(keyed):
    calls = []

    def join(a, b):
        calls.append((a, b))
        return a + b

    state = keyed.reducing_state("s", str, join)
    state.add_many(["k", "l", "k", "k"], ["a", "x", "b", "c"])
    state.add("k", "d")
    assert state.get("k") == "abcd"
    assert state.get("l") == "x"
    assert calls == [("a", "b"), ("ab", "c"), ("abc", "d")]


def test_a_function_that_raises_leaves_the_state_as_it_was(keyed):
    def divide(a, b):
        return a // b

    state = keyed.reducing_state("shares", int, divide)
    state.add_many(["a", "b"], [100, 7])
    with pytest.raises(sfkv.UsageError, match=r"ZeroDivisionError for the key 'a'.*state 'shares', add\]") as caught:
        state.add("a", 0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert (caught.value.state, caught.value.operation) == ("shares", "add")
    with pytest.raises(sfkv.UsageError, match=r"for the key 'a'.*row 2") as caught:
        state.add_many(["b", "c", "a"], [7, 5, 0], offset=1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.row == 2
    assert rows_of(state) == {"a": 100, "b": 7}
    assert keyed.offset is None


def test_what_a_function_returns_must_be_a_value(keyed):
    state = keyed.reducing_state("s", int, lambda a, b: {1: None, 2: "two"}.get(b, a + b))
    state.add("a", 5)
    with pytest.raises(sfkv.UsageError, match="returned None"):
        state.add("a", 1)
    with pytest.raises(sfkv.SchemaError):
        state.add_many(["b", "a"], [3, 2])
    assert rows_of(state) == {"a": 5}


def test_a_name_that_is_none_lists_those_that_are(keyed):
    with pytest.raises(sfkv.ConfigError, match="reduce is 'avg': use one of sum, min, max, first, last, or a function"):
        keyed.reducing_state("s", int, "avg")
    with pytest.raises(sfkv.ConfigError, match="'mean' is one of aggregating states"):
        keyed.reducing_state("s", int, "mean")
    for wrong in (7, None, ["sum"]):
        with pytest.raises(sfkv.ConfigError, match="reduce is "):
            keyed.reducing_state("s", int, wrong)
    assert keyed.states == {}


def test_registering_again_gives_the_same_state_or_says_what_differs(keyed):
    state = keyed.reducing_state("s", int, "sum")
    assert keyed.reducing_state("s", int, "sum") is state
    assert keyed.states == {"s": "reducing<int64, sum>"}
    for again in (
        lambda: keyed.reducing_state("s", int, "min"),
        lambda: keyed.reducing_state("s", float, "sum"),
        lambda: keyed.reducing_state("s", int, operator.add),
        lambda: keyed.value_state("s", int),
        lambda: keyed.aggregating_state("s", int, "sum"),
    ):
        with pytest.raises(sfkv.SchemaError, match="holds reducing<int64, sum>, and was asked for as "):
            again()
    by_function = keyed.reducing_state("f", int, operator.add)
    assert keyed.reducing_state("f", int, operator.add) is by_function
    other = keyed.reducing_state("f", int, operator.sub)
    other.add_many(["a", "a"], [5, 3])
    assert by_function.get("a") == other.get("a") == 2
    assert keyed.states["f"] == "reducing<int64, a function>"


def test_a_batch_over_states_sees_its_adds_and_drops_them(keyed):
    states = [keyed.reducing_state(str(reduce), int, reduce) for reduce in (*FOLDS, operator.add)]
    for state in states:
        state.add("a", 5)
    with keyed.batch():
        for state in states:
            state.add("a", 1)
            state.add_many(["b", "a", "b"], [1, 9, 2])
        seen = [state.get_many(["a", "b"]).to_pylist() for state in states]
        single = [[state.get("a"), state.get("b")] for state in states]
    assert seen == single == [[15, 3], [1, 1], [9, 2], [5, 1], [9, 2], [15, 3]]
    with pytest.raises(ZeroDivisionError), keyed.batch():
        for state in states:
            state.add("a", 100)
            state.clear("b")
        assert states[0].get("a") == 115
        raise ZeroDivisionError
    assert [state.get_many(["a", "b"]).to_pylist() for state in states] == seen


def test_snapshots_hold_them_and_a_restored_store_goes_on(keyed, tmp_path):
    keyed.reducing_state("s", int, "sum").add_many(["a", "b", "a"], [1, 2, 3])
    keyed.reducing_state("f", str, operator.add).add_many(["a", "a"], ["x", "y"])
    keyed.reducing_state("l", str, "last").add_many(["a", "a"], ["x", "y"])
    snapshot = keyed.snapshot(1, tmp_path / "snapshots").result()
    keyed.reducing_state("s", int, "sum").add("a", 100)
    backend = new_backend()
    with backend.restore(tmp_path / "restored", snapshot) as restored:
        assert restored.states == {"s": "reducing<int64, sum>", "f": "reducing<utf8, a function>", "l": "reducing<utf8, last>"}
        state = restored.reducing_state("s", int, "sum")
        state.add("a", 10)
        assert rows_of(state) == {"a": 14, "b": 2}
        joined = restored.reducing_state("f", str, operator.add)
        joined.add("a", "z")
        assert joined.get("a") == "xyz"
        with pytest.raises(sfkv.SchemaError, match="reducing<int64, sum>"):
            restored.reducing_state("s", int, "max")


def test_a_dropped_state_ends_and_its_name_is_free(keyed):
    state = keyed.reducing_state("s", int, "sum")
    state.add("a", 1)
    keyed.drop_state("s")
    for call in (lambda: state.get("a"), lambda: state.add("a", 1), lambda: state.add_many(["a"], [1]), state.scan):
        with pytest.raises(sfkv.ClosedError, match="dropped"):
            call()
    again = keyed.reducing_state("s", int, "max")
    assert again.get("a") is None


def test_operands_are_folded_by_a_store_that_knows_no_state_yet(tmp_path):
    """Opening compacts nothing by itself; compacting before any state is registered folds what is there."""
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        state = keyed.reducing_state("s", int, "sum")
        for i in range(5):
            state.add_many(["a", "b"], [i, 1])
            keyed._store.flush()
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        keyed.compact()
        assert rows_of(keyed.reducing_state("s", int, "sum")) == {"a": 10, "b": 5}


def test_a_damaged_row_is_reported_and_never_read_past_its_end(keyed):
    state = keyed.reducing_state("s", int, "sum")
    state.add("a", 1)
    (key,) = keyed._store.read_range(b"", b"\xff\xff")
    good = keyed._store.read_range(b"", b"\xff\xff")[key]
    for damaged in (b"", good[:3], good[:4], good[:-1], good + b"\0", b"\x80\0\2" + good[3:], b"\x80\0\0\0" + good):
        _batch.write_rows(keyed._store, {key: damaged}, "test")
        for read in (lambda: state.get("a"), lambda: state.get_many(["a"]), lambda: state.scan().to_arrow()):
            with pytest.raises(sfkv.CorruptionError, match="Corruption: a stored accumulator"):
                read()
        if damaged[:4] != good[:4] and len(damaged) >= 4:
            state.add("a", 1)  # does not fail, and mends nothing
            with pytest.raises(sfkv.CorruptionError):
                state.get("a")


def test_reprs_name_state_type_and_fold(keyed):
    assert repr(keyed.reducing_state("s", int, "sum")) == "ReducingState('s', int64, sum)"
    assert keyed.reducing_state("s", int, "sum").name == "s"
