"""memory_limit: the write that would pass it changes nothing, says what to do, and work goes on."""

import functools
import gc
import itertools
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfkv

pytestmark = pytest.mark.only("memory", reason="the file is about it")

LIMIT = 400_000


def limited(limit=LIMIT, **options):
    return sfkv.HashMapStateBackend(memory_limit=limit).open(None, key=int, **{"max_parallelism": 8, **options})


class States:
    """A state of each kind."""

    def __init__(self, keyed):
        self.keyed = keyed
        self.numbers, self.values = keyed.value_state("n", int), keyed.value_state("v", bytes)
        self.lists, self.maps = keyed.list_state("l", bytes), keyed.map_state("m", int, bytes)
        self.table = keyed.table("t", {"end": int, "user": int}, int, group_by="user")
        self.sums, self.sets = keyed.reducing_state("sum", int, "sum"), keyed.aggregating_state("set", bytes, "count_distinct")

    def fill(self):
        keys = np.arange(50)
        self.numbers.put_many(keys, keys)
        self.values.put_many(keys, [b"x" * 50] * 50)
        self.lists.add_many(keys, [b"y"] * 50)
        self.maps.put_many(keys % 5, keys, [b"z"] * 50)
        self.table.put_many({"end": keys, "user": keys}, keys)
        self.keyed.cells.set("c", 1)

    def contents(self):
        states = (self.numbers, self.values, self.lists, self.maps, self.table, self.sums, self.sets)
        cells = {name: self.keyed.cells[name] for name in self.keyed.cells}
        return [state.scan().to_arrow() for state in states], cells, list(self.keyed.payloads), self.keyed.offset


def big(turn):
    return random.Random(turn).randbytes(9000)


def bundle(states, turn):
    with states.values.bundle(range(turn * 10, turn * 10 + 10), offset=turn) as rows:
        for key in rows:
            rows[key] = big(turn)[:3000]


def batch(states, turn):
    with states.keyed.batch(offset=turn):
        states.numbers.put(3, turn)
        states.values.put(turn * 10, big(turn))
        states.lists.add(7, big(turn))
        states.maps.put(1, turn, big(turn))
        states.keyed.cells.set("c", turn)


def update_a_view(states, turn):
    states.maps[turn].update({key: big(turn)[:100] for key in range(100)})


