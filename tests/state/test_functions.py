"""Functions and objects that fold: what they are given, what they may return, and what is said of what they may not."""

import collections
import dataclasses
import datetime as dt
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

import sfkv
from tests.state.aggregates import Mean, rows_of

pytestmark = pytest.mark.backends


def test_what_a_function_returned_and_does_not_fit_is_said_with_its_key(keyed):
    state = keyed.reducing_state("s", pa.int8(), lambda a, b: a * b)
    state.add("x", 100)
    for call, row in ((lambda: state.add("x", 100), None), (lambda: state.add_many(["y", "x", "y"], [1, 100, 2]), 1)):
        with pytest.raises(sfkv.SchemaError, match=r"returned 10000 \(int\) for the key 'x', which is no int8") as caught:
            call()
        error = caught.value
        assert (error.state, error.row, error.operation) == ("s", row, "add" if row is None else "add_many")
        assert "row 0" not in str(error)
    assert rows_of(state) == {"x": 100}
    records = keyed.reducing_state("r", {"n": pa.int8(), "t": str}, lambda a, b: {"n": 1000, "t": "a"})
    records.add("x", {"n": 1, "t": "a"})
    with pytest.raises(sfkv.SchemaError, match="for the key 'x'.*see 'n'") as caught:
        records.add_many(["y", "x"], [{"n": 1, "t": "a"}] * 2)
    assert (caught.value.row, caught.value.column) == (1, "n")


@pytest.mark.parametrize(
    ("type", "values", "reduce"),
    [
        (pa.float32(), [0.1] * 50, lambda a, b: a + b),
        (pa.float16(), [0.1] * 20, lambda a, b: a + b),
        (pa.int8(), [5, -3, 7], lambda a, b: np.int64(a + b)),
        (pa.timestamp("s", tz="Europe/Berlin"), [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)] * 3, max),
        (pa.decimal128(10, 2), [decimal.Decimal("1.1")] * 5, lambda a, b: a + b),
        (dict, [{"n": (1,)}] * 4, lambda a, b: {"n": [*a["n"], *b["n"]]}),
        (list, [[1], [2], [3]], lambda a, b: (*a, *b)),
        (str, ["a", "b", "c"], lambda a, b: a + b),
    ],
)
def test_an_answer_does_not_depend_on_where_a_batch_ends(keyed, type, values, reduce):
    given = []

    def noted(a, b):
        given.append((a.__class__, repr(a)))
        return reduce(a, b)

    state = keyed.reducing_state("s", type, noted)
    for value in values:
        state.add("one", value)
    singly, given = given, []
    state.add_many(["batch"] * len(values), values)
    assert singly == given
    half = len(values) // 2
    state.add_many(["two"] * half, values[:half])
    state.add_many(["two"] * (len(values) - half), values[half:])
    assert state.get("one") == state.get("batch") == state.get("two")


def test_what_does_not_fit_on_the_way_is_refused_in_a_batch_as_singly(keyed):
    state = keyed.reducing_state("s", pa.int8(), lambda a, b: a + b)
    for call in (
        lambda: [state.add("x", value) for value in (100, 100, -100)],
        lambda: state.add_many(["y"] * 3, [100, 100, -100]),
    ):
        with pytest.raises(sfkv.SchemaError, match="returned 200"):
            call()
    assert rows_of(state) == {"x": 100}


def test_a_function_cannot_be_given_what_python_has_no_object_for(keyed):
    state = keyed.reducing_state("ns", pa.timestamp("ns"), max)
    moments = pa.array([1, 2_000, 3_001], pa.timestamp("ns"))
    with pytest.raises(sfkv.SchemaError, match="use a fold by name") as caught:
        state.add_many(["y", "x", "y"], moments.take(pa.array([1, 0, 2])))
    assert (caught.value.state, caught.value.row, caught.value.code) == ("ns", 1, "nanoseconds")
    assert "get_many" not in str(caught.value)
    assert rows_of(state) == {}


@dataclasses.dataclass
class Counted:
    n: int = 0


class Counting:
    """Counts by an accumulator of any class."""

    def __init__(self, make, count):
        self.create = make
        self.count = count

    def add(self, accumulator, value):
        return self.count(accumulator)

    def merge(self, a, b):
        raise AssertionError

    def result(self, accumulator):
        return repr(accumulator)


