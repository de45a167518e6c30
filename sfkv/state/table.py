"""Table: rows in the order of a key of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa

from sfkv import _table
from sfkv._errors import SchemaError
from sfkv._offsets import encode_offset
from sfkv._rows import KeyRows
from sfkv._types import KeySchema, ValueSchema
from sfkv.config._options import column_names
from sfkv.state.scan import RowRange, Scan, ScanColumns, not_iterable

_NOTHING = RowRange(key_groups=(0, -1))


class Table:
    """Rows in the order of a key of their own. Made by ``keyed.table(name, key=..., value=..., group_by=...)``.

    The key's columns are independent of the backend's key; those that ``group_by`` names make the key group. Rows lie key group
    by key group, within each in the order of the key's columns: numbers by size, text by code points, null first. A key of
    several columns is a tuple; for many, a record batch, struct array, dict or tuple of columns.

    Absent is None; ``put(key, None)`` deletes. Batches answer by position, and may repeat keys: of several writes to one the
    last counts. Bad input raises before the first byte of a call is written, and names the row.

    Cost:
        Single calls and batches cost what a value state's do. A scan of a range costs what is in the range: what lies before
        it and behind it is not read. The least key of each key group is kept in memory, so that a scan of the first rows
        passes over the key groups that have none of them without asking the engine.
    """

    def __init__(self, name: str, table: _table.Table, key: KeySchema, value: ValueSchema) -> None:
        self._name = name
        self._table = table
        self._key = key
        self._value = value
        # How many leading columns it takes to know the key group.
        self._group_depth = 1 + max(key.group_indices or [len(key.columns) - 1])
        self._prefix_rows: dict[int, KeyRows] = {}
        self._scan_columns: dict[Any, ScanColumns] = {}
        self._column_names = ScanColumns(key, value.record_arrow).schema.names
        self.get = table.get  # type: ignore[method-assign]  # as in ValueState
        self.put = table.put  # type: ignore[method-assign]

    @property
    def name(self) -> str:
        """What it was registered as."""
        return self._name

    @property
    def key_type(self) -> pa.DataType:
        """What a key is in Arrow; a struct where it has several columns."""
        return self._key.arrow

    @property
    def type(self) -> pa.DataType:
        """What a value is in Arrow; binary where a serializer makes the bytes."""
        return self._value.arrow

    # --- One key.

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or ``default``.

        Raises:
            SchemaError, KeyGroupError, ClosedError, BusyError, StorageError
        """
        return self._table.get(key, default)

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key; None deletes it.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError, StorageError: nothing was written.
        """
        self._table.put(key, value)

    def delete(self, key: Any) -> None:
        """Removes the row of a key, if there is one."""
        self._table.clear(key, "delete")

    def __contains__(self, key: Any) -> bool:
        """Whether a key has a row."""
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
        """The values of a batch of keys: as ``ValueState.get_many``. Of several tables in one call: ``keyed.get_many``."""
        names = [column.name for column in self._value.columns]
        return self._table.get_many(keys, None if columns is None else column_names(columns, "columns", names, self._name))

    def put_many(self, keys: Any, values: Any, *, offset: Any = None) -> None:
        """Sets the values of a batch of keys; a null deletes. Arguments, errors and pieces as of ``ValueState.put_many``."""
        self._table.put_many(keys, values, encode_offset(offset))

    def delete_many(self, keys: Any, *, offset: Any = None) -> None:
        """Removes the rows of a batch of keys. ``offset`` as for ``put_many``."""
        self._table.clear_many(keys, encode_offset(offset), "delete_many")

    def contains_many(self, keys: Any) -> pa.Array:
        """Which of the keys have a row: a boolean array, aligned with them. Raises as ``get_many``."""
        return self._table.contains_many(keys)

    # --- Rows in order.

    def scan(self, *, columns: Sequence[str] | str | None = None, batch_rows: int = 65536) -> Scan:
        """All rows, as of now. Arguments as of ``scan_range``."""
        return self._scan(RowRange(), columns, batch_rows)

    def scan_keys(self, *, batch_rows: int = 65536) -> Scan:
        """All keys, as of now. Raises as ``scan``."""
        if "keys" not in self._scan_columns:
            self._scan_columns["keys"] = ScanColumns(self._key, None)
        return Scan(self._table, batch_rows, self._scan_columns["keys"], RowRange())

    def scan_prefix(
        self,
        prefix: Any,
        *,
        columns: Sequence[str] | str | None = None,
        reverse: bool = False,
        batch_rows: int = 65536,
    ) -> Scan:
        """The rows whose leading key columns have these values, as of now.

        Args:
            prefix: the first column's value, or a tuple of the first columns' values.
            columns: as for ``scan_range``, and so are ``reverse`` and ``batch_rows``.

        Returns:
            A Scan, in order.

        Raises:
            As ``scan_range``.

        Cost:
            One key group is visited if the prefix has all columns that make it, else each that the backend owns.
        """
        given = prefix if isinstance(prefix, tuple) else (prefix,)
        rows = self._range(given, given, True, True, reverse=reverse, operation="scan_prefix")
        return self._scan(rows, columns, batch_rows)

    def scan_range(
        self,
        lower: Any = None,
        upper: Any = None,
        *,
        lower_inclusive: bool = True,
        upper_inclusive: bool = False,
        columns: Sequence[str] | str | None = None,
        reverse: bool = False,
        batch_rows: int = 65536,
    ) -> Scan:
        """The rows between two bounds, as of now.

        Bounds are values of the leading key columns, and are compared with as many columns of a row. Each key group that the
        backend owns is visited, one after the other, unless both bounds begin with one key group's columns.

        Args:
            lower: the first column's value, or a tuple of the first columns' values; None for no bound. For null in a column
                that may be null, a tuple such as ``(None,)``.
            upper: likewise.
            lower_inclusive: whether rows that begin with ``lower`` are among them.
            upper_inclusive: whether rows that begin with ``upper`` are among them.
            columns: names of the columns that are given, of the key and the value, in this order; the others are not decoded.
                They are called as ``scan().schema`` calls them. None for all.
            reverse: from the last row of the last key group to the first of the first.
            batch_rows: the most rows of a record batch, from 1 to 16,777,216.

        Returns:
            A Scan: rows come key group by key group, in the order of the key within each. It may be left at any time: no more
            is read than the batches that were taken.

        Raises:
            SchemaError: a bound does not fit the key, or there is no such column; names those that there are.
            KeyGroupError: both bounds begin with one key group's columns, and the backend does not own it.
            ConfigError: ``batch_rows``.
            UsageError: a batch is open.
            ClosedError, BusyError, StorageError

        Cost:
            A seek for each key group that may have such rows, and then the rows. Without ``lower``, key groups whose least row
            is not below ``upper`` are passed over in memory: a watermark that fires nothing costs next to nothing. The first
            scan after opening has to look for these least rows.
        """
        rows = self._range(lower, upper, lower_inclusive, upper_inclusive, reverse=reverse, operation="scan_range")
        return self._scan(rows, columns, batch_rows)

    def delete_range(
        self,
        lower: Any = None,
        upper: Any = None,
        *,
        lower_inclusive: bool = True,
        upper_inclusive: bool = False,
        offset: Any = None,
    ) -> None:
        """Removes the rows between two bounds; without bounds, all.

        For what is done rarely, such as forgetting a day. What was just read is better deleted by its keys: ``delete_many``.

        Args:
            lower, upper, lower_inclusive, upper_inclusive: as for ``scan_range``.
            offset: as for ``put_many``: then all is written at once. Without one, a crash may leave some of the rows.

        Raises:
            As ``scan_range``; inside a batch it works, row by row.

        Cost:
            Reads up to 1,000 rows of each key group, and deletes them one by one. A key group with more gets a range tombstone,
            which costs all later reads until it is compacted away; for each 32 of them the memtable is flushed.
        """
        encoded = encode_offset(offset)
        rows = self._range(lower, upper, lower_inclusive, upper_inclusive, reverse=False, operation="delete_range")
        self._table.delete_range(rows, encoded)

    def _scan(self, rows: RowRange, columns: Sequence[str] | str | None, batch_rows: int) -> Scan:
        chosen = None if columns is None else tuple(column_names(columns, "columns", self._column_names, self._name))
        scanned = self._scan_columns.get((chosen,))
        if scanned is None:
            scanned = ScanColumns(self._key, self._value.record_arrow, columns=chosen)
            if len(self._scan_columns) < 100:
                self._scan_columns[chosen,] = scanned
        return Scan(self._table, batch_rows, scanned, rows)

    def _range(
        self, lower: Any, upper: Any, lower_inclusive: bool, upper_inclusive: bool, *, reverse: bool, operation: str
    ) -> RowRange:
        """The rows between two bounds, which are empty bytes where there are none."""
        lows = None if lower is None else self._bound(lower)
        highs = None if upper is None else self._bound(upper)
        first = last = b""
        if lows is not None:
            first = self._encode(lows, operation)
            if not lower_inclusive:
                first = _behind(first)
                if not first:
                    return _NOTHING
        if highs is not None:
            last = self._encode(highs, operation)
            if upper_inclusive:
                last = _behind(last)
        if last and first >= last:
            return _NOTHING
        key_groups = None
        depth = self._group_depth
        if lows is not None and highs is not None and min(len(lows), len(highs)) >= depth:
            row = self._encode(lows[:depth], operation)
            if row == self._encode(highs[:depth], operation):
                key_groups = (self._table.group_of_prefix(row, operation),) * 2
        return RowRange(first, last, key_groups, reverse)

    def _bound(self, bound: Any) -> tuple[Any, ...]:
        values = bound if isinstance(bound, tuple) else (bound,)
        if not 1 <= len(values) <= len(self._key.columns):
            names = ", ".join(column.name for column in self._key.columns)
            raise SchemaError(
                f"{bound!r} has {len(values)} values: give one for each of the first columns of {names} [state {self._name!r}]",
                state=self._name,
            )
        return values

    def _encode(self, values: tuple[Any, ...], operation: str) -> bytes:
        """The beginning that rows with these values have."""
        rows = self._prefix_rows.get(len(values))
        if rows is None:
            leading = KeySchema(self._key.columns[: len(values)], is_record=True)
            rows = self._prefix_rows[len(values)] = KeyRows(leading, self._name)
        return self._table.encode_prefix(rows, values, operation)

    def __repr__(self) -> str:
        return f"Table({self._name!r}, {self._key}, {self._value})"


def _behind(row: bytes) -> bytes:
    """The least bytes that are greater than all that begin with these; empty if there are none."""
    stem = row.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b""
