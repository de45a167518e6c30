"""What scans and snapshots of state in memory see, while all that can be done to it is done."""

import gc
import queue
import random
import threading

import numpy as np
import pytest

import sfkv
from tests.backends import NAMES, new_backend

pytestmark = pytest.mark.only("memory", reason="the file is about it")

BACKEND = sfkv.HashMapStateBackend()
SEED = 23
RECORD = {"n": int, "text": str | None}


class States:
    """States whose rows lie in slots and in cells, in hash tables and in ordered ones; and what they hold, as dicts."""

    def __init__(self, keyed, seed=SEED):
        self.keyed = keyed
        self.rng = random.Random(seed)
        self.states = {
            "fixed": keyed.value_state("fixed", int),
            "short": keyed.value_state("short", RECORD),
            "long": keyed.value_state("long", bytes),
            "list": keyed.list_state("list", int),
            "entries": keyed.map_state("entries", int, int),
            "texts": keyed.map_state("texts", str, str),
            "ordered": keyed.table("ordered", {"end": int, "user": int}, int, group_by="user"),
            "records": keyed.table("records", {"end": int, "user": int}, bytes, group_by="user"),
        }
        self.rows = {name: {} for name in self.states}

    def value(self, name):
        number = self.rng.randrange(1000)
        return {
            "short": {"n": number, "text": "s" * (number % 30) if number % 3 else None},
            "long": bytes([number % 256]) * (number % 7 * 90),
            "texts": str(number) * (number % 50 + 1),
            "records": bytes([number % 256]) * (number % 5 * 60),
        }.get(name, number)

    def key(self, name):
        key, other = self.rng.randrange(300), self.rng.randrange(40)
        entries = {"entries": (key % 20, other), "texts": (key % 20, "u" * other)}
        return {**entries, "ordered": (other, key), "records": (other, key)}.get(name, key)

    def write(self):
        """One write to one state, of any kind."""
        name = self.rng.choice(list(self.states))
        state, rows = self.states[name], self.rows[name]
        keys = [self.key(name) for _ in range(self.rng.choice([1, 1, 5, 60]))]
        how = self.rng.choice(["put"] * 6 + ["delete"] * 3 + ["range", "clear"])
        if how == "put":
            self.put(name, state, rows, keys)
        elif how == "delete":
            if name in ("entries", "texts"):
                state.delete_many([key for key, _ in keys], [user_key for _, user_key in keys])
            else:
                (state.delete_many if name in ("ordered", "records") else state.clear_many)(keys)
            for key in keys:
                rows.pop(key, None)
        elif how == "range" and name in ("ordered", "records"):
            lower, upper = sorted(self.rng.sample(range(41), 2))
            state.delete_range(lower, upper)
            self.rows[name] = {key: value for key, value in rows.items() if not lower <= key[0] < upper}
        elif how == "range" and name in ("entries", "texts"):
            state.clear(keys[0][0])
            self.rows[name] = {key: value for key, value in rows.items() if key[0] != keys[0][0]}
        elif how == "clear" and self.rng.random() < 0.3:
            self.drop(name)

    def put(self, name, state, rows, keys):
        if name == "list":
            for key in keys:
                value = self.value(name)
                state.add(key, value)
                rows[key] = [*rows.get(key, []), value]
            return
        values = [self.value(name) for _ in keys]
        columns = ([key for key, _ in keys], [user_key for _, user_key in keys]) if name in ("entries", "texts") else (keys,)
        state.put_many(*columns, values)
        rows.update(zip(keys, values, strict=True))

    def drop(self, name):
        self.keyed.drop_state(name)
        self.states = States(self.keyed).states
        self.rows[name] = {}

    def fill(self, writes=200):
        for _ in range(writes):
            self.write()

    def scan(self, name, **options):
        return self.states[name].scan(batch_rows=self.rng.choice([1, 7, 1000]), **options), dict(self.rows[name])


def rows_of(name, table):
    columns = [column.to_pylist() for column in table.columns]
    width = len(columns) - (2 if name == "short" else 1)
    rows = {}
    for cells in zip(*columns, strict=True):
        key = cells[0] if width == 1 else cells[:width]
        rows[key] = dict(zip(RECORD, cells[width:], strict=True)) if name == "short" else cells[-1]
    return rows


def open_some(keyed, count=6):
    """Scans that begin at several moments, between writes."""
    states = States(keyed)
    states.fill()
    opened = []
    for _ in range(count):
        for name in states.states:
            opened.append((name, *states.scan(name)))
        states.fill(40)
    return states, opened


@pytest.mark.parametrize("order", ["first to last", "last to first", "any"])
def test_views_that_overlap_see_what_was_there_in_whatever_order_they_end(order):
    with BACKEND.open(None, key=int, max_parallelism=5) as keyed:
        states, opened = open_some(keyed)
        assert keyed._store.kept_bytes > 0
        if order == "last to first":
            opened.reverse()
        elif order == "any":
            states.rng.shuffle(opened)
        while opened:
            name, scan, rows = opened.pop(0)
            assert rows_of(name, scan.to_arrow()) == rows
            del scan
            states.fill(3)
        gc.collect()
        assert keyed._store.kept_bytes == 0
        for name in states.states:
            assert rows_of(name, states.scan(name)[0].to_arrow()) == states.rows[name]


