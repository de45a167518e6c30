"""The kinds of children: what a backend gives out, how each is begun and how it is used on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import sfkv

KEYS = 500
ENTRIES = 2500  # of one map, which is read 1024 at a time


def opened(path: Path | str, slot: sfkv.Slot | None = None) -> sfkv.KeyedStateBackend:
    """A backend with something of everything in it, a part of which is in no file yet."""
    keyed = sfkv.open(path, key=int, slot=slot)
    keyed.value_state("v", int).put_many(range(KEYS), range(KEYS))
    keyed.list_state("l", int).update_many(range(KEYS), [[key, key + 1] for key in range(KEYS)])
    keyed.map_state("m", int, int).put_all(1, {number: number * 2 for number in range(ENTRIES)})
    tables(keyed).put_many({"end": range(KEYS), "user": range(KEYS)}, range(KEYS))
    sums(keyed).add_many(range(KEYS), range(KEYS))
    spreads(keyed).add_many([1, 1, 2], [5, 9, 3])
    keyed.cells.set("c", 7)
    keyed.payloads.replace({5: b"five", 6: b"six", 7: b"seven"})
    return keyed


def state_of(path: Path) -> str:
    """How a directory was left."""
    return (path / "SFKV").read_text().split("state ")[1].split()[0]


class Kind(NamedTuple):
    """A kind of child.

    Attributes:
        name: of the kind.
        start: makes one from a backend, and uses it by half.
        use: uses it on; checks what it answers.
        survives: whether its use goes on after close.
        keeps: whether it keeps its backend open.
        error: what its use raises after close.
        wrote: what stands under key 1 of the value state, if it was used.
    """

    name: str
    start: Callable[[sfkv.KeyedStateBackend], Any]
    use: Callable[[Any], None]
    survives: bool = False
    keeps: bool = True
    error: type[Exception] = sfkv.ClosedError
    wrote: int = 1


def equal(found: Any, expected: Any) -> None:
    assert found == expected, (found, expected)


def started(iterator: Any) -> Any:
    """An iterator after its first step."""
    next(iterator)
    return iterator


def value(keyed: sfkv.KeyedStateBackend) -> sfkv.ValueState:
    return keyed.value_state("v", int)


def lists(keyed: sfkv.KeyedStateBackend) -> sfkv.ListState:
    return keyed.list_state("l", int)


def maps(keyed: sfkv.KeyedStateBackend) -> sfkv.MapState:
    return keyed.map_state("m", int, int)


def tables(keyed: sfkv.KeyedStateBackend) -> sfkv.Table:
    return keyed.table("t", {"end": int, "user": int}, int, group_by="user")


def sums(keyed: sfkv.KeyedStateBackend) -> sfkv.ReducingState:
    return keyed.reducing_state("r", int, "sum")


def spreads(keyed: sfkv.KeyedStateBackend) -> sfkv.AggregatingState:
    return keyed.aggregating_state("a", int, Spread(), result=int)


class Spread:
    """An aggregate object."""

    def create(self) -> list[int]:
        return []

    def add(self, accumulator: list[int], value: int) -> list[int]:
        return [min([*accumulator, value]), max([*accumulator, value])]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [min(a + b), max(a + b)]

    def result(self, accumulator: list[int]) -> int:
        return accumulator[1] - accumulator[0]


def use_sums(state: sfkv.ReducingState) -> None:
    equal(state.get(2), 2)
    state.add(2, 5)
    state.add_many([2, KEYS], [1, 1])
    equal(state.get_many([2, KEYS, -1]).to_pylist(), [8, 1, None])


def use_spreads(state: sfkv.AggregatingState) -> None:
    equal(state.get(1), 4)
    state.add(1, 0)
    state.add_many([1, 2], [10, 4])
    equal(state.get_many([1, 2, -1]).to_pylist(), [10, 1, None])


def use_value(state: sfkv.ValueState) -> None:
    equal(state.get(2), 2)
    equal(state.get_many([KEYS - 1, KEYS]).to_pylist(), [KEYS - 1, None])
    state.put(1, 100)


def use_list(state: sfkv.ListState) -> None:
    equal(state.get(2), [2, 3])
    state.add(2, 4)
    equal(state.get_many([2]).to_pylist(), [[2, 3, 4]])


def use_map(state: sfkv.MapState) -> None:
    equal(state.get(1, 9), 18)
    state.put(1, -1, 0)
    equal(state.items_many([1])[0].as_py()[:2], [(-1, 0), (0, 0)])


def use_table(table: sfkv.Table) -> None:
    equal(table.get((2, 2)), 2)
    equal(sorted(table.scan_range(None, 2).to_arrow()["value"].to_pylist()), [0, 1])
    equal(table.scan_prefix((3, 3), columns="value").to_arrow()["value"].to_pylist(), [3])
    table.put((-1, 1), 9)
    equal(table.scan_range(None, 0).to_arrow()["value"].to_pylist(), [9])
    table.delete_range(None, 0)


def use_view(view: Any) -> None:
    equal((view[9], len(view), -1 in view), (18, ENTRIES, False))
    view[-1] = 5
    equal(next(iter(view.items())), (-1, 5))


def use_cells(cells: Any) -> None:
    equal(cells["c"], 7)
    cells.set("d", b"x", merge="union")
    equal(list(cells), ["c", "d"])


def use_payloads(payloads: Any) -> None:
    equal(payloads.get(5), b"five")
    payloads.set(8, b"eight")
    equal([group for group, _ in payloads], [5, 6, 7, 8])


def rows_left(expected: int) -> Callable[[Any], None]:
    def use(scan: Any) -> None:
        equal(scan.to_arrow().num_rows, expected)

    return use


def items_left(expected: list[Any]) -> Callable[[Any], None]:
    def use(iterator: Any) -> None:
        equal(list(iterator), expected)

    return use


def start_bundle(keyed: sfkv.KeyedStateBackend) -> Any:
    bundle = value(keyed).bundle([1, 2])
    rows = bundle.__enter__()
    equal(rows, {1: 1, 2: 2})
    rows[1] = 100
    return bundle


def use_new_bundle(bundle: Any) -> None:
    with bundle as rows:
        rows[1] += 99


def start_batch(keyed: sfkv.KeyedStateBackend) -> Any:
    batch = keyed.batch()
    batch.__enter__()
    value(keyed).put(1, 100)
    return batch


def use_new_batch(batch: Any) -> None:
    with batch:
        pass


def end_block(block: Any) -> None:
    block.__exit__(None, None, None)


def start_data(keyed: sfkv.KeyedStateBackend) -> Any:
    """Arrow data from every kind of read; NumPy's, without a copy, too."""
    values = value(keyed).get_many(range(KEYS))
    return {
        "values": values,
        "numbers": values.to_numpy(),
        "present": value(keyed).contains_many([1, KEYS]),
        "lists": lists(keyed).get_many([3, KEYS]),
        "maps": maps(keyed).items_many([1]),
        "sums": sums(keyed).get_many([3, KEYS]),
        "entries": maps(keyed).get_many([1, 1], [4, ENTRIES]),
        "batch": next(value(keyed).scan(batch_rows=10)),
        "table": lists(keyed).scan().to_arrow(),
    }


