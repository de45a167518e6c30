"""Files of rows (FORMAT.md section 7): both backends read both layouts; what is damaged is refused; no disk loses anything."""

import dataclasses
import errno
import gc
import os
import struct
import zlib

import pyarrow as pa
import pytest

import sfkv
from sfkv import _core
from sfkv.checkpoint.manifest import SnapshotFile, encode_manifest
from sfkv.checkpoint.rows_file import read_rows, write_rows
from tests.backends import NAMES, new_backend

pytestmark = pytest.mark.only("memory", reason="the file is about what it writes")

BACKEND = sfkv.HashMapStateBackend()
HEAD = b"sfkv rows format 1\n"


def fill(keyed):
    """A state of every kind, one with columns that came later, one that was dropped."""
    keys = list(range(200))
    keyed.value_state("v", {"n": int}).put_many(keys[:50], [{"n": n} for n in range(50)])
    keyed.value_state("v", {"n": int, "text": str | None}).put_many(keys[50:], [{"n": n, "text": "x" * n} for n in keys[50:]])
    keyed.value_state("objects", object).put(1, {"a": [1, "x", None]})
    keyed.list_state("l", str).add_many(keys * 2, [f"{key}" for key in keys * 2])
    keyed.map_state("m", str, float).put_many(keys, [f"u{key % 3}" for key in keys], [key / 2 for key in keys])
    keyed.map_state("m", str, float).put(7, "none", None)
    keyed.table("t", {"end": int, "user": int}, bytes, group_by="user").put_many(
        {"end": [key % 9 for key in keys], "user": keys}, [bytes(key) for key in keys]
    )
    keyed.value_state("dropped", int).put_many(keys, keys)
    keyed.drop_state("dropped")
    keyed.reducing_state("sum", int, "sum").add_many(keys, keys)
    keyed.cells.set("watermark", -5)
    keyed.cells.set("mean", 1.5, merge="sum")
    keyed.cells.set("blob", b"\0\xff", merge="union")
    keyed.payloads.replace({0: b"", 5: bytes(100_000), 9: b"nine"})
    with keyed.batch(offset={"p": [1, None]}):
        pass


def rows_of(keyed):
    """The stored rows; of live objects, whose rows are not what is stored, the objects."""
    rows = keyed._store.read_range(b"", b"\xff\xff\xff")
    table = keyed.value_state("objects", object)._table.id
    return {key: row for key, row in rows.items() if key[2] != table or key[:2] == b"\xff\xff"}, keyed.value_state(
        "objects", object
    ).get(1)


@pytest.mark.parametrize("last", NAMES)
@pytest.mark.parametrize("next", NAMES)
@pytest.mark.parametrize("first", NAMES)
def test_state_goes_from_backend_to_backend(tmp_path, first, next, last):
    with new_backend(first).open(tmp_path / "0", key=int, max_parallelism=10) as keyed:
        fill(keyed)
        expected, states = rows_of(keyed), keyed.states
        taken = keyed.snapshot(0, tmp_path / "chk", metadata=first).result()
        assert taken.layout == {"rocksdb": "rocksdb", "memory": "rows"}[first]
    for id, name in enumerate((next, last), 1):
        with new_backend(name).restore(tmp_path / str(id), taken) as keyed:
            assert (keyed.states, keyed.max_parallelism, keyed.restored_from.metadata) == (states, 10, taken.metadata)
            assert rows_of(keyed) == expected
            taken = keyed.snapshot(id, tmp_path / "chk", metadata=name).result()
            keyed.value_state("after", int).put(1, 1)  # which the snapshot does not have
        with new_backend(name).open(tmp_path / str(id)) as keyed:
            assert keyed.value_state("after", int).get(1) == 1
            assert rows_of(keyed)[0].items() >= expected[0].items()
            assert keyed.value_state("v", {"n": int, "text": str | None}).get(3) == {"n": 3, "text": None}
            assert (dict(keyed.map_state("m", str, float)[7]), keyed.offset) == ({"u1": 3.5, "none": None}, {"p": [1, None]})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("max_parallelism", [1, 32768])
def test_a_snapshot_of_an_empty_store_is_restored(tmp_path, name, max_parallelism):
    with BACKEND.open(None, key=str, max_parallelism=max_parallelism) as keyed:
        taken = keyed.snapshot(1, tmp_path / "chk").result()
    with new_backend(name).restore(tmp_path / "r", taken, key=str) as keyed:
        assert (keyed.states, keyed.max_parallelism) == ({}, max_parallelism)
        keyed.value_state("v", int).put_many([str(n) for n in range(500)], range(500))
        taken = keyed.snapshot(2, tmp_path / "chk").result()
    with BACKEND.restore(None, taken) as keyed:
        assert sorted(keyed.value_state("v", int).scan().to_arrow()["value"].to_pylist()) == list(range(500))