def test_what_no_view_sees_any_more_is_not_kept_for_an_older_one():
    """While a snapshot is written for long, a job scans and writes: only what the snapshot sees may stay."""
    with BACKEND.open(None, key=int, max_parallelism=1) as keyed:
        state, table = keyed.value_state("v", bytes), keyed.table("t", int, int)
        state.put_many(range(50), [bytes(300)] * 50)
        table.put_many(range(50), range(50))
        old = state.scan()
        for turn in range(300):
            for newer in (state.scan(), table.scan()):
                state.put_many(range(50), [bytes([turn % 256]) * 300] * 50)
                table.put_many(range(50), range(turn, turn + 50))
                assert newer.schema is not None
            del newer
        gc.collect()
        assert keyed._store.kept_bytes < 3 * 50 * 300
        assert set(old.to_arrow()["value"].to_pylist()) == {bytes(300)}
        del old
        gc.collect()
        assert keyed._store.kept_bytes == 0


def test_views_may_be_dropped_half_read_or_not_begun_by_other_threads():
    handed = queue.Queue()

    def drop():
        while (scan := handed.get(timeout=60)) is not None:
            del scan

    threads = [threading.Thread(target=drop) for _ in range(2)]
    for thread in threads:
        thread.start()
    with BACKEND.open(None, key=int, max_parallelism=3) as keyed:
        states = States(keyed)
        states.fill()
        kept = []
        for turn in range(400):
            name = states.rng.choice(list(states.states))
            scan, rows = states.scan(name)
            if turn % 3 == 0:
                next(scan, None)
            if turn % 10 == 0:
                kept.append((name, scan, rows))
            else:
                handed.put(scan)
            del scan
            states.write()
        for name, scan, rows in kept:
            found = rows_of(name, scan.to_arrow())
            assert found.items() <= rows.items()
        del kept, scan
        for _ in threads:
            handed.put(None)
        for thread in threads:
            thread.join()
        gc.collect()
        assert keyed._store.kept_bytes == 0
        assert keyed._store.open_scans == 0


def test_a_view_outlives_a_change_of_its_tables_shape():
    """A state that is registered again with more columns has its rows moved, into slots of another form or into cells."""
    with BACKEND.open(None, key=int, max_parallelism=2) as keyed:
        old = keyed.value_state("v", {"a": int})
        old.put_many(range(3000), [{"a": n} for n in range(3000)])
        scan, expected = old.scan(batch_rows=100), old.scan().to_arrow()
        wider = keyed.value_state("v", {"a": int, "b": int | None})
        wider.put_many(range(0, 3000, 2), [{"a": -n, "b": n} for n in range(0, 3000, 2)])
        text = keyed.value_state("v", {"a": int, "b": int | None, "c": str | None})
        text.put_many(range(0, 3000, 3), [{"a": 7, "b": None, "c": "c" * (n % 200)} for n in range(0, 3000, 3)])
        assert scan.to_arrow() == expected
        del scan
        for n in (0, 1, 2, 3, 2999):
            a, b, c = (7, None, "c" * (n % 200)) if n % 3 == 0 else (-n, n, None) if n % 2 == 0 else (n, None, None)
            assert text.get(n) == {"a": a, "b": b, "c": c}
        assert text.scan().to_arrow().num_rows == 3000
        text.clear_many(range(3000))
        gc.collect()
        assert keyed._store.kept_bytes == 0
        assert keyed._store.used_bytes < 10_000


@pytest.mark.parametrize("other", NAMES)
def test_a_snapshot_in_the_background_has_what_was_there_at_its_start(tmp_path, other):
    """The owner writes, drops and scans all the while, and takes the next ones before the first is done."""
    with BACKEND.open(tmp_path / "s", key=int, max_parallelism=20) as keyed:
        states = States(keyed)
        states.fill(600)
        states.states["fixed"].put_many(np.arange(100_000) + 1000, np.arange(100_000))
        states.rows["fixed"].update((key + 1000, key) for key in range(100_000))
        taken = []
        for id in range(3):
            future = keyed.snapshot(id, tmp_path / "chk", metadata=id)
            taken.append((future, {name: dict(rows) for name, rows in states.rows.items()}))
            writes = 0
            while not future.done() or writes < 50:
                states.write()
                writes += 1
                if id < 2 and writes > 100:
                    break
        futures = [future.result(60) for future, _ in taken]
        states.keyed.value_state("fixed", int).put(1, 1)
        gc.collect()
        assert keyed._store.kept_bytes == 0
    for snapshot, (_, rows) in zip(futures, taken, strict=True):
        with new_backend(other).restore(tmp_path / f"r{snapshot.id}", snapshot) as restored:
            again = States(restored)
            for name, state in again.states.items():
                assert rows_of(name, state.scan().to_arrow()) == rows[name], name


def test_a_closed_store_gives_its_snapshot_to_the_end(tmp_path):
    """A snapshot that waits keeps the rows, and nothing else does."""
    keyed = BACKEND.open(tmp_path / "s", key=int)
    States(keyed).fill()
    go_on = threading.Event()
    keyed.snapshot(0, tmp_path / "chk").result()
    keyed._finisher.submit(go_on.wait)
    future = keyed.snapshot(1, tmp_path / "chk")
    scan = keyed.value_state("fixed", int).scan()
    keyed._store.close()  # at once, without waiting
    with pytest.raises(sfkv.ClosedError):
        next(scan)
    assert keyed._store.used_bytes == 0
    assert keyed._store.kept_bytes > 0
    go_on.set()
    assert future.result(60).files[0].crc32c == sfkv.list_snapshots(tmp_path / "chk")[0].files[0].crc32c
    keyed._finisher.shutdown()
    del future
    gc.collect()
    assert keyed._store.kept_bytes == 0
    keyed.close(discard=True)
    keyed._engine._directory.close()
