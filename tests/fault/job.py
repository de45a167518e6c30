"""A job for fault tests: numbered batches over all kinds of state, snapshots, restores, and what must be found afterwards."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import numpy as np

import sfkv
from tests.backends import new_backend

KEYS, BATCHES = 60, 12

# So small that flushes and compactions happen all the time.
ENGINE = "write_buffer_size=65536;level0_file_num_compaction_trigger=2"


def keys_of(number: int) -> np.ndarray:
    return np.arange(number * 7, number * 7 + 20) % KEYS


def pad_of(number: int) -> bytes:
    return random.Random(number).randbytes(25_000)


@functools.cache
def expected(number: int) -> dict[str, Any]:
    """What the states hold after the batches 1 to ``number``."""
    count: dict[int, int] = {}
    seen: dict[int, list[int]] = {}
    last: dict[tuple[int, int], int] = {}
    pad: dict[int, bytes] = {}
    for batch in range(1, number + 1):
        for key in keys_of(batch).tolist():
            count[key] = key * 1000 + batch
            seen.setdefault(key, []).append(batch)
            last[key, key % 3] = batch
        pad[batch % 4] = pad_of(batch)
    total = {key: sum(numbers) for key, numbers in seen.items()}
    return {"offset": number or None, "count": count, "seen": seen, "total": total, "last": last, "pad": pad}


def contents(keyed: sfkv.KeyedStateBackend) -> dict[str, Any]:
    """What the states hold."""

    def rows(state: Any) -> list[dict[str, Any]]:
        return state.scan(batch_rows=7).to_arrow().to_pylist()

    return {
        "offset": keyed.offset,
        "count": {row["key"]: row["value"] for row in rows(keyed.value_state("count", int))},
        "seen": {row["key"]: row["value"] for row in rows(keyed.list_state("seen", int))},
        "total": {row["key"]: row["value"] for row in rows(keyed.reducing_state("total", int, "sum"))},
        "last": {(row["key"], row["user_key"]): row["value"] for row in rows(keyed.map_state("last", int, int))},
        "pad": {row["key"]: row["value"] for row in rows(keyed.value_state("pad", bytes))},
    }


class Job:
    """Runs to batch ``BATCHES``, from wherever it stands. Every step may be tried again after an error."""

    def __init__(self, folder: Path, backend: str = "rocksdb") -> None:
        self.folder = folder
        self.keyed: sfkv.KeyedStateBackend | None = None
        self.slot = sfkv.Slot("4MB")
        self.backend = new_backend(backend)
        self.backend._engine_options = ENGINE  # of which there are none in memory
        self.has_files = backend == "rocksdb"  # else all lies in memory until it is closed
        self.attempted = 0
        self.durable = 0  # batches that a flush, a snapshot or a close has confirmed
        self.snapshots: dict[int, int] = {}  # those that were confirmed: id to batches
        self.restored = 0

    def steps(self) -> list[functools.partial[None]]:
        step = functools.partial
        return [
            step(self.open),
            step(self.write, 4),
            step(self.flush),
            step(self.write, 6),
            step(self.snapshot, 1),
            step(self.write, 9),
            step(self.read),
            step(self.compact),
            step(self.snapshot, 2),
            step(self.write, 11),
            step(self.close),
            step(self.open),
            step(self.read),
            step(self.write, BATCHES),
            step(self.close),
            step(self.check_snapshots),
        ]

    def open(self) -> None:
        if self.keyed is None:
            self.keyed = self.backend.open(self.folder / "store", key=int, slot=self.slot, recover=True)

    def write(self, until: int) -> None:
        self.open()
        for number in range((self.keyed.offset or 0) + 1, until + 1):
            self.attempted = max(self.attempted, number)
            keys = keys_of(number)
            count, seen = self.keyed.value_state("count", int), self.keyed.list_state("seen", int)
            total = self.keyed.reducing_state("total", int, "sum")
            last, pad = self.keyed.map_state("last", int, int), self.keyed.value_state("pad", bytes)
            with self.keyed.batch(offset=number):
                count.put_many(keys, keys * 1000 + number)
                seen.add_many(keys, np.full(len(keys), number))
                total.add_many(keys, np.full(len(keys), number))
                last.put_many(keys, keys % 3, np.full(len(keys), number))
                pad.put(number % 4, pad_of(number))

    def flush(self) -> None:
        self.open()
        held = self.keyed.offset or 0
        self.keyed._store.flush()
        if self.has_files:
            self.durable = max(self.durable, held)

    def compact(self) -> None:
        self.open()
        self.keyed.compact()

    def read(self) -> None:
        self.open()
        self.check(contents(self.keyed))

    def snapshot(self, id: int) -> None:
        if id in self.snapshots:
            return
        self.open()
        held = self.keyed.offset or 0
        taken = self.keyed.snapshot(id, self.folder / "snapshots", metadata={"offset": held}).result()
        assert taken.metadata == {"offset": held}
        self.snapshots[id] = held
        if self.has_files:
            self.durable = max(self.durable, held)

    def close(self) -> None:
        if self.keyed is not None:
            held, keyed = self.keyed.offset or 0, self.keyed
            try:
                keyed.close()
            finally:
                if keyed.closed:
                    self.keyed = None
                    self.durable = max(self.durable, held)

    def crash(self) -> None:
        """Drops what is not on disk, which may not fail."""
        if self.keyed is not None:
            self.keyed.close(discard=True)
            self.keyed = None

    def restore(self, id: int) -> None:
        if id not in self.snapshots:
            return
        self.restored += 1
        path = self.folder / f"restored-{self.restored}"
        keyed = self.backend.restore(path, self.folder / "snapshots" / f"chk-{id}", slot=self.slot)
        try:
            assert contents(keyed) == expected(keyed.restored_from.metadata["offset"])
            keyed.close()
        finally:
            keyed.close(discard=True)

    def check(self, found: dict[str, Any]) -> None:
        """A prefix of the batches: all that are durable, and no more than were begun."""
        number = found["offset"] or 0
        assert self.durable <= number <= self.attempted, (self.durable, number, self.attempted)
        assert found == expected(number)

    def check_snapshots(self) -> None:
        """Those that were confirmed are there, and whatever is there can be restored."""
        there = {snapshot.id: snapshot.metadata["offset"] for snapshot in sfkv.list_snapshots(self.folder / "snapshots")}
        assert there.items() >= self.snapshots.items(), (there, self.snapshots)
        self.snapshots = there
        for id in there:
            self.restore(id)
