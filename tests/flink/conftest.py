"""Both backends, as PyFlink's users make them, and a context over each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sfkv
from sfkv.flink import EmbeddedRocksDBStateBackend, HashMapStateBackend, RuntimeContext


@pytest.fixture(params=["rocksdb", "hashmap"])
def backend(request: pytest.FixtureRequest) -> Any:
    if request.param == "rocksdb":
        return EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
    return HashMapStateBackend()


@pytest.fixture
def keyed(backend: Any, tmp_path: Path) -> Iterator[sfkv.KeyedStateBackend]:
    with backend.open(tmp_path / "store", key=str) as opened:
        yield opened


@pytest.fixture
def context(keyed: sfkv.KeyedStateBackend) -> RuntimeContext:
    """With "a" as the current key."""
    made = RuntimeContext(keyed)
    made.set_current_key("a")
    return made
