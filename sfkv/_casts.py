"""Arrow arrays as arrays of another type, without losing anything on the way.

pyarrow's cast is asked only about what holds nothing else: of nested arrays that are sliced, or have their fields in another
order, it loses items. They are taken apart here, and put together again; which also tells where something does not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfkv._cells import can_read
from sfkv._sequences import Misfit

_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The array as one that can be read as ``wanted``. What lies under nulls is not looked at.

    Raises:
        Misfit: the first row that does not fit.
    """
    types = pa.types
    if array.type == wanted or can_read(array.type, wanted):
        return array
    if types.is_run_end_encoded(array.type):
        return converted(pc.run_end_decode(array), wanted)
    if types.is_dictionary(array.type):
        return converted(array.dictionary_decode(), wanted)
    if types.is_struct(array.type):
        return _structs(array, wanted)
    if types.is_map(array.type):
        return _maps(array, wanted)
    return _lists(array, wanted) if types.is_nested(array.type) else _cells(array, wanted)


def _cells(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    try:
        return _cast(array, wanted)
    except _ERRORS as error:
        for row in range(len(array)):
            try:
                _cast(array.slice(row, 1), wanted)
            except _ERRORS as reason:
                raise Misfit(row, text=str(reason)) from error
        raise Misfit(0, text=str(error)) from error


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_integer(array.type) and pa.types.is_decimal(wanted):
        # Of a whole number pyarrow looks at what it might need, and only of a decimal at what it does.
        array = array.cast(pa.decimal256(76, min(max(wanted.scale, 0), 56)))
    made = array.cast(wanted)
    if pa.types.is_floating(array.type) and pa.types.is_floating(wanted):
        # A double is rounded to a float, as in every program, but not to infinity.
        lost = pc.and_(pc.is_finite(array.cast(pa.float64())), pc.is_inf(made.cast(pa.float64())))
        if pc.any(lost).as_py():
            raise OverflowError("the number is too large")
    return made


def _structs(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    parts = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    columns = [_within(f".{field.name}", parts[field.name], field.type) for field in wanted]
    fields = [pa.field(field.name, column.type) for field, column in zip(wanted, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=_absent(array))


def _within(path: str, part: pa.Array, wanted: pa.DataType, rows: _Rows | None = None) -> pa.Array:
    """A part of an array; where it does not fit, that is said of the whole."""
    try:
        return converted(part, wanted)
    except Misfit as misfit:
        row = misfit.row if rows is None else rows.of_item(misfit.row)
        raise Misfit(row, path + misfit.path, misfit.text) from misfit.__cause__


def _absent(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


class _Rows:
    """Where the lists of an array begin and end among its items, of which those of null lists are left out."""

    def __init__(self, array: pa.Array) -> None:
        self._valid = array.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_fixed_size_list(array.type):
            self._bounds = (np.arange(len(array) + 1) + array.offset) * array.type.list_size
        else:
            self._bounds = array.offsets.to_numpy().astype(np.int64)
        self.lengths = np.where(self._valid, np.diff(self._bounds), 0)
        self.ends = np.concatenate([[0], np.cumsum(self.lengths)])

    def of_item(self, item: int) -> int:
        """The row that an item belongs to."""
        return int(np.searchsorted(self.ends, item, side="right")) - 1

    def pick(self, items: pa.Array) -> pa.Array:
        """The items of all lists that are not null, of an array's own."""
        begin, end = (int(self._bounds[0]), int(self._bounds[-1])) if len(self._valid) else (0, 0)
        if self.ends[-1] == end - begin:
            return items.slice(begin, end - begin)
        return _concat([items.slice(self._bounds[i], self.lengths[i]) for i in np.flatnonzero(self.lengths)], items)

    def pad(self, items: pa.Array, size: int) -> pa.Array:
        """So many items for each row: for null lists, which have none, nulls."""
        if self._valid.all():
            return items
        nothing = pa.nulls(size, items.type)
        rows = range(len(self._valid))
        return _concat([items.slice(self.ends[i], size) if self._valid[i] else nothing for i in rows], items)

    def offsets(self, arrow: pa.DataType) -> pa.Array:
        return pa.array(self.ends).cast(arrow)

    def misfit(self, size: int) -> int | None:
        """The first list that has another length."""
        wrong = np.flatnonzero(self._valid & (self.lengths != size))
        return int(wrong[0]) if len(wrong) else None


def _concat(parts: list[pa.Array], like: pa.Array) -> pa.Array:
    return pa.concat_arrays(parts) if parts else like.slice(0, 0)


def _lists(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    rows = _Rows(array)
    field = wanted.value_field
    items = _within(f".{field.name}", rows.pick(array.values), field.type, rows)
    if not pa.types.is_fixed_size_list(wanted):
        large = pa.types.is_large_list(wanted)
        make: Any = pa.LargeListArray if large else pa.ListArray
        return make.from_arrays(rows.offsets(pa.int64() if large else pa.int32()), items, mask=_absent(array))
    row = rows.misfit(wanted.list_size)
    if row is not None:
        raise Misfit(row, text=f"the list has {rows.lengths[row]} items")
    return pa.FixedSizeListArray.from_arrays(rows.pad(items, wanted.list_size), wanted.list_size, mask=_absent(array))


def _maps(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    rows = _Rows(array)
    keys = _within(".key", rows.pick(array.keys), wanted.key_type, rows)
    items = _within(".value", rows.pick(array.items), wanted.item_type, rows)
    return pa.MapArray.from_arrays(rows.offsets(pa.int32()), keys, items, mask=_absent(array))
