"""One write over several states and cells: seen inside, written at once, or not at all."""

import os
import signal

import pytest

import sfkv

pytestmark = pytest.mark.backends


@pytest.fixture
def states(keyed):
    return keyed.value_state("v", int), keyed.list_state("l", int), keyed.map_state("m", int, int)


def everything(keyed, states):
    value, lists, maps = states
    return (
        {row["key"]: row["value"] for row in value.scan().to_arrow().to_pylist()},
        {row["key"]: row["value"] for row in lists.scan().to_arrow().to_pylist()},
        {(row["key"], row["user_key"]): row["value"] for row in maps.scan().to_arrow().to_pylist()},
        {name: keyed.cells.get(name) for name in keyed.cells},
        keyed.offset,
    )


def fill(keyed, states):
    value, lists, maps = states
    value.put_many(["a", "b"], [1, 2])
    lists.add_many(["a", "b"], [1, 2])
    maps.put_many(["a", "a", "b"], [1, 2, 3], [10, 20, 30])
    keyed.cells.set("watermark", 100)
    keyed._store.flush()


def work(keyed, states):
    """Writes of every kind, and the reads that must see them."""
    value, lists, maps = states
    value.put("a", 5)
    value.put_many(["b", "c"], [None, 7])
    assert value.get_many(["a", "b", "c"]).to_pylist() == [5, None, 7]
    assert [value.get(key) for key in "abc"] == [5, None, 7]
    assert value.contains_many(["a", "b"]).to_pylist() == [True, False]
    with value.bundle(["a", "c"]) as rows:
        assert rows == {"a": 5, "c": 7}
        rows["a"] += 1
    assert value.get("a") == 6
    lists.add("a", 2)
    lists.add_many(["a", "c"], [3, 4])
    lists.update("b", [9])
    lists.add("b", 10)
    assert lists.get_many(["a", "b", "c"]).to_pylist() == [[1, 2, 3], [9, 10], [4]]
    assert lists.get("b") == [9, 10]
    maps.put("a", 3, None)
    maps.delete("a", 1)
    assert list(maps["a"].items()) == [(2, 20), (3, None)]
    for user_key in maps["a"]:
        maps["a"][user_key + 100] = user_key
    assert maps.items_many(["a"]).to_pylist() == [[(2, 20), (3, None), (102, 2), (103, 3)]]
    maps.clear("b")
    assert maps.is_empty("b")
    assert maps.get_many(["b", "a"], [3, 2]).to_pylist() == [None, 20]
    maps.put("b", 4, 40)
    assert not maps.is_empty("b")
    keyed.cells.set("watermark", 200)
    keyed.cells.set("new", 1.5, merge="sum")
    assert keyed.cells.get("watermark") == 200
    assert list(keyed.cells) == ["new", "watermark"]


AFTER = (
    {"a": 6, "c": 7},
    {"a": [1, 2, 3], "b": [9, 10], "c": [4]},
    {("a", 2): 20, ("a", 3): None, ("a", 102): 2, ("a", 103): 3, ("b", 4): 40},
    {"watermark": 200, "new": 1.5},
)


def test_a_batch_is_seen_inside_and_written_at_its_end(keyed, states):
    fill(keyed, states)
    with keyed.batch(offset={"p": 1}) as batch:
        work(keyed, states)
        assert batch.offset == {"p": 1}
    assert everything(keyed, states) == (*AFTER, {"p": 1})
    with keyed.batch() as batch:
        states[0].put("a", 7)
        batch.offset = 9
    assert keyed.offset == 9
    with keyed.batch():
        pass
    assert keyed.offset == 9


def test_on_an_exception_nothing_is_written(keyed, states):
    fill(keyed, states)
    before = everything(keyed, states)
    for fail in (lambda: 1 / 0, lambda: states[0].put("a", "wrong"), lambda: states[1].add("a", None)):
        with pytest.raises((ZeroDivisionError, sfkv.SchemaError)), keyed.batch(offset=1):
            work(keyed, states)
            fail()
        assert everything(keyed, states) == before
    with pytest.raises(sfkv.SchemaError, match="msgpack"), keyed.batch() as batch:
        states[0].put("a", 99)
        batch.offset = object()
    assert everything(keyed, states) == before
    with pytest.raises(sfkv.SchemaError, match="msgpack"):
        keyed.batch(offset=object())
    states[0].put("a", 3)
    assert states[0].get("a") == 3


