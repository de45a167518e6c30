"""Operator cells: a few named values of an operator as a whole, such as a watermark or a sequence."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from sfkv import _batch, _store
from sfkv._errors import BusyError, ClosedError, ConfigError, CorruptionError, SchemaError
from sfkv.backend.names import encode_name
from sfkv.config._options import whole_number

_RULES = ("max", "min", "sum", "union")
_INT, _FLOAT, _BYTES = range(3)
_TYPE_NAMES = ("int64", "float64", "bytes")


class Cells:
    """The cells of a backend: ``keyed.cells``. Each has a rule by which several workers' values become one.

    That is for rescaling, which is not there yet: today the rule is stored, and told by ``rule``. Cells are part of batches
    and snapshots as rows are.
    """

    def __init__(self, store: _store.Store, owner: object) -> None:
        self._store = store
        self._owner = owner  # the backend, which closes the store when it is dropped

    def set(self, name: str, value: int | float | bytes, *, merge: str = "max") -> None:
        """Sets a cell.

        Args:
            name: 1 to 1,000 bytes.
            value: an int of 64 bits, a float, or bytes.
            merge: "max", "min" or "sum" for numbers, "union" for bytes: what several workers' values become.

        Raises:
            ConfigError: the name or the rule is wrong, or the rule does not fit the value.
            SchemaError: the value is of no such type, or the cell holds another type or rule; shows both.
            LimitError: of a batch, or of state in memory.
            CorruptionError: what is stored of the cell is none.
            ClosedError, BusyError, StorageError
        """
        kind, payload = _encode(name, value)
        if merge not in _RULES or (merge == "union") != (kind == _BYTES):
            raise ConfigError(f"cell {name!r}: merge is {merge!r}; use max, min or sum for numbers, union for bytes")
        rule = _RULES.index(merge)
        stored = self._read(name)
        if stored is not None and stored[:2] != bytes([rule, kind]):
            raise SchemaError(
                f"cell {name!r} holds {_TYPE_NAMES[stored[1]]} merged by {_RULES[stored[0]]}, "
                f"and was asked for as {_TYPE_NAMES[kind]} merged by {merge}: use another name"
            )
        _batch.write_rows(self._store, {_row(name): bytes([rule, kind]) + payload}, "cells.set")

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a cell, or ``default`` where there is none.

        Returns:
            An int, a float or bytes, as it was set.

        Raises:
            ConfigError: the name is wrong.
            CorruptionError: what is stored of the cell is none.
            ClosedError, BusyError, StorageError
        """
        stored = self._read(name)
        return default if stored is None else _decode(stored)

    def delete(self, name: str) -> None:
        """Removes a cell, if it is there. Raises ConfigError for the name, and ClosedError, BusyError, StorageError."""
        _batch.write_rows(self._store, {_row(name): None}, "cells.delete")

    def rule(self, name: str) -> str | None:
        """The merge rule of a cell; None where there is none. Raises as ``get``."""
        stored = self._read(name)
        return None if stored is None else _RULES[stored[0]]

    def __contains__(self, name: str) -> bool:
        """Whether there is such a cell."""
        return self._read(name) is not None

    def __getitem__(self, name: str) -> Any:
        """The value of a cell; KeyError where there is none."""
        stored = self._read(name)
        if stored is None:
            raise KeyError(name)
        return _decode(stored)

    def __iter__(self) -> Iterator[str]:
        """The names of the cells, sorted."""
        rows = self._store.read_range(_store.CELL_ROWS, _store.OFFSET_ROW)
        return iter([row[len(_store.CELL_ROWS) :].decode() for row in rows])

    def __repr__(self) -> str:
        try:
            return f"Cells({ {name: self.get(name) for name in self} })"
        except (ClosedError, BusyError) as error:
            return f"Cells({error.code})"

    def _read(self, name: str) -> bytes | None:
        row = _row(name)
        stored = self._store.read_range(row, row + b"\0").get(row)
        if stored is not None and not _is_cell(stored):
            raise CorruptionError(
                f"Corruption: the cell {name!r} does not have the form of one: restore the store from a snapshot"
            )
        return stored


def _row(name: str) -> bytes:
    return _store.CELL_ROWS + encode_name(name, "cell")


def _encode(name: str, value: Any) -> tuple[int, bytes]:
    if isinstance(value, bytes):
        return _BYTES, value
    if isinstance(value, float):
        return _FLOAT, struct.pack("<d", value)
    number = whole_number(value)
    if number is not None and -(2**63) <= number < 2**63:
        return _INT, struct.pack("<q", number)
    raise SchemaError(f"cell {name!r}: {value!r} is no int of 64 bits, float or bytes")


def _is_cell(stored: bytes) -> bool:
    return (
        len(stored) >= 2
        and stored[0] < len(_RULES)
        and (stored[1] == _BYTES or (stored[1] in (_INT, _FLOAT) and len(stored) == 10))
    )


def _decode(stored: bytes) -> Any:
    payload = stored[2:]
    return payload if stored[1] == _BYTES else struct.unpack("<q" if stored[1] == _INT else "<d", payload)[0]