WAYS = {
    "put": lambda s, turn: s.values.put(turn, big(turn)),
    "put_many": lambda s, turn: s.values.put_many(np.arange(20) + turn * 20, [big(turn)[:1000]] * 20, offset=turn),
    "put_many of numbers": lambda s, turn: s.numbers.put_many(np.arange(2000) + turn * 2000, np.arange(2000)),
    "put_many that grows": lambda s, turn: s.values.put_many(np.arange(20), [bytes(turn * 1000)] * 20),
    "bundle": bundle,
    "batch": batch,
    "add to one list": lambda s, turn: s.lists.add(1, big(turn)),
    "add a little to one list": lambda s, turn: s.lists.add_all(1, [b"xy"] * 1000),
    "add_many": lambda s, turn: s.lists.add_many(np.arange(200) % 100, [big(turn)[:100]] * 200, offset=turn),
    "update_many": lambda s, turn: s.lists.update_many(np.arange(20), [[big(turn)] * (turn // 10 + 1)] * 20),
    "put an entry": lambda s, turn: s.maps.put(1, turn, big(turn)),
    "put_all": lambda s, turn: s.maps.put_all(turn, {key: big(turn)[:100] for key in range(100)}),
    "put entries": lambda s, turn: s.maps.put_many(np.full(100, 3), np.arange(100) + turn * 100, [big(turn)[:80]] * 100),
    "update of a view": update_a_view,
    "fold into many": lambda s, turn: s.sums.add_many(np.arange(2000) + turn * 2000, np.arange(2000)),
    "fold into one that grows": lambda s, turn: s.sets.add_many([1] * 5, [bytes([n]) + big(turn)[:800] for n in range(5)]),
    "put into a table": lambda s, turn: s.table.put_many({"end": np.arange(999), "user": np.full(999, turn)}, np.arange(999)),
    "set a cell": lambda s, turn: s.keyed.cells.set(f"c{turn}", big(turn), merge="union"),
    "set a payload": lambda s, turn: s.keyed.payloads.set(turn % 8, bytes(turn * 2000)),
    "replace payloads": lambda s, turn: s.keyed.payloads.replace({group: bytes(turn * 1000) for group in range(8)}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_write_that_would_pass_the_limit_changes_nothing(way):
    with limited() as keyed:
        states = States(keyed)
        states.fill()
        for turn in itertools.count(1):
            before, used = states.contents(), keyed._store.used_bytes
            try:
                WAYS[way](states, turn)
            except sfkv.LimitError as error:
                assert "memory_limit=400000 bytes" in str(error)
                assert "larger one" in str(error) and "EmbeddedRocksDBStateBackend" in str(error)
                break
            assert keyed._store.used_bytes <= LIMIT
            assert turn < 1000
        assert used > LIMIT / 3, "it was refused long before the limit"
        assert states.contents() == before
        assert keyed._store.used_bytes <= LIMIT
        for _ in range(3):  # what was taken back may have left a little more room than there was
            try:
                WAYS[way](states, turn)
            except sfkv.LimitError:
                assert states.contents() == before
            before = states.contents()
            assert keyed._store.used_bytes <= LIMIT
        go_on(states, WAYS[way], turn)


def go_on(states, write, turn):
    """What makes nothing larger works at the limit, and all does when there is room again."""
    keys = np.arange(50)
    states.numbers.put_many(keys, keys + 1)
    states.numbers.put(3, 5)
    assert states.numbers.get_many([2, 3]).to_pylist() == [3, 5]
    values = states.values.get_many(keys).to_pylist()
    states.values.put_many(keys, [None if value is None else bytes(len(value)) for value in values])
    states.table.put((4, 4), 9)
    states.table.delete_range(None, 1000)
    states.lists.clear_many(keys)
    for state in (states.numbers, states.values, states.lists, states.maps, states.sums, states.sets):
        state.clear_many(state.scan_keys().to_arrow()["key"])
    for cell in list(states.keyed.cells):
        states.keyed.cells.delete(cell)
    states.keyed.payloads.replace({})
    assert states.keyed._store.used_bytes < LIMIT / 4
    write(states, turn if turn < 9 else 3)


def test_one_write_that_is_far_too_large_takes_no_more_memory_than_the_limit(run_python):
    """It ends at the first row too many, not when all of them are there."""
    run_python(
        """
        import numpy as np, resource, sfkv
        keyed = sfkv.HashMapStateBackend(memory_limit="8MB").open(None, key=int)
        state = keyed.value_state("v", bytes)
        state.put_many(range(100), [bytes(1000)] * 100)
        keys, values = np.arange(400), [bytes(1 << 20)] * 400
        import pyarrow as pa
        values = pa.array(values)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        for _ in range(3):
            try:
                state.put_many(keys, values)
            except sfkv.LimitError:
                pass
            else:
                raise SystemExit("it was written")
        assert state.scan_keys().to_arrow().num_rows == 100
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
        assert grown < 200 << 20, grown  # a chunk of 64 values is encoded at a time
        """
    )


SINGLY = {
    "numbers": lambda s, key: s.numbers.put(key, key),
    "values": lambda s, key: s.values.put(key, b"v" * 100),
    "lists": lambda s, key: s.lists.add(key, b"v" * 100),
    "entries": lambda s, key: s.maps.put(key % 3, key, b"v" * 100),
    "rows of a table": lambda s, key: s.table.put((key, key), key),
    "rows of a table, in order": lambda s, key: s.table.put((key, 1), key),
    "sums": lambda s, key: s.sums.add(key, key),
}


@pytest.mark.parametrize("seen", [False, True], ids=["", "seen"])
@pytest.mark.parametrize("way", SINGLY)
def test_refused_rows_leave_nothing_however_many_they_are(way, seen):
    """They come at other places each time, where pages and directories would have to be split for them."""
    rng = random.Random(way)
    keys = itertools.count(1000) if way.endswith("in order") else iter(lambda: rng.randrange(1000, 1 << 40), None)
    with limited() as keyed:
        states = States(keyed)
        states.fill()
        scans = []
        refused = 0
        for key in keys:
            used = keyed._store.used_bytes
            try:
                SINGLY[way](states, key)
            except sfkv.LimitError:
                refused += 1
                assert keyed._store.used_bytes <= used
                if seen:
                    scans = [states.numbers.scan(), states.table.scan()]
            assert keyed._store.used_bytes <= LIMIT * 63 // 64
            if refused == 3000:
                break
        assert used > LIMIT * 0.9
        del scans


def test_refused_batches_of_rows_take_no_more_than_the_limit():
    with limited() as keyed:
        states = States(keyed)
        states.fill()
        with pytest.raises(sfkv.LimitError):
            for turn in itertools.count():
                states.numbers.put_many(np.arange(200) + turn * 200, np.arange(200))
        for turn in range(300):
            keys = np.arange(2000) * 7919 + (turn + 1) * 104_729_000
            with pytest.raises(sfkv.LimitError):
                states.numbers.put_many(keys, keys)
            with pytest.raises(sfkv.LimitError):
                states.table.put_many({"end": keys, "user": keys}, keys)
            assert keyed._store.used_bytes <= LIMIT * 63 // 64


def test_a_list_at_the_limit_takes_what_there_is_room_for():
    """It is given no more room to grow than the limit leaves, and is not refused for want of that."""
    with limited(100_000, max_parallelism=1) as keyed:
        lists = keyed.list_state("l", bytes)
        with pytest.raises(sfkv.LimitError):
            while True:
                lists.add(1, bytes(98))
        taken = lists.get(1)
        assert taken == [bytes(98)] * len(taken)
        assert 85_000 < len(taken) * 99 < 100_000
        assert keyed._store.used_bytes <= 100_000


@pytest.mark.parametrize("opened", ["open", "restore"])
def test_opening_more_than_the_limit_is_refused(tmp_path, opened):
    unlimited = sfkv.HashMapStateBackend()
    with unlimited.open(tmp_path / "s", key=int) as keyed:
        keyed.value_state("v", bytes).put_many(range(1000), [bytes(1000)] * 1000)
        taken = keyed.snapshot(1, tmp_path / "chk").result()
        used = keyed._store.used_bytes
    small, enough = (sfkv.HashMapStateBackend(memory_limit=limit) for limit in (used * 9 // 10, used * 12 // 10))
    for backend, fits in ((small, False), (enough, True)):
        open_it = {
            "open": lambda backend=backend: backend.open(tmp_path / "s"),
            "restore": lambda backend=backend: backend.restore(None, taken),
        }[opened]
        if fits:
            with open_it() as keyed:
                assert keyed.value_state("v", bytes).scan().to_arrow().num_rows == 1000
        else:
            with pytest.raises(sfkv.LimitError, match="memory_limit"):
                open_it()


def test_a_limit_in_a_batch_drops_the_batch_only_if_the_user_lets_it():
    """A write inside a batch that is refused is undone alone; what was written before it in the batch stands."""
    with limited() as keyed:
        states = States(keyed)
        states.fill()
        with keyed.batch():
            states.values.put(1, b"in the batch")
            states.lists.add(1, b"in the batch")
            with pytest.raises(sfkv.LimitError):
                states.values.put_many(range(1000), [bytes(1000)] * 1000)
            with pytest.raises(sfkv.LimitError):
                states.lists.add(1, bytes(LIMIT))
            assert states.values.get(1) == b"in the batch"
            assert states.lists.get(1) == [b"y", b"in the batch"]
            states.numbers.put(1, 77)
        assert states.values.get_many([1, 2]).to_pylist() == [b"in the batch", b"x" * 50]
        assert states.lists.get(1) == [b"y", b"in the batch"]
        assert states.numbers.get(1) == 77
        assert states.values.scan().to_arrow().num_rows == 50
        before = states.contents()
        with pytest.raises(sfkv.LimitError), keyed.batch():
            states.values.put(1, b"lost")
            states.lists.clear(1)
            states.maps.clear_many(range(5))
            states.table.delete_range(None, 30)
            states.values.put_many(range(1000), [bytes(1000)] * 1000)
        assert states.contents() == before


def test_views_do_not_count_and_a_refused_write_does_not_harm_them():
    with limited() as keyed:
        states = States(keyed)
        states.fill()
        scan = states.values.scan(batch_rows=10)
        expected = states.values.scan().to_arrow()
        for turn in range(20):
            states.values.put_many(range(50), [bytes([turn]) * 1000] * 50)
            with pytest.raises(sfkv.LimitError):
                states.values.put_many(range(5000), [bytes([turn]) * 1000] * 5000)
        assert keyed._store.used_bytes <= LIMIT
        assert keyed._store.kept_bytes > 0
        assert scan.to_arrow() == expected
        del scan
        assert keyed._store.kept_bytes == 0


@pytest.mark.parametrize("write", ["add_many", "update_many", "clear_many"])
def test_the_keys_of_lists_count_by_their_bytes(write):
    """Their number was counted instead: ten times the limit came to be used."""
    with sfkv.HashMapStateBackend(memory_limit="1MB").open(None, key=str, max_parallelism=8) as keyed:
        lists = keyed.list_state("l", int)
        keys = [f"{n:030000}" for n in range(300)]
        if write == "clear_many":
            lists.add_many(keys[:20], [1] * 20)
            lists.clear_many(keys)
        else:
            with pytest.raises(sfkv.LimitError):
                getattr(lists, write)(keys, [1] * 300 if write == "add_many" else [[1]] * 300)
        assert keyed._store.used_bytes <= 1 << 20
        assert lists.scan_keys().to_arrow().num_rows == 0


# --- Against a model.

KEYS = st.integers(0, 40)
SIZES = st.sampled_from([0, 1, 30, 79, 80, 81, 200, 1000, 6000, 30_000])


def in_a_batch(states, keys, values):
    with states.keyed.batch():
        states.values.put_many(keys, values)
        states.lists.clear(keys[0])
        states.maps.put_many([0] * len(keys), keys, values)


# What a write is called as, and what a model's rows by (state, key...) become by it.
WRITES = {
    "put": (
        lambda s, keys, values: s.values.put(keys[0], values[0]),
        lambda rows, keys, values: {**rows, ("v", keys[0]): values[0]},
    ),
    "put_many": (
        lambda s, keys, values: s.values.put_many(keys, values),
        lambda rows, keys, values: {**rows, **{("v", key): value for key, value in zip(keys, values, strict=True)}},
    ),
    "clear_many": (
        lambda s, keys, values: s.values.clear_many(keys),
        lambda rows, keys, values: {row: rows[row] for row in rows if row[0] != "v" or row[1] not in keys},
    ),
    "add_all": (
        lambda s, keys, values: s.lists.add_all(keys[0], values),
        lambda rows, keys, values: {**rows, ("l", keys[0]): [*rows.get(("l", keys[0]), []), *values]},
    ),
    "add_many": (
        lambda s, keys, values: s.lists.add_many(keys, values),
        lambda rows, keys, values: functools.reduce(
            lambda now, pair: {**now, ("l", pair[0]): [*now.get(("l", pair[0]), []), pair[1]]},
            zip(keys, values, strict=True),
            rows,
        ),
    ),
    "update": (
        lambda s, keys, values: s.lists.update(keys[0], values),
        lambda rows, keys, values: {**rows, ("l", keys[0]): values},
    ),
    "put entries": (
        lambda s, keys, values: s.maps.put_many([key % 3 for key in keys], keys, values),
        lambda rows, keys, values: {**rows, **{("m", key % 3, key): value for key, value in zip(keys, values, strict=True)}},
    ),
    "clear a map": (
        lambda s, keys, values: s.maps.clear(keys[0] % 3),
        lambda rows, keys, values: {row: rows[row] for row in rows if row[:2] != ("m", keys[0] % 3)},
    ),
    "batch": (
        in_a_batch,
        lambda rows, keys, values: {
            **{row: rows[row] for row in rows if row != ("l", keys[0])},
            **{("v", key): value for key, value in zip(keys, values, strict=True)},
            **{("m", 0, key): value for key, value in zip(keys, values, strict=True)},
        },
    ),
}


def step(data, states, model):
    """One write, and what the model is afterwards: as it was, if the write is refused."""
    write, change = WRITES[data.draw(st.sampled_from(sorted(WRITES)))]
    keys = data.draw(st.lists(KEYS, min_size=1, max_size=12))
    values = [bytes([data.draw(st.integers(0, 255))]) * data.draw(SIZES) for _ in keys]
    try:
        write(states, keys, values)
    except sfkv.LimitError:
        return model
    return change(model, keys, values)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(data=st.data())
def test_each_write_is_there_as_a_whole_or_not_at_all(data):
    limit = data.draw(st.sampled_from([30_000, 60_000, 200_000]))
    with limited(limit, max_parallelism=data.draw(st.sampled_from([1, 3]))) as keyed:
        states = States(keyed)
        model = {}
        scans = []
        for _ in range(data.draw(st.integers(5, 40))):
            if data.draw(st.integers(0, 5)) == 0:
                scans = [*scans[-2:], (states.values.scan(batch_rows=5), "v", model)]
            model = step(data, states, model)
            assert keyed._store.used_bytes <= limit
            found = {state: rows_of(getattr(states, name).scan(), state) for name, state in NAMES.items()}
            assert found == {state: part(model, state) for state in found}
        scan = None
        for scan, state, then in scans:
            assert rows_of(scan, state) == part(then, state)
        del scan, scans
        gc.collect()
        assert keyed._store.kept_bytes == 0


NAMES = {"values": "v", "lists": "l", "maps": "m"}


def rows_of(scan, state):
    cells = zip(*(column.to_pylist() for column in scan.to_arrow().columns), strict=True)
    return {(state, *key): value for *key, value in cells}


def part(model, state):
    return {row: value for row, value in model.items() if row[0] == state}


def test_at_the_limit_states_are_dropped_and_make_room():
    with limited() as keyed:
        first, second = keyed.value_state("first", bytes), keyed.value_state("second", bytes)
        second.put(1, b"x" * 1000)
        with pytest.raises(sfkv.LimitError):
            for key in itertools.count():
                first.put(key, b"x" * 50)
        size = 1000
        while size:  # until not a byte is left
            try:
                second.put(1, b"y" * (len(second.get(1)) + size))
            except sfkv.LimitError:
                size //= 2
        keyed.drop_state("first")
        assert keyed.states == {"second": "value<binary>"}
        second.put(2, b"x" * 1000)


def test_a_call_is_one_write_however_large_it_is():
    """Where it is split, a piece may be written before the next one passes the limit."""
    with limited() as keyed:
        assert keyed._store.write_batch_bytes > 1 << 60