def test_a_batch_that_is_not_open_writes_nothing_and_ends_no_other(keyed, states):
    batch = keyed.batch(offset=5)
    with pytest.raises(sfkv.UsageError, match="not open"):
        batch.__exit__(None, None, None)
    assert keyed.offset is None
    with batch:
        pass
    with keyed.batch(offset=6):
        states[0].put("a", 1)
        for error in (None, ValueError):
            with pytest.raises(sfkv.UsageError, match="not open"):
                batch.__exit__(error, None, None)
        states[0].put("b", 2)
    assert (keyed.offset, states[0].get("a"), states[0].get("b")) == (6, 1, 2)


def test_what_does_not_work_inside_a_batch_says_so(keyed, states, tmp_path):
    fill(keyed, states)
    with keyed.batch():
        states[0].put("a", 50)
        for call in (
            lambda: states[0].scan(),
            lambda: states[2].scan_keys(),
            lambda: keyed.snapshot(1, tmp_path / "chk").result(),
            lambda: keyed.compact(),
            lambda: keyed.drop_state("v"),
            lambda: keyed.batch().__enter__(),
        ):
            with pytest.raises((sfkv.UsageError, sfkv.CheckpointError), match="batch"):
                call()
        assert states[0].get("a") == 50
    assert states[0].get("a") == 50
    assert sfkv.list_snapshots(tmp_path / "chk") == []


def test_closing_inside_a_batch_writes_none_of_it(tmp_path):
    keyed = sfkv.open(tmp_path / "s", key=str)
    state = keyed.value_state("v", int)
    state.put("a", 1)
    with pytest.raises(sfkv.ClosedError), keyed.batch():
        state.put("a", 2)
        keyed.close()
    with sfkv.open(tmp_path / "s") as again:
        assert again.value_state("v", int).get("a") == 1


def test_a_state_that_is_registered_inside_a_batch_stays_registered(keyed, tmp_path):
    """Else its table would be taken by another state, and hold rows of both."""
    with pytest.raises(ZeroDivisionError), keyed.batch():
        keyed.value_state("first", int).put("a", 1)
        keyed.payloads.set(0, b"x")
        1 / 0  # noqa: B018
    with keyed.batch():
        keyed.value_state("second", str).put("a", "x")
    keyed.value_state("first", int).put("b", 2)
    assert list(keyed.payloads) == []
    keyed.close()
    with sfkv.open(tmp_path / "store") as again:
        assert again.states == {"first": "value<int64>", "second": "value<utf8>"}
        assert again.value_state("third", bytes).scan().to_arrow().num_rows == 0
        assert again.value_state("first", int).scan().to_arrow().to_pylist() == [{"key": "b", "value": 2}]
        assert again.value_state("second", str).scan().to_arrow().to_pylist() == [{"key": "a", "value": "x"}]


def test_maps_inside_a_batch_end_where_their_key_ends(keyed):
    """The engine's iterator over a batch does not heed its upper bound for the rows of the batch."""
    state = keyed.map_state("m", str, int)
    keys = [chr(c) for c in range(97, 123)]
    state.put_many(keys[::2], ["stored"] * 13, [0] * 13)
    with keyed.batch():
        state.put_many(keys, ["new"] * 26, list(range(26)))
        keyed.cells.set("z", 1)
        for number, key in enumerate(keys):
            expected = {"new": number} | ({"stored": 0} if number % 2 == 0 else {})
            assert dict(state[key]) == expected
            assert state.items_many([key]).to_pylist() == [sorted(expected.items())]
        assert state.contains_many(["absent", "a"]).to_pylist() == [False, True]
        state.clear("b")
        assert [state.is_empty(key) for key in "abc"] == [False, True, False]
        assert list(keyed.cells) == ["z"]


