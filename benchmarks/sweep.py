"""Shows reads as the state grows past the slot's cache, for sfkv and for Flink's engine options: a cliff would stand out.

    python benchmarks/sweep.py [--memory-mb 10] [--points 9] [--least 0.1] [--most 50] [--systems sfkv,flink-options] [--json]

The state grows from 0.1 to 50 times the cache, keys counted by the bytes that a row of sfkv takes in its files; at each point
it is compacted and opened anew. Each system's size is that of its own files. Columns: bytes of state over bytes of cache, and
operations per CPU second of the process (median of the rounds), for single reads and for batches.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from checks import check
from run import make_rounds, measure
from systems import SfkvSystem
from workload import OPERATIONS, Settings, Workload

SINGLE_ROWS = 20_000
MANY_ROWS = 65_536
ROWS_TO_MEASURE = 50_000


def reads(settings: Settings) -> list[Workload]:
    """Single reads and batches, of so few rows that a system past its cliff comes to an end."""
    counts = {"value_get": SINGLE_ROWS, "value_get_many": MANY_ROWS}
    return [Workload(OPERATIONS[name], settings, most_asked=count) for name, count in counts.items()]


def file_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.sst"))


def grow(system: SfkvSystem, settings: Settings, from_key: int) -> None:
    workload = Workload(OPERATIONS["value_get"], settings)
    system.fill(workload, from_key)
    system.settle(workload)


def choose_keys(chosen: argparse.Namespace, folder: Path) -> list[int]:
    """How many keys each point has."""
    settings = Settings(keys=ROWS_TO_MEASURE, memory_mb=chosen.memory_mb)
    system = SfkvSystem("sfkv", folder, Workload(OPERATIONS["value_get"], settings))
    grow(system, settings, 0)
    row_bytes = file_bytes(folder) / ROWS_TO_MEASURE
    cache_bytes = system.keyed.slot.cache_bytes
    system.close()
    return [int(ratio * cache_bytes / row_bytes) for ratio in np.geomspace(chosen.least, chosen.most, chosen.points)]


def sweep(chosen: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    points = choose_keys(chosen, folder / "measured")
    first = Settings(keys=points[0], batch=chosen.batch, memory_mb=chosen.memory_mb)
    workload = Workload(OPERATIONS["value_get"], first)
    made = {name: SfkvSystem(name, folder / name, workload) for name in chosen.systems.split(",")}
    stored = 0
    for keys in points:
        settings = Settings(keys=keys, batch=chosen.batch, memory_mb=chosen.memory_mb, rounds=chosen.rounds)
        for system in made.values():
            grow(system, settings, stored)
        stored = keys
        figures: dict[str, dict[str, int]] = {name: {} for name in made}
        for workload in reads(settings):
            for system in made.values():
                check(system, workload)
            rounds = {name: make_rounds(system, workload) for name, system in made.items()}
            measured = measure(rounds, len(workload.asked), chosen.rounds, writes=False)
            for name, row in measured.items():
                figures[name][workload.operation.name] = round(row["cpu_ops_per_s"])
        for name, system in made.items():
            ratio = file_bytes(folder / name) / system.keyed.slot.cache_bytes
            yield {"system": name, "keys": keys, "state_of_cache": round(ratio, 3), **figures[name]}
    for system in made.values():
        system.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory-mb", type=int, default=10, help="of the slot; five sixths are the cache")
    parser.add_argument("--points", type=int, default=9)
    parser.add_argument("--least", type=float, default=0.1, help="state at the first point, in caches")
    parser.add_argument("--most", type=float, default=50.0, help="and at the last")
    parser.add_argument("--batch", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", default="sfkv,flink-options")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    chosen = parser.parse_args()
    if not chosen.json:
        print(f"{'system':15}{'keys':>12}{'state/cache':>13}{'get/CPU s':>12}{'get_many/CPU s':>16}")
    with tempfile.TemporaryDirectory(prefix="sfkv-sweep-") as folder:
        for row in sweep(chosen, Path(folder)):
            if chosen.json:
                print(json.dumps(row), flush=True)
            else:
                ratio, get, get_many = row["state_of_cache"], row["value_get"], row["value_get_many"]
                print(f"{row['system']:15}{row['keys']:12,}{ratio:13.2f}{get:12,}{get_many:16,}", flush=True)


if __name__ == "__main__":
    main()
