"""Live objects of state in memory: each is held as long as a row, a view or an open batch holds it, and no longer."""

import gc
import itertools

import msgspec
import pytest

import sfkv
from sfkv import _batch, _store
from tests.backend.watched import Thing

pytestmark = pytest.mark.only("memory", reason="the file is about it")


@pytest.fixture
def keyed():
    with sfkv.HashMapStateBackend(memory_limit="4MB").open(None, key=int, max_parallelism=4) as backend:
        yield backend


@pytest.fixture
def states(keyed):
    type = sfkv.Msgpack(Thing)
    return keyed.value_state("v", type), keyed.list_state("l", type), keyed.map_state("m", int, type)


def test_an_object_goes_with_its_row(keyed, states, watched):
    value, lists, maps = states
    for n in range(5):
        value.put(n, watched(n))
        lists.add(n, watched(10 + n))
        maps.put(n, 1, watched(20 + n))
    assert watched.alive() == [*range(5), *range(10, 15), *range(20, 25)]
    assert value.get(3) is watched.made[3]
    value.put(0, watched(100))
    value.clear(1)
    value.put_many([2, 3], [watched(101), None])
    lists.update(0, [watched(102)])
    lists.clear_many([1, 2])
    maps.delete(0, 1)
    maps.clear(1)
    assert watched.alive() == [4, 13, 14, 22, 23, 24, 100, 101, 102]
    keyed.drop_state("l")
    assert watched.alive() == [4, 22, 23, 24, 100, 101]
    keyed.close()
    del value, lists, maps
    assert watched.alive() == []


def test_an_object_that_several_rows_hold_goes_with_the_last(keyed, states, watched):
    value, lists, _ = states
    thing = watched(1)
    value.put_many([1, 2, 3], [thing] * 3)
    lists.add_all(1, [thing, thing])
    del thing
    value.clear_many([1, 2, 3])
    assert watched.alive() == [1]
    lists.clear(1)
    assert watched.alive() == []


@pytest.mark.parametrize("fails", [False, True], ids=["committed", "dropped"])
def test_a_batch_holds_what_it_replaced_until_its_end(keyed, states, watched, fails):
    value, lists, maps = states
    value.put(1, watched(1))
    lists.add_all(1, [watched(2), watched(3)])
    maps.put(1, 1, watched(4))
    with pytest.raises(ZeroDivisionError) if fails else nothing(), keyed.batch():
        value.put(1, watched(11))
        value.put(1, watched(12))
        lists.add(1, watched(13))
        lists.clear(1)
        lists.add(1, watched(14))
        maps.put_all(1, {1: watched(15), 2: watched(16)})
        maps.clear(1)
        assert set(watched.alive()) >= {1, 2, 3, 4, 12, 14}
        if fails:
            1 / 0  # noqa: B018
    value.put(5, None)  # what is let go of is seen by the next write
    assert watched.alive() == ([1, 2, 3, 4] if fails else [12, 14])
    assert value.get(1).n == (1 if fails else 12)
    assert [thing.n for thing in lists.get(1)] == ([2, 3] if fails else [14])


class nothing:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        return False


def test_a_write_that_passes_the_limit_holds_nothing(keyed, states, watched):
    value, lists, _ = states
    pads = keyed.value_state("pad", bytes)
    with pytest.raises(sfkv.LimitError):
        for n in itertools.count():
            pads.put(n, bytes(30_000))
    with pytest.raises(sfkv.LimitError):
        for n in itertools.count():
            value.put(n, watched(n))
    count = len(watched.alive())
    for _ in range(3):
        with pytest.raises(sfkv.LimitError):
            value.put_many(range(100_000, 110_000), [watched(n) for n in range(100_000, 110_000)])
        with pytest.raises(sfkv.LimitError):
            lists.add_all(1, [watched(n) for n in range(200_000, 210_000)])
    value.put(0, watched(0))
    assert watched.alive() == list(range(count))
    assert [thing.n for thing in value.get_many(range(count))] == list(range(count))
    value.clear_many(range(count))
    assert watched.alive() == []


