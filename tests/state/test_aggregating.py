"""AggregatingState: results of what is added, of another type than that."""

import datetime as dt
import math
import statistics
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import sfkv
from sfkv import _batch
from sfkv._folds import BUILT_INS
from tests.backends import new_backend
from tests.state.aggregates import Mean, rows_of

pytestmark = pytest.mark.backends


EXPECTED = {
    "sum": lambda values: sum(values[1:], values[0]),
    "min": min,
    "max": max,
    "count": len,
    "mean": statistics.fmean,
    "variance": statistics.pvariance,
    "sample_variance": lambda values: statistics.variance(values) if len(values) > 1 else math.nan,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "count_distinct": lambda values: len(set(values)),
    "collect": list,
}
NUMBERS = [
    *((type, [3, 1, 2, 3]) for type in (int, pa.int8(), pa.int32(), pa.uint8(), pa.uint64())),
    *((type, [1.5, -0.5, 1.0, 1.5]) for type in (float, pa.float32(), pa.float16())),
]


@pytest.mark.parametrize("name", BUILT_INS)
@pytest.mark.parametrize(("type", "values"), NUMBERS, ids=[str(getattr(type, "__name__", type)) for type, _ in NUMBERS])
def test_every_fold_of_numbers_by_every_way(keyed, type, values, name):
    one, many, mixed = (keyed.aggregating_state(state, type, name) for state in ("one", "many", "mixed"))
    for value in values:
        one.add("k", value)
    many.add_many(["k", "l"] * len(values), [part for value in values for part in (value, values[0])])
    mixed.add("k", values[0])
    keyed._store.flush()
    mixed.add_many(["k", "k"], values[1:3])
    keyed.compact()
    mixed.add("k", values[3])
    expected, of_one = EXPECTED[name](values), EXPECTED[name]([values[0]] * len(values))
    for state in (one, many, mixed):
        assert state.get("k") == pytest.approx(expected, rel=1e-12)
        answer = state.get_many(["absent", "k"])
        assert answer.type == state.type
        answer.validate(full=True)
        assert answer[0].as_py() is None
        assert answer[1].as_py() == pytest.approx(expected, rel=1e-12)
        assert rows_of(state)["k"] == pytest.approx(expected, rel=1e-12)
        assert state.get("absent") is None
        assert state.get("absent", "none") == "none"
    assert many.get("l") == pytest.approx(of_one, rel=1e-12)


@pytest.mark.parametrize("name", ["count", "first", "last", "collect", "min", "max", "count_distinct"])
@pytest.mark.parametrize(
    ("type", "values"),
    [
        (str, ["b", "a\0", "", "b", "ü" * 100]),
        (bytes, [b"b", b"", b"b", b"\xff", b"\0"]),
        (pa.binary(2), [b"bb", b"aa", b"bb", b"cc", b"\0\0"]),
        (bool, [True, False, True, True, True]),
        (dt.date, [dt.date(2013, 1, day) for day in (2, 1, 2, 3, 2)]),
        (dt.datetime, [dt.datetime(2013, 1, day) for day in (2, 1, 2, 3, 2)]),
        (pa.time32("ms"), [dt.time(2, 1, second) for second in (2, 1, 2, 3, 2)]),
        (pa.decimal128(5, 2), [Decimal(text) for text in ("2.00", "1.10", "2.00", "-3.33", "2.00")]),
        (pa.decimal256(70, 2), [Decimal(text) for text in ("2.00", "1.10", "2.00", "-3.33", "2.00")]),
    ],
    ids=str,
)
def test_folds_of_what_is_no_number(keyed, type, values, name):
    one, many = keyed.aggregating_state("one", type, name), keyed.aggregating_state("many", type, name)
    for value in values:
        one.add("k", value)
    many.add_many(["k"] * len(values), values)
    expected = EXPECTED[name](values)
    for state in (one, many):
        assert state.get("k") == expected
        assert state.get_many(["k", "absent", "k"]).to_pylist() == [expected, None, expected]
        assert rows_of(state) == {"k": expected}


NESTED = [
    (pa.list_(pa.int64()), [[1, None], [], [1, None]]),
    (pa.map_(pa.utf8(), pa.int8()), [[("a", 1)], [], [("a", None)]]),
    (
        {"to": str, "tags": pa.list_(pa.utf8())},
        [{"to": "IAH", "tags": ["x"]}, {"to": "", "tags": []}, {"to": "IAH", "tags": ["x"]}],
    ),
]


