"""Snapshots into a folder, and stores made from them."""

import concurrent.futures
import json
import os
import shutil
import threading
import zlib

import pytest

import sfkv
from sfkv import _core
from sfkv.checkpoint import local
from tests.backends import new_backend

pytestmark = pytest.mark.backends


@pytest.fixture
def storage(tmp_path):
    return tmp_path / "snapshots"


def fill(keyed, first, last):
    keyed.value_state("v", int).put_many([f"k{i}" for i in range(first, last)], list(range(first, last)))


def rows_of(keyed):
    return {row["key"]: row["value"] for row in keyed.value_state("v", int).scan().to_arrow().to_pylist()}


def numbers(first, last):
    return {f"k{i}": i for i in range(first, last)}


def test_a_snapshot_holds_the_rows_as_of_its_call_and_work_goes_on(keyed, storage, tmp_path):
    fill(keyed, 0, 1000)
    future = keyed.snapshot(1, storage, metadata={"offset": 1000})
    assert isinstance(future, concurrent.futures.Future)
    fill(keyed, 1000, 2000)
    keyed.value_state("v", int).clear("k7")
    taken = future.result()
    assert (taken.id, taken.path, taken.metadata) == (1, storage / "chk-1", {"offset": 1000})
    assert taken.bytes == sum(file.stat().st_size for file in taken.path.iterdir() if file.name != "SNAPSHOT")
    assert 0 < taken.sync_ms <= taken.total_ms
    with new_backend().restore(tmp_path / "restored", taken) as restored:
        assert rows_of(restored) == numbers(0, 1000)
        assert restored.restored_from.metadata == {"offset": 1000}
        fill(restored, 5000, 6000)
        assert rows_of(restored) == {**numbers(0, 1000), **numbers(5000, 6000)}
    assert rows_of(keyed) == {key: value for key, value in numbers(0, 2000).items() if key != "k7"}
    assert keyed.restored_from is None


def test_the_restored_store_is_a_store_of_its_own(keyed, storage, tmp_path):
    """Linked files are shared, and never written: neither store, nor a second restore, sees the other's writes."""
    fill(keyed, 0, 3000)
    keyed.snapshot(1, storage).result()
    with new_backend().restore(tmp_path / "one", storage / "chk-1") as one:
        fill(one, 3000, 4000)
        one.value_state("v", int).clear_many([f"k{i}" for i in range(0, 3000, 2)])
        one.snapshot(2, storage).result()
    keyed.close()
    shutil.rmtree(keyed.path)
    with sfkv.open(tmp_path / "one") as one:
        assert len(rows_of(one)) == 2500
    with new_backend().restore(tmp_path / "two", [storage / "chk-1"]) as two:
        assert rows_of(two) == numbers(0, 3000)
    with new_backend().restore(tmp_path / "three", str(storage / "chk-2")) as three:
        assert len(rows_of(three)) == 2500


@pytest.mark.only("rocksdb", reason="memory's snapshots are one file, which is never linked")
def test_table_files_are_hard_links_and_the_rest_copies(keyed, storage, tmp_path):
    fill(keyed, 0, 1000)
    taken = keyed.snapshot(1, storage).result()
    with new_backend().restore(tmp_path / "restored", taken):
        for file in taken.files:
            original = taken.path / file.name
            here = tmp_path / "restored" / file.name
            if file.name.endswith(".sst"):
                assert original.samefile(here)
                assert original.samefile(tmp_path / "store" / file.name)
            elif here.exists():
                assert not original.samefile(here)


def test_sizes_and_checksums_in_the_manifest_are_those_of_the_files(keyed, storage):
    fill(keyed, 0, 1000)
    taken = keyed.snapshot(1, storage).result()
    assert {file.name for file in taken.files} == {path.name for path in taken.path.iterdir()} - {"SNAPSHOT"}
    for file in taken.files:
        size, crc32c = _core.checksum_file(taken.path / file.name)
        assert (file.bytes, file.crc32c) == (size, crc32c.lower())


