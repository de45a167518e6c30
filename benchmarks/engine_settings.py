"""What the engine's settings cost and gain, one changed at a time against sfkv's own: the table of decision 14.

    python benchmarks/engine_settings.py [--rounds 3] [--only block_size] [--json]

Value states of int64, in one level of files: ``in cache`` 500,000 rows in a slot of 128 MB, and ``beyond`` 5,000,000 in one of
32 MB. Nanoseconds of CPU per row, the median of the rounds: single gets, batches of 1,024 and 16,384, batches of keys that are
absent, and writes of 16,384 with the flushes and compactions that they cause.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfkv
from run import wait_for_background_work
from workload import SEED, scramble

SETTINGS = {
    "default": "",
    "block_size 4 KiB": "block_based_table_factory={block_size=4096}",
    "block_size 16 KiB": "block_based_table_factory={block_size=16384}",
    "block_size 32 KiB": "block_based_table_factory={block_size=32768}",
    "index and filter in the cache": "block_based_table_factory={cache_index_and_filter_blocks=true}",
    "... partitioned": "block_based_table_factory={cache_index_and_filter_blocks=true;partition_filters=true;"
    "index_type=kTwoLevelIndexSearch;metadata_block_size=16384}",
    "no bloom filter": "block_based_table_factory={filter_policy=nullptr}",
    "crc32c": "block_based_table_factory={checksum=kCRC32c}",
    "no compression": "compression_per_level=",
    "lz4 everywhere": "compression_per_level=kLZ4Compression",
}
PLACES = {"in cache": (500_000, "128MB"), "beyond": (5_000_000, "32MB")}
FILL_ROWS = 65_536
ASKED_ROWS = 262_144
SINGLE_ROWS = 20_000


def batches_of(keys: np.ndarray, size: int) -> list[pa.Array]:
    return [pa.array(keys[begin : begin + size]) for begin in range(0, len(keys), size)]


def measure(name: str, place: str, rounds: int) -> dict[str, int]:
    """Nanoseconds per row of each operation."""
    rows, memory = PLACES[place]
    backend = sfkv.EmbeddedRocksDBStateBackend()
    backend._engine_options = SETTINGS[name]
    rng = np.random.default_rng(SEED)
    asked = 2 * rng.integers(0, rows, ASKED_ROWS)
    with tempfile.TemporaryDirectory(prefix="sfkv-settings-") as folder:
        keyed = backend.open(Path(folder) / "s", key=int, slot=sfkv.Slot(memory))
        state = keyed.value_state("v", int)
        for first in range(0, rows, FILL_ROWS):
            keys = 2 * np.arange(first, min(rows, first + FILL_ROWS), dtype="i8")
            state.put_many(keys, scramble(keys))
        keyed.compact()
        singles = asked[:SINGLE_ROWS].tolist()
        calls: dict[str, tuple[int, Callable[[], object]]] = {
            "get": (len(singles), lambda: [state.get(key) for key in singles]),
            "get_many 1,024": (ASKED_ROWS, lambda: [state.get_many(batch) for batch in batches_of(asked, 1024)]),
            "get_many 16,384": (ASKED_ROWS, lambda: [state.get_many(batch) for batch in batches_of(asked, 16_384)]),
            "absent 16,384": (ASKED_ROWS, lambda: [state.get_many(batch) for batch in batches_of(asked + 1, 16_384)]),
            "put_many 16,384": (
                ASKED_ROWS,
                lambda: [state.put_many(batch, pa.array(scramble(batch.to_numpy()))) for batch in batches_of(asked, 16_384)],
            ),
        }
        found = {}
        for call, (count, run) in calls.items():
            run()
            spent = []
            for _ in range(rounds):
                wait_for_background_work()
                began = time.process_time()
                run()
                if call.startswith("put"):
                    wait_for_background_work()
                spent.append((time.process_time() - began) / count)
            found[call] = round(1e9 * statistics.median(spent))
        keyed.close(discard=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="settings whose name has this text, beside the default")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    chosen = parser.parse_args()
    for place in PLACES:
        for name in SETTINGS:
            if name != "default" and chosen.only not in name:
                continue
            found = measure(name, place, chosen.rounds)
            if chosen.json:
                print(json.dumps({"place": place, "setting": name, **found}), flush=True)
            else:
                print(f"{place:10}{name:32}" + "".join(f"{call}: {ns:6} ns   " for call, ns in found.items()), flush=True)


if __name__ == "__main__":
    main()
