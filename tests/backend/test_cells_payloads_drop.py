"""What a backend holds beside its states: operator cells and payloads; and the end of a state."""

import os
import signal

import pytest

import sfkv
from sfkv import _batch, _store
from tests.backends import new_backend

pytestmark = pytest.mark.backends


def test_cells_come_back_with_type_and_rule(keyed, tmp_path):
    given = {
        "watermark": (-(2**63), "max"),
        "deadline": (2**63 - 1, "min"),
        "count": (5, "sum"),
        "mean": (0.25, "max"),
        "blob": (b"\0\xff", "union"),
        "ü" * 100: (0, "sum"),
    }
    for name, (value, rule) in given.items():
        keyed.cells.set(name, value, merge=rule)
    keyed.snapshot(1, tmp_path / "chk").result()
    keyed.close()
    restored = new_backend().restore(tmp_path / "r", tmp_path / "chk" / "chk-1")
    for again in (sfkv.open(tmp_path / "store"), restored):
        with again:
            assert sorted(again.cells) == sorted(given)
            for name, (value, rule) in given.items():
                assert again.cells.get(name) == again.cells[name] == value
                assert type(again.cells.get(name)) is type(value)
                assert again.cells.rule(name) == rule
                assert name in again.cells


def test_cells_are_overwritten_and_deleted(keyed):
    keyed.cells.set("a", 1)
    keyed.cells.set("a", 2)
    assert keyed.cells.get("a") == 2
    keyed.cells.delete("a")
    keyed.cells.delete("never")
    assert keyed.cells.get("a") is None
    assert keyed.cells.get("a", 7) == 7
    assert keyed.cells.rule("a") is None
    assert "a" not in keyed.cells
    with pytest.raises(KeyError):
        keyed.cells["a"]


def test_bad_cells_are_refused(keyed):
    keyed.cells.set("a", 1, merge="sum")
    for value, rule, error in (
        (1, "average", sfkv.ConfigError),
        (1, "union", sfkv.ConfigError),
        (b"x", "max", sfkv.ConfigError),
        (2**63, "max", sfkv.SchemaError),
        ("text", "max", sfkv.SchemaError),
        (True, "max", sfkv.SchemaError),
        (None, "max", sfkv.SchemaError),
    ):
        with pytest.raises(error, match="cell 'b'"):
            keyed.cells.set("b", value, merge=rule)
    with pytest.raises(sfkv.SchemaError, match="int64 merged by sum.*float64 merged by sum"):
        keyed.cells.set("a", 1.0, merge="sum")
    with pytest.raises(sfkv.SchemaError, match="int64 merged by sum.*int64 merged by max"):
        keyed.cells.set("a", 1)
    for name in ("", "x" * 1001, 7, None, "\ud800"):
        with pytest.raises(sfkv.ConfigError, match="name"):
            keyed.cells.set(name, 1)
    assert list(keyed.cells) == ["a"]
    assert keyed.cells.get("a") == 1


def test_payloads_by_key_group(tmp_path):
    backend = new_backend()
    with backend.open(tmp_path / "s", key=str, max_parallelism=300, key_groups=(250, 299)) as keyed:
        keyed.value_state("v", int)
        payloads = keyed.payloads
        assert payloads.get(255) is None
        assert list(payloads) == []
        payloads.set(299, b"last")
        payloads.set(255, b"")
        payloads.set(250, bytes(1000))
        assert list(payloads) == [(250, bytes(1000)), (255, b""), (299, b"last")]
        payloads.replace({256: b"x", 299: b"new"})
        assert list(keyed.payloads) == [(256, b"x"), (299, b"new")]
        payloads.set(256, None)
        assert payloads.get(256) is None
        assert keyed.states == {"v": "value<int64>"}
        with pytest.raises(ZeroDivisionError), keyed.batch():
            payloads.replace({})
            assert list(payloads) == []
            1 / 0  # noqa: B018
        taken = keyed.snapshot(1, tmp_path / "chk").result()
        for group in (249, 300, -1, 1.5, True, "255"):
            for call in (lambda group=group: payloads.get(group), lambda group=group: payloads.set(group, b"")):
                with pytest.raises(sfkv.KeyGroupError, match="250 to 299"):
                    call()
        for bad in ("text", 7, bytearray(b"x")):
            with pytest.raises(sfkv.SchemaError, match="bytes"):
                payloads.set(255, bad)
        with pytest.raises(sfkv.KeyGroupError):
            payloads.replace({255: b"x", 3: b"y"})
        for bad in ({255: None}, {255: b"x", 256: None}, {255: "x"}, [(255, b"x")], None):
            with pytest.raises(sfkv.SchemaError):
                payloads.replace(bad)
        assert list(payloads) == [(299, b"new")]
    with backend.restore(tmp_path / "r", taken) as restored:
        assert list(restored.payloads) == [(299, b"new")]


