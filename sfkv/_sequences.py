"""Python sequences as Arrow arrays of a wanted type, without losing anything on the way.

pyarrow's own conversion takes 1.5 for 1, b"a" for "a", a moment with a zone for one without, and drops what a unit does not
have. So plain values are read in the type that they have, and that is cast; nested ones are taken apart first.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


class Misfit(Exception):
    """A value that does not fit: in which row, and where in it, as ".field.item"; ``text`` says more, if there is more."""

    def __init__(self, row: int, path: str = "", text: str | None = None) -> None:
        super().__init__(row, path, text)
        self.row = row
        self.path = path
        self.text = text


def from_values(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """An array that can be read as ``wanted``, of which each element is one of ``values`` or null for None.

    Its fields and items may all be null: the core refuses those that the schema does not have, with their row.

    Raises:
        Misfit: the first row that is no value of the type.
    """
    types = pa.types
    if types.is_struct(wanted):
        return _structs(values, wanted)
    if types.is_map(wanted):
        return _maps(values, wanted)
    if types.is_list(wanted) or types.is_large_list(wanted) or types.is_fixed_size_list(wanted):
        return _lists(values, wanted)
    try:
        return _plain(values, wanted)
    except _ERRORS as error:
        for row, value in enumerate(values):
            try:
                _plain([value], wanted)
            except _ERRORS:
                raise Misfit(row) from error
        raise Misfit(0, text=f"and those behind it are of different types, and the column holds {wanted}") from error


def _plain(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """Values that hold no others. An OverflowError or ValueError where something would be lost."""
    if wanted == pa.uint64() and all(value is None or type(value) is int for value in values):
        return pa.array(values, wanted)  # pyarrow takes whole numbers for int64
    if pa.types.is_decimal(wanted) and all(value is None or type(value) in (int, decimal.Decimal) for value in values):
        return pa.array(values, wanted)  # pyarrow takes no decimal for one of a negative scale, but refuses what does not fit
    array = pa.array(values)
    _check_elements(values, array.type, wanted)
    if array.type == wanted:
        return array
    if not _are_alike(array.type, wanted):
        raise TypeError(f"{array.type} is no {wanted}")
    converted = array.cast(wanted)
    if pa.types.is_floating(array.type):
        lost = np.isfinite(array.to_numpy(zero_copy_only=False)) & np.isinf(converted.to_numpy(zero_copy_only=False))
        if lost.any():
            raise OverflowError(f"too large for {wanted}")
    return converted


def _check_elements(values: Sequence[Any], inferred: pa.DataType, wanted: pa.DataType) -> None:
    """Finds what pyarrow takes in silence: text among bytes, times with a zone among those without, lost nanoseconds."""
    if pa.types.is_binary(inferred) and any(isinstance(value, str) for value in values):
        raise TypeError("text among bytes")
    if pa.types.is_time(inferred) and any(getattr(value, "tzinfo", None) is not None for value in values):
        raise TypeError("a time of day with a zone")
    if not pa.types.is_timestamp(inferred):
        return
    has_zone = getattr(wanted, "tz", None) is not None
    for row, value in enumerate(values):
        if isinstance(value, dt.datetime) and (value.tzinfo is not None) != has_zone:
            raise TypeError("a zone is there, or is not")
        if getattr(value, "nanosecond", 0):
            raise Misfit(row, text="has nanoseconds, which a list loses: pass a Series or a NumPy array")


def _are_alike(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Python's values of the type ``given`` may be ``wanted``."""
    types = pa.types
    if types.is_null(given):
        return True
    if types.is_integer(given):
        return bool(types.is_integer(wanted) or types.is_floating(wanted) or types.is_decimal(wanted))
    if types.is_binary(given):
        return _is_binary(wanted)
    tests: list[Callable[[pa.DataType], bool]] = [
        types.is_floating,
        types.is_decimal,
        types.is_date,
        types.is_time,
        types.is_duration,
        types.is_timestamp,
        _is_text,
    ]
    return any(test(given) and test(wanted) for test in tests)


def _is_text(arrow: pa.DataType) -> bool:
    return arrow in (pa.utf8(), pa.large_utf8(), pa.string_view())


