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


class ModelBackend:
    """States by name, snapshots by id, and what closing and restoring do to them."""

    def __init__(self) -> None:
        self.states: dict[str, ModelValueState] = {}
        self.offset: Any = None
        self.snapshots: dict[int, tuple[dict[str, ModelValueState], Any, Any]] = {}

    def value_state(self, name: str) -> ModelValueState:
        return self.states.setdefault(name, ModelValueState())

    def snapshot(self, id: int, metadata: Any) -> None:
        self.snapshots[id] = copy.deepcopy((self.states, self.offset, metadata))

    def restore(self, id: int) -> Any:
        self.states, self.offset, metadata = copy.deepcopy(self.snapshots[id])
        return metadata
