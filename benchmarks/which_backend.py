"""Shows by figures what sets the backends apart: the table of the guide "Which backend?", a line for each statement in it.

    python benchmarks/which_backend.py [--rows 500000] [--memory-mb 64] [--systems rocksdb,memory,dict] [--json]

Each system is measured in a process of its own, so that its memory is its own: the RocksDB backend, the memory backend, and a
plain dict of the same Python objects to compare with. The state is an object for each account: a balance, a
count and a text of 16 characters, stored as a record. "object" is the same class as ``sfkv.Msgpack``, in a state of 20,000:
encoded on RocksDB, live in memory. ``--memory-mb`` is RocksDB's slot. Times of calls and collections are of CPU, the median of
the rounds; snapshots are timed once, by the clock, as their time is the disk's.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfkv
from sfkv.flink import EmbeddedRocksDBStateBackend, RuntimeContext, Types, ValueStateDescriptor

SYSTEMS = ("rocksdb", "memory", "dict")
SINGLE_CALLS = 20_000
BATCH_ROWS = 16_384
CHANGED_SHARE = 100  # one row in so many is written between two snapshots
SMALL_ROWS = 1_000  # accounts of the small job
OBJECTS = 20_000
LIMIT_BYTES = 32 << 20
LARGE = 4  # times the rows, in a slot of 8 MB
ROUNDS = 5
MB = 1e6

# What is printed: a statement of the table, the figure that shows it, its name in the JSON and its unit.
TABLE = [
    ("Storage", "bytes on disk", "disk_mb", "MB"),
    ("", "growth of the process", "resident_mb", "MB"),
    ("Access", "get, one key", "get_us", "us"),
    ("", "put, one key", "put_us", "us"),
    ("", "get_many, a key", "get_many_us", "us"),
    ("", "put_many, a key", "put_many_us", "us"),
    ("", "get, one object", "object_get_us", "us"),
    ("", "put, one object", "object_put_us", "us"),
    ("Size limit", "rows within a limit of 32 MB", "rows_until_full", ""),
    ("", "state over memory", "state_over_memory", "times"),
    ("", "get at that size", "large_get_us", "us"),
    ("GC pressure", "objects that it looks at", "gc_objects", ""),
    ("", "a full collection", "gc_ms", "ms"),
    ("Checkpoint", "the first: new bytes", "first_mb", "MB"),
    ("", "the first: synchronous part", "first_sync_ms", "ms"),
    ("", "the first: in all", "first_total_ms", "ms"),
    ("", "1 % changed: new bytes", "second_mb", "MB"),
    ("", "1 % changed: synchronous part", "second_sync_ms", "ms"),
    ("", "1 % changed: in all", "second_total_ms", "ms"),
    ("Best for", "1,000 accounts, an event", "small_event_us", "us"),
    ("", "restore, checksums compared", "restore_ms", "ms"),
]


@dataclass
class Account:
    balance: int
    count: int
    name: str


@dataclass(frozen=True)
class Settings:
    rows: int
    memory_mb: int
    folder: Path


def make_backend(system: str, **options: Any) -> Any:
    return EmbeddedRocksDBStateBackend(True) if system == "rocksdb" else sfkv.HashMapStateBackend(**options)


def open_options(system: str, memory_mb: int) -> dict[str, Any]:
    return {"slot": sfkv.Slot(f"{memory_mb}MB")} if system == "rocksdb" else {}


def columns_of(keys: np.ndarray) -> dict[str, Any]:
    """Records that do not compress away, for accounts by their numbers."""
    scrambled = keys.astype("u8") * np.uint64(0x9E3779B97F4A7C15)
    names = [f"{number:016x}" for number in scrambled.tolist()]
    return {"balance": (scrambled >> np.uint64(2)).astype("i8"), "count": keys % 1000, "name": names}


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def drawn(rows: int, count: int) -> list[int]:
    return np.random.default_rng(20130101).integers(0, rows, count).tolist()


def cpu_us(work: Callable[[], None], count: int) -> float:
    """Microseconds of CPU for one of ``count`` operations; the median of the rounds."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        found.append((time.process_time() - began) / count * 1e6)
    return statistics.median(found)


def settle() -> int:
    """Leaves what was imported and made so far out of all collections. The memory of the process at that moment."""
    gc.collect()
    gc.freeze()
    return resident_bytes()


def gc_figures() -> dict[str, float]:
    """What the state adds to a full collection."""
    return {"gc_ms": cpu_us(gc.collect, 1) / 1e3, "gc_objects": len(gc.get_objects())}


def of_each(call: Callable[..., Any], *columns: list[Any]) -> Callable[[], None]:
    def work() -> None:
        for arguments in zip(*columns, strict=True):
            call(*arguments)

    return work


