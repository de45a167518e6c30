"""Threads: a backend each in one slot; a second one in a backend; and those that close or drop what others work on."""

import contextlib
import gc
import queue
import random
import sys
import threading
from pathlib import Path

import pytest

import sfkv
from tests.backends import new_backend
from tests.lifetime.children import ENTRIES, maps, opened, spreads, started, sums, value

pytestmark = pytest.mark.backends

THREADS = 8


@contextlib.contextmanager
def running(target, arguments):
    """Runs threads beside the block. Afterwards they have ended, and none of them failed."""
    failures = []

    def run(argument):
        try:
            target(argument)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


class Worker:
    """Works on a backend, round by round, and checks every answer against what it has written."""

    def __init__(self, path, slot, number):
        self.keyed = sfkv.open(path, key=int, slot=slot)
        self.count = self.keyed.value_state("count", int)
        self.seen = self.keyed.list_state("seen", int)
        self.last = self.keyed.map_state("last", int, int)
        self.keys = list(range(number * 1000, number * 1000 + 300))
        self.rounds = 0

    def work(self):
        self.rounds += 1
        n, keys = self.rounds, self.keys
        with self.keyed.batch(offset=n):
            self.seen.add_many(keys[:50], [n] * 50)
            self.last.put_many([keys[0]] * 30, range(n, n + 30), [n] * 30)
            self.count.put(keys[0], -1)
            assert self.count.get(keys[0]) == -1
        assert self.keyed.offset == n
        with self.count.bundle(keys) as rows:
            assert rows[keys[0]] == -1
            for key in keys:
                rows[key] = key + n
        assert self.count.get_many(keys).to_pylist() == [key + n for key in keys]
        assert self.count.get(keys[9]) == keys[9] + n
        assert self.count.contains_many([keys[1], -1]).to_pylist() == [True, False]
        assert self.seen.get(keys[3]) == list(range(1, n + 1))
        assert self.last[keys[0]].get(n) == n
        assert len(list(self.last[keys[0]].items())) == n + 29
        found = self.count.scan(batch_rows=70).to_arrow()
        assert sorted(found["key"].to_pylist()) == keys
        assert [b - a for a, b in zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)] == [n] * len(keys)
        assert sorted(key for batch in self.seen.scan_keys() for key in batch["key"].to_pylist()) == keys[:50]
        if n % 5 == 0:
            scan = self.count.scan(batch_rows=10)
            assert next(scan).num_rows == 10  # and is dropped
            self.keyed._store.flush()


@pytest.mark.parametrize("seconds", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_a_backend_for_each_thread_in_one_slot(in_memory, seconds):
    """Meanwhile others are opened and closed in the same slot, hold data of their own, and are restored from snapshots."""
    slot = sfkv.Slot("8MB")
    stop = threading.Event()
    rounds = [0] * THREADS

    def loop(number):
        worker = Worker(in_memory / str(number), slot, number)
        try:
            while not stop.is_set() or worker.rounds < 2:
                worker.work()
                if worker.rounds % 7 == 0:
                    snapshot = worker.keyed.snapshot(worker.rounds, in_memory / f"{number}-chk").result(60)
                    assert snapshot.metadata is None
        finally:
            worker.keyed.close()
            rounds[number] = worker.rounds

    end = threading.Timer(seconds, stop.set)
    end.start()
    turn = 0
    with running(loop, range(THREADS)):
        while not stop.is_set():
            path = in_memory / f"other-{turn}"
            with opened(path, slot) as other:
                taken = other.snapshot(turn, in_memory / "other-chk")
                value(other).put(1, -1)
                other.close(discard=turn % 2 == 0)
            with new_backend().restore(in_memory / f"again-{turn}", taken.result(), slot=slot) as again:
                assert value(again).get_many([1, 2]).to_pylist() == [1, 2]
                assert maps(again)[1][ENTRIES - 1] == 2 * (ENTRIES - 1)
            turn += 1
    end.join()
    assert turn >= 1
    assert min(rounds) >= 2
    assert [snapshot.id for snapshot in sfkv.list_snapshots(in_memory / "other-chk")] == list(range(turn))
    del other, again
    gc.collect()
    assert slot._native.holders == 1
    assert slot._native.pinned_bytes == 0


@contextlib.contextmanager
def inside_a_call(keyed, call, *, waited_for=False):
    """While the block runs, another thread is inside a long call of the backend, which also cannot end without the GIL.

    The block must be short, and wait for nothing, unless it waits for the call: no thread is made to give up the GIL meanwhile.
    """
    entering, ended = threading.Event(), threading.Event()

    def run():
        entering.set()
        call(keyed)
        ended.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)
    thread = threading.Thread(target=run)
    try:
        thread.start()
        entering.wait()  # until the thread lets go of the GIL, which it does inside the call
        yield
        assert waited_for or not ended.is_set(), "the call ended before the block did: it is too short"
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert ended.is_set()


