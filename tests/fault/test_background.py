"""Compactions that fail beside a flush, or for long: writes go on when what was in the way is gone."""

import os

import pytest

HEAD = """
    import os, resource, threading, time, sfkv
    from sfkv import _core
    from tests.fault import _failing

    _core.wrap_file_system(_failing.capsule())

    def open_store(path, trigger, key=None, more=""):
        backend = sfkv.EmbeddedRocksDBStateBackend()
        backend._engine_options = f"write_buffer_size=65536;level0_file_num_compaction_trigger={trigger};{more}"
        return backend.open(path, key=key, slot=sfkv.Slot("4MB"))

    def open_with_a_compaction(path):
        "A store of 1000 rows, that compacts its files as soon as it is open."
        with open_store(path, trigger=100, key=int) as keyed:
            for start in range(0, 1000, 500):
                keyed.value_state("v", bytes).put_many(range(start, start + 500), [bytes(50)] * 500)
                keyed._store.flush()
        gate = _failing.Gate("NewWritableFile", path, ".sst")
        keyed = open_store(path, trigger=2)
        return keyed, keyed.value_state("v", bytes), gate

    def open_recovered(path, trigger=100):
        "A store that has met a failure, which has passed."
        keyed = open_store(path, trigger, key=int)
        state = keyed.value_state("v", bytes)
        state.put(1, b"1")
        _failing.arm("for good")
        try:
            keyed._store.flush()
        except sfkv.StorageError:
            _failing.disarm()
        else:
            raise SystemExit("no error")
        state.put(2, b"2")
        return keyed

    def stop_beside_a_queued_flush():
        "A compaction stops the engine while a flush waits for the only thread, which has to do with another store."
        keyed, state, compaction = open_with_a_compaction(STORE)
        assert compaction.reached()
        busy = open_store(STORE + "-busy", trigger=4, key=int)
        busy.value_state("v", bytes).put(1, b"1")
        flush = _failing.Gate("NewWritableFile", STORE + "-busy", ".sst")
        flushing = threading.Thread(target=busy._store.flush)
        flushing.start()
        assert flush.reached()
        manifest = _failing.Gate("Append", STORE + "/MANIFEST")
        compaction.release()
        assert manifest.reached()
        for number in range(1000, 1004):
            state.put(number, os.urandom(30_000))  # the last asks for a flush of those before
        manifest.release(fails=True)
        threading.Timer(0.3, flush.release).start()
        return keyed, state, busy, flushing

    def check(keyed, state, rows):
        "All is as if nothing had failed."
        state.put(1, b"goes on")
        keyed._store.flush()
        keyed.compact()
        keyed.close()
        with open_store(keyed.path, trigger=4) as again:
            found = again.value_state("v", bytes).get_many(range(rows)).to_pylist()
            assert found[1] == b"goes on" and all(found), found
"""


@pytest.fixture
def run(run_python):
    if "SFKV_FAULTS" not in os.environ:
        pytest.importorskip("tests.fault._failing", reason="is built by make test (SFKV_FAULTS=1)")
    return lambda program: run_python(HEAD + program)


def test_a_compaction_fails_while_a_flush_is_tried_again(run):
    """It is not taken for the end of that flush, which the engine would then never run."""
    run(
        """
    for number in range(3):
        keyed, state, compaction = open_with_a_compaction(f"{STORE}{number}")
        assert compaction.reached()
        state.put(1000, b"new")
        _failing.arm("for good")
        try:
            keyed._store.flush()
        except sfkv.StorageError:
            pass
        release = threading.Timer(0.1, compaction.release)
        release.start()
        for _ in range(2):
            try:
                state.put(1001, b"new")
            except sfkv.StorageError as error:
                assert not isinstance(error, sfkv.FailedStoreError), error
            else:
                raise SystemExit("no error")
        release.join()
        _failing.disarm()
        check(keyed, state, 1001)
    """
    )


def test_a_compaction_stops_the_engine_while_a_flush_waits_for_a_thread(run):
    """The flush is run none the less, or by the next call."""
    run(
        """
    keyed, state, busy, flushing = stop_beside_a_queued_flush()
    try:
        for number in range(1004, 1010):
            state.put(number, os.urandom(30_000))
    except sfkv.StorageError as error:
        assert "injected failure" in str(error) and not isinstance(error, sfkv.FailedStoreError), error
    flushing.join()
    check(keyed, state, 1004)
    busy.close()
    """
    )


