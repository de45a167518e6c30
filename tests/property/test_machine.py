"""A state machine: random operations on sfkv and on the dict model, which must agree after each."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import sfkv
from tests.property.machine import CONFIGURATIONS, OFFSETS, Base
from tests.property.state_rules import FoldRules, ListRules, MapRules, ValueRules
from tests.property.values import FOLDS, VALUES, plain_rows, types_of

# What is called inside a batch: rules that take an offset, and others.
WITH_OFFSET = (
    *("put_many", "clear_values", "work_on_a_bundle", "add_to_lists"),
    *("replace_lists", "put_entries", "remove_entries", "add_to_folds", "clear_folds"),
)
STEPS = (
    *WITH_OFFSET,
    *("put", "read_values", "change_a_list", "read_lists", "read_folds", "read_entries", "change_a_map_by_its_view"),
    *("set_a_cell", "change_payloads", "refused"),
)


class WholeRules(ValueRules, ListRules, MapRules, FoldRules):
    """What goes beyond one state: batches, cells, payloads, scans, and the end of a state."""

    @rule(data=st.data(), offset=OFFSETS)
    def work_in_a_batch(self, data, offset):
        """Several rules inside one batch; if it fails, the model goes back to what it was before."""
        fails = data.draw(st.booleans(), label="fails")
        before = self.model.content()
        self.in_batch = True
        try:
            with self.keyed.batch(offset=offset):
                for step in data.draw(st.lists(st.sampled_from(STEPS), max_size=5)):
                    if step == "refused":
                        self.check_that_the_rest_is_refused(data)
                    elif step in WITH_OFFSET:
                        getattr(self, step)(data, data.draw(OFFSETS))
                    else:
                        getattr(self, step)(data)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            registered = {name: (state.kind, name, self.model.types[name]) for name, state in self.model.states.items()}
            self.model.become(before)
            for state in registered.values():  # what was registered stays so, and is empty
                self.model.state(*state)
        else:
            self.set_offset(offset)
        finally:
            self.in_batch = False
        self.mark()

    def check_that_the_rest_is_refused(self, data):
        state, _, _ = self.pick(data, "value")
        for call in (
            state.scan,
            self.keyed.compact,
            self.keyed._store.flush,
            lambda: self.keyed.drop_state(state.name),
            lambda: self.keyed.batch().__enter__(),
        ):
            with pytest.raises(sfkv.UsageError):
                call()

    @rule(data=st.data())
    def set_a_cell(self, data):
        name = data.draw(st.sampled_from("ab"))
        value = data.draw(st.none() | st.integers(-(2**63), 2**63 - 1))
        if value is None:
            self.keyed.cells.delete(name)
            self.model.cells.pop(name, None)
        else:
            self.keyed.cells.set(name, value)
            self.model.cells[name] = value
        self.mark()

    @rule(data=st.data())
    def change_payloads(self, data):
        groups = st.sampled_from(sorted({0, self.parallelism // 2, self.parallelism - 1}))
        for _ in range(data.draw(st.integers(1, 3))):
            if data.draw(st.booleans(), label="all of them"):
                payloads = data.draw(st.dictionaries(groups, VALUES["blob"], max_size=2))
                self.keyed.payloads.replace(payloads)
                self.model.payloads = payloads
            else:
                group, payload = data.draw(groups), data.draw(st.none() | VALUES["blob"])
                self.keyed.payloads.set(group, payload)
                self.model.payloads.pop(group, None)
                if payload is not None:
                    self.model.payloads[group] = payload
            self.mark()
            assert list(self.keyed.payloads) == sorted(self.model.payloads.items())

    @rule(data=st.data())
    def drop_a_state(self, data):
        """Its name then takes another kind and type, and has no rows."""
        if not self.model.states:
            return
        name = data.draw(st.sampled_from(sorted(self.model.states)))
        dropped = self.handle(self.keyed, self.model.states[name].kind, name, self.model.types[name])
        self.keyed.drop_state(name)
        self.model.drop_state(name)
        self.mark()
        with pytest.raises(sfkv.ClosedError):
            dropped.scan()
        if data.draw(st.booleans(), label="register anew"):
            kind = data.draw(st.sampled_from(["value", "list", "map", *FOLDS]))
            self.register(name, kind, data.draw(st.sampled_from(types_of(kind))))

    @rule(data=st.data(), batch_rows=st.integers(1, 4))
    def begin_a_scan(self, data, batch_rows):
        """It stays open while other rules write, clear, drop, flush and compact."""
        if not self.model.states or len(self.scans) > 3:
            return
        name = data.draw(st.sampled_from(sorted(self.model.states)))
        of, type = self.model.states[name].kind, self.model.types[name]
        scan = self.handle(self.keyed, of, name, type).scan(batch_rows=batch_rows)
        expected = self.expected_scan(name)
        if expected and data.draw(st.booleans(), label="one batch now"):
            assert plain_rows(self.kind, of, type, next(scan)) == expected[:batch_rows]
            expected = expected[batch_rows:]
        self.scans.append((scan, of, type, expected))

    @rule(data=st.data())
    def end_a_scan(self, data):
        if not self.scans:
            return
        scan, of, type, expected = self.scans.pop(data.draw(st.integers(0, len(self.scans) - 1)))
        assert plain_rows(self.kind, of, type, scan.to_arrow()) == expected

    def expected_scan(self, name):
        model = self.model.states[name]
        if model.kind == "map":
            return [(key, *entry) for key in self.in_order(model.rows) for entry in self.entries(model, key)]
        return [(key, model.get(key)) for key in self.in_order(model.rows)]


class LifeRules(Base):
    """What the engine does, and the ends of stores."""

    @rule()
    def flush(self):
        self.keyed._store.flush()
        self.all_is_durable()

    @rule()
    def compact(self):
        self.keyed.compact()

    @rule()
    def reopen(self):
        path = self.keyed.path
        self.close(discard=False)
        self.keyed = self.backend.open(path, key=self.kind.type, slot=self.slot)
        self.begin_history()
        self.closed_with = self.history[0]

    @rule()
    def discard_and_recover(self):
        self.recover()

    def take_snapshot(self, metadata):
        self.taken += 1
        self.keyed.snapshot(self.taken, self.folder / "snapshots", metadata=metadata).result()
        self.model.snapshot(self.taken, metadata)
        self.all_is_durable()
        return self.taken

    def restore_from(self, id):
        self.close(discard=True)
        self.keyed = self.restored(id, self.backend)
        assert self.keyed.restored_from.metadata == self.model.restore(id)
        self.begin_directory()

    def restored(self, id, backend):
        return backend.restore(self.next_path(), self.folder / "snapshots" / f"chk-{id}", key=self.kind.type, slot=self.slot)

    def restore_beside_this_one(self, data, id):
        """A second store in the same slot, of any kind: neither sees the other, though they share files; either may go on."""
        backend = data.draw(CONFIGURATIONS, label="configuration of the second").backend()
        second = self.restored(id, backend)
        content = self.model.snapshots[id][0]
        assert self.rows_of(second, content) == self.rows_of_model(content)
        if data.draw(st.booleans(), label="go on with the second"):
            self.close(discard=data.draw(st.booleans(), label="discard"))
            self.keyed, self.backend = second, backend
            self.model.restore(id)
            self.begin_directory()
            return
        for name, state in content[0].items():
            handle = self.handle(second, state.kind, name, content[1][name])
            handle.clear_many(self.few if state.kind != "map" else [key for key, _ in self.few_entries])
        second.compact()
        second.close(discard=data.draw(st.booleans(), label="discard"))


class Machine(WholeRules, LifeRules, RuleBasedStateMachine):
    snapshots = Bundle("snapshots")

    @initialize(data=st.data())
    def begin(self, data):
        self.begin_with(data)

    def teardown(self):
        self.end()

    @rule(target=snapshots, metadata=st.none() | st.integers(0, 9))
    def snapshot(self, metadata):
        return self.take_snapshot(metadata)

    @rule(id=snapshots)
    def restore(self, id):
        self.restore_from(id)

    @rule(data=st.data(), id=snapshots)
    def restore_into_another_kind(self, data, id):
        """The job goes on with another backend, or with other settings."""
        self.backend = data.draw(CONFIGURATIONS, label="configuration from now on").backend()
        self.restore_from(id)

    @rule(data=st.data(), id=snapshots)
    def restore_beside(self, data, id):
        self.restore_beside_this_one(data, id)

    @invariant()
    def scans_and_the_rest_agree(self):
        if not hasattr(self, "history"):
            return
        assert self.keyed.offset == self.model.offset
        assert {name: self.keyed.cells.get(name) for name in self.keyed.cells} == self.model.cells
        assert sorted(self.keyed.states) == sorted(self.model.states)
        for name, model in self.model.states.items():
            state = self.handle(self.keyed, model.kind, name, self.model.types[name])
            keys = plain_rows(self.kind, model.kind, "int", state.scan_keys(batch_rows=2).to_arrow())
            assert keys == [(key,) for key in self.in_order(model.rows)]
            rows = plain_rows(self.kind, model.kind, self.model.types[name], state.scan(batch_rows=3).to_arrow())
            assert rows == self.expected_scan(name)


class LongMachine(Machine):
    pass


QUICK = settings(
    max_examples=80, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
Machine.TestCase.settings = QUICK
test_sfkv_and_the_model_agree = Machine.TestCase
LongMachine.TestCase.settings = settings(QUICK, max_examples=800)
test_sfkv_and_the_model_agree_for_long = pytest.mark.slow(LongMachine.TestCase)
