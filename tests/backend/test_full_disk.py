"""A full disk: a typed error, nothing lost, and work that goes on when there is space again."""

import os
import subprocess

import pytest

import sfkv
from tests.backends import new_backend

pytestmark = pytest.mark.backends


@pytest.fixture
def disk(tmp_path):
    """A file system of 16 MB, and a file on it that takes most of the space."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], check=False, capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk, left):
    """Takes the space of a disk, apart from so many bytes."""
    free = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_frsize - left))


def test_close_on_a_full_disk_loses_nothing(disk):
    keyed = sfkv.open(disk / "s", key=int)
    state = keyed.value_state("v", bytes)
    state.put_many(range(100), [bytes(1000)] * 100)
    keyed._store.flush()
    state.put_many(range(100, 3000), [os.urandom(1000) for _ in range(2900)])
    fill(disk, left=100_000)
    with pytest.raises(sfkv.DiskFullError) as raised:
        keyed.close()
    assert (raised.value.retryable, raised.value.errno, raised.value.operation) == (True, 28, "close")
    assert not keyed.closed
    assert state.contains_many(range(3000)).to_pylist() == [True] * 3000
    (disk / "ballast").unlink()
    keyed.close()
    with sfkv.open(disk / "s") as keyed:
        assert keyed.value_state("v", bytes).contains_many(range(3000)).to_pylist() == [True] * 3000


@pytest.mark.only("rocksdb", reason="writes to memory need no disk")
def test_writes_on_a_full_disk_fail_typed_and_go_on_with_space(disk):
    with sfkv.open(disk / "s", key=int, slot=sfkv.Slot("4MB")) as keyed:
        state = keyed.value_state("v", bytes)
        state.put_many(range(100), [b"kept"] * 100)
        keyed._store.flush()
        fill(disk, left=500_000)
        with pytest.raises(sfkv.DiskFullError):
            for key in range(100, 20_000):
                state.put(key, os.urandom(1000))
        assert state.get_many(range(100)).to_pylist() == [b"kept"] * 100
        (disk / "ballast").unlink()
        state.put(1, b"new")  # at once: nothing has to be waited for
        assert state.get(1) == b"new"


@pytest.mark.only("rocksdb", reason="writes to memory need no disk")
def test_rows_that_are_kept_are_those_of_the_store_though_writes_fail(disk):
    """Whatever becomes of a write, single calls, batches and scans say the same."""
    with sfkv.open(disk / "s", key=int, slot=sfkv.Slot("8MB")) as keyed:
        state = keyed.value_state("v", bytes)
        keys = range(500)
        state.put_many(keys, [b"kept"] * 500)
        keyed._store.flush()
        fill(disk, left=500_000)
        failed = 0
        for turn in range(200):
            for _ in range(3):
                read = dict(zip(keys, state.get_many(keys).to_pylist(), strict=True))
            try:
                if turn % 4 == 0:
                    state.put(turn, os.urandom(1000))
                elif turn % 4 == 1:
                    state.put_many(keys, [os.urandom(400)] * 500)
                elif turn % 4 == 2:
                    state.clear_many(range(turn, turn + 10))
                else:
                    with keyed.batch():
                        state.put_many(keys, [os.urandom(400)] * 500)
                        state.clear(turn)
            except sfkv.DiskFullError:
                failed += 1
            rows = state.scan().to_arrow().to_pydict()
            stored = dict(zip(rows["key"], rows["value"], strict=True))
            read = dict(zip(keys, state.get_many(keys).to_pylist(), strict=True))
            assert {key: value for key, value in read.items() if value is not None} == stored
            assert [state.get(key) for key in range(0, 500, 50)] == [stored.get(key) for key in range(0, 500, 50)]
        assert failed > 20
        assert keyed._store.row_cache["found"] > 1000
        (disk / "ballast").unlink()


@pytest.mark.only("rocksdb", reason="writes to memory need no disk")
def test_a_disk_without_a_byte_to_spare(disk):
    """There is no room for what the engine logs of its failures either."""
    with sfkv.open(disk / "s", key=int) as keyed:
        state = keyed.value_state("v", bytes)
        state.put_many(range(1000), [os.urandom(1000)] * 1000)
        keyed._store.flush()
        state.put_many(range(1000, 2000), [os.urandom(1000)] * 1000)
        fill(disk, left=0)
        for _ in range(50):
            with pytest.raises(sfkv.DiskFullError):
                keyed._store.flush()
        assert state.contains_many(range(2000)).to_pylist() == [True] * 2000
        (disk / "ballast").unlink()
    with sfkv.open(disk / "s") as keyed:
        assert keyed.value_state("v", bytes).contains_many(range(2000)).to_pylist() == [True] * 2000


@pytest.mark.only("rocksdb", reason="memory folds at once")
def test_nothing_that_is_held_is_lost_on_a_full_disk(disk):
    with sfkv.open(disk / "s", key=int, slot=sfkv.Slot("4MB")) as keyed:
        state, sums = keyed.value_state("v", bytes), keyed.reducing_state("s", int, "sum")
        keys = list(range(300))
        state.put(1, b"")
        keyed._store.flush()
        fill(disk, left=500_000)
        with pytest.raises(sfkv.DiskFullError):
            for key in range(100, 20_000):
                state.put(key, os.urandom(1000))
        for key in keys:
            sums.add(key, key)  # memory needs no disk
        assert keyed._store.held_rows == len(keys)
        for read in (
            lambda: sums.get(5),
            lambda: sums.get_many(keys),
            lambda: sums.scan().to_arrow(),
            lambda: state.put(1, b"x"),
        ):
            with pytest.raises(sfkv.DiskFullError) as raised:
                read()
            assert str(raised.value).startswith("IO error: No space left on device: While")
        assert keyed._store.held_rows == len(keys)
        (disk / "ballast").unlink()
        assert sums.get_many(keys).to_pylist() == keys


def test_a_snapshot_on_a_full_disk_leaves_nothing(disk, tmp_path):
    with sfkv.open(disk / "s", key=int) as keyed:
        state = keyed.value_state("v", bytes)
        state.put_many(range(2000), [os.urandom(1000) for _ in range(2000)])
        fill(disk, left=100_000)
        with pytest.raises(sfkv.CheckpointError) as raised:
            keyed.snapshot(1, disk / "snapshots").result()
        assert raised.value.code == "disk_full"
        assert raised.value.retryable
        assert list((disk / "snapshots").iterdir()) == []
        assert state.contains_many(range(2000)).to_pylist() == [True] * 2000
        (disk / "ballast").unlink()
        keyed.snapshot(1, disk / "snapshots").result()
        with new_backend().restore(tmp_path / "r", disk / "snapshots" / "chk-1") as restored:
            assert restored.value_state("v", bytes).contains_many(range(2000)).to_pylist() == [True] * 2000


@pytest.mark.only("rocksdb", reason="a restore into memory needs next to no disk")
def test_a_restore_onto_a_full_disk_leaves_nothing(disk, tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        keyed.value_state("v", bytes).put_many(range(2000), [os.urandom(1000) for _ in range(2000)])
        taken = keyed.snapshot(1, tmp_path / "snapshots").result()
    fill(disk, left=500_000)
    with pytest.raises(sfkv.CheckpointError, match="No space left"):
        new_backend().restore(disk / "r", taken)
    assert {path.name for path in disk.iterdir()} == {"ballast"}


def test_a_store_cannot_be_made_on_a_full_disk(disk):
    fill(disk, left=0)
    with pytest.raises(sfkv.DiskFullError):
        sfkv.open(disk / "s", key=int)
    (disk / "ballast").unlink()
    with sfkv.open(disk / "s", key=int) as keyed:
        keyed.value_state("v", int).put(1, 1)
