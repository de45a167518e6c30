"""What the environment takes away, the directory, file descriptors, permissions or the time: typed errors, no hang, no crash,
and reads go on."""

import os
import random
import re
import shutil
import tempfile
import time
from pathlib import Path

import pytest

import sfkv


def test_a_directory_that_vanishes(run_python):
    done = run_python(
        """
        import os, shutil, sfkv
        keyed = sfkv.open(STORE, key=int, slot=sfkv.Slot("4MB"))
        state = keyed.value_state("v", bytes)
        state.put_many(range(1000), [bytes(100)] * 1000)
        shutil.rmtree(STORE)
        assert state.get_many(range(1000)).null_count == 0
        try:
            for number in range(5000):
                state.put(number, os.urandom(1000))
        except sfkv.StorageError as error:
            assert "No such file or directory" in str(error), error
        else:
            raise SystemExit("no error")
        try:
            keyed.close()
        except sfkv.StorageError as error:
            assert error.operation == "close"
        else:
            raise SystemExit("closed, with nothing on disk")
        assert not keyed.closed
        keyed.close(discard=True)
        assert keyed.closed
        with sfkv.open(STORE, key=int) as again:
            assert again.states == {}
        """
    )
    assert done.stderr == ""


def test_too_many_open_files(run_python):
    done = run_python(
        """
        import os, resource, sfkv
        with sfkv.open(STORE + "-other", key=int) as other:
            other.value_state("v", int).put(1, 1)
        keyed = sfkv.open(STORE, key=int, slot=sfkv.Slot("4MB"))
        state = keyed.value_state("v", bytes)
        state.put_many(range(100), [b"kept"] * 100)
        keyed._store.flush()
        open_files = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + 2, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        for attempt in (
            lambda: [state.put(number, os.urandom(1000)) for number in range(100, 20_000)],
            lambda: [state.put(number, os.urandom(1000)) for number in range(100, 20_000)],
            keyed.close,
            lambda: sfkv.open(STORE + "-other"),
        ):
            try:
                attempt()
            except sfkv.StorageError as error:
                assert "Too many open files" in str(error), error
                assert not isinstance(error, sfkv.FailedStoreError)
            else:
                raise SystemExit("no error")
        assert state.get_many(range(100)).to_pylist() == [b"kept"] * 100
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + 50, open_files + 50))
        state.put(100, b"goes on")  # with the next call, and nothing was lost
        keyed.close()
        with sfkv.open(STORE) as again:
            assert again.value_state("v", bytes).get_many(range(101)).to_pylist() == [b"kept"] * 100 + [b"goes on"]
        with sfkv.open(STORE + "-other") as other:
            assert other.value_state("v", int).get(1) == 1
        """
    )
    assert done.stderr == ""


def test_no_room_for_a_single_line_of_the_engine_s_log(run_python):
    """Flush upon flush fails, of each the engine wants to log something, and there is no room for that either."""
    done = run_python(
        """
        import os, resource, sfkv
        keyed = sfkv.open(STORE, key=int)
        state = keyed.value_state("v", bytes)
        state.put_many(range(100), [b"kept"] * 100)
        keyed._store.flush()
        state.put_many(range(100, 1000), [os.urandom(100)] * 900)
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, unlimited[1]))
        for _ in range(50):
            try:
                keyed._store.flush()
            except sfkv.StorageError as error:
                assert not isinstance(error, sfkv.FailedStoreError)
            else:
                raise SystemExit("no error")
        assert 0 < os.path.getsize(STORE + "/LOG") <= 2000
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        keyed.close()
        with sfkv.open(STORE) as again:
            assert again.value_state("v", bytes).contains_many(range(1000)).to_pylist() == [True] * 1000
        """
    )
    assert done.stderr == ""


def test_the_engine_s_log_is_bounded(run_python, tmp_path):
    """It goes on with what is there, and keeps one file that is full."""
    store, full = tmp_path / "store", b"a line of before\n" * 61_681  # 1 MiB
    with sfkv.open(store, key=int) as keyed:
        keyed.value_state("v", int).put(1, 1)
    assert not (store / "LOG").exists()  # all went well
    for log, old in [(b"of before\n", None), (full, None), (full, b"of before\n")]:
        (store / "LOG").write_bytes(log)
        if old is not None:
            (store / "LOG.old").write_bytes(old)
        run_python(
            """
            import resource, sfkv
            keyed = sfkv.open(STORE)
            keyed.value_state("v", int).put_many(range(10_000), range(10_000))
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
            try:
                keyed._store.flush()
            except sfkv.StorageError:
                keyed.close(discard=True)
            else:
                raise SystemExit("no error")
            with sfkv.open(STORE, recover=True):
                pass
            """
        )
        written = (store / "LOG").read_bytes()
        if log is full:
            assert (store / "LOG.old").read_bytes() == full
        else:
            assert written.startswith(log)
            written = written[len(log) :]
        assert len(written) < 20_000
        for line in written.decode().splitlines():
            assert re.fullmatch(r"\d{4}/\d\d/\d\d-\d\d:\d\d:\d\d\.\d{6} \[(WARN|ERROR)\] .*", line), line
        assert "File too large" in written.decode()


