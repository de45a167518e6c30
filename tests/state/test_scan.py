"""Scans: all rows of a state, as of the start."""

import numpy as np
import pyarrow as pa
import pytest

import sfkv

pytestmark = pytest.mark.backends


def as_dict(scan):
    return {row["key"]: row["value"] for row in scan.to_arrow().to_pylist()}


def test_a_scan_gives_all_rows_of_its_state_and_no_other(keyed):
    states = [keyed.value_state(f"s{i}", int) for i in range(3)]
    for i, state in enumerate(states):
        state.put_many([f"k{j}" for j in range(300)], [1000 * i + j for j in range(300)])
    for i, state in enumerate(states):
        assert as_dict(state.scan()) == {f"k{j}": 1000 * i + j for j in range(300)}
        assert sorted(state.scan_keys().to_arrow()["key"].to_pylist()) == sorted(f"k{j}" for j in range(300))
    assert keyed.value_state("empty", int).scan().to_arrow().num_rows == 0


def test_rows_come_by_key_group_and_sorted_within(tmp_path):
    with sfkv.open(tmp_path / "s", key=int, max_parallelism=7) as keyed:
        state = keyed.value_state("v", int)
        keys = list(range(-500, 500))
        state.put_many(keys, keys)
        scanned = state.scan().to_arrow()["key"].to_pylist()
        groups = dict(zip(keys, sfkv.key_groups(keys, 7).to_pylist(), strict=True))
        assert scanned == sorted(keys, key=lambda key: (groups[key], key))


@pytest.mark.parametrize("batch_rows", [1, 2, 99, 100, 101, 65536])
def test_batches_have_the_size_asked_for(keyed, batch_rows):
    state = keyed.value_state("v", str)
    state.put_many([f"k{i}" for i in range(100)], ["x" * i for i in range(100)])
    batches = list(state.scan(batch_rows=batch_rows))
    assert sum(batch.num_rows for batch in batches) == 100
    assert all(batch.num_rows == min(batch_rows, 100) for batch in batches[:-1])
    assert all(batch.schema == state.scan().schema for batch in batches)


def test_a_scan_sees_the_state_as_of_its_start(keyed):
    state = keyed.value_state("v", int)
    state.put_many([f"k{i}" for i in range(1000)], list(range(1000)))
    scan = state.scan(batch_rows=10)
    first = next(scan)
    state.clear_many([f"k{i}" for i in range(0, 1000, 2)])
    state.put_many([f"k{i}" for i in range(1, 1000, 2)], [0] * 500)
    state.put("new", 1)
    keyed._store.flush()
    rest = scan.to_arrow()
    seen = dict(zip(*(first[c].to_pylist() + rest[c].to_pylist() for c in ("key", "value")), strict=True))
    assert seen == {f"k{i}": i for i in range(1000)}
    assert as_dict(state.scan()) == {"new": 1, **{f"k{i}": 0 for i in range(1, 1000, 2)}}


def test_columns_of_composite_keys_and_records(tmp_path):
    with sfkv.open(tmp_path / "s", key={"user": str, "day": int}) as keyed:
        state = keyed.value_state("v", {"n": int, "day": float | None})
        state.put(("a", 1), {"n": 2, "day": 3.5})
        state.put(("a", 2), {"n": 3, "day": None})
        rows = state.scan().to_arrow()
        assert rows.column_names == ["user", "day", "n", "value_day"]
        assert sorted(rows.to_pylist(), key=lambda row: row["day"]) == [
            {"user": "a", "day": 1, "n": 2, "value_day": 3.5},
            {"user": "a", "day": 2, "n": 3, "value_day": None},
        ]
        assert rows.schema.field("user").nullable is False
        assert state.scan_keys().to_arrow().column_names == ["user", "day"]


def test_arrow_consumers_read_it_as_a_stream(keyed):
    state = keyed.value_state("v", int)
    state.put_many(["a", "b"], [1, 2])
    reader = pa.RecordBatchReader.from_stream(state.scan())
    assert sorted(reader.read_all().to_pylist(), key=lambda row: row["key"]) == [
        {"key": "a", "value": 1},
        {"key": "b", "value": 2},
    ]


def test_a_scan_ends_and_stays_ended(keyed):
    state = keyed.value_state("v", int)
    state.put_many(np.array(["a", "b"]), [1, 2])
    with state.scan(batch_rows=1) as scan:
        next(scan)
        assert keyed._store.open_scans == 1
    assert keyed._store.open_scans == 0
    assert list(scan) == []
    scan.close()
    exhausted = state.scan()
    assert len(list(exhausted)) == 1
    assert keyed._store.open_scans == 0
    assert list(exhausted) == []
    dropped = state.scan()
    assert keyed._store.open_scans == 1
    del dropped
    assert keyed._store.open_scans == 0


