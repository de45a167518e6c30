"""What carries out the operations of operations.py: sfkv in a configuration, and the model. Their answers are comparable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sfkv
from tests.model import ModelBackend
from tests.property.engines import Configuration
from tests.property.keys import Kind, canonical, order
from tests.property.operations import ONE_KEY, STATES, Operation, State
from tests.property.values import RESULTS, open_state, plain, plain_entries, plain_lists, plain_rows


class Failure(Exception):
    """What a block raises that is to end without a write."""


def touched(operation: Operation) -> list[Any]:
    """The keys of a call."""
    return [operation[3]] if operation[2] in ONE_KEY else operation[3]


class Runner:
    """sfkv in a configuration, in a folder of its own."""

    def __init__(self, kind: Kind, configuration: Configuration, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.stores = 0
        self.backend = configuration.backend()
        self.slot = sfkv.Slot(configuration.memory)
        self.keyed = self.backend.open(
            self.next_path(),
            key=kind.type,
            slot=self.slot,
            max_parallelism=configuration.max_parallelism,
            key_groups=configuration.key_groups,
        )
        for state in STATES:
            self.state(*state)

    def next_path(self) -> Path:
        self.stores += 1
        return self.folder / f"store-{self.stores}"

    def state(self, kind: str, name: str, type: str) -> Any:
        return open_state(self.keyed, kind, name, type, self.kind.type)

    def run(self, operation: Operation) -> Any:
        try:
            return getattr(self, operation[0])(*operation[1:])
        except sfkv.KeyGroupError:
            return "another key group"
        except Failure:
            return "failed"

    def call(self, state: State, method: str, keys: Any, arguments: tuple[Any, ...], offset: Any, shape: str) -> Any:
        handle = self.state(*state)
        if method not in ONE_KEY and method != "bundle":
            keys = self.kind.batch(keys, shape)
        special = getattr(self, f"call_{method}", None)
        if special is not None:
            return special(handle, state[2], keys, *arguments, offset=offset)
        with_offset = {} if offset is None else {"offset": offset}
        answer = getattr(handle, method)(keys, *arguments, **with_offset)
        if method.startswith("contains"):
            return answer.to_pylist()
        if method == "get_many" and state[0] == "list":
            return plain_lists(state[2], answer)
        return plain(state[2], answer) if method == "get_many" else answer

    def call_contains(self, handle: Any, type: str, key: Any, *, offset: None) -> bool:
        return key in handle

    def call_contains_entries(self, handle: Any, type: str, keys: Any, user_keys: list[Any], *, offset: None) -> list[bool]:
        return handle.contains_many(keys, user_keys).to_pylist()

    def call_items(self, handle: Any, type: str, key: Any, *, offset: None) -> list[Any]:
        return [(canonical(user_key), value) for user_key, value in handle[key].items()]

    def call_items_many(self, handle: Any, type: str, keys: Any, *, offset: None) -> list[Any]:
        return plain_entries(type, handle.items_many(keys))

    def call_view(self, handle: Any, type: str, key: Any, setting: Any, value: Any, taking: Any, *, offset: None) -> list[Any]:
        view = handle[key]
        passing = ((canonical(user_key), value) for user_key, value in view.items())
        first = list(zip(range(1), passing, strict=False))
        view[setting] = value
        taken = view.pop(taking, "absent")
        seen = [entry for _, entry in first] + list(passing)
        return [seen, taken, len(view), bool(view), taking in view, list(map(canonical, view)), list(view.values())]

    def call_bundle(self, handle: Any, type: str, keys: Any, changes: list[Any], fails: bool, *, offset: Any) -> list[Any]:
        with handle.bundle(keys, offset=offset) as rows:
            seen = [(canonical(key), value) for key, value in rows.items()]
            for key, (change, value) in zip(list(rows), changes, strict=False):
                if change == "del":
                    del rows[key]
                elif change == "set":
                    rows[key] = value
            if fails:
                raise Failure
        return seen

    def batch(self, steps: list[Operation], fails: bool, offset: Any) -> list[Any]:
        with self.keyed.batch(offset=offset):
            answers = [getattr(self, step[0])(*step[1:]) for step in steps]
            if fails:
                raise Failure
        return answers

    def cells(self) -> dict[str, int]:
        return {name: self.keyed.cells[name] for name in self.keyed.cells}

    def set_cell(self, name: str, value: int) -> None:
        self.keyed.cells.set(name, value)

    def delete_cell(self, name: str) -> None:
        self.keyed.cells.delete(name)

    def payloads(self) -> list[tuple[int, bytes]]:
        return list(self.keyed.payloads)

    def set_payload(self, group: int, payload: bytes | None) -> bytes | None:
        self.keyed.payloads.set(group, payload)
        return self.keyed.payloads.get(group)

    def replace_payloads(self, payloads: dict[int, bytes]) -> list[tuple[int, bytes]]:
        self.keyed.payloads.replace(payloads)
        return self.payloads()

    def scan(self, state: State, batch_rows: int) -> list[Any]:
        return plain_rows(self.kind, state[0], state[2], self.state(*state).scan(batch_rows=batch_rows).to_arrow())

    def scan_keys(self, state: State, batch_rows: int) -> list[Any]:
        return plain_rows(self.kind, state[0], state[2], self.state(*state).scan_keys(batch_rows=batch_rows).to_arrow())

    def scan_open(self, state: State, batch_rows: int, change: Operation) -> list[Any]:
        with self.state(*state).scan(batch_rows=batch_rows) as scan:
            batches = [batch for _, batch in zip(range(1), scan, strict=False)]
            changed = self.run(change)
            batches += scan
        return [changed, [row for batch in batches for row in plain_rows(self.kind, state[0], state[2], batch)]]

    def flush(self) -> None:
        self.keyed._store.flush()

    def compact(self) -> None:
        self.keyed.compact()

    def reopen(self) -> None:
        path = self.keyed.path
        self.keyed.close()
        self.keyed = self.backend.open(path, key=self.kind.type, slot=self.slot)

    def snapshot(self, id: int, metadata: Any) -> None:
        self.keyed.snapshot(id, self.folder / "snapshots", metadata=metadata).result()

    def restore(self, id: int) -> Any:
        self.keyed.close(discard=True)
        self.keyed = self.backend.restore(self.next_path(), self.folder / "snapshots" / f"chk-{id}", slot=self.slot)
        return self.keyed.restored_from.metadata

    def drop_state(self, old: State, new: State) -> list[Any]:
        self.keyed.drop_state(old[1])
        return plain_rows(self.kind, new[0], new[2], self.state(*new).scan().to_arrow())

    def states(self) -> list[str]:
        return sorted(self.keyed.states)

    def offset(self) -> Any:
        return self.keyed.offset


class Model:
    """The dict model under the same operations, for backends that own the same key groups."""

    def __init__(self, kind: Kind, owned: range, max_parallelism: int) -> None:
        keys = list(dict.fromkeys([*kind.pool, *kind.user_keys]))
        self.groups = dict(zip(keys, kind.groups(keys, max_parallelism), strict=True))
        self.owned = owned
        self.model = ModelBackend(RESULTS)
        for state in STATES:
            self.model.state(*state)

    def run(self, operation: Operation) -> Any:
        before = self.model.content()
        try:
            return getattr(self, operation[0])(*operation[1:])
        except sfkv.KeyGroupError:
            refused = "another key group"
        except Failure:
            refused = "failed"
        self.model.become(before)
        return refused

    def check(self, groups: list[int]) -> None:
        if any(group not in self.owned for group in groups):
            raise sfkv.KeyGroupError("not owned")

    def sorted(self, keys: Any) -> list[Any]:
        return sorted(keys, key=lambda key: (self.groups[key], order(key)))

    def call(self, state: State, method: str, keys: Any, arguments: tuple[Any, ...], offset: Any, shape: str) -> Any:
        handle = self.model.state(*state)
        self.check([self.groups[key] for key in touched(("call", state, method, keys))])
        special = getattr(self, f"call_{method}", None)
        answer = getattr(handle, method)(keys, *arguments) if special is None else special(handle, keys, *arguments)
        if offset is not None:
            self.model.offset = offset
        return answer

    def call_contains_entries(self, handle: Any, keys: list[Any], user_keys: list[Any]) -> list[bool]:
        return handle.contains_many(keys, user_keys)

    def call_items(self, handle: Any, key: Any) -> list[Any]:
        return sorted(handle.items(key).items(), key=lambda entry: order(entry[0]))

    def call_items_many(self, handle: Any, keys: list[Any]) -> list[Any]:
        return [self.call_items(handle, key) for key in keys]

    def call_view(self, handle: Any, key: Any, setting: Any, value: Any, taking: Any) -> list[Any]:
        seen = self.call_items(handle, key)
        handle.put(key, setting, value)
        taken = handle.get(key, taking, "absent")
        handle.delete(key, taking)
        now = self.call_items(handle, key)
        return [seen, taken, len(now), bool(now), False, [entry[0] for entry in now], [entry[1] for entry in now]]

    def call_bundle(self, handle: Any, keys: list[Any], changes: list[Any], fails: bool) -> list[Any]:
        distinct = list(dict.fromkeys(keys))
        seen = [(key, handle.get(key)) for key in distinct]
        for key, (change, value) in zip(distinct, changes, strict=False):
            if change != "keep":
                handle.put(key, None if change == "del" else value)
        if fails:
            raise Failure
        return seen

    def batch(self, steps: list[Operation], fails: bool, offset: Any) -> list[Any]:
        answers = [getattr(self, step[0])(*step[1:]) for step in steps]
        if fails:
            raise Failure
        if offset is not None:
            self.model.offset = offset
        return answers

    def cells(self) -> dict[str, int]:
        return dict(self.model.cells)

    def set_cell(self, name: str, value: int) -> None:
        self.model.cells[name] = value

    def delete_cell(self, name: str) -> None:
        self.model.cells.pop(name, None)

    def payloads(self) -> list[tuple[int, bytes]]:
        return sorted(self.model.payloads.items())

    def set_payload(self, group: int, payload: bytes | None) -> bytes | None:
        self.check([group])
        self.model.payloads.pop(group, None)
        if payload is not None:
            self.model.payloads[group] = payload
        return payload

    def replace_payloads(self, payloads: dict[int, bytes]) -> list[tuple[int, bytes]]:
        self.check(list(payloads))
        self.model.payloads = dict(payloads)
        return self.payloads()

    def scan(self, state: State, batch_rows: int) -> list[Any]:
        rows = self.model.state(*state).rows
        if state[0] == "map":
            return [
                (key, *entry) for key in self.sorted(rows) for entry in sorted(rows[key].items(), key=lambda e: order(e[0]))
            ]
        handle = self.model.state(*state)
        return [(key, handle.get(key)) for key in self.sorted(rows)]

    def scan_keys(self, state: State, batch_rows: int) -> list[Any]:
        return [(key,) for key in self.sorted(self.model.state(*state).rows)]

    def scan_open(self, state: State, batch_rows: int, change: Operation) -> list[Any]:
        rows = self.scan(state, batch_rows)
        return [self.run(change), rows]

    def flush(self) -> None:
        pass

    def compact(self) -> None:
        pass

    def reopen(self) -> None:
        pass

    def snapshot(self, id: int, metadata: Any) -> None:
        self.model.snapshot(id, metadata)

    def restore(self, id: int) -> Any:
        return self.model.restore(id)

    def drop_state(self, old: State, new: State) -> list[Any]:
        self.model.drop_state(old[1])
        self.model.state(*new)
        return []

    def states(self) -> list[str]:
        return sorted(self.model.states)

    def offset(self) -> Any:
        return self.model.offset
