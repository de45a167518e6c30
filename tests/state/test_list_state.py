"""ListState: lists that are appended to without reading them."""

import numpy as np
import pyarrow as pa
import pytest

import sfkv
from tests.backends import new_backend
from tests.state.test_value_state import VALUES, Trip

pytestmark = pytest.mark.backends


def rows_of(state):
    return {row["key"]: row["value"] for row in state.scan().to_arrow().to_pylist()}


@pytest.mark.parametrize("type", VALUES, ids=str)
def test_elements_of_every_type_come_back_by_every_way(keyed, type):
    values = VALUES[type] * 2
    one, all_at_once, many, updated = (keyed.list_state(name, type) for name in ("one", "all", "many", "updated"))
    for value in values:
        one.add("k", value)
    all_at_once.add_all("k", values)
    many.add_many(["k"] * len(values), values)
    updated.update("k", values)
    for state in (one, all_at_once, many, updated):
        assert state.get("k") == values
        assert state["k"] == values
    answers = [state.get_many(["absent", "k"]) for state in (one, all_at_once, many, updated)]
    assert all(answer == answers[0] for answer in answers)
    if isinstance(answers[0], list):
        assert answers[0] == [[], values]
    else:
        assert answers[0].to_pylist()[0] == []
        assert len(answers[0].to_pylist()[1]) == len(values)
    updated.update_many(["k", "l"], [values[:1], values])
    assert updated.get("k") == values[:1]
    assert updated.get("l") == values


def test_adding_appends_in_order_across_all_ways(keyed):
    state = keyed.list_state("l", int)
    state.add("a", 1)
    state.add_many(["a", "b", "a"], [2, 10, 3])
    keyed._store.flush()
    state.add_all("a", [4, 5])
    state.add_many(pa.array(["b", "a"]), np.array([11, 6]))
    assert state.get("a") == [1, 2, 3, 4, 5, 6]
    assert state.get_many(["b", "z", "a", "b"]).to_pylist() == [[10, 11], [], [1, 2, 3, 4, 5, 6], [10, 11]]
    keyed.compact()
    state.add("a", 7)
    assert state.get("a") == [1, 2, 3, 4, 5, 6, 7]
    state.update("a", [9])
    state.add("a", 10)
    assert state.get("a") == [9, 10]
    assert rows_of(state) == {"a": [9, 10], "b": [10, 11]}


def test_an_empty_list_is_absent(keyed):
    state = keyed.list_state("l", str)
    assert state.get("a") == []
    assert "a" not in state
    with pytest.raises(KeyError):
        state["a"]
    state.add_all("a", [])
    assert "a" not in state
    state.add("a", "")
    assert "a" in state
    assert state.get("a") == [""]
    for clear in (
        lambda: state.update("a", []),
        lambda: state.update("a", None),
        lambda: state.clear("a"),
        lambda: state.clear_many(["a"]),
        lambda: state.update_many(["a"], [[]]),
        lambda: state.update_many(["a", "a"], [["x"], None]),
        lambda: state.update_many(["a"], pa.array([None], pa.list_(pa.utf8()))),
    ):
        state.add("a", "x")
        clear()
        assert "a" not in state
        assert state.contains_many(["a"]).to_pylist() == [False]
    assert rows_of(state) == {}
    state.add("a", "y")
    assert state.get("a") == ["y"]


def test_each_list_of_a_scan_is_its_own(keyed):
    """The engine's iterators hand one row's string to the next row's merge: what is in it must not stay."""
    state = keyed.list_state("l", int)
    for number in range(3):
        state.add_many(["a", "b", "c", "d"], [number] * 4)
    assert rows_of(state) == {key: [0, 1, 2] for key in "abcd"}
    keyed.compact()
    state.add_many(["a", "b"], [3, 3])
    assert rows_of(state) == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3], "c": [0, 1, 2], "d": [0, 1, 2]}


def test_what_is_read_may_be_changed_freely(keyed):
    state = keyed.list_state("l", int)
    state.add("a", 1)
    state.get("a").append(2)
    assert state.get("a") == [1]


@pytest.mark.parametrize(
    "lists",
    [
        [[1, 2], [], [3]],
        ((1, 2), (), (3,)),
        pa.array([[1, 2], [], [3]]),
        pa.array([[1, 2], None, [3]], pa.large_list(pa.int32())),
        pa.array([[9], [1, 2], [], [3], [9]]).slice(1, 3),
        pa.chunked_array([[[1, 2]], [[], [3]]]),
        [np.array([1, 2]), [], pa.array([3])],
    ],
)
def test_lists_are_taken_in_every_shape(keyed, lists):
    state = keyed.list_state("l", int)
    state.update_many(["a", "b", "c"], lists)
    assert state.get_many(["a", "b", "c"]).to_pylist() == [[1, 2], [], [3]]


def test_a_fixed_size_list_array_is_taken(keyed):
    state = keyed.list_state("l", int)
    state.update_many(["a", "b"], pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)))
    assert state.get_many(["b", "a"]).to_pylist() == [[3, 4], [1, 2]]


