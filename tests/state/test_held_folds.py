"""What single calls add to folds is held back for a moment, and nobody can tell: not what is read, nor the order of writes."""

import random

import pytest

import sfkv

KEYS = list(range(300))


@pytest.fixture
def keyed(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        yield keyed


@pytest.fixture
def sums(keyed):
    return keyed.reducing_state("s", int, "sum")


def held(keyed):
    return keyed._store.held_rows


def add_all(keyed, sums, times=3):
    for _ in range(times):
        for key in KEYS:
            sums.add(key, key)
    assert held(keyed) == len(KEYS)
    return [times * key for key in KEYS]


READS = {
    "get": lambda keyed, sums: [sums.get(key) for key in KEYS],
    "get_many": lambda keyed, sums: sums.get_many(KEYS).to_pylist(),
    "scan": lambda keyed, sums: [
        row["value"] for row in sorted(sums.scan().to_arrow().to_pylist(), key=lambda row: row["key"])
    ],
    "contains": lambda keyed, sums: [sums.get(key) if key in sums else None for key in KEYS],
    "contains_many": lambda keyed, sums: [
        sums.get(key) if there else None for key, there in zip(KEYS, sums.contains_many(KEYS).to_pylist(), strict=True)
    ],
    "get in a batch": lambda keyed, sums: in_a_batch(keyed, lambda: [sums.get(key) for key in KEYS]),
    "several": lambda keyed, sums: [sums.get(key) for key in KEYS[:150]] + sums.get_many(KEYS[150:]).to_pylist(),
}


def in_a_batch(keyed, read):
    with keyed.batch():
        return read()


@pytest.mark.parametrize("read", READS)
def test_every_read_sees_what_is_held(keyed, sums, read):
    expected = add_all(keyed, sums)
    assert READS[read](keyed, sums) == expected
    assert held(keyed) == 0


def test_reads_of_other_tables_need_not_wait_for_it(keyed, sums):
    other, entries = keyed.value_state("v", int), keyed.map_state("m", int, int)
    other.put_many(KEYS, KEYS)
    add_all(keyed, sums)
    assert [other.get(key) for key in KEYS] == KEYS
    assert other.get_many(KEYS).to_pylist() == KEYS
    assert other.scan().to_arrow().num_rows == len(KEYS)
    assert entries.is_empty(1)
    assert dict(entries[1]) == {}
    assert entries.items_many(KEYS).to_pylist() == [[]] * len(KEYS)
    assert held(keyed) == len(KEYS)


WRITES = {
    "put": lambda keyed: keyed.value_state("v", int).put(1, 1),
    "put_many": lambda keyed: keyed.value_state("v", int).put_many(KEYS, KEYS),
    "clear": lambda keyed: keyed.value_state("v", int).clear(1),
    "add to a list": lambda keyed: keyed.list_state("l", int).add(1, 1),
    "map": lambda keyed: keyed.map_state("m", int, int).put(1, 1, 1),
    "cells": lambda keyed: keyed.cells.set("c", 1),
    "payloads": lambda keyed: keyed.payloads.set(0, b"p"),
    "batch": lambda keyed: in_a_batch(keyed, lambda: keyed.value_state("v", int).put(1, 1)),
    "add_many": lambda keyed: keyed.reducing_state("t", int, "sum").add_many([1], [1]),
    "drop another": lambda keyed: keyed.drop_state("v"),
    "flush": lambda keyed: keyed._store.flush(),
    "compact": lambda keyed: keyed.compact(),
}


@pytest.mark.parametrize("write", WRITES)
def test_the_order_of_writes_stays(tmp_path, write):
    """After a crash there is a prefix of the writes: what was added before a write that is there is there too."""
    keyed = sfkv.open(tmp_path / "s", key=int)
    keyed.value_state("v", int)
    sums = keyed.reducing_state("s", int, "sum")
    expected = add_all(keyed, sums)
    WRITES[write](keyed)
    assert held(keyed) == 0
    keyed._store.flush()
    sums.add(1, 1000)  # held, and lost
    keyed.close(discard=True)
    with sfkv.open(tmp_path / "s", recover=True) as again:
        assert again.reducing_state("s", int, "sum").get_many(KEYS).to_pylist() == expected


def test_what_is_held_is_closed_and_taken_in_snapshots(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        sums = keyed.reducing_state("s", int, "sum")
        expected = add_all(keyed, sums)
        snapshot = keyed.snapshot(1, tmp_path / "chk").result()
        add_all(keyed, sums, times=1)
    with sfkv.open(tmp_path / "s") as keyed:
        assert keyed.reducing_state("s", int, "sum").get_many(KEYS).to_pylist() == [4 * key for key in KEYS]
    with sfkv.EmbeddedRocksDBStateBackend().restore(tmp_path / "r", snapshot) as keyed:
        assert keyed.reducing_state("s", int, "sum").get_many(KEYS).to_pylist() == expected


def test_many_keys_and_many_adds(keyed):
    """More than are held at a time, of several folds and tables, and a key that is added to all the time."""
    rng = random.Random(5)
    states = {
        "sum": keyed.reducing_state("s", int, "sum"),
        "max": keyed.reducing_state("x", int, "max"),
        "count": keyed.aggregating_state("c", int, "count"),
        "mean": keyed.aggregating_state("a", int, "mean"),
    }
    added = {name: {} for name in states}
    for _ in range(60_000):
        name = rng.choice(list(states))
        key, value = rng.choice([3, rng.randrange(10_000)]), rng.randrange(-1000, 1000)
        states[name].add(key, value)
        added[name].setdefault(key, []).append(value)
    folds = {"sum": sum, "max": max, "count": len, "mean": lambda values: sum(values) / len(values)}
    for name, state in states.items():
        assert state.get_many(list(added[name])).to_pylist() == [folds[name](values) for values in added[name].values()]


def test_adds_between_other_calls_are_not_held_for_nothing(keyed, sums):
    other = keyed.value_state("v", int)
    for turn in range(40):
        sums.add(7, 1)
        other.put(7, turn)
    sums.add(7, 1)
    assert held(keyed) == 0
    for key in range(2000):
        sums.add(key, 0)
    assert held(keyed) > 0  # and are again
    assert sums.get(7) == 41


def test_a_state_that_is_dropped_takes_what_is_held_with_it(keyed, sums):
    add_all(keyed, sums)
    keyed.drop_state("s")
    again = keyed.reducing_state("s", int, "max")
    again.add(5, 2)
    assert again.get_many([4, 5]).to_pylist() == [None, 2]


def test_a_row_that_is_damaged_hinders_only_who_reads_it(tmp_path):
    """Frequent keys are read when what is held is written: what cannot be read then is added to all the same."""
    with sfkv.open(tmp_path / "s", key=int, max_parallelism=1) as keyed:
        keyed.reducing_state("s", int, "sum").add_many(range(20_000), range(20_000))
        keyed.compact()
    for file in (tmp_path / "s").glob("*.sst"):
        content = bytearray(file.read_bytes())
        if len(content) > 100_000:
            content[1000:90_000] = bytes(89_000)
            file.write_bytes(content)
    with sfkv.open(tmp_path / "s") as keyed:
        sums, other = keyed.reducing_state("s", int, "sum"), keyed.value_state("v", int)
        for turn in range(40):
            for key in KEYS:
                sums.add(key, 1)
            other.put(turn, turn)
        assert held(keyed) == 0
        with pytest.raises(sfkv.CorruptionError):
            sums.get_many(KEYS)
        assert other.get_many(range(40)).to_pylist() == list(range(40))
        assert sums.get(19_999) == 19_999


def test_a_close_that_finds_no_memory_leaves_the_store_open(run_python):
    """Named in .ci/asan: a sanitizer needs more of the address space than this leaves."""
    run_python(
        """
        import ctypes, resource, sfkv
        keyed = sfkv.open(STORE, key=str)
        sums = keyed.reducing_state("s", int, "sum")
        sums.add_many(["a"], [1])
        keyed._store.flush()
        for number in range(4000):
            sums.add("k" * 230 + str(number), 1)
        assert keyed._store.held_rows == 4000
        with open("/proc/self/statm") as statm:
            taken = int(statm.read().split()[0]) * resource.getpagesize()
        unlimited = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (taken + (64 << 10), unlimited[1]))
        malloc = ctypes.CDLL(None).malloc
        malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
        while malloc(256 << 10):  # what the process has, and does not use
            pass
        try:
            keyed.close()
        except MemoryError:
            refused = True
        else:
            refused = False
        resource.setrlimit(resource.RLIMIT_AS, unlimited)
        assert refused and not keyed.closed
        assert sums.get("a") == 1
        keyed.close()
        with sfkv.open(STORE) as again:
            sums = again.reducing_state("s", int, "sum")
            assert sums.get("a") == 1
            assert sums.get_many(["k" * 230 + str(number) for number in range(4000)]).to_pylist() == [1] * 4000
        """
    )
