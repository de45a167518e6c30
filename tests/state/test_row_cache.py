"""Rows that are read again and again are kept: what is read is what was written, in every way of writing."""

import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import sfkv

KEYS = list(range(500))
SOME = KEYS[::7]


@pytest.fixture
def keyed(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        yield keyed


def kept(keyed):
    return keyed._store.row_cache


def warm_up(read, keyed):
    """Reads until the rows are kept, and are found."""
    for _ in range(3):
        read()
    before = kept(keyed)["found"]
    read()
    assert kept(keyed)["found"] > before


class Counts:
    """A value state, what it holds, and every way of reading it."""

    def __init__(self, keyed):
        self.keyed = keyed
        self.state = keyed.value_state("v", str)
        self.model = {key: f"value {key}" for key in KEYS}
        self.state.put_many(KEYS, list(self.model.values()))
        keyed._store.flush()
        warm_up(self.check, keyed)

    def check(self):
        asked = [*KEYS, *SOME, -1]
        wanted = [self.model.get(key) for key in asked]
        assert self.state.get_many(asked).to_pylist() == wanted
        assert self.state.contains_many(asked).to_pylist() == [value is not None for value in wanted]
        for key in SOME:
            assert self.state.get(key) == self.model.get(key)
        with self.state.bundle(asked) as rows:
            assert rows == {key: self.model.get(key) for key in asked}


def put(counts):
    for key in SOME:
        counts.state.put(key, counts.model[key][::-1])
        counts.model[key] = counts.model[key][::-1]


def put_longer_and_shorter(counts):
    for key in SOME:
        counts.model[key] = "x" * (key % 31)
        counts.state.put(key, counts.model[key])


def put_larger_than_is_kept(counts):
    counts.model |= dict.fromkeys(SOME, "much " * 1000)
    counts.state.put_many(SOME, [counts.model[key] for key in SOME])


def put_many(counts):
    counts.model |= {key: f"other {key}" for key in SOME}
    counts.state.put_many([*SOME, SOME[0]], [*(f"other {key}" for key in SOME), "the last one counts"])
    counts.model[SOME[0]] = "the last one counts"


def clear(counts):
    for key in SOME:
        counts.state.clear(key)
        del counts.model[key]


def clear_many(counts):
    counts.state.clear_many(SOME)
    for key in SOME:
        del counts.model[key]


def put_nulls(counts):
    counts.state.put_many(SOME, [None] * len(SOME))
    for key in SOME:
        del counts.model[key]


def bundle(counts):
    with counts.state.bundle(SOME) as rows:
        for key in SOME:
            rows[key] = counts.model[key] = "bundled"
        del rows[SOME[0]]
        del counts.model[SOME[0]]


def batch(counts):
    with counts.keyed.batch():
        put(counts)
        counts.check()
        clear_many(counts)
        counts.check()


def dropped_batch(counts):
    before = dict(counts.model)
    with pytest.raises(ZeroDivisionError), counts.keyed.batch():
        put_many(counts)
        counts.check()
        raise ZeroDivisionError
    counts.model = before


def dropped_state(counts):
    counts.keyed.drop_state("v")
    counts.state = counts.keyed.value_state("v", str)
    counts.model = {}


def flush_and_compact(counts):
    put(counts)
    counts.keyed._store.flush()
    counts.keyed.compact()


WAYS = [
    put,
    put_longer_and_shorter,
    put_larger_than_is_kept,
    put_many,
    put_nulls,
    clear,
    clear_many,
    bundle,
    batch,
    dropped_batch,
    dropped_state,
    flush_and_compact,
]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_writing_is_seen(keyed, way):
    counts = Counts(keyed)
    way(counts)
    counts.check()
    warm_up(counts.check, keyed) if counts.model else counts.check()


def test_all_ways_one_after_the_other(keyed):
    rng = random.Random(20)
    counts = Counts(keyed)
    for _ in range(60):
        rng.choice([way for way in WAYS if way is not dropped_state])(counts)
        counts.check()
        counts.model |= dict.fromkeys(SOME, "again")
        counts.state.put_many(SOME, ["again"] * len(SOME))
        counts.check()


@pytest.mark.parametrize("many", [False, True])
def test_merges_are_seen(keyed, many):
    sums, lists = keyed.reducing_state("s", int, "sum"), keyed.list_state("l", int)
    sums.add_many(KEYS, KEYS)
    lists.add_many(KEYS, KEYS)
    keyed._store.flush()
    for added in range(1, 5):
        for _ in range(3):
            assert sums.get_many(KEYS).to_pylist() == [added * key for key in KEYS]
            assert [sums.get(key) for key in SOME] == [added * key for key in SOME]
            assert lists.get_many(KEYS).to_pylist() == [[key] * added for key in KEYS]
            assert [lists.get(key) for key in SOME] == [[key] * added for key in SOME]
        if many:
            sums.add_many(KEYS, KEYS)
            lists.add_many(KEYS, KEYS)
        else:
            for key in KEYS:
                sums.add(key, key)
                lists.add(key, key)


def test_maps_are_seen(keyed):
    state = keyed.map_state("m", int, int)
    for factor in range(4):
        state.put_many(KEYS, [key % 3 for key in KEYS], [factor * key for key in KEYS])
        for _ in range(3):
            assert [state.get(key, key % 3) for key in SOME] == [factor * key for key in SOME]
            assert state.items_many(SOME).to_pylist() == [[(key % 3, factor * key)] for key in SOME]
    state.clear_many(SOME)
    assert [state.get(key, key % 3) for key in SOME] == [None] * len(SOME)


@pytest.mark.parametrize("in_batch", [False, True])
def test_ranges_that_are_deleted_are_seen(keyed, windows, in_batch):
    other = keyed.value_state("o", int)
    other.put_many(KEYS, KEYS)
    keys = {"end": [i % 100 for i in range(300)], "user": [f"u{i}" for i in range(300)]}
    warm_up(lambda: windows.get_many(keys), keyed)
    warm_up(lambda: other.get_many(KEYS), keyed)
    if in_batch:
        with keyed.batch():
            windows.delete_range(upper=50)
    else:
        windows.delete_range(upper=50)
    assert windows.get_many(keys).to_pylist() == [None if i % 100 < 50 else i for i in range(300)]
    assert other.get_many(KEYS).to_pylist() == KEYS


def test_a_snapshot_holds_what_was_written_last(keyed, tmp_path):
    counts = Counts(keyed)
    put_many(counts)
    keyed.snapshot(1, tmp_path / "snapshots").result()
    with sfkv.EmbeddedRocksDBStateBackend().restore(tmp_path / "again", sfkv.list_snapshots(tmp_path / "snapshots")) as again:
        assert again.value_state("v", str).get_many(KEYS).to_pylist() == [counts.model[key] for key in KEYS]


def test_its_memory_is_the_slots(tmp_path):
    slot = sfkv.Slot("64MB")
    assert slot.row_cache_bytes == 0
    with sfkv.open(tmp_path / "a", key=int, slot=slot) as first, sfkv.open(tmp_path / "b", key=int, slot=slot) as second:
        states = [keyed.value_state("v", int) for keyed in (first, second)]
        many = list(range(200_000))
        for keyed, state in zip((first, second), states, strict=True):
            state.put_many(many, many)
            for _ in range(40):
                for begin in range(0, 20_000, 500):
                    asked = range(begin, begin + 500)
                    assert state.get_many(pa.array(asked)).to_pylist() == list(asked)
            assert kept(keyed)["rows"] > 10_000
        taken = [kept(keyed)["bytes"] for keyed in (first, second)]
        assert min(taken) > 0
        assert slot.row_cache_bytes == sum(taken) <= (slot.cache_bytes - slot.write_buffer_bytes) // 8
        first.close()
        assert slot.row_cache_bytes == taken[1]
    assert slot.row_cache_bytes == 0


def test_a_small_slot_gives_none_away(tmp_path):
    slot = sfkv.Slot("4MB", write_buffer_ratio=0.9)
    with sfkv.open(tmp_path / "s", key=int, slot=slot) as keyed:
        state = keyed.value_state("v", int)
        state.put_many(KEYS, KEYS)
        for _ in range(5):
            assert state.get_many(KEYS).to_pylist() == KEYS
        assert kept(keyed) == {"rows": 0, "bytes": 0, "found": 0}


def test_tables_that_are_read_once_give_theirs_back(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", int)
        many = list(range(400_000))
        state.put_many(many, many)
        warm_up(lambda: state.get_many(KEYS), keyed)
        for begin in range(10_000, 400_000, 1000):
            state.get_many(pa.array(range(begin, begin + 1000)))
        assert kept(keyed)["bytes"] == keyed.slot.row_cache_bytes == 0
        assert state.get_many(KEYS).to_pylist() == KEYS


@pytest.mark.parametrize("read_chunk_keys", [1, 2, 3, 1000, 1 << 20])
def test_chunks_of_every_size(tmp_path, read_chunk_keys):
    backend = sfkv.EmbeddedRocksDBStateBackend(read_chunk_keys=read_chunk_keys)
    rng = random.Random(read_chunk_keys)
    with backend.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", int)
        state.put_many(range(5000), range(5000))
        keyed._store.flush()
        warm_up(lambda: state.get_many(range(0, 5000, 7)), keyed)
        for count in (1, 2, 100, 900):
            asked = [rng.randrange(-1000, 6000) for _ in range(count)]
            assert state.get_many(asked).to_pylist() == [key if 0 <= key < 5000 else None for key in asked]


def test_large_batches_are_worth_it(tmp_path):
    """The keys of one batch are as many as what a table is settled after."""
    with sfkv.open(tmp_path / "s", key=int, max_parallelism=1) as keyed:
        state = keyed.value_state("v", int)
        state.put_many(range(1_200_000), range(1_200_000))
        asked = pa.array(range(0, 1_200_000, 9))  # few of all, so that they are not read by a pass
        for _ in range(30):
            assert state.get_many(asked) == asked
        found = kept(keyed)["found"]
        assert state.get_many(asked) == asked
        assert kept(keyed)["found"] - found > len(asked) * 0.9


@pytest.mark.parametrize("fold", ["sum", "mean", "variance"])
def test_folds_of_floats_are_what_a_scan_says(tmp_path, fold):
    """The engine may fold operands together before it folds them into what was stored, which gives other floats."""
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.reducing_state("f", float, "sum") if fold == "sum" else keyed.aggregating_state("f", float, fold)
        for values in ([1e308, 0.1], [1e308, 0.2], [-1e308, 0.3]):
            state.add_many([1, *KEYS[2:]], [values[0], *(values[1] * key for key in KEYS[2:])])
            if values[0] > 0:
                keyed._store.flush()
        for _ in range(3):
            state.get_many(KEYS[1:])
            state.get(1)
        keyed._store.flush()
        keyed.compact()
        rows = {row["key"]: row["value"] for row in state.scan().to_arrow().to_pylist()}
        assert repr([rows[key] for key in KEYS[1:]]) == repr(state.get_many(KEYS[1:]).to_pylist())
        assert repr(rows[1]) == repr(state.get(1))


def test_stores_in_threads_share_a_slot(tmp_path):
    slot = sfkv.Slot("16MB")

    def work(number):
        rng = random.Random(number)
        with sfkv.open(tmp_path / str(number), key=int, slot=slot) as keyed:
            state = keyed.value_state("v", int)
            model = {key: key for key in range(20_000)}
            state.put_many(range(20_000), range(20_000))
            for turn in range(150):
                most = 20_000 if turn % 50 < 25 else 2000
                asked = [rng.randrange(most) for _ in range(900)]
                assert state.get_many(asked).to_pylist() == [model[key] for key in asked]
                state.put_many(asked[:50], [turn] * 50)
                model |= dict.fromkeys(asked[:50], turn)
                assert slot.row_cache_bytes <= (slot.cache_bytes - slot.write_buffer_bytes) // 8
            return kept(keyed)["found"]

    with ThreadPoolExecutor(4) as pool:
        assert any(pool.map(work, range(4)))
    assert slot.row_cache_bytes == 0


def test_a_child_leaves_the_parents_alone(run_python):
    run_python(
        """
        import gc, os, sfkv
        slot = sfkv.Slot()
        keyed = sfkv.open(STORE, key=int, slot=slot)
        state = keyed.value_state("v", int)
        state.put_many(range(500), range(500))
        for _ in range(4):
            state.get_many(range(500))
        assert keyed._store.row_cache["found"] > 0
        child = os.fork()
        if child == 0:
            assert slot.row_cache_bytes > 0
            del keyed, state, slot
            gc.collect()
            with sfkv.open(STORE + "-child", key=int) as own:
                own.value_state("v", int).put(1, 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        state.put(7, -7)
        assert state.get_many([7, 8]).to_pylist() == [-7, 8]
        keyed.close()
        """
    )


def test_it_can_be_left_out(tmp_path):
    with sfkv.EmbeddedRocksDBStateBackend(row_cache=False).open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", int)
        state.put_many(KEYS, KEYS)
        for _ in range(5):
            assert state.get_many(KEYS).to_pylist() == KEYS
            assert [state.get(key) for key in SOME] == SOME
        assert kept(keyed) == {"rows": 0, "bytes": 0, "found": 0}
    with pytest.raises(sfkv.ConfigError, match="row_cache is 1: use True or False"):
        sfkv.EmbeddedRocksDBStateBackend(row_cache=1)
