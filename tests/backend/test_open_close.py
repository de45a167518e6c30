"""Opening and closing: what is found again, and which directories are refused."""

import os
import signal

import pyarrow as pa
import pytest

import sfkv
from tests.backends import new_backend, other

pytestmark = pytest.mark.backends


def marker(path):
    return dict(line.split(" ", 1) for line in (path / "SFKV").read_text().splitlines())


def test_close_flushes_and_open_finds_everything(tmp_path):
    path = tmp_path / "deep" / "er" / "store"
    with sfkv.open(path, key=str) as keyed:
        keyed.value_state("a", int).put_many([str(i) for i in range(5000)], list(range(5000)))
        keyed.value_state("b", str).put("x", "y")
        assert marker(path)["state"] == "open"
        assert marker(path)["pid"] == str(os.getpid())
    assert marker(path)["state"] == "clean"
    with sfkv.open(path) as keyed:
        assert keyed.states == {"a": "value<int64>", "b": "value<utf8>"}
        assert keyed.value_state("a", int).get_many([str(i) for i in range(5000)]).to_pylist() == list(range(5000))
        assert keyed.value_state("b", str).get("x") == "y"
        keyed.value_state("a", int).put("7", None)
    with sfkv.open(path, key=str, max_parallelism=128, key_groups=(0, 127)) as keyed:
        assert keyed.value_state("a", int).get("7") is None


def test_closing_again_does_nothing_and_use_after_close_says_so(tmp_path):
    keyed = sfkv.open(tmp_path / "s", key=str)
    state = keyed.value_state("v", int)
    state.put("a", 1)
    keyed.close()
    keyed.close()
    keyed.close(discard=True)
    assert keyed.closed
    for call in (
        lambda: state.get("a"),
        lambda: state.put("a", 1),
        lambda: state.clear("a"),
        lambda: "a" in state,
        lambda: state.get_many(["a"]),
        lambda: state.put_many(["a"], [1]),
        lambda: state.clear_many(["a"]),
        lambda: state.contains_many(["a"]),
        lambda: state.bundle(["a"]).__enter__(),
        lambda: state.scan(),
        lambda: keyed.value_state("w", int),
        lambda: keyed.offset,
        lambda: keyed.snapshot(1, tmp_path / "chk"),
    ):
        with pytest.raises(sfkv.ClosedError, match="closed"):
            call()
    assert not (tmp_path / "chk").exists()


def test_discard_writes_nothing_and_leaves_the_directory_unclean(tmp_path):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        keyed.value_state("v", int).put("kept", 1)
    keyed = sfkv.open(tmp_path / "s")
    keyed.value_state("v", int).put("lost", 2)
    keyed.close(discard=True)
    with pytest.raises(sfkv.UncleanError, match="recover=True") as raised:
        sfkv.open(tmp_path / "s")
    assert raised.value.code == "unclean"
    with sfkv.open(tmp_path / "s", recover=True) as keyed:
        assert keyed.value_state("v", int).get_many(["kept", "lost"]).to_pylist() == [1, None]
    with sfkv.open(tmp_path / "s") as keyed:
        assert keyed.value_state("v", int).get("kept") == 1


def test_a_refused_recovery_leaves_the_directory_unclean(tmp_path):
    sfkv.open(tmp_path / "s", key=str).close()
    sfkv.open(tmp_path / "s", key=str).close(discard=True)
    with pytest.raises(sfkv.SchemaError), sfkv.open(tmp_path / "s", key=int, recover=True):
        pass
    with pytest.raises(sfkv.UncleanError):
        sfkv.open(tmp_path / "s", key=str)