def measure_dict(settings: Settings) -> dict[str, float]:
    """A dict of tuples, with what it has of all that: no checkpoint, and no limit but the machine's."""
    before = settle()
    state: dict[int, Account] = {}
    for begin in range(0, settings.rows, BATCH_ROWS):
        keys = np.arange(begin, min(begin + BATCH_ROWS, settings.rows))
        columns = columns_of(keys)
        rows = zip(columns["balance"].tolist(), columns["count"].tolist(), columns["name"], strict=True)
        state.update(zip(keys.tolist(), (Account(*row) for row in rows), strict=True))
    del columns, rows
    keys = drawn(settings.rows, SINGLE_CALLS)
    value = Account(1, 1, "x" * 16)
    figures = {
        "disk_mb": 0,
        "resident_mb": round((resident_bytes() - before) / MB, 1),
        **gc_figures(),
        "get_us": cpu_us(of_each(state.get, keys), len(keys)),
        "put_us": cpu_us(of_each(lambda key: state.__setitem__(key, value), keys), len(keys)),
    }
    small = dict.fromkeys(range(SMALL_ROWS), 0)
    events = drawn(SMALL_ROWS, SINGLE_CALLS)

    def count_events() -> None:
        for key in events:
            small[key] = small[key] + 1

    return {**figures, "small_event_us": cpu_us(count_events, len(events))}


def measure_backend(system: str, settings: Settings) -> dict[str, float]:
    """All figures of a backend."""
    folder, options = settings.folder / "state", open_options(system, settings.memory_mb)
    backend = make_backend(system)
    warm_up(backend, settings)
    before = settle()
    with backend.open(folder, key=int, **options) as keyed:
        accounts = keyed.value_state("accounts", Account)
        fill(accounts, settings.rows)
        keyed.compact()
        figures = {"disk_mb": round(bytes_of(folder) / MB, 1), "resident_mb": round((resident_bytes() - before) / MB, 1)}
        figures |= gc_figures()
        figures |= access_figures(accounts, settings.rows)
        figures |= object_figures(keyed)
        figures |= checkpoint_figures(keyed, accounts, settings)
    figures |= restore_figures(system, backend, settings)
    figures |= limit_figures(system, settings)
    return {**figures, "small_event_us": small_job(system, settings)}


def warm_up(backend: Any, settings: Settings) -> None:
    """Uses once what is imported by its first use."""
    with backend.open(settings.folder / "warm", key=int) as keyed:
        accounts = keyed.value_state("accounts", Account)
        fill(accounts, 100)
        accounts.get_many(np.arange(100))
        accounts.scan().to_arrow()


def fill(accounts: sfkv.ValueState, rows: int, *, first: int = 0) -> None:
    for begin in range(first, rows, BATCH_ROWS):
        keys = np.arange(begin, min(begin + BATCH_ROWS, rows))
        accounts.put_many(keys, columns_of(keys))


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.sst"))


def check(accounts: sfkv.ValueState, batch: np.ndarray) -> None:
    """Answers are checked once before they are timed."""
    wanted = pa.record_batch(columns_of(batch)).to_pylist()
    assert accounts.get_many(batch).to_pylist() == wanted
    assert [vars(accounts.get(key)) for key in batch[:100].tolist()] == wanted[:100]


def access_figures(accounts: sfkv.ValueState, rows: int) -> dict[str, float]:
    keys = drawn(rows, SINGLE_CALLS)
    batch = np.array(drawn(rows, BATCH_ROWS))
    check(accounts, batch)
    columns = columns_of(batch)
    value = accounts.get(keys[0])
    return {
        "get_us": cpu_us(of_each(accounts.get, keys), len(keys)),
        "put_us": cpu_us(of_each(lambda key: accounts.put(key, value), keys), len(keys)),
        "get_many_us": cpu_us(lambda: accounts.get_many(batch), len(batch)),
        "put_many_us": cpu_us(lambda: accounts.put_many(batch, columns), len(batch)),
    }


def object_figures(keyed: sfkv.KeyedStateBackend) -> dict[str, float]:
    """The same class, as objects that are no records."""
    objects = keyed.value_state("objects", sfkv.Msgpack(Account))
    objects.put_many(range(OBJECTS), [Account(number, 1, "x" * 16) for number in range(OBJECTS)])
    keyed.compact()
    keys, value = drawn(OBJECTS, SINGLE_CALLS), Account(1, 1, "x" * 16)
    assert all(objects.get(key).balance == key for key in keys[:100])
    figures = {
        "object_get_us": cpu_us(of_each(objects.get, keys), len(keys)),
        "object_put_us": cpu_us(of_each(lambda key: objects.put(key, value), keys), len(keys)),
    }
    keyed.drop_state("objects")
    return figures