def test_a_large_map_is_cleared_inside_a_batch(keyed):
    state = keyed.map_state("m", int, int)
    state.put_all("a", dict.fromkeys(range(3000), 1))
    with keyed.batch():
        state.clear("a")
        assert state.is_empty("a")
        state.put("a", 5, 5)
    assert dict(state["a"]) == {5: 5}


def test_a_batch_that_is_too_large_is_refused_at_the_write(keyed):
    state = keyed.value_state("v", bytes)
    with pytest.raises(sfkv.LimitError, match="batch"), keyed.batch():
        for number in range(40):
            state.put(str(number), bytes(8 << 20))
    assert state.scan_keys().to_arrow().num_rows == 0


def test_a_call_that_is_too_large_for_a_batch_leaves_nothing_of_itself(keyed):
    """Outside a batch such calls are written in pieces; inside they are there as a whole or not at all."""
    values, lists, maps = keyed.value_state("v", bytes), keyed.list_state("l", bytes), keyed.map_state("m", int, bytes)
    joined = keyed.reducing_state("r", bytes, lambda a, b: a + b)
    keys, many = [f"new {number}" for number in range(12)], [bytes(1 << 20)] * 12

    def bundle():
        with values.bundle(keys) as rows:
            rows.update(zip(keys, many, strict=True))

    with keyed.batch():
        for number in range(31):
            values.put(f"old {number}", bytes(8 << 20))
        for write in (
            lambda: values.put_many(keys, many),
            bundle,
            lambda: lists.add_many(keys, many),
            lambda: lists.update_many(keys, [[value] for value in many]),
            lambda: maps.put_many(keys, range(12), many),
            lambda: maps.put_all("new", dict(enumerate(many))),
            lambda: joined.add_many(keys, many),
        ):
            with pytest.raises(sfkv.LimitError, match="batch"):
                write()
            values.put("small", b"in between")
    assert sorted(values.scan_keys().to_arrow()["key"].to_pylist()) == sorted([f"old {n}" for n in range(31)] + ["small"])
    assert [state.scan().to_arrow().num_rows for state in (lists, maps, joined)] == [0, 0, 0]


@pytest.mark.only("rocksdb", reason="memory has nothing of what was written since it was opened after a kill")
def test_after_a_kill_all_states_of_a_batch_agree(tmp_path, run_python):
    """Several states written in one batch are there together or not at all, with the offset."""
    run_python(
        """
        import os, signal, sfkv
        keyed = sfkv.open(STORE, key=int, slot=sfkv.Slot("4MB"))
        value, lists, maps = keyed.value_state("v", int), keyed.list_state("l", int), keyed.map_state("m", int, int)
        pad = keyed.value_state("pad", bytes)
        for number in range(1, 300):
            with keyed.batch(offset=number):
                value.put(number % 7, number)
                lists.add(number % 7, number)
                maps.put(number % 7, number, number)
                keyed.cells.set("sum", keyed.cells.get("sum", 0) + number, merge="sum")
                pad.put(number, os.urandom(20_000))
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        expect=-signal.SIGKILL,
    )
    with sfkv.open(tmp_path / "store", recover=True) as keyed:
        reached = keyed.offset
        assert 0 < reached < 300
        assert keyed.cells.get("sum") == reached * (reached + 1) // 2
        maps, lists = keyed.map_state("m", int, int), keyed.list_state("l", int)
        for key in range(7):
            numbers = [number for number in range(1, reached + 1) if number % 7 == key]
            assert keyed.value_state("v", int).get(key) == numbers[-1]
            assert lists.get(key) == numbers
            assert list(maps[key]) == numbers
    assert os.path.exists(tmp_path / "store")


def test_a_snapshot_inside_a_batch_is_refused_and_leaves_nothing(keyed, tmp_path):
    with keyed.batch(), pytest.raises(sfkv.UsageError, match="inside a batch"):
        keyed.snapshot(1, tmp_path / "snapshots")
    assert not (tmp_path / "snapshots").exists()