@pytest.fixture
def shared_path():
    """A directory that other users can enter, which pytest's own is not."""
    path = Path(tempfile.mkdtemp(prefix="sfkv-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("owner", ["oneself", "somebody else"])
def test_directories_that_may_not_be_written(run_python, shared_path, owner):
    """Typed errors that say what is not permitted; nothing is left, and the store that a snapshot is taken of goes on."""
    if owner == "somebody else" and os.getuid() != 0:
        pytest.skip("only root can make a directory that is another one's")
    done = run_python(
        """
        import contextlib, os, shutil, sfkv
        backend = sfkv.EmbeddedRocksDBStateBackend()
        sealed, free, snapshot = f"{BASE}/sealed", f"{BASE}/free", f"{BASE}/chk/chk-1"
        os.mkdir(sealed)
        os.mkdir(free)
        with sfkv.open(f"{sealed}/store", key=int) as keyed:
            keyed.value_state("v", int).put(1, 1)
            keyed.snapshot(1, f"{BASE}/chk").result()
        backend.restore(f"{sealed}/restored", snapshot).close()
        os.mkdir(f"{sealed}/empty")
        if os.getuid() == 0:  # who may write everywhere
            os.chown(free, NOBODY, NOBODY)
            for folder, folders, names in os.walk(sealed):
                for name in [".", *names]:
                    if OWNER == "oneself":
                        os.chown(os.path.join(folder, name), NOBODY, NOBODY)
        for folder, folders, names in os.walk(BASE, topdown=False):
            for name in names:
                os.chmod(os.path.join(folder, name), 0o444 if folder.startswith(sealed) else 0o644)
            os.chmod(folder, 0o755 if not folder.startswith(sealed) else 0o500 if OWNER == "oneself" else 0o555)
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        before = sorted(os.walk(sealed))

        @contextlib.contextmanager
        def refused(cls):
            try:
                yield
            except cls as error:
                assert "Permission denied" in str(error), error
                assert error.path.startswith(BASE), error.path
            else:
                raise SystemExit("no error")

        for path in ("new", "new/er", "store", "restored", "empty"):
            for recover in (False, True):
                with refused(sfkv.StorageError):
                    sfkv.open(f"{sealed}/{path}", key=int, recover=recover)
        for path in ("new", "new/er", "empty"):
            with refused(sfkv.CheckpointError):
                backend.restore(f"{sealed}/{path}", snapshot)
        with backend.restore(f"{free}/store", snapshot) as keyed:
            state = keyed.value_state("v", int)
            for turn, path in enumerate(("", "/new", "/empty")):
                state.put(2, turn)
                with refused(sfkv.CheckpointError):
                    keyed.snapshot(2, f"{sealed}{path}").result()
                assert sfkv.list_snapshots(f"{sealed}{path}") == []
            assert keyed.snapshot(2, f"{free}/chk").result().id == 2
            assert state.get_many([1, 2]).to_pylist() == [1, 2]

            os.chmod(f"{free}/store", 0o500)  # its own, too
            state.put(3, 3)
            with refused(sfkv.CheckpointError):
                keyed.snapshot(3, f"{free}/chk")
            with refused(sfkv.StorageError):
                keyed.close()
            assert state.get(3) == 3
            os.chmod(f"{free}/store", 0o700)
            assert keyed.snapshot(3, f"{free}/chk").result().id == 3
        with sfkv.open(f"{free}/store") as keyed:
            assert keyed.value_state("v", int).get_many([1, 2, 3]).to_pylist() == [1, 2, 3]
        assert sorted(os.listdir(f"{free}/chk")) == ["chk-2", "chk-3"]
        assert sorted(os.walk(sealed)) == before
        """,
        BASE=str(shared_path),
        OWNER=owner,
        NOBODY=65534,
    )
    assert done.stderr == ""


def test_a_wall_clock_that_moves_back(tmp_path, monkeypatch):
    """By a day with each look at it; and the times of files say nothing at all. Only ``created_ms`` follows the clock."""
    now = [2_000_000_000 * 10**9]
    looks = []

    def time_ns():
        now[0] -= 86_400 * 10**9
        looks.append(now[0])
        return now[0]

    def scramble_file_times():
        rng = random.Random(len(looks))
        for folder, _, names in os.walk(tmp_path):
            for name in names:
                os.utime(os.path.join(folder, name), (rng.randrange(4 * 10**9), rng.randrange(4 * 10**9)))

    monkeypatch.setattr(time, "time_ns", time_ns)
    monkeypatch.setattr(time, "time", lambda: time_ns() / 10**9)
    taken = []
    for id in range(1, 7):
        with sfkv.open(tmp_path / "store", key=int, slot=sfkv.Slot("4MB")) as keyed:
            keyed.value_state("v", int).put_many(range(1000), [id] * 1000, offset=id)
            keyed.list_state("l", int).add(0, id)
            taken.append(keyed.snapshot(id, tmp_path / "chk", metadata=id).result())
            keyed.value_state("v", int).put(0, -1)
            if id == 4:
                keyed.compact()
        scramble_file_times()
    created = [snapshot.created_ms for snapshot in taken]
    assert created == sorted(created, reverse=True)
    assert len(set(created)) == len(created) <= len(looks)
    assert all(0 <= snapshot.sync_ms <= snapshot.total_ms for snapshot in taken)
    found = sfkv.list_snapshots(tmp_path / "chk")
    assert [(snapshot.id, snapshot.created_ms, snapshot.files) for snapshot in found] == [
        (snapshot.id, snapshot.created_ms, snapshot.files) for snapshot in taken
    ]
    for snapshot in found:
        with sfkv.EmbeddedRocksDBStateBackend().restore(tmp_path / f"again-{snapshot.id}", snapshot) as keyed:
            assert keyed.offset == keyed.restored_from.metadata == snapshot.id
            assert keyed.value_state("v", int).get_many(range(1000)).unique().to_pylist() == [snapshot.id]
            assert keyed.list_state("l", int).get(0) == list(range(1, snapshot.id + 1))
        scramble_file_times()
    with sfkv.open(tmp_path / "store") as keyed:
        assert keyed.value_state("v", int).get_many([0, 1]).to_pylist() == [-1, 6]