def test_a_dropped_state_is_gone_and_its_name_is_free(keyed, tmp_path):
    kept = keyed.value_state("kept", int)
    kept.put_many([str(i) for i in range(500)], list(range(500)))
    for make in (
        lambda: keyed.value_state("gone", int),
        lambda: keyed.list_state("gone", str),
        lambda: keyed.map_state("gone", int, float),
    ):
        state = make()
        if isinstance(state, sfkv.MapState):
            for i in range(20):
                state.put_all(str(i), dict.fromkeys(range(2000), 1.0))
        elif isinstance(state, sfkv.ListState):
            state.add_many([str(i) for i in range(500)], ["x"] * 500)
        else:
            state.put_many([str(i) for i in range(500)], list(range(500)))
        keyed.drop_state("gone")
        assert keyed.states == {"kept": "value<int64>"}
        for call in (
            lambda state=state: state.scan(),
            lambda state=state: state.contains_many(["1"]),
            lambda state=state: "1" in state,
        ):
            with pytest.raises(sfkv.ClosedError, match="dropped"):
                call()
        assert make().scan().to_arrow().num_rows == 0
        keyed.drop_state("gone")
    assert kept.scan().to_arrow().num_rows == 500
    keyed.close()
    with sfkv.open(tmp_path / "store") as again:
        assert again.states == {"kept": "value<int64>"}
        assert again.value_state("kept", int).get("499") == 499
        with pytest.raises(sfkv.UsageError, match="'gone'.*'kept'"):
            again.drop_state("gone")


def test_states_that_nobody_registers_are_listed_kept_and_can_be_dropped(keyed, tmp_path):
    keyed.value_state("a", int).put("k", 1)
    keyed.map_state("b", str, int).put("k", "u", 1)
    taken = keyed.snapshot(1, tmp_path / "chk").result()
    keyed.close()
    with new_backend().restore(tmp_path / "r", taken) as restored:
        assert restored.states == {"a": "value<int64>", "b": "map<utf8, int64>"}
        restored.drop_state("a")
        again = restored.snapshot(2, tmp_path / "chk").result()
        assert [table["name"] for table in again.tables] == ["b"]
    with new_backend().restore(tmp_path / "r2", again) as restored:
        assert restored.states == {"b": "map<utf8, int64>"}
        assert restored.map_state("b", str, int).get("k", "u") == 1


def test_a_drop_that_failed_half_way_is_called_again(keyed, monkeypatch):
    keyed.value_state("gone", int).put("a", 1)

    def fail(*_):
        raise sfkv.StorageError("IO error")

    with monkeypatch.context() as patch:
        patch.setattr(_batch, "drop_table", fail)
        with pytest.raises(sfkv.StorageError):
            keyed.drop_state("gone")
    with pytest.raises(sfkv.UsageError, match="'gone' is being dropped: call drop_state again") as raised:
        keyed.value_state("gone", int)
    assert (raised.value.state, raised.value.code) == ("gone", "usage")
    keyed.drop_state("gone")
    assert keyed.value_state("gone", int).get("a") is None


