"""A state machine: random operations on sfkv and on the dict model, which must agree after each."""

from __future__ import annotations

import copy
import dataclasses
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import sfkv
from tests.model import ModelBackend


@dataclasses.dataclass
class Seen:
    n: int
    label: str | None
    raw: bytes


# Keys that collide in their first bytes, are empty, hold zero bytes, or are beginnings of one another.
TEXT_KEYS = st.sampled_from(
    ["", "\0", "\0\0", "a", "a\0", "aa", "ab", "b", "x" * 50, "x" * 50 + "y", "ü", "\uffff", "\U0001f600"]
)
INT_KEYS = st.sampled_from([0, 1, -1, 255, 256, 2**31, -(2**31), 2**63 - 1, -(2**63)]) | st.integers(-50, 50)
COMPOSITE_KEYS = st.tuples(TEXT_KEYS, st.none() | INT_KEYS)
KEYS = {"text": (str, TEXT_KEYS), "int": (int, INT_KEYS), "composite": ({"a": str, "b": int | None}, COMPOSITE_KEYS)}

VALUES = {
    "int": (int, st.integers(-(2**63), 2**63 - 1)),
    "text": (str, st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    "record": (
        Seen,
        st.builds(
            Seen,
            st.integers(-(2**63), 2**63 - 1),
            st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
            st.binary(max_size=5),
        ),
    ),
    "object": (
        object,
        st.recursive(st.integers(-5, 5) | st.text("ab", max_size=3), lambda inner: st.lists(inner, max_size=3), max_leaves=5),
    ),
}
NAMES = sorted(VALUES)
OFFSETS = st.none() | st.integers(-(2**63), 2**64 - 1)

# Settings that must not change any answer: where writes are split, and how many keys one read of the engine takes.
CONFIGURATIONS = [("2MB", 64), (1, 1), (100, 3)]


class Machine(RuleBasedStateMachine):
    snapshots = Bundle("snapshots")

    @initialize(
        kind=st.sampled_from(sorted(KEYS)),
        configuration=st.sampled_from(CONFIGURATIONS),
        parallelism=st.sampled_from([1, 3, 128]),
    )
    def begin(self, kind, configuration, parallelism):
        self.folder = Path(tempfile.mkdtemp(prefix="sfkv-machine-"))
        self.key, self.keys = KEYS[kind]
        write_batch_bytes, read_chunk_keys = configuration
        self.backend = sfkv.EmbeddedRocksDBStateBackend(write_batch_bytes=write_batch_bytes, read_chunk_keys=read_chunk_keys)
        self.model = ModelBackend()
        self.stores = 0
        self.taken = 0
        self.keyed = self.backend.open(self.next_path(), key=self.key, max_parallelism=parallelism)

    def next_path(self):
        self.stores += 1
        return self.folder / f"store-{self.stores}"

    def teardown(self):
        if hasattr(self, "keyed"):
            self.keyed.close(discard=True)
            shutil.rmtree(self.folder)

    def pair(self, name):
        return self.keyed.value_state(name, VALUES[name][0]), self.model.value_state(name)

    def draw_keys(self, data):
        return data.draw(st.lists(self.keys, max_size=12))

    def shaped(self, keys, shape):
        """The same keys as another kind of batch."""
        if self.key is str and shape == "arrow":
            return pa.array(keys, pa.utf8())
        if self.key is int and shape == "numpy":
            return np.array(keys, "i8")
        if isinstance(self.key, dict) and shape == "columns":
            return {"a": [a for a, _ in keys], "b": [b for _, b in keys]}
        return keys

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def put(self, data, name):
        state, model = self.pair(name)
        key, value = data.draw(self.keys), data.draw(st.none() | VALUES[name][1])
        state.put(key, value)
        model.put(key, value)

    @rule(data=st.data(), name=st.sampled_from(NAMES), offset=OFFSETS)
    def put_many(self, data, name, offset):
        state, model = self.pair(name)
        keys = self.draw_keys(data)
        values = [data.draw(st.none() | VALUES[name][1]) for _ in keys]
        state.put_many(self.shaped(keys, data.draw(st.sampled_from(["arrow", "numpy", "columns"]))), values, offset=offset)
        model.put_many(keys, values)
        self.model.offset = offset if offset is not None else self.model.offset

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def clear(self, data, name):
        state, model = self.pair(name)
        key = data.draw(self.keys)
        state.clear(key)
        model.put(key, None)

    @rule(data=st.data(), name=st.sampled_from(NAMES), offset=OFFSETS)
    def clear_many(self, data, name, offset):
        state, model = self.pair(name)
        keys = self.draw_keys(data)
        state.clear_many(keys, offset=offset)
        model.clear_many(keys)
        self.model.offset = offset if offset is not None else self.model.offset

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def read(self, data, name):
        state, model = self.pair(name)
        keys = self.draw_keys(data)
        batch = self.shaped(keys, data.draw(st.sampled_from(["arrow", "numpy", "columns"])))
        answers = state.get_many(batch)
        if isinstance(answers, pa.Array):
            answers = answers.to_pylist()
            answers = [Seen(**a) if isinstance(a, dict) else a for a in answers]
        assert answers == model.get_many(keys)
        assert [state.get(key) for key in keys] == model.get_many(keys)
        assert state.contains_many(batch).to_pylist() == model.contains_many(keys)
        assert [key in state for key in keys] == model.contains_many(keys)

    @rule(data=st.data(), name=st.sampled_from(NAMES), fails=st.booleans(), offset=OFFSETS)
    def work_on_a_bundle(self, data, name, fails, offset):
        self.work_in_a_bundle(data, name, fails, offset)

    def work_in_a_bundle(self, data, name, fails, offset):
        state, model = self.pair(name)
        keys = self.draw_keys(data)
        changes = {}
        try:
            with state.bundle(keys, offset=offset) as rows:
                assert list(rows) == list(dict.fromkeys(keys))
                assert list(rows.values()) == model.get_many(list(rows))
                for key in list(rows):
                    if data.draw(st.booleans()):
                        changes[key] = data.draw(st.none() | VALUES[name][1])
                        if changes[key] is None and data.draw(st.booleans()):
                            del rows[key]
                        else:
                            rows[key] = changes[key]
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return
        model.put_many(list(changes), list(changes.values()))
        self.model.offset = offset if offset is not None else self.model.offset

    # --- Lists.

    def lists(self, name):
        return self.keyed.list_state(f"list {name}", VALUES[name][0]), self.model.list_state(f"list {name}")

    @rule(data=st.data(), name=st.sampled_from(NAMES), one_by_one=st.booleans())
    def add_to_lists(self, data, name, one_by_one):
        state, model = self.lists(name)
        keys = self.draw_keys(data)
        values = [data.draw(VALUES[name][1]) for _ in keys]
        if one_by_one:
            for key, value in zip(keys, values, strict=True):
                state.add(key, value)
        else:
            state.add_many(keys, values)
        model.add_many(keys, values)

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def replace_lists(self, data, name):
        state, model = self.lists(name)
        keys = self.draw_keys(data)
        lists = [data.draw(st.none() | st.lists(VALUES[name][1], max_size=4)) for _ in keys]
        state.update_many(keys, lists)
        model.update_many(keys, lists)

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def read_lists(self, data, name):
        state, model = self.lists(name)
        keys = self.draw_keys(data)
        expected = model.get_many(keys)
        assert [state.get(key) for key in keys] == expected
        answers = state.get_many(keys)
        if isinstance(answers, pa.Array):
            answers = [[Seen(**a) if isinstance(a, dict) else a for a in answer] for answer in answers.to_pylist()]
        assert answers == expected
        assert state.contains_many(keys).to_pylist() == [bool(values) for values in expected]

    # --- Maps, with the keys of the backend as user keys too.

    def maps(self, name):
        return self.keyed.map_state(f"map {name}", self.key, VALUES[name][0]), self.model.map_state(f"map {name}")

    @rule(data=st.data(), name=st.sampled_from(NAMES), one_by_one=st.booleans())
    def put_entries(self, data, name, one_by_one):
        state, model = self.maps(name)
        entries = data.draw(st.lists(st.tuples(self.keys, self.keys, st.none() | VALUES[name][1]), max_size=12))
        keys, user_keys, values = ([entry[i] for entry in entries] for i in range(3))
        if one_by_one:
            for entry in entries:
                state.put(*entry)
        else:
            state.put_many(keys, user_keys, values)
        model.put_many(keys, user_keys, values)

    @rule(data=st.data(), name=st.sampled_from(NAMES), whole=st.booleans())
    def remove_entries(self, data, name, whole):
        state, model = self.maps(name)
        keys, user_keys = self.draw_pairs(data)
        if whole:
            state.clear_many(keys)
            model.clear_many(keys)
        else:
            state.delete_many(keys, user_keys)
            model.delete_many(keys, user_keys)

    def draw_pairs(self, data):
        pairs = data.draw(st.lists(st.tuples(self.keys, self.keys), max_size=12))
        return [key for key, _ in pairs], [user_key for _, user_key in pairs]

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def read_entries(self, data, name):
        state, model = self.maps(name)
        keys, user_keys = self.draw_pairs(data)
        answers = state.get_many(keys, user_keys)
        if isinstance(answers, pa.Array):
            answers = [Seen(**a) if isinstance(a, dict) else a for a in answers.to_pylist()]
        assert answers == model.get_many(keys, user_keys)
        assert state.contains_many(keys, user_keys).to_pylist() == model.contains_many(keys, user_keys)
        for key in keys:
            entries = list(state[key].items())
            assert dict(entries) == model.rows.get(key, {})
            assert len(entries) == len(model.rows.get(key, {}))
            assert state.is_empty(key) == (key not in model.rows)

    # --- Batches and cells.

    @rule(data=st.data(), fails=st.booleans(), offset=OFFSETS)
    def work_in_a_batch(self, data, fails, offset):
        """Several rules inside one batch; if it fails, the model goes back to what it was before."""
        before = copy.deepcopy((self.model.states, self.model.offset, self.model.cells))
        registered = set()
        try:
            with self.keyed.batch(offset=offset):
                for _ in range(data.draw(st.integers(0, 4))):
                    self.step_in_a_batch(data, data.draw(st.sampled_from(NAMES)))
                registered = set(self.model.states)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            states, self.model.offset, self.model.cells = before
            for name in registered - set(states):  # what was registered stays so, and is empty
                states[name] = type(self.model.states[name])()
            self.model.states = states
            return
        self.model.offset = offset if offset is not None else self.model.offset

    def step_in_a_batch(self, data, name):
        step = data.draw(st.sampled_from(["value", "list", "lists", "map", "clear", "bundle", "cell", "read"]))
        keys = self.draw_keys(data)
        if step == "value":
            state, model = self.pair(name)
            values = [data.draw(st.none() | VALUES[name][1]) for _ in keys]
            state.put_many(keys, values)
            model.put_many(keys, values)
        elif step == "list":
            state, model = self.lists(name)
            values = [data.draw(VALUES[name][1]) for _ in keys]
            state.add_many(keys, values)
            model.add_many(keys, values)
            assert [state.get(key) for key in keys] == model.get_many(keys)
        elif step == "lists":
            state, model = self.lists(name)
            lists = [data.draw(st.lists(VALUES[name][1], max_size=3)) for _ in keys]
            state.update_many(keys, lists)
            model.update_many(keys, lists)
        elif step == "map":
            state, model = self.maps(name)
            values = [data.draw(st.none() | VALUES[name][1]) for _ in keys]
            state.put_many(keys, list(reversed(keys)), values)
            model.put_many(keys, list(reversed(keys)), values)
            assert [dict(state[key].items()) for key in keys] == [model.rows.get(key, {}) for key in keys]
        elif step == "clear":
            state, model = self.maps(name)
            state.clear_many(keys)
            model.clear_many(keys)
            assert state.contains_many(keys).to_pylist() == [False] * len(keys)
        elif step == "bundle":
            self.work_in_a_bundle(data, name, False, None)
        elif step == "cell":
            self.set_cell(data.draw(st.sampled_from("ab")), data.draw(st.integers(-5, 5)))
        else:
            state, model = self.pair(name)
            assert [state.get(key) for key in keys] == model.get_many(keys)
            answers = state.get_many(keys)
            assert len(answers) == len(keys)

    @rule(name=st.sampled_from("ab"), value=st.integers(-(2**63), 2**63 - 1))
    def set_cell(self, name, value):
        self.keyed.cells.set(name, value)
        self.model.cells[name] = value

    @rule()
    def flush(self):
        self.keyed._store.flush()

    @rule()
    def compact(self):
        self.keyed.compact()

    @rule()
    def reopen(self):
        path = self.keyed.path
        self.keyed.close()
        self.keyed = self.backend.open(path, key=self.key)

    @rule(target=snapshots, metadata=st.none() | st.integers(0, 9))
    def snapshot(self, metadata):
        self.taken += 1
        self.keyed.snapshot(self.taken, self.folder / "snapshots", metadata=metadata).result()
        self.model.snapshot(self.taken, metadata)
        return self.taken

    @rule(id=snapshots)
    def restore(self, id):
        self.keyed.close(discard=True)
        self.keyed = self.backend.restore(self.next_path(), self.folder / "snapshots" / f"chk-{id}", key=self.key)
        assert self.keyed.restored_from.metadata == self.model.restore(id)

    @invariant()
    def scans_and_offset_agree(self):
        if not hasattr(self, "keyed"):
            return
        assert self.keyed.offset == self.model.offset
        assert {name: self.keyed.cells.get(name) for name in self.keyed.cells} == self.model.cells
        for name, model in self.model.states.items():
            kind, _, of = name.rpartition(" ")
            state, _ = {"list": self.lists, "map": self.maps, "": self.pair}[kind](of)
            key_columns = ["a", "b"] if isinstance(self.key, dict) else ["key"]
            for columns in ([row[c] for c in key_columns] for row in state.scan_keys(batch_rows=2).to_arrow().to_pylist()):
                assert (tuple(columns) if len(columns) > 1 else columns[0]) in model.rows
            assert state.scan_keys().to_arrow().num_rows == len(model.rows)
            table = state.scan(batch_rows=3).to_arrow().to_pylist()
            expected = sum(map(len, model.rows.values())) if kind == "map" else len(model.rows)
            assert len(table) == expected
            if of in ("int", "text") and kind != "map":
                keys = [tuple(row[c] for c in key_columns) if len(key_columns) > 1 else row["key"] for row in table]
                assert dict(zip(keys, (row["value"] for row in table), strict=True)) == model.rows


Machine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
test_sfkv_and_the_model_agree = Machine.TestCase