def test_checksums_are_crc32c(tmp_path):
    (tmp_path / "f").write_bytes(b"123456789")
    assert _core.checksum_file(tmp_path / "f") == (9, "E3069283")  # the published check value


def test_metadata_comes_back_as_it_was(keyed, storage):
    given = [None, 7, "x", {"a": [1, 2.5, None]}, {0: 100, 1: 250}, b"bytes", [b"a", {1: b"b"}]]
    for id, metadata in enumerate(given):
        keyed.snapshot(id, storage, metadata=metadata).result()
    assert [snapshot.metadata for snapshot in sfkv.list_snapshots(storage)] == given


def test_metadata_are_those_of_the_call(keyed, storage, held_up):
    metadata = {"offset": 1}
    future = keyed.snapshot(1, storage, metadata=metadata)
    metadata["offset"] = 999
    held_up.set()
    assert future.result().metadata == {"offset": 1}
    assert sfkv.list_snapshots(storage)[0].metadata == {"offset": 1}


def test_metadata_that_cannot_be_stored_is_refused_before_anything_happens(keyed, storage):
    with pytest.raises(sfkv.SchemaError, match="metadata"):
        keyed.snapshot(1, storage, metadata=object())
    assert not storage.exists()


@pytest.mark.parametrize("id", [-1, 1.5, "1", True, None, 1 << 63])
def test_bad_ids_are_refused(keyed, storage, id):
    with pytest.raises(sfkv.ConfigError, match="id"):
        keyed.snapshot(id, storage)


def test_an_id_is_used_once(keyed, storage):
    fill(keyed, 0, 10)
    taken = keyed.snapshot(1, storage).result()
    before = {path.name: path.read_bytes() for path in taken.path.iterdir()}
    with pytest.raises(sfkv.CheckpointError, match="another id") as raised:
        keyed.snapshot(1, storage)
    assert raised.value.code == "exists"
    assert {path.name: path.read_bytes() for path in taken.path.iterdir()} == before


@pytest.fixture
def held_up(monkeypatch):
    """An event until which no snapshot comes to be complete."""
    go_on = threading.Event()
    write = local.write_durably

    def wait_and_write(*arguments):
        assert go_on.wait(30)
        write(*arguments)

    monkeypatch.setattr(local, "write_durably", wait_and_write)
    yield go_on
    go_on.set()


@pytest.mark.parametrize("by", ["the same backend", "another one", "another one by another path"])
def test_an_id_that_is_being_taken_is_refused_and_the_first_one_is_complete(keyed, storage, tmp_path, held_up, by):
    fill(keyed, 0, 10)
    first = keyed.snapshot(1, storage)
    (tmp_path / "link").symlink_to(storage)
    with sfkv.open(tmp_path / "other", key=str) as other:
        where = tmp_path / "link" if by.endswith("path") else storage
        with pytest.raises(sfkv.CheckpointError, match="being taken: take one with another id") as raised:
            (keyed if by == "the same backend" else other).snapshot(1, where)
        assert raised.value.code == "exists"
        held_up.set()
        assert first.result().metadata is None
        with pytest.raises(sfkv.CheckpointError, match="another id"):
            other.snapshot(1, where)
    with new_backend().restore(tmp_path / "r", storage / "chk-1") as restored:
        assert rows_of(restored) == numbers(0, 10)


def test_an_id_is_free_again_after_a_snapshot_that_was_cancelled(keyed, storage, held_up):
    fill(keyed, 0, 10)
    first, second = keyed.snapshot(1, storage), keyed.snapshot(2, storage)
    assert second.cancel()
    assert not (storage / "chk-2").exists()
    again = keyed.snapshot(2, storage)
    held_up.set()
    assert (first.result().id, again.result().id) == (1, 2)


