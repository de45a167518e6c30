"""Measures value states beside the floor: the same rows by the engine's fastest calls in one C++ loop (floor.h).

    python benchmarks/run.py [--only value_get_many,value_put_many] [--keys 500000] [--batch 16384] [--skew 1.1] [--json]

State lies in table files before reads, keys and values have 8 bytes. Both sides run in turns, in one process; answers are
checked once before timing. Columns: operations per second of wall time (median, least, most), per CPU second of the process
(flushes and compactions included), and the share of the floor by CPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from _floor import Floor

import sfkv

SEED = 20130101


@dataclass
class Side:
    """One system under test: a round does `operations` operations."""

    name: str
    round: Callable[[], None]
    operations: int


def draw_keys(arguments: argparse.Namespace, count: int) -> np.ndarray:
    """Keys in a random order: each once before any twice; with a skew, by a Zipf law cut off at the number of keys."""
    rng = np.random.default_rng(SEED)
    if arguments.skew:
        weights = 1 / np.arange(1, arguments.keys + 1) ** arguments.skew
        ranks = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(count))
        return rng.permutation(arguments.keys)[np.minimum(ranks, arguments.keys - 1)].astype("i8")
    rounds = -(-count // arguments.keys)
    return np.concatenate([rng.permutation(arguments.keys) for _ in range(rounds)])[:count].astype("i8")


def make_sides(name: str, arguments: argparse.Namespace, folder: Path) -> list[Side]:
    memory = f"{arguments.memory_mb}MB"
    count = min(arguments.keys, 500_000 if name.endswith(("many", "bundle")) else 100_000)
    keys = draw_keys(arguments, count)
    batches = [pa.array(keys[i : i + arguments.batch]) for i in range(0, count, arguments.batch)]
    single = keys.tolist()

    keyed = sfkv.open(folder / f"sfkv-{name}", key=int, slot=sfkv.Slot(memory))
    state = keyed.value_state("v", int)
    floor = Floor(folder / f"floor-{name}", arguments.memory_mb << 20)
    everything = np.arange(arguments.keys, dtype="i8")
    for begin in range(0, arguments.keys, 65536):
        part = everything[begin : begin + 65536]
        state.put_many(part, part)
    floor.prepare(everything, 65536)
    floor.put_many(1)
    floor.settle()
    keyed.close()
    keyed = sfkv.open(folder / f"sfkv-{name}", slot=sfkv.Slot(memory))
    keyed.compact()
    state = keyed.value_state("v", int)
    floor.prepare(keys, arguments.batch if name.endswith(("many", "bundle")) else 0)
    assert state.get_many(batches[0]) == batches[0]

    def bundle():
        for batch in batches:
            with state.bundle(batch) as rows:
                for key in rows:
                    rows[key] += 1

    def get():
        read = state.get
        for key in single:
            read(key)

    def put():
        write = state.put
        for key in single:
            write(key, key)

    rounds = {
        "value_get_many": (lambda: [state.get_many(batch) for batch in batches], floor.get_many),
        "value_put_many": (lambda: [state.put_many(batch, batch) for batch in batches], lambda: floor.put_many(2)),
        "value_bundle": (bundle, lambda: (floor.get_many(), floor.put_many(2))),
        "value_get": (get, floor.get),
        "value_put": (put, lambda: floor.put(2)),
    }
    ours, theirs = rounds[name]
    return [Side("sfkv", ours, count), Side("floor", theirs, count)]


def measure(sides: list[Side], rounds: int) -> dict[str, dict[str, float]]:
    """Runs the sides in turns, after one untimed round each."""
    wall: dict[str, list[float]] = {side.name: [] for side in sides}
    cpu: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(rounds + 1):
        for side in sides:
            began, began_cpu = time.perf_counter(), time.process_time()
            side.round()
            if number > 0:
                wall[side.name].append(side.operations / (time.perf_counter() - began))
                cpu[side.name].append(side.operations / (time.process_time() - began_cpu))
    return {
        side.name: {
            "ops_per_s": statistics.median(wall[side.name]),
            "min": min(wall[side.name]),
            "max": max(wall[side.name]),
            "cpu_ops_per_s": statistics.median(cpu[side.name]),
        }
        for side in sides
    }


OPERATIONS = ["value_get_many", "value_put_many", "value_bundle", "value_get", "value_put"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(OPERATIONS), help="operations, separated by commas")
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=16384)
    parser.add_argument("--skew", type=float, default=0.0, help="exponent of the Zipf law; 0 takes each key once")
    parser.add_argument("--memory-mb", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    if not arguments.json:
        info = sfkv.build_info()
        print(f"{info['engine']} engine {info['rocksdb']}, {arguments.keys:,} keys, batches of {arguments.batch:,}")
        print(f"{'operation':16}{'system':8}{'ops/s':>12}{'least':>12}{'most':>12}{'ops/CPU s':>12}{'of floor':>10}")
    for name in arguments.only.split(","):
        if name not in OPERATIONS:
            parser.error(f"unknown operation {name}: one of {', '.join(OPERATIONS)}")
        with tempfile.TemporaryDirectory(prefix="sfkv-bench-") as folder:
            figures = measure(make_sides(name, arguments, Path(folder)), arguments.rounds)
        for system, row in figures.items():
            share = row["cpu_ops_per_s"] / figures["floor"]["cpu_ops_per_s"]
            if arguments.json:
                extra = {"share_of_floor": round(share, 3)} if system == "sfkv" else {}
                facts = {"op": name, "system": system, "backend": "rocksdb", "keys": arguments.keys, "batch": arguments.batch}
                print(json.dumps({**facts, **{key: round(value) for key, value in row.items()}, **extra}), flush=True)
            else:
                speeds = "".join(f"{row[key]:12,.0f}" for key in ("ops_per_s", "min", "max", "cpu_ops_per_s"))
                print(f"{name:16}{system:8}{speeds}{share:10.2f}", flush=True)


if __name__ == "__main__":
    main()