# --- Damage.


@pytest.fixture
def small(tmp_path):
    """A closed directory with little in it."""
    with BACKEND.open(tmp_path / "s", key=int, max_parallelism=4) as keyed:
        keyed.value_state("v", int).put_many(range(30), range(30))
        keyed.list_state("l", bytes).add(1, bytes(2000))
    return tmp_path / "s"


def refuse(path, content, match="torn or altered"):
    (path / "ROWS").write_bytes(content)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with pytest.raises(sfkv.CorruptionError, match=match) as raised:
        BACKEND.open(path)
    assert str(path) in raised.value.path
    after = {file.name: file.read_bytes() for file in path.iterdir()}
    assert {**before, "SFKV": None} == {**after, "SFKV": None}
    assert "state clean" in after["SFKV"].decode()


def damages(content):
    """Every byte altered, every length too short, and some too long."""
    for at in range(len(content)):
        yield content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :]
        yield content[:at]
    yield from (content + more for more in (b"\0", content, content[len(HEAD) :]))


def test_any_damage_is_seen_when_the_file_is_read(small):
    content = (small / "ROWS").read_bytes()
    assert 500 < len(content) < 2000
    for damaged in damages(content):
        (small / "ROWS").write_bytes(damaged)
        with pytest.raises(sfkv.CorruptionError, match="ROWS was torn or altered"):
            list(read_rows(small / "ROWS"))


def test_a_directory_whose_rows_are_damaged_is_refused_and_stays_as_it_was(small):
    content = (small / "ROWS").read_bytes()
    for damaged in [*damages(content)][::41]:
        refuse(small, damaged)
    (small / "ROWS").write_bytes(content)
    with BACKEND.open(small) as keyed:
        assert keyed.value_state("v", int).get(29) == 29


def block(key_group, rows, *, size=None, stored=None):
    stored = pa.Codec("lz4_raw").compress(rows, asbytes=True) if stored is None else stored
    fields = struct.pack("<HII", key_group, len(rows) if size is None else size, len(stored))
    return fields + struct.pack("<I", zlib.crc32(stored, zlib.crc32(fields))) + stored


def end(count):
    return block(0xFFFE, b"", size=count, stored=b"")


@pytest.mark.parametrize(
    "damaged",
    [
        lambda own, rest: [*own, *rest, block(4, b"\x02\0k\0")],  # another's key group
        lambda own, rest: [*own, block(0xFFFD, b"\x02\0k\0"), *rest],
        lambda own, rest: [*rest, *own],
        lambda own, rest: rest,
        lambda own, rest: [*own, *rest, block(1, b"\x05\0k")],  # no rows
        lambda own, rest: [block(0xFFFF, b"\xff" * 20), *rest],
        lambda own, rest: [*own, block(1, b"", size=1000, stored=b"\xf0")],  # not what was compressed
        lambda own, rest: [*own, block(1, b"", size=2**32 - 1, stored=b"\x10a")],
        lambda own, rest: [*own, block(1, b"\x02\0k\0", stored=b"")],
        lambda own, rest: [block(0xFFFF, b"\x01\0\x02{}"), *rest],  # a store that does not describe itself
        lambda own, rest: [*own, block(0xFFFF, b"\x02\x01\x09\x01["), *rest],  # after the first, and no registry
    ],
)
def test_a_file_whose_checksums_are_right_and_whose_blocks_are_not_is_refused(small, damaged):
    blocks = list(read_rows(small / "ROWS"))
    own = [block(*blocks[0])]
    made = damaged(own, [block(*rest) for rest in blocks[1:]])
    refuse(small, HEAD + b"".join(made) + end(len(made)), match="^Corruption")
    for name in NAMES:
        with pytest.raises((sfkv.CorruptionError, sfkv.CheckpointError)), snapshot_of(small, name):
            pass


def snapshot_of(path, name):
    """Restores a snapshot whose file is that of a directory, and whose manifest fits it."""
    folder = path.parent / f"chk-of-{name}"
    with BACKEND.open(None, key=int, max_parallelism=4) as keyed:
        taken = keyed.snapshot(1, folder).result()
    content = (path / "ROWS").read_bytes()
    (taken.path / "ROWS").write_bytes(content)
    size, crc32c = _core.checksum_file(taken.path / "ROWS")
    whole = dataclasses.replace(taken, files=(SnapshotFile("ROWS", size, crc32c.lower()),))
    (taken.path / "SNAPSHOT").write_bytes(encode_manifest(whole, "0", "0"))
    return new_backend(name).restore(path.parent / f"restored-{name}", taken.path)


