"""Passes over a whole state."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pyarrow as pa

from sfkv import _core
from sfkv._types import KeySchema, ValueSchema


class Scan:
    """An iterator of record batches over all rows of a state, as they were when it started.

    The columns are the key's (``key`` for a plain one), then ``value``, or the value's fields; a field that is called like a
    key column gets ``value_`` before its name. Rows come key group by key group, sorted by key within each. Values of a
    serializer come as its bytes.

    Any Arrow consumer reads it as a stream: ``polars.from_arrow(scan)``, ``duckdb.from_arrow(scan.to_arrow())``.

    Lifetime:
        It holds files of the store until it ends: by its last batch, by ``close()``, as a context manager, or with the
        backend. Writes made meanwhile are not seen.
    """

    def __init__(self, table: _core.Table, key: KeySchema, value: ValueSchema, batch_rows: int, with_values: bool) -> None:
        columns = list(key.record_arrow)
        taken = {field.name for field in columns}
        if with_values:
            columns += [
                field.with_name(f"value_{field.name}") if field.name in taken else field for field in value.record_arrow
            ]
        self._schema = pa.schema(columns)
        self._scan: _core.Scan | None = table.scan(batch_rows, with_values)

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
        keys, values = batch
        columns = keys.flatten() + ([] if values is None else values.flatten())
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