@pytest.mark.parametrize("name", ["count", "first", "last", "collect"])
@pytest.mark.parametrize(("type", "values"), NESTED, ids=["list", "map", "record"])
def test_folds_of_nested_values_and_records(keyed, type, values, name):
    state = keyed.aggregating_state("s", type, name)
    state.add("k", values[0])
    state.add_many(["k", "k"], values[1:])
    expected = EXPECTED[name](values)
    assert state.get("k") == expected
    assert state.get_many(["absent", "k"]).to_pylist() == [None, expected]
    scanned = state.scan().to_arrow().to_pylist()
    is_record = isinstance(type, dict) and name in ("first", "last")
    assert scanned == [{"key": "k", **expected} if is_record else {"key": "k", "value": expected}]


def test_folds_of_objects(keyed):
    values = [{"a": 1}, {"b": [2]}, {"a": 1}]
    for name, expected in (("count", 3), ("first", values[0]), ("last", values[2]), ("collect", values)):
        state = keyed.aggregating_state(name, dict, name)
        state.add("k", values[0])
        state.add_many(["k", "k"], values[1:])
        assert state.get("k") == expected
        answers = state.get_many(["absent", "k"])
        assert (answers if isinstance(answers, list) else answers.to_pylist()) == [None, expected]


def test_means_of_decimals_and_durations_are_exact(keyed):
    state = keyed.aggregating_state("d", pa.decimal128(10, 2), "mean")
    assert state.type == pa.decimal128(16, 8)
    state.add_many(["a"] * 3, [Decimal("0.01"), Decimal("0.01"), Decimal(0)])
    state.add_many(["b"] * 3, [Decimal("-0.01"), Decimal("-0.01"), Decimal(0)])
    state.add_many(["c"], [Decimal("99999999.99")])
    state.add_many(["h"] * 2_000_000, pa.array([Decimal(0)] * 1_999_999 + [Decimal("0.01")], pa.decimal128(10, 2)))
    assert state.get_many(["a", "b", "c"]).to_pylist() == [
        *(Decimal("0.00666667"), Decimal("-0.00666667"), Decimal("99999999.99000000")),
    ]
    assert state.get("h") == Decimal("0.00000001")  # half of the last digit goes away from zero
    wide = keyed.aggregating_state("w", pa.decimal256(76, 0), "mean")
    most = Decimal(10**76 - 1)
    wide.add_many(["a"] * 3, [most] * 3)
    assert wide.get("a") == most
    lengths = keyed.aggregating_state("l", dt.timedelta, "mean")
    lengths.add_many(["a"] * 2, [dt.timedelta(microseconds=1), dt.timedelta(microseconds=2)])
    lengths.add("b", dt.timedelta(days=-1))
    assert lengths.get("a") == dt.timedelta(microseconds=2)
    assert lengths.get("b") == dt.timedelta(days=-1)


def test_sums_have_the_widest_type_of_their_kind(keyed):
    narrow = keyed.aggregating_state("n", pa.int8(), "sum")
    narrow.add_many(["a"] * 1000, [127] * 1000)
    assert narrow.get("a") == 127_000
    flags = keyed.aggregating_state("f", bool, "sum")
    flags.add_many(["a"] * 3, [True, False, True])
    assert (flags.get("a"), flags.type) == (2, pa.int64())
    shares = keyed.aggregating_state("s", bool, "mean")
    shares.add_many(["a"] * 4, [True, False, True, True])
    assert shares.get("a") == 0.75
    big = keyed.aggregating_state("b", int, "sum")
    big.add_many(["a", "a"], [2**63 - 1, 1])
    with pytest.raises(sfkv.SchemaError, match=f"the result is {2**63}, which its type does not hold"):
        big.get("a")


def test_means_and_variances_of_large_numbers_lose_nothing_that_counts(keyed):
    mean = keyed.aggregating_state("m", int, "mean")
    mean.add_many(["a"] * 4, [2**63 - 1, 2**63 - 1, -(2**63), -(2**63)])
    assert mean.get("a") == -0.5
    variance = keyed.aggregating_state("v", float, "variance")
    values = [1e9 + part for part in (4.0, 7.0, 13.0, 16.0)]
    for value in values:
        variance.add("a", value)
    variance.add_many(["b"] * 4, values)
    assert variance.get("a") == variance.get("b") == 22.5
    money = keyed.aggregating_state("d", pa.decimal128(20, 2), "sample_variance")
    money.add_many(["a"] * 2, [Decimal("1.10"), Decimal("2.20")])
    assert money.get("a") == pytest.approx(0.605)


