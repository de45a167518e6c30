"""Descriptors, functions and what turns these into sfkv's."""

import datetime as dt
import functools
import operator
import pickle
from decimal import Decimal
from fractions import Fraction

import pytest

import sfkv
from sfkv.flink import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReduceFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    StateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from sfkv.flink.adapters import AggregateAdapter, check_plain, reducer_of


class Sum(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class SumOfPairs(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0] + value2[0], max(value1[1], value2[1])


class Mean(AggregateFunction):
    """Over an accumulator of a sum and a count."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


SUM_AND_COUNT = Types.TUPLE([Types.LONG(), Types.LONG()])
DESCRIPTORS = [
    ValueStateDescriptor("s", Types.TUPLE([Types.STRING(), Types.LONG()])),
    ListStateDescriptor("s", Types.ROW_NAMED(["a"], [Types.INT()])),
    MapStateDescriptor("s", Types.STRING(), Types.MAP(Types.STRING(), Types.BIG_INT())),
    ReducingStateDescriptor("s", Sum(), Types.LONG()),
    AggregatingStateDescriptor("s", Mean(), SUM_AND_COUNT),
]


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda descriptor: type(descriptor).__name__)
def test_descriptors_are_pickled_with_all_that_they_say(descriptor):
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
    again = pickle.loads(pickle.dumps(descriptor))
    assert isinstance(again, StateDescriptor)
    assert again.get_name() == again.name == "s"
    assert again.type_info == descriptor.type_info
    assert again.ttl_config == descriptor.ttl_config
    assert repr(again) == repr(descriptor)


def test_descriptors_that_were_pickled_open_the_same_state(keyed, context):
    descriptor = MapStateDescriptor("m", Types.TUPLE([Types.STRING(), Types.INT()]), Types.LIST(Types.TUPLE([Types.LONG()])))
    context.get_map_state(descriptor).put(("a", 1), [(2,)])
    again = context.get_map_state(pickle.loads(pickle.dumps(descriptor)))
    assert again.get(("a", 1)) == [(2,)]


def test_descriptors_show_themselves():
    assert repr(ValueStateDescriptor("v", Types.LONG())) == "ValueStateDescriptor('v', int64)"
    assert repr(MapStateDescriptor("m", Types.STRING(), Types.LONG())) == "MapStateDescriptor('m', string, int64)"


@pytest.mark.parametrize("name", [None, "", 7, b"v"])
def test_a_name_is_a_text(name):
    for make in (
        lambda: ValueStateDescriptor(name, int),
        lambda: ListStateDescriptor(name, int),
        lambda: MapStateDescriptor(name, int, int),
        lambda: ReducingStateDescriptor(name, max, int),
        lambda: AggregatingStateDescriptor(name, Mean(), SUM_AND_COUNT),
    ):
        with pytest.raises(sfkv.ConfigError, match="name"):
            make()


def test_a_name_that_is_too_long_is_refused_by_the_backend(context):
    with pytest.raises(sfkv.ConfigError, match="1000 bytes"):
        context.get_state(ValueStateDescriptor("v" * 1001, int))


def test_functions_are_what_they_should_be():
    function = Sum()
    assert ReducingStateDescriptor("r", function, int).get_reduce_function() is function
    assert ReducingStateDescriptor("r", max, int).get_reduce_function() is max
    mean = Mean()
    assert AggregatingStateDescriptor("a", mean, SUM_AND_COUNT).get_agg_function() is mean
    for wrong in (None, 7, b"sum", Sum, "sun", "count"):
        with pytest.raises(sfkv.ConfigError, match="reduce"):
            ReducingStateDescriptor("r", wrong, int)
    for wrong in (None, 7, "mean"):
        with pytest.raises(sfkv.ConfigError, match="aggregate"):
            AggregatingStateDescriptor("a", wrong, int)
    with pytest.raises(sfkv.ConfigError, match="aggregate"):
        AggregatingStateDescriptor("a", max, int)


@pytest.mark.parametrize("base", [ReduceFunction, AggregateFunction])
def test_a_function_that_lacks_a_method_is_not_made(base):
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (base,), {})()


# --- What sfkv's states call.


def test_a_reducer_works_on_what_is_stored():
    plain = reducer_of(Sum(), Types.LONG())
    assert functools.reduce(plain, [1, 2, 3]) == 6
    assert reducer_of(operator.mul, Types.LONG())(2, 3) == 6
    pairs = reducer_of(SumOfPairs(), SUM_AND_COUNT)
    assert pairs({"f0": 1, "f1": 7}, {"f0": 2, "f1": 5}) == {"f0": 3, "f1": 7}


def test_an_aggregate_works_on_what_is_stored():
    aggregate = AggregateAdapter(Mean(), SUM_AND_COUNT)
    accumulator = aggregate.create()
    assert accumulator == {"f0": 0, "f1": 0}
    for value in (2, 4):
        accumulator = aggregate.add(accumulator, value)
    assert accumulator == {"f0": 6, "f1": 2}
    assert aggregate.result(accumulator) == 3
    assert aggregate.merge(accumulator, {"f0": 3, "f1": 1}) == {"f0": 9, "f1": 3}


def test_values_of_a_known_type_are_decoded_before_they_are_aggregated():
    class Latest(Mean):
        def add(self, value, accumulator):
            assert type(value) is tuple
            return max(value, accumulator)

    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    assert AggregateAdapter(Latest(), pair, pair).add({"f0": 1, "f1": 2}, {"f0": 1, "f1": 3}) == {"f0": 1, "f1": 3}


PLAIN = [None, True, 1, 1.5, "a", b"a", [], [1, [None]], {"a": [1.5], 2: {}}]
OTHER = [(1, 2), Decimal(1), dt.datetime(2026, 1, 1), {1}, [(1,)], {"a": {"b": (1,)}}, {(1, 2): 3}, Fraction(1), object()]


def test_values_of_no_known_type_are_those_that_stay_as_they_are():
    for value in PLAIN:
        assert check_plain(value) is value
    for value in OTHER:
        with pytest.raises(sfkv.SchemaError, match="in_type_info"):
            check_plain(value)


# --- The states.


@pytest.mark.parametrize("function", [Sum(), operator.add], ids=["ReduceFunction", "function"])
def test_a_reducing_state_combines_what_is_added(keyed, context, function):
    state = context.get_reducing_state(ReducingStateDescriptor("r", function, Types.LONG()))
    assert state.get() is None
    for value in (1, 2, 3):
        state.add(value)
    assert state.get() == 6
    context.set_current_key("b")
    state.add(10)
    assert state.get() == 10
    context.set_current_key("a")
    with pytest.raises(sfkv.SchemaError):
        state.add(None)
    assert state.get() == 6
    state.clear()
    assert state.get() is None
    assert repr(state).startswith("flink.ReducingState('r'")


def test_a_reducing_state_of_tuples(context):
    state = context.get_reducing_state(ReducingStateDescriptor("r", SumOfPairs(), SUM_AND_COUNT))
    state.add((1, 7))
    assert state.get() == (1, 7)
    state.add((2, 5))
    assert state.get() == (3, 7)


def test_a_reducing_state_by_the_name_of_a_fold(keyed, context):
    state = context.get_reducing_state(ReducingStateDescriptor("total", "sum", Types.LONG()))
    for value in (1, 2, 3):
        state.add(value)
    assert state.get() == 6
    assert keyed.reducing_state("total", Types.LONG(), "sum").get_many(["a", "b"]).to_pylist() == [6, None]
    with pytest.raises(sfkv.ConfigError, match="average"):
        context.get_reducing_state(ReducingStateDescriptor("other", "average", Types.LONG()))


class Raises(Mean):
    def add(self, value, accumulator):
        raise ArithmeticError("no")


def test_a_function_that_raises_leaves_the_state_as_it_was(context):
    descriptor = AggregatingStateDescriptor("a", Mean(), SUM_AND_COUNT)
    state = context.get_aggregating_state(descriptor)
    state.add(4)
    broken = context.get_aggregating_state(AggregatingStateDescriptor("a", Raises(), SUM_AND_COUNT))
    with pytest.raises(sfkv.UsageError, match="no"):
        broken.add(5)
    assert state.get() == 4


def test_what_is_added_may_be_of_a_known_type(context):
    class Total(Mean):
        def add(self, value, accumulator):
            name, amount = value
            assert type(value) is tuple
            assert type(amount) is Decimal
            return accumulator[0] + int(amount), accumulator[1] + len(name)

        def get_result(self, accumulator):
            return accumulator

    pair = Types.TUPLE([Types.STRING(), Types.BIG_DEC()])
    state = context.get_aggregating_state(AggregatingStateDescriptor("a", Total(), SUM_AND_COUNT, pair))
    state.add(("ab", Decimal(3)))
    state.add(("c", Decimal(4)))
    assert state.get() == (7, 3)
    with pytest.raises(sfkv.SchemaError):
        state.add(7)
    unknown = context.get_aggregating_state(AggregatingStateDescriptor("u", Mean(), SUM_AND_COUNT))
    with pytest.raises(sfkv.SchemaError, match=r"in_type_info.*\[state 'u'\]"):
        unknown.add(Decimal(1))
    assert (state.get(), unknown.get()) == ((7, 3), None)


def test_an_aggregating_state_folds_what_is_added(context):
    state = context.get_aggregating_state(AggregatingStateDescriptor("a", Mean(), SUM_AND_COUNT))
    assert state.get() is None
    for value in (1, 2, 6):
        state.add(value)
    assert state.get() == 3
    with pytest.raises(sfkv.SchemaError):
        state.add(None)
    assert state.get() == 3
    state.clear()
    assert state.get() is None
    state.add(5)
    assert state.get() == Fraction(5)
    assert repr(state).startswith("flink.AggregatingState('a'")


def test_they_need_a_current_key_as_all_do(keyed):
    context = RuntimeContext(keyed)
    reducing = context.get_reducing_state(ReducingStateDescriptor("r", Sum(), Types.LONG()))
    aggregating = context.get_aggregating_state(AggregatingStateDescriptor("a", Mean(), SUM_AND_COUNT))
    for state in (reducing, aggregating):
        for call in (state.get, lambda state=state: state.add(1), state.clear):
            with pytest.raises(sfkv.UsageError, match="set_current_key"):
                call()
