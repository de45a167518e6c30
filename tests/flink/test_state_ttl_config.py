"""StateTtlConfig: built and looked at in full; asking for such a state says that it does not expire yet."""

import datetime as dt
import pickle

import pytest

import sfkv
from sfkv.flink import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Duration,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)

NINETY_DAYS_MS = 90 * 86_400_000


def test_lengths_of_time_are_milliseconds():
    lengths = [Time.milliseconds(1), Time.seconds(1), Time.minutes(1), Time.hours(1), Time.days(1)]
    assert [length.to_milliseconds() for length in lengths] == [1, 1_000, 60_000, 3_600_000, 86_400_000]
    lengths = [Duration.of_millis(1), Duration.of_seconds(1), Duration.of_minutes(1), Duration.of_hours(1), Duration.of_days(1)]
    assert [length.to_millis() for length in lengths] == [1, 1_000, 60_000, 3_600_000, 86_400_000]
    assert Time.days(1) == Time.hours(24) < Time.days(2)
    assert Duration.of_days(1) == Duration.of_hours(24) < Duration.of_days(2)
    assert (repr(Time.hours(48)), repr(Duration.of_millis(1_500))) == ("Time(2 days)", "Duration(1500 milliseconds)")


@pytest.mark.parametrize("wrong", [-1, 1.5, "1", None, True, 1 << 63])
def test_lengths_of_time_that_are_none_are_refused(wrong):
    for make in (Time.milliseconds, Time.days, Duration.of_millis, Duration.of_days, Time):
        with pytest.raises(sfkv.ConfigError):
            make(wrong)


def test_a_config_has_flinks_defaults():
    config = StateTtlConfig.new_builder(Time.days(90)).build()
    assert config.get_ttl() == Time.days(90)
    assert config.get_ttl().to_milliseconds() == NINETY_DAYS_MS
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.is_enabled()
    cleanup = config.get_cleanup_strategies()
    assert cleanup == StateTtlConfig.CleanupStrategies()
    assert cleanup.is_cleanup_in_background()
    assert not cleanup.in_full_snapshot()
    assert not cleanup.in_rocksdb_compact_filter()
    assert cleanup.get_incremental_cleanup_strategy() is None
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is None


def test_a_builder_sets_everything():
    builder = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_ttl(dt.timedelta(days=90))
        .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        .set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)
        .set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(500, Duration.of_hours(1))
        .disable_cleanup_in_background()
    )
    config = builder.build()
    assert config.get_ttl() == Time.days(90)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    cleanup = config.get_cleanup_strategies()
    assert cleanup.in_full_snapshot()
    assert not cleanup.is_cleanup_in_background()
    assert cleanup.get_incremental_cleanup_strategy().get_cleanup_size() == 10
    assert cleanup.get_incremental_cleanup_strategy().run_cleanup_for_every_record()
    assert cleanup.in_rocksdb_compact_filter()
    filter = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert filter.get_query_time_after_num_entries() == 500
    assert filter.get_periodic_compaction_time() == Duration.of_hours(1)
    again = builder.update_ttl_on_create_and_write().never_return_expired().build()
    assert again.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert again.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite, "a config never changes"
    last = builder.update_ttl_on_read_and_write().return_expired_if_not_cleaned_up().build()
    assert last == config
    assert pickle.loads(pickle.dumps(last)) == config


def test_the_filters_defaults_are_flinks():
    filter = StateTtlConfig.new_builder(Time.days(1)).cleanup_in_rocksdb_compact_filter().build().get_cleanup_strategies()
    strategy = filter.get_rocksdb_compact_filter_cleanup_strategy()
    assert (strategy.query_time_after_num_entries, strategy.periodic_compaction_time) == (1_000, Duration.of_days(30))


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: StateTtlConfig.new_builder(Time.days(0)), "is 0"),
        (lambda: StateTtlConfig.new_builder(90), "Time.days"),
        (lambda: StateTtlConfig.new_builder(None), "Time.days"),
        (lambda: StateTtlConfig.new_builder(dt.timedelta(microseconds=1)), "whole milliseconds"),
        (lambda: StateTtlConfig.new_builder(dt.timedelta(days=-1)), "-86400000"),
        (lambda: StateTtlConfig.new_builder(Time.days(1)).set_ttl(Time.milliseconds(0)), "is 0"),
        (lambda: StateTtlConfig.new_builder(Time.days(1)).set_update_type("OnReadAndWrite"), "OnCreateAndWrite"),
        (lambda: StateTtlConfig.new_builder(Time.days(1)).set_state_visibility(1), "NeverReturnExpired"),
        (lambda: StateTtlConfig.new_builder(Time.days(1)).set_ttl_time_characteristic("EventTime"), "ProcessingTime"),
        (lambda: StateTtlConfig.new_builder(Time.days(1)).cleanup_incrementally(0, False), "cleanup_size"),
        (lambda: StateTtlConfig.new_builder(Time.days(1)).cleanup_in_rocksdb_compact_filter(-1), "query_time"),
        (lambda: StateTtlConfig.new_builder(Time.days(1)).cleanup_in_rocksdb_compact_filter(1, 30), "periodic_compaction"),
    ],
)
def test_a_builder_looks_at_what_it_is_given(build, text):
    with pytest.raises(sfkv.ConfigError, match=text):
        build()


class Last(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_b


DESCRIPTORS = {
    "get_state": lambda: ValueStateDescriptor("s", Types.LONG()),
    "get_list_state": lambda: ListStateDescriptor("s", Types.LONG()),
    "get_map_state": lambda: MapStateDescriptor("s", Types.STRING(), Types.LONG()),
    "get_reducing_state": lambda: ReducingStateDescriptor("s", max, Types.LONG()),
    "get_aggregating_state": lambda: AggregatingStateDescriptor("s", Last(), Types.LONG()),
}


@pytest.mark.parametrize("get", DESCRIPTORS)
def test_a_state_that_should_expire_is_refused_and_not_made(keyed, context, get):
    descriptor = DESCRIPTORS[get]()
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(90)).build())
    with pytest.raises(
        sfkv.ConfigError, match=r"'s' has a time to live of Time\(90 days\).*does not expire state yet"
    ) as raised:
        getattr(context, get)(descriptor)
    assert (raised.value.state, raised.value.operation, raised.value.code) == ("s", get, "not_yet")
    assert keyed.states == {}


def test_a_disabled_time_to_live_is_none(context):
    descriptor = DESCRIPTORS["get_state"]()
    descriptor.enable_time_to_live(
        StateTtlConfig.new_builder(Time.days(90)).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    )
    state = context.get_state(descriptor)
    state.update(1)
    assert state.value() == 1


@pytest.mark.parametrize("wrong", [None, Time.days(1), StateTtlConfig.new_builder(Time.days(1))])
def test_only_a_config_enables_a_time_to_live(wrong):
    descriptor = DESCRIPTORS["get_state"]()
    with pytest.raises(sfkv.ConfigError, match="build"):
        descriptor.enable_time_to_live(wrong)
    assert descriptor.ttl_config is None