def test_a_view_holds_what_it_sees_and_gives_copies(keyed, states, watched):
    value, _, _ = states
    value.put_many(range(3), [watched(n) for n in range(3)])
    scan = value.scan(batch_rows=1)
    value.get(0).n = 50  # a copy's
    value.put(1, watched(11))
    value.clear(2)
    assert sorted(thing["n"] for thing in things(scan)) == [0, 1, 2]
    del scan
    gc.collect()
    value.put(5, None)
    assert watched.alive() == [0, 11]
    assert value.get(0).n == 0


def things(scan):
    return [msgspec.msgpack.decode(row) if isinstance(row, bytes) else row for row in scan.to_arrow()["value"].to_pylist()]


def test_a_view_holds_the_objects_of_a_state_that_is_dropped(keyed, watched):
    """Though there is no state of objects any more when the view ends."""
    state = keyed.value_state("things", sfkv.Msgpack(Thing))
    for n in range(5):
        state.put(n, watched(n))
    others = keyed.value_state("others", int)
    scan = state.scan()
    keyed.drop_state("things")
    assert watched.alive() == [0, 1, 2, 3, 4]
    del scan
    others.put(1, 1)
    assert watched.alive() == []


def test_a_close_that_fails_keeps_an_open_batchs_objects(tmp_path, watched, monkeypatch):
    keyed = sfkv.HashMapStateBackend().open(tmp_path / "s", key=int)
    value, lists = keyed.value_state("v", sfkv.Msgpack(Thing)), keyed.list_state("l", sfkv.Msgpack(Thing))
    value.put(1, watched(1))
    lists.add(1, watched(2))
    with keyed.batch():
        value.put_many([1, 2], [watched(11), watched(12)])
        lists.add(1, watched(13))
        with monkeypatch.context() as patch:
            patch.setattr("sfkv.backend.memory.write_rows", failing)
            for _ in range(2):
                with pytest.raises(sfkv.StorageError, match="injected"):
                    keyed.close()
        assert [thing.n for thing in value.get_many([1, 2])] == [11, 12]
        assert [thing.n for thing in lists.get(1)] == [2, 13]
    value.put(5, None)
    assert watched.alive() == [2, 11, 12, 13]
    value.clear_many([1, 2])
    lists.clear(1)
    assert watched.alive() == []
    keyed.close()


def failing(path, blocks):
    raise OSError(5, "injected", str(path))


@pytest.mark.parametrize("killed", [False, True], ids=["dropped", "dropped half and opened again"])
def test_a_state_may_have_the_number_of_one_of_objects_that_was_dropped(tmp_path, killed):
    """Its rows were taken for numbers of objects when they were stored."""

    def work(keyed):
        keyed.reducing_state("sum", int, "sum").add("k", 5)
        keyed.payloads.set(0, b"payload")
        return keyed.snapshot(1, tmp_path / "snapshots").result()

    backend = sfkv.HashMapStateBackend()
    with backend.open(tmp_path / "s", key=str) as keyed:
        keyed.map_state("gone", str, object).put("k", "u", {"a": 1})
        if killed:
            table = next(iter(keyed._registry.tables))
            dropping = {**keyed._registry.tables[table], "dropping": True}
            _batch.write_rows(keyed._store, {_store.TABLE_ROWS + bytes([table]): msgspec.json.encode(dropping)}, "test")
        else:
            keyed.drop_state("gone")
            taken = work(keyed)
    if killed:
        with backend.open(tmp_path / "s") as keyed:
            assert keyed.states == {}
            taken = work(keyed)
    for restoring in (backend, sfkv.EmbeddedRocksDBStateBackend()):
        with restoring.restore(tmp_path / restoring.__class__.__name__, taken) as keyed:
            assert keyed.reducing_state("sum", int, "sum").get("k") == 5
            assert keyed.payloads.get(0) == b"payload"


