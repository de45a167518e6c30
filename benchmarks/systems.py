"""The systems of every run: sfkv, on disk or in memory, sfkv under Flink's engine options, and the floor.

What they have in common, and the peers too (peers.py): ``name``; a method for each operation that they offer, named like it;
``convert(column)`` and ``convert_values(values)``, which make of NumPy columns what batches of theirs are;
``plain(operation, answer)``; ``fill(workload)``; ``settle(workload)``, which leaves the state in table files, or in the
memtable, where there is an engine; ``end_round()`` and ``close()``.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import flink_options
import sfkv
from sfkv._rows import ValueRows
from sfkv._types import ValueSchema
from workload import ENTRIES_PER_KEY, FILL_ROWS, RECORD, Operation, Rows, Settings, Workload, record_columns

try:
    from _floor import Floor
except ImportError:
    Floor = None  # type: ignore[assignment]
try:
    from _memory_floor import MemoryFloor
except ImportError:
    MemoryFloor = None  # type: ignore[assignment]


RECORDS = ValueRows(ValueSchema.of(RECORD))
SMALL_FILE_BYTES = 8 << 10  # the description that a store writes of itself


def memtable_bytes(workload: Workload) -> int:
    """Room for the state and all rounds of writes in one memtable: rows have at most 32 bytes, and the list's links 64."""
    rounds = workload.settings.rounds + 2 if workload.operation.writes else 0
    return (workload.row_count + rounds * len(workload.asked)) * 128 + (16 << 20)


def slot_bytes(workload: Workload) -> int:
    """The slot's memory: as told, or as much as keeps all rows in the memtable; a third of it is for them."""
    memory = workload.settings.memory_mb << 20
    return max(memory, 4 * memtable_bytes(workload)) if workload.settings.state == "memtable" else memory


def engine_options(workload: Workload) -> str:
    if workload.settings.state != "memtable":
        return ""
    return f"write_buffer_size={memtable_bytes(workload)}"


def check_place(name: str, folder: Path, settings: Settings) -> None:
    """Refuses a state that is not where it should be read from."""
    if settings.backend == "memory":
        return
    files = [path for path in glob.glob(f"{folder}/*.sst") if os.path.getsize(path) > SMALL_FILE_BYTES]
    lies = "files" if files else "memtable"
    assert lies == settings.state, f"{name}: the state lies in {lies}"


def take(scan: sfkv.Scan, kept: list[tuple[int, ...]] | None) -> None:
    """Takes one batch after the other; keeps the rows, if they are to be checked."""
    for batch in scan:
        if kept is not None:
            kept.extend(zip(*(column.to_pylist() for column in batch.columns), strict=True))


