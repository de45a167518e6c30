"""Tables: rows in the order of a key of their own, and ranges of them."""

import dataclasses
import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import sfkv
from tests.backends import new_backend
from tests.state.windows import WINDOW, ends, seeks_of

pytestmark = pytest.mark.backends

# --- One row, and batches.


def test_single_rows(keyed):
    table = keyed.table("t", WINDOW, float, group_by=["user"])
    table.put((5, "a"), 1.5)
    assert table.get((5, "a")) == table[5, "a"] == 1.5
    assert table.get((5, "b")) is None
    assert table.get((6, "a"), 0.0) == 0.0
    assert (5, "a") in table
    assert (4, "a") not in table
    table.delete((5, "a"))
    table.delete((5, "a"))
    with pytest.raises(KeyError):
        table[5, "a"]
    table.put((5, "a"), 2.5)
    table.put((5, "a"), None)
    assert (5, "a") not in table


def test_batches(keyed):
    table = keyed.table("t", WINDOW, int, group_by="user")
    keys = pa.RecordBatch.from_pydict({"user": ["a", "b", "a"], "end": [1, 2, 1]})
    table.put_many(keys, [1, 2, 3], offset={"at": 7})
    assert keyed.offset == {"at": 7}
    assert table.get_many([(2, "b"), (1, "a"), (9, "z"), (2, "b")]).to_pylist() == [2, 3, None, 2]
    assert table.contains_many([(2, "b"), (9, "z")]).to_pylist() == [True, False]
    table.put_many(([1, 2], ["a", "b"]), [None, 5])
    table.delete_many([(7, "z")], offset=8)
    assert keyed.offset == 8
    assert table.scan().to_arrow().to_pylist() == [{"end": 2, "user": "b", "value": 5}]
    assert table.scan_keys().to_arrow().to_pylist() == [{"end": 2, "user": "b"}]


def test_plain_keys_and_classes(keyed):
    plain = keyed.table("plain", dt.datetime, str)
    plain.put(dt.datetime(2024, 1, 2), "second")
    plain.put(dt.datetime(2024, 1, 1), "first")
    assert plain.scan_range(None, dt.datetime(2024, 1, 2)).to_arrow()["value"].to_pylist() == ["first"]
    assert plain.scan_prefix(dt.datetime(2024, 1, 2)).to_arrow()["value"].to_pylist() == ["second"]

    @dataclasses.dataclass
    class Timer:
        at: int
        user: str

    table = keyed.table("timers", Timer, {"n": int}, group_by="user")
    table.put(Timer(3, "a"), {"n": 1})
    assert table.get((3, "a")) == {"n": 1}
    assert table.get_many([Timer(3, "a"), Timer(4, "a")]).to_pylist() == [{"n": 1}, None]


def test_tables_have_no_rows_in_common_with_states(keyed):
    before, table, behind = keyed.value_state("a", int), keyed.table("t", str, int), keyed.value_state("b", int)
    for state in (before, table, behind):
        state.put_many(["x", "y"], [1, 2])
    table.delete_range()
    assert table.scan().to_arrow().num_rows == 0
    assert before.get_many(["x", "y"]).to_pylist() == behind.get_many(["x", "y"]).to_pylist() == [1, 2]


# --- Key groups.