def read_everything(keyed):
    keyed._store.read_range(b"", b"\xff")


def long_call(keyed):
    """In memory compact() only gives memory back, which may be over at once."""
    if keyed.slot is None:
        read_everything(keyed)
    else:
        keyed.compact()


def filled(path):
    """A backend with so much in it that such calls take a while."""
    keyed = opened(path)
    pads = random.Random(1).randbytes(128 << 20)
    keyed.value_state("pad", bytes).put_many(range(128), [pads[n << 20 : (n + 1) << 20] for n in range(128)])
    return keyed


def test_a_second_thread_is_refused_at_once_by_every_call(in_memory):
    with filled(in_memory / "s") as keyed:
        state, lists, map_state = value(keyed), keyed.list_state("l", int), maps(keyed)
        sum_state, spread_state = sums(keyed), spreads(keyed)
        cells, payloads, scan, bundle = keyed.cells, keyed.payloads, state.scan(), state.bundle([1])
        rows = bundle.__enter__()
        rows[1] = 5
        new, folder = keyed.batch(), Path(f"{keyed.path}-chk")
        calls = [
            lambda: state.get(1), lambda: state.put(1, 2), lambda: state.clear(1), lambda: 1 in state,
            lambda: state.get_many([1]), lambda: state.put_many([1], [2]), lambda: state.clear_many([1]),
            lambda: state.scan(), lambda: state.scan_keys(), lambda: next(scan), lambda: bundle.__exit__(None, None, None),
            lambda: state.bundle([1]).__enter__(), lambda: lists.get(1), lambda: lists.add(1, 2), lambda: lists.get_many([1]),
            lambda: sum_state.get(1), lambda: sum_state.add(1, 2), lambda: sum_state.add_many([1], [2]),
            lambda: spread_state.get_many([1]), lambda: spread_state.add(1, 2), lambda: spread_state.add_many([1], [2]),
            lambda: map_state.get(1, 1), lambda: map_state.items_many([1]), lambda: iter(map_state[1]),
            lambda: map_state[1].update({1: 2}), lambda: map_state.clear(1), lambda: cells.set("c", 8), lambda: cells.get("c"),
            lambda: payloads.get(5), lambda: payloads.set(5, b""), lambda: next(iter(payloads)), lambda: keyed.offset,
            lambda: new.__enter__(), lambda: keyed.value_state("new", int), lambda: keyed.drop_state("v"),
            lambda: keyed._store.flush(), lambda: keyed.compact(), lambda: keyed._engine.begin_snapshot(folder),
        ]  # fmt: skip
        outcomes = []
        with inside_a_call(keyed, long_call):
            for call in calls:
                try:
                    outcomes.append(call())
                except sfkv.Error as error:
                    outcomes.append((type(error), error.code, error.retryable))
            assert keyed.states["v"] == "value<int64>"
            assert "states" in repr(keyed)
        assert outcomes == [(sfkv.BusyError, "busy", True)] * len(calls)
        # And each may be tried again: nothing has changed.
        assert state.get(1) == 1
        bundle.__exit__(None, None, None)
        assert state.get(1) == 5
        assert sum(batch.num_rows for batch in scan) == len(state.scan().to_arrow())
        with new:
            state.put(1, 6)
        assert keyed.snapshot(1, f"{keyed.path}-chk").result(60).id == 1
        assert sorted(keyed.states) == ["a", "l", "m", "pad", "r", "t", "v"]


def test_an_iterator_goes_on_when_the_backend_is_no_longer_busy(in_memory):
    with filled(in_memory / "s") as keyed:
        iterator = started(iter(maps(keyed)[1]))
        given = [0]
        with inside_a_call(keyed, long_call), contextlib.suppress(sfkv.BusyError):
            for user_key in iterator:
                given.append(user_key)
        assert 1 < len(given) < ENTRIES
        assert given + list(iterator) == list(range(ENTRIES))


