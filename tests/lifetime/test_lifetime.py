"""Native lifetimes: threads, fork, garbage collection, interpreter exit. Step by step what must never crash or hang."""

import gc
import os
import pickle
import threading
import time
import warnings

import pytest

import sfkv
from sfkv.backend.keyed import _open_backends
from sfkv.checkpoint import local

pytestmark = pytest.mark.backends


def test_a_second_thread_in_one_backend_is_told_so(tmp_path):
    """Two threads hammer one backend: each call answers right or raises BusyError, and both outcomes occur."""
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", int)
        keys = list(range(20_000))
        state.put_many(keys, keys)
        outcomes = {"right": 0, "busy": 0}
        stop = time.monotonic() + 10

        def hammer():
            while time.monotonic() < stop and not (outcomes["busy"] and outcomes["right"] > 2):
                try:
                    assert state.get_many(keys).to_pylist() == keys
                    outcomes["right"] += 1
                except sfkv.BusyError as error:
                    assert error.retryable
                    outcomes["busy"] += 1

        threads = [threading.Thread(target=hammer) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes["busy"] > 0
        assert outcomes["right"] > 0
        assert state.get(5) == 5


def test_close_waits_for_a_running_call_and_later_ones_are_refused(tmp_path):
    for _ in range(5):
        keyed = sfkv.open(tmp_path / "s", key=int)
        state = keyed.value_state("v", int)
        keys = list(range(50_000))
        state.put_many(keys, keys)
        failures = []
        started = threading.Event()

        def loop(state=state, keys=keys, started=started, failures=failures):
            started.set()
            try:
                while True:
                    answer = state.get_many(keys).to_pylist()
                    if answer != keys:
                        failures.append(answer)
            except sfkv.ClosedError:
                pass
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=loop)
        thread.start()
        started.wait()
        keyed.close()
        thread.join(timeout=30)
        assert not thread.is_alive()
        assert failures == []


