"""What state in memory is to reach beside a dict: bundles, memory a row, snapshots while work goes on, restore.

    python benchmarks/memory.py [--only bundle,rows,snapshot,restore] [--rows 1000000] [--rounds 5] [--json]

bundle    ``for key in keys: rows[key] = (rows[key] or 0) + 1`` inside ``state.bundle(keys)``, beside
          ``d[key] = d.get(key, 0) + 1`` on a dict that holds the whole state: the same lists of keys in the same order, 500,000
          keys. Operations per CPU second, and the ratio (to reach: 0.7).
rows      bytes a row of typed tables, as the store counts them and as the process grows, beside dicts of Python's objects; each
          in a process of its own (to reach: half of the dict).
snapshot  the part in which the operator stands still (to reach: 5 ms), the whole, and a batch of writes before it and just
          after it began.
restore   from the snapshot to the first read (to reach: 0.17 s).

Keys and values are 62-bit numbers, or texts of 16 characters made of them, all different; seeds are fixed.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfkv
from workload import SEED, draw_numbers, scramble

PARTS = ("bundle", "rows", "snapshot", "restore")
BUNDLE_KEYS = 500_000
BUNDLE_BATCHES = (256, 1024, 16_384, 65_536)
FILL_ROWS = 65_536
WRITE_ROWS = 16_384
KINDS = ("int64", "text", "record", "record as a tuple")


@dataclasses.dataclass(slots=True)
class Trip:
    """A value of five columns."""

    number: int
    share: float
    count: int
    zone: int
    tip: float


def texts_of(numbers: np.ndarray) -> list[str]:
    return [f"{number:016x}" for number in numbers.tolist()]


def open_store(key: Any) -> sfkv.KeyedStateBackend:
    return sfkv.HashMapStateBackend().open(None, key=key)


# --- Bundles.


def bundle_keys(of: str, draw: str) -> list[Any]:
    """The keys of a round, as objects of its own: what a job is given is not what its state holds."""
    numbers = draw_numbers(draw, BUNDLE_KEYS, BUNDLE_KEYS, 1.1)
    return texts_of(scramble(numbers)) if of == "text" else (2 * numbers).tolist()


def bundle_rounds(state: Any, rows: dict[Any, int], batches: list[list[Any]]) -> dict[str, Callable[[], None]]:
    def by_bundle() -> None:
        for keys in batches:
            with state.bundle(keys) as part:
                for key in keys:
                    part[key] = (part[key] or 0) + 1

    def by_dict() -> None:
        for keys in batches:
            for key in keys:
                rows[key] = rows.get(key, 0) + 1

    return {"sfkv": by_bundle, "dict": by_dict}


def cpu_rates(rounds_of: dict[str, Callable[[], None]], count: int, rounds: int) -> dict[str, float]:
    """Operations per CPU second, medians of rounds in turns, after one of each that does not count."""
    rates: dict[str, list[float]] = {name: [] for name in rounds_of}
    for number in range(rounds + 1):
        for name, run in rounds_of.items():
            began = time.process_time()
            run()
            if number > 0:
                rates[name].append(count / (time.process_time() - began))
    return {name: statistics.median(found) for name, found in rates.items()}


def measure_bundles(rounds: int) -> Iterator[dict[str, Any]]:
    for of in ("int64", "text"):
        numbers = np.arange(BUNDLE_KEYS, dtype="i8")
        stored = texts_of(scramble(numbers)) if of == "text" else (2 * numbers).tolist()
        values = scramble(numbers)
        with open_store(int if of == "int64" else str) as keyed:
            state = keyed.value_state("count", int)
            state.put_many(stored, values)
            rows = dict(zip(stored, values.tolist(), strict=True))
            for draw in ("unique", "zipf"):
                keys = bundle_keys(of, draw)
                for batch in BUNDLE_BATCHES:
                    batches = [keys[begin : begin + batch] for begin in range(0, len(keys), batch)]
                    gc.collect()
                    gc.freeze()
                    rates = cpu_rates(bundle_rounds(state, rows, batches), len(keys), rounds)
                    gc.unfreeze()
                    assert state.get_many(keys[:1000]).to_pylist() == [rows[key] for key in keys[:1000]]
                    facts = {"part": "bundle", "keys": of, "draw": draw, "batch": batch}
                    yield {
                        **facts,
                        "cpu_ops_per_s": round(rates["sfkv"]),
                        "dict_cpu_ops_per_s": round(rates["dict"]),
                        "of_dict": round(rates["sfkv"] / rates["dict"], 3),
                    }


# --- Memory a row.


def rss_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def record_columns_of(numbers: np.ndarray) -> dict[str, np.ndarray]:
    values = scramble(numbers)
    return {
        "number": values,
        "share": values / 2**62,
        "count": (values & 0x7FFFFFFF).astype("i4"),
        "zone": (values & 0xFF).astype("i4"),
        "tip": (values & 0xFFFF) / 8,
    }


def fill_store(kind: str, rows: int) -> tuple[sfkv.KeyedStateBackend, int]:
    """A store of as many rows, and what it says that they take."""
    trip = {"number": pa.int64(), "share": pa.float64(), "count": pa.int32(), "zone": pa.int32(), "tip": pa.float64()}
    keyed = open_store(str if kind == "text" else int)
    state = keyed.value_state("v", {"int64": int, "text": float}.get(kind, trip))
    for first in range(0, rows, FILL_ROWS):
        numbers = np.arange(first, min(rows, first + FILL_ROWS), dtype="i8")
        values = scramble(numbers)
        if kind == "text":
            state.put_many(pa.array(texts_of(values)), values / 2**62)
        elif kind == "int64":
            state.put_many(2 * numbers, values)
        else:
            state.put_many(2 * numbers, pa.record_batch(record_columns_of(numbers)))
    pa.default_memory_pool().release_unused()
    used: int = keyed._store.used_bytes
    return keyed, used


def fill_dict(kind: str, rows: int) -> dict[Any, Any]:
    filled: dict[Any, Any] = {}
    for first in range(0, rows, FILL_ROWS):
        numbers = np.arange(first, min(rows, first + FILL_ROWS), dtype="i8")
        values = scramble(numbers)
        if kind == "text":
            filled.update(zip(texts_of(values), (values / 2**62).tolist(), strict=True))
        elif kind == "int64":
            filled.update(zip((2 * numbers).tolist(), values.tolist(), strict=True))
        else:
            made: Any = Trip if kind == "record" else lambda *cells: cells
            columns = [column.tolist() for column in record_columns_of(numbers).values()]
            filled.update(zip((2 * numbers).tolist(), map(made, *columns), strict=True))
    return filled


def measure_one(system: str, kind: str, rows: int) -> dict[str, float]:
    """What this process grows by, a row. To be called once in a process, which has filled something small before."""
    small = fill_store(kind, 1000) if system == "sfkv" else fill_dict(kind, 1000)
    gc.collect()
    before = rss_bytes()
    filled = fill_store(kind, rows) if system == "sfkv" else fill_dict(kind, rows)
    gc.collect()
    grown = (rss_bytes() - before) / rows
    figures = {"process_bytes": grown}
    if isinstance(filled, tuple) and isinstance(small, tuple):
        figures["used_bytes"] = filled[1] / rows
        small[0].close()
        filled[0].close()
    return figures


def measure_rows(rows: int) -> Iterator[dict[str, Any]]:
    for kind in KINDS:
        figures = {}
        for system in ("sfkv", "dict"):
            command = [sys.executable, __file__, "--child", system, "--kind", kind, "--rows", str(rows)]
            figures[system] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        ours, theirs = figures["sfkv"], figures["dict"]["process_bytes"]
        yield {
            "part": "rows",
            "kind": kind,
            "rows": rows,
            "used_bytes": round(ours["used_bytes"], 1),
            "process_bytes": round(ours["process_bytes"], 1),
            "dict_bytes": round(theirs, 1),
            "of_dict": round(ours["process_bytes"] / theirs, 3),
        }


# --- Snapshots and restore.


def fill_numbers(state: Any, rows: int) -> None:
    for first in range(0, rows, FILL_ROWS):
        numbers = np.arange(first, min(rows, first + FILL_ROWS), dtype="i8")
        state.put_many(pa.array(2 * numbers), pa.array(scramble(numbers)))


def write_ms(state: Any, keys: pa.Array) -> float:
    began = time.perf_counter()
    state.put_many(keys, keys)
    return (time.perf_counter() - began) * 1000


def measure_snapshots(rows: int, rounds: int, folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    figures: dict[str, list[float]] = {name: [] for name in ("sync_ms", "total_ms", "cpu_ms", "write_ms", "write_after_ms")}
    with open_store(int) as keyed:
        state = keyed.value_state("v", int)
        fill_numbers(state, rows)
        for number in range(rounds + 1):
            batches = [pa.array(2 * rng.permutation(rows)[:WRITE_ROWS]) for _ in range(2)]
            before = write_ms(state, batches[0])
            began, began_cpu = time.perf_counter(), time.process_time()
            future = keyed.snapshot(number, folder)
            after = write_ms(state, batches[1])
            snapshot = future.result()
            found = {
                "sync_ms": snapshot.sync_ms,
                "total_ms": (time.perf_counter() - began) * 1000,
                "cpu_ms": (time.process_time() - began_cpu) * 1000,
                "write_ms": before,
                "write_after_ms": after,
            }
            for name, value in found.items():
                if number > 0:
                    figures[name].append(value)
        size = sum(path.stat().st_size for path in snapshot.path.iterdir())
    medians = {name: round(statistics.median(values), 2) for name, values in figures.items()}
    return {"part": "snapshot", "rows": rows, **medians, "bytes": size}


def measure_restore(rows: int, rounds: int, folder: Path) -> dict[str, Any]:
    with open_store(int) as keyed:
        fill_numbers(keyed.value_state("v", int), rows)
        path = keyed.snapshot(0, folder).result().path
    wall, cpu = [], []
    for number in range(rounds + 1):
        gc.collect()
        began, began_cpu = time.perf_counter(), time.process_time()
        keyed = sfkv.HashMapStateBackend().restore(None, path)
        state = keyed.value_state("v", int)
        first = state.get(0)
        took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
        assert first == int(scramble(np.zeros(1, "i8"))[0])
        if number == 0:
            numbers = np.arange(rows, dtype="i8")
            assert state.get_many(2 * numbers).equals(pa.array(scramble(numbers)))
        else:
            wall.append(took)
            cpu.append(took_cpu)
        keyed.close()
    return {
        "part": "restore",
        "rows": rows,
        "seconds": round(statistics.median(wall), 4),
        "cpu_seconds": round(statistics.median(cpu), 4),
    }


def measure(part: str, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if part == "bundle":
        yield from measure_bundles(chosen.rounds)
    elif part == "rows":
        yield from measure_rows(chosen.rows)
    else:
        with tempfile.TemporaryDirectory(prefix="sfkv-memory-") as folder:
            run = measure_snapshots if part == "snapshot" else measure_restore
            yield run(chosen.rows, chosen.rounds, Path(folder))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {','.join(PARTS)}; the default is all")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the state, but for bundles (default 1000000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--child", choices=("sfkv", "dict"), help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    for part in chosen.only.split(","):
        if part not in PARTS:
            parser.error(f"unknown part {part}: of {', '.join(PARTS)}")
    return chosen


def main() -> None:
    chosen = parse()
    if chosen.child:
        print(json.dumps(measure_one(chosen.child, chosen.kind, chosen.rows)))
        return
    for part in chosen.only.split(","):
        for row in measure(part, chosen):
            if chosen.json:
                print(json.dumps(row), flush=True)
            else:
                print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
