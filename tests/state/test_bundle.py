"""Bundles: a batch's rows as a dict."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

import sfkv

pytestmark = pytest.mark.backends


@dataclasses.dataclass
class Count:
    n: int
    worst: float | None = None


def stored(state):
    return {row["key"]: row["value"] for row in state.scan().to_arrow().to_pylist()}


def test_a_bundle_reads_once_and_writes_what_changed(keyed):
    state = keyed.value_state("v", int)
    state.put_many(["a", "b", "c"], [1, 2, 3])
    with state.bundle(["c", "a", "x", "a", "b", "y"]) as rows:
        assert list(rows.items()) == [("c", 3), ("a", 1), ("x", None), ("b", 2), ("y", None)]
        rows["a"] += 10
        rows["x"] = 24
        rows["b"] = None
        del rows["c"]
    assert stored(state) == {"a": 11, "x": 24}


def test_on_an_exception_nothing_is_written(keyed):
    state = keyed.value_state("v", int)
    state.put("a", 1)
    with pytest.raises(RuntimeError, match="mine"), state.bundle(["a", "b"]) as rows:
        rows["a"] = 2
        rows["b"] = 3
        raise RuntimeError("mine")
    assert stored(state) == {"a": 1}


def test_another_key_is_a_key_error(keyed):
    state = keyed.value_state("v", int)
    with pytest.raises(KeyError), state.bundle(["a"]) as rows:
        rows["b"]
    with pytest.raises(KeyError, match="'b' is not among the keys"), state.bundle(["a"]) as rows:
        rows["a"] = 1
        rows["b"] = 1
    with pytest.raises(KeyError, match="'b' is not among the keys"), state.bundle(["a"]) as rows:
        del rows["a"]
        rows["b"] = 1
    assert stored(state) == {}


def test_values_that_are_changed_in_place_are_written(keyed):
    counts = keyed.value_state("counts", Count)
    lists = keyed.value_state("lists", list[int])
    counts.put("a", Count(1))
    lists.put("a", [1])
    with counts.bundle(["a"]) as rows:
        rows["a"].n += 1
        rows["a"].worst = 2.5
    with lists.bundle(["a"]) as rows:
        rows["a"].append(2)
    assert counts.get("a") == Count(2, 2.5)
    assert lists.get("a") == [1, 2]


def test_what_did_not_change_is_not_written(keyed, tmp_path):
    """Seen by what a concurrent write leaves: the bundle must not write the old value back."""
    for name, type, old, new in (("int", int, 1, 2), ("record", Count, Count(1), Count(2)), ("object", object, [1], [2])):
        state = keyed.value_state(name, type)
        state.put("a", old)
        with state.bundle(["a", "b"]) as rows:
            rows["b"] = new
            state.put("a", new)
        assert state.get("a") == new
        with state.bundle(["a"]) as rows:
            state.clear("a")
            rows["a"] = new  # equal to what was read
        assert state.get("a") is None


def test_bundles_may_be_nested_and_the_last_to_end_wins(keyed):
    state = keyed.value_state("v", int)
    with state.bundle(["a", "b"]) as outer:
        with state.bundle(["a"]) as inner:
            inner["a"] = 1
        assert outer["a"] is None
        outer["a"] = 2
    assert state.get("a") == 2


def test_a_bundle_is_entered_once(keyed):
    bundle = keyed.value_state("v", int).bundle(["a"])
    with bundle:
        pass
    with pytest.raises(sfkv.UsageError, match="once"):
        bundle.__enter__()


def test_a_bundle_ends_with_its_backend(tmp_path):
    keyed = sfkv.open(tmp_path / "s", key=str)
    with pytest.raises(sfkv.ClosedError), keyed.value_state("v", int).bundle(["a"]) as rows:
        rows["a"] = 1
        keyed.close()
    with sfkv.open(tmp_path / "s") as keyed:
        assert keyed.value_state("v", int).get("a") is None


def test_the_dict_outlives_the_block_and_does_nothing_then(keyed):
    state = keyed.value_state("v", int)
    with state.bundle(["a"]) as rows:
        rows["a"] = 1
    rows["a"] = 5
    assert state.get("a") == 1


def test_keys_that_were_taken_out_and_put_back_are_written(keyed):
    """The dict has another order then than the batch."""
    state = keyed.value_state("v", int)
    state.put_many(["a", "b", "c", "d"], [1, 2, 3, 4])
    with state.bundle(["a", "b", "c", "d"]) as rows:
        del rows["a"]
        rows["b"] = 20
        rows["a"] = 10
        del rows["c"]
        rows["d"] = 40
    assert stored(state) == {"a": 10, "b": 20, "d": 40}


@pytest.mark.parametrize("value", [int, Count, object])
def test_a_key_that_comes_again_is_one_row(keyed, value):
    state = keyed.value_state("v", value)
    old, new = {int: (7, 8), Count: (Count(7), Count(8)), object: ([7], [8])}[value]
    state.put("b", old)
    with state.bundle(["a", "b", "a", "b", "b"]) as rows:
        assert rows == {"a": None, "b": old}
        rows["a"] = new
        rows["b"] = new
    with state.bundle(["b", "a"]) as rows:
        assert list(rows.items()) == [("b", new), ("a", new)]


def test_keys_of_any_form_are_the_same_keys(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", int)
        forms = [[1, 2, 1], (1, 2, 1), np.array([1, 2, 1]), pa.array([1, 2, 1]), [np.int64(1), 2, np.int64(1)]]
        for number, keys in enumerate(forms):
            with state.bundle(keys) as rows:
                assert list(rows) == [1, 2]
                assert {type(key) for key in rows} == {int}
                for key in rows:
                    rows[key] = (rows[key] or 0) + 1
            assert stored(state) == {1: number + 1, 2: number + 1}
        with pytest.raises(sfkv.SchemaError), state.bundle([1, True]):
            pass
        with pytest.raises(sfkv.SchemaError), state.bundle([1, None]):
            pass
        with pytest.raises(sfkv.SchemaError), state.bundle([1, 2**63]):
            pass


def test_a_list_may_change_while_its_bundle_is_open(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", int)
        keys = [1, 2, 3]
        with state.bundle(keys) as rows:
            keys.clear()
            rows[1] = 10
            rows[3] = 30
        assert stored(state) == {1: 10, 3: 30}


def test_keys_of_several_columns(tmp_path):
    key = {"user": str, "day": int, "part": bytes}
    with sfkv.open(tmp_path / "s", key=key) as keyed:
        state = keyed.value_state("v", float)
        keys = [("a", 1, b"x"), ("a", 2, b"x"), ("a", 1, b"x"), ("", -1, b"")]
        with state.bundle(keys) as rows:
            assert list(rows) == [keys[0], keys[1], keys[3]]
            for number, each in enumerate(rows):
                rows[each] = number + 0.5
        assert state.get_many(keys).to_pylist() == [0.5, 1.5, 0.5, 2.5]


def test_a_batch_of_no_keys(keyed):
    with keyed.value_state("v", int).bundle([]) as rows:
        assert rows == {}