def test_a_directory_without_its_rows_is_refused_as_one_that_forgot_its_keys(small):
    (small / "ROWS").unlink()
    with pytest.raises(sfkv.Error):
        BACKEND.open(small)


def test_blocks_go_through_a_file_as_they_are(tmp_path):
    blocks = [(0xFFFF, b"a"), (0, os.urandom(3_000_000)), (0, bytes(3_000_000)), (32767, b"z")]
    write_rows(tmp_path / "rows", iter(blocks))
    assert list(read_rows(tmp_path / "rows")) == blocks


# --- A disk that fails, as Python sees it: each of its calls below the directory, one after the other.


@pytest.fixture
def failing(monkeypatch):
    """Lets call number n below a folder fail; how many there were."""

    class Calls:
        due, count, folder = None, 0, None

        def arm(self, folder, due):
            self.folder, self.due, self.count = str(folder), due, 0

        def call(self, path):
            if self.folder is None or not str(path).startswith(self.folder):
                return
            self.count += 1
            if self.count == self.due:
                raise OSError(errno.EIO, "injected", str(path))

    calls = Calls()
    for name in ("fsync", "rename", "replace", "unlink"):
        real = getattr(os, name)
        by_path = name != "fsync"

        def wrapped(first, *rest, real=real, by_path=by_path, **options):
            calls.call(first if by_path else calls.folder or "")
            return real(first, *rest, **options)

        monkeypatch.setattr(os, name, wrapped)
    real_open = open

    def opens(path, *rest, **options):
        calls.call(path)
        return real_open(path, *rest, **options)

    monkeypatch.setattr("io.open", opens)
    monkeypatch.setattr("builtins.open", opens)
    yield calls
    calls.folder = None


def test_a_close_that_fails_leaves_the_backend_open_and_the_directory_whole(tmp_path, failing):
    path = tmp_path / "s"
    with BACKEND.open(path, key=int) as keyed:
        keyed.value_state("v", int).put(1, 0)
    for due in range(1, 30):
        keyed = BACKEND.open(path)
        state = keyed.value_state("v", int)
        assert state.get(1) == due - 1
        state.put(1, due)
        scan = state.scan()
        failing.arm(path, due)
        try:
            keyed.close()
        except sfkv.StorageError as error:
            assert (error.operation, error.errno) == ("close", errno.EIO)
            assert not keyed.closed
            assert state.get(1) == due
            assert next(scan)["value"].to_pylist() == [due]
            failing.due = None
            assert not (path / "ROWS.new").exists()
            keyed.close()
        if failing.count < due:
            break
    assert failing.count >= 3
    assert keyed.closed


def test_a_snapshot_that_fails_leaves_nothing(tmp_path, failing):
    with BACKEND.open(tmp_path / "s", key=int) as keyed:
        keyed.value_state("v", int).put_many(range(1000), range(1000))
        failed = 0
        for due in range(1, 30):
            failing.arm(tmp_path / "chk", due)
            try:
                keyed.snapshot(due, tmp_path / "chk").result()
            except sfkv.CheckpointError as error:
                failed += 1
                assert "injected" in str(error)
                assert not (tmp_path / "chk" / f"chk-{due}").exists()
            if failing.count < due:
                break
        assert failed >= 3
        failing.due = None
        there = [snapshot.id for snapshot in sfkv.list_snapshots(tmp_path / "chk")]
        assert len(there) == due - failed and due in there
        gc.collect()
        assert keyed._store.kept_bytes == 0


@pytest.mark.parametrize("how", ["open", "restore"])
def test_rows_that_cannot_be_read_are_a_typed_error(tmp_path, failing, how):
    with BACKEND.open(tmp_path / "s", key=int) as keyed:
        keyed.value_state("v", int).put(1, 1)
        taken = keyed.snapshot(1, tmp_path / "chk").result()
    if how == "open":
        failing.arm(tmp_path / "s" / "ROWS", 1)
        with pytest.raises(sfkv.StorageError, match="injected") as raised:
            BACKEND.open(tmp_path / "s")
        assert raised.value.errno == errno.EIO
        BACKEND.open(tmp_path / "s").close()
    else:
        failing.arm(taken.path / "ROWS", 1)
        with pytest.raises(sfkv.CheckpointError, match="injected"):
            BACKEND.restore(tmp_path / "r", taken)
        assert not (tmp_path / "r").exists()
        BACKEND.restore(tmp_path / "r", taken).close()
