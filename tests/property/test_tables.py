"""Random operations on a table and on the dict model: every answer must be the model's, whatever was learned on the way."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import sfkv
from tests.backends import NAMES, new_backend
from tests.property.tables import KINDS, Model

VALUE = {"n": int, "text": str | None}
VALUES = st.builds(lambda n, text: {"n": n, "text": text}, st.integers(-3, 3), st.sampled_from([None, "", "x"]))
ROWS = st.integers(1, 3)


class TableMachine(RuleBasedStateMachine):
    """One table, among two others that must not be touched."""

    @initialize(data=st.data())
    def begin_and_fill(self, data):
        self.begin(data)
        self.fill(data)

    def begin(self, data):
        self.folder = Path(tempfile.mkdtemp(prefix="sfkv-table-"))
        self.kind = data.draw(st.sampled_from(KINDS), label="kind")
        self.parallelism = data.draw(st.sampled_from([1, 4, 128]), label="max_parallelism")
        self.few = data.draw(st.lists(self.kind.keys(), min_size=2, max_size=8, unique=True), label="few keys")
        self.slot = sfkv.Slot("16MB")
        self.backend = new_backend(data.draw(st.sampled_from(NAMES), label="backend"))
        self.path, self.snapshots = self.folder / "s", 0
        self.keyed = self.backend.open(self.path, key=str, slot=self.slot, max_parallelism=self.parallelism)
        self.model = Model(self.kind, self.parallelism)
        self.scans = []
        self.register()
        for neighbour in self.neighbours:
            neighbour.put_many([str(i) for i in range(20)], list(range(20)))

    def fill(self, data):
        """Most operations are to meet rows."""
        keys = self.few + data.draw(st.lists(self.kind.keys(), max_size=20), label="stored")
        self.table.put_many(self.given(keys), [{"n": n, "text": None} for n in range(len(keys))])
        for n, key in enumerate(keys):
            self.model.write(key, {"n": n, "text": None})

    def register(self):
        before = self.keyed.value_state("before", int)
        self.table = self.keyed.table("t", self.kind.key, VALUE, group_by=self.kind.group_by)
        self.neighbours = [before, self.keyed.value_state("behind", int)]

    def teardown(self):
        if not hasattr(self, "keyed"):
            return
        try:
            for neighbour in self.neighbours:
                assert sorted(neighbour.scan().to_arrow()["value"].to_pylist()) == list(range(20))
            self.check(self.table.scan(batch_rows=7), self.model.matching(lambda key: True))
        finally:
            self.keyed.close(discard=True)
            shutil.rmtree(self.folder)

    def key(self, data):
        others = st.integers(0, 5).flatmap(lambda n: self.kind.keys() if n == 5 else st.sampled_from(self.few))
        return data.draw(others, label="key")

    def keys(self, data):
        return [self.key(data) for _ in range(data.draw(st.integers(0, 6), label="count"))]

    def given(self, keys):
        return [self.kind.given(key) for key in keys]

    def range(self, data):
        """Bounds as calls take them, and what the model makes of them. Most begin at the first row, as a watermark's do."""
        bounds = self.kind.bounds() | st.sampled_from(self.few)
        lower = data.draw(st.none() | st.none() | bounds, label="lower")
        upper = data.draw(st.none() | bounds | bounds | bounds, label="upper")
        inclusive = data.draw(st.tuples(st.booleans(), st.booleans()), label="inclusive")
        options = dict(zip(("lower_inclusive", "upper_inclusive"), inclusive, strict=True))
        return (lower, upper), options, self.model.between(lower, upper, *inclusive)

    def check(self, scan, expected_keys, rows=None):
        """Compares what is left of a scan of all columns."""
        rows = self.model.rows if rows is None else rows
        found = [tuple(row.values()) for row in scan.to_arrow().to_pylist()]
        assert found == [(*key, *rows[key].values()) for key in expected_keys]

    # --- Writes, alone and in batches.

    def write_step(self, data):
        step = data.draw(st.sampled_from(["put", "put_many", "delete", "delete_many", "delete_range"]), label="step")
        if step == "put":
            key, value = self.key(data), data.draw(st.none() | VALUES)
            self.table.put(self.kind.given(key), value)
            self.model.write(key, value)
        elif step == "put_many":
            keys = self.keys(data)
            values = [data.draw(st.none() | VALUES | VALUES) for _ in keys]
            self.table.put_many(self.given(keys), values)
            for key, value in zip(keys, values, strict=True):
                self.model.write(key, value)
        elif step == "delete":
            key = self.key(data)
            self.table.delete(self.kind.given(key))
            self.model.write(key, None)
        elif step == "delete_many":
            keys = self.keys(data)
            self.table.delete_many(self.given(keys), offset=data.draw(st.none() | st.just(1)))
            for key in keys:
                self.model.write(key, None)
        else:
            bounds, options, inside = self.range(data)
            self.table.delete_range(*bounds, **options, offset=data.draw(st.none() | st.just(2)))
            for key in self.model.matching(inside):
                self.model.write(key, None)

    @rule(data=st.data())
    def write(self, data):
        self.write_step(data)

    @rule(data=st.data())
    def write_again(self, data):
        self.write_step(data)

    @rule(data=st.data(), fails=st.booleans())
    def write_in_a_batch(self, data, fails):
        before = dict(self.model.rows)
        try:
            with self.keyed.batch():
                for _ in range(data.draw(st.integers(1, 4), label="steps")):
                    self.write_step(data)
                    self.read(data)
                    self.go_on_with_a_scan(data)
                with pytest.raises(sfkv.UsageError):
                    self.table.scan_range(None, None)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            self.model.rows = before
        self.check(self.table.scan(), self.model.matching(lambda key: True))

    @rule(data=st.data())
    def write_what_is_refused(self, data):
        """Nothing of it is written, and no least key is the worse for it."""
        keys = self.given([*self.keys(data), self.key(data)])
        with pytest.raises(sfkv.SchemaError):
            self.table.put_many(keys, [{"n": 1, "text": ""}] * (len(keys) - 1) + [{"n": None, "text": ""}])
        with pytest.raises(sfkv.SchemaError):
            self.table.put(keys[0], {"n": "?", "text": ""})

    # --- Reads.

    @rule(data=st.data())
    def read(self, data):
        keys = [*self.keys(data), self.key(data)]
        given = self.given(keys)
        expected = [self.model.rows.get(key) for key in keys]
        assert self.table.get_many(given).to_pylist() == expected
        assert self.keyed.get_many([(self.table, given), (self.neighbours[0], ["7"])])[0].to_pylist() == expected
        assert self.table.contains_many(given).to_pylist() == [value is not None for value in expected]
        assert self.table.get(given[0]) == expected[0]
        assert (given[0] in self.table) == (expected[0] is not None)

    @rule(data=st.data(), reverse=st.booleans(), batch_rows=ROWS)
    def scan_a_range(self, data, reverse, batch_rows):
        bounds, options, inside = self.range(data)
        scan = self.table.scan_range(*bounds, **options, reverse=reverse, batch_rows=batch_rows)
        self.check(scan, self.model.matching(inside, reverse))

    @rule(data=st.data())
    def fire(self, data):
        """What a job does with a watermark: reads all that is due and deletes it, once or by a range; then looks again."""
        upper = data.draw(self.kind.bounds(), label="watermark")
        due = self.model.matching(self.model.between(None, upper, True, False))
        self.check(self.table.scan_range(None, upper), due)
        if data.draw(st.booleans(), label="by range"):
            self.table.delete_range(None, upper)
        else:
            self.table.delete_many(self.given(due))
        for key in due:
            self.model.write(key, None)
        for reverse in (False, True):
            self.check(self.table.scan_range(None, upper, reverse=reverse), [])
        self.check(self.table.scan(), self.model.matching(lambda key: True))

    @rule(data=st.data(), reverse=st.booleans())
    def scan_a_prefix(self, data, reverse):
        prefix = data.draw(self.kind.bounds() | st.sampled_from(self.few), label="prefix")
        scan = self.table.scan_prefix(prefix, reverse=reverse, batch_rows=2)
        self.check(scan, self.model.matching(self.model.between(prefix, prefix, True, True), reverse))

    @rule(data=st.data(), reverse=st.booleans(), batch_rows=ROWS)
    def scan_some_columns(self, data, reverse, batch_rows):
        names = self.table.scan().schema.names
        chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True), label="columns")
        bounds, options, inside = self.range(data)
        scan = self.table.scan_range(*bounds, **options, columns=chosen, reverse=reverse, batch_rows=batch_rows)
        assert scan.schema.names == chosen
        expected = [
            dict(zip(names, (*key, *self.model.rows[key].values()), strict=True))
            for key in self.model.matching(inside, reverse)
        ]
        assert scan.to_arrow().to_pylist() == [{name: row[name] for name in chosen} for row in expected]

    # --- Scans that go on while others write.

    @rule(data=st.data(), reverse=st.booleans(), batch_rows=ROWS)
    def start_a_scan(self, data, reverse, batch_rows):
        if len(self.scans) > 3:
            self.scans.pop(0)
        bounds, options, inside = self.range(data)
        scan = self.table.scan_range(*bounds, **options, reverse=reverse, batch_rows=batch_rows)
        self.scans.append((scan, self.model.matching(inside, reverse), dict(self.model.rows)))

    @rule(data=st.data())
    def go_on_with_a_scan(self, data):
        if not self.scans:
            return
        place = data.draw(st.integers(0, len(self.scans) - 1), label="scan")
        scan, keys, rows = self.scans[place]
        if data.draw(st.booleans(), label="to its end"):
            del self.scans[place]
            self.check(scan, keys, rows)
            return
        batch = next(scan, None)
        taken = 0 if batch is None else batch.num_rows
        assert (taken == 0) == (not keys)
        self.scans[place] = (scan, keys[taken:], rows)

    @rule(data=st.data(), reverse=st.booleans(), begun=st.booleans(), looks=st.booleans())
    def write_while_a_scan_is_open(self, data, reverse, begun, looks):
        """What the open scan learns of the state as of its start must not hide what was put since; nor may what others learn
        meanwhile hide from it what was deleted."""
        upper = data.draw(st.none() | self.kind.bounds(), label="upper")
        scan = self.table.scan_range(None, upper, reverse=reverse, batch_rows=1)
        keys, rows = self.model.matching(self.model.between(None, upper, True, False), reverse), dict(self.model.rows)
        if begun:
            assert (next(scan, None) is None) == (not keys)
        for _ in range(data.draw(st.integers(1, 3), label="steps")):
            self.write_step(data)
        if looks:
            self.check(self.table.scan(), self.model.matching(lambda key: True))
        self.check(scan, keys[1:] if begun else keys, rows)
        self.check(self.table.scan(), self.model.matching(lambda key: True))

    # --- The store.

    @rule()
    def flush(self):
        self.keyed._store.flush()

    @rule()
    def compact(self):
        self.keyed.compact()

    @rule()
    def reopen(self):
        self.keyed.close()
        self.scans = []
        self.keyed = self.backend.open(self.path, slot=self.slot)
        self.register()

    @rule(name=st.sampled_from(NAMES))
    def restore_into(self, name):
        """A snapshot goes into a backend of either kind, and the job goes on there."""
        self.snapshots += 1
        taken = self.keyed.snapshot(self.snapshots, self.folder / "chk").result()
        self.keyed.close(discard=True)
        self.scans = []
        self.backend, self.path = new_backend(name), self.folder / f"s{self.snapshots}"
        self.keyed = self.backend.restore(self.path, taken, slot=self.slot)
        self.register()

    @rule()
    def register_again(self):
        """Another object over the same rows must know what the first has learned, and tell it what it writes."""
        self.keyed._registry.states.pop("t")
        self.register()

    @rule()
    def drop_and_make_again(self):
        self.keyed.drop_state("t")
        self.model.rows = {}
        self.register()


class LongTableMachine(TableMachine):
    pass


QUICK = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
TableMachine.TestCase.settings = QUICK
test_a_table_and_the_model_agree = TableMachine.TestCase
LongTableMachine.TestCase.settings = settings(QUICK, max_examples=1500)
test_a_table_and_the_model_agree_for_long = pytest.mark.slow(LongTableMachine.TestCase)