def test_the_variance_of_one_value(keyed):
    population, sample = (keyed.aggregating_state(name, int, name) for name in ("variance", "sample_variance"))
    population.add("a", 7)
    sample.add("a", 7)
    assert population.get("a") == 0.0
    assert math.isnan(sample.get("a"))
    assert "a" in sample
    assert sample.get_many(["a", "b"]).null_count == 1


def test_distinct_values_are_counted_once_however_they_come(keyed):
    state = keyed.aggregating_state("s", str, "count_distinct")
    rng = np.random.default_rng(3)
    seen = {"a": set(), "b": set()}
    for _ in range(30):
        keys, words = rng.choice(list("ab"), 40), [str(number) for number in rng.integers(0, 200, 40)]
        state.add_many(keys.tolist(), words)
        state.add("a", words[0])
        seen["a"].add(words[0])
        for key, word in zip(keys.tolist(), words, strict=True):
            seen[key].add(word)
        if rng.random() < 0.2:
            keyed._store.flush()
        assert rows_of(state) == {key: len(words) for key, words in seen.items()}
    keyed.compact()
    assert state.get("a") == len(seen["a"])
    floats = keyed.aggregating_state("f", float, "count_distinct")
    floats.add_many(["a"] * 5, [0.0, -0.0, float("nan"), -float("nan"), 1.0])
    floats.add("a", -0.0)
    assert floats.get("a") == 3


def test_a_set_is_refused_before_it_takes_more_than_a_value_may(keyed):
    state = keyed.aggregating_state("s", bytes, "count_distinct")
    piece = 30 << 20
    for number in range(8):
        state.add("a", bytes([number]) * piece)
    with pytest.raises(sfkv.LimitError, match="a value may take at most 268435456"):
        state.add("a", b"x" * piece)
    with pytest.raises(sfkv.LimitError, match="row 1"):
        state.add_many(["b", "a"], [b"y", b"x" * piece])
    assert state.get_many(["a", "b"]).to_pylist() == [8, None]


@pytest.mark.parametrize("how", [Mean(), "count", "mean", "collect", "last"])
def test_none_cannot_be_added(keyed, how):
    state = keyed.aggregating_state("s", int, how)
    with pytest.raises(sfkv.SchemaError, match="None"):
        state.add("a", None)
    with pytest.raises(sfkv.SchemaError, match=r"None.*row 1") as caught:
        state.add_many(["b", "a"], [1, None])
    assert caught.value.row == 1
    with pytest.raises(sfkv.SchemaError):
        state.add_many(["b", "a"], ["1", 2])
    assert rows_of(state) == {}


# --- Objects.


def test_an_object_aggregates_by_every_way(keyed):
    state = keyed.aggregating_state("s", int, Mean())
    state.add("a", 1)
    state.add_many(["a", "b", "a"], [2, 10, 6])
    assert state.get("a") == 3.0
    assert state["b"] == 10.0
    assert state.get_many(["b", "z", "a", "b"]) == [10.0, None, 3.0, 10.0]
    assert state.get("z", 0) == 0
    assert state.type == pa.binary()
    assert sorted(state.scan_keys().to_arrow()["key"].to_pylist()) == ["a", "b"]
    assert {key: sfkv.Msgpack().loads(row) for key, row in rows_of(state).items()} == {"a": 3.0, "b": 10.0}
    state.clear_many(["a", "q"])
    assert "a" not in state
    assert state.contains_many(["a", "b"]).to_pylist() == [False, True]


def test_an_object_with_types_of_its_own_answers_in_arrow(keyed):
    accumulator = {"total": int, "count": int}

    class Records(Mean):
        def create(self):
            return {"total": 0, "count": 0}

        def add(self, accumulator, value):
            return {"total": accumulator["total"] + value, "count": accumulator["count"] + 1}

        def result(self, accumulator):
            return accumulator["total"] / accumulator["count"] if accumulator["total"] else None

    state = keyed.aggregating_state("s", int, Records(), accumulator=accumulator, result=float)
    assert state.type == pa.float64()
    state.add_many(["a", "b", "a", "zero"], [1, 10, 2, 0])
    assert state.get_many(["a", "x", "b", "zero"]).to_pylist() == [1.5, None, 10.0, None]
    assert rows_of(state) == {"a": 1.5, "b": 10.0, "zero": None}
    assert keyed.states == {"s": "aggregating<int64, an object over struct<total: int64 not null, count: int64 not null>>"}
    keyed.compact()
    state.add("a", 6)
    assert state.get("a") == 3.0


