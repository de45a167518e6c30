"""sfkv: embedded keyed state for stream processing in Python, on RocksDB or in memory.

    with sfkv.open("state/op-0", key=str) as keyed:
        seen = keyed.value_state("seen", int)
        with seen.bundle(["a", "b", "a"]) as rows:
            rows["a"] = (rows["a"] or 0) + 2

Importing this module is cheap: what a name needs is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sfkv._errors import (
        BusyError,
        CheckpointError,
        ClosedError,
        ConfigError,
        CorruptionError,
        DiskFullError,
        Error,
        FailedStoreError,
        FormatError,
        KeyGroupError,
        LimitError,
        SchemaError,
        StorageError,
        UncleanError,
        UsageError,
    )
    from sfkv._types import Msgpack
    from sfkv.backend.batch import Batch
    from sfkv.backend.cells import Cells
    from sfkv.backend.info import build_info
    from sfkv.backend.keyed import KeyedStateBackend
    from sfkv.backend.memory import HashMapStateBackend
    from sfkv.backend.payloads import Payloads
    from sfkv.backend.rocksdb import EmbeddedRocksDBStateBackend, open
    from sfkv.backend.routing import key_group_range, key_groups
    from sfkv.backend.slot import Slot
    from sfkv.checkpoint.local import list_snapshots
    from sfkv.checkpoint.manifest import Snapshot, SnapshotFile
    from sfkv.state.aggregating import AggregatingState
    from sfkv.state.list import ListState
    from sfkv.state.map import MapState, MapView
    from sfkv.state.reducing import ReducingState
    from sfkv.state.scan import Scan
    from sfkv.state.table import Table
    from sfkv.state.value import ValueState

_HOMES = {
    "sfkv._errors": (
        "BusyError",
        "CheckpointError",
        "ClosedError",
        "ConfigError",
        "CorruptionError",
        "DiskFullError",
        "Error",
        "FailedStoreError",
        "FormatError",
        "KeyGroupError",
        "LimitError",
        "SchemaError",
        "StorageError",
        "UncleanError",
        "UsageError",
    ),
    "sfkv._types": ("Msgpack",),
    "sfkv.backend.batch": ("Batch",),
    "sfkv.backend.cells": ("Cells",),
    "sfkv.backend.info": ("build_info",),
    "sfkv.backend.keyed": ("KeyedStateBackend",),
    "sfkv.backend.memory": ("HashMapStateBackend",),
    "sfkv.backend.payloads": ("Payloads",),
    "sfkv.backend.rocksdb": ("EmbeddedRocksDBStateBackend", "open"),
    "sfkv.backend.routing": ("key_group_range", "key_groups"),
    "sfkv.backend.slot": ("Slot",),
    "sfkv.checkpoint.local": ("list_snapshots",),
    "sfkv.checkpoint.manifest": ("Snapshot", "SnapshotFile"),
    "sfkv.state.aggregating": ("AggregatingState",),
    "sfkv.state.list": ("ListState",),
    "sfkv.state.map": ("MapState", "MapView"),
    "sfkv.state.reducing": ("ReducingState",),
    "sfkv.state.scan": ("Scan",),
    "sfkv.state.table": ("Table",),
    "sfkv.state.value": ("ValueState",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'sfkv' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