@pytest.mark.parametrize("error", [None, KeyError("mine")], ids=["to be written", "to be dropped"])
def test_a_batch_is_over_although_its_end_met_another_thread(in_memory, error):
    with filled(in_memory / "s") as keyed:
        for _ in range(50):  # a machine that has much to do may come to the end only when the call is over
            batch, met = keyed.batch(), False
            batch.__enter__()
            value(keyed).put(1, 100)
            with inside_a_call(keyed, read_everything, waited_for=True):
                try:
                    batch.__exit__(type(error) if error else None, error, None)
                except sfkv.BusyError:
                    met = True
            assert value(keyed).get(1) == (1 if error or met else 100)
            value(keyed).put(1, 1)
            if error or met:
                break
        assert error or met
        with keyed.batch():
            pass


@pytest.mark.parametrize("discard", [False, True], ids=["closed", "discarded"])
def test_backends_are_closed_while_their_threads_loop(in_memory, discard):
    slot = sfkv.Slot("8MB")
    workers = [Worker(in_memory / str(number), slot, number) for number in range(THREADS)]
    ready = threading.Barrier(THREADS + 1)

    def loop(number):
        worker = workers[number]
        worker.work()
        ready.wait(60)
        with pytest.raises(sfkv.ClosedError):
            while True:
                worker.work()

    with running(loop, range(THREADS)):
        ready.wait(60)
        for worker in workers:
            worker.keyed.close(discard=discard)
            assert worker.keyed.closed
    assert slot._native.pinned_bytes == 0
    for number in range(THREADS):
        with sfkv.open(in_memory / str(number), key=int, recover=discard) as keyed:
            assert discard or keyed.offset >= 1


def test_one_backend_is_closed_while_eight_threads_contend_for_it(in_memory):
    keyed = opened(in_memory / "s")
    state, keys = value(keyed), list(range(500))
    ready = threading.Barrier(THREADS + 1)

    def loop(number):
        ready.wait(60)
        with pytest.raises(sfkv.ClosedError):
            while True:
                with contextlib.suppress(sfkv.BusyError):
                    assert state.get_many(keys).to_pylist() == keys
                    scan = state.scan(batch_rows=100)
                    assert sum(batch.num_rows for batch in scan) == 500

    with running(loop, range(THREADS)):
        ready.wait(60)
        keyed.close()
    with sfkv.open(in_memory / "s") as again:
        assert value(again).get_many(keys).to_pylist() == keys


def test_scans_are_dropped_by_other_threads_than_the_one_that_reads(in_memory):
    with opened(in_memory / "s") as keyed:
        state = value(keyed)
        handed = queue.Queue()

        def drop(_):
            while (thing := handed.get(timeout=60)) is not None:
                if isinstance(thing, sfkv.Scan) and handed.qsize() % 2:
                    thing.close()
                del thing

        with running(drop, range(3)):
            for turn in range(300):
                scan = state.scan(batch_rows=50)
                assert next(scan).num_rows == 50
                iterator = started(iter(maps(keyed)[1].items()))
                handed.put(iterator)
                del iterator
                if turn % 3:  # it is dropped elsewhere while this thread reads it
                    handed.put(scan)
                    with contextlib.suppress(sfkv.ClosedError):
                        assert scan.to_arrow().num_rows in range(0, 451, 50)
                    del scan
                else:
                    handed.put(scan)
                    del scan
                    assert state.get(7) == 7
            for _ in range(3):
                handed.put(None)
        assert keyed._store.open_scans == 0


def test_backends_are_dropped_by_other_threads_than_the_one_that_opened_them(in_memory):
    handed = queue.Queue()

    def drop(_):
        while (thing := handed.get(timeout=60)) is not None:
            del thing

    slot = sfkv.Slot("8MB")
    with pytest.warns(ResourceWarning, match="was not closed"), running(drop, range(3)):
        for turn in range(12):
            keyed = opened(in_memory / str(turn), slot)
            handed.put(value(keyed))
            handed.put(value(keyed).scan())
            handed.put(keyed)
            del keyed
        for _ in range(3):
            handed.put(None)
    gc.collect()
    for turn in range(12):
        with sfkv.open(in_memory / str(turn)) as again:
            assert value(again).get(3) == 3
