"""What a call costs more in Flink's manner: states of sfkv.flink beside sfkv's own, the same calls on the same rows.

    python benchmarks/flink_manner.py [--backend rocksdb|memory] [--keys 1000] [--rounds 200] [--json]

Columns: nanoseconds of CPU for a call of sfkv's own state; for ``set_current_key`` and the same call by sfkv.flink; the
difference; and the first over the second. The state is small and in memory, where calls are cheapest, so that the
difference counts most. The least of the rounds, in which both are taken in turns.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sfkv
from sfkv.flink import ListStateDescriptor, MapStateDescriptor, RuntimeContext, Types, ValueStateDescriptor

BACKENDS: dict[str, Callable[[], Any]] = {
    "rocksdb": sfkv.EmbeddedRocksDBStateBackend,
    "memory": sfkv.HashMapStateBackend,
}
Calls = dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]]


def calls_of(keyed: sfkv.KeyedStateBackend, context: RuntimeContext) -> Calls:
    """By name: the plain call, the one in Flink's manner, and the arguments behind the key."""
    value, entries, lists = keyed.value_state("v", int), keyed.map_state("m", int, int), keyed.list_state("l", int)
    by_key = context.get_state(ValueStateDescriptor("v", Types.LONG()))
    entries_by_key = context.get_map_state(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
    lists_by_key = context.get_list_state(ListStateDescriptor("l", Types.LONG()))
    return {
        "value update": (value.put, by_key.update, (7,)),
        "value value": (value.get, by_key.value, ()),
        "map put": (entries.put, entries_by_key.put, (1, 7)),
        "map get": (entries.get, entries_by_key.get, (1,)),
        "list update": (lists.update, lists_by_key.update, ([7, 8, 9],)),
        "list get": (lists.get, lists_by_key.get, ()),
    }


def check(calls: Any, keys: list[int], context: RuntimeContext) -> None:
    """Both ways answer alike, before they are timed."""
    plain, manner, arguments = calls
    for key in keys:
        context.set_current_key(key)
        assert manner(*arguments) == plain(key, *arguments)


def loops_of(calls: Any, keys: list[int], context: RuntimeContext) -> list[Callable[[], None]]:
    """The two loops that are compared."""
    plain, manner, arguments = calls
    set_key = context.set_current_key

    def by_plain() -> None:
        for key in keys:
            plain(key, *arguments)

    def by_manner() -> None:
        for key in keys:
            set_key(key)
            manner(*arguments)

    return [by_plain, by_manner]


def measure(name: str, loops: list[Callable[[], None]], count: int, rounds: int) -> dict[str, Any]:
    timers = [timeit.Timer(loop, timer=time.process_time) for loop in loops]
    plain, manner = (
        min(column) for column in zip(*([timer.timeit(1) for timer in timers] for _ in range(rounds)), strict=True)
    )
    nanoseconds = 1e9 / count
    return {
        "call": name,
        "plain_ns": round(plain * nanoseconds),
        "flink_ns": round(manner * nanoseconds),
        "adds_ns": round((manner - plain) * nanoseconds),
        "share": round(plain / manner, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--backend", choices=BACKENDS, default="rocksdb")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="sfkv-flink-") as folder,
        BACKENDS[chosen.backend]().open(Path(folder) / "s", key=int) as keyed,
    ):
        context = RuntimeContext(keyed)
        keys = list(range(chosen.keys))
        if not chosen.json:
            print(f"{'call':14}{'plain ns':>10}{'flink ns':>10}{'adds ns':>10}{'share':>8}")
        for name, calls in calls_of(keyed, context).items():
            check(calls, keys, context)
            row = measure(name, loops_of(calls, keys, context), chosen.keys, chosen.rounds)
            text = "{call:14}{plain_ns:>10,}{flink_ns:>10,}{adds_ns:>10,}{share:>8.2f}"
            print(json.dumps(row) if chosen.json else text.format(**row), flush=True)


if __name__ == "__main__":
    main()
