"""A plain-dict model of what sfkv does: the answers that every backend must give.

The states' methods are called as sfkv's are and answer with Python's lists. Offsets are set by the model's user.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any


class ModelValueState:
    """A value state as a dict. Keys and values are those of Python; the last write to a key counts."""

    kind = "value"

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}

    def get(self, key: Any, default: Any = None) -> Any:
        return self.rows.get(key, default)

    def put(self, key: Any, value: Any) -> None:
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = copy.deepcopy(value)

    def clear(self, key: Any) -> None:
        self.rows.pop(key, None)

    def contains(self, key: Any) -> bool:
        return key in self.rows

    def get_many(self, keys: list[Any]) -> list[Any]:
        return [self.rows.get(key) for key in keys]

    def put_many(self, keys: list[Any], values: list[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.put(key, value)

    def clear_many(self, keys: list[Any]) -> None:
        for key in keys:
            self.rows.pop(key, None)

    def contains_many(self, keys: list[Any]) -> list[bool]:
        return [key in self.rows for key in keys]


class ModelListState:
    """A list state: lists are appended to; an empty one is absent."""

    kind = "list"

    def __init__(self) -> None:
        self.rows: dict[Any, list[Any]] = {}

    def get(self, key: Any) -> list[Any]:
        return list(self.rows.get(key, []))

    def add(self, key: Any, value: Any) -> None:
        self.add_many([key], [value])

    def add_all(self, key: Any, values: list[Any]) -> None:
        self.add_many([key] * len(values), values)

    def update(self, key: Any, values: list[Any] | None) -> None:
        self.update_many([key], [values])

    def clear(self, key: Any) -> None:
        self.rows.pop(key, None)

    def contains(self, key: Any) -> bool:
        return key in self.rows

    def get_many(self, keys: list[Any]) -> list[list[Any]]:
        return [list(self.rows.get(key, [])) for key in keys]

    def add_many(self, keys: list[Any], values: list[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.rows.setdefault(key, []).append(copy.deepcopy(value))

    def update_many(self, keys: list[Any], lists: list[list[Any] | None]) -> None:
        for key, values in zip(keys, lists, strict=True):
            self.rows.pop(key, None)
            if values:
                self.rows[key] = copy.deepcopy(list(values))

    def clear_many(self, keys: list[Any]) -> None:
        for key in keys:
            self.rows.pop(key, None)

    def contains_many(self, keys: list[Any]) -> list[bool]:
        return [key in self.rows for key in keys]


class ModelMapState:
    """A map state: entries by key and user key; None is a value."""

    kind = "map"

    def __init__(self) -> None:
        self.rows: dict[Any, dict[Any, Any]] = {}

    def get(self, key: Any, user_key: Any, default: Any = None) -> Any:
        return self.rows.get(key, {}).get(user_key, default)

    def put(self, key: Any, user_key: Any, value: Any) -> None:
        self.put_many([key], [user_key], [value])

    def put_all(self, key: Any, mapping: dict[Any, Any]) -> None:
        self.put_many([key] * len(mapping), list(mapping), list(mapping.values()))

    def delete(self, key: Any, user_key: Any) -> None:
        self.delete_many([key], [user_key])

    def clear(self, key: Any) -> None:
        self.rows.pop(key, None)

    def contains(self, key: Any) -> bool:
        return key in self.rows

    def is_empty(self, key: Any) -> bool:
        return key not in self.rows

    def items(self, key: Any) -> dict[Any, Any]:
        return dict(self.rows.get(key, {}))

    def items_many(self, keys: list[Any]) -> list[dict[Any, Any]]:
        return [self.items(key) for key in keys]

    def get_many(self, keys: list[Any], user_keys: list[Any]) -> list[Any]:
        return [self.rows.get(key, {}).get(user_key) for key, user_key in zip(keys, user_keys, strict=True)]

    def contains_many(self, keys: list[Any], user_keys: list[Any] | None = None) -> list[bool]:
        if user_keys is None:
            return [key in self.rows for key in keys]
        return [user_key in self.rows.get(key, {}) for key, user_key in zip(keys, user_keys, strict=True)]

    def put_many(self, keys: list[Any], user_keys: list[Any], values: list[Any]) -> None:
        for key, user_key, value in zip(keys, user_keys, values, strict=True):
            self.rows.setdefault(key, {})[user_key] = copy.deepcopy(value)

    def delete_many(self, keys: list[Any], user_keys: list[Any]) -> None:
        for key, user_key in zip(keys, user_keys, strict=True):
            self.rows.get(key, {}).pop(user_key, None)
            if not self.rows.get(key, True):
                del self.rows[key]

    def clear_many(self, keys: list[Any]) -> None:
        for key in keys:
            self.rows.pop(key, None)


class ModelFoldState:
    """A reducing or aggregating state: all that was added to a key, and what a function makes of it.

    Args:
        result: of the list of values, in the order of adding.
    """

    def __init__(self, kind: str, result: Callable[[list[Any]], Any]) -> None:
        self.kind = kind
        self.result = result
        self.rows: dict[Any, list[Any]] = {}

    def get(self, key: Any, default: Any = None) -> Any:
        return self.result(self.rows[key]) if key in self.rows else default

    def add(self, key: Any, value: Any) -> None:
        self.rows.setdefault(key, []).append(copy.deepcopy(value))

    def clear(self, key: Any) -> None:
        self.rows.pop(key, None)

    def contains(self, key: Any) -> bool:
        return key in self.rows

    def get_many(self, keys: list[Any]) -> list[Any]:
        return [self.get(key) for key in keys]

    def add_many(self, keys: list[Any], values: list[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.add(key, value)

    def clear_many(self, keys: list[Any]) -> None:
        for key in keys:
            self.rows.pop(key, None)

    def contains_many(self, keys: list[Any]) -> list[bool]:
        return [key in self.rows for key in keys]


_STATES = {state.kind: state for state in (ModelValueState, ModelListState, ModelMapState)}


class ModelBackend:
    """States by name, snapshots by id, and what closing and restoring do to them.

    Attributes:
        types: what the values of each state are, in whatever form the model's user gives them; of one that folds also what
            its results are.

    Args:
        results: by type, what states that fold make of what was added.
    """

    def __init__(self, results: Mapping[Any, Callable[[list[Any]], Any]] | None = None) -> None:
        self.results = results or {}
        self.states: dict[str, Any] = {}
        self.types: dict[str, Any] = {}
        self.offset: Any = None
        self.cells: dict[str, int] = {}
        self.payloads: dict[int, bytes] = {}
        self.snapshots: dict[int, tuple[Any, Any]] = {}

    def state(self, kind: str, name: str, type: Any) -> Any:
        if name not in self.states:
            self.states[name] = _STATES[kind]() if kind in _STATES else ModelFoldState(kind, self.results[type])
            self.types[name] = type
        assert (self.states[name].kind, self.types[name]) == (kind, type)
        return self.states[name]

    def drop_state(self, name: str) -> None:
        del self.states[name], self.types[name]

    def content(self) -> Any:
        """All that a snapshot holds, by itself. Values are shared: nothing here changes them in place."""
        states = {}
        for name, state in self.states.items():
            states[name] = copy.copy(state)
            states[name].rows = dict(state.rows) if state.kind == "value" else {k: v.copy() for k, v in state.rows.items()}
        return states, dict(self.types), self.offset, dict(self.cells), dict(self.payloads)

    def become(self, content: Any) -> None:
        """Makes this the content, which must not be used for anything else."""
        self.states, self.types, self.offset, self.cells, self.payloads = content

    def snapshot(self, id: int, metadata: Any) -> None:
        self.snapshots[id] = (self.content(), metadata)

    def restore(self, id: int) -> Any:
        content, metadata = self.snapshots[id]
        self.become(content)
        self.snapshots[id] = (self.content(), metadata)
        return metadata
