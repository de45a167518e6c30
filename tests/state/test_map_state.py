"""MapState: a row for each entry, in the order of the user keys."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import sfkv
from tests.backends import new_backend
from tests.state.test_value_state import VALUES, Trip

pytestmark = pytest.mark.backends


def entries_of(state):
    return [(row["key"], row["user_key"], row["value"]) for row in state.scan().to_arrow().to_pylist()]


@pytest.mark.parametrize("type", VALUES, ids=str)
def test_values_of_every_type_and_none_come_back_by_every_way(keyed, type):
    values = [*VALUES[type], None]
    one, many, all_at_once = (keyed.map_state(name, int, type) for name in ("one", "many", "all"))
    for i, value in enumerate(values):
        one.put("k", i, value)
    many.put_many(["k"] * len(values), list(range(len(values))), values)
    all_at_once.put_all("k", dict(enumerate(values)))
    for state in (one, many, all_at_once):
        assert [state.get("k", i, "default") for i in range(len(values))] == values
        assert state.get("k", len(values), "default") == "default"
        assert dict(state["k"].items()) == dict(enumerate(values))
        assert list(state["k"].values()) == values
    answers = [state.get_many(["k"] * 3, [0, len(values) - 1, 99]) for state in (one, many, all_at_once)]
    assert answers[0] == answers[1] == answers[2]
    maps = [state.items_many(["x", "k"]) for state in (one, many, all_at_once)]
    assert maps[0] == maps[1] == maps[2]
    if isinstance(maps[0], list):
        assert maps[0] == [{}, dict(enumerate(values))]
    else:
        assert maps[0].type == one.type
        assert [key for key, _ in maps[0].to_pylist()[1]] == list(range(len(values)))
        assert maps[0].to_pylist()[1][-1] == (len(values) - 1, None)


def test_a_stored_none_is_told_apart_from_absent(keyed):
    state = keyed.map_state("m", str, int)
    state.put("k", "none", None)
    assert state.get("k", "none", 5) is None
    assert state.get("k", "absent", 5) == 5
    assert "none" in state["k"]
    assert "absent" not in state["k"]
    assert state.contains_many(["k", "k"], ["none", "absent"]).to_pylist() == [True, False]
    assert state.get_many(["k", "k"], ["none", "absent"]).to_pylist() == [None, None]
    assert not state.is_empty("k")
    assert state.items_many(["k"]).to_pylist() == [[("none", None)]]
    records = keyed.map_state("r", str, Trip)
    records.put_many(["k", "k"], ["a", "b"], [None, VALUES[Trip][0]])
    assert records.get("k", "a", 1) is None
    assert records.get("k", "b") == VALUES[Trip][0]
    assert [row["plane"] for row in records.scan().to_arrow().to_pylist()] == [None, "N1"]


def test_a_view_is_a_mutable_mapping_of_its_key(keyed):
    state = keyed.map_state("m", int, str)
    state.put("other", 1, "other")
    view = state["k"]
    assert len(view) == 0
    assert not view
    view.update(
        {3: "c", 1: "a"},
    )
    view[2] = "b"
    assert view
    assert list(view) == [1, 2, 3]
    assert list(view.items()) == [(1, "a"), (2, "b"), (3, "c")]
    assert list(view.values()) == ["a", "b", "c"]
    assert view == {1: "a", 2: "b", 3: "c"}
    assert (2, "b") in view.items()
    assert (2, "x") not in view.items()
    assert "c" in view.values()
    assert view.get(9) is None
    assert view.pop(2) == "b"
    assert view.setdefault(4, "d") == "d"
    assert view.popitem()[0] in (1, 3, 4)
    for missing in (lambda: view[99], lambda: view.pop(99)):
        with pytest.raises(KeyError):
            missing()
    with pytest.raises(KeyError):
        del view[99]
    view.clear()
    assert dict(view) == {}
    assert list(state["other"].items()) == [(1, "other")]


@pytest.mark.parametrize("count", [1, 127, 128, 129, 1000, 1023, 1024, 1025, 3000])
def test_entries_may_be_removed_while_they_are_iterated(keyed, count):
    """Each entry is seen once, at every border of chunks: a peer loses one where it re-seeks to a removed key."""
    state = keyed.map_state("m", int, int)
    state.put_all("k", {i: i for i in range(count)})
    state.put("kk", 0, 0)
    seen = []
    for user_key, value in state["k"].items():
        seen.append(user_key)
        assert value == user_key
        state.delete("k", user_key)
        if user_key + 1 < count and user_key % 7 == 0:
            state.delete("k", user_key + 1)  # removed before it is reached: still seen, as of the start
    assert seen == list(range(count))
    assert state.is_empty("k")
    assert not state.is_empty("kk")


def test_iterating_sees_the_map_as_of_its_start(keyed):
    state = keyed.map_state("m", int, int)
    state.put_all("k", dict.fromkeys(range(2000), 0))
    iterator = iter(state["k"].items())
    next(iterator)
    state.put_all("k", dict.fromkeys(range(-10, 4000), 1))
    assert list(iterator) == [(i, 0) for i in range(1, 2000)]
    assert len(state["k"]) == 4010


def test_iteration_ends_with_its_backend(tmp_path):
    keyed = sfkv.open(tmp_path / "s", key=str)
    state = keyed.map_state("m", int, int)
    state.put_all("k", {i: i for i in range(3000)})
    iterator = iter(state["k"])
    next(iterator)
    keyed.close()
    with pytest.raises(sfkv.ClosedError):
        list(iterator)


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 5000])
def test_clearing_removes_exactly_the_entries_of_the_key(keyed, count):
    """By points and by ranges; the neighbours are keys that begin alike, and the reads after it are right at once."""
    state = keyed.map_state("m", int, str)
    neighbours = ["", "j", "k\0", "kk", "l", "k" * 50]
    for key in neighbours:
        state.put_all(key, {-1: key, 5: key})
    for clear in (lambda: state.clear("k"), lambda: state.clear_many(["k", "absent", "k"]), lambda: state["k"].clear()):
        state.put_all("k", dict.fromkeys(range(count), "x"))
        assert state.is_empty("k") == (count == 0)
        clear()
        assert state.is_empty("k")
        assert state.items_many(["k"]).to_pylist() == [[]]
        assert state.get("k", 0) is None
        state.put("k", 0, "again")
        assert state.get("k", 0) == "again"
        assert dict(state["k"]) == {0: "again"}
        state.delete("k", 0)
    keyed.compact()
    assert len(entries_of(state)) == 2 * len(neighbours)
    for key in neighbours:
        assert dict(state[key]) == {-1: key, 5: key}


def test_many_clears_of_large_maps_keep_reads_right(keyed):
    """More range deletes than a memtable may hold."""
    state = keyed.map_state("m", int, int)
    for i in range(80):
        state.put_all(f"k{i}", dict.fromkeys(range(1100), i))
    for i in range(79):
        state.clear(f"k{i}")
    assert [state.is_empty(f"k{i}") for i in range(80)] == [True] * 79 + [False]
    assert state.scan_keys().to_arrow()["key"].to_pylist() == ["k79"]


def test_prefixes_of_ff_have_an_end(tmp_path):
    """Scans and range deletes of a prefix that has no successor of its own length run into what follows, elsewhere."""
    keys = [b"", b"\xff", b"\xff\xff", b"\xff" * 5, b"\0", b"\xfe\xff"]
    with sfkv.open(tmp_path / "s", key=bytes, max_parallelism=3) as keyed:
        state = keyed.map_state("m", bytes, int)
        for key in keys:
            state.put_all(key, dict.fromkeys(keys, 1))
        for key in keys:
            assert list(state[key]) == sorted(keys)
        big = keyed.map_state("big", int, int)
        for i in range(-5, 5):
            big.put_all(b"\xff", {i: 1, 2**63 - 1: 1, -(2**63): 1})
        state.clear(b"\xff")
        assert [len(state[key]) for key in keys] == [6, 0, 6, 6, 6, 6]
        assert len(big[b"\xff"]) == 12
    with sfkv.open(tmp_path / "i", key=int, max_parallelism=1) as keyed:
        state = keyed.map_state("m", int, int)
        edges = [-(2**63), -1, 0, 2**63 - 1]
        for key in edges:
            state.put_all(key, {i: i for i in range(1500)})
        for number, key in enumerate(edges):
            state.clear(key)
            assert [len(state[other]) for other in edges] == [0] * (number + 1) + [1500] * (3 - number)


def test_user_keys_of_several_columns_sort_column_by_column(keyed):
    state = keyed.map_state("m", {"day": dt.date, "place": str | None}, int)
    pairs = [(dt.date(2020, 1, 2), "b"), (dt.date(2020, 1, 1), "z"), (dt.date(2020, 1, 2), None), (dt.date(2020, 1, 1), "")]
    state.put_many(["k"] * 4, pairs, [1, 2, 3, 4])
    assert list(state["k"]) == sorted(pairs, key=lambda pair: (pair[0], pair[1] is not None, pair[1] or ""))
    assert state.get_many(["k"] * 4, pairs).to_pylist() == [1, 2, 3, 4]
    table = state.scan().to_arrow()
    assert table.column_names == ["key", "day", "place", "value"]
    assert len(state.items_many(["k"]).to_pylist()[0]) == 4


def test_batches_repeat_answers_and_the_last_write_wins(keyed):
    state = keyed.map_state("m", str, int)
    state.put_many(["a", "b", "a", "a"], ["x", "x", "x", "y"], [1, 2, 3, None], offset=9)
    assert keyed.offset == 9
    assert state.get_many(["a", "a", "b", "c", "a"], ["x", "x", "x", "x", "y"]).to_pylist() == [3, 3, 2, None, None]
    assert state.items_many(["b", "a", "c", "b"]).to_pylist() == [[("x", 2)], [("x", 3), ("y", None)], [], [("x", 2)]]
    assert state.contains_many(["a", "c"]).to_pylist() == [True, False]
    state.delete_many(["a", "b", "z"], ["x", "nothing", "x"])
    assert sorted(entries_of(state)) == [("a", "y", None), ("b", "x", 2)]
    assert state.items_many(pa.array([], pa.utf8())).to_pylist() == []
    assert state.get_many([], []).to_pylist() == []


def test_scans_give_entries_and_distinct_keys(tmp_path):
    with sfkv.open(tmp_path / "s", key=int, max_parallelism=5) as keyed:
        state = keyed.map_state("m", int, int)
        value = keyed.value_state("v", int)
        value.put_many(range(100), range(100))
        keys = np.repeat(np.arange(100), np.arange(100) % 20)
        user_keys = np.concatenate([np.arange(n % 20) for n in range(100)])
        state.put_many(keys, user_keys, keys * 1000 + user_keys)
        rows = [row for batch in state.scan(batch_rows=7) for row in batch.to_pylist()]
        assert sorted((r["key"], r["user_key"], r["value"]) for r in rows) == sorted(
            zip(keys.tolist(), user_keys.tolist(), (keys * 1000 + user_keys).tolist(), strict=True)
        )
        assert sorted(state.scan_keys(batch_rows=3).to_arrow()["key"].to_pylist()) == [n for n in range(100) if n % 20]


def test_bad_input_is_refused_before_anything_is_written(keyed):
    state = keyed.map_state("m", int, int)
    for call in (
        lambda: state.put("k", "x", 1),
        lambda: state.put("k", None, 1),
        lambda: state.put(None, 1, 1),
        lambda: state.put("k", 1, "x"),
        lambda: state.get("k", 1.5),
        lambda: state.put_all("k", {1: 1, 2: "x"}),
        lambda: state.put_all("k", [(1, 1)]),
        lambda: state.put_many(["k", "k"], [1, 2], [1]),
        lambda: state.put_many(["k", "k"], [1], [1, 2]),
        lambda: state.put_many(["k", "k"], [1, None], [1, 2]),
        lambda: state.put_many(["k", None], [1, 2], [1, 2]),
        lambda: state.put_many(["k", "k"], [1, 2], [1, "x"]),
        lambda: state.delete_many(["k"], [1, 2]),
        lambda: state.items_many([1]),
        lambda: list(state[7]),
    ):
        with pytest.raises(sfkv.SchemaError, match="state 'm'"):
            call()
    assert entries_of(state) == []
    with pytest.raises(sfkv.LimitError, match="65535"):
        keyed.map_state("t", str, int).put("k" * 40_000, "u" * 40_000, 1)
    with pytest.raises(sfkv.LimitError, match="65535"):
        keyed.map_state("t", str, int).put_many(["k" * 40_000], ["u" * 40_000], [1])


def test_maps_survive_reopening_and_snapshots(keyed, tmp_path):
    state = keyed.map_state("m", str, object)
    state.put("k", "a", [1])
    keyed.snapshot(1, tmp_path / "chk").result()
    state.put("k", "b", None)
    keyed.close()
    with sfkv.open(tmp_path / "store") as again:
        assert again.states == {"m": "map<utf8, msgpack>"}
        assert dict(again.map_state("m", str, object)["k"]) == {"a": [1], "b": None}
        with pytest.raises(sfkv.SchemaError, match="map<utf8, msgpack>.*map<int64, msgpack>"):
            again.map_state("m", int, object)
    with new_backend().restore(tmp_path / "r", tmp_path / "chk" / "chk-1") as restored:
        assert dict(restored.map_state("m", str, object)["k"]) == {"a": [1]}
