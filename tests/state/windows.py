"""What the tests of tables share."""

from __future__ import annotations

from collections.abc import Callable

import sfkv

WINDOW = {"end": int, "user": str}


def ends(scan: sfkv.Scan) -> list[int]:
    return scan.to_arrow()["end"].to_pylist()


def seeks_of(keyed: sfkv.KeyedStateBackend, call: Callable[[], object]) -> int:
    """How often scans ask the engine for an iterator, or seek with one, while a call runs."""
    before = keyed._store.scan_seeks
    call()
    return keyed._store.scan_seeks - before