@pytest.mark.only("rocksdb", reason="memory has nothing of what was written since it was opened after a kill")
def test_a_drop_that_was_killed_half_way_ends_at_the_next_opening(tmp_path, run_python):
    run_python(
        """
        import os, signal, sfkv
        from sfkv import _batch
        keyed = sfkv.open(STORE, key=int)
        keyed.value_state("kept", int).put_many(range(1000), range(1000))
        keyed.value_state("gone", int).put_many(range(1000), range(1000))
        real = _batch.write_rows
        def killed(store, rows, operation, **how):
            real(store, rows, operation, **how)
            if operation == "drop_state":
                store.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        _batch.write_rows = killed
        keyed.drop_state("gone")
        """,
        expect=-signal.SIGKILL,
    )
    with sfkv.open(tmp_path / "store", recover=True) as keyed:
        assert keyed.states == {"kept": "value<int64>"}
        assert keyed.value_state("gone", int).scan().to_arrow().num_rows == 0
        assert keyed.value_state("kept", int).scan().to_arrow().num_rows == 1000
    assert os.path.exists(tmp_path / "store")


@pytest.mark.parametrize("damaged", [b"", b"\0", b"\x09\0" + bytes(8), b"\0\x09" + bytes(8), b"\0\0" + bytes(7)])
def test_a_damaged_cell_is_corruption(keyed, damaged):
    keyed.cells.set("n", 1)
    _batch.write_rows(keyed._store, {_store.CELL_ROWS + b"n": damaged}, "test")
    for look in (lambda: keyed.cells.get("n"), lambda: keyed.cells.rule("n"), lambda: keyed.cells.set("n", 2)):
        with pytest.raises(sfkv.CorruptionError, match="'n'"):
            look()


@pytest.mark.parametrize("row", [b"", b"[]", b"{}", b'{"name": 1}', b"[" * 100_000])
def test_a_damaged_registry_is_corruption(tmp_path, row):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        keyed.value_state("v", int)
        _batch.write_rows(keyed._store, {_store.TABLE_ROWS + b"\0": row}, "test")
    with pytest.raises(sfkv.CorruptionError, match="registry"):
        sfkv.open(tmp_path / "s")


@pytest.mark.parametrize("row", [b"", b"[]", b'{"key": {}, "max_parallelism": 1, "key_groups": [0, 0]}', b"[" * 100_000])
def test_a_store_that_does_not_describe_itself_is_corrupt(tmp_path, row):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        _batch.write_rows(keyed._store, {_store.STORE_ROW: row}, "test")
    with pytest.raises(sfkv.CorruptionError, match="describe itself"):
        sfkv.open(tmp_path / "s")


class Dropping(list):
    """A batch that drops the state "gone" when it is read, and has another take its number."""

    def __init__(self, keyed, values):
        super().__init__(values)
        self.keyed = keyed

    def __iter__(self):
        drop(self.keyed)
        return super().__iter__()


class DroppingMap(dict):
    keyed = None

    def items(self):
        drop(self.keyed)
        return super().items()


def drop(keyed):
    if "gone" in keyed.states:
        keyed.drop_state("gone")
        keyed.map_state("next", str, bytes)


def dropping_map(keyed):
    mapping = DroppingMap(u=2)
    mapping.keyed = keyed
    return mapping


def dropping_fold(keyed, calls):
    def fold(one, other):
        drop(keyed)
        return one + other

    state = keyed.reducing_state("gone", int, fold)
    state.add("a", 1)
    calls(state)


def dropping_bundle(keyed, state):
    with state.bundle(["a", "b"]) as rows:
        rows["a"] = 77
        drop(keyed)


def given(state, *row):
    """The state, with a row."""
    (state.add if isinstance(state, sfkv.ListState) or not hasattr(state, "put") else state.put)(*row)
    return state