class SfkvSystem:
    """sfkv through its public interface, batches as Arrow arrays."""

    def __init__(self, name: str, folder: Path, workload: Workload) -> None:
        self.name = name
        self.folder = folder
        self.kind = workload.operation.kind
        self.backend = workload.settings.backend
        self.memory_bytes = slot_bytes(workload)
        self.engine_options = engine_options(workload)
        self.batch_rows = workload.settings.batch
        self.watermark = workload.watermark if self.kind == "table" else 0
        self.keys_repeat = workload.settings.draw == "zipf"
        self._open()

    def _open(self) -> None:
        self.keyed = sfkv.HashMapStateBackend().open(None, key=int) if self.backend == "memory" else self._open_on_disk()
        try:
            self._bind()
        except BaseException:
            self.keyed.close(discard=True)
            raise

    def _open_on_disk(self) -> sfkv.KeyedStateBackend:
        backend = sfkv.EmbeddedRocksDBStateBackend(row_cache=self.name not in ("flink-options", "no-row-cache"))
        slot = sfkv.Slot(self.memory_bytes)
        changes = [self.engine_options] if self.engine_options else []
        if self.name == "flink-options":
            changes.insert(0, flink_options.text_for(slot))
        backend._engine_options = ";".join(changes)
        return backend.open(self.folder, key=int, slot=slot)

    def _bind(self) -> None:
        """Finds the state's methods once, so that a call costs what it costs a job."""
        if self.kind == "value":
            state = self.keyed.value_state("v", int)
            calls = {"get": state.get, "put": state.put, "get_many": state.get_many, "put_many": state.put_many}
            self.value_bundle = self._bundle
            self.value_rmw = self._rmw
            self.value_rmw_many = self._rmw_many
        elif self.kind == "record":
            state = self.keyed.value_state("v", RECORD)
            calls = {"get_many": state.get_many, "put_many": state.put_many}
        elif self.kind == "map":
            state = self.keyed.map_state("v", int, int)
            calls = {"get": state.get, "put": state.put, "items_many": state.items_many, "put_many": state.put_many}
        elif self.kind == "table":
            state = self.keyed.table("v", {"moment": int, "key": int}, int, group_by="key")
            calls = {}
        elif self.kind in ("reducing", "aggregating"):
            if self.kind == "reducing":
                state = self.keyed.reducing_state("v", int, "sum")
            else:
                state = self.keyed.aggregating_state("v", int, "mean")
            calls = {"add": state.add, "add_many": state.add_many, "get_many": state.get_many}
        else:
            state = self.keyed.list_state("v", int)
            calls = {"get": state.get, "add": state.add, "get_many": state.get_many, "add_many": state.add_many}
        self.state = state
        for name, call in calls.items():
            setattr(self, f"{self.kind}_{name}", call)

    def _bundle(self, keys: pa.Array) -> None:
        with self.state.bundle(keys) as rows:
            for key in rows:
                rows[key] += 1

    def _rmw(self, key: int, value: int) -> None:
        self.state.put(key, self.state.get(key) + value)

    def _rmw_many(self, keys: pa.Array, values: pa.Array) -> None:
        if self.keys_repeat:
            summed = pa.table({"key": keys, "value": values}).group_by("key").aggregate([("value", "sum")]).combine_chunks()
            keys, values = summed["key"].chunk(0), summed["value_sum"].chunk(0)
        self.state.put_many(keys, pc.add(self.state.get_many(keys), values))

    def table_scan(self, kept: list[tuple[int, ...]] | None = None) -> None:
        take(self.state.scan(batch_rows=self.batch_rows), kept)

    def table_fire(self, kept: list[tuple[int, ...]] | None = None) -> None:
        take(self.state.scan_range(None, self.watermark, batch_rows=self.batch_rows), kept)

    def convert(self, column: np.ndarray) -> pa.Array:
        return pa.array(column)

    def convert_values(self, values: np.ndarray) -> pa.Array:
        return pa.record_batch(record_columns(values)) if self.kind == "record" else pa.array(values)

    def plain(self, operation: Operation, answer: Any) -> Any:
        if not operation.many or answer is None:
            return answer
        if operation.kind == "record":
            return [None if record is None else record["number"] for record in answer.to_pylist()]
        return answer.to_pylist(maps_as_pydicts="strict") if operation.kind == "map" else answer.to_pylist()

    def fill(self, workload: Workload, first_key: int = 0) -> None:
        if self.kind == "table":
            for rows in workload.stored(first_key):
                self.state.put_many({"moment": rows.user_keys, "key": rows.keys}, rows.values)
            return
        for rows in workload.stored(first_key):
            keys, values = pa.array(rows.keys), self.convert_values(rows.values)
            if self.kind == "map":
                self.state.put_many(keys, pa.array(rows.user_keys), values)
            elif self.kind in ("list", "reducing", "aggregating"):
                self.state.add_many(keys, values)
            else:
                self.state.put_many(keys, values)

    def settle(self, workload: Workload) -> None:
        """Into one level of files, read by a store that was opened on them; or nothing, for the memtable."""
        if workload.settings.state == "files":
            self.keyed.close()
            self._open()
            self.keyed.compact()
        check_place(self.name, self.folder, workload.settings)

    def end_round(self) -> None:
        pass

    def close(self) -> None:
        self.keyed.close(discard=True)