@pytest.mark.parametrize("method", ["create", "add", "result"])
def test_an_object_that_raises_leaves_the_state_as_it_was(keyed, method):
    aggregate = Mean()
    state = keyed.aggregating_state("shares", int, aggregate)
    state.add("a", 4)

    def fails(*_):
        raise ZeroDivisionError("no")

    setattr(aggregate, method, fails)
    state = keyed.aggregating_state("shares", int, aggregate)  # the object's methods are taken when it is given
    if method == "result":
        for call in (lambda: state.get("a"), lambda: state.get_many(["b", "a"]), lambda: state.scan().to_arrow()):
            with pytest.raises(sfkv.UsageError, match=r"ZeroDivisionError.*state 'shares'") as caught:
                call()
            assert isinstance(caught.value.__cause__, ZeroDivisionError)
    else:
        for call in (lambda: state.add("b", 1), lambda: state.add_many(["a", "b"], [1, 1], offset=1)):
            with pytest.raises(sfkv.UsageError, match=r"for the key '.'.*state 'shares'"):
                call()
    del aggregate.__dict__[method]
    assert keyed.aggregating_state("shares", int, aggregate).get_many(["a", "b"]) == [4.0, None]
    assert keyed.offset is None


def test_an_object_that_returns_what_msgpack_cannot_hold(keyed):
    aggregate = Mean()
    aggregate.add = lambda accumulator, value: object()
    state = keyed.aggregating_state("s", int, aggregate)
    with pytest.raises(sfkv.SchemaError, match="msgpack cannot hold object"):
        state.add("a", 1)
    with pytest.raises(sfkv.SchemaError, match="msgpack cannot hold object"):
        state.add_many(["a"], [1])
    assert "a" not in state


class Second(Mean):
    """The second value; there is none until it comes."""

    def create(self):
        return []

    def add(self, accumulator, value):
        return [*accumulator, value]

    def result(self, accumulator):
        return accumulator[1] if len(accumulator) > 1 else None


class SecondInRecord(Second):
    def result(self, accumulator):
        return {"second": accumulator[1]} if len(accumulator) > 1 else None


@pytest.mark.parametrize(
    ("aggregate", "result", "second", "columns"),
    [
        (Second(), int, 2, {"value": 2}),
        (Second(), None, 2, {"value": b"\2"}),
        (SecondInRecord(), {"second": int}, {"second": 2}, {"second": 2}),
    ],
)
def test_a_result_may_be_none(keyed, aggregate, result, second, columns):
    state = keyed.aggregating_state("s", int, aggregate, result=result)
    state.add_many(["a", "b", "b"], [1, 1, 2])
    assert (state.get("a", "default"), state["a"], "a" in state) == (None, None, True)
    assert (state.get("c", "default"), "c" in state) == ("default", False)
    with pytest.raises(KeyError):
        state["c"]
    many = state.get_many(["a", "b", "c"])
    assert (many if result is None else many.to_pylist()) == [None, second, None]
    scan = state.scan().to_arrow()
    scan.validate(full=True)
    assert all(scan.schema.field(name).nullable for name in columns)
    assert sorted(scan.to_pylist(), key=lambda row: row["key"]) == [
        {"key": "a", **dict.fromkeys(columns)},
        {"key": "b", **columns},
    ]


def test_an_object_must_have_all_methods(keyed):
    class Half:
        def create(self): ...

        def add(self, accumulator, value): ...

    with pytest.raises(sfkv.ConfigError, match="has no method merge: use one of sum, min"):
        keyed.aggregating_state("s", int, Half())
    with pytest.raises(sfkv.ConfigError, match="aggregate is the class Mean: pass an object of it"):
        keyed.aggregating_state("s", int, Mean)
    with pytest.raises(sfkv.ConfigError, match="aggregate is 'median': use one of sum, min, max, count, mean, variance"):
        keyed.aggregating_state("s", int, "median")
    with pytest.raises(sfkv.ConfigError, match="accumulator= and result= are for objects"):
        keyed.aggregating_state("s", int, "sum", result=float)
    assert keyed.states == {}