@pytest.mark.only("rocksdb", reason="memory has nothing of what was written since it was opened after a kill")
def test_after_a_kill_the_offset_tells_which_writes_are_there(tmp_path, run_python):
    """Each batch adds one to each of 100 keys, and stores its number as the offset in the same write."""
    run_python(
        """
        import os, signal, sfkv
        keyed = sfkv.open(STORE, key=int, slot=sfkv.Slot("4MB"))
        state = keyed.value_state("v", int)
        pad = keyed.value_state("pad", bytes)
        for number in range(1, 400):
            with state.bundle(range(100), offset={"batch": number}) as rows:
                for key in rows:
                    rows[key] = (rows[key] or 0) + 1
            pad.put(number, os.urandom(20_000))  # fills memtables, so that some are flushed on the way
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        expect=-signal.SIGKILL,
    )
    path = tmp_path / "store"
    with pytest.raises(sfkv.UncleanError):
        sfkv.open(path)
    with sfkv.open(path, recover=True) as keyed:
        reached = keyed.offset["batch"]
        assert 0 < reached < 400
        state, pad = keyed.value_state("v", int), keyed.value_state("pad", bytes)
        assert state.get_many(range(100)).to_pylist() == [reached] * 100
        # A prefix of the writes: everything before the offset's write, nothing behind the next one.
        present = pad.contains_many(range(1, 400)).to_pylist()
        assert all(present[: reached - 1])
        assert not any(present[reached:])


def test_a_killed_process_that_wrote_nothing_new_is_recovered(tmp_path, run_python):
    run_python("import os, sfkv; k = sfkv.open(STORE, key=str); os.kill(os.getpid(), 9)", expect=-signal.SIGKILL)
    with sfkv.open(tmp_path / "store", key=str, recover=True) as keyed:
        assert keyed.offset is None
        assert keyed.states == {}


def test_offsets_come_back_as_they_were(keyed):
    state = keyed.value_state("v", int)
    assert keyed.offset is None
    for offset in (0, 17, "abc", {0: 100, 1: 250}, [1, None, b"x"], {"topic": {"0": 1}}):
        state.put_many(["a"], [1], offset=offset)
        assert keyed.offset == offset
    state.clear_many(["a"], offset=5)
    assert keyed.offset == 5
    with state.bundle(["a"], offset=6):
        pass
    assert keyed.offset == 6
    with pytest.raises(ZeroDivisionError), state.bundle(["a"], offset=7):
        1 / 0  # noqa: B018
    assert keyed.offset == 6
    with pytest.raises(sfkv.SchemaError, match="msgpack"):
        state.put_many(["a"], [1], offset=object())


def test_registering_again_gives_the_same_state_or_an_error_that_shows_both(keyed, tmp_path):
    state = keyed.value_state("v", int)
    assert keyed.value_state("v", pa.int64()) is state
    with pytest.raises(sfkv.SchemaError, match=r"value<int64>.*value<utf8>"):
        keyed.value_state("v", str)
    with pytest.raises(sfkv.SchemaError, match=r"value<int64>.*value<msgpack>"):
        keyed.value_state("v", object)
    record = keyed.value_state("r", pa.struct([pa.field("a", pa.int64(), nullable=False)]))
    with pytest.raises(sfkv.SchemaError, match=r"struct<a: int64 not null>.*struct<a: int32>"):
        keyed.value_state("r", pa.struct({"a": pa.int32()}))
    assert keyed.value_state("r", {"a": int}) is record
    keyed.close()
    with sfkv.open(tmp_path / "store") as again:
        with pytest.raises(sfkv.SchemaError, match=r"value<int64>.*value<utf8>"):
            again.value_state("v", str)
        assert again.states["v"] == "value<int64>"


@pytest.mark.parametrize("name", ["", "x" * 1001, 7, None, b"v", "\ud800"])
def test_bad_names_are_refused(keyed, name):
    with pytest.raises(sfkv.ConfigError, match="name"):
        keyed.value_state(name, int)


def test_a_backend_holds_256_states(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        states = [keyed.value_state(f"s{i}", int) for i in range(256)]
        for i, state in enumerate(states):
            state.put_many(range(20), [i] * 20)
        with pytest.raises(sfkv.LimitError, match="256"):
            keyed.value_state("one more", int)
        for i in (0, 1, 127, 254, 255):
            assert states[i].scan().to_arrow()["value"].to_pylist() == [i] * 20


@pytest.mark.parametrize(
    "type",
    [
        pa.month_day_nano_interval(),
        pa.decimal32(5),
        pa.list_view(pa.int8()),
        pa.null(),
        pa.binary(0),
        pa.struct([]),
        set,
        {"\ud800": int},
        "int",
        7,
    ],
)
def test_types_that_are_not_supported_are_refused_by_name(keyed, type):
    with pytest.raises(sfkv.SchemaError):
        keyed.value_state("v", type)
    assert keyed.states == {}


@pytest.mark.parametrize(
    "key", [pa.list_(pa.int8()), pa.null(), object, dict, sfkv.Msgpack(), pa.schema([]), {"a": {"b": int}}]
)
def test_keys_that_have_no_order_are_refused(tmp_path, key):
    with pytest.raises(sfkv.SchemaError):
        sfkv.open(tmp_path / "s", key=key)
    assert not (tmp_path / "s").exists()


# --- Directories that are refused; each stays as it is.


def listing(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_another_key_range_or_parallelism_is_refused_and_shows_both(tmp_path):
    backend = new_backend()
    with backend.open(tmp_path / "s", key=str, max_parallelism=64, key_groups=(3, 9)) as keyed:
        assert (keyed.key_groups, keyed.max_parallelism) == ((3, 9), 64)
    with pytest.raises(sfkv.SchemaError, match="utf8.*int64"):
        backend.open(tmp_path / "s", key=int)
    with pytest.raises(sfkv.FormatError, match="64.*128"):
        backend.open(tmp_path / "s", max_parallelism=128)
    with pytest.raises(sfkv.KeyGroupError, match="3 to 9.*0 to 63"):
        backend.open(tmp_path / "s", key_groups=(0, 63))
    with backend.open(tmp_path / "s") as keyed:
        assert (keyed.key_groups, keyed.max_parallelism) == ((3, 9), 64)


@pytest.mark.parametrize("key_groups", [(0, 128), (-1, 3), (5, 4), (1,), "ab", 3, (0, 1, 2), (), (0.5, 3.5), ("0", "1")])
def test_a_bad_range_is_refused(tmp_path, key_groups):
    with pytest.raises(sfkv.ConfigError, match="key_groups"):
        sfkv.open(tmp_path / "s", key=str, key_groups=key_groups)
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        taken = keyed.snapshot(1, tmp_path / "chk").result()
    with pytest.raises(sfkv.ConfigError, match="key_groups"):
        sfkv.open(tmp_path / "s", key_groups=key_groups)
    with pytest.raises(sfkv.ConfigError, match="key_groups"):
        new_backend().restore(tmp_path / "r", taken, key_groups=key_groups)


@pytest.mark.parametrize("path", [7, b"s", ["s"]])
def test_what_is_no_path_is_no_directory(path):
    for call in (lambda: sfkv.open(path, key=str), lambda: new_backend().restore(path, "chk-1")):
        with pytest.raises(sfkv.ConfigError, match="path is .*HashMapStateBackend takes None"):
            call()


@pytest.mark.only("rocksdb", reason="memory needs no directory")
def test_state_on_disk_needs_a_directory():
    with pytest.raises(sfkv.ConfigError, match="path is None: state on disk needs a directory; HashMapStateBackend takes None"):
        sfkv.open(None, key=str)


@pytest.mark.parametrize("slot", ["256MB", 1 << 28, True])
def test_what_is_no_slot_is_refused_before_anything_is_made(tmp_path, slot):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        taken = keyed.snapshot(1, tmp_path / "chk").result()
    for backend in (new_backend(), new_backend(other())):
        with pytest.raises(sfkv.ConfigError, match=r"slot is .*: pass a sfkv\.Slot"):
            backend.open(tmp_path / "new", key=str, slot=slot)
        with pytest.raises(sfkv.ConfigError, match=r"slot is .*: pass a sfkv\.Slot"):
            backend.restore(tmp_path / "new", taken, slot=slot)
        assert not (tmp_path / "new").exists()


def test_a_new_store_needs_a_key(tmp_path):
    with pytest.raises(sfkv.ConfigError, match="key="):
        sfkv.open(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_missing_directory_is_refused_without_create(tmp_path):
    with pytest.raises(sfkv.StorageError, match="no directory") as raised:
        sfkv.open(tmp_path / "s", key=str, create=False)
    assert raised.value.code == "missing"
    assert isinstance(raised.value, OSError)
    (tmp_path / "s").mkdir()
    with pytest.raises(sfkv.StorageError, match="no store"):
        sfkv.open(tmp_path / "s", key=str, create=False)
    assert listing(tmp_path / "s") == {}


def test_a_foreign_directory_is_refused_and_untouched(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.txt").write_text("mine")
    with pytest.raises(sfkv.FormatError, match="no sfkv store") as raised:
        sfkv.open(tmp_path / "s", key=str)
    assert raised.value.code == "not_ours"
    assert listing(tmp_path / "s") == {"thesis.txt": b"mine"}
    with pytest.raises(sfkv.FormatError, match="is a file"):
        sfkv.open(tmp_path / "s" / "thesis.txt", key=str)


@pytest.mark.only("rocksdb", reason="it is about RocksDB's files")
def test_a_rocksdb_of_someone_else_is_refused(tmp_path):
    with sfkv.open(tmp_path / "s", key=str):
        pass
    (tmp_path / "s" / "SFKV").unlink()
    before = listing(tmp_path / "s")
    with pytest.raises(sfkv.FormatError, match="no sfkv store"):
        sfkv.open(tmp_path / "s", key=str)
    assert listing(tmp_path / "s") == before


def test_another_format_version_is_refused_by_number(tmp_path):
    with sfkv.open(tmp_path / "s", key=str):
        pass
    text = (tmp_path / "s" / "SFKV").read_text()
    (tmp_path / "s" / "SFKV").write_text(text.replace("format 2", "format 3"))
    before = listing(tmp_path / "s")
    with pytest.raises(sfkv.FormatError, match="version 3.*versions 1 to 2") as raised:
        sfkv.open(tmp_path / "s")
    assert raised.value.code == "format"
    assert listing(tmp_path / "s") == before
    (tmp_path / "s" / "SFKV").write_text("?")
    with pytest.raises(sfkv.CorruptionError, match="SFKV"):
        sfkv.open(tmp_path / "s")


def test_a_store_of_format_1_is_read_and_becomes_one_of_format_2(tmp_path):
    """Nothing that version 1 wrote has changed; golden/rows.txt has its rows."""
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        keyed.value_state("v", int).put("a", 1)
    marker = tmp_path / "s" / "SFKV"
    marker.write_text(marker.read_text().replace("format 2", "format 1"))
    with sfkv.open(tmp_path / "s") as keyed:
        assert keyed.value_state("v", int).get("a") == 1
    assert "format 2" in marker.read_text()


def test_a_held_directory_names_its_holder(tmp_path, run_python):
    with sfkv.open(tmp_path / "store", key=str) as keyed:
        with pytest.raises(sfkv.BusyError, match=f"this very process .{os.getpid()}") as raised:
            sfkv.open(tmp_path / "store")
        assert (raised.value.code, raised.value.retryable, isinstance(raised.value, OSError)) == ("locked", True, True)
        done = run_python(
            """
            import sfkv
            try:
                sfkv.open(STORE)
            except sfkv.BusyError as error:
                print(error)
            """
        )
        assert f"held by process {os.getpid()}" in done.stdout
        keyed.value_state("v", int).put("a", 1)
    with sfkv.open(tmp_path / "store") as keyed:
        assert keyed.value_state("v", int).get("a") == 1


@pytest.mark.only("rocksdb", reason="these are RocksDB's files; test_rows_files.py damages memory's")
@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-", "OPTIONS-", ".sst"])
def test_a_damaged_file_is_corruption_or_storage_error_and_the_rest_is_unharmed(tmp_path, name):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        keyed.value_state("v", str).put_many([f"k{i}" for i in range(2000)], ["x" * 50] * 2000)
    damaged = [file for file in (tmp_path / "s").iterdir() if name in file.name][-1]
    content = damaged.read_bytes()
    damaged.write_bytes(bytes(byte ^ 0x55 for byte in content))
    if name == "OPTIONS-":  # only a note of what the options were: the store opens with its own
        with sfkv.open(tmp_path / "s") as keyed:
            assert keyed.value_state("v", str).get("k7") == "x" * 50
        return
    with pytest.raises(sfkv.StorageError) as raised, sfkv.open(tmp_path / "s") as keyed:
        keyed.value_state("v", str).get_many([f"k{i}" for i in range(2000)])
    assert raised.value.path == str(tmp_path / "s")
    damaged.write_bytes(content)
    with sfkv.open(tmp_path / "s", recover=True) as keyed:
        assert keyed.value_state("v", str).get_many(["k7"]).to_pylist() == ["x" * 50]


@pytest.mark.only("rocksdb", reason="memory has no table files; test_rows_files.py alters every byte of its file")
def test_a_flipped_bit_in_a_table_file_is_corruption(tmp_path):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        keyed.value_state("v", str).put_many([f"k{i}" for i in range(2000)], [f"{i}" * 20 for i in range(2000)])
    table = max((tmp_path / "s").glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[len(content) // 3] ^= 1
    table.write_bytes(content)
    with sfkv.open(tmp_path / "s") as keyed:
        state = keyed.value_state("v", str)
        for call in (lambda: state.get_many([f"k{i}" for i in range(2000)]), lambda: state.scan().to_arrow()):
            with pytest.raises(sfkv.CorruptionError, match="^Corruption"):
                call()


def test_a_directory_that_may_not_be_written_is_a_storage_error(run_python):
    """As root, which may write everywhere, in a process that has become nobody."""
    run_python(
        """
        import os, tempfile, sfkv
        folder = tempfile.mkdtemp()
        sfkv.open(folder + "/s", key=str).close()
        os.chmod(folder, 0o555)
        os.chmod(folder + "/s", 0o555)
        if os.geteuid() == 0:
            os.setuid(65534)
        for path in ("/s", "/new"):
            try:
                sfkv.open(folder + path, key=str)
            except sfkv.StorageError as error:
                assert "ermission denied" in str(error), error
            else:
                raise SystemExit(2)
        """
    )


@pytest.mark.parametrize("memory", ["3MB", 0, -1, "many", None, "1.5GB", True])
def test_bad_memory_is_refused(memory):
    with pytest.raises(sfkv.ConfigError, match="memory"):
        sfkv.Slot(memory)


@pytest.mark.parametrize("ratio", [0, 1, -0.5, float("nan"), "0.5", None, True, [0.5]])
def test_bad_ratios_are_refused(ratio):
    with pytest.raises(sfkv.ConfigError, match="write_buffer_ratio"):
        sfkv.Slot(write_buffer_ratio=ratio)
    with pytest.raises(sfkv.ConfigError, match="high_priority_ratio"):
        sfkv.Slot(high_priority_ratio=ratio)


@pytest.mark.parametrize("size", [0, -1, "257MB", 2**63 - 1, 2**63, "many"])
def test_writes_are_not_split_at_more_than_lies_in_memory(size):
    with pytest.raises(sfkv.ConfigError, match="write_batch_bytes"):
        sfkv.EmbeddedRocksDBStateBackend(write_batch_bytes=size)


@pytest.mark.only("rocksdb", reason="memory takes nothing from a slot")
def test_slots_follow_flinks_formulas_and_are_freed_with_their_last_holder(tmp_path):
    slot = sfkv.Slot("64MB")
    assert (slot.memory_bytes, slot.cache_bytes, slot.write_buffer_bytes) == (64 << 20, 55_924_053, 22_369_621)
    assert slot._native.holders == 1
    stores = [sfkv.open(tmp_path / str(i), key=str, slot=slot) for i in range(3)]
    assert slot._native.holders == 4
    for store in stores:
        store.close()
    del stores, store
    assert slot._native.holders == 1
