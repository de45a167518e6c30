"""What reducing and aggregating states share: all but what they are for."""

from __future__ import annotations

from typing import Any, NoReturn

import pyarrow as pa

from sfkv import _table
from sfkv._offsets import encode_offset
from sfkv._types import KeySchema
from sfkv.state.folding import Folding
from sfkv.state.scan import Scan, ScanColumns, not_iterable

_ABSENT = object()


class FoldedState:
    """A state that folds what is added to a key."""

    def __init__(self, name: str, table: _table.Table, key: KeySchema, folding: Folding) -> None:
        self._name = name
        self._table = table
        self._key = key
        self._folding = folding
        self._rows = folding.open(table, name)
        # Single calls go straight to the compiled part, as ValueState's do.
        self.get = self._rows.get  # type: ignore[method-assign]
        self.add = self._rows.add  # type: ignore[method-assign]

    @property
    def name(self) -> str:
        """What it was registered as."""
        return self._name

    @property
    def type(self) -> pa.DataType:
        """What a result is in Arrow; binary where a serializer makes the bytes."""
        return self._folding.arrow

    # --- One key.

    def get(self, key: Any, default: Any = None) -> Any:
        """What was folded for a key, or ``default``.

        Raises:
            SchemaError: a sum does not fit the type; or the key does not.
            UsageError: an object's ``result`` raised; names the state and the key.
            KeyGroupError, ClosedError, BusyError, StorageError
        """
        return self._rows.get(key, default)

    def add(self, key: Any, value: Any) -> None:
        """Folds a value into what is stored of a key.

        Raises:
            SchemaError: the key or value does not fit, or is None.
            UsageError: the function or object raised; names the state and the key, with its exception as the cause.
            LimitError, KeyGroupError, ClosedError, BusyError, StorageError: nothing was written.
        """
        self._rows.add(key, value)

    def clear(self, key: Any) -> None:
        """Forgets what was added to a key, if anything was.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError, StorageError: nothing was written.
        """
        self._table.clear(key)

    def __contains__(self, key: Any) -> bool:
        """Whether anything was added to a key."""
        return self._table.contains(key)

    def __getitem__(self, key: Any) -> Any:
        """What was folded for a key; KeyError where nothing was added."""
        result = self._rows.get(key, _ABSENT)
        if result is _ABSENT:
            raise KeyError(key)
        return result

    def __iter__(self) -> NoReturn:
        """UsageError: a state is scanned."""
        raise not_iterable(self._name)

    # --- Batches.

    def get_many(self, keys: Any) -> Any:
        """What was folded for a batch of keys.

        Args:
            keys: as for ``ValueState.get_many``.

        Returns:
            An Arrow array of the state's type, aligned with the keys, null where nothing was added; a list of objects where a
            serializer made them, or an object without ``result=`` did.

        Raises:
            SchemaError: a sum does not fit the type, or a key does not; names the row.
            UsageError: an object's ``result`` raised; names the state, the row and the key.
            LimitError: the answer has more than 2^31 - 1 bytes in one column.
            KeyGroupError, ClosedError, BusyError, StorageError
        """
        return self._rows.get_many(keys)

    def add_many(self, keys: Any, values: Any, *, offset: Any = None) -> None:
        """Folds into each key the value beside it, those of one key in the batch's order.

        Args:
            keys: as for ``get_many``.
            values: as many as keys; none of them null.
            offset: stored in the same write; see ``ValueState.put_many``.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError: nothing was written.
            UsageError: the function or object raised, and nothing was written; names the state, the row and the key.
            StorageError: without an offset, pieces of ``write_batch_bytes`` may have been written, in order.
        """
        self._rows.add_many(keys, values, encode_offset(offset))

    def clear_many(self, keys: Any, *, offset: Any = None) -> None:
        """Forgets what was added to a batch of keys. ``offset`` and errors as for ``add_many``."""
        self._table.clear_many(keys, encode_offset(offset))

    def contains_many(self, keys: Any) -> pa.Array:
        """To which of the keys anything was added: a boolean array, aligned with them. Raises as ``get_many``."""
        return self._table.contains_many(keys)

    # --- All keys.

    def scan(self, *, batch_rows: int = 65536) -> Scan:
        """All keys and what was folded for them, as record batches of up to ``batch_rows`` rows, as of now.

        Results of an object without ``result=`` come as msgpack.

        Raises:
            UsageError: a batch is open; or, from the scan, an object's ``result`` raised.
            SchemaError: from the scan, a sum does not fit the type.
            ConfigError: ``batch_rows``.
            ClosedError, BusyError, StorageError
        """
        convert = self._folding.conversion(self._rows)
        return Scan(self._table, batch_rows, self._folding.scan_columns(self._key), convert=convert)

    def scan_keys(self, *, batch_rows: int = 65536) -> Scan:
        """All keys that anything was added to. Raises as ``scan``."""
        return Scan(self._table, batch_rows, ScanColumns(self._key, None))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self._folding})"
