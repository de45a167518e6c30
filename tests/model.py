"""A plain-dict model of what sfkv does: the answers that every backend must give."""

from __future__ import annotations

import copy
from typing import Any


class ModelValueState:
    """A value state as a dict. Keys and values are those of Python; the last write to a key counts."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}

    def get(self, key: Any, default: Any = None) -> Any:
        return self.rows.get(key, default)

    def put(self, key: Any, value: Any) -> None:
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = copy.deepcopy(value)

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

    def __init__(self) -> None:
        self.rows: dict[Any, list[Any]] = {}

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


class ModelMapState:
    """A map state: entries by key and user key; None is a value."""

    def __init__(self) -> None:
        self.rows: dict[Any, dict[Any, Any]] = {}

    def get_many(self, keys: list[Any], user_keys: list[Any]) -> list[Any]:
        return [self.rows.get(key, {}).get(user_key) for key, user_key in zip(keys, user_keys, strict=True)]

    def contains_many(self, keys: list[Any], user_keys: list[Any]) -> list[bool]:
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


class ModelBackend:
    """States by name, snapshots by id, and what closing and restoring do to them."""

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}
        self.offset: Any = None
        self.cells: dict[str, int] = {}
        self.snapshots: dict[int, tuple[dict[str, Any], Any, dict[str, int], Any]] = {}

    def value_state(self, name: str) -> ModelValueState:
        return self.states.setdefault(name, ModelValueState())

    def list_state(self, name: str) -> ModelListState:
        return self.states.setdefault(name, ModelListState())

    def map_state(self, name: str) -> ModelMapState:
        return self.states.setdefault(name, ModelMapState())

    def snapshot(self, id: int, metadata: Any) -> None:
        self.snapshots[id] = copy.deepcopy((self.states, self.offset, self.cells, metadata))

    def restore(self, id: int) -> Any:
        self.states, self.offset, self.cells, metadata = copy.deepcopy(self.snapshots[id])
        return metadata