def checkpoint_figures(keyed: sfkv.KeyedStateBackend, accounts: sfkv.ValueState, settings: Settings) -> dict[str, float]:
    """Two snapshots, one row in a hundred changed between them; bytes are those of files that the first one has not."""
    storage = settings.folder / "snapshots"
    keyed.compact()
    first = keyed.snapshot(1, storage).result()
    changed = np.arange(0, settings.rows, CHANGED_SHARE)
    accounts.put_many(changed, columns_of(changed + 1))
    second = keyed.snapshot(2, storage).result()
    files = [{path.stat().st_ino: path.stat().st_size for path in taken.path.iterdir()} for taken in (first, second)]
    new = sum(size for inode, size in files[1].items() if inode not in files[0])
    return {
        "first_mb": round(sum(files[0].values()) / MB, 1),
        "first_sync_ms": round(first.sync_ms, 1),
        "first_total_ms": round(first.total_ms, 1),
        "second_mb": round(new / MB, 2),
        "second_sync_ms": round(second.sync_ms, 1),
        "second_total_ms": round(second.total_ms, 1),
    }


def restore_figures(system: str, backend: Any, settings: Settings) -> dict[str, float]:
    """From the newest snapshot, all checksums compared."""
    (*_, newest) = sfkv.list_snapshots(settings.folder / "snapshots")
    began = time.perf_counter()
    with backend.restore(settings.folder / "again", newest, **open_options(system, settings.memory_mb)) as keyed:
        took = (time.perf_counter() - began) * 1e3
        assert keyed.value_state("accounts", Account).get(settings.rows - 1).count == (settings.rows - 1) % 1000
    return {"restore_ms": round(took, 1)}


def limit_figures(system: str, settings: Settings) -> dict[str, float]:
    """The memory backend is filled until its limit refuses a write; the other one to many times of a small slot."""
    if system == "memory":
        with make_backend(system, memory_limit=LIMIT_BYTES).open(settings.folder / "limited", key=int) as keyed:
            return {"rows_until_full": rows_until_full(keyed.value_state("accounts", Account))}
    slot = sfkv.Slot("8MB")
    with make_backend(system).open(settings.folder / "large", key=int, slot=slot) as keyed:
        accounts = keyed.value_state("accounts", Account)
        fill(accounts, LARGE * settings.rows)
        keyed.compact()
        keys = drawn(LARGE * settings.rows, SINGLE_CALLS)
        check(accounts, np.array(keys))
        return {
            "state_over_memory": round(bytes_of(settings.folder / "large") / slot.memory_bytes, 1),
            "large_get_us": cpu_us(of_each(accounts.get, keys), len(keys)),
        }


def rows_until_full(accounts: sfkv.ValueState) -> int:
    rows = 0
    while True:
        try:
            fill(accounts, rows + BATCH_ROWS, first=rows)
        except sfkv.LimitError:
            return rows
        rows += BATCH_ROWS


def small_job(system: str, settings: Settings) -> float:
    """Events of 1,000 accounts in Flink's manner: set the key, read, write."""
    with make_backend(system).open(settings.folder / "small", key=int) as keyed:
        context = RuntimeContext(keyed)
        count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        events = drawn(SMALL_ROWS, SINGLE_CALLS)

        def count_events() -> None:
            for key in events:
                context.set_current_key(key)
                count.update((count.value() or 0) + 1)

        return cpu_us(count_events, len(events))


def measure_apart(system: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """The figures of a system, from a process of its own."""
    options = ["--one", system, "--rows", str(chosen.rows), "--memory-mb", str(chosen.memory_mb)]
    done = subprocess.run([sys.executable, __file__, *options], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure_here(system: str, chosen: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="sfkv-which-") as folder:
        settings = Settings(chosen.rows, chosen.memory_mb, Path(folder))
        figures = measure_dict(settings) if system == "dict" else measure_backend(system, settings)
    return {name: round(figure, 2) for name, figure in figures.items()}


def print_table(found: dict[str, dict[str, Any]]) -> None:
    print(f"{'':13}{'':32}" + "".join(f"{system:>14}" for system in found))
    for statement, what, name, unit in TABLE:
        cells = [f"{figures[name]:,} {unit}".strip() if name in figures else "" for figures in found.values()]
        print((f"{statement:13}{what:32}" + "".join(f"{cell:>14}" for cell in cells)).rstrip())


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000, help="accounts")
    parser.add_argument("--memory-mb", type=int, default=64, help="of RocksDB's slot")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--one", choices=SYSTEMS, help=argparse.SUPPRESS)  # what a process of its own is started with
    parser.add_argument("--json", action="store_true", help="one JSON object a system")
    chosen = parser.parse_args(arguments)
    chosen.systems = chosen.systems.split(",")
    for system in chosen.systems:
        if system not in SYSTEMS:
            parser.error(f"unknown system {system}: one of {', '.join(SYSTEMS)}")
    return chosen


def main() -> None:
    chosen = parse()
    if chosen.one:
        print(json.dumps(measure_here(chosen.one, chosen)))
        return
    found = {system: measure_apart(system, chosen) for system in chosen.systems}
    if chosen.json:
        for system, figures in found.items():
            print(json.dumps({"system": system, "rows": chosen.rows, "memory_mb": chosen.memory_mb, **figures}))
    else:
        info = sfkv.build_info()
        print(f"{info['engine']} engine {info['rocksdb']}, {chosen.rows:,} accounts, a slot of {chosen.memory_mb} MB")
        print_table(found)


if __name__ == "__main__":
    main()
