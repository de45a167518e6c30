"""What the processes of test_processes.py run: importable, so that started processes find it too."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import sfkv
from tests import backends
from tests.lifetime.children import lists, maps, opened, spreads, started, sums, tables, value

# What a forked process inherits.
inherited: Inherited


class Inherited:
    """Two backends with everything begun: a batch is open in the second, because most does not work beside one."""

    def __init__(self, path: str) -> None:
        self.slot = sfkv.Slot("16MB")
        self.keyed = opened(f"{path}/a", self.slot)
        self.other = opened(f"{path}/b", self.slot)
        self.value, self.lists, self.maps = value(self.keyed), lists(self.keyed), maps(self.keyed)
        self.table = tables(self.keyed)
        self.sums, self.spreads = sums(self.keyed), spreads(self.keyed)
        self.view, self.cells, self.payloads = self.maps[1], self.keyed.cells, self.keyed.payloads
        self.scan = started(self.value.scan(batch_rows=50))
        self.range = started(self.table.scan_range(None, 400, batch_rows=50))
        self.scan_keys = started(self.maps.scan_keys(batch_rows=1))
        self.map_keys = iter(self.view)
        self.map_items = iter(self.view.items())
        self.half_payloads = started(iter(self.payloads))
        self.future = self.keyed.snapshot(1, f"{path}/chk")
        self.bundle = self.value.bundle([1, 2])
        self.rows = self.bundle.__enter__()
        self.rows[1] = 100
        self.batch = self.other.batch(offset=9)
        self.batch.__enter__()
        value(self.other).put(1, 100)

    def calls(self) -> dict[str, Callable[[], Any]]:
        """Every call that goes to the store, by class and name."""
        keyed, v, e, m, view = self.keyed, self.value, self.lists, self.maps, self.view
        cells, payloads, t = self.cells, self.payloads, self.table
        calls: dict[str, Callable[[], Any]] = {
            "KeyedStateBackend.value_state": lambda: keyed.value_state("new", int),
            "KeyedStateBackend.list_state": lambda: keyed.list_state("new", int),
            "KeyedStateBackend.map_state": lambda: keyed.map_state("new", int, int),
            "KeyedStateBackend.reducing_state": lambda: keyed.reducing_state("new", int, "sum"),
            "KeyedStateBackend.aggregating_state": lambda: keyed.aggregating_state("new", int, "mean"),
            "KeyedStateBackend.table": lambda: keyed.table("new", int, int),
            "KeyedStateBackend.get_many": lambda: keyed.get_many([(v, [1])]),
            "KeyedStateBackend.drop_state": lambda: keyed.drop_state("v"),
            "KeyedStateBackend.batch": lambda: keyed.batch().__enter__(),
            "KeyedStateBackend.offset": lambda: keyed.offset,
            "KeyedStateBackend.snapshot": lambda: keyed.snapshot(2, keyed.path + "-chk"),
            "KeyedStateBackend.compact": keyed.compact,
            "ValueState.get": lambda: v.get(1),
            "ValueState.put": lambda: v.put(1, 2),
            "ValueState.clear": lambda: v.clear(1),
            "ValueState.__contains__": lambda: 1 in v,
            "ValueState.__getitem__": lambda: v[1],
            "ValueState.get_many": lambda: v.get_many([1]),
            "ValueState.put_many": lambda: v.put_many([1], [2]),
            "ValueState.clear_many": lambda: v.clear_many([1]),
            "ValueState.contains_many": lambda: v.contains_many([1]),
            "ValueState.bundle": lambda: v.bundle([1]).__enter__(),
            "ValueState.scan": v.scan,
            "ValueState.scan_keys": v.scan_keys,
            **calls_on_folds("ReducingState", self.sums),
            **calls_on_folds("AggregatingState", self.spreads),
            "ListState.get": lambda: e.get(1),
            "ListState.add": lambda: e.add(1, 2),
            "ListState.add_all": lambda: e.add_all(1, [2]),
            "ListState.update": lambda: e.update(1, [2]),
            "ListState.clear": lambda: e.clear(1),
            "ListState.__contains__": lambda: 1 in e,
            "ListState.__getitem__": lambda: e[1],
            "ListState.get_many": lambda: e.get_many([1]),
            "ListState.add_many": lambda: e.add_many([1], [2]),
            "ListState.update_many": lambda: e.update_many([1], [[2]]),
            "ListState.clear_many": lambda: e.clear_many([1]),
            "ListState.contains_many": lambda: e.contains_many([1]),
            "ListState.scan": e.scan,
            "ListState.scan_keys": e.scan_keys,
            "MapState.get": lambda: m.get(1, 2),
            "MapState.put": lambda: m.put(1, 2, 3),
            "MapState.delete": lambda: m.delete(1, 2),
            "MapState.put_all": lambda: m.put_all(1, {2: 3}),
            "MapState.is_empty": lambda: m.is_empty(1),
            "MapState.clear": lambda: m.clear(1),
            "MapState.__contains__": lambda: 1 in m,
            "MapState.get_many": lambda: m.get_many([1], [2]),
            "MapState.put_many": lambda: m.put_many([1], [2], [3]),
            "MapState.delete_many": lambda: m.delete_many([1], [2]),
            "MapState.items_many": lambda: m.items_many([1]),
            "MapState.contains_many": lambda: m.contains_many([1]),
            "MapState.clear_many": lambda: m.clear_many([1]),
            "MapState.scan": m.scan,
            "MapState.scan_keys": m.scan_keys,
            "Table.get": lambda: t.get((1, 1)),
            "Table.put": lambda: t.put((1, 1), 2),
            "Table.delete": lambda: t.delete((1, 1)),
            "Table.__contains__": lambda: (1, 1) in t,
            "Table.__getitem__": lambda: t[1, 1],
            "Table.get_many": lambda: t.get_many([(1, 1)]),
            "Table.put_many": lambda: t.put_many([(1, 1)], [2]),
            "Table.delete_many": lambda: t.delete_many([(1, 1)]),
            "Table.contains_many": lambda: t.contains_many([(1, 1)]),
            "Table.scan": t.scan,
            "Table.scan_keys": t.scan_keys,
            "Table.scan_prefix": lambda: t.scan_prefix(1),
            "Table.scan_range": lambda: t.scan_range(None, 1),
            "Table.delete_range": lambda: t.delete_range(None, 1),
            "half read range": lambda: next(self.range),
            "MapView.__getitem__": lambda: view[1],
            "MapView.__setitem__": lambda: view.__setitem__(1, 2),
            "MapView.__delitem__": lambda: view.__delitem__(1),
            "MapView.__contains__": lambda: 1 in view,
            "MapView.__iter__": lambda: next(iter(view)),
            "MapView.__len__": lambda: len(view),
            "MapView.__bool__": lambda: bool(view),
            "MapView.keys": lambda: list(view.keys()),
            "MapView.items": lambda: list(view.items()),
            "MapView.values": lambda: list(view.values()),
            "MapView.clear": view.clear,
            "MapView.update": lambda: view.update({1: 2}),
            "Cells.set": lambda: cells.set("c", 8),
            "Cells.get": lambda: cells.get("c"),
            "Cells.delete": lambda: cells.delete("c"),
            "Cells.rule": lambda: cells.rule("c"),
            "Cells.__contains__": lambda: "c" in cells,
            "Cells.__getitem__": lambda: cells["c"],
            "Cells.__iter__": lambda: list(cells),
            "Payloads.get": lambda: payloads.get(5),
            "Payloads.set": lambda: payloads.set(5, b""),
            "Payloads.replace": lambda: payloads.replace({5: b""}),
            "Payloads.__iter__": lambda: list(payloads),
            "Scan.__next__": lambda: next(self.scan),
            "Scan.to_arrow": self.scan_keys.to_arrow,
            "Bundle.__exit__": lambda: self.bundle.__exit__(None, None, None),
            "Batch.__exit__": lambda: self.batch.__exit__(None, None, None),
            "half read keys": lambda: list(self.map_keys),
            "half read items": lambda: list(self.map_items),
            "put in a batch": lambda: value(self.other).put(1, 2),
        }
        if self.half_payloads.gi_frame is not None:  # a generator raises once, and then is at its end
            calls["half read payloads"] = lambda: list(self.half_payloads)
        return calls

    def use(self) -> None:
        """Uses everything, in the process that made it."""
        assert sum(batch.num_rows for batch in self.scan) == 450
        assert sum(batch.num_rows for batch in self.range) == 350
        assert len(list(self.map_keys)) == len(list(self.map_items)) == 2500
        assert len(list(self.half_payloads)) == 2
        self.bundle.__exit__(None, None, None)
        self.batch.__exit__(None, None, None)
        assert (self.value.get(1), value(self.other).get(1), self.other.offset) == (100, 100, 9)
        assert self.future.result(60).id == 1
        self.keyed.close()
        self.other.close()


def calls_on_folds(cls: str, state: Any) -> dict[str, Callable[[], Any]]:
    """Every call on a reducing or aggregating state."""
    return {
        f"{cls}.get": lambda: state.get(1),
        f"{cls}.add": lambda: state.add(1, 2),
        f"{cls}.clear": lambda: state.clear(1),
        f"{cls}.__contains__": lambda: 1 in state,
        f"{cls}.__getitem__": lambda: state[1],
        f"{cls}.get_many": lambda: state.get_many([1]),
        f"{cls}.add_many": lambda: state.add_many([1], [2]),
        f"{cls}.clear_many": lambda: state.clear_many([1]),
        f"{cls}.contains_many": lambda: state.contains_many([1]),
        f"{cls}.scan": state.scan,
        f"{cls}.scan_keys": state.scan_keys,
    }


def inherit(path: str) -> Inherited:
    global inherited
    inherited = Inherited(path)
    return inherited


def check_refused(calls: dict[str, Callable[[], Any]]) -> None:
    """Every call on what was inherited is a ClosedError, and none waits for what only the parent could do."""
    began = time.monotonic()
    for name, call in calls.items():
        try:
            answer = call()
        except sfkv.ClosedError as error:
            assert error.code == "forked" or name == "KeyedStateBackend.snapshot", (name, error.code)
        else:
            raise AssertionError(f"{name} gave {answer!r}")
    assert time.monotonic() - began < 10  # all of them take milliseconds


def check_refused_in_threads(begun: Inherited) -> None:
    """In this thread and in another one."""
    failures = []

    def check() -> None:
        try:
            check_refused(begun.calls())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=check)
    thread.start()
    thread.join()
    check()
    assert failures == [], failures


def refused() -> None:
    """All that was inherited is refused; then it is closed and dropped, which does nothing to the parent's."""
    global inherited
    begun = inherited
    check_refused_in_threads(begun)
    assert begun.keyed.closed
    assert begun.keyed.states["v"] == "value<int64>"
    assert "closed" in repr(begun.keyed)
    begun.keyed.close()
    begun.keyed.close(discard=True)
    begun.scan.close()
    begun.batch.__exit__(KeyError, KeyError("mine"), None)
    begun.bundle.__exit__(KeyError, KeyError("mine"), None)
    del inherited, begun
    gc.collect()


def own_store(path: str) -> int:
    """Uses a store of this process's own."""
    with sfkv.open(path, key=int) as keyed:
        state = keyed.value_state("v", int)
        state.put_many(range(1000), range(1000))
        keyed._store.flush()
        assert state.scan().to_arrow().num_rows == 1000
        assert keyed.snapshot(1, path + "-chk").result(60).id == 1
    with sfkv.open(path) as keyed:
        assert keyed.value_state("v", int).get(7) == 7
    return os.getpid()


def refused_and_own_store(path: str) -> int:
    refused()
    return own_store(path)


def own_store_beside(backend: str, path: str, parents: str, pid: int) -> int:
    """Uses a store of its own; the parent's is busy, and the error says where. For a process that may know nothing yet."""
    backends.use(backend)
    own_store(path)
    try:
        sfkv.open(parents)
    except sfkv.BusyError as error:
        assert str(pid) in str(error), error
        assert (error.code, error.retryable) == ("locked", True)
    else:
        raise AssertionError("it was opened")
    return os.getpid()
