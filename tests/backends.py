"""The backend that a test is about: what ``sfkv.open`` and ``new_backend`` are in it, and in the programs that it runs.

conftest.py runs a test that is marked with ``backends`` once on each, and one that is marked with ``only`` on that one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sfkv
from sfkv import _core, _memory

NAMES = ["rocksdb", "memory"]

_current = "rocksdb"
_open_by_default = sfkv.open


def use(name: str) -> None:
    """Makes a backend the one that is meant from now on: for programs; tests have the fixture ``on_backend``."""
    global _current
    assert name in NAMES, name
    _current = name
    sfkv.open = _open_by_default if name == "rocksdb" else _open


@contextlib.contextmanager
def using(name: str) -> Iterator[None]:
    before = _current
    use(name)
    try:
        yield
    finally:
        use(before)


def new_backend(name: str | None = None, **engine_options: Any) -> Any:
    """A backend of the kind that is meant, or of another. Memory has no engine that could have options."""
    if (name or _current) == "memory":
        return sfkv.HashMapStateBackend()
    return sfkv.EmbeddedRocksDBStateBackend(**engine_options)


def other() -> str:
    """The kind that is not meant."""
    return NAMES[1 - NAMES.index(_current)]


def live_objects() -> dict[str, int]:
    """How many native objects there are of each kind; stores, scans and the like of both backends together."""
    counts = dict(_core.live_objects())
    for kind, count in _memory.live_objects().items():
        kind = kind.removeprefix("memory ")
        counts[kind] = counts.get(kind, 0) + count
    return counts


def _open(path: Any, **options: Any) -> sfkv.KeyedStateBackend:
    return new_backend().open(path, **options)
