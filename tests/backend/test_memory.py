"""What is the memory backend's own: its directory, what is left of it after a crash, and its memory."""

import gc
import os
import random

import numpy as np
import pytest

import sfkv

pytestmark = pytest.mark.only("memory", reason="the file is about it")

BACKEND = sfkv.HashMapStateBackend()


def fill(keyed, count=1000):
    """Something of every kind, in pages and in cells, short and long."""
    keys = np.arange(count)
    keyed.value_state("v", int).put_many(keys, keys * 2)
    keyed.value_state("text", str).put_many(keys, [f"text {key}" * (key % 9) for key in range(count)])
    keyed.list_state("l", int).add_many(np.repeat(keys, 3), np.arange(3 * count))
    keyed.map_state("m", int, float).put_many(keys // 10, keys, keys / 2)
    table = keyed.table("t", {"end": int, "user": int}, {"n": int, "s": str | None}, group_by="user")
    table.put_many({"end": keys % 50, "user": keys}, [{"n": key, "s": None if key % 2 else "x" * 200} for key in range(count)])
    keyed.cells.set("c", 7)
    keyed.cells.set("blob", b"\xff" * 1000, merge="union")
    keyed.payloads.replace({0: b"zero", 127: bytes(5000)})


def contents(keyed):
    states = [
        *(keyed.value_state("v", int), keyed.value_state("text", str), keyed.list_state("l", int)),
        *(keyed.map_state("m", int, float), keyed.table("t", {"end": int, "user": int}, {"n": int, "s": str | None},
          group_by="user")),
    ]  # fmt: skip
    cells = {name: (keyed.cells[name], keyed.cells.rule(name)) for name in keyed.cells}
    return [state.scan().to_arrow().to_pylist() for state in states], cells, list(keyed.payloads), keyed.offset


def without(keyed):
    """What a store uses that holds nothing but its registry."""
    return keyed._store.used_bytes


# --- Opening and closing.


def test_state_without_a_directory_ends_with_close(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with BACKEND.open(None, key=int) as keyed:
            assert keyed.states == {}
            assert keyed.path == "memory"
            fill(keyed)
            taken = keyed.snapshot(1, tmp_path / f"chk-{_}").result()
            expected = contents(keyed)
        assert keyed.closed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chk-0", "chk-1"]
    with BACKEND.restore(None, taken) as keyed:
        assert contents(keyed) == expected
    with pytest.raises(sfkv.ConfigError, match="pass key="):
        BACKEND.open(None)


def test_a_directory_holds_the_state_while_it_is_closed(tmp_path):
    with BACKEND.open(tmp_path / "a" / "s", key=int, max_parallelism=200, key_groups=(0, 199)) as keyed:
        fill(keyed)
        with keyed.batch(offset={"p": 5}):
            pass
        expected = contents(keyed)
        assert not (tmp_path / "a" / "s" / "ROWS").exists()
    for _ in range(3):
        assert sorted(path.name for path in (tmp_path / "a" / "s").iterdir()) == ["LOCK", "ROWS", "SFKV"]
        with BACKEND.open(tmp_path / "a" / "s") as keyed:
            assert contents(keyed) == expected
            assert (keyed.max_parallelism, keyed.key_groups, keyed.offset) == (200, (0, 199), {"p": 5})
            assert keyed.slot is None


def test_what_was_not_closed_holds_what_it_was_last_closed_with(tmp_path):
    path = tmp_path / "s"
    with BACKEND.open(path, key=int) as keyed:
        keyed.value_state("v", int).put(1, 1)
    for turn in range(3):
        keyed = BACKEND.open(path, recover=turn > 0)
        state = keyed.value_state("v", int)
        assert state.get_many([1, 2]).to_pylist() == [1, None]
        state.put_many([1, 2], [5, 5])
        keyed._store.flush()
        keyed.snapshot(turn, tmp_path / "chk").result()
        keyed.close(discard=True)
        with pytest.raises(sfkv.UncleanError, match="recover=True"):
            BACKEND.open(path)
    with BACKEND.open(path, recover=True) as keyed:
        assert keyed.value_state("v", int).get_many([1, 2]).to_pylist() == [1, None]


def test_a_killed_process_leaves_what_the_directory_was_last_closed_with(tmp_path, run_python):
    program = """
        import os, sfkv
        keyed = sfkv.HashMapStateBackend().open(STORE, key=int)
        state = keyed.value_state("v", int)
        state.put(state.get(1) or 1, 1)
        keyed.close() if CLOSES else None
        keyed = sfkv.HashMapStateBackend().open(STORE, recover=not CLOSES)
        keyed.value_state("v", int).put_many(range(100), range(100))
        os.kill(os.getpid(), 9)
    """
    run_python(program, CLOSES=True, expect=-9)
    with BACKEND.open(tmp_path / "store", recover=True) as keyed:
        assert keyed.value_state("v", int).scan().to_arrow().to_pylist() == [{"key": 1, "value": 1}]


def test_what_was_made_and_never_closed_is_empty(tmp_path):
    BACKEND.open(tmp_path / "s", key=int).close(discard=True)
    with pytest.raises(sfkv.ConfigError, match="pass key="):
        BACKEND.open(tmp_path / "s", recover=True)
    with BACKEND.open(tmp_path / "s", key=str, recover=True) as keyed:
        assert keyed.states == {}


def test_the_directory_of_the_other_backend_is_refused_by_name(tmp_path):
    rocksdb = sfkv.EmbeddedRocksDBStateBackend()
    rocksdb.open(tmp_path / "r", key=int).close()
    BACKEND.open(tmp_path / "m", key=int).close()
    before = {file: file.read_bytes() for folder in "rm" for file in (tmp_path / folder).iterdir()}
    for backend, path, name in ((BACKEND, "r", "EmbeddedRocksDBStateBackend"), (rocksdb, "m", "HashMapStateBackend")):
        for options in ({}, {"key": int}, {"recover": True}):
            with pytest.raises(sfkv.FormatError, match=f"is a store of {name}") as raised:
                backend.open(tmp_path / path, **options)
            assert raised.value.path == str(tmp_path / path)
    assert {file: file.read_bytes() for folder in "rm" for file in (tmp_path / folder).iterdir()} == before
    rocksdb.open(tmp_path / "r").close()
    BACKEND.open(tmp_path / "m").close()


def test_what_cannot_be_opened_stays_as_it_was(tmp_path):
    with BACKEND.open(tmp_path / "s", key=int) as keyed:
        fill(keyed)
    rows = (tmp_path / "s" / "ROWS").read_bytes()
    attempts = {
        sfkv.SchemaError: {"key": str},
        sfkv.FormatError: {"max_parallelism": 7},
        sfkv.KeyGroupError: {"key_groups": (0, 5)},
        sfkv.ConfigError: {"slot": "64MB"},
    }
    for error, options in attempts.items():
        with pytest.raises(error):
            BACKEND.open(tmp_path / "s", **options)
        assert "state clean" in (tmp_path / "s" / "SFKV").read_text()
    with pytest.raises(sfkv.LimitError, match="memory_limit=10000 bytes"):
        sfkv.HashMapStateBackend(memory_limit=10_000).open(tmp_path / "s")
    assert (tmp_path / "s" / "ROWS").read_bytes() == rows
    BACKEND.open(tmp_path / "s").close()
    BACKEND.open(tmp_path / "s").close(discard=True)
    with pytest.raises(sfkv.SchemaError):
        BACKEND.open(tmp_path / "s", key=str, recover=True)
    with pytest.raises(sfkv.UncleanError):
        BACKEND.open(tmp_path / "s")


def test_a_restore_that_fails_leaves_the_target_as_it_was(tmp_path):
    with BACKEND.open(None, key=int) as keyed:
        fill(keyed)
        taken = keyed.snapshot(1, tmp_path / "chk").result()
    (tmp_path / "empty").mkdir()
    small = sfkv.HashMapStateBackend(memory_limit="20KB")
    for path in ("missing", "empty"):
        with pytest.raises(sfkv.LimitError):
            small.restore(tmp_path / path, taken)
    assert not (tmp_path / "missing").exists()
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("limit", [0, -1, "many", "1.5GB", True, 1.5])
def test_bad_limits_are_refused(limit):
    with pytest.raises(sfkv.ConfigError, match="memory_limit"):
        sfkv.HashMapStateBackend(memory_limit=limit)


# --- Memory.


def test_memory_is_given_back_by_every_way_of_removing(tmp_path):
    with BACKEND.open(None, key=int) as keyed:
        table = keyed.table("t", {"end": int, "user": int}, {"n": int, "s": str | None}, group_by="user")
        states = [keyed.value_state("v", int), keyed.value_state("text", str), keyed.list_state("l", int)]
        states.append(keyed.map_state("m", int, float))
        keys = list(range(1000))
        for cell in list(keyed.cells):
            keyed.cells.delete(cell)
        empty = without(keyed)
        ways = {
            "one by one": lambda: [state.clear(key) for state in states for key in keys],
            "by a batch": lambda: [state.clear_many(keys) for state in states],
            "by a batch of None": lambda: [
                states[0].put_many(keys, [None] * 1000), states[1].put_many(keys, [None] * 1000),
                states[2].update_many(keys, [None] * 1000), states[3].delete_many([key // 10 for key in keys], keys),
            ],
        }  # fmt: skip
        for way in ways.values():
            fill(keyed)
            assert keyed._store.used_bytes > empty + 100_000
            way()
            table.delete_range(None, 25)
            table.delete_many({"end": [key % 50 for key in keys], "user": keys})
            keyed.cells.delete("c")
            keyed.cells.delete("blob")
            keyed.payloads.replace({})
            assert keyed._store.used_bytes <= empty + 8192  # the table that payloads are in
        fill(keyed)
        for name in list(keyed.states):
            keyed.drop_state(name)
        keyed.payloads.replace({})
        keyed.cells.delete("c")
        keyed.cells.delete("blob")
        assert keyed._store.used_bytes <= empty + 8192
        assert keyed._store.kept_bytes == 0
        store = keyed._store
        fill(keyed)
    assert (store.used_bytes, store.kept_bytes) == (0, 0)


def test_what_is_used_does_not_depend_on_the_past(tmp_path):
    """After random writes and removals a store uses about what one uses that was filled with the same rows at once."""
    rng = random.Random(5)
    print("seed 5")
    with BACKEND.open(None, key=int, max_parallelism=4) as keyed, BACKEND.open(None, key=int, max_parallelism=4) as fresh:
        rows = {}
        for backend in (keyed, fresh):
            backend.value_state("v", bytes)
            backend.map_state("m", int, bytes)
        state, maps = keyed.value_state("v", bytes), keyed.map_state("m", int, bytes)
        for _ in range(300):
            keys = [rng.randrange(3000) for _ in range(rng.choice([1, 10, 200]))]
            if rng.random() < 0.45:
                state.clear_many(keys)
                maps.delete_many([key % 7 for key in keys], keys)
                for key in keys:
                    rows.pop(key, None)
            else:
                values = [rng.randbytes(rng.choice([0, 5, 60, 300])) for _ in keys]
                state.put_many(keys, values)
                maps.put_many([key % 7 for key in keys], keys, values)
                rows.update(zip(keys, values, strict=True))
        fresh.value_state("v", bytes).put_many(list(rows), list(rows.values()))
        fresh.map_state("m", int, bytes).put_many([key % 7 for key in rows], list(rows), list(rows.values()))
        assert fresh._store.used_bytes * 0.5 < keyed._store.used_bytes < fresh._store.used_bytes * 2
        state.clear_many(list(rows))
        maps.clear_many(list(range(7)))
        fresh.value_state("v", bytes).clear_many(list(rows))
        fresh.map_state("m", int, bytes).clear_many(list(range(7)))
        assert keyed._store.used_bytes == fresh._store.used_bytes


def test_what_is_used_is_what_the_process_has_taken(run_python):
    """Roughly: what a process occupies grows and shrinks with what the store says."""
    run_python(
        """
        import numpy as np, os, sfkv
        def occupied():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        keyed = sfkv.HashMapStateBackend().open(None, key=int)
        state, lists = keyed.value_state("v", int), keyed.list_state("l", int)
        keys = np.arange(500_000)
        for change in (lambda: lists.add_many(keys, keys), lambda: lists.clear_many(keys)):
            state.put_many(keys, keys)  # once before, for what Arrow and NumPy keep
            change()
            state.clear_many(keys)
        keyed.compact()
        before, counted = occupied(), keyed._store.used_bytes
        state.put_many(keys, keys)
        lists.add_many(keys, keys)
        keyed.compact()
        taken = occupied() - before
        used = keyed._store.used_bytes - counted
        assert used > 30 << 20, used
        assert 0.7 * used < taken < 1.8 * used, (used, taken)  # an allocation has a head that is not counted
        keyed.drop_state("l")
        state.clear_many(keys)
        keyed.compact()
        assert occupied() - before < taken / 5, (occupied() - before, taken)
        state.put_many(keys, keys)
        keyed.close()
        assert occupied() - before < taken / 5, (occupied() - before, taken)
        """
    )


def test_cells_payloads_and_the_offset_are_counted():
    with BACKEND.open(None, key=int) as keyed:
        before = keyed._store.used_bytes
        keyed.cells.set("c", bytes(100_000), merge="union")
        assert before + 100_000 <= keyed._store.used_bytes <= before + 101_000
        with keyed.batch(offset=bytes(50_000)):
            pass
        assert before + 150_000 <= keyed._store.used_bytes <= before + 152_000
        keyed.cells.set("c", b"", merge="union")
        assert keyed._store.used_bytes <= before + 52_000
        keyed.payloads.set(5, bytes(200_000))
        assert keyed._store.used_bytes >= before + 250_000
        keyed.payloads.set(5, None)
        keyed.cells.delete("c")
        assert keyed._store.used_bytes <= before + 60_000


def test_a_backend_that_was_dropped_gives_its_memory_back(tmp_path):
    keyed = BACKEND.open(tmp_path / "s", key=int)
    fill(keyed)
    with pytest.warns(ResourceWarning, match="was not closed"):
        del keyed
        gc.collect()
    assert os.path.getsize(tmp_path / "s" / "ROWS") > 10_000
    with BACKEND.open(tmp_path / "s") as keyed:
        assert keyed.value_state("v", int).get(999) == 1998


@pytest.mark.parametrize(
    ("first", "bound"), [(b"", b"\x01"), (b"", b"\x7f"), (b"\x01", b"\x02"), (b"\x00\x05", b"\x01\x00\x01")]
)
def test_a_range_between_keys_of_any_length_is_read_as_a_whole(first, bound):
    """A bound of one byte was taken for that of the first key group."""
    with sfkv.HashMapStateBackend().open(None, key=int, max_parallelism=1024) as keyed:
        for name in "ab":
            keyed.value_state(name, int).put_many(range(3000), range(3000))
        everything = keyed._store.read_range(b"", b"\xff\xff")
        assert len(everything) == 6000
        assert keyed._store.read_range(first, bound) == {key: row for key, row in everything.items() if first <= key < bound}
