"""Processes: what a forked child inherits is closed to it, and harms nothing; a child of any kind opens stores of its own."""

import pytest

import sfkv
from tests.lifetime.workers import Inherited

pytestmark = pytest.mark.backends

# Calls that need no store: they answer in a child as in the parent.
NO_STORE = {
    "KeyedStateBackend": {"cells", "payloads", "close", "used_bytes", "closed", "path", "slot", "states", "restored_from",
                          "key_groups", "max_parallelism"},
    "ValueState": {"name", "type", "__iter__"},
    "ListState": {"name", "type", "__iter__"},
    "ReducingState": {"name", "type", "__iter__"},
    "AggregatingState": {"name", "type", "__iter__"},
    "MapState": {"name", "type", "__getitem__", "__iter__"},
    "Table": {"name", "type", "key_type", "__iter__"},
    "Scan": {"schema", "close", "__iter__"},
}  # fmt: skip


def test_every_call_is_tried(in_memory):
    """The table in workers.py is complete."""
    made = Inherited(str(in_memory))
    named = set(made.calls())
    states = (made.value, made.lists, made.maps, made.sums, made.spreads, made.table)
    for thing in (made.keyed, *states, made.view, made.cells, made.payloads, made.scan):
        cls = type(thing)
        wanted = ("__getitem__", "__setitem__", "__delitem__", "__contains__", "__iter__", "__next__", "__len__", "__bool__")
        names = {name for base in cls.__mro__ if base.__module__.startswith("sfkv.") for name in vars(base)}
        public = {name for name in names if not name.startswith("_") or name in wanted}
        for name in public - NO_STORE.get(cls.__name__, set()):
            assert f"{cls.__name__}.{name}" in named, f"{cls.__name__}.{name} is not tried"
    made.use()