def test_registering_again_says_what_is_stored(keyed):
    mean = Mean()
    assert keyed.aggregating_state("s", int, mean) is not None
    keyed.aggregating_state("c", int, "count")
    assert keyed.aggregating_state("c", int, "count") is keyed.aggregating_state("c", int, "count")
    for again, shown in (
        (lambda: keyed.aggregating_state("s", int, mean, accumulator=pa.list_(pa.int64())), "an object over list"),
        (lambda: keyed.aggregating_state("s", int, "mean"), "aggregating<int64, mean>"),
        (lambda: keyed.aggregating_state("s", float, mean), "aggregating<float64, an object over msgpack>"),
    ):
        with pytest.raises(
            sfkv.SchemaError, match=f"holds aggregating<int64, an object over msgpack>, and was asked for as .*{shown}"
        ):
            again()
    with pytest.raises(sfkv.SchemaError, match="holds aggregating<int64, count>, and was asked for as aggregating<int64, sum>"):
        keyed.aggregating_state("c", int, "sum")


def test_a_batch_over_states_sees_its_adds_and_drops_them(keyed):
    states = {name: keyed.aggregating_state(name, int, name) for name in BUILT_INS} | {
        "object": keyed.aggregating_state("o", int, Mean())
    }
    expected = EXPECTED | {"object": statistics.fmean}
    for state in states.values():
        state.add("a", 5)
    with keyed.batch():
        for state in states.values():
            state.add("a", 1)
            state.add_many(["b", "a", "b"], [1, 5, 2])
        for name, state in states.items():
            assert state.get("a") == pytest.approx(expected[name]([5, 1, 5]))
            assert state.get("b") == pytest.approx(expected[name]([1, 2]))
            many = state.get_many(["b", "c"])
            assert (many if isinstance(many, list) else many.to_pylist()) == [state.get("b"), None]
    with pytest.raises(ZeroDivisionError), keyed.batch():
        for state in states.values():
            state.add("a", 100)
            state.clear("b")
        raise ZeroDivisionError
    for name, state in states.items():
        assert state.get("a") == pytest.approx(expected[name]([5, 1, 5]))
        assert state.get("b") == pytest.approx(expected[name]([1, 2]))


def test_snapshots_hold_them_and_a_restored_store_goes_on(keyed, tmp_path):
    for name in BUILT_INS:
        keyed.aggregating_state(name, int, name).add_many(["a", "a"], [1, 2])
    keyed.aggregating_state("object", int, Mean()).add_many(["a", "a"], [1, 2])
    snapshot = keyed.snapshot(1, tmp_path / "snapshots").result()
    with new_backend().restore(tmp_path / "restored", snapshot) as restored:
        assert restored.states == keyed.states
        for name in (*BUILT_INS, "object"):
            state = restored.aggregating_state(name, int, Mean() if name == "object" else name)
            state.add("a", 6)
            assert state.get("a") == pytest.approx((EXPECTED | {"object": statistics.fmean})[name]([1, 2, 6]))


# Rows of "last" are values, and test_value_state.py damages those.
@pytest.mark.parametrize("name", [name for name in (*BUILT_INS, "object") if name != "last"])
def test_a_damaged_row_is_reported_and_never_read_past_its_end(keyed, name):
    state = keyed.aggregating_state("s", int, Mean() if name == "object" else name)
    state.add_many(["a", "a"], [1, 2])
    ((key, good),) = keyed._store.read_range(b"", b"\xff\xff").items()
    damages = (
        [good[:-1], good + b"\0"]
        if name in ("collect", "object")
        else [b"", good[:3], good[:4], good[:-1], b"\x80\0\0\0" + good]
    )
    if name in ("mean", "variance", "sample_variance"):
        damages.append(good[:4] + bytes(len(good) - 4))  # of no values
    if name == "count_distinct":
        damages = [damage for damage in damages if damage != good[:4]] + [
            good[:4] + b"\1b\1a",
            good + b"\5",
            good[:4] + b"\1a\1a",
        ]
    for damage in damages:
        _batch.write_rows(keyed._store, {key: damage}, "test")
        for read in (lambda: state.get("a"), lambda: state.get_many(["a"]), lambda: state.scan().to_arrow()):
            with pytest.raises((sfkv.CorruptionError, sfkv.SchemaError)):
                read()


def test_reprs_name_state_type_and_fold(keyed):
    assert repr(keyed.aggregating_state("s", int, "mean")) == "AggregatingState('s', int64, mean)"
    assert keyed.aggregating_state("s", int, "mean").name == "s"