def test_an_object_that_cannot_be_stored_fails_the_close_and_leaves_nothing_beside_what_was_stored(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        value = keyed.value_state("v", object)
        value.put(1, {"a": 1})
        value.get(1)["a"] = object()
        with pytest.raises(sfkv.SchemaError, match="under the key 1"):
            keyed.close()
        assert not keyed.closed
        assert not list((tmp_path / "s").glob("*.new"))
        value.put(1, {"a": 2})
    with sfkv.open(tmp_path / "s") as again:
        assert again.value_state("v", object).get(1) == {"a": 2}


def test_the_number_of_a_dropped_state_holds_no_objects_any_more():
    """Eight bytes of a payload were taken for the number of an object, and counted far outside of what there was."""
    with sfkv.HashMapStateBackend().open(None, key=int, max_parallelism=4) as keyed:
        for name in "ab":
            keyed.value_state(name, object).put(1, {})
        keyed.drop_state("a")
        payload = b"\xff" * 7 + b"\0"
        keyed.payloads.set(0, payload)
        keyed.payloads.set(0, None)
        keyed.payloads.set(1, payload)
        keyed.value_state("b", object).put(2, {})
        assert list(keyed.payloads) == [(1, payload)]


def test_a_bundle_writes_an_object_that_took_the_number_of_the_one_it_read(keyed):
    """The rows, numbers, were equal, and what they stood for was not."""
    state = keyed.value_state("s", object)
    state.put(1, {"x": 1})
    with state.bundle([1]) as rows:
        state.clear(1)
        rows[1] = {"y": 2}
    assert state.get(1) == {"y": 2}


def test_an_iterator_of_a_batch_gives_its_objects_after_the_batch(keyed):
    """Their numbers were others' by then."""
    state = keyed.map_state("m", int, object)
    state.put_all(1, {n: {"n": n} for n in range(3)})
    with keyed.batch():
        items, values = iter(state[1].items()), iter(state[1].values())
    state.clear(1)
    state.put_all(2, {n: {"other": n} for n in range(3)})
    assert list(items) == [(n, {"n": n}) for n in range(3)]
    assert list(values) == [{"n": n} for n in range(3)]


class Made(dict):
    def items(self):
        yield from enumerate(self["values"])


def test_values_that_come_one_by_one_may_be_made_by_other_writes(keyed):
    """A write ended what its thread had begun to number, and that was not written yet."""
    others, value = keyed.value_state("others", object), keyed.value_state("v", object)
    lists, maps = keyed.list_state("l", object), keyed.map_state("m", int, object)
    wanted = [{"n": n} for n in range(3)]

    def made(state):
        for n in range(3):
            others.put(n, {state: n})
            yield {"n": n}

    value.put_many(range(3), made("v"))
    lists.add_all(1, made("l"))
    lists.add_many([2] * 3, made("l"))
    lists.update_many([3, 4], ([element] for element in made("l") if element["n"] < 2))
    lists.update_many([5], [made("l")])
    maps.put_all(1, Made(values=made("m")))
    maps.put_many([2] * 3, range(3), made("m"))
    others.put(5, {"other": 5})
    assert value.get_many(range(3)) == wanted
    assert [lists.get(key) for key in range(1, 6)] == [wanted, wanted, wanted[:1], wanted[1:2], wanted]
    assert [list(maps[key].values()) for key in (1, 2)] == [wanted] * 2


def test_a_stored_entry_that_is_none_is_told_when_it_is_read(keyed):
    """It was taken for an object, whatever its first byte was, and stored again as if it had been one."""
    state = keyed.map_state("m", int, object)
    state.put(1, 1, {})
    (key,) = keyed._store.read_range(b"", b"\xff\xff")
    group = key[0] << 8 | key[1]
    state.clear(1)
    for value in (b"\x02" + b"x" * 8, b"", b"\x01x"):
        block = bytes([len(key) - 2]) + key[2:] + bytes([len(value)]) + value
        with pytest.raises(sfkv.CorruptionError, match="entry"):
            keyed._store.load_block(group, block)
    assert state.is_empty(1)


@pytest.mark.parametrize("block", [b"\x05", b"\x00\x00", b"\x80\x80\x80\x80\x80\x01", b"\x02\x00k\x02v", b"\x02\x00k"])
def test_a_block_that_is_none_is_told_where_its_objects_are_read(keyed, block):
    keyed.value_state("s", object)
    with pytest.raises(sfkv.CorruptionError, match="block of rows"):
        keyed._store.load_block(0, block)


def test_a_stored_list_that_is_none_is_told_when_it_is_read(keyed):
    keyed.list_state("s", object)
    with pytest.raises(sfkv.CorruptionError, match="list"):
        keyed._store.load_block(0, b"\x02\x00k\x03\x01v\x05")


def test_a_snapshot_is_refused_inside_a_batch(keyed):
    with keyed.batch(), pytest.raises(sfkv.UsageError, match="batch"):
        keyed._store.freeze()