def use_data(data: Any) -> None:
    for part in data.values():
        if isinstance(part, (pa.Array, pa.RecordBatch, pa.Table)):
            part.validate(full=True)
    equal(data["values"].to_pylist(), list(range(KEYS)))
    equal(data["numbers"].sum(), KEYS * (KEYS - 1) // 2)
    equal(data["present"].to_pylist(), [True, False])
    equal(data["lists"].to_pylist(), [[3, 4], []])
    equal(data["sums"].to_pylist(), [3, None])
    equal(data["maps"].to_pylist(), [[(number, number * 2) for number in range(ENTRIES)]])
    equal(data["entries"].to_pylist(), [8, None])
    equal(data["batch"]["key"].to_pylist(), data["batch"]["value"].to_pylist())
    equal(sum(map(len, data["table"]["value"].to_pylist())), 2 * KEYS)


def start_snapshot(keyed: sfkv.KeyedStateBackend) -> Any:
    return keyed.snapshot(1, keyed.path + "-chk", metadata="m")


def use_snapshot(future: Any) -> None:
    snapshot = future.result(60)
    equal(
        [(found.id, found.metadata, found.files) for found in sfkv.list_snapshots(snapshot.path.parent)],
        [(1, "m", snapshot.files)],
    )


def finished_snapshot(keyed: sfkv.KeyedStateBackend) -> Any:
    future = start_snapshot(keyed)
    use_snapshot(future)
    return future


KINDS = [
    Kind("value state", value, use_value, wrote=100),
    Kind("list state", lists, use_list),
    Kind("map state", maps, use_map),
    Kind("reducing state", sums, use_sums),
    Kind("aggregating state", spreads, use_spreads),
    Kind("scan of sums", lambda keyed: started(sums(keyed).scan(batch_rows=100)), rows_left(KEYS - 100)),
    Kind("scan of an object's results", lambda keyed: started(spreads(keyed).scan(batch_rows=1)), rows_left(1)),
    Kind("scan of values", lambda keyed: started(value(keyed).scan(batch_rows=100)), rows_left(KEYS - 100)),
    Kind("scan of lists", lambda keyed: started(lists(keyed).scan(batch_rows=100)), rows_left(KEYS - 100)),
    Kind("scan of maps", lambda keyed: started(maps(keyed).scan(batch_rows=100)), rows_left(ENTRIES - 100)),
    Kind("table", tables, use_table),
    Kind("scan of a table", lambda keyed: started(tables(keyed).scan(batch_rows=100)), rows_left(KEYS - 100)),
    Kind(
        "scan of a range, reversed",
        lambda keyed: started(tables(keyed).scan_range(None, 200, columns="value", reverse=True, batch_rows=50)),
        rows_left(150),
    ),
    Kind("scan of a range not begun", lambda keyed: tables(keyed).scan_range((100, 5), 200), rows_left(100)),
    Kind("scan of an empty range", lambda keyed: tables(keyed).scan_range(2, 1), rows_left(0)),
    Kind("scan not begun", lambda keyed: value(keyed).scan(), rows_left(KEYS)),
    Kind("scan_keys", lambda keyed: started(value(keyed).scan_keys(batch_rows=100)), rows_left(KEYS - 100)),
    Kind("scan_keys of maps", lambda keyed: maps(keyed).scan_keys(), rows_left(1)),
    Kind(
        "stream",
        lambda keyed: pa.RecordBatchReader.from_stream(started(value(keyed).scan(batch_rows=100))),
        lambda stream: equal(stream.read_all().num_rows, KEYS - 100),
        error=pa.ArrowInvalid,  # Arrow's way of passing on what is a ValueError
    ),
    Kind("bundle", start_bundle, end_block, wrote=100),
    Kind("bundle not begun", lambda keyed: value(keyed).bundle([1]), use_new_bundle, wrote=100),
    Kind("batch", start_batch, end_block, wrote=100),
    Kind("batch not begun", lambda keyed: keyed.batch(), use_new_batch),
    Kind("map view", lambda keyed: maps(keyed)[1], use_view),
    Kind("map keys", lambda keyed: started(iter(maps(keyed)[1])), items_left(list(range(1, ENTRIES)))),
    Kind("map keys()", lambda keyed: started(iter(maps(keyed)[1].keys())), items_left(list(range(1, ENTRIES)))),
    Kind("map values()", lambda keyed: started(iter(maps(keyed)[1].values())), items_left(list(range(2, 2 * ENTRIES, 2)))),
    Kind(
        "map items()",
        lambda keyed: started(iter(maps(keyed)[1].items())),
        items_left([(number, number * 2) for number in range(1, ENTRIES)]),
    ),
    Kind("map items() not begun", lambda keyed: maps(keyed)[1].items(), lambda items: equal(len(list(items)), ENTRIES)),
    Kind("cells", lambda keyed: keyed.cells, use_cells),
    Kind("cell names", lambda keyed: iter(keyed.cells), items_left(["c"]), survives=True, keeps=False),
    Kind("payloads", lambda keyed: keyed.payloads, use_payloads),
    Kind("payloads half read", lambda keyed: started(iter(keyed.payloads)), items_left([(6, b"six"), (7, b"seven")])),
    Kind("data", start_data, use_data, survives=True, keeps=False),
    Kind("snapshot", start_snapshot, use_snapshot, survives=True, keeps=False),
    Kind("finished snapshot", finished_snapshot, use_snapshot, survives=True, keeps=False),
]
