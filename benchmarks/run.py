"""Measures the operations of the states beside the floor, Flink's engine options and other stores, in turns in one process.

    python benchmarks/run.py [--only value_get_many,list_add] [--batch 1024] [--draw zipf] [--peers rocksdict,dict] [--json]
    python benchmarks/run.py --backend memory

Systems: ``sfkv``; ``floor``, the same rows by the engine's fastest calls in one C++ loop (floor.h); ``flink-options``, sfkv
with the engine's options as Flink sets them and no row cache (flink_options.py); if it is asked for, ``no-row-cache``; and
peers (peers.py). In memory these are ``sfkv``; ``floor``,
the same keys and values in an open-addressing table in one C++ loop (memory_floor.h); and ``dict``.

Answers are checked once before they are timed, one round of each is a warm-up. Each round draws its keys anew, and asks for
up to 500,000 rows, with single calls or small batches for 100,000.

Columns: operations per second of wall time (median, least, most), operations per CPU second of the process, and the floor's
CPU time over that of the system. After a round that writes, what the engine does in the background is waited for: it counts
as CPU time of the system that caused it, and not as wall time. As it comes in lumps, CPU seconds of writes are summed up over
the rounds; of reads the median counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flink_options
import peers
import sfkv
import systems
from checks import check
from workload import OPERATIONS, Rows, Settings, Workload

OWN_SYSTEMS = ("sfkv", "floor", "flink-options")
COMPARED = ("no-row-cache",)  # sfkv without something
MEMORY_SYSTEMS = ("sfkv", "floor")
MEMORY_PEERS = ("dict",)
IDLE_S = 0.01


def make_system(name: str, folder: Path, workload: Workload) -> Any:
    if name == "floor":
        return systems.FloorSystem(folder, workload)
    if name in (*OWN_SYSTEMS, *COMPARED):
        return systems.SfkvSystem(name, folder, workload)
    return peers.make_peer(name, folder, workload)


def make_rounds(system: Any, workload: Workload) -> Callable[[int], Callable[[], None]]:
    """What makes the inputs of a round and returns what is to be timed."""
    return lambda number: make_round(system, workload, workload.asked if number == 0 else workload.draw(number))


def make_round(system: Any, workload: Workload, asked: Rows) -> Callable[[], None]:
    operation = workload.operation
    if isinstance(system, systems.FloorSystem):
        system.prepare(workload, asked)
        return lambda: system.round(operation)
    call = getattr(system, operation.name)
    if operation.whole:
        return call
    if operation.many:
        parts = [part.columns(operation) for part in workload.in_batches(asked)]
        columns = [
            list(map(system.convert_values if name == "values" else system.convert, column))
            for name, column in zip(operation.columns, zip(*parts, strict=True), strict=True)
        ]
    else:
        columns = [column.tolist() for column in asked.columns(operation)]

    def of_one() -> None:
        for keys in columns[0]:
            call(keys)

    def of_two() -> None:
        for keys, others in zip(*columns, strict=True):
            call(keys, others)

    def of_three() -> None:
        for keys, user_keys, values in zip(*columns, strict=True):
            call(keys, user_keys, values)

    calls = (of_one, of_two, of_three)[len(columns) - 1]

    def round() -> None:
        calls()
        system.end_round()

    return round


def wait_for_background_work() -> None:
    """Until the process has used no CPU to speak of three times in a row; half a minute at most."""
    idle = 0
    deadline = time.perf_counter() + 30
    while idle < 3 and time.perf_counter() < deadline:
        before = time.process_time()
        time.sleep(IDLE_S)
        idle = idle + 1 if time.process_time() - before < IDLE_S / 20 else 0


def measure(
    rounds_of: dict[str, Callable[[int], Callable[[], None]]], count: int, rounds: int, writes: bool
) -> dict[str, dict[str, float]]:
    """Runs the systems in turns, after one untimed round each."""
    wall: dict[str, list[float]] = {name: [] for name in rounds_of}
    cpu: dict[str, list[float]] = {name: [] for name in rounds_of}
    for number in range(rounds + 1):
        for name, make in rounds_of.items():
            round = make(number)
            gc.freeze()  # what it works on: no system is to pay for looking at it
            began, began_cpu = time.perf_counter(), time.process_time()
            round()
            took = time.perf_counter() - began
            if writes:
                wait_for_background_work()
            took_cpu = time.process_time() - began_cpu
            if number > 0:
                wall[name].append(count / took)
                cpu[name].append(count / max(took_cpu, 1e-9))
    return {
        name: {
            "ops_per_s": statistics.median(wall[name]),
            "min": min(wall[name]),
            "max": max(wall[name]),
            "cpu_ops_per_s": statistics.harmonic_mean(cpu[name]) if writes else statistics.median(cpu[name]),
        }
        for name in rounds_of
    }


def measure_operation(name: str, settings: Settings, system_names: list[str]) -> list[dict[str, Any]]:
    """The rows of one operation, one per system, as ``--json`` prints them."""
    workload = Workload(OPERATIONS[name], settings)
    sides: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="sfkv-bench-") as folder:
        try:
            for system_name in system_names:
                side = sides[system_name] = make_system(system_name, Path(folder) / system_name, workload)
                side.fill(workload)
                side.settle(workload)
                check(side, workload)
                if system_name == "flink-options":
                    report_options_not_taken(Path(folder) / system_name, settings)
            rounds = {system_name: make_rounds(side, workload) for system_name, side in sides.items()}
            gc.collect()
            gc.freeze()  # the dict's rows: no system is to pay for another's objects
            figures = measure(rounds, len(workload.asked), settings.rounds, workload.operation.writes)
        finally:
            gc.unfreeze()
            for side in sides.values():
                side.close()
    return [describe(workload, system_name, figures) for system_name in figures]


def describe(workload: Workload, system: str, figures: dict[str, dict[str, float]]) -> dict[str, Any]:
    settings = workload.settings
    facts = {
        "op": workload.operation.name,
        "system": system,
        "backend": settings.backend,
        "keys": workload.key_count,
        "rows_per_key": workload.rows_per_key,
        "batch": settings.batch if workload.operation.many else 1,
        "draw": settings.draw,
        "state": settings.state,
        "memory_mb": settings.memory_mb,
    }
    row = {**facts, **{name: round(value) for name, value in figures[system].items()}}
    if system == "sfkv" and "floor" in figures:
        row["share_of_floor"] = round(figures[system]["cpu_ops_per_s"] / figures["floor"]["cpu_ops_per_s"], 3)
    return row


def report_options_not_taken(folder: Path, settings: Settings) -> None:
    for option, value in flink_options.not_taken(folder).items():
        if option != "write_buffer_size" or settings.state == "files":
            print(f"flink-options: the engine keeps {option}={value}", file=sys.stderr)


def choose_systems(wanted: str | None, wanted_peers: str | None, backend: str = "rocksdb") -> list[str]:
    """What was asked for and is there; what is missing is named on the error stream."""
    in_memory = backend == "memory"
    own = list(MEMORY_SYSTEMS if in_memory else OWN_SYSTEMS) if wanted is None else wanted.split(",")
    if "floor" in own and (systems.MemoryFloor if in_memory else systems.Floor) is None:
        print("floor: is not built (make bench builds it)", file=sys.stderr)
        own.remove("floor")
    known = MEMORY_PEERS if in_memory else peers.PEERS
    asked = list(known) if wanted_peers is None else [name for name in wanted_peers.split(",") if name != "none"]
    missing = [name for name in asked if not peers.installed(name)]
    for name in missing:
        print(f"{name}: is not installed (pip install sfkv[bench])", file=sys.stderr)
    return own + [name for name in asked if name not in missing]


def parse(arguments: list[str] | None = None) -> tuple[argparse.Namespace, Settings]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="operations, separated by commas; the default is all: " + ", ".join(OPERATIONS))
    parser.add_argument(
        "--keys",
        type=int,
        default=500_000,
        help="rows of the state: keys of value states and of list_add*, entries of maps (10 a key), elements for list_get* "
        "(100 a key); so maps have a tenth as many keys, lists to read a hundredth, and a run takes minutes (default 500000)",
    )
    parser.add_argument("--batch", type=int, default=16_384, help="rows of a batch")
    parser.add_argument(
        "--draw",
        choices=("unique", "zipf", "missing"),
        help="keys each once in a random order, by a Zipf law, or absent ones that lie between those stored (reads only)",
    )
    parser.add_argument("--skew", type=float, help="exponent of the Zipf law (default 1.1); 0 takes each key once")
    parser.add_argument("--state", choices=("files", "memtable"), default="files", help="where the state of an engine lies")
    parser.add_argument("--memory-mb", type=int, default=128, help="memory of the slot, and of each peer's cache and buffers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--systems",
        help=f"of {','.join(OWN_SYSTEMS + COMPARED)}; the default is {','.join(OWN_SYSTEMS)}, or in memory "
        f"{','.join(MEMORY_SYSTEMS)}",
    )
    parser.add_argument("--peers", help=f"of {','.join(peers.PEERS)}, or none; the default is those that are installed")
    parser.add_argument("--backend", choices=("rocksdb", "memory"), default="rocksdb")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    chosen = parser.parse_args(arguments)
    draw = chosen.draw or ("zipf" if chosen.skew else "unique")
    if draw == "zipf" and chosen.skew == 0:
        draw = "unique"
    chosen.operations = (
        chosen.only.split(",")
        if chosen.only
        else [name for name, operation in OPERATIONS.items() if draw != "missing" or not operation.writes]
    )
    for name in chosen.operations:
        if name not in OPERATIONS:
            parser.error(f"unknown operation {name}: one of {', '.join(OPERATIONS)}")
        if draw == "missing" and OPERATIONS[name].writes:
            parser.error(f"{name} writes: --draw missing is for reads")
    state = "memory" if chosen.backend == "memory" else chosen.state
    settings = Settings(
        chosen.keys, chosen.batch, draw, chosen.skew or 1.1, state, chosen.memory_mb, chosen.rounds, chosen.backend
    )
    return chosen, settings


def print_head(settings: Settings) -> None:
    info = sfkv.build_info()
    where = f"in {settings.state}, {settings.memory_mb} MB" if settings.backend == "rocksdb" else "in memory"
    print(
        f"{info['engine']} engine {info['rocksdb']}, {settings.keys:,} rows {where}, batches of {settings.batch:,}, "
        f"keys drawn {settings.draw}"
    )
    print(f"{'operation':21}{'system':15}{'ops/s':>12}{'least':>12}{'most':>12}{'ops/CPU s':>12}{'of floor':>10}")


def print_rows(rows: list[dict[str, Any]]) -> None:
    floor = next((row["cpu_ops_per_s"] for row in rows if row["system"] == "floor"), None)
    for row in rows:
        speeds = "".join(f"{row[key]:12,.0f}" for key in ("ops_per_s", "min", "max", "cpu_ops_per_s"))
        share = f"{row['cpu_ops_per_s'] / floor:10.2f}" if floor else ""
        print(f"{row['op']:21}{row['system']:15}{speeds}{share}", flush=True)


def main() -> None:
    chosen, settings = parse()
    names = choose_systems(chosen.systems, chosen.peers, chosen.backend)
    if not chosen.json:
        print_head(settings)
    for operation in chosen.operations:
        rows = measure_operation(operation, settings, [name for name in names if peers.offers(name, OPERATIONS[operation])])
        if chosen.json:
            for row in rows:
                print(json.dumps(row), flush=True)
        else:
            print_rows(rows)


if __name__ == "__main__":
    main()