def _is_binary(arrow: pa.DataType) -> bool:
    is_fixed = pa.types.is_fixed_size_binary(arrow) and not pa.types.is_decimal(arrow)
    return is_fixed or arrow in (pa.binary(), pa.large_binary(), pa.binary_view())


# --- Values that hold others.


def _absent(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _structs(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """Structs from dicts, or from objects with the fields as attributes."""
    cells: list[list[Any]] = [[] for _ in wanted]
    names = [field.name for field in wanted]
    for row, value in enumerate(values):
        for column, cell in zip(cells, _cells_of(value, names, row), strict=True):
            column.append(cell)
    fields = []
    for field, column in zip(wanted, cells, strict=True):
        try:
            fields.append(from_values(column, field.type))
        except Misfit as misfit:
            raise Misfit(misfit.row, f".{field.name}{misfit.path}", misfit.text) from misfit.__cause__
    if not len(values):
        return pa.array([], wanted)
    made = [pa.field(field.name, column.type) for field, column in zip(wanted, fields, strict=True)]
    return pa.StructArray.from_arrays(fields, fields=made, mask=_absent(values))


def _cells_of(value: Any, names: list[str], row: int) -> Sequence[Any]:
    """The fields of a dict, a tuple, or an object that has them as attributes."""
    if value is None:
        return [None] * len(names)
    if isinstance(value, Mapping):
        if value.keys() <= set(names):
            return [value.get(name) for name in names]
    elif isinstance(value, tuple):
        if len(value) == len(names):
            return value
    elif all(hasattr(value, name) for name in names):
        return [getattr(value, name) for name in names]
    raise Misfit(row)


def _items(values: Sequence[Any], item: pa.Field, take: Callable[[Any], list[Any]]) -> tuple[pa.Array, list[int]]:
    """The items of all values, one after the other, and where each value's begin."""
    items: list[Any] = []
    begins = [0]
    for row, value in enumerate(values):
        if value is not None:
            try:
                items += take(value)
            except _ERRORS as error:
                raise Misfit(row) from error
        begins.append(len(items))
    try:
        return from_values(items, item.type), begins
    except Misfit as misfit:
        row = int(np.searchsorted(begins, misfit.row, side="right")) - 1
        raise Misfit(row, f".{item.name}{misfit.path}", misfit.text) from misfit.__cause__


def _as_items(value: Any) -> list[Any]:
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)):
        raise TypeError(f"{type(value).__name__} is no list")
    if not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
        raise TypeError(f"{type(value).__name__} is no sequence")
    return value.to_pylist() if isinstance(value, (pa.Array, pa.ChunkedArray)) else list(value)


def _lists(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_list(wanted):
        return _fixed_lists(values, wanted)
    items, begins = _items(values, wanted.value_field, _as_items)
    make = pa.LargeListArray if pa.types.is_large_list(wanted) else pa.ListArray
    offsets = pa.array(begins, pa.int64() if make is pa.LargeListArray else pa.int32())
    return make.from_arrays(offsets, items, mask=_absent(values) if len(values) else None)


def _fixed_lists(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    size = wanted.list_size

    def take(value: Any) -> list[Any]:
        items = _as_items(value)
        if len(items) != size:
            raise ValueError(f"{len(items)} items")
        return items

    # A null has items too, which nobody reads.
    filled = [[None] * size if value is None else value for value in values]
    items, _ = _items(filled, wanted.value_field, take)
    return pa.FixedSizeListArray.from_arrays(items, size, mask=_absent(values))


def _maps(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """Maps from mappings, or from sequences of pairs."""
    parts = [None if value is None else _pairs(value, row) for row, value in enumerate(values)]
    keys, begins = _items(parts, wanted.key_field, lambda pairs: [key for key, _ in pairs])
    items, _ = _items(parts, wanted.item_field, lambda pairs: [item for _, item in pairs])
    offsets = pa.array(begins, pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, items, mask=_absent(values) if len(values) else None)


def _pairs(value: Any, row: int) -> list[Any]:
    try:
        found = list(value.items()) if isinstance(value, Mapping) else _as_items(value)
    except _ERRORS as error:
        raise Misfit(row) from error
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in found):
        raise Misfit(row)
    if any(key is None for key, _ in found):
        raise Misfit(row, ".key")
    return found
