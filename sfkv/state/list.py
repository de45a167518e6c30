"""ListState: a list of values for each key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import pyarrow as pa

from sfkv import _list, _table
from sfkv._errors import SchemaError
from sfkv._offsets import encode_offset
from sfkv._types import KeySchema, ValueSchema
from sfkv.state.scan import Scan, ScanColumns, not_iterable


class ListState:
    """A list of values for each key. Made by ``keyed.list_state(name, type)``.

    Adding appends without reading, by a merge in the engine. An absent list reads as empty, and an empty one is absent. None
    is no element. Batches answer by position and may repeat keys: all that is added to one counts, in order.

    Cost:
        Reading a list reads all of it. A list takes at most 256 MiB; adding beyond that is refused (the size of a list is
        looked at once in 16 MiB of appended bytes, so that it may grow so much further).
    """

    def __init__(self, name: str, table: _table.Table, key: KeySchema, value: ValueSchema) -> None:
        self._name = name
        self._table = table
        self._lists = _list.ListTable(table)
        self._key = key
        self._value = value

    @property
    def name(self) -> str:
        """What it was registered as."""
        return self._name

    @property
    def type(self) -> pa.DataType:
        """What an element is in Arrow; binary where a serializer makes the bytes."""
        return self._value.arrow

    # --- One key.

    def get(self, key: Any) -> list[Any]:
        """The list of a key, in the order of adding; a new one, which may be changed freely.

        Raises:
            SchemaError, KeyGroupError, ClosedError, BusyError, StorageError
        """
        return self._lists.get(key)

    def add(self, key: Any, value: Any) -> None:
        """Appends a value.

        Raises:
            SchemaError: the value does not fit, or is None.
            LimitError: the list would take more than 256 MiB.
            KeyGroupError, ClosedError, BusyError, StorageError: nothing was written.
        """
        self._lists.add_all(key, (value,), "add")

    def add_all(self, key: Any, values: Iterable[Any]) -> None:
        """Appends several values, in one write; none at all does nothing. Raises as ``add``."""
        self._lists.add_all(key, _elements(values, self._name))

    def update(self, key: Any, values: Iterable[Any] | None) -> None:
        """Replaces the list; an empty one, or None, clears. Raises as ``add``."""
        self._lists.update(key, None if values is None else _elements(values, self._name))

    def clear(self, key: Any) -> None:
        """Removes the list of a key, if there is one."""
        self._table.clear(key)

    def __contains__(self, key: Any) -> bool:
        """Whether a key has a list."""
        return self._table.contains(key)

    def __getitem__(self, key: Any) -> list[Any]:
        """The list of a key; KeyError where there is none."""
        values = self._lists.get(key)
        if not values:
            raise KeyError(key)
        return values

    def __iter__(self) -> NoReturn:
        """UsageError: a state is scanned."""
        raise not_iterable(self._name)

    # --- Batches.

    def get_many(self, keys: Any) -> Any:
        """The lists of a batch of keys.

        Args:
            keys: as for ``ValueState.get_many``.

        Returns:
            An Arrow list array, aligned with the keys, empty where there is no list; a list of lists of objects where a
            serializer made them.

        Raises:
            SchemaError, KeyGroupError, ClosedError, BusyError, StorageError
            LimitError: the answer has more than 2^31 - 1 elements, or bytes of them.
        """
        return self._lists.get_many(keys)

    def add_many(self, keys: Any, values: Any, *, offset: Any = None) -> None:
        """Appends to each key the value beside it: without a read, those of one key in the batch's order.

        Args:
            keys: as for every batch.
            values: as many as keys; none of them null.
            offset: stored in the same write; see ``ValueState.put_many``.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError: nothing was written.
            StorageError: without an offset, pieces of ``write_batch_bytes`` may have been written, in order.
        """
        self._lists.add_many(keys, values, encode_offset(offset))

    def update_many(self, keys: Any, lists: Any, *, offset: Any = None) -> None:
        """Replaces the lists of a batch of keys; an empty or null one clears. Of several for one key the last counts.

        Args:
            keys: as for every batch.
            lists: as many as keys: an Arrow list array, or a sequence of sequences.
            offset: stored in the same write; see ``ValueState.put_many``.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError: nothing was written.
            StorageError: without an offset, pieces of ``write_batch_bytes`` may have been written, in order.
        """
        self._lists.update_many(keys, lists, encode_offset(offset))

    def clear_many(self, keys: Any, *, offset: Any = None) -> None:
        """Removes the lists of a batch of keys. ``offset`` and errors as for ``add_many``."""
        self._table.clear_many(keys, encode_offset(offset))

    def contains_many(self, keys: Any) -> pa.Array:
        """Which of the keys have a list: a boolean array, aligned with them. Raises as ``get_many``."""
        return self._table.contains_many(keys)

    # --- All keys.

    def scan(self, *, batch_rows: int = 65536) -> Scan:
        """All keys and lists, as record batches of up to ``batch_rows`` rows, as of now.

        Raises:
            UsageError: a batch is open.
            ConfigError: ``batch_rows``.
            ClosedError, BusyError, StorageError
        """
        return Scan(self._table, batch_rows, ScanColumns(self._key, self._value.scan_arrow(of_lists=True)))

    def scan_keys(self, *, batch_rows: int = 65536) -> Scan:
        """All keys that have a list. Raises as ``scan``."""
        return Scan(self._table, batch_rows, ScanColumns(self._key, None))

    def __repr__(self) -> str:
        return f"ListState({self._name!r}, {self._value})"


def _elements(values: Iterable[Any], state: str) -> list[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise SchemaError(f"a list of values is expected, and {values!r} is none [state {state!r}]", state=state)
    return values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else list(values)