class Odd:
    """Counts, and cannot tell an even count."""

    def create(self):
        return 0

    def add(self, accumulator, value):
        return accumulator + value

    def merge(self, a, b):
        return a + b

    def result(self, accumulator):
        if accumulator % 2 == 0:
            raise ArithmeticError("even")
        return accumulator


def test_a_scan_that_failed_does_not_look_complete(keyed):
    state = keyed.aggregating_state("odd", int, Odd(), result=int)
    state.add_many(["a", "b", "c"], [1, 2, 3])
    for batch_rows in (1, 65536):
        scan = state.scan(batch_rows=batch_rows)
        with pytest.raises(sfkv.UsageError, match="even"):
            scan.to_arrow()
        assert keyed._store.open_scans == 0
        with pytest.raises(sfkv.ClosedError):
            next(scan)
        for again in (scan.to_arrow, lambda: pa.table(scan)):  # noqa: B023
            with pytest.raises(ValueError, match="ended before all rows were given.*even"):
                again()
    state.add("b", 1)
    assert state.scan().to_arrow().num_rows == 3


def test_a_state_is_not_iterated_but_scanned(keyed, tmp_path):
    """With brackets alone, Python would ask for the keys 0, 1, 2 and so on, and for a map state never end."""
    states = [
        keyed.value_state("v", int),
        keyed.list_state("l", int),
        keyed.map_state("m", int, int),
        keyed.reducing_state("r", int, "sum"),
        keyed.aggregating_state("a", int, "mean"),
        keyed.table("t", int, int),
    ]
    for state in states:
        for iterate in (iter, list, dict):
            with pytest.raises(sfkv.UsageError, match=r"scan_keys\(\)") as raised:
                iterate(state)
            assert raised.value.state == state.name
    assert "a" not in states[0]


def test_reads_of_several_states_are_pairs(keyed):
    value, entries = keyed.value_state("v", int), keyed.map_state("m", str, int)
    for wrong in (None, 5, "ab", value, entries, [value], [entries], [(value,)], [(value, ["a"], 1)], {value: ["a"]}):
        with pytest.raises(sfkv.UsageError, match="pair|scan_keys"):
            keyed.get_many(wrong)
    with pytest.raises(sfkv.UsageError, match="its own get_many"):
        keyed.get_many([(entries, ["a"])])


def test_a_scan_ends_with_its_backend_and_the_directory_is_free(tmp_path):
    """A live iterator in a peer keeps the lock after close(), so that the directory cannot be opened again."""
    keyed = sfkv.open(tmp_path / "s", key=str)
    state = keyed.value_state("v", int)
    state.put_many([str(i) for i in range(100)], list(range(100)))
    scan = state.scan(batch_rows=1)
    next(scan)
    keyed.close()
    with pytest.raises(sfkv.ClosedError):
        next(scan)
    with sfkv.open(tmp_path / "s") as again:
        assert again.value_state("v", int).get("7") == 7
    scan.close()


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, 1 << 25])
def test_a_bad_batch_size_is_refused(keyed, bad):
    with pytest.raises(sfkv.ConfigError, match="batch_rows"):
        keyed.value_state("v", int).scan(batch_rows=bad)


@pytest.mark.parametrize("columns", [5, [["a"]], [5], ["a", "a"], [], "c", b"a", {"a": 1}.values()])
def test_columns_that_are_none_are_refused_by_every_way(keyed, columns):
    states = [keyed.value_state("v", {"a": int, "b": str}), keyed.table("t", {"k": str}, {"a": int, "b": str})]
    for state in states:
        with pytest.raises(sfkv.SchemaError, match="columns is .*: name one or more of k.*, a, b, each once"):
            state.scan(columns=columns)
        with pytest.raises(sfkv.SchemaError) as raised:
            state.get_many([], columns=columns)
        assert raised.value.state == state.name
    with pytest.raises(sfkv.SchemaError, match="columns is"):
        states[1].scan_range(columns=columns)


def test_numpys_integers_are_batch_sizes(keyed):
    state = keyed.value_state("v", int)
    state.put_many(["a", "b", "c"], [1, 2, 3])
    assert sum(batch.num_rows for batch in state.scan(batch_rows=np.int64(1))) == 3


def test_long_rows_make_short_batches(keyed):
    state = keyed.value_state("v", bytes)
    state.put_many([str(i) for i in range(10)], [bytes(10 << 20)] * 10)
    batches = [batch.num_rows for batch in state.scan()]
    assert sum(batches) == 10
    assert len(batches) >= 2
