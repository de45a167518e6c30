"""Passes over a state: which rows, and which columns of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from sfkv import _scan, _table
from sfkv._errors import BusyError, ClosedError, ConfigError, UsageError
from sfkv._types import KeySchema
from sfkv.config._options import chosen_columns, whole_number


@dataclasses.dataclass(frozen=True)
class RowRange:
    """Which rows a pass is over: by default all.

    Attributes:
        lower: a key row, or the beginning of one, from which on; empty for the first.
        upper: the same, up to but without; empty for no end.
        key_groups: the first and the last that are visited; None for all that the backend owns.
        reverse: whether from the last row to the first.
    """

    lower: bytes = b""
    upper: bytes = b""
    key_groups: tuple[int, int] | None = None
    reverse: bool = False


class ScanColumns:
    """Which columns a pass gives, and what they are called.

    Args:
        key: of the state.
        value: a struct of what the values are; None to leave them out.
        user_key: of a map state, whose entries are the rows.
        columns: the names of those that are given, in this order; None for all. A single name is a sequence of one.
        stored: a struct of what is read where the values are made of something else; then all columns are given.

    Raises:
        SchemaError: ``columns`` names none, one twice, or one that there is not.
    """

    def __init__(
        self,
        key: KeySchema,
        value: pa.DataType | None,
        *,
        user_key: KeySchema | None = None,
        columns: Sequence[str] | str | None = None,
        stored: pa.DataType | None = None,
    ) -> None:
        fields = list(key.record_arrow)
        key_count = len(fields)
        for prefix, more in (("user_", None if user_key is None else user_key.record_arrow), ("value_", value)):
            taken = {field.name for field in fields}
            fields += [field.with_name(prefix + field.name) if field.name in taken else field for field in more or []]
        self.key_type = key.record_arrow
        self.value_type = stored or value
        # The numbers of those that are read.
        self.key_columns = list(range(key_count))
        self.value_columns = list(range(0 if self.value_type is None else self.value_type.num_fields))
        # Which of those that are read stands where in the answer; None if all do, where they are.
        self.order: list[int] | None = None
        if columns is not None:
            names = [field.name for field in fields]
            wanted = chosen_columns(columns, "columns", names)
            self.key_columns, self.key_type = _choose(names[:key_count], key.record_arrow, wanted)
            self.value_columns, chosen = _choose(names[key_count:], value or pa.struct([]), wanted)
            self.value_type = chosen if chosen.num_fields else None
            read = [name for name in names if name in wanted]
            self.order = [read.index(name) for name in wanted]
            fields = [fields[names.index(name)] for name in wanted]
        self.schema = pa.schema(fields)


def _choose(names: list[str], struct: pa.StructType, wanted: list[str]) -> tuple[list[int], pa.DataType]:
    """The numbers of the columns that are wanted, and the struct of these."""
    chosen = [i for i, name in enumerate(names) if name in wanted]
    return chosen, pa.struct([struct.field(i) for i in chosen])


class Scan:
    """An iterator of record batches over the rows of a state, or some of them, as they were when it started.

    The columns are the key's (``key`` for a plain one), for maps the user key's (``user_key``), then ``value``, or the value's
    fields; a column that is called like one before it gets ``user_`` or ``value_`` before its name. Rows come key group by
    key group, sorted by key within each. Values of a serializer come as its bytes.

    Any Arrow consumer reads it as a stream: ``polars.DataFrame(scan)``, ``duckdb.from_arrow(scan.to_arrow())``.

    Lifetime:
        It holds files of the store until it ends: by its last batch, by an error, by ``close()``, as a context manager, or with
        the backend. Writes made meanwhile are not seen. What ended by an error raises ClosedError from then on; BusyError is
        none of these.
    """

    def __init__(
        self,
        table: _table.Table,
        batch_rows: int,
        columns: ScanColumns,
        rows: RowRange | None = None,
        *,
        convert: Callable[[pa.StructArray], pa.StructArray] | None = None,
    ) -> None:
        _check_batch_rows(batch_rows)
        self._convert = convert
        self._schema = columns.schema
        self._order = columns.order
        self._failure: str | None = None  # what ended it before its end
        with_values = columns.value_type is not None
        self._scan: _scan.Scan | None = _scan.Scan(table, batch_rows, with_values, None, columns, rows)

    @property
    def schema(self) -> pa.Schema:
        """What the record batches look like."""
        return self._schema

    def __iter__(self) -> Scan:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._failure is not None:
            raise ClosedError(f"the scan ended before all rows were given, by an error: begin another one ({self._failure})")
        if self._scan is None:
            raise StopIteration
        try:
            batch = self._next_batch(self._scan)
        except (BusyError, ClosedError):
            raise  # before anything was read: the next call goes on, or is refused as this one
        except BaseException as error:
            self._failure = f"{type(error).__name__}: {error}"  # rows that were read are lost: what is left is not the rest
            self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    def _next_batch(self, scan: _scan.Scan) -> pa.RecordBatch | None:
        """The next rows; None at the end."""
        batch = scan.next_batch()
        if batch is None:
            return None
        keys, user_keys, values = batch
        if self._convert is not None:
            values = self._convert(values)
        columns = [column for part in (keys, user_keys, values) if part is not None for column in part.flatten()]
        if self._order is not None:
            columns = [columns[i] for i in self._order]
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


def not_iterable(state: str) -> UsageError:
    """What iterating a state is refused with. Without it, Python would ask for the keys 0, 1, 2, ... by ``__getitem__``."""
    return UsageError(
        f"a state is not iterated by itself: use scan_keys() for its keys, scan() for all of it [state {state!r}]",
        operation="iter",
        state=state,
    )


def _check_batch_rows(batch_rows: int) -> None:
    number = whole_number(batch_rows)
    if number is None or not 1 <= number <= 1 << 24:
        raise ConfigError(f"batch_rows is {batch_rows!r}: use a whole number from 1 to {1 << 24}")
