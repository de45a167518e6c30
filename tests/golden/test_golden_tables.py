"""The bytes of tables, as FORMAT.md sections 2, 3 and 5 have them; see test_golden.py."""

from __future__ import annotations

import struct

import sfkv
from tests.golden.test_golden import compare


def store(path):
    """Every row of a store with tables."""
    with sfkv.open(path, key=str, max_parallelism=300) as keyed:
        by_user = keyed.table("by user", {"end": int, "user": str}, int, group_by="user")
        by_user.put_many({"end": [1, -1], "user": ["hello", "\U0001f600"]}, [7, 8])
        swapped = keyed.table("swapped", {"a": str | None, "end": int, "b": float}, bytes, group_by=("b", "a"))
        swapped.put_many([("x", 1, 1.5), (None, 2, -0.0)], [b"v", b""])
        keyed.table("all", {"a": str, "b": int}, {"n": int, "text": str | None}).put(("", 0), {"n": 1, "text": None})
        keyed.table("plain", int, bool).put(5, True)
        for key, value in sorted(keyed._store.read_range(b"", b"\xff\xff\xff").items()):
            yield f"{key.hex(' ')} | {value.decode() if value.startswith(b'{') else value.hex(' ')}"


def test_a_store_with_tables_is_as_it_was(tmp_path):
    compare("tables.txt", store(tmp_path / "s"))


def test_a_tables_key_by_hand(tmp_path):
    """The key group is that of "hello", whatever the moment; the row begins with the moment."""
    with sfkv.open(tmp_path / "s", key=int, max_parallelism=4096) as keyed:
        keyed.table("t", {"end": int, "user": str}, int, group_by="user").put((-1, "hello"), 5)
        rows = keyed._store.read_range(b"", b"\xff\xff")
    assert rows == {(2723).to_bytes(2, "big") + b"\x00" + b"\x7f" + b"\xff" * 7 + b"hello\0\0": struct.pack("<q", 5)}
