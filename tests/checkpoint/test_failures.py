"""Snapshots and restores that fail: whatever it was, nothing is left of them, and they may be tried again."""

import pytest

from sfkv.checkpoint import local
from tests.backends import new_backend

pytestmark = pytest.mark.backends


def fill(keyed):
    keyed.value_state("v", int).put_many([f"k{i}" for i in range(2000)], list(range(2000)))


@pytest.mark.parametrize("error", [MemoryError, KeyError, SystemExit])
def test_whatever_ends_a_snapshot_leaves_nothing_of_it(keyed, tmp_path, monkeypatch, error):
    def fail(*_):
        raise error

    fill(keyed)
    with monkeypatch.context() as patch:
        patch.setattr(local, "encode_manifest", fail)
        future = keyed.snapshot(1, tmp_path / "snapshots")
        with pytest.raises(error):
            future.result()
    assert list((tmp_path / "snapshots").iterdir()) == []
    keyed.snapshot(1, tmp_path / "snapshots").result()


@pytest.mark.parametrize("layout", ["rocksdb", "memory"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_restore_whose_opening_fails_leaves_nothing_and_may_be_tried_again(
    tmp_path, run_python, on_backend, layout, is_there
):
    """One file after the other cannot be opened: those of the snapshot first, and in the end the new store's own."""
    with new_backend(layout).open(tmp_path / "s", key=str) as keyed:
        fill(keyed)
        keyed.snapshot(1, tmp_path / "snapshots").result()
    done = run_python(
        """
        import os, resource, sfkv
        from tests.backends import new_backend

        snapshot = sfkv.list_snapshots(SNAPSHOTS)[-1]
        new_backend().restore(STORE + "-before", snapshot).close()  # what it imports and begins once
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        open_files = len(os.listdir("/proc/self/fd")) - 1
        if IS_THERE:
            os.mkdir(STORE)
        failed = []
        for more in range(FIRST, 60):
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + more, hard))
            try:
                keyed = new_backend().restore(STORE, snapshot)
                break
            except sfkv.CorruptionError as error:  # a file of the snapshot that cannot be read
                assert str(snapshot.path) in str(error)
            except sfkv.CheckpointError as error:
                failed.append(error)
                assert error.path == STORE and error.operation == "restore" and STORE in str(error), error
                assert isinstance(error.__cause__, OSError)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert os.path.exists(STORE) == IS_THERE
            assert not IS_THERE or os.listdir(STORE) == []
            assert not os.path.exists(STORE + ".restoring")
        assert failed
        assert keyed.value_state("v", int).get("k1999") == 1999
        keyed.close(discard=True)
        """,
        SNAPSHOTS=str(tmp_path / "snapshots"),
        IS_THERE=is_there,
        FIRST=1 if on_backend == "memory" else 4,  # with fewer a directory cannot be cleared away
    )
    assert done.stderr == ""
