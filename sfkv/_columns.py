"""Whatever holds a batch, as one Arrow array that the core can read: Arrow, NumPy, pandas, Polars, or a Python sequence.

What has the schema's type in another layout (offsets of 64 bits, views, a dictionary) is left as it is. Conversions that lose
nothing are made (int32 to int64, int to float, another unit of time), all others are refused with the row at which they fail.
Nothing here knows stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfkv._casts import converted
from sfkv._cells import can_read
from sfkv._errors import SchemaError
from sfkv._sequences import Misfit, from_values
from sfkv._stored_types import Column

_CONVERSION_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


class ColumnReader:
    """Reads the keys, or the values, of one state.

    Args:
        columns: of the schema.
        is_record: whether a key or value has several columns, rather than being one plain column's cell.
        role: "key" or "value", for errors.
        state: the state's name, for errors.
    """

    def __init__(self, columns: list[Column], is_record: bool, role: str, state: str | None) -> None:
        self._columns = columns
        self._names = [column.name for column in columns]
        self._is_record = is_record
        self._role = role
        self._state = state

    def read(self, batch: Any) -> pa.Array:
        """The batch as an array: of the one column's type, or a struct array of all columns, in any layout.

        Args:
            batch: one plain column, or several: a record batch, table, struct array, dict or tuple of columns, or a
                sequence of records (tuples for keys; dicts, or objects with the columns as attributes, for values).

        Raises:
            SchemaError: naming state, row and column.
        """
        if not self._is_record:
            return self._read_column(batch, self._columns[0])
        if isinstance(batch, pa.Table):
            batch = batch.combine_chunks()
        if isinstance(batch, (pa.RecordBatch, pa.Table)):
            return self._from_columns({name: batch.column(name) for name in batch.schema.names})
        if isinstance(batch, Mapping):
            return self._from_columns(batch)
        if isinstance(batch, tuple) and self._holds_columns(batch):
            return self._from_columns(dict(zip(self._names, batch, strict=True)))
        if _is_arrow(batch):
            return self._from_structs(self._as_arrow(batch))
        if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
            return self._from_records(batch)
        raise self._error(f"a batch of {self._role}s is expected, and {type(batch).__name__} is none")

    def _error(self, text: str, row: int | None = None, column: Column | None = None, path: str = "") -> SchemaError:
        where = "" if self._state is None else f" [state {self._state!r}]"
        return SchemaError(text + where, state=self._state, row=row, column=None if column is None else column.name + path)

    # --- One column.

    def _read_column(self, batch: Any, column: Column) -> pa.Array:
        if _is_arrow(batch) or (isinstance(batch, np.ndarray) and batch.dtype != object):
            return self._convert(self._as_arrow(batch), column)
        if isinstance(batch, (str, bytes, Mapping)) or not (hasattr(batch, "__len__") and hasattr(batch, "__iter__")):
            raise self._error(
                f"a column of {self._role}s is expected, and {type(batch).__name__} is none: "
                "pass an Arrow or NumPy array, or a list"
            )
        return self._from_sequence(list(batch), column)

    def _as_arrow(self, batch: Any) -> pa.Array:
        try:
            if isinstance(batch, pa.Array):
                return batch
            if isinstance(batch, np.ndarray) and not batch.dtype.isnative:
                batch = batch.astype(batch.dtype.newbyteorder("="))
            if not isinstance(batch, pa.ChunkedArray):
                stream = hasattr(batch, "__arrow_c_stream__") and not hasattr(batch, "__arrow_c_array__")
                batch = pa.chunked_array(batch) if stream else pa.array(batch)
            return batch if isinstance(batch, pa.Array) else batch.combine_chunks()
        except _CONVERSION_ERRORS as error:
            raise self._error(f"a {type(batch).__name__} cannot be read as a column of {self._role}s: {error}") from error

    def _from_sequence(self, values: list[Any], column: Column) -> pa.Array:
        """A Python sequence in the type that its elements have, and then in the column's.

        Not ``pa.array(values, column.type)``, which turns 1.5 into 1 and b"a" into "a", and drops zones and microseconds.
        """
        try:
            return from_values(values, column.type)
        except Misfit as misfit:
            row = misfit.row
            if misfit.text is not None:
                raise self._error(f"row {row} of the {self._role}s {misfit.text}", row, column, misfit.path) from misfit
            raise self._misfit(values, row, column, misfit.path) from misfit.__cause__

    def _misfit(self, values: list[Any], row: int, column: Column, path: str) -> SchemaError:
        value = values[row]
        return self._error(
            f"row {row} of the {self._role}s is {value!r} ({type(value).__name__}), and {column.name!r} holds {column.type}",
            row,
            column,
            path,
        )

    def _convert(self, array: pa.Array, column: Column) -> pa.Array:
        wanted = column.type
        if array.type == wanted or can_read(array.type, wanted):
            return array
        if not _is_convertible(array.type, wanted):
            raise self._error(
                f"the {self._role}s are {array.type}, and {column.name!r} holds {wanted}: convert them first", column=column
            )
        try:
            return converted(array, wanted)
        except Misfit as misfit:
            text = f"row {misfit.row} of the {self._role}s does not fit into {wanted}: {misfit.text}"
            raise self._error(text, misfit.row, column, misfit.path) from misfit.__cause__

    # --- Several columns.

    def _holds_columns(self, batch: tuple[Any, ...]) -> bool:
        """Whether a tuple is one of columns, rather than of rows: rows are tuples or dicts themselves."""
        return len(batch) == len(self._columns) and all(
            _is_arrow(part) or isinstance(part, (np.ndarray, list)) or hasattr(part, "to_numpy") for part in batch
        )

    def _from_columns(self, parts: Mapping[str, Any]) -> pa.Array:
        if set(parts) != set(self._names):
            raise self._error(f"the {self._role}s have the columns {sorted(map(str, parts))}, and the schema has {self._names}")
        return self._assemble([self._read_column(parts[column.name], column) for column in self._columns])

    def _from_structs(self, array: pa.Array) -> pa.Array:
        if not pa.types.is_struct(array.type):
            raise self._error(f"the {self._role}s are {array.type}, and the schema has the columns {self._names}")
        parts = {field.name: part for field, part in zip(array.type, array.flatten(), strict=True)}
        structs = self._from_columns(parts)
        return structs if array.null_count == 0 else self._assemble(structs.flatten(), array.is_null())

    def _from_records(self, records: Sequence[Any]) -> pa.Array:
        cells: list[list[Any]] = [[] for _ in self._columns]
        for row, record in enumerate(records):
            for column_cells, cell in zip(cells, self._cells(record, row), strict=True):
                column_cells.append(cell)
        arrays = [self._from_sequence(values, column) for values, column in zip(cells, self._columns, strict=True)]
        absent = [record is None for record in records]
        return self._assemble(arrays, pa.array(absent) if any(absent) else None)

    def _cells(self, record: Any, row: int) -> Sequence[Any]:
        """The cells of one record, in the columns' order."""
        if record is None:
            return [None] * len(self._columns)
        if isinstance(record, tuple):
            if len(record) == len(self._columns):
                return record
        elif isinstance(record, Mapping):
            if record.keys() <= set(self._names):
                return [record.get(name) for name in self._names]
        elif all(hasattr(record, name) for name in self._names):
            return [getattr(record, name) for name in self._names]
        raise self._error(f"row {row} of the {self._role}s is {record!r}, and the columns are {self._names}", row)

    def _assemble(self, arrays: list[pa.Array], absent: pa.Array | None = None) -> pa.Array:
        lengths = dict(zip(self._names, map(len, arrays), strict=True))
        if len(set(lengths.values())) > 1:
            raise self._error(f"the columns of the {self._role}s differ in length: {lengths}")
        # Nullable here, so that pyarrow takes nulls: the core refuses those that the schema does not have, with their row.
        fields = [pa.field(column.name, array.type) for column, array in zip(self._columns, arrays, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=absent)


def _is_arrow(batch: Any) -> bool:
    return (
        isinstance(batch, (pa.Array, pa.ChunkedArray))
        or hasattr(batch, "__arrow_c_array__")
        or hasattr(batch, "__arrow_c_stream__")
    )


def _is_convertible(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a conversion is worth trying: types of one kind are converted into each other, as far as nothing is lost."""
    types = pa.types
    if types.is_dictionary(given) or types.is_run_end_encoded(given):
        return _is_convertible(given.value_type, wanted)
    if types.is_struct(given) and types.is_struct(wanted):
        return {field.name for field in given} == {field.name for field in wanted} and all(
            _is_convertible(given.field(field.name).type, field.type) for field in wanted
        )
    if types.is_map(given) and types.is_map(wanted):
        return _is_convertible(given.key_type, wanted.key_type) and _is_convertible(given.item_type, wanted.item_type)
    if _is_any_list(given) and _is_any_list(wanted):
        return _is_convertible(given.value_type, wanted.value_type)
    given_kind, wanted_kind = _kind(given), _kind(wanted)
    return given_kind in (wanted_kind, "null") or (given_kind, wanted_kind) in (("integer", "float"), ("integer", "decimal"))


def _is_any_list(arrow: pa.DataType) -> bool:
    """Not views of lists, of which pyarrow's cast loses items."""
    types = pa.types
    return bool(types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow))


def _kind(arrow: pa.DataType) -> str:
    types = pa.types
    if types.is_integer(arrow):
        return "integer"
    if types.is_floating(arrow):
        return "float"
    if types.is_decimal(arrow):
        return "decimal"
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return "text"
    if (
        types.is_binary(arrow)
        or types.is_large_binary(arrow)
        or types.is_binary_view(arrow)
        or types.is_fixed_size_binary(arrow)
    ):
        return "binary"
    if types.is_timestamp(arrow):
        return "timestamp" if arrow.tz is None else "timestamp with zone"
    if types.is_date(arrow):
        return "date"
    if types.is_time(arrow):
        return "time"
    if types.is_duration(arrow):
        return "duration"
    return str(arrow)