class FloorSystem:
    """The same rows in the same engine, by its fastest calls in one C++ loop, encoded and sorted beforehand (floor.h); or, in
    memory, in an open-addressing table, as they come (memory_floor.h).
    """

    name = "floor"

    def __init__(self, folder: Path, workload: Workload) -> None:
        self.folder = folder
        self.kind = workload.operation.kind
        self.watermark = workload.watermark if self.kind == "table" else 0
        self.in_memory = workload.settings.backend == "memory"
        self.floor = MemoryFloor() if self.in_memory else Floor(folder, slot_bytes(workload), engine_options(workload))

    def _prepare(self, rows: Rows, batch: int, columns: tuple[str, ...]) -> None:
        user_keys = rows.user_keys if "user_keys" in columns else None
        records = None
        if self.kind == "record":
            records = RECORDS.rows_of(pa.record_batch(record_columns(rows.values)))
        elif self.kind in ("reducing", "aggregating") and not self.in_memory:
            records = fold_rows(self.kind, rows.values)
        self.floor.prepare(self.kind, rows.keys, user_keys, rows.values, batch, records)

    def fill(self, workload: Workload) -> None:
        columns = ("keys", "user_keys") if self.kind in ("map", "table") else ("keys",)
        for rows in workload.stored():
            self._prepare(rows, FILL_ROWS, columns)
            self.floor.merge_many() if self.kind == "list" else self.floor.put_many()

    def settle(self, workload: Workload) -> None:
        if workload.settings.state == "files":
            self.floor.settle()
        check_place(self.name, self.folder, workload.settings)

    def prepare(self, workload: Workload, asked: Rows) -> None:
        if workload.operation.whole:
            return
        self._prepare(asked, workload.batch, workload.operation.columns)

    def round(self, operation: Operation) -> None:
        _, _, name = operation.name.partition("_")
        if name == "scan":
            self.floor.scan()
        elif name == "fire":
            self.floor.scan_below(self.watermark)
        elif name in ("bundle", "rmw_many"):
            self.floor.get_many()
            self.floor.put_many()
        elif name == "rmw":
            self.floor.get()
            self.floor.put()
        else:
            getattr(self.floor, name.replace("add", "merge"))()

    def check(self, workload: Workload, rows: Rows) -> None:
        """It sums up what it reads; so sums are compared, before and after a write."""
        operation = workload.operation
        if operation.whole:
            before = self.floor.sum
            self.round(operation)
            stored = workload.rows_of(workload.asked.keys)
            total = sum(int(column.sum(dtype="u8")) for column in (stored.keys, stored.user_keys, stored.values))
            assert (self.floor.sum - before) % 2**64 == total % 2**64, f"floor: wrong answers of {operation.name}"
            return
        self._prepare(rows, workload.batch, operation.columns)
        self.round(operation)
        read = "items_many" if operation.name == "map_items_many" else "get_many" if operation.many else "get"
        before = self.floor.sum
        getattr(self.floor, read)()
        grown = (self.floor.sum - before) % 2**64
        assert grown == sum_after(workload, rows) % 2**64, f"floor: wrong answers of {operation.name}"

    def end_round(self) -> None:
        pass

    def close(self) -> None:
        self.floor = None


def fold_rows(kind: str, values: np.ndarray) -> list[bytes]:
    """The rows of sums, or means, of one value each (FORMAT.md section 4)."""
    head, tail = (b"\x80\x00\x01\x04", b"") if kind == "reducing" else (b"\x80\x00\x05\x04", (1).to_bytes(8, "little"))
    return [head + value.to_bytes(16, "little") + tail for value in values.tolist()]


def sum_of_words(values: np.ndarray) -> int:
    """Of the rows of records, each taken as numbers of eight bytes; what is left at their ends is not counted."""
    rows = RECORDS.rows_of(pa.record_batch(record_columns(values)))
    return sum(int(np.frombuffer(row, "u8", len(row) // 8).sum(dtype=object)) for row in rows)


def sum_after(workload: Workload, rows: Rows) -> int:
    """What the floor's sum grows by when it reads these rows, after it has written them if the operation writes."""
    operation = workload.operation
    stored = workload.rows_of(rows.keys[rows.keys % 2 == 0])
    if operation.kind == "record":
        return sum_of_words((rows if operation.writes else stored).values)
    if operation.name == "map_items_many":
        return sum(stored.values.tolist()) + sum(stored.user_keys.tolist())
    if operation.writes:
        adds = operation.kind in ("list", "reducing", "aggregating")
        return sum(rows.values.tolist()) + (sum(stored.values.tolist()) if adds else 0)
    if operation.name == "map_get":
        asked = rows.user_keys[rows.keys % 2 == 0] + ENTRIES_PER_KEY * np.arange(len(stored) // ENTRIES_PER_KEY)
        return sum(stored.values[asked].tolist())
    return sum(stored.values.tolist())