VALUES = {
    "put_many": lambda k, s: s.put_many(["a", "b"], Dropping(k, [2, 3])),
    "put_many, keys": lambda k, s: s.put_many(Dropping(k, ["a", "b"]), [2, 3]),
    "clear_many": lambda k, s: s.clear_many(Dropping(k, ["a", "b"])),
    "get_many": lambda k, s: s.get_many(Dropping(k, ["a", "b"])),
    "contains_many": lambda k, s: s.contains_many(Dropping(k, ["a", "b"])),
    "several get_many": lambda k, s: k.get_many([(s, Dropping(k, ["a", "b"]))]),
    "bundle": lambda k, s: dropping_bundle(k, s),
    "bundle, keys": lambda k, s: s.bundle(Dropping(k, ["a", "b"])).__enter__(),
}
LISTS = {
    "add_all": lambda k, s: s.add_all("a", Dropping(k, [2])),
    "add_many": lambda k, s: s.add_many(["a", "b"], Dropping(k, [2, 3])),
    "update": lambda k, s: s.update("a", Dropping(k, [2])),
    "update_many": lambda k, s: s.update_many(["a", "b"], Dropping(k, [[2], [3]])),
    "get_many": lambda k, s: s.get_many(Dropping(k, ["a", "b"])),
}
MAPS = {
    "put_all": lambda k, s: s.put_all("a", dropping_map(k)),
    "put_many": lambda k, s: s.put_many(["a", "b"], ["u", "v"], Dropping(k, [2, 3])),
    "delete_many": lambda k, s: s.delete_many(["a", "b"], Dropping(k, ["u", "v"])),
    "clear_many": lambda k, s: s.clear_many(Dropping(k, ["a", "b"])),
    "get_many": lambda k, s: s.get_many(["a", "b"], Dropping(k, ["u", "v"])),
    "contains_many": lambda k, s: s.contains_many(Dropping(k, ["a", "b"])),
    "items_many": lambda k, s: s.items_many(Dropping(k, ["a", "b"])),
}
FOLDS = {
    "add_many": lambda k, s: s.add_many(["a", "b"], Dropping(k, [2, 3])),
    "get_many": lambda k, s: s.get_many(Dropping(k, ["a", "b"])),
}
DROPS = {
    **{
        f"value {name}": lambda k, call=call: call(k, given(k.value_state("gone", int), "a", 1))
        for name, call in VALUES.items()
    },
    **{
        f"object {name}": lambda k, call=call: call(k, given(k.value_state("gone", object), "a", 1))
        for name, call in VALUES.items()
    },
    **{f"list {name}": lambda k, call=call: call(k, given(k.list_state("gone", int), "a", 1)) for name, call in LISTS.items()},
    **{
        f"object list {name}": lambda k, call=call: call(k, given(k.list_state("gone", object), "a", 1))
        for name, call in LISTS.items()
    },
    **{
        f"map {name}": lambda k, call=call: call(k, given(k.map_state("gone", str, int), "a", "u", 1))
        for name, call in MAPS.items()
    },
    **{
        f"object map {name}": lambda k, call=call: call(k, given(k.map_state("gone", str, object), "a", "u", 1))
        for name, call in MAPS.items()
    },
    **{
        f"sum {name}": lambda k, call=call: call(k, given(k.reducing_state("gone", int, "sum"), "a", 1))
        for name, call in FOLDS.items()
    },
    **{
        f"last {name}": lambda k, call=call: call(k, given(k.reducing_state("gone", int, "last"), "a", 1))
        for name, call in FOLDS.items()
    },
    **{
        f"function {name}": lambda k, call=call: call(k, given(k.reducing_state("gone", int, max), "a", 1))
        for name, call in FOLDS.items()
    },
    "function that drops, add": lambda k: dropping_fold(k, lambda s: s.add("a", 2)),
    "function that drops, add_many": lambda k: dropping_fold(k, lambda s: s.add_many(["b", "a"], [2, 3])),
    "table put_many": lambda k: given(k.table("gone", key=str, value=int), "a", 1).put_many(["a", "b"], Dropping(k, [2, 3])),
    "table delete_many": lambda k: given(k.table("gone", key=str, value=int), "a", 1).delete_many(Dropping(k, ["a", "b"])),
}


@pytest.mark.parametrize("call", DROPS)
def test_a_call_during_which_its_state_is_dropped_writes_nothing_into_the_next_ones_rows(keyed, call):
    """What it had encoded was written under the number of the state, which was another's by then."""
    with pytest.raises(sfkv.ClosedError, match=r"dropped.*'gone'"):
        DROPS[call](keyed)
    assert keyed.states == {"next": "map<utf8, binary>"}
    state = keyed.map_state("next", str, bytes)
    assert state.scan().to_arrow().num_rows == 0
    keyed.drop_state("next")
    assert keyed.value_state("another", str).scan().to_arrow().num_rows == 0
