"""Files of rows, as FORMAT.md section 7 has them; see test_golden.py.

Libraries compress differently, so what is compared with the golden text are the rows; and ``rows_file.bin``, which was written
once, must be read for ever.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

import sfkv
from sfkv._store import STORE_ROW
from tests.backends import new_backend
from tests.golden import rows_file
from tests.golden.test_golden import HERE, compare

WRITTEN = HERE / "rows_file.bin"
MARKER = "sfkv store\nformat 2\nstate clean\npid 1\nkind memory\n"
SEED = 17


def fill(keyed: sfkv.KeyedStateBackend) -> None:
    """Something of every kind, by names that sort as they are made."""
    keys = [f"user {n}" for n in range(6)]
    keyed.value_state("a number", int).put_many(keys, range(6))
    keyed.value_state("b record", {"n": int, "text": str | None}).put_many(keys[:2], [(1, "one"), (2, None)])
    keyed.list_state("c list", str).add_many([*keys[:2], keys[0]], ["x", "", "y" * 200])
    keyed.map_state("d map", int, str).put_many([keys[0]] * 3, [1, -1, 0], ["one", None, ""])
    keyed.table("e table", {"end": int, "user": str}, int, group_by="user").put_many([(2, keys[0]), (1, keys[0])], [2, 1])
    keyed.value_state("f zeros", bytes).put(keys[5], bytes(3000))
    keyed.cells.set("watermark", 5)
    keyed.payloads.replace({0: b"", 299: b"last"})
    with keyed.batch(offset={"p": 1}):
        pass


def text(key: bytes, value: bytes) -> str:
    """A row as a line."""
    if value.startswith(b"{"):
        return f"{key.hex(' ')} | {value.decode()}"
    is_long = len(value) > 100 and len(set(value)) == 1
    return f"{key.hex(' ')} | " + (f"{len(value)} times {value[:1].hex()}" if is_long else value.hex(" "))


def shown(content: bytes) -> list[str]:
    return [text(key, value) for key, value in rows_file.read_rows(content)]


def test_the_rows_of_a_file_are_as_they_were(tmp_path):
    with new_backend("memory").open(tmp_path / "s", key=str, max_parallelism=300) as keyed:
        fill(keyed)
        taken = keyed.snapshot(1, tmp_path / "chk").result()
    content = (tmp_path / "s" / "ROWS").read_bytes()
    assert (taken.path / "ROWS").read_bytes() == content
    compare("rows_file.txt", shown(content))
    if os.environ.get("SFKV_REWRITE_GOLDEN") == "1":
        WRITTEN.write_bytes(content)


@pytest.mark.parametrize("layout", ["rows", "rocksdb"])
def test_a_file_that_was_written_once_is_read(tmp_path, layout):
    (tmp_path / "s").mkdir()
    shutil.copyfile(WRITTEN, tmp_path / "s" / "ROWS")
    (tmp_path / "s" / "SFKV").write_text(MARKER)
    with new_backend("memory").open(tmp_path / "s") as keyed:
        assert list(keyed.payloads) == [(0, b""), (299, b"last")]
        assert (keyed.cells["watermark"], keyed.offset) == (5, {"p": 1})
        assert keyed.value_state("f zeros", bytes).get("user 5") == bytes(3000)
        taken = keyed.snapshot(1, tmp_path / "chk").result()
    with new_backend({"rows": "memory", "rocksdb": "rocksdb"}[layout]).restore(tmp_path / "r", taken) as restored:
        assert dict(restored.map_state("d map", int, str)["user 0"]) == {-1: None, 0: "", 1: "one"}
        assert shown(WRITTEN.read_bytes()) == sorted_rows(restored)


def sorted_rows(keyed: sfkv.KeyedStateBackend) -> list[str]:
    """The rows of a store as of a file: its own first."""
    rows = keyed._store.read_range(b"", b"\xff\xff\xff")
    return [text(key, value) for key, value in sorted(rows.items(), key=lambda row: (row[0] < STORE_ROW, row[0]))]


def test_a_large_file_is_blocks_of_sorted_rows(tmp_path):
    """A key group takes as many as it needs, and rows of all lengths go in and out."""
    rng = random.Random(SEED)
    with new_backend("memory").open(tmp_path / "s", key=int, max_parallelism=3) as keyed:
        state, lists = keyed.value_state("v", bytes), keyed.list_state("l", bytes)
        state.put_many(range(500), [rng.randbytes(rng.choice([0, 1, 100, 20_000])) for _ in range(500)])
        state.put(1000, rng.randbytes(3 << 20))
        lists.add_many([key % 50 for key in range(5000)], [bytes(key % 200) for key in range(5000)])
        expected = keyed._store.read_range(b"", b"\xff\xff")
    content = (tmp_path / "s" / "ROWS").read_bytes()
    blocks = rows_file.read_blocks(content)
    groups = [group for group, _ in blocks]
    assert groups == [0xFFFF, *sorted(groups[1:])]
    assert len(blocks) > 6
    for (group, block), following in zip(blocks[1:], [*groups[2:], None], strict=True):
        assert len(block) >= 1 << 20 or group != following
    rows = rows_file.read_rows(content)
    own = [row for row in rows if row[0].startswith(b"\xff\xff")]
    assert rows[len(own) :] == sorted(expected.items())


def test_the_marker_of_a_directory_in_memory(tmp_path):
    new_backend("memory").open(tmp_path / "s", key=str).close()
    assert (tmp_path / "s" / "SFKV").read_text() == MARKER.replace("pid 1", f"pid {os.getpid()}")
    assert sorted(path.name for path in Path(tmp_path / "s").iterdir()) == ["LOCK", "ROWS", "SFKV"]