def test_none_is_no_element_and_nothing_is_written(keyed):
    state = keyed.list_state("l", int)
    state.add("a", 1)
    for call in (
        lambda: state.add("a", None),
        lambda: state.add_all("a", [2, None]),
        lambda: state.update("a", [2, None]),
        lambda: state.add_many(["a", "b"], [2, None]),
        lambda: state.update_many(["a", "b"], [[2], [None]]),
    ):
        with pytest.raises(sfkv.SchemaError, match="None"):
            call()
    records = keyed.list_state("r", Trip)
    with pytest.raises(sfkv.SchemaError, match="None") as raised:
        records.add_many(["a", "b"], [VALUES[Trip][0], None])
    assert raised.value.row == 1
    assert rows_of(state) == {"a": [1]}
    assert rows_of(records) == {}


def test_bad_input_is_refused_before_anything_is_written(keyed):
    state = keyed.list_state("l", int)
    for call in (
        lambda: state.add("a", "x"),
        lambda: state.add_all("a", [1, "x"]),
        lambda: state.add_all("a", "text"),
        lambda: state.add_all("a", 7),
        lambda: state.add_many(["a", "b"], [1]),
        lambda: state.add_many(["a", None], [1, 2]),
        lambda: state.update_many(["a", "b"], [[1]]),
        lambda: state.update_many(["a"], [7]),
        lambda: state.update_many(["a"], ["text"]),
        lambda: state.update_many(["a"], pa.array([1])),
        lambda: state.update_many(["a"], 7),
        lambda: state.add(7, 1),
    ):
        with pytest.raises(sfkv.SchemaError, match=r"state 'l'"):
            call()
    assert rows_of(state) == {}


def test_records_and_objects_in_batches(keyed):
    trips = keyed.list_state("t", Trip)
    trips.add_many(["a", "b", "a"], VALUES[Trip] + VALUES[Trip][:1])
    assert trips.get("a") == [VALUES[Trip][0], VALUES[Trip][0]]
    assert trips.get_many(["a"]).to_pylist()[0][0] == vars(VALUES[Trip][0])
    objects = keyed.list_state("o", object)
    objects.add_many(["a", "a"], [{"x": 1}, [2]])
    assert objects.get_many(["b", "a"]) == [[], [{"x": 1}, [2]]]
    assert objects.get("a") == [{"x": 1}, [2]]


def test_lists_survive_reopening_and_snapshots(keyed, tmp_path):
    state = keyed.list_state("l", str)
    state.add_many(["a", "b", "a"], ["1", "2", "3"], offset=7)
    keyed.snapshot(1, tmp_path / "chk").result()
    state.add("a", "4")
    keyed.close()
    with sfkv.open(tmp_path / "store") as again:
        assert again.states == {"l": "list<utf8>"}
        assert again.offset == 7
        assert again.list_state("l", str).get("a") == ["1", "3", "4"]
        with pytest.raises(sfkv.SchemaError, match="list<utf8>.*value<utf8>"):
            again.value_state("l", str)
    with new_backend().restore(tmp_path / "r", tmp_path / "chk" / "chk-1") as restored:
        restored.list_state("l", str).add("a", "5")
        assert restored.list_state("l", str).get("a") == ["1", "3", "5"]


def test_many_appends_to_one_list_are_read_right(keyed):
    """A chain of merge operands, in memory and in files, part of it compacted."""
    state = keyed.list_state("l", int)
    for begin in range(0, 30_000, 1000):
        state.add_many(["a"] * 1000, list(range(begin, begin + 1000)))
        if begin == 10_000:
            keyed._store.flush()
        if begin == 20_000:
            keyed.compact()
    for number in range(30_000, 30_100):
        state.add("a", number)
    assert state.get("a") == list(range(30_100))
    assert state.get_many(["a"]).to_pylist() == [list(range(30_100))]


def test_a_list_that_would_be_too_long_is_refused_at_the_write_and_reads_on(keyed):
    state = keyed.list_state("l", bytes)
    piece = bytes(8 << 20)
    with pytest.raises(sfkv.LimitError, match="268435456") as raised:
        for _ in range(64):
            state.add("a", piece)
    assert raised.value.state == "l"
    length = len(state.get("a"))
    assert 31 <= length <= 34
    with pytest.raises(sfkv.LimitError):
        state.add_many(["b"] * 40, [piece] * 40)
    with pytest.raises(sfkv.LimitError):
        state.update("b", [piece] * 40)
    with pytest.raises(sfkv.LimitError):
        state.update_many(["b"], [[piece] * 40])
    assert "b" not in state
    state.update("a", [b"short"])
    state.add("a", b"x")
    assert state.get("a") == [b"short", b"x"]


def test_writes_are_split_and_all_arrive(tmp_path):
    with new_backend(write_batch_bytes=64).open(tmp_path / "s", key=int) as keyed:
        state = keyed.list_state("l", str)
        keys = [i % 100 for i in range(1000)]
        state.add_many(keys, [str(i) for i in range(1000)])
        assert state.get_many(range(100)).to_pylist() == [[str(i) for i in range(k, 1000, 100)] for k in range(100)]
        state.update_many(range(100), [[str(k)] * (k % 3) for k in range(100)])
        assert state.get_many(range(100)).to_pylist() == [[str(k)] * (k % 3) for k in range(100)]
