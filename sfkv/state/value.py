"""ValueState: one value for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa

from sfkv import _table
from sfkv._offsets import encode_offset
from sfkv._types import KeySchema, ValueSchema
from sfkv.config._options import column_names
from sfkv.state.bundle import Bundle
from sfkv.state.scan import Scan, ScanColumns, not_iterable


class ValueState:
    """One value for each key. Made by ``keyed.value_state(name, type)``.

    Absent is None; ``put(key, None)`` clears. Batches answer by position, and may repeat keys: of several writes to one the
    last counts. Bad input raises before the first byte of a call is written, and names the row.

    Cost:
        A single call takes the GIL with it while all it needs is in memory. A batch is one call of the engine, without the
        GIL, and costs a fraction per key of what single calls do.
    """

    def __init__(self, name: str, table: _table.Table, key: KeySchema, value: ValueSchema) -> None:
        self._name = name
        self._table = table
        self._key = key
        self._value = value
        # Single calls go straight to the compiled part: a tenth of their time is a Python frame. The methods say what they do.
        self.get = table.get  # type: ignore[method-assign]
        self.put = table.put  # type: ignore[method-assign]

    @property
    def name(self) -> str:
        """What it was registered as."""
        return self._name

    @property
    def type(self) -> pa.DataType:
        """What a value is in Arrow; binary where a serializer makes the bytes."""
        return self._value.arrow

    # --- One key.

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or ``default``.

        Returns:
            A Python object of the type's; a dict, or an object of the class, for a record.

        Raises:
            SchemaError, KeyGroupError, ClosedError, BusyError, StorageError
        """
        return self._table.get(key, default)

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key; None clears it.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError, StorageError: nothing was written.
        """
        self._table.put(key, value)

    def clear(self, key: Any) -> None:
        """Removes the value of a key, if there is one. Raises as ``put``."""
        self._table.clear(key)

    def __contains__(self, key: Any) -> bool:
        """Whether a key has a value."""
        return self._table.contains(key)

    def __getitem__(self, key: Any) -> Any:
        """The value of a key; KeyError where there is none."""
        value = self._table.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> NoReturn:
        """UsageError: a state is scanned."""
        raise not_iterable(self._name)

    # --- Batches.

    def get_many(self, keys: Any, *, columns: Sequence[str] | str | None = None) -> Any:
        """The values of a batch of keys.

        Args:
            keys: an Arrow or NumPy array, or a list; for a key of several columns a record batch, table, struct array, dict
                or tuple of columns, or a list of tuples.
            columns: names of a record's columns, or one name, to be read in this order; the others are not decoded.

        Returns:
            An Arrow array of the state's type, or a struct array of the columns asked for, aligned with the keys, null where
            there is no value; a list of objects where a serializer made them. It owns its memory and outlives the backend.

        Raises:
            SchemaError, KeyGroupError, ClosedError, BusyError, StorageError
            LimitError: if the answer has more than 2^31 - 1 bytes in one column.
        """
        names = [column.name for column in self._value.columns]
        return self._table.get_many(keys, None if columns is None else column_names(columns, "columns", names, self._name))

    def put_many(self, keys: Any, values: Any, *, offset: Any = None) -> None:
        """Sets the values of a batch of keys; a null clears.

        Args:
            keys: as for ``get_many``.
            values: as many as keys: an Arrow or NumPy array, or a list; for records a record batch, table, struct array, dict
                of columns, or a list of dicts or objects.
            offset: where the source stands after this batch: anything that msgpack holds. It is stored in the same write
                (see ``KeyedStateBackend.offset``), which then is not split and takes the memory of the whole batch once more.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError: nothing was written.
            StorageError: without an offset, pieces of ``write_batch_bytes`` may have been written, in order.
        """
        self._table.put_many(keys, values, encode_offset(offset))

    def clear_many(self, keys: Any, *, offset: Any = None) -> None:
        """Removes the values of a batch of keys. ``offset`` and errors as for ``put_many``."""
        self._table.clear_many(keys, encode_offset(offset))

    def contains_many(self, keys: Any) -> pa.Array:
        """Which of the keys have a value: a boolean array, aligned with them. Raises as ``get_many``."""
        return self._table.contains_many(keys)

    def bundle(self, keys: Any, *, offset: Any = None) -> Bundle:
        """A batch's rows as a plain dict, to work on at a dict's speed.

        ::

            with state.bundle(batch["user"]) as rows:
                for user in users:
                    rows[user] = (rows[user] or 0) + 1

        Args:
            keys: as for ``get_many``; the dict has each of them once, in the order in which they first appear.
            offset: stored in the same write; see ``put_many``.

        Returns:
            A context manager. When its block ends without an exception, what changed is written, and only that.

        Raises:
            KeyError: at the end of the block, if the dict has other keys; nothing was written.
        """
        return Bundle(self._table, keys, encode_offset(offset))

    # --- All keys.

    def scan(self, *, columns: Sequence[str] | str | None = None, batch_rows: int = 65536) -> Scan:
        """All keys and values, as record batches of up to ``batch_rows`` rows, as of now.

        Args:
            columns: the names of those that are given, of the key and the value, in this order; the others are not decoded.

        Raises:
            UsageError: a batch is open.
            SchemaError: there is no such column; names those that there are.
            ConfigError: ``batch_rows``.
            ClosedError, BusyError, StorageError
        """
        return Scan(self._table, batch_rows, ScanColumns(self._key, self._value.record_arrow, columns=columns))

    def scan_keys(self, *, batch_rows: int = 65536) -> Scan:
        """All keys that have a value. Raises as ``scan``."""
        return Scan(self._table, batch_rows, ScanColumns(self._key, None))

    def __repr__(self) -> str:
        return f"ValueState({self._name!r}, {self._value})"
