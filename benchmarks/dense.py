"""When a scan is faster than MultiGet: batches of which every n-th row of the state is asked for. The table of decision 15.

    python benchmarks/dense.py [--rounds 3]

The floor's loops (floor.h) on int64 rows in table files, keys of a batch sorted: MultiGet in chunks of 64, and an iterator that
steps up to so often before it seeks. ``one level`` is compacted; in ``many files`` half of the rows were written again and lie
in files above. Nanoseconds of CPU per key that is asked for, the median of the rounds.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _floor import Floor

from workload import SEED, scramble

BATCH = 65_536
DENSITIES = (32, 16, 8, 4, 2, 1)  # rows of the state for one that is asked for
STEPS = (0, 4, 16, 64)
MEMORY_BYTES = 256 << 20


def prepare(floor: Floor, keys: np.ndarray) -> None:
    floor.prepare("value", keys, None, scramble(keys), BATCH)


def cpu_ns(call: Callable[[], None], count: int, rounds: int) -> int:
    call()
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        call()
        spent.append((time.process_time() - began) / count)
    return round(1e9 * statistics.median(spent))


def measure(place: str, density: int, rounds: int) -> list[int]:
    """Of MultiGet, and of stepping."""
    rng = np.random.default_rng(SEED)
    keys = 2 * np.arange(BATCH * density, dtype="i8")
    with tempfile.TemporaryDirectory(prefix="sfkv-dense-") as folder:
        floor = Floor(Path(folder), MEMORY_BYTES, "level0_file_num_compaction_trigger=100" if place == "many files" else "")
        prepare(floor, keys)
        floor.put_many()
        floor.settle()
        if place == "many files":
            prepare(floor, rng.permutation(keys)[: len(keys) // 2])
            for _ in range(4):
                floor.put_many()
                floor.flush()
        asked = rng.permutation(keys)[:BATCH]
        prepare(floor, asked)
        calls = [floor.get_many, *(functools.partial(floor.seek_many, steps) for steps in STEPS)]
        return [cpu_ns(call, len(asked), rounds) for call in calls]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print(f"{'':12}{'1 row in':>10}{'MultiGet':>10}" + "".join(f"{f'{steps} steps':>10}" for steps in STEPS))
    for place in ("one level", "many files"):
        for density in DENSITIES:
            figures = measure(place, density, rounds)
            print(f"{place:12}{density:10}" + "".join(f"{ns:10}" for ns in figures), flush=True)


if __name__ == "__main__":
    main()