def more(counted):
    counted.n += 1
    return counted


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (Counted, more),
        (lambda: [Counted()], lambda counted: [more(counted[0])]),
        (lambda: {"a": Counted()}, lambda counted: {"a": more(counted["a"])}),
        (collections.Counter, lambda counter: counter + collections.Counter("a")),
        (set, lambda values: values | {1}),
        (lambda: decimal.Decimal(0), lambda number: number + 1),
    ],
)
def test_an_accumulator_that_would_be_read_as_something_else_is_refused_at_once(keyed, make, count):
    state = keyed.aggregating_state("s", int, Counting(make, count))
    for call in (
        lambda: state.add("a", 1),
        lambda: state.add_many(["b", "a"], [1, 1]),
        lambda: state.add_many(["a"] * 3, [1] * 3),
    ):
        with pytest.raises(sfkv.SchemaError, match=r"for the key '.', which is read again as .*accumulator=") as caught:
            call()
        assert caught.value.state == "s"
    assert state.contains_many(["a", "b"]).to_pylist() == [False, False]


@pytest.mark.parametrize(
    ("make", "count", "options"),
    [
        (Counted, more, {"accumulator": sfkv.Msgpack(Counted)}),
        (Counted, more, {"accumulator": Counted}),
        (lambda: (0, []), lambda counted: (counted[0] + 1, [*counted[1], (1, math.nan)]), {}),
        (lambda: {"n": 0, "f": math.nan}, lambda counted: {**counted, "n": counted["n"] + 1}, {}),
        (lambda: 0, lambda number: number + 1, {}),
        (lambda: 0, lambda number: number + 1, {"accumulator": int}),
        (lambda: {1: None}, lambda counted: {**counted, len(counted) + 1: True}, {}),
    ],
)
def test_an_accumulator_is_the_same_however_it_was_batched(keyed, make, count, options):
    state = keyed.aggregating_state("s", int, Counting(make, count), **options)
    for _ in range(4):
        state.add("a", 1)
    state.add_many(["b"] * 4, [1] * 4)
    state.add_many(["c", "c", "d"], [1] * 3)
    state.add_many(["c", "c"], [1] * 2)
    assert state.get("a") == state.get("b") == state.get("c") is not None


def test_a_result_is_held_against_its_type_by_every_way(keyed):
    class Wrong(Mean):
        def result(self, accumulator):
            return {0: None, 1: 1, 2: "two", 3: 3.5}[super().result(accumulator)]

    state = keyed.aggregating_state("s", int, Wrong(), result=float)
    state.add_many(["one", "half"], [1, 3])
    assert state.get_many(["one", "half"]).to_pylist() == [1.0, 3.5]
    assert [type(state.get(key)) for key in ("one", "half")] == [float, float]
    state.add_many(["none", "two"], [0, 2])
    assert state.get_many(["none", "nobody"]).to_pylist() == [state.get("none"), state.get("nobody")] == [None, None]
    for call, row in (
        (lambda: state.get("two"), None),
        (lambda: state["two"], None),
        (lambda: state.get_many(["one", "two"]), 1),
        (lambda: state.scan().to_arrow(), None),
    ):
        with pytest.raises(sfkv.SchemaError, match=r"returned 'two' \(str\).*no float64") as caught:
            call()
        assert (caught.value.state, caught.value.row) == ("s", row)
    records = keyed.aggregating_state("r", int, Counting(lambda: 0, lambda n: n), result={"n": int})
    records.add("a", 1)
    for call in (lambda: records.get("a"), lambda: records.get_many(["a"]), lambda: records.scan().to_arrow()):
        with pytest.raises(sfkv.SchemaError, match="returned '0'"):
            call()


@pytest.mark.only("rocksdb", reason="in memory the objects themselves are held, and the first of each class is tried")
def test_an_object_that_msgpack_cannot_hold_is_named_by_its_row(keyed):
    state = keyed.value_state("o", dict)
    with pytest.raises(sfkv.SchemaError, match=r"msgpack cannot hold dict.*state 'o', row 1\]") as caught:
        state.put_many(["a", "b"], [{}, {"x": 1 + 2j}])
    assert (caught.value.state, caught.value.row) == ("o", 1)
    with pytest.raises(sfkv.SchemaError, match="state 'o'") as caught:
        state.put("b", {"x": 1 + 2j})
    assert (caught.value.state, caught.value.row, caught.value.operation) == ("o", None, "put")
    assert "a" not in state
