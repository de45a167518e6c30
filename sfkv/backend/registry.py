"""Which states a store holds: the rows that describe them, read when it is opened and written when they change."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import msgspec

from sfkv import _batch, _store, _table
from sfkv._descriptions import UNREADABLE, read_table
from sfkv._errors import CorruptionError, LimitError, SchemaError, UsageError
from sfkv._evolution import evolve, with_history
from sfkv._folds import describe_aggregate
from sfkv._types import ValueSchema, describe_text
from sfkv.backend.names import encode_name

# The kinds of tables by the kinds of states, but those that fold, which say theirs (state/folding.py).
KINDS = {"value": _table.VALUE, "list": _table.LIST, "map": _table.MAP, "table": _table.TABLE}
_MAX_TABLES = 256


class Registry:
    """The states of one store, by table byte, and what users hold of them.

    Attributes:
        tables: the descriptions of those that are stored.
        states: by name, the states that were given out and are still held.

    Args:
        forget: is told of each table whose rows are gone, before another state may have its number.

    Raises:
        CorruptionError: a stored description cannot be read.
    """

    def __init__(self, store: _store.Store, forget: Callable[[int], None]) -> None:
        self._store = store
        self._forget = forget
        self.tables: dict[int, dict[str, Any]] = read_tables(store)
        self.states: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._natives: weakref.WeakSet[_table.Table] = weakref.WeakSet()
        self._finish_drops()

    def register(self, name: str, kind: str, value: ValueSchema, **more: Any) -> int:
        """The table byte of a state, which is stored with what it holds when the name is new.

        ``value`` learns the versions that are stored for it; ``more`` are further members of the description.

        Raises:
            UsageError: the state is being dropped, and that failed half way.
        """
        if kind != "payloads":
            encode_name(name, "state")
        wanted = {"name": name, "kind": kind, "value": value.describe(), "ttl": None, **more}
        table = next((table for table, stored in self.tables.items() if stored["name"] == name), -1)
        if table >= 0 and self.tables[table].get("dropping"):
            raise UsageError(f"state {name!r} is being dropped: call drop_state again", operation="register", state=name)
        if table >= 0:
            self._compare(table, wanted, value)
        else:
            table = self._store_new(wanted)
        with_history(value, self.tables[table]["value"])
        return table

    def add(self, name: str, native: _table.Table, state: Any) -> None:
        """Remembers what was made for a state."""
        self._natives.add(native)
        self.states[name] = state

    def texts(self) -> dict[str, str]:
        """The kind and type of each state, by name."""
        return {table["name"]: _text_of(table) for table in self.tables.values() if table["kind"] != "payloads"}

    def drop(self, name: str) -> None:
        """Removes a state and its rows; see ``KeyedStateBackend.drop_state``."""
        table = next((table for table, stored in self.tables.items() if stored["name"] == name and name), None)
        if table is None:
            there = ", ".join(map(repr, self.texts())) or "none"
            raise UsageError(f"there is no state {name!r}: there are {there}", state=name)
        _batch.refuse(self._store, "drop_state")
        self._write(table, {**self.tables[table], "dropping": True}, "drop_state")
        self._end_natives(table, "the state was dropped")
        self._finish_drops()

    def _store_new(self, wanted: dict[str, Any]) -> int:
        table = next((free for free in range(_MAX_TABLES) if free not in self.tables), -1)
        if table < 0:
            raise LimitError(
                f"a backend holds at most {_MAX_TABLES} states: open another one", operation="register", state=wanted["name"]
            )
        self._write(table, wanted, "register")
        return table

    def _compare(self, table: int, wanted: dict[str, Any], value: ValueSchema) -> None:
        """Refuses to take a state for another; one whose value has gained columns gets a new version."""
        stored = self.tables[table]
        try:
            if {**stored, "value": None} != {**wanted, "value": None}:
                raise SchemaError("use the stored type, or another name")
            evolved = evolve(stored["value"], value)
        except SchemaError as error:
            raise SchemaError(
                f"state {stored['name']!r} holds {_text_of(stored)}, and was asked for as {_text_of(wanted)}: {error}",
                operation="register",
                path=self._store.path,
                state=stored["name"],
                column=error.column,
            ) from error
        if evolved is not stored["value"]:
            self._write(table, {**stored, "value": evolved}, "register")
            self._end_natives(table, "the state was registered again with other columns: use what that returned")

    def _write(self, table: int, description: dict[str, Any], operation: str) -> None:
        """Stores a description: past an open batch, which may be dropped, and past a memory limit."""
        _batch.write_rows(self._store, {_table_row(table): msgspec.json.encode(description)}, operation, through=True)
        self.tables[table] = description

    def _end_natives(self, table: int, why: str) -> None:
        """Ends what reads and writes a table in its old form."""
        for native in self._natives:
            if native.id == table:
                native.drop(why)
        self.states.pop(self.tables[table]["name"], None)

    def _finish_drops(self) -> None:
        """Removes the rows of the states that are being dropped, and then what describes them."""
        for table in [table for table, stored in self.tables.items() if stored.get("dropping")]:
            _batch.drop_table(self._store, table)
            self._forget(table)
            _batch.write_rows(self._store, {_table_row(table): None}, "drop_state")
            del self.tables[table]


def _table_row(table: int) -> bytes:
    return _store.TABLE_ROWS + bytes([table])


def read_tables(store: _store.Store) -> dict[int, dict[str, Any]]:
    """The states that are stored, by table byte."""
    tables = {}
    for key, row in store.reserved_rows().items():
        if key.startswith(_store.TABLE_ROWS):
            try:
                tables[key[len(_store.TABLE_ROWS)]] = read_table(row)
            except (IndexError, *UNREADABLE) as error:
                raise CorruptionError(
                    f"Corruption: the registry of {store.path} cannot be read: {error}", path=store.path
                ) from error
    return tables


def _text_of(table: dict[str, Any]) -> str:
    own_key = table.get("user_key") or table.get("key")
    key = f"{describe_text(own_key)}, " if own_key is not None else ""
    fold = f", {describe_aggregate(table)}" if "aggregate" in table else ""
    return f"{table['kind']}<{key}{describe_text(table['value'])}{fold}>"
