"""What firing costs in tables of different sizes: the same count of rows from 100,000 and from 1,000,000, and a watermark that
fires nothing.

    python benchmarks/fire.py [--rows 10000] [--rounds 7] [--json]

A table in time order, (moment, user) grouped by user, in one level of files, freshly opened. A round fires the oldest rows that
are left: by one scan up to a watermark (``scan``), and then deletes them (``delete``): by a range up to the watermark, or by
their keys, whose tombstones the next scan walks over once. ``idle`` is a watermark that is already past when nothing is due.
``ratio`` compares the time per row of the largest table with that of the smallest: firing should cost what fires, so that it
should be near 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfkv
from workload import FILL_ROWS, ROWS_PER_MOMENT, SEED, scramble

SIZES = (100_000, 1_000_000)
IDLE_CALLS = 1000


def fill(table: sfkv.Table, rows: int) -> None:
    users = 2 * np.random.default_rng(SEED).permutation(rows).astype("i8")
    for begin in range(0, rows, FILL_ROWS):
        numbers = np.arange(begin, min(begin + FILL_ROWS, rows), dtype="i8")
        table.put_many({"moment": numbers // ROWS_PER_MOMENT, "user": users[numbers]}, scramble(numbers))


def delete(table: sfkv.Table, way: str, watermark: int, batches: list[pa.RecordBatch]) -> None:
    if way == "range":
        table.delete_range(None, watermark)
        return
    for batch in batches:
        table.delete_many({"moment": batch["moment"], "user": batch["user"]})


def measure(folder: Path, way: str, rows: int, fired_rows: int, rounds: int) -> dict[str, Any]:
    """Medians, in nanoseconds per fired row and microseconds per idle watermark."""
    scans, deletes = [], []
    with sfkv.open(folder, key=int) as keyed:
        fill(open_table(keyed), rows)
        keyed.compact()
    with sfkv.open(folder) as keyed:
        table = open_table(keyed)
        for number in range(min(rounds, rows // fired_rows - 1)):
            watermark = (number + 1) * fired_rows // ROWS_PER_MOMENT
            began = time.perf_counter()
            batches = list(table.scan_range(None, watermark))
            scanned = time.perf_counter()
            delete(table, way, watermark, batches)
            deleted = time.perf_counter()
            assert sum(batch.num_rows for batch in batches) == fired_rows
            scans.append((scanned - began) / fired_rows * 1e9)
            deletes.append((deleted - scanned) / fired_rows * 1e9)
        assert not list(table.scan_range(None, watermark))
        began = time.perf_counter()
        for _ in range(IDLE_CALLS):
            for _ in table.scan_range(None, watermark):
                raise AssertionError("something was due")
        idle_us = (time.perf_counter() - began) / IDLE_CALLS * 1e6
    return {
        "delete": way,
        "rows": rows,
        "fired": fired_rows,
        "scan_ns": round(statistics.median(scans)),
        "delete_ns": round(statistics.median(deletes)),
        "idle_us": round(idle_us, 1),
    }


def open_table(keyed: sfkv.KeyedStateBackend) -> sfkv.Table:
    return keyed.table("due", {"moment": int, "user": int}, int, group_by="user")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000, help="rows that a watermark fires")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    chosen = parser.parse_args()
    for way in ("range", "keys"):
        found = []
        for rows in SIZES:
            with tempfile.TemporaryDirectory(prefix="sfkv-fire-") as folder:
                found.append(measure(Path(folder) / "s", way, rows, chosen.rows, chosen.rounds))
            report(found[-1], chosen.json)
        ratios = {name: round(found[-1][f"{name}_ns"] / found[0][f"{name}_ns"], 2) for name in ("scan", "delete")}
        print(json.dumps({"ratio": ratios}) if chosen.json else f"ratio: scan {ratios['scan']}, delete {ratios['delete']}")


def report(row: dict[str, Any], as_json: bool) -> None:
    text = "{rows:>9,} rows: scan {scan_ns} ns, delete by {delete} {delete_ns} ns a fired row; idle {idle_us} us"
    print(json.dumps(row) if as_json else text.format(**row), flush=True)


if __name__ == "__main__":
    main()