def test_a_forked_child_takes_what_its_parent_gave_up(run_python):
    """It does not see the parent give it up, and nothing else tells it."""
    done = run_python(
        """
        import os, threading, sfkv
        from sfkv.checkpoint import local
        from tests.backends import new_backend
        go_on = threading.Event()
        write = local.write_durably
        local.write_durably = lambda *arguments: go_on.wait(30) and write(*arguments)
        snapshots = f"{STORE}-snapshots"
        with new_backend().open(STORE, key=str) as keyed:
            keyed.snapshot(1, snapshots)
            second = keyed.snapshot(2, snapshots)
            read, write_end = os.pipe()
            child = os.fork()
            if child == 0:
                os.read(read, 1)
                local.write_durably = write
                with new_backend().open(f"{STORE}-of-child", key=str) as own:
                    own.snapshot(2, snapshots, metadata="child's").result()
                os._exit(0)
            assert second.cancel()
            os.write(write_end, b"x")
            assert os.waitpid(child, 0)[1] == 0
            go_on.set()
        print([snapshot.metadata for snapshot in sfkv.list_snapshots(snapshots)])
        """
    )
    assert done.stdout == '[None, "child\'s"]\n'


def test_what_an_unfinished_attempt_left_is_no_snapshot_and_is_replaced(keyed, storage, tmp_path):
    fill(keyed, 0, 10)
    keyed.snapshot(1, storage).result()
    for name in ("chk-2", "chk-2.tmp"):
        (storage / name).mkdir()
        (storage / name / "000007.sst").write_text("half")
    assert [snapshot.id for snapshot in sfkv.list_snapshots(storage)] == [1]
    with pytest.raises(sfkv.CheckpointError, match="SNAPSHOT is missing"):
        new_backend().restore(tmp_path / "r", storage / "chk-2")
    keyed.snapshot(2, storage).result()
    assert [snapshot.id for snapshot in sfkv.list_snapshots(storage)] == [1, 2]
    with new_backend().restore(tmp_path / "r", storage / "chk-2") as restored:
        assert rows_of(restored) == numbers(0, 10)


def test_snapshots_are_listed_by_number_and_other_folders_passed_over(keyed, storage):
    for id in (10, 9, 100):
        keyed.snapshot(id, storage).result()
    for name in ("chk-", "chk-x", "other", "chk-7"):
        (storage / name).mkdir()
    assert [snapshot.id for snapshot in sfkv.list_snapshots(storage)] == [9, 10, 100]
    assert sfkv.list_snapshots(storage / "nowhere") == []


def test_an_empty_backend_has_a_snapshot(keyed, storage, tmp_path):
    keyed.snapshot(0, storage).result()
    with new_backend().restore(tmp_path / "r", storage / "chk-0", key=str, key_groups=(0, 127)) as restored:
        assert restored.states == {}


def test_close_waits_for_snapshots(tmp_path, storage):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        fill(keyed, 0, 1000)
        futures = [keyed.snapshot(id, storage) for id in range(5)]
    assert all(future.done() for future in futures)
    assert [snapshot.id for snapshot in sfkv.list_snapshots(storage)] == [0, 1, 2, 3, 4]


# --- Failures: nothing half-written is left, and work goes on.


