"""StateTtlConfig and its builder: how long values of a state live."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sfkv._errors import ConfigError
from sfkv.flink.times import Duration, Time, check_count, milliseconds_of, time_of

_MONTH = Duration.of_days(30)


@dataclass(frozen=True)
class StateTtlConfig:
    """How long values of a state live. Made by ``StateTtlConfig.new_builder(Time.days(90))....build()``."""

    class UpdateType(Enum):
        """Which accesses make a value young again."""

        Disabled = 0  #: none: the value never expires
        OnCreateAndWrite = 1  #: every write
        OnReadAndWrite = 2  #: every read and write

    class StateVisibility(Enum):
        """Whether a value that has expired is seen."""

        ReturnExpiredIfNotCleanedUp = 0  #: until it is cleaned up
        NeverReturnExpired = 1  #: never

    class TtlTimeCharacteristic(Enum):
        """By which clock values expire."""

        ProcessingTime = 0  #: the machine's

    @dataclass(frozen=True)
    class IncrementalCleanupStrategy:
        """Some values are looked at by each access."""

        cleanup_size: int
        for_every_record: bool

        def get_cleanup_size(self) -> int:
            """How many values are looked at."""
            return self.cleanup_size

        def run_cleanup_for_every_record(self) -> bool:
            """Whether each record does so too, and not only each access to the state."""
            return self.for_every_record

    @dataclass(frozen=True)
    class RocksdbCompactFilterCleanupStrategy:
        """Compactions drop what has expired."""

        query_time_after_num_entries: int
        periodic_compaction_time: Time | Duration

        def get_query_time_after_num_entries(self) -> int:
            """After how many entries the clock is read again."""
            return self.query_time_after_num_entries

        def get_periodic_compaction_time(self) -> Time | Duration:
            """At which age a file is compacted in any case; 0 never."""
            return self.periodic_compaction_time

    @dataclass(frozen=True)
    class CleanupStrategies:
        """When the space of expired values is given back."""

        full_snapshot: bool = False
        background: bool = True
        incremental: StateTtlConfig.IncrementalCleanupStrategy | None = None
        compact_filter: StateTtlConfig.RocksdbCompactFilterCleanupStrategy | None = None

        def in_full_snapshot(self) -> bool:
            """Whether full snapshots leave them out."""
            return self.full_snapshot

        def is_cleanup_in_background(self) -> bool:
            """Whether the backend's own way of cleaning up is on."""
            return self.background

        def get_incremental_cleanup_strategy(self) -> StateTtlConfig.IncrementalCleanupStrategy | None:
            """The one that was asked for, or None."""
            return self.incremental

        def in_rocksdb_compact_filter(self) -> bool:
            """Whether the compaction filter was asked for."""
            return self.compact_filter is not None

        def get_rocksdb_compact_filter_cleanup_strategy(self) -> StateTtlConfig.RocksdbCompactFilterCleanupStrategy | None:
            """The one that was asked for, or None."""
            return self.compact_filter

    ttl: Time | Duration
    update_type: UpdateType
    state_visibility: StateVisibility
    ttl_time_characteristic: TtlTimeCharacteristic
    cleanup_strategies: CleanupStrategies

    @staticmethod
    def new_builder(ttl: Time | Duration | dt.timedelta) -> Builder:
        """A builder of a config with this time to live, and the defaults: on create and write, never return expired."""
        return Builder(ttl)

    def get_ttl(self) -> Time | Duration:
        """The time to live."""
        return self.ttl

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Which accesses make a value young again."""
        return self.update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Whether a value that has expired is seen."""
        return self.state_visibility

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """By which clock values expire."""
        return self.ttl_time_characteristic

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """When the space of expired values is given back."""
        return self.cleanup_strategies

    def is_enabled(self) -> bool:
        """Whether values expire at all."""
        return self.update_type is not self.UpdateType.Disabled


@dataclass
class Builder:
    """Builds a StateTtlConfig; each method returns the builder, and looks at what it is given.

    Raises:
        ConfigError: naming what is wrong. A time to live is at least one millisecond.
    """

    ttl: Any
    update_type: StateTtlConfig.UpdateType = StateTtlConfig.UpdateType.OnCreateAndWrite
    state_visibility: StateTtlConfig.StateVisibility = StateTtlConfig.StateVisibility.NeverReturnExpired
    ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    cleanup: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.set_ttl(self.ttl)

    def set_ttl(self, ttl: Time | Duration | dt.timedelta) -> Builder:
        """The time to live."""
        self.ttl = time_of(ttl, "the time to live")
        if milliseconds_of(self.ttl) == 0:
            raise ConfigError("the time to live is 0: use a millisecond or more")
        return self

    def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> Builder:
        """Which accesses make a value young again; ``UpdateType.Disabled`` means that it never expires."""
        self.update_type = _member(update_type, StateTtlConfig.UpdateType, "the update type")
        return self

    def update_ttl_on_create_and_write(self) -> Builder:
        """Writes do. This is the default."""
        return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> Builder:
        """Reads do as well."""
        return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> Builder:
        """Whether a value that has expired is seen."""
        self.state_visibility = _member(state_visibility, StateTtlConfig.StateVisibility, "the visibility")
        return self

    def never_return_expired(self) -> Builder:
        """It is not. This is the default."""
        return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

    def return_expired_if_not_cleaned_up(self) -> Builder:
        """It is, as long as it is there."""
        return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic) -> Builder:
        """By which clock values expire: there is one."""
        self.ttl_time_characteristic = _member(ttl_time_characteristic, StateTtlConfig.TtlTimeCharacteristic, "the clock")
        return self

    def use_processing_time(self) -> Builder:
        """By the machine's clock. This is the default."""
        return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

    def cleanup_full_snapshot(self) -> Builder:
        """Full snapshots leave out what has expired."""
        self.cleanup["full_snapshot"] = True
        return self

    def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> Builder:
        """Each access looks at some values, and removes those that have expired.

        Args:
            cleanup_size: how many values; 1 or more.
            run_cleanup_for_every_record: each record does so too.
        """
        size = check_count(cleanup_size, "cleanup_size", at_least=1)
        self.cleanup["incremental"] = StateTtlConfig.IncrementalCleanupStrategy(size, bool(run_cleanup_for_every_record))
        return self

    def cleanup_in_rocksdb_compact_filter(
        self,
        query_time_after_num_entries: int = 1_000,
        periodic_compaction_time: Time | Duration | dt.timedelta = _MONTH,
    ) -> Builder:
        """Compactions drop what has expired.

        Args:
            query_time_after_num_entries: after how many entries the clock is read again; 0 for each.
            periodic_compaction_time: at which age a file is compacted in any case; 0 never.
        """
        count = check_count(query_time_after_num_entries, "query_time_after_num_entries", at_least=0)
        age = time_of(periodic_compaction_time, "periodic_compaction_time")
        self.cleanup["compact_filter"] = StateTtlConfig.RocksdbCompactFilterCleanupStrategy(count, age)
        return self

    def disable_cleanup_in_background(self) -> Builder:
        """Turns off the backend's own way of cleaning up; one that was asked for stays."""
        self.cleanup["background"] = False
        return self

    def build(self) -> StateTtlConfig:
        """The config, which never changes."""
        return StateTtlConfig(
            self.ttl,
            self.update_type,
            self.state_visibility,
            self.ttl_time_characteristic,
            StateTtlConfig.CleanupStrategies(**self.cleanup),
        )


def _member(value: Any, kind: Any, option: str) -> Any:
    if not isinstance(value, kind):
        raise ConfigError(f"{option} is {value!r}: use one of {', '.join(map(str, kind))}")
    return value
