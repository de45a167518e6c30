"""Every kind of child (children.py) against every step of close, and every order in which things are dropped."""

import contextlib
import gc
import inspect
import itertools
import threading
import warnings

import pytest

import sfkv
from tests.backends import live_objects
from tests.lifetime.children import ENTRIES, KEYS, KINDS, maps, opened, start_snapshot, started, state_of, use_snapshot, value

pytestmark = pytest.mark.backends

all_kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@contextlib.contextmanager
def counted_warnings():
    """How many backends were dropped open within the block, to be called at any time. Other warnings are errors."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("error")
        warnings.simplefilter("always", ResourceWarning)
        count = 0

        def dropped_open():
            nonlocal count
            gc.collect()
            assert all("was not closed" in str(warning.message) for warning in seen)
            count += len(seen)
            seen.clear()  # they hold what they warn of
            return count

        yield dropped_open


@all_kinds
def test_used_before_close(in_memory, kind):
    with opened(in_memory / "s") as keyed:
        child = kind.start(keyed)
        kind.use(child)
        assert value(keyed).get(1) == kind.wrote


@pytest.mark.parametrize("discard", [False, True], ids=["closed", "discarded"])
@all_kinds
def test_used_after_close(in_memory, kind, discard):
    keyed = opened(in_memory / "s")
    child = kind.start(keyed)
    keyed.close(discard=discard)
    assert keyed.slot is None or keyed.slot._native.pinned_bytes == 0
    if kind.survives:
        kind.use(child)
    for _ in range(0 if kind.survives else 1 if inspect.isgenerator(child) else 2):  # an exception ends a generator
        with pytest.raises(kind.error) as raised:
            kind.use(child)
        assert getattr(raised.value, "code", "closed") == "closed"
    keyed.close()
    assert state_of(in_memory / "s") == ("open" if discard else "clean")
    del child
    with sfkv.open(in_memory / "s", key=int, recover=discard) as again:
        assert value(again).get(1) in ((1, None) if discard else (1,))  # what was half done was not written


def test_used_after_a_close_that_failed(run_python, in_memory):
    """No file can be opened, so nothing can be flushed: the backend stays open, and so does all that it gave out.

    One backend for all kinds, because the engine rests for a second after each failure; from the last kind to the first,
    so that no use meets what another one wrote.
    """
    done = run_python(
        """
        import resource, sfkv
        from concurrent.futures import wait
        from tests.lifetime.children import KINDS, opened, value
        keyed = opened(STORE)
        begun = [(kind, kind.start(keyed)) for kind in reversed(KINDS) if kind.name not in ("batch", "snapshot")]
        value(keyed).put(3, 33)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        for _ in range(2):
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                keyed.close()
            except sfkv.StorageError as error:
                assert "Too many open files" in str(error), error
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert not keyed.closed
        for kind, child in begun:
            kind.use(child)
            if kind.wrote != 1:
                assert value(keyed).get(1) == kind.wrote, kind.name
                value(keyed).put(1, 1)
        assert value(keyed).get(3) == 33
        keyed.close()
        with sfkv.open(STORE) as again:
            assert value(again).get_many([1, 3]).to_pylist() == [1, 33]
        """,
        STORE=str(in_memory / "s"),
    )
    assert done.stderr == ""


def test_an_open_batch_outlives_a_close_that_failed(run_python, in_memory):
    run_python(
        """
        import resource, sfkv
        from tests.lifetime.children import opened, value
        keyed = opened(STORE)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with keyed.batch():
            value(keyed).put(1, 100)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                keyed.close()
            except sfkv.StorageError:
                pass
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert value(keyed).get(1) == 100
        keyed.close()
        """,
        STORE=str(in_memory / "s"),
    )


@all_kinds
def test_dropped_before_close(in_memory, kind):
    with opened(in_memory / "s") as keyed:
        child = kind.start(keyed)
        del child
        gc.collect()
        assert live_objects()["scans"] == 0
        if "batch" not in kind.name:
            assert value(keyed).get(1) == 1
            assert value(keyed).scan().to_arrow().num_rows == KEYS


@all_kinds
def test_dropped_after_close(in_memory, kind):
    with opened(in_memory / "s") as keyed:
        child = kind.start(keyed)
    del child
    gc.collect()
    assert live_objects()["scans"] == 0


@pytest.mark.parametrize("with_backend", [False, True], ids=["of its own", "with the backend"])
@all_kinds
def test_collected_in_a_cycle_after_close(in_memory, kind, with_backend):
    keyed = opened(in_memory / "s")
    cycle = [kind.start(keyed)]
    cycle.append(cycle)
    if with_backend:
        cycle.append(keyed)
    keyed.close()
    del keyed, cycle
    gc.collect()
    assert not any(live_objects().values())


@pytest.mark.parametrize("in_cycle", [False, True], ids=["dropped", "collected"])
@pytest.mark.parametrize(
    "kind",
    KINDS,
    ids=lambda kind: kind.name,
)
def test_used_after_its_backend_was_dropped(in_memory, kind, in_cycle):
    """A child keeps its backend open, and warns when it goes; data keep nothing open, and stay right."""
    with counted_warnings() as dropped_open:
        keyed = opened(in_memory / "s")
        child = kind.start(keyed)
        del keyed
        assert dropped_open() == (0 if kind.keeps else 1)
        kind.use(child)
        if in_cycle:
            cycle = [child]
            cycle.append(cycle)
            del cycle
        del child
        assert dropped_open() == 1
    assert not any(live_objects().values())
    with sfkv.open(in_memory / "s") as again:  # it was closed, and is clean
        assert value(again).get(1) == kind.wrote


def drop_in_order(path, kind, order):
    with counted_warnings() as dropped_open:
        slot = sfkv.Slot("8MB")
        keyed = opened(path, slot)
        things = {"backend": keyed, "slot": slot, "state": value(keyed), "child": kind.start(keyed)}
        del keyed, slot
        for name in order:
            assert live_objects()["stores"] == 1 or not kind.keeps
            del things[name]
        assert dropped_open() == 1
    assert not any(live_objects().values()), live_objects()
    assert state_of(path) == "clean"


ORDERS = list(itertools.permutations(["backend", "slot", "state", "child"]))


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_every_order_of_dropping(in_memory, order):
    """With a quarter of the kinds for each order, so that each kind comes in six."""
    for kind in KINDS[ORDERS.index(order) % 4 :: 4]:
        drop_in_order(in_memory / kind.name, kind, order)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_every_order_of_dropping_every_kind(in_memory, order):
    for kind in KINDS:
        drop_in_order(in_memory / kind.name, kind, order)


def test_what_an_iterator_has_read_is_given_before_it_says_that_the_backend_is_closed(in_memory):
    keyed = opened(in_memory / "s")
    iterator = started(iter(maps(keyed)[1].items()))
    keyed.close()
    given = []
    with pytest.raises(sfkv.ClosedError):
        for entry in iterator:
            given.append(entry)
    assert given == [(number, number * 2) for number in range(1, len(given) + 1)]
    assert len(given) < ENTRIES - 1


def test_an_iterator_says_again_that_the_backend_is_closed(in_memory):
    keyed = opened(in_memory / "s")
    iterator = started(iter(maps(keyed)[1]))
    keyed.close()
    for _ in range(2):
        with pytest.raises(sfkv.ClosedError):
            list(iterator)
    with pytest.raises(sfkv.ClosedError):
        next(iterator)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name in ("map view", "cells")], ids=lambda kind: kind.name)
def test_what_is_closed_can_be_shown(in_memory, kind):
    keyed = opened(in_memory / "s")
    child = kind.start(keyed)
    keyed.close()
    assert repr(child)


def test_an_iterator_from_inside_a_batch_has_read_everything(in_memory):
    keyed = opened(in_memory / "s")
    with keyed.batch():
        iterator = started(iter(maps(keyed)[1]))
    keyed.close()
    assert list(iterator) == list(range(1, ENTRIES))


@pytest.mark.parametrize("discard", [False, True], ids=["closed", "discarded"])
def test_close_waits_for_a_snapshot_in_progress(in_memory, discard):
    keyed = opened(in_memory / "s")
    keyed.snapshot(0, keyed.path + "-other").result(60)
    go_on = threading.Event()
    keyed._finisher.submit(go_on.wait)  # the thread that completes snapshots has something else to do first
    future = start_snapshot(keyed)
    closing = threading.Thread(target=keyed.close, kwargs={"discard": discard})
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    assert not future.done()
    assert value(keyed).get(1) == 1  # not closed yet
    go_on.set()
    closing.join(60)
    assert keyed.closed
    assert future.done()
    use_snapshot(future)


def test_a_backend_that_is_dropped_waits_for_its_snapshot(in_memory):
    with counted_warnings() as dropped_open:
        future = start_snapshot(opened(in_memory / "s"))
        assert dropped_open() == 1
    assert future.done()
    use_snapshot(future)


def test_an_exception_ends_a_block_whose_backend_was_closed_inside(in_memory):
    for path, discard in (("a", False), ("b", True)):
        keyed = opened(in_memory / path)
        with pytest.raises(KeyError, match="mine"), keyed.batch(), value(keyed).bundle([1]):
            keyed.close(discard=discard)
            raise KeyError("mine")
        keyed = opened(in_memory / f"{path}-2")
        with pytest.raises(sfkv.ClosedError), keyed.batch(offset=3):
            keyed.close(discard=discard)


@pytest.mark.only("rocksdb", reason="memory has no slot")
def test_a_slot_outlives_its_backends_and_serves_others(in_memory):
    keyed = opened(in_memory / "s")
    slot = keyed.slot
    keyed.close()
    del keyed
    with opened(in_memory / "other", slot) as other:
        assert value(other).get(2) == 2
    assert slot._native.holders == 1
    assert slot._native.pinned_bytes == 0