def test_a_folder_that_cannot_be_made_is_a_checkpoint_error(keyed, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(sfkv.CheckpointError) as raised:
        keyed.snapshot(1, tmp_path / "file" / "below")
    assert raised.value.__cause__ is not None
    fill(keyed, 0, 10)
    assert rows_of(keyed) == numbers(0, 10)


@pytest.mark.parametrize("step", ["write_durably", "checksum", "sync"])
def test_a_failure_after_the_links_leaves_nothing(keyed, storage, monkeypatch, step):
    def fail(*_):
        raise OSError(28, "No space left on device")

    fill(keyed, 0, 10)
    with monkeypatch.context() as patch:
        if step == "write_durably":
            patch.setattr(local, "write_durably", fail)
        else:
            patch.setattr(local._core, "checksum_file" if step == "checksum" else "sync_directory", fail)
        future = keyed.snapshot(1, storage)
        with pytest.raises(sfkv.CheckpointError, match="snapshot 1 was not taken: .*No space"):
            future.result()
    assert list(storage.iterdir()) == []
    keyed.snapshot(1, storage).result()
    assert [snapshot.id for snapshot in sfkv.list_snapshots(storage)] == [1]


# --- Snapshots that are refused, by the name of the file; nothing local is touched.


@pytest.fixture
def snapshot(keyed, storage):
    fill(keyed, 0, 2000)
    return keyed.snapshot(1, storage, metadata={"offset": 5}).result()


def refuse(snapshot, tmp_path, error, match):
    with pytest.raises(error, match=match) as raised:
        new_backend().restore(tmp_path / "restored", snapshot.path)
    assert not (tmp_path / "restored").exists()
    assert not (tmp_path / "restored.restoring").exists()
    return raised.value


FILES = {"rocksdb": [".sst", "MANIFEST-", "CURRENT", "OPTIONS-"], "memory": ["ROWS"]}


@pytest.mark.parametrize("damage", ["missing", "torn", "longer", "altered", "empty", "a folder"])
def test_a_damaged_file_is_named(snapshot, tmp_path, on_backend, damage):
    for kind in FILES[on_backend]:
        path = next(path for path in snapshot.path.iterdir() if kind in path.name)
        content = path.read_bytes()
        path.unlink()  # not in place: the store's own file is the same inode
        if damage == "torn":
            path.write_bytes(content[:-1])
        elif damage == "longer":
            path.write_bytes(content + b"x")
        elif damage == "altered":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "a folder":
            path.mkdir()
        error = refuse(snapshot, tmp_path, sfkv.CorruptionError, path.name)
        assert error.path == str(path)
        if damage == "a folder":
            path.rmdir()
        path.write_bytes(content)


def test_an_altered_or_torn_manifest_is_named(snapshot, tmp_path):
    path = snapshot.path / "SNAPSHOT"
    content = path.read_bytes()
    for damaged in (content[:-5], content.replace(b'"max_parallelism": 128', b'"max_parallelism": 129'), content[:60]):
        path.write_bytes(damaged)
        assert refuse(snapshot, tmp_path, sfkv.CorruptionError, "SNAPSHOT").path == str(path)
        with pytest.raises(sfkv.CorruptionError, match="SNAPSHOT"):
            sfkv.list_snapshots(snapshot.path.parent)
    path.write_bytes(b"something else")
    assert refuse(snapshot, tmp_path, sfkv.FormatError, "not a manifest").code == "not_ours"
    path.write_bytes(b"")
    refuse(snapshot, tmp_path, sfkv.FormatError, "not a manifest")
    path.write_bytes(content.replace(b"format 2", b"format 3"))
    assert refuse(snapshot, tmp_path, sfkv.FormatError, "format 3.*up to 2").code == "format"
    path.write_bytes(content.replace(b"format 2", b"format 1"))
    assert sfkv.list_snapshots(snapshot.path.parent)[0].id == snapshot.id
    path.unlink()
    assert refuse(snapshot, tmp_path, sfkv.CheckpointError, "missing").code == "missing"


@pytest.mark.only(
    "rocksdb", reason="of memory's snapshots the manifest is refused that names another file than ROWS: test_manifest.py"
)
def test_a_file_name_that_leaves_the_folder_is_refused(snapshot, tmp_path):
    path = snapshot.path / "SNAPSHOT"
    head, _, body = path.read_bytes().partition(b"\n")
    manifest = json.loads(body)
    manifest["files"][0]["name"] = "../../outside.sst"
    body = json.dumps(manifest).encode()
    path.write_bytes(b" ".join([*head.split(b" ")[:-1], f"{zlib.crc32(body):08x}".encode()]) + b"\n" + body)
    refuse(snapshot, tmp_path, sfkv.CorruptionError, "outside.sst")


def test_another_key_or_range_is_refused_and_shows_both(snapshot, tmp_path):
    with pytest.raises(sfkv.SchemaError, match="utf8.*int64"):
        new_backend().restore(tmp_path / "r", snapshot, key=int)
    with pytest.raises(sfkv.KeyGroupError, match="0 to 127.*0 to 63"):
        new_backend().restore(tmp_path / "r", snapshot, key_groups=(0, 63))
    with pytest.raises(sfkv.ConfigError, match="2 snapshots"):
        new_backend().restore(tmp_path / "r", [snapshot, snapshot])
    with pytest.raises(sfkv.ConfigError, match="0 snapshots"):
        new_backend().restore(tmp_path / "r", [])
    assert not (tmp_path / "r").exists()


def test_a_target_that_is_not_empty_is_refused_and_untouched(snapshot, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "mine").write_text("mine")
    with pytest.raises(sfkv.CheckpointError, match="not empty"):
        new_backend().restore(tmp_path / "r", snapshot)
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["mine"]
    with pytest.raises(sfkv.CheckpointError, match="not empty"):
        new_backend().restore(tmp_path / "r" / "mine", snapshot)
    (tmp_path / "r" / "mine").unlink()
    with new_backend().restore(tmp_path / "r", snapshot) as restored:
        assert len(rows_of(restored)) == 2000


def test_what_is_no_snapshot_is_refused_and_says_what_is(keyed, storage, tmp_path):
    future = keyed.snapshot(1, storage)
    future.result()
    for wrong in (future, [future]):
        with pytest.raises(sfkv.ConfigError, match=r"no snapshot: .*of a future, its result\(\)"):
            new_backend().restore(tmp_path / "r", wrong)
    for wrong in (None, 7, b"chk-1", [None], {1: 2}):
        with pytest.raises(sfkv.ConfigError, match="no snapshot: pass its folder"):
            new_backend().restore(tmp_path / "r", wrong)
    for wrong in ([], sfkv.list_snapshots(storage) * 2):
        with pytest.raises(sfkv.ConfigError, match="snapshots were given"):
            new_backend().restore(tmp_path / "r", wrong)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("path", [".", "../here", "below/.."])
def test_a_restore_into_the_current_directory_leaves_the_process_there(snapshot, tmp_path, monkeypatch, path):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with new_backend().restore(path, snapshot) as restored:
        assert (restored.path, rows_of(restored)) == (str(tmp_path / "here"), numbers(0, 2000))
    assert os.getcwd() == str(tmp_path / "here")
    with sfkv.open(".") as again:
        assert rows_of(again) == numbers(0, 2000)


@pytest.mark.only("rocksdb", reason="a restore into memory makes no directory beside the target")
def test_a_restore_that_was_killed_half_way_is_begun_anew(snapshot, tmp_path):
    (tmp_path / "r.restoring").mkdir()
    (tmp_path / "r.restoring" / "000001.sst").write_text("half")
    with new_backend().restore(tmp_path / "r", snapshot) as restored:
        assert len(rows_of(restored)) == 2000
    assert not (tmp_path / "r.restoring").exists()


@pytest.mark.only("rocksdb", reason="a restore into memory links nothing")
def test_a_restore_that_fails_half_way_leaves_nothing(snapshot, tmp_path, monkeypatch):
    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(sfkv.CheckpointError, match="No space"):
        new_backend().restore(tmp_path / "r", snapshot)
    assert not (tmp_path / "r").exists()
    assert not (tmp_path / "r.restoring").exists()


@pytest.mark.only("rocksdb", reason="a restore into memory links nothing")
def test_across_file_systems_files_are_copied(snapshot, tmp_path, monkeypatch):
    def fail(source, target):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", fail)
    with new_backend().restore(tmp_path / "r", snapshot) as restored:
        assert len(rows_of(restored)) == 2000


def test_ranges_and_parallelism_come_back(tmp_path, storage):
    with new_backend().open(tmp_path / "s", key={"a": str, "b": int | None}, max_parallelism=10, key_groups=(2, 5)) as keyed:
        taken = keyed.snapshot(3, storage).result()
        assert (taken.max_parallelism, taken.key_groups) == (10, (2, 5))
    with new_backend().restore(tmp_path / "r", taken) as restored:
        assert (restored.max_parallelism, restored.key_groups) == (10, (2, 5))
        assert "a: utf8 not null, b: int64" in repr(restored)
