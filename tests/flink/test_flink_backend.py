"""Backends and their settings, as PyFlink spells them."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import sfkv
import sfkv.flink
from sfkv.flink import EmbeddedRocksDBStateBackend, FileSystemCheckpointStorage, PredefinedOptions, Types


def test_importing_sfkv_does_not_import_it():
    program = "import sys, sfkv; before = 'sfkv.flink' in sys.modules; import sfkv.flink; print(before, sfkv.flink.Types.INT())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "int32"]


def test_all_names_exist():
    assert sfkv.flink.__all__ == sorted(sfkv.flink.__all__)
    for name in sfkv.flink.__all__:
        assert getattr(sfkv.flink, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sfkv.flink.nothing  # noqa: B018


def test_the_memory_backend_is_sfkvs_own():
    assert sfkv.flink.HashMapStateBackend is sfkv.HashMapStateBackend


@pytest.mark.parametrize(("asked", "says"), [(True, True), (False, False), (None, False)])
def test_incremental_checkpointing_is_remembered(asked, says, tmp_path):
    backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=asked)
    assert backend.is_incremental_checkpoints_enabled() is says
    assert EmbeddedRocksDBStateBackend(asked).is_incremental_checkpoints_enabled() is says
    with backend.open(tmp_path / "s", key=Types.STRING()) as keyed:
        state = keyed.value_state("v", int)
        state.put_many([str(number) for number in range(1000)], range(1000))
        first = keyed.snapshot(1, tmp_path / "chk").result()
        state.put("x", 1)
        second = keyed.snapshot(2, tmp_path / "chk").result()
        files = [{(path.stat().st_ino, path.name) for path in taken.path.glob("*.sst")} for taken in (first, second)]
        assert files[0] & files[1], "unchanged files are shared"
        for file in first.path.iterdir():
            file.unlink()
        with backend.restore(tmp_path / "r", second) as restored:
            assert restored.value_state("v", int).get("7") == 7, "a snapshot is complete in itself"


@pytest.mark.parametrize("wrong", [1, "true", [True]])
def test_incremental_checkpointing_is_true_or_false(wrong):
    with pytest.raises(sfkv.ConfigError, match="enable_incremental_checkpointing"):
        EmbeddedRocksDBStateBackend(wrong)


def test_it_is_sfkvs_backend_and_takes_its_options(tmp_path):
    backend = EmbeddedRocksDBStateBackend(True, write_batch_bytes="1MB", read_chunk_keys=32)
    assert isinstance(backend, sfkv.EmbeddedRocksDBStateBackend)
    with pytest.raises(sfkv.ConfigError, match="write_batch_bytes"):
        EmbeddedRocksDBStateBackend(write_batch_bytes="much")
    slot = sfkv.Slot("32MB")
    with backend.open(tmp_path / "s", key=Types.LONG(), slot=slot, max_parallelism=16, key_groups=(0, 15)) as keyed:
        assert isinstance(keyed, sfkv.KeyedStateBackend)
        assert (keyed.slot, keyed.max_parallelism) == (slot, 16)
    with pytest.raises(sfkv.SchemaError):
        backend.open(tmp_path / "s", key=Types.STRING())


def test_predefined_options_are_flinks_four():
    assert [option.name for option in PredefinedOptions] == [
        "DEFAULT",
        "SPINNING_DISK_OPTIMIZED",
        "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
        "FLASH_SSD_OPTIMIZED",
    ]


@pytest.mark.parametrize("options", PredefinedOptions, ids=lambda options: options.name)
def test_predefined_options_are_applied_or_refused_when_a_store_is_opened(options, tmp_path):
    backend = EmbeddedRocksDBStateBackend()
    assert backend.get_predefined_options() is PredefinedOptions.DEFAULT
    backend.set_predefined_options(options)
    assert backend.get_predefined_options() is options
    if options is PredefinedOptions.DEFAULT:
        with backend.open(tmp_path / "s", key=str) as keyed:
            taken = keyed.snapshot(1, tmp_path / "chk").result()
        backend.restore(tmp_path / "r", taken).close()
        return
    for call in (lambda: backend.open(tmp_path / "s", key=str), lambda: backend.restore(tmp_path / "r", tmp_path / "chk")):
        with pytest.raises(sfkv.ConfigError, match=f"{options.name}.*DEFAULT") as raised:
            call()
        assert raised.value.code == "not_yet"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [None, "DEFAULT", 0])
def test_predefined_options_are_an_enum(wrong):
    backend = EmbeddedRocksDBStateBackend()
    with pytest.raises(sfkv.ConfigError, match="SPINNING_DISK_OPTIMIZED_HIGH_MEM"):
        backend.set_predefined_options(wrong)
    assert backend.get_predefined_options() is PredefinedOptions.DEFAULT


def test_settings_that_have_no_meaning_here_say_what_to_do():
    backend = EmbeddedRocksDBStateBackend()
    with pytest.raises(sfkv.ConfigError, match=r"open\(path\)"):
        backend.set_db_storage_paths("/a", "/b")
    with pytest.raises(sfkv.ConfigError, match="Slot"):
        backend.set_options("org.example.Options")
    with pytest.raises(sfkv.ConfigError, match="local folders"):
        backend.set_number_of_transfer_threads(4)


@pytest.mark.parametrize("spelled", ["path", "file:", "file://", "file://localhost"])
def test_a_folder_of_this_machine_stores_checkpoints(spelled, tmp_path):
    folder = tmp_path / "a b"
    text = str(folder) if spelled == "path" else spelled + str(folder).replace(" ", "%20")
    storage = FileSystemCheckpointStorage(text)
    assert storage.get_checkpoint_path() == str(folder)
    backend = EmbeddedRocksDBStateBackend()
    with backend.open(tmp_path / "s", key=str) as keyed:
        keyed.value_state("v", int).put("a", 1)
        keyed.snapshot(1, storage).result()
    (newest,) = sfkv.list_snapshots(storage)
    assert newest.path == folder / "chk-1"
    with backend.restore(tmp_path / "r", newest) as keyed:
        assert keyed.value_state("v", int).get("a") == 1
    assert pickle.loads(pickle.dumps(storage)).get_checkpoint_path() == str(folder)
    assert repr(storage) == f"FileSystemCheckpointStorage({str(folder)!r})"


@pytest.mark.parametrize("text", ["s3://bucket/chk", "hdfs:///chk", "file://host/chk", "file:chk", "file://"])
def test_other_storages_are_refused(text):
    with pytest.raises(sfkv.ConfigError, match="machine"):
        FileSystemCheckpointStorage(text)


@pytest.mark.parametrize("text", ["file:///tmp/a#b", "file:///tmp/a?b", "file:/tmp/a?"])
def test_a_uri_with_a_query_or_fragment_is_refused_and_says_how_to_write_it(text):
    with pytest.raises(sfkv.ConfigError, match="%23.*%3F"):
        FileSystemCheckpointStorage(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("FILE:///tmp/a", "/tmp/a"),
        ("File://LOCALHOST/tmp/a", "/tmp/a"),
        ("file:///tmp/a%23b%3Fc", "/tmp/a#b?c"),
        ("/tmp/a#b?c", "/tmp/a#b?c"),
        ("//[a/b", "//[a/b"),
    ],
)
def test_a_storage_is_the_folder_that_is_written(text, path):
    assert FileSystemCheckpointStorage(text).get_checkpoint_path() == path


@pytest.mark.parametrize("wrong", [None, 7, b"/tmp/a"])
def test_what_is_no_path_is_no_storage(wrong):
    with pytest.raises(sfkv.ConfigError, match="checkpoint_path"):
        FileSystemCheckpointStorage(wrong)


def test_a_relative_path_is_one(tmp_path):
    assert FileSystemCheckpointStorage(Path("chk")).get_checkpoint_path() == "chk"