def test_a_store_is_closed_while_a_failed_compaction_waits_for_a_flush(run):
    run(
        """
    keyed, state, busy, flushing = stop_beside_a_queued_flush()
    keyed.close(discard=True)
    flushing.join()
    busy.close()
    """
    )


def test_a_flush_after_a_failure_that_has_passed_waits_until_it_is_done(run):
    run(
        """
    keyed = open_recovered(STORE)
    state = keyed.value_state("v", bytes)

    def flush():
        try:
            keyed._store.flush()
        except sfkv.StorageError as error:
            errors.append(error)
        done.set()

    for fails in (False, True, False):
        errors, done = [], threading.Event()
        state.put(1, b"written" if fails else b"new")
        gate = _failing.Gate("NewWritableFile", STORE, ".sst")
        flushing = threading.Thread(target=flush)
        flushing.start()
        assert gate.reached() and not done.wait(0.2)
        gate.release(fails)
        flushing.join()
        assert len(errors) == fails, errors
    keyed.close(discard=True)
    with sfkv.open(STORE, recover=True) as again:
        assert again.value_state("v", bytes).get(1) == b"new"
    """
    )


def test_a_flush_after_a_failure_that_has_passed_is_not_a_compaction_s(run):
    """A compaction that fails meanwhile is no failure of the flush, which does not wait for it either."""
    run(
        """
    keyed = open_recovered(STORE, trigger=6)  # two files are there
    state = keyed.value_state("v", bytes)
    for number in range(3):
        state.put(number, b"new")
        keyed._store.flush()
    state.put(3, b"new")
    flush = _failing.Gate("NewWritableFile", STORE, ".sst")
    flushing = threading.Thread(target=keyed._store.flush)
    flushing.start()
    assert flush.reached()
    compaction = _failing.Gate("NewWritableFile", STORE, ".sst")
    flush.release()
    flushing.join()
    assert compaction.reached()
    state.put(4, b"new")
    threading.Timer(0.3, compaction.release, [True]).start()
    keyed._store.flush()
    assert keyed.snapshot(1, STORE + "-snapshots").result().id == 1
    check(keyed, state, 5)
    """
    )


def test_what_is_resumed_compacts_nothing_that_need_not(run):
    """Neither do files that hold rows of the store's own, beyond those of all states."""
    run(
        """
    keyed = open_store(STORE, trigger=100, key=int)
    state = keyed.value_state("v", bytes)
    state.put_many(range(1000), [bytes(50)] * 1000, offset=1)
    keyed.compact()
    for number in range(2, 4):
        state.put_many([number], [b"new"], offset=number)
        _failing.arm("for good" if number == 3 else "count")
        try:
            keyed._store.flush()
        except sfkv.StorageError:
            _failing.disarm()
    state.put_many([5], [b"new"], offset=5)
    time.sleep(0.5)
    assert len([name for name in os.listdir(STORE) if name.endswith(".sst")]) == 3
    check(keyed, state, 1000)
    """
    )


def test_a_flush_is_not_a_compaction_that_stops_the_engine(run):
    """It is done when its rows are in a file, whatever has stopped the engine meanwhile."""
    run(
        """
    keyed, state, compaction = open_with_a_compaction(STORE)
    assert compaction.reached()
    state.put(1000, b"new")
    manifest = _failing.Gate("Append", STORE + "/MANIFEST")
    flush = _failing.Gate("NewWritableFile", STORE, ".sst")
    compaction.release()
    assert manifest.reached()
    errors = []

    def flush_all():
        try:
            keyed._store.flush()
        except sfkv.StorageError as error:
            errors.append(error)

    flushing = threading.Thread(target=flush_all)
    flushing.start()
    assert flush.reached()
    manifest.release(fails=True)
    time.sleep(0.3)
    assert flushing.is_alive()  # nor is it over because of that
    flush.release()
    flushing.join()
    assert errors == []
    check(keyed, state, 1001)
    """
    )


def test_compactions_that_fail_for_long(run):
    """Flushes find room where compactions do not: writes go on for a while, say why they cannot, and go on with room."""
    run(
        """
    keyed = open_store(STORE, 4, int, "level0_slowdown_writes_trigger=8;level0_stop_writes_trigger=8")
    state = keyed.value_state("v", bytes)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, unlimited[1]))
    written = errors = 0
    while errors < 4:
        try:
            state.put(written, os.urandom(20_000))
            written += 1
        except sfkv.StorageError as error:
            assert "File too large" in str(error) and not isinstance(error, sfkv.FailedStoreError), error
            errors += 1
    assert state.contains_many(range(written)).to_pylist() == [True] * written
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    check(keyed, state, written)
    """
    )
