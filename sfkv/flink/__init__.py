"""sfkv's states under Flink's names and in its current-key manner, as PyFlink spells them.

    from sfkv.flink import EmbeddedRocksDBStateBackend, RuntimeContext, Types, ValueStateDescriptor

    with EmbeddedRocksDBStateBackend().open("state/op-0", key=Types.STRING()) as keyed:
        context = RuntimeContext(keyed)
        count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        context.set_current_key("ACC001")
        count.update((count.value() or 0) + 1)

A thin layer: what it gives out are sfkv's own backends, and states that call sfkv's own with the current key.
"""

from __future__ import annotations

from sfkv.backend.memory import HashMapStateBackend
from sfkv.flink.backend import EmbeddedRocksDBStateBackend, FileSystemCheckpointStorage, PredefinedOptions
from sfkv.flink.context import RuntimeContext
from sfkv.flink.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from sfkv.flink.functions import AggregateFunction, ReduceFunction
from sfkv.flink.row import Row
from sfkv.flink.states import AggregatingState, ListState, MapState, ReducingState, ValueState
from sfkv.flink.times import Duration, Time
from sfkv.flink.ttl import StateTtlConfig
from sfkv.flink.types import Types

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "Duration",
    "EmbeddedRocksDBStateBackend",
    "FileSystemCheckpointStorage",
    "HashMapStateBackend",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "PredefinedOptions",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "Row",
    "RuntimeContext",
    "StateDescriptor",
    "StateTtlConfig",
    "Time",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
]