def test_a_forked_process_has_everything_refused_and_a_store_of_its_own(run_python, in_memory):
    """With everything begun in the parent, which then goes on as if nothing had been."""
    done = run_python(
        """
        import multiprocessing
        from tests.lifetime import workers
        parent = workers.inherit(STORE)
        fork = multiprocessing.get_context("fork")
        for turn in range(3):
            process = fork.Process(target=workers.refused_and_own_store, args=(f"{STORE}/own-{turn}",))
            process.start()
            process.join(60)
            assert process.exitcode == 0, process.exitcode
        parent.use()
        """,
        STORE=str(in_memory),
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_child_opens_stores_where_the_parent_had_none(run_python, in_memory):
    """Modules that are first loaded in the child see the same forks as those that the parent had loaded."""
    done = run_python(
        """
        import os, sfkv
        slot = sfkv.Slot("8MB")
        child = os.fork()
        if child == 0:
            for number, backend in enumerate((sfkv.HashMapStateBackend(), sfkv.EmbeddedRocksDBStateBackend())):
                with backend.open(f"{STORE}/{number}", key=int) as keyed:
                    keyed.value_state("v", int).put(1, 2)
                assert keyed.closed
                with backend.open(f"{STORE}/{number}") as keyed:
                    assert keyed.value_state("v", int).get(1) == 2
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """,
        STORE=str(in_memory),
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_pool_of_forked_processes(run_python, in_memory):
    done = run_python(
        """
        import multiprocessing
        from tests.lifetime import workers
        parent = workers.inherit(STORE)
        with multiprocessing.get_context("fork").Pool(4, initializer=workers.refused) as pool:
            pids = pool.map(workers.own_store, [f"{STORE}/own-{number}" for number in range(12)], chunksize=1)
            pool.close()
            pool.join()
        assert len(pids) == 12
        parent.use()
        """,
        STORE=str(in_memory),
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_spawned_process_has_a_store_of_its_own_and_finds_the_parents_busy(run_python, in_memory, on_backend):
    done = run_python(
        """
        import multiprocessing, os
        from tests.lifetime import workers
        parent = workers.inherit(STORE)
        process = multiprocessing.get_context("spawn").Process(
            target=workers.own_store_beside, args=(BACKEND, f"{STORE}/own", parent.keyed.path, os.getpid()))
        process.start()
        process.join(60)
        assert process.exitcode == 0, process.exitcode
        parent.use()
        """,
        STORE=str(in_memory),
        BACKEND=on_backend,
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_executor_of_processes(run_python, in_memory, on_backend, method):
    done = run_python(
        """
        import multiprocessing, os
        from concurrent.futures import ProcessPoolExecutor
        from tests.lifetime import workers
        parent = workers.inherit(STORE)
        refused = workers.refused if METHOD == "fork" else None
        context = multiprocessing.get_context(METHOD)
        with ProcessPoolExecutor(2, mp_context=context, initializer=refused) as executor:
            futures = [
                executor.submit(workers.own_store_beside, BACKEND, f"{STORE}/own-{number}", parent.keyed.path, os.getpid())
                for number in range(4)
            ]
            assert os.getpid() not in [future.result(60) for future in futures]
        parent.use()
        """,
        STORE=str(in_memory),
        METHOD=method,
        BACKEND=on_backend,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_backend_is_no_argument_for_another_process(run_python, in_memory):
    """It cannot be pickled, and the error says what to pass instead; for an executor it comes from the future."""
    done = run_python(
        """
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        from tests.lifetime import workers
        parent = workers.inherit(STORE)
        spawn = multiprocessing.get_context("spawn")
        def with_process():
            spawn.Process(target=workers.own_store, args=(parent.keyed,)).start()
        def with_pool():
            with multiprocessing.get_context("fork").Pool(1) as pool:
                pool.apply(workers.own_store, (parent.keyed,))
        def with_executor():
            with ProcessPoolExecutor(1, mp_context=spawn) as executor:
                executor.submit(workers.own_store, parent.keyed).result(60)
        for attempt in (with_process, with_pool, with_executor):
            try:
                attempt()
            except TypeError as error:
                assert "pass its path, and open or restore it there" in str(error), error
            else:
                raise SystemExit("it was passed")
        parent.use()
        """,
        STORE=str(in_memory),
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("turns", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_forks_in_one_thread_while_others_are_inside_calls_and_flushes_run(run_python, in_memory, turns):
    """Whatever locks are held at that moment: the child is refused at once, uses a store of its own, and ends."""
    done = run_python(
        """
        import os, sys, threading, traceback
        import sfkv
        from tests.lifetime import workers
        parent = workers.inherit(STORE)
        busy = sfkv.open(f"{STORE}/busy", key=int, slot=sfkv.Slot("4MB"))
        state = busy.value_state("pad", bytes)
        stop, failures = threading.Event(), []

        def write():  # fills memtables, so that flushes and compactions run all the time
            number = 0
            while not stop.is_set():
                number += 1
                state.put_many(range(200), [os.urandom(2000)] * 200)
                assert len(state.get_many(range(200))) == 200

        def scan():
            with sfkv.open(f"{STORE}/scanned", key=int, slot=parent.slot) as keyed:
                other = keyed.value_state("v", int)
                other.put_many(range(1000), range(1000))
                while not stop.is_set():
                    assert other.scan(batch_rows=10).to_arrow().num_rows == 1000

        def fork():
            for turn in range(TURNS):
                child = os.fork()
                if child == 0:
                    try:
                        workers.refused()
                        try:
                            state.get(1)
                        except sfkv.ClosedError:
                            workers.own_store(f"{STORE}/own-{turn}")
                            os._exit(0)
                    except BaseException:
                        traceback.print_exc()
                    os._exit(1)
                _, status = os.waitpid(child, 0)
                if status:
                    failures.append(status)

        threads = [threading.Thread(target=work) for work in (write, scan)]
        forking = threading.Thread(target=fork)
        for thread in [*threads, forking]:
            thread.start()
        forking.join()
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == [], failures
        assert len(state.get_many(range(200)).drop_null()) == 200
        busy.close()
        parent.use()
        """,
        STORE=str(in_memory),
        TURNS=turns,
        timeout=50 + 5 * turns,
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)", "pass", "os.kill(os.getpid(), 15)"])
def test_a_forked_child_ends_in_any_way(run_python, in_memory, leave):
    """From the main thread, with and without stores of its own, open or closed: it ends, and the parent's are unharmed."""
    done = run_python(
        f"""
        import gc, os, sys, time
        import sfkv
        from tests.lifetime import workers
        parent = workers.inherit(STORE)
        for turn in range(3):
            child = os.fork()
            if child == 0:
                if turn > 0:
                    own = sfkv.open(f"{{STORE}}/own-{{turn}}", key=int)
                    own.value_state("v", int).put_many(range(1000), range(1000))
                if turn > 1:
                    own.close()
                {leave}
                break
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == {-15 if "kill" in leave else 0}, status
        else:
            parent.use()
        """,
        STORE=str(in_memory),
    )
    assert (done.stdout, done.stderr) == ("", "")
    with sfkv.open(in_memory / "own-2") as keyed:
        assert keyed.value_state("v", int).get(999) == 999
    with sfkv.open(in_memory / "own-1", key=int, recover=True) as keyed:
        assert keyed.value_state("v", int).get(999) == (999 if leave in ("sys.exit(0)", "pass") else None)


def test_a_child_opens_what_the_parent_has_closed_since(run_python, in_memory):
    run_python(
        """
        import os, sfkv
        keyed = sfkv.open(STORE, key=int)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(reading, 1)
            sfkv.open(STORE, key=int).close()
            os._exit(0)
        keyed.close()
        os.write(writing, b"x")
        assert os.waitpid(child, 0)[1] == 0
        """,
        STORE=str(in_memory / "s"),
    )


@pytest.mark.slow
def test_forks_while_other_threads_open_and_close_stores(run_python, in_memory):
    """The child, too, opens a store of its own."""
    done = run_python(
        """
        import faulthandler, os, threading
        import sfkv
        from tests.lifetime import workers
        workers.own_store(f"{STORE}/first")  # imports everything, whose locks are Python's matter
        stop = threading.Event()
        def work(number):
            while not stop.is_set():
                sfkv.open(f"{STORE}/{number}", key=int).close()
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        failed = 0
        for turn in range(200):
            child = os.fork()
            if child == 0:
                faulthandler.dump_traceback_later(20, exit=True)
                workers.own_store(f"{STORE}/own-{turn}")
                os._exit(0)
            failed = os.waitpid(child, 0)[1]
            if failed:
                break
        stop.set()
        for thread in threads:
            thread.join()
        assert not failed, failed
        """,
        STORE=str(in_memory),
        timeout=200,
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.only("rocksdb", reason="memory takes nothing from a slot")
def test_a_slot_of_the_parent_is_refused_in_a_child(run_python, in_memory):
    run_python(
        """
        import os, sfkv
        slot = sfkv.Slot("8MB")
        child = os.fork()
        if child == 0:
            try:
                sfkv.open(STORE, key=int, slot=slot)
            except sfkv.ClosedError as error:
                assert error.code == "forked", error.code
                assert "make one in the child" in str(error)
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert not os.path.exists(STORE)
        sfkv.open(STORE, key=int, slot=slot).close()
        """,
        STORE=str(in_memory / "s"),
    )