def test_closing_from_two_threads_at_once(tmp_path):
    for _ in range(20):
        keyed = sfkv.open(tmp_path / "s", key=int)
        keyed.value_state("v", int).put(1, 1)
        threads = [threading.Thread(target=keyed.close) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert keyed.closed


def test_the_user_may_call_into_the_backend_while_values_are_converted(tmp_path):
    """Converting runs the user's code: it may use the backend, and even close it, without a deadlock."""
    calls = []

    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", int)
        state.put(1, 10)

        class Hook:
            @property
            def n(self):
                calls.append(state.get(1))
                return 3

        records = keyed.value_state("r", {"n": int})
        records.put(2, Hook())
        records.put_many([3, 4], [Hook(), Hook()])
        assert records.get(2) == {"n": 3}
        assert set(calls) == {10}
        assert len(calls) >= 3


def test_dropping_an_open_backend_warns_and_closes(tmp_path):
    keyed = sfkv.open(tmp_path / "s", key=str)
    keyed.value_state("v", int).put("a", 1)
    with pytest.warns(ResourceWarning, match="was not closed"):
        del keyed
        gc.collect()
    with sfkv.open(tmp_path / "s") as keyed:
        assert keyed.value_state("v", int).get("a") == 1


def test_a_state_keeps_its_backend_open(tmp_path):
    state = sfkv.open(tmp_path / "s", key=int).value_state("v", int)
    gc.collect()
    state.put_many(range(10), range(10))
    scan = state.scan(batch_rows=3)
    with pytest.warns(ResourceWarning):
        del state
        gc.collect()
        assert sum(batch.num_rows for batch in scan) == 10
        del scan
        gc.collect()


def threads_of_snapshots():
    return [thread for thread in threading.enumerate() if thread.name.startswith("sfkv-snapshot")]


def all_end(threads):
    for thread in threads:
        thread.join(timeout=20)
    return not any(thread.is_alive() for thread in threads)


def test_a_backend_that_its_own_snapshot_thread_collects_is_closed_when_the_snapshots_are_complete(tmp_path, monkeypatch):
    """Garbage is collected in whatever thread makes some: this one completes the snapshots that closing waits for."""
    encode = local.encode_manifest
    dropped = threading.Event()

    def encode_after_collecting(*args):
        dropped.wait(20)
        gc.collect()
        return encode(*args)

    def take():
        keyed = sfkv.open(tmp_path / "s", key=int)
        keyed.value_state("v", int).put_many(range(1000), range(1000))
        cycle = {"keyed": keyed}
        cycle["self"] = cycle
        return [keyed.snapshot(id, tmp_path / "snapshots") for id in (1, 2)]

    monkeypatch.setattr(local, "encode_manifest", encode_after_collecting)
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        futures = take()
        threads = threads_of_snapshots()
        assert len(threads) == 1
        dropped.set()
        assert [future.result(timeout=20).id for future in futures] == [1, 2]
        assert all_end(threads)
    del futures
    assert not _open_backends
    with sfkv.open(tmp_path / "s") as keyed:  # it was marked clean
        assert keyed.value_state("v", int).get(999) == 999
    assert [snapshot.id for snapshot in sfkv.list_snapshots(tmp_path / "snapshots")] == [1, 2]


@pytest.mark.parametrize("count", [1, 3])
def test_a_callback_of_a_snapshot_may_close_the_backend(tmp_path, caplog, count):
    keyed = sfkv.open(tmp_path / "s", key=int)
    keyed.value_state("v", int).put(1, 1)
    begin = threading.Event()
    keyed.snapshot(0, tmp_path / "snapshots").result()
    threads = threads_of_snapshots()
    keyed._finisher.submit(begin.wait, 20)
    futures = [keyed.snapshot(id, tmp_path / "snapshots") for id in range(1, count + 1)]
    for future in futures:
        future.add_done_callback(lambda _: keyed.close())
    begin.set()
    assert [future.result(timeout=20).id for future in futures] == list(range(1, count + 1))
    assert all_end(threads)
    assert keyed.closed
    assert not caplog.records  # which tell of a callback that raised
    with sfkv.open(tmp_path / "s") as again:
        assert again.value_state("v", int).get(1) == 1


@pytest.mark.parametrize("read", ["cells", "offset", "batch"])
def test_a_finalizer_that_runs_while_an_answer_is_made_may_use_the_backend(tmp_path, read):
    """The call is over before Python's objects are made of what it found: these may begin a collection, in this thread."""
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", int)
        for i in range(20):
            keyed.cells.set(f"cell {i}", i)
        runs, refused = [], []

        class Garbage:
            def __init__(self):
                self.me = self

            def __del__(self):
                if len(runs) < 2000:
                    runs.append(1)
                    try:
                        state.put(1, 1)
                    except sfkv.BusyError as error:
                        refused.append(error.operation)
                    Garbage()

        def ask():
            if read == "cells":
                keyed.cells.get("cell 1")
                list(keyed.cells)
            elif read == "offset":
                assert keyed.offset is None
            else:
                with keyed.batch(), pytest.raises(sfkv.UsageError):
                    state.scan()

        before = gc.get_threshold()
        gc.set_threshold(1, 1000, 1000)
        try:
            Garbage()
            for _ in range(20):
                ask()
        finally:
            gc.set_threshold(*before)
        count = len(runs)
        runs.extend([1] * 2000)
        gc.collect()
        assert count > 20
        assert refused == []


def test_states_and_scans_in_cycles_are_collected_in_any_order(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for i in range(10):
            keyed = sfkv.open(tmp_path / str(i), key=int)
            state = keyed.value_state("v", int)
            state.put_many(range(100), range(100))
            scan = state.scan(batch_rows=1)
            next(scan)
            bundle = state.bundle(range(10))
            rows = bundle.__enter__()
            cycle = {"keyed": keyed, "state": state, "scan": scan, "bundle": bundle, "rows": rows}
            cycle["self"] = cycle
            order = list(cycle)
            del keyed, state, scan, bundle, rows
            for name in order[i % 5 :]:
                del cycle[name]
            del cycle
            gc.collect()
            assert not _open_backends
            sfkv.open(tmp_path / str(i)).close()  # it was closed, and marked clean


def test_a_state_keeps_nothing_open_after_close(tmp_path):
    slot = sfkv.Slot("8MB")
    keyed = sfkv.open(tmp_path / "s", key=int, slot=slot)
    state = keyed.value_state("v", int)
    state.put_many(range(1000), range(1000))
    scan = state.scan(batch_rows=10)
    next(scan)
    keyed.close()
    assert slot._native.pinned_bytes == 0
    for thing in (state, scan, keyed):
        assert repr(thing)


@pytest.mark.only("rocksdb", reason="memory takes nothing from a slot")
def test_many_opens_and_closes_leave_the_slot_empty(tmp_path):
    slot = sfkv.Slot("8MB")
    for _ in range(50):
        with sfkv.open(tmp_path / "s", key=int, slot=slot) as keyed:
            keyed.value_state("v", int).put_many(range(100), range(100))
        assert slot._native.pinned_bytes == 0  # blocks may stay cached, but nothing holds them
    gc.collect()
    assert slot._native.holders == 1


def test_pickling_is_refused_with_the_way_on(keyed):
    with pytest.raises(TypeError, match="pass its path"):
        pickle.dumps(keyed)
    for thing in (keyed.value_state("v", int), keyed.value_state("v", int).scan()):
        with pytest.raises(TypeError):
            pickle.dumps(thing)


@pytest.mark.only("rocksdb", reason="no store is opened")
@pytest.mark.parametrize(
    "name",
    [
        "_core.Slot",
        "_core.RocksDBStore",
        "_memory.MemoryStore",
        "_memory.Snapshot",
        "_table.Table",
        "_scan.Scan",
        "_rows.KeyRows",
        "_bundle.BundleRows",
    ],
)
def test_native_objects_cannot_be_made_half(name):
    """An object whose native part was never made would crash at its first call."""
    module, _, cls = name.partition(".")
    native = getattr(
        __import__("sfkv", fromlist=[module]).__dict__.get(module) or __import__(f"sfkv.{module}", fromlist=["x"]), cls
    )
    with pytest.raises(TypeError):
        native.__new__(native)
    with pytest.raises(TypeError):
        native(None, None, None)
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Sub", (native,), {})


def test_errors_survive_pickling():
    error = sfkv.KeyGroupError("text", state="s", row=3, operation="put_many")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.state, again.row, again.operation, again.code) == ("text", "s", 3, "put_many", "key_group")
    busy = pickle.loads(pickle.dumps(sfkv.DiskFullError("full", path="/x")))
    assert (str(busy), busy.path, busy.errno) == ("full", "/x", 28)


def test_a_forked_child_gets_a_typed_error_and_harms_nothing(tmp_path, run_python):
    done = run_python(
        """
        import os, sys, time, sfkv
        keyed = sfkv.open(STORE, key=int)
        state = keyed.value_state("v", int)
        state.put_many(range(1000), range(1000))
        scan = state.scan(batch_rows=10)
        next(scan)
        bundle = state.bundle([1, 2])
        rows = bundle.__enter__()
        child = os.fork()
        if child == 0:
            began = time.monotonic()
            calls = [lambda: state.get(1), lambda: state.put(1, 2), lambda: state.get_many([1]), lambda: next(scan),
                     lambda: state.scan(), lambda: keyed.value_state("w", int), lambda: bundle.__exit__(None, None, None),
                     lambda: keyed.snapshot(1, STORE + "-chk")]
            for call in calls:
                try:
                    call()
                except sfkv.ClosedError:
                    continue
                os._exit(2)
            keyed.close()
            scan.close()
            assert keyed.closed
            del keyed, state, scan, bundle, rows, calls, call
            import gc; gc.collect()
            assert time.monotonic() - began < 1
            sys.exit(7)  # an ordinary exit: atexit and destructors run
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7, status
        assert state.get_many([1, 999]).to_pylist() == [1, 999]
        assert sum(batch.num_rows for batch in scan) == 990
        rows[1] = 100
        bundle.__exit__(None, None, None)
        try:
            sfkv.open(STORE)
        except sfkv.BusyError:
            pass
        keyed.close()
        with sfkv.open(STORE) as keyed:
            assert keyed.value_state("v", int).get_many([1, 2]).to_pylist() == [100, 2]
        """
    )
    assert done.stderr == ""


def test_a_child_may_open_a_store_of_its_own(tmp_path, run_python):
    done = run_python(
        """
        import multiprocessing, sfkv
        def child(path):
            with sfkv.open(path, key=int) as keyed:
                keyed.value_state("v", int).put(1, 2)
        with sfkv.open(STORE, key=int) as keyed:
            for i in range(2):
                process = multiprocessing.get_context("fork").Process(target=child, args=(f"{STORE}-{i}",))
                process.start()
                process.join(30)
                assert process.exitcode == 0
            keyed.value_state("v", int).put(1, 1)
        with sfkv.open(STORE + "-1") as other:
            assert other.value_state("v", int).get(1) == 2
        """
    )
    assert done.stderr == ""


@pytest.mark.parametrize("leave", ["pass", "sys.exit(0)", "del keyed", "keyed = state"])
def test_leaving_the_interpreter_with_everything_open_is_clean_and_keeps_the_data(tmp_path, run_python, leave):
    done = run_python(
        f"""
        import sys, warnings, sfkv
        warnings.simplefilter("ignore", ResourceWarning)
        keyed = sfkv.open(STORE, key=int)
        state = keyed.value_state("v", int)
        state.put_many(range(1000), range(1000))
        scan = state.scan(batch_rows=10)
        next(scan)
        rows = state.bundle([1]).__enter__()
        future = keyed.snapshot(1, STORE + "-chk")
        {leave}
        """
    )
    assert (done.stdout, done.stderr) == ("", "")
    with sfkv.open(tmp_path / "store") as keyed:
        assert keyed.value_state("v", int).get(999) == 999
    assert [snapshot.id for snapshot in sfkv.list_snapshots(str(tmp_path / "store") + "-chk")] == [1]


def test_leaving_with_threads_at_work_is_clean(run_python):
    done = run_python(
        """
        import threading, time, sfkv
        def work(number):
            keyed = sfkv.open(f"{STORE}-{number}", key=int)
            state = keyed.value_state("v", int)
            try:
                while True:
                    state.put_many(range(10_000), range(10_000))
                    state.get_many(range(10_000))
            except sfkv.ClosedError:
                pass
        for number in range(3):
            threading.Thread(target=work, args=(number,), daemon=True).start()
        time.sleep(0.3)
        """
    )
    assert done.stderr == ""


def test_exit_from_a_thread(tmp_path, run_python):
    done = run_python(
        """
        import threading, sfkv
        def work():
            global keyed
            keyed = sfkv.open(STORE, key=int)
            keyed.value_state("v", int).put(1, 2)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """
    )
    assert done.stderr == ""
    with sfkv.open(tmp_path / "store") as keyed:
        assert keyed.value_state("v", int).get(1) == 2


def test_open_files_do_not_pile_up(tmp_path):
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    with sfkv.open(tmp_path / "s", key=int):
        pass
    before = open_files()
    for _ in range(20):
        with sfkv.open(tmp_path / "s", key=int) as keyed:
            keyed.value_state("v", int).put(1, 1)
            keyed.value_state("v", int).scan().to_arrow()
    assert open_files() <= before + 1
