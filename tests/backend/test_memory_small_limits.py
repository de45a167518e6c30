"""memory_limit: offsets count in their writes, and limits of a few pages hold."""

import random

import numpy as np
import pytest

import sfkv

pytestmark = pytest.mark.only("memory", reason="the file is about it")

LIMIT = 400_000


def limited(limit=LIMIT, max_parallelism=8):
    return sfkv.HashMapStateBackend(memory_limit=limit).open(None, key=int, max_parallelism=max_parallelism)


class States:
    def __init__(self, keyed):
        self.keyed = keyed
        self.numbers, self.lists = keyed.value_state("n", int), keyed.list_state("l", bytes)
        self.maps = keyed.map_state("m", int, bytes)
        self.table = keyed.table("t", {"end": int, "user": int}, int, group_by="user")
        self.sums, self.sets = keyed.reducing_state("sum", int, "sum"), keyed.aggregating_state("set", bytes, "count_distinct")

    def fill(self):
        keys = np.arange(50)
        self.lists.add_many(keys, [b"y"] * 50)
        self.maps.put_many(keys % 5, keys, [b"z"] * 50)
        self.table.put_many({"end": keys, "user": keys}, keys)
        self.numbers.put_many(keys, keys, offset="before")

    def contents(self):
        states = (self.numbers, self.lists, self.maps, self.table, self.sums, self.sets)
        return [state.scan().to_arrow() for state in states], self.keyed.offset


WITH_AN_OFFSET = {
    "put_many": lambda s, offset: s.numbers.put_many([1], [7], offset=offset),
    "clear_many": lambda s, offset: s.numbers.clear_many([1], offset=offset),
    "add_many": lambda s, offset: s.lists.add_many([1], [b"7"], offset=offset),
    "update_many": lambda s, offset: s.lists.update_many([1], [[b"7"]], offset=offset),
    "put_many of a map": lambda s, offset: s.maps.put_many([1], [7], [b"7"], offset=offset),
    "delete_many of a map": lambda s, offset: s.maps.delete_many([1], [1], offset=offset),
    "clear_many of a map": lambda s, offset: s.maps.clear_many([1], offset=offset),
    "add_many of a sum": lambda s, offset: s.sums.add_many([1], [7], offset=offset),
    "add_many of a set": lambda s, offset: s.sets.add_many([1], [b"7"], offset=offset),
    "put_many of a table": lambda s, offset: s.table.put_many({"end": [7], "user": [7]}, [7], offset=offset),
    "delete_range": lambda s, offset: s.table.delete_range(None, 30, offset=offset),
    "bundle": lambda s, offset: write_a_bundle(s, offset),
    "batch": lambda s, offset: write_a_batch(s, offset),
}


def write_a_bundle(states, offset):
    with states.numbers.bundle([1], offset=offset) as rows:
        rows[1] = 7


def write_a_batch(states, offset):
    with states.keyed.batch(offset=offset):
        states.numbers.put(1, 7)


@pytest.mark.parametrize("way", WITH_AN_OFFSET)
def test_an_offset_counts_in_its_write(way):
    """It did not: ten times the limit came to be used."""
    with limited() as keyed:
        states = States(keyed)
        states.fill()
        before = states.contents()
        for length in (LIMIT, 10_000_000):
            with pytest.raises(sfkv.LimitError):
                WITH_AN_OFFSET[way](states, "x" * length)
            assert states.contents() == before
            assert keyed.used_bytes <= LIMIT
        if way != "batch":
            with keyed.batch():
                keyed.cells.set("in the batch", 1)
                with pytest.raises((sfkv.LimitError, sfkv.UsageError)):  # an offset is the batch's own
                    WITH_AN_OFFSET[way](states, "x" * 10_000_000)
            assert keyed.cells["in the batch"] == 1
        WITH_AN_OFFSET[way](states, "x" * 1000)
        assert keyed.offset == "x" * 1000


@pytest.mark.parametrize("limit", [5_000, 10_000, 20_000, 40_000, 150_000])
def test_no_limit_is_passed_by_what_refused_writes_leave(limit):
    """Of a small one the share that is kept for that was less than a page."""
    rng = random.Random(limit)
    for _ in range(3):
        with limited(limit, max_parallelism=2) as keyed:
            assert keyed.used_bytes <= limit // 2  # room for rows
            states = (keyed.value_state("v", bytes), keyed.value_state("f", int))
            refused = 0
            for _ in range(300):
                keys = [rng.randrange(limit // 20) for _ in range(rng.randrange(1, 400))]
                try:
                    if rng.randrange(4) == 0:
                        rng.choice(states).clear_many(keys)
                    elif rng.randrange(2):
                        states[0].put_many(keys, [bytes(rng.randrange(60))] * len(keys))
                    else:
                        states[1].put_many(keys, keys)
                except sfkv.LimitError:
                    refused += 1
                assert keyed.used_bytes <= limit
            assert refused > 10