@pytest.mark.parametrize(
    ("key", "group_by", "group_key", "cells"),
    [
        (WINDOW, "user", str, [["a", "hello", "", "\U0001f600"]]),
        ({"end": int, "user": pa.int32()}, ("user",), pa.int32(), [[0, 42, -1]]),
        ({"end": int, "user": int}, "user", int, [[0, 1234567890123, -1]]),
        ({"end": int, "user": str | None}, "user", {"user": str | None}, [["a", None, "b\0"]]),
        ({"a": str, "end": int, "b": float}, ("b", "a"), {"b": float, "a": str}, [[1.5, -0.0, 9.0], ["x", "", "\0"]]),
        ({"a": str, "end": int}, None, {"a": str, "end": int}, [["x", "y", "z"], [7, 7, 7]]),
        ({"a": str, "end": int}, ["a", "end"], {"a": str, "end": int}, [["x", "y", "z"], [7, 7, 7]]),
    ],
)
def test_the_key_group_is_that_of_the_group_columns(keyed, key, group_by, group_key, cells):
    """As sfkv.key_groups has it, which is what a backend with keys of these columns goes by."""
    table = keyed.table("t", key, int, group_by=group_by)
    names = [group_by] if isinstance(group_by, str) else list(group_by or key)
    rows = [dict.fromkeys(key, 7) | dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
    keys = [tuple(row.values()) for row in rows]
    columns = cells[0] if not isinstance(group_key, dict) else dict(zip(group_key, cells, strict=True))
    groups = sfkv.key_groups(columns, 128, key=group_key).to_pylist()
    table.put_many(keys, list(range(len(keys))))
    for number, (one, group) in enumerate(zip(keys, groups, strict=True)):
        assert keyed._store.read_range(
            group.to_bytes(2, "big") + bytes([table._table.id]), group.to_bytes(2, "big") + bytes([table._table.id + 1])
        )
        assert table.get(one) == number, "a single key and a batch disagree"
        assert table._table.group_of_prefix(table._encode(one, "test"), "test") == group


def test_rows_of_a_user_lie_in_the_key_group_of_the_user(tmp_path):
    """A backend that owns half of the groups takes the same users in its states and its tables."""
    users = [f"u{i}" for i in range(200)]
    groups = sfkv.key_groups(users, 16).to_pylist()
    with sfkv.open(tmp_path / "s", key=str, max_parallelism=16, key_groups=(8, 15)) as keyed:
        table = keyed.table("t", WINDOW, int, group_by="user")
        for user, group in zip(users, groups, strict=True):
            if group >= 8:
                keyed.value_state("v", int).put(user, 1)
                table.put((1, user), 1)
            else:
                for call in (
                    lambda user=user: table.put((1, user), 1),
                    lambda user=user: table.put_many([(1, user)], [1]),
                    lambda user=user: table.scan_prefix((1, user)),
                    lambda user=user: table.scan_range((1, user), (1, user), upper_inclusive=True),
                    lambda user=user: table.delete_range((1, user), (1, user), upper_inclusive=True),
                ):
                    with pytest.raises(sfkv.KeyGroupError, match="8 to 15"):
                        call()
        assert table.scan_prefix(1).to_arrow().num_rows == sum(group >= 8 for group in groups)


# --- Ranges.


def test_ranges(windows):
    assert sorted(ends(windows.scan_range(None, 2))) == [0, 0, 0, 1, 1, 1]
    assert sorted(ends(windows.scan_range(97))) == [97] * 3 + [98] * 3 + [99] * 3
    assert sorted(ends(windows.scan_range(97, lower_inclusive=False))) == [98] * 3 + [99] * 3
    assert sorted(ends(windows.scan_range(50, 51, upper_inclusive=True))) == [50] * 3 + [51] * 3
    assert ends(windows.scan_range((50, "u150"), (50, "u150"), upper_inclusive=True)) == [50]
    assert ends(windows.scan_range((50, "u150"), (50, "u150"))) == []
    assert sorted(ends(windows.scan_prefix(7))) == [7, 7, 7]
    assert windows.scan_prefix((7, "u107")).to_arrow().to_pylist() == [{"end": 7, "user": "u107", "value": 107}]
    assert len(ends(windows.scan_range())) == 300


def test_rows_come_by_key_group_and_in_order_and_reversed(windows):
    rows = windows.scan_range(10, 90).to_arrow().to_pylist()
    groups = sfkv.key_groups([row["user"] for row in rows]).to_pylist()
    order = [(group, row["end"], row["user"]) for group, row in zip(groups, rows, strict=True)]
    assert order == sorted(order)
    reverse = windows.scan_range(10, 90, reverse=True, batch_rows=7).to_arrow().to_pylist()
    assert reverse == rows[::-1]


def test_bounds_at_the_ends_of_types(keyed):
    least, most = -(2**63), 2**63 - 1
    table = keyed.table("t", {"n": int, "m": pa.int8()}, int)
    table.put_many([(least, -128), (most, 127), (0, 0)], [1, 2, 3])
    value = lambda scan: sorted(scan.to_arrow()["value"].to_pylist())  # noqa: E731
    assert value(table.scan_range(None, most)) == [1, 3]
    assert value(table.scan_range(None, most, upper_inclusive=True)) == [1, 2, 3]
    assert value(table.scan_range(most, lower_inclusive=False)) == []
    assert value(table.scan_range(most)) == [2]
    assert value(table.scan_range((most, 127))) == [2]
    assert value(table.scan_prefix((most, 127))) == [2]
    assert value(table.scan_range(None, least)) == []
    assert value(table.scan_range(least, least, upper_inclusive=True)) == [1]


def test_null_bounds_and_texts_with_zeros(keyed):
    table = keyed.table("t", {"text": str | None}, int)
    texts = [None, "", "\0", "a", "a\0", "a\0b", "b"]
    table.put_many({"text": texts}, list(range(7)))
    value = lambda scan: sorted(scan.to_arrow()["value"].to_pylist())  # noqa: E731
    assert value(table.scan_prefix((None,))) == [0]
    assert value(table.scan_prefix(None)) == [0]
    assert value(table.scan_range((None,), (None,), upper_inclusive=True)) == [0]
    assert value(table.scan_range((None,), lower_inclusive=False)) == [1, 2, 3, 4, 5, 6]
    assert value(table.scan_range("", "a")) == [1, 2]
    assert value(table.scan_range("a", "b", lower_inclusive=False)) == [4, 5]
    assert value(table.scan_range("a", "a", upper_inclusive=True)) == [3]


@pytest.mark.only("rocksdb", reason="it counts the engine's seeks")
def test_an_empty_range_does_not_ask_the_engine(keyed, windows):
    for bounds in ((5, 5), (6, 5), ((5, "b"), (5, "a")), ((5, "a"), 5)):
        assert seeks_of(keyed, lambda bounds=bounds: ends(windows.scan_range(*bounds))) == 0
        windows.delete_range(*bounds)
    assert len(ends(windows.scan())) == 300


@pytest.mark.only("rocksdb", reason="it counts the engine's seeks")
def test_one_key_group_is_visited_where_the_bounds_tell_it(keyed, windows):
    by_user = keyed.table("by user", {"user": str, "end": int}, int, group_by="user")
    by_user.put_many({"user": ["a"] * 10 + ["b"] * 10, "end": [*range(10)] * 2}, range(20))
    assert seeks_of(keyed, lambda: ends(by_user.scan_prefix("a"))) <= 2
    assert seeks_of(keyed, lambda: ends(by_user.scan_range(("a", 3), ("a", 6)))) <= 2
    assert ends(by_user.scan_range(("a", 3), ("a", 6))) == [3, 4, 5]
    assert ends(by_user.scan_range(("b", 8), "b", upper_inclusive=True)) == [8, 9]
    by_user.delete_range(("b", 2), ("b", 9))
    assert ends(by_user.scan_prefix("b")) == [0, 1, 9]
    assert seeks_of(keyed, lambda: ends(windows.scan_prefix((5, "u5")))) <= 2
    assert seeks_of(keyed, lambda: ends(windows.scan_prefix(5))) > 64


@pytest.mark.parametrize("batch_rows", [1, 2, 100, 65536])
def test_batches_have_the_size_asked_for(windows, batch_rows):
    batches = list(windows.scan_range(0, 50, batch_rows=batch_rows))
    assert [batch.num_rows for batch in batches] == [batch_rows] * (150 // batch_rows) + [150 % batch_rows] * (
        150 % batch_rows > 0
    )


@pytest.mark.only("rocksdb", reason="it counts the engine's seeks")
def test_an_early_stop_reads_no_further(keyed, windows):
    scan = windows.scan_range(batch_rows=1)
    assert seeks_of(keyed, lambda: next(scan)) < 20
    scan.close()
    assert keyed._store.open_scans == 0


# --- Columns.


def test_columns(keyed):
    table = keyed.table("t", {"end": int, "user": str}, {"n": int, "user": str | None, "x": float}, group_by="user")
    table.put((1, "a"), {"n": 2, "user": None, "x": 0.5})
    assert table.scan().schema.names == ["end", "user", "n", "value_user", "x"]
    row = {"end": 1, "user": "a", "n": 2, "value_user": None, "x": 0.5}
    for chosen in (["x"], ["user", "end"], ["value_user", "user"], ["x", "end", "n"], ["end"]):
        for scan in (table.scan(columns=chosen), table.scan_range(0, 5, columns=chosen), table.scan_prefix(1, columns=chosen)):
            assert scan.schema.names == chosen
            assert [list(found.items()) for found in scan.to_arrow().to_pylist()] == [[(name, row[name]) for name in chosen]]
    assert table.scan(columns="n").to_arrow().to_pylist() == [{"n": 2}]
    assert table.get_many([(1, "a")], columns="n").to_pylist() == [{"n": 2}]
    for bad in ([], ["y"], ["n", "n"], "value", [1]):
        with pytest.raises(sfkv.SchemaError, match="end, user, n, value_user, x"):
            table.scan(columns=bad)


def test_columns_of_value_states(keyed):
    state = keyed.value_state("v", {"n": int, "x": float})
    state.put("a", {"n": 1, "x": 2.5})
    assert state.scan(columns=["x", "key"]).to_arrow().to_pylist() == [{"x": 2.5, "key": "a"}]
    assert state.scan(columns="x").to_arrow().to_pylist() == state.get_many(["a"], columns="x").to_pylist() == [{"x": 2.5}]
    with pytest.raises(sfkv.SchemaError, match="there is no column 'value'"):
        state.get_many(["a"], columns="value")
    with pytest.raises(sfkv.SchemaError, match="key, n, x"):
        state.scan(columns=["value"])


def test_objects_of_a_serializer(keyed):
    table = keyed.table("t", int, sfkv.Msgpack(dict))
    table.put_many([1, 2], [{"a": 1}, {"b": [2]}])
    assert table.get_many([2, 3]) == [{"b": [2]}, None]
    assert keyed.get_many([(table, [1])]) == [[{"a": 1}]]
    assert table.scan_range(1, 2, columns="key").to_arrow().to_pylist() == [{"key": 1}]


# --- Scans see the table as of their start.


def test_a_scan_sees_the_table_as_of_its_start(keyed, windows):
    scan = windows.scan_range(None, 50, batch_rows=10)
    first = next(scan)
    windows.delete_range(None, 60)
    windows.put((1, "new"), 1)
    keyed._store.flush()
    assert first.num_rows + scan.to_arrow().num_rows == 150
    assert windows.scan_range(None, 60).to_arrow().to_pylist() == [{"end": 1, "user": "new", "value": 1}]


def test_scans_are_refused_in_a_batch(keyed, windows):
    with keyed.batch():
        for scan in (windows.scan, windows.scan_keys, windows.scan_range, lambda: windows.scan_prefix(1)):
            with pytest.raises(sfkv.UsageError, match="inside a batch"):
                scan()
        windows.put((-1, "a"), 1)
        assert windows.get((-1, "a")) == 1
    assert ends(windows.scan_range(None, 0)) == [-1]


# --- Range deletes.


@pytest.mark.parametrize("rows", [999, 1000, 1001, 5000])
def test_few_rows_are_deleted_one_by_one_and_many_by_a_range(tmp_path, rows):
    with sfkv.open(tmp_path / "s", key=str, max_parallelism=2) as keyed:
        table = keyed.table("t", {"n": int, "user": str}, int, group_by="user")
        for user in ("a", "b"):
            table.put_many({"n": np.arange(rows + 10), "user": [user] * (rows + 10)}, np.arange(rows + 10))
        table.delete_range(5, rows + 5, offset=1)
        left = [*range(5), *range(rows + 5, rows + 10)]
        assert sorted(table.scan().to_arrow()["n"].to_pylist()) == sorted(left * 2)
        table.put((7, "a"), 7)
        assert table.scan_range(5, rows + 5).to_arrow()["n"].to_pylist() == [7]
        keyed.compact()
        assert sorted(table.scan().to_arrow()["n"].to_pylist()) == sorted([*left * 2, 7])
        assert keyed.offset == 1


def test_range_deletes_in_a_batch_are_written_with_it(keyed, windows):
    with pytest.raises(ZeroDivisionError), keyed.batch():
        windows.delete_range(None, 50)
        assert windows.get((49, "u49")) is None
        raise ZeroDivisionError
    assert len(ends(windows.scan_range(None, 50))) == 150
    with keyed.batch(offset=3):
        windows.put((-5, "x"), 1)
        windows.delete_range(None, 50)
        windows.put((-4, "x"), 1)
    assert ends(windows.scan_range(None, 50)) == [-4]
    assert keyed.offset == 3


# --- Registering.


def test_a_table_is_found_again(tmp_path):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        table = keyed.table("t", WINDOW, int, group_by="user")
        assert keyed.table("t", WINDOW, int, group_by=["user"]) is table
        assert keyed.states == {"t": "table<struct<end: int64 not null, user: utf8 not null> grouped by user, int64>"}
        table.put((1, "a"), 1)
        for key, value, group_by in (
            (WINDOW, int, None),
            (WINDOW, int, "end"),
            (WINDOW, str, "user"),
            ({"end": int, "user": bytes}, int, "user"),
            ({"user": str, "end": int}, int, "user"),
        ):
            with pytest.raises(sfkv.SchemaError, match=r"holds table<.*grouped by user, int64>, and was asked for as table<"):
                keyed.table("t", key, value, group_by=group_by)
        with pytest.raises(sfkv.SchemaError, match="value<int64>"):
            keyed.value_state("t", int)
    with sfkv.open(tmp_path / "s") as keyed:
        table = keyed.table("t", WINDOW, int, group_by="user")
        assert table.get((1, "a")) == 1
        assert repr(table) == "Table('t', struct<end: int64 not null, user: utf8 not null> grouped by user, int64)"
        assert (table.name, table.type, table.key_type.names) == ("t", pa.int64(), ["end", "user"])
        keyed.drop_state("t")
        assert keyed.states == {}


def test_a_snapshot_has_tables(tmp_path):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        keyed.table("t", WINDOW, int, group_by="user").put((1, "a"), 1)
        keyed.snapshot(1, tmp_path / "chk").result()
    (snapshot,) = sfkv.list_snapshots(tmp_path / "chk")
    assert snapshot.tables[0]["key"]["group_by"] == ["user"]
    with new_backend().restore(tmp_path / "r", snapshot) as keyed:
        table = keyed.table("t", WINDOW, int, group_by="user")
        assert ends(table.scan_range(None, 5)) == [1]


@pytest.mark.parametrize("group_by", [[], ["end", "end"], "nobody", ["user", "nobody"], [3], "", 5, [["user"]]])
def test_a_bad_group_is_refused(keyed, group_by):
    with pytest.raises(sfkv.SchemaError, match="end, user"):
        keyed.table("t", WINDOW, int, group_by=group_by)
    assert keyed.states == {}


# --- What is refused.


def test_bad_keys_and_bounds_are_refused(keyed, windows):
    for call in (
        lambda: windows.put((1,), 1),
        lambda: windows.put(("a", 1), 1),
        lambda: windows.put((None, "a"), 1),
        lambda: windows.get(None),
        lambda: windows.put_many([(1, "a"), (None, "a")], [1, 2]),
        lambda: windows.put_many([(1, "a")], [1, 2]),
        lambda: windows.scan_range("a"),
        lambda: windows.scan_range(None, 1.5),
        lambda: windows.scan_range((1, 2)),
        lambda: windows.scan_range((1, "a", 2)),
        lambda: windows.scan_range(()),
        lambda: windows.scan_range((None, "a")),
        lambda: windows.scan_prefix(None),
        lambda: windows.scan_prefix(2**63),
        lambda: windows.delete_range(None, "a"),
    ):
        with pytest.raises(sfkv.SchemaError) as caught:
            call()
        assert "windows" in str(caught.value), caught.value
    with pytest.raises(sfkv.LimitError):
        windows.scan_prefix((1, "x" * 70000))
    assert len(ends(windows.scan())) == 300


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, 1 << 25])
def test_a_bad_batch_size_is_refused(windows, bad):
    for scan in (windows.scan, windows.scan_keys, windows.scan_range):
        with pytest.raises(sfkv.ConfigError, match="batch_rows"):
            scan(batch_rows=bad)
    with pytest.raises(sfkv.ConfigError, match="batch_rows"):
        windows.scan_prefix(1, batch_rows=bad)


