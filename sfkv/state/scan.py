"""Passes over a whole state."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pyarrow as pa

from sfkv import _scan, _table
from sfkv._errors import ConfigError
from sfkv._types import KeySchema


class Scan:
    """An iterator of record batches over all rows of a state, as they were when it started.

    The columns are the key's (``key`` for a plain one), for maps the user key's (``user_key``), then ``value``, or the value's
    fields; a column that is called like one before it gets ``user_`` or ``value_`` before its name. Rows come key group by
    key group, sorted by key within each. Values of a serializer come as its bytes.

    Any Arrow consumer reads it as a stream: ``polars.DataFrame(scan)``, ``duckdb.from_arrow(scan.to_arrow())``.

    Lifetime:
        It holds files of the store until it ends: by its last batch, by ``close()``, as a context manager, or with the
        backend. Writes made meanwhile are not seen.
    """

    def __init__(
        self,
        table: _table.Table,
        batch_rows: int,
        *,
        key: KeySchema,
        value: pa.DataType | None,
        user_key: KeySchema | None = None,
    ) -> None:
        """``value``: a struct of what the values are; None to leave them out."""
        check_batch_rows(batch_rows)
        fields = list(key.record_arrow)
        for prefix, more in (("user_", None if user_key is None else user_key.record_arrow), ("value_", value)):
            taken = {field.name for field in fields}
            fields += [field.with_name(prefix + field.name) if field.name in taken else field for field in more or []]
        self._schema = pa.schema(fields)
        self._scan: _scan.Scan | None = _scan.Scan(table, batch_rows, value is not None)

    @property
    def schema(self) -> pa.Schema:
        """What the record batches look like."""
        return self._schema

    def __iter__(self) -> Scan:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._scan is None:
            raise StopIteration
        batch = self._scan.next_batch()
        if batch is None:
            self.close()
            raise StopIteration
        columns = [column for part in batch if part is not None for column in part.flatten()]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def to_arrow(self) -> pa.Table:
        """All rows that are left, as one table."""
        return pa.Table.from_batches(self, schema=self._schema)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.RecordBatchReader.from_batches(self._schema, self).__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Ends the pass. Calling it again does nothing."""
        if self._scan is not None:
            self._scan.close()
            self._scan = None

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def check_batch_rows(batch_rows: int) -> None:
    if not isinstance(batch_rows, int) or isinstance(batch_rows, bool) or not 1 <= batch_rows <= 1 << 24:
        raise ConfigError(f"batch_rows is {batch_rows!r}: use a whole number from 1 to {1 << 24}")
