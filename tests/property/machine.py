"""What the state machine's rules stand on: a store, the model beside it, and the history that a crash may go back in."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import sfkv
from tests.model import ModelBackend
from tests.property.engines import MEMORY, SMALL
from tests.property.keys import KINDS, kind, order
from tests.property.values import FOLDS, RESULTS, open_state, plain_rows, types_of

NAMES = ["a", "b", "c", "d"]
SEQUENCE = "sequence"  # the cell that is set after each call: by it, what a crash left is found in the history
CONFIGURATIONS = st.sampled_from(SMALL) | st.just(MEMORY)
OFFSETS = st.none() | st.integers(-(2**63), 2**64 - 1)
ABSENT = object()


@dataclasses.dataclass
class Moment:
    """What the model held when the sequence was set, and how the call before it may have been cut short.

    Attributes:
        pieces: "whole" is all or nothing, "in order" any part of it up to some key, "any" any rows of it.
    """

    sequence: int | None
    pieces: str
    content: Any


class Base:
    """The store and the model. A plain class, so that rules can be spread over several."""

    def begin_with(self, data: st.DataObject) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sfkv-machine-"))
        self.kind = kind(data.draw(st.sampled_from(KINDS), label="keys"))
        # Few keys, so that operations meet; they are drawn once, and now and then another one joins them.
        self.few = data.draw(st.lists(self.kind.keys, min_size=2, max_size=6), label="few keys")
        self.few_entries = data.draw(st.lists(self.kind.entries, min_size=1, max_size=3), label="few entries")
        self.configuration = data.draw(CONFIGURATIONS, label="configuration")
        self.parallelism = data.draw(st.sampled_from([1, 3, 128]), label="max_parallelism")
        self.slot = sfkv.Slot(self.configuration.memory)
        self.backend = self.configuration.backend()
        self.model = ModelBackend(RESULTS)
        self.stores = self.taken = self.sequence = 0
        self.in_batch = False
        self.scans: list[tuple[sfkv.Scan, str, str, list[Any]]] = []
        path = self.next_path()
        self.keyed = self.backend.open(path, key=self.kind.type, slot=self.slot, max_parallelism=self.parallelism)
        self.begin_directory()
        self.mark()

    def end(self) -> None:
        if hasattr(self, "keyed"):
            self.keyed.close(discard=True)
            shutil.rmtree(self.folder)

    def next_path(self) -> Path:
        self.stores += 1
        return self.folder / f"store-{self.stores}"

    # --- Keys.

    def key(self, data: st.DataObject) -> Any:
        return data.draw(self.mostly(self.few, self.kind.keys))

    @staticmethod
    def mostly(few: list[Any], others: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.integers(0, 7).flatmap(lambda number: others if number == 7 else st.sampled_from(few))

    def keys(self, data: st.DataObject) -> list[Any]:
        return data.draw(st.lists(self.mostly(self.few, self.kind.keys), max_size=12))

    def entry_keys(self, data: st.DataObject) -> tuple[list[Any], list[Any]]:
        """Keys and user keys, from which any two may make an entry."""
        few = [(key, user_key) for key, _ in self.few_entries for _, user_key in self.few_entries]
        pairs = data.draw(st.lists(self.mostly(few, self.kind.entries), max_size=12))
        return [key for key, _ in pairs], [user_key for _, user_key in pairs]

    def shaped(self, data: st.DataObject, keys: list[Any]) -> Any:
        return self.kind.batch(keys, data.draw(st.sampled_from(["list", "arrow", "numpy", "columns"])))

    def in_order(self, keys: Any) -> list[Any]:
        """Keys as scans give them."""
        keys = list(keys)
        groups = dict(zip(keys, self.kind.groups(keys, self.parallelism), strict=True))
        return sorted(keys, key=lambda key: (groups[key], order(key)))

    # --- States.

    def pick(self, data: st.DataObject, kind: str) -> tuple[Any, Any, str]:
        """A state of a kind, new or known, its model and the type of its values."""
        known = [name for name, state in sorted(self.model.states.items()) if state.kind == kind]
        free = [name for name in NAMES if name not in self.model.states][:1]
        if not known and not free:
            free = [next(name for name in (f"another {i}" for i in itertools.count()) if name not in self.model.states)]
        name = data.draw(st.sampled_from(known * 3 + free), label="state")
        if name in free:
            self.register(name, kind, data.draw(st.sampled_from(types_of(kind)), label="type"))
        type = self.model.types[name]
        return self.handle(self.keyed, kind, name, type), self.model.states[name], type

    def handle(self, keyed: sfkv.KeyedStateBackend, kind: str, name: str, type: str) -> Any:
        return open_state(keyed, kind, name, type, self.kind.type)

    def register(self, name: str, kind: str, type: str) -> None:
        self.handle(self.keyed, kind, name, type)
        self.model.state(kind, name, type)
        self.mark()

    def set_offset(self, offset: Any) -> None:
        self.model.offset = offset if offset is not None else self.model.offset

    # --- What is there, as one dict: rows by state, key and user key; cells, payloads and the offset.

    def rows_of(self, keyed: sfkv.KeyedStateBackend, content: Any) -> dict[Any, Any]:
        """What a store holds, with the states' types as in a content of the model's."""
        states, types = content[:2]
        rows: dict[Any, Any] = {}
        for name in keyed.states:
            of = states[name].kind
            table = self.handle(keyed, of, name, types[name]).scan(batch_rows=3).to_arrow()
            rows.update({("row", name, *row[:-1]): row[-1] for row in plain_rows(self.kind, of, types[name], table)})
        rows.update({("cell", cell): keyed.cells[cell] for cell in keyed.cells})
        rows.update({("payload", group): payload for group, payload in keyed.payloads})
        rows["offset",] = keyed.offset
        return rows

    def rows_of_model(self, content: Any) -> dict[Any, Any]:
        states, _, offset, cells, payloads = content
        rows: dict[Any, Any] = {}
        for name, state in states.items():
            for key, value in state.rows.items():
                if state.kind == "map":
                    rows.update({("row", name, key, user_key): entry for user_key, entry in value.items()})
                else:
                    rows["row", name, key] = state.get(key)
        rows.update({("cell", cell): value for cell, value in cells.items()})
        rows.update({("payload", group): payload for group, payload in payloads.items()})
        rows["offset",] = offset
        return rows

    # --- The history: what may be found after a crash.

    def begin_history(self) -> None:
        """From here on nothing before can come back."""
        self.history = [Moment(self.model.cells.get(SEQUENCE), "whole", self.model.content())]
        self.durable = self.model.cells.get(SEQUENCE)

    def begin_directory(self) -> None:
        """The same in a directory that was not closed yet. In memory, what is not closed is nowhere else."""
        self.begin_history()
        self.closed_with = Moment(None, "whole", ModelBackend(RESULTS).content())

    def mark(self, pieces: str = "whole") -> None:
        """Ends a call that wrote."""
        if self.in_batch:
            return
        self.sequence += 1
        self.keyed.cells.set(SEQUENCE, self.sequence)
        self.model.cells[SEQUENCE] = self.sequence
        self.history.append(Moment(self.sequence, pieces, self.model.content()))

    def all_is_durable(self) -> None:
        self.durable = self.history[-1].sequence

    def close(self, *, discard: bool) -> None:
        """Closes the store, which ends its scans."""
        self.keyed.close(discard=discard)
        for scan, *_ in self.scans:
            with pytest.raises(sfkv.ClosedError):
                next(scan)
        self.scans = []

    def recover(self) -> None:
        """Opens what a discarding close has left, finds it in the history, and then does again what was lost, as a job would.

        How much is lost depends on the engine's threads, and Hypothesis must not notice: afterwards all is as if nothing was.
        From memory all is lost since the last close.
        """
        path = self.keyed.path
        self.close(discard=True)
        with pytest.raises(sfkv.UncleanError):
            self.backend.open(path, slot=self.slot)
        # A store that never flushed has forgotten its key and its groups, so that both are told.
        self.keyed = self.backend.open(path, key=self.kind.type, slot=self.slot, max_parallelism=self.parallelism, recover=True)
        if isinstance(self.backend, sfkv.HashMapStateBackend):
            self.replay(self.check_found(self.closed_with, self.closed_with))
            self.begin_history()
            return
        sequence = self.keyed.cells.get(SEQUENCE)
        at = next(i for i, moment in enumerate(self.history) if moment.sequence == sequence)
        durable = next(i for i, moment in enumerate(self.history) if moment.sequence == self.durable)
        assert at >= durable, "what had been flushed is gone"
        before = self.history[at]
        after = self.history[at + 1] if at + 1 < len(self.history) else before
        self.replay(self.check_found(before, after))
        self.keyed._store.flush()
        self.begin_history()

    def check_found(self, before: Moment, after: Moment) -> tuple[Any, Any]:
        """Checks that what is found is the moment before, that after, or the one on its way to the other.

        Returns:
            What the states that are found are, and the types of their values.
        """
        old, new = before.content, after.content
        names = set(self.keyed.states)
        assert set(old[0]) & set(new[0]) <= names <= set(old[0]) | set(new[0])
        merged = {**new[0], **old[0]}, {**new[1], **old[1]}
        rows = self.rows_of(self.keyed, merged)
        ways = [self.rows_of_model(content) for content in (old, new)]
        ways[1]["cell", SEQUENCE] = ways[0].get(("cell", SEQUENCE), ABSENT)  # it is set last, and was not
        if ways[1]["cell", SEQUENCE] is ABSENT:
            del ways[1]["cell", SEQUENCE]
        if after.pieces == "whole":
            assert rows in ways
        else:
            self.check_pieces(rows, ways, after.pieces)
        return merged

    def check_pieces(self, rows: dict[Any, Any], ways: list[dict[Any, Any]], pieces: str) -> None:
        changed = [row for row in ways[0].keys() | ways[1].keys() if ways[0].get(row, ABSENT) != ways[1].get(row, ABSENT)]
        assert rows.keys() <= ways[0].keys() | ways[1].keys()
        for row in ways[0].keys() & ways[1].keys() - set(changed):
            assert rows[row] == ways[0][row]
        keys = {key: i for i, key in enumerate(self.in_order({row[2] for row in changed}))}
        changed.sort(key=lambda row: (keys[row[2]], [order(user_key) for user_key in row[3:]]))
        is_new = [rows.get(row, ABSENT) == ways[1].get(row, ABSENT) for row in changed]
        for row, new in zip(changed, is_new, strict=True):
            assert new or rows.get(row, ABSENT) == ways[0].get(row, ABSENT)
        if pieces == "in order":
            assert is_new == sorted(is_new, reverse=True), "pieces of a call were not written in order"

    def replay(self, found: tuple[Any, Any]) -> None:
        """Brings the store to what the model holds."""
        for name in self.keyed.states:
            wanted = self.model.states.get(name)
            if wanted is None or (found[0][name].kind, found[1][name]) != (wanted.kind, self.model.types[name]):
                self.keyed.drop_state(name)
        for name, state in self.model.states.items():
            handle = self.handle(self.keyed, state.kind, name, self.model.types[name])
            columns = handle.scan_keys().to_arrow().columns
            keys = [self.kind.key_of_cells(cells) for cells in zip(*(column.to_pylist() for column in columns), strict=True)]
            handle.clear_many(keys)
            for key, value in state.rows.items():
                if state.kind in FOLDS:
                    handle.add_many([key] * len(value), value)
                    continue
                getattr(handle, {"value": "put", "list": "update", "map": "put_all"}[state.kind])(key, value)
        for cell in self.keyed.cells:
            self.keyed.cells.delete(cell)
        for cell, value in self.model.cells.items():
            self.keyed.cells.set(cell, value)
        self.keyed.payloads.replace(self.model.payloads)
        with self.keyed.batch(offset=self.model.offset):
            pass