# --- Several states at once.


def test_several_states_are_read_in_one_call(keyed, windows):
    state = keyed.value_state("v", {"n": int})
    state.put("a", {"n": 1})
    answers = keyed.get_many([(windows, [(5, "u5"), (5, "u6")]), (state, ["b", "a"]), (windows, [(7, "u7")]), (state, [])])
    assert [answer.to_pylist() for answer in answers] == [[5, None], [None, {"n": 1}], [7], []]
    assert keyed.get_many([]) == []
    with keyed.batch():
        windows.put((5, "u6"), 6)
        assert keyed.get_many([(windows, [(5, "u6")])])[0].to_pylist() == [6]


def test_what_get_many_refuses(keyed, windows, tmp_path):
    for state in (keyed.list_state("l", int), keyed.map_state("m", int, int)):
        with pytest.raises(sfkv.UsageError, match="its own get_many"):
            keyed.get_many([(windows, [(1, "a")]), (state, ["a"])])
    with pytest.raises(sfkv.SchemaError, match="windows"):
        keyed.get_many([(windows, [(1, "a")]), (windows, [("a", 1)])])
    with sfkv.open(tmp_path / "other", key=str) as other, pytest.raises(sfkv.UsageError, match="another backend's"):
        keyed.get_many([(other.value_state("v", int), ["a"])])
    keyed.drop_state("windows")
    with pytest.raises(sfkv.ClosedError, match="dropped"):
        keyed.get_many([(windows, [(1, "a")])])
