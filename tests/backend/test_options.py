"""What options are given as: what cannot be is refused before anything is made, and NumPy's integers are whole numbers."""

from pathlib import Path

import numpy as np
import pytest

import sfkv
from tests.backends import new_backend

pytestmark = pytest.mark.backends


@pytest.mark.parametrize("path", ["a\0b", "a\ud800"])
def test_what_no_file_can_be_called_is_no_path(keyed, tmp_path, monkeypatch, path):
    """A C string ends at the NUL: the directory was another one than was asked for."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    taken = keyed.snapshot(1, tmp_path / "chk").result()
    for call in (
        lambda: sfkv.open(path, key=str),
        lambda: sfkv.open(Path(path), key=str),
        lambda: new_backend().restore(path, taken),
        lambda: new_backend().restore("r", path),
        lambda: keyed.snapshot(2, path),
        lambda: sfkv.list_snapshots(path),
    ):
        with pytest.raises(sfkv.ConfigError, match="no file is called so"):
            call()
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "chk"])


@pytest.mark.parametrize("storage", [None, 5, b"chk", ["chk"]])
def test_what_is_no_path_is_no_storage(keyed, storage):
    for call in (lambda: keyed.snapshot(1, storage), lambda: sfkv.list_snapshots(storage)):
        with pytest.raises(sfkv.ConfigError, match="storage is .*: pass the folder"):
            call()


@pytest.mark.parametrize("options", [{"key_groups": (5, 3)}, {"key_groups": (0, 128)}, {"max_parallelism": 0}])
def test_a_store_that_cannot_be_is_not_begun(keyed, tmp_path, options):
    taken = keyed.snapshot(1, tmp_path / "chk").result()
    with pytest.raises(sfkv.ConfigError, match=next(iter(options))):
        sfkv.open(tmp_path / "s", key=str, **options)
    assert not (tmp_path / "s").exists()
    (tmp_path / "s").mkdir()
    with pytest.raises(sfkv.ConfigError, match=next(iter(options))):
        sfkv.open(tmp_path / "s", key=str, **options)
    new_backend().restore(tmp_path / "s", taken).close()
    with sfkv.open(tmp_path / "wide", key=str, max_parallelism=1000, key_groups=(500, 600)):
        pass
    with sfkv.open(tmp_path / "wide", key_groups=(500, 600)) as wide:  # the store knows of how many
        assert wide.key_groups == (500, 600)


def test_numpys_integers_are_whole_numbers(tmp_path):
    number = np.int64(3)
    with sfkv.open(tmp_path / "s", key=str, max_parallelism=np.uint8(8), key_groups=(np.int32(2), number)) as keyed:
        assert (keyed.max_parallelism, keyed.key_groups) == (8, (2, 3))
        keyed.cells.set("cell", number)
        keyed.payloads.set(number, b"payload")
        keyed.payloads.replace({number: b"new"})
        assert (keyed.cells.get("cell"), keyed.payloads.get(number)) == (3, b"new")
        with keyed.batch(offset={"partition": number, "at": [np.uint64(1 << 63)]}):
            pass
        assert keyed.offset == {"partition": 3, "at": [1 << 63]}
        assert type(keyed.offset["partition"]) is int
        taken = keyed.snapshot(number, tmp_path / "chk", metadata=number).result()
        assert (taken.id, taken.path.name, taken.metadata) == (3, "chk-3", 3)
        assert sfkv.key_groups(["a"], np.int64(8)).to_pylist() == sfkv.key_groups(["a"], 8).to_pylist()
        for wrong in (True, np.True_, np.float64(3), "3", None):
            with pytest.raises(sfkv.UsageError):
                keyed.snapshot(wrong, tmp_path / "chk")
            with pytest.raises(sfkv.KeyGroupError):
                keyed.payloads.get(wrong)
        for wrong in (True, np.True_):
            with pytest.raises(sfkv.SchemaError):
                keyed.cells.set("cell", wrong)
