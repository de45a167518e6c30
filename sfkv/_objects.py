"""Arrow's values as Python's objects, without losing anything on the way.

pyarrow drops the nanoseconds of a time of day, and makes pandas' objects of moments and durations in nanoseconds where pandas
is installed. Here they are Python's own, everywhere, or an error.
"""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa

from sfkv._casts import converted
from sfkv._errors import SchemaError
from sfkv._sequences import Misfit


def only_object(array: pa.Array) -> Any:
    """The Python object of an array of one.

    Raises:
        SchemaError: Python has none that holds all of it.
    """
    try:
        return converted(array, _in_microseconds(array.type))[0].as_py()
    except Misfit as misfit:
        raise SchemaError(f"Python has no object for it: read it by get_many ({misfit.text})", code="no_object") from misfit
    except (ValueError, ArithmeticError) as error:  # decimal's errors are of the latter
        raise SchemaError(f"Python has no object for it: read it by get_many ({error})", code="no_object") from error


@functools.lru_cache(maxsize=1024)
def _in_microseconds(arrow: pa.DataType) -> pa.DataType:
    """The type with microseconds where it has nanoseconds, however deep."""
    types = pa.types

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(_in_microseconds(field.type))

    if types.is_struct(arrow):
        return pa.struct([changed(field) for field in arrow])
    if types.is_map(arrow):
        return pa.map_(changed(arrow.key_field), changed(arrow.item_field), keys_sorted=arrow.keys_sorted)
    if types.is_fixed_size_list(arrow):
        return pa.list_(changed(arrow.value_field), arrow.list_size)
    if types.is_list(arrow) or types.is_large_list(arrow):
        return (pa.list_ if types.is_list(arrow) else pa.large_list)(changed(arrow.value_field))
    if not types.is_temporal(arrow) or getattr(arrow, "unit", None) != "ns":
        return arrow
    if types.is_timestamp(arrow):
        return pa.timestamp("us", tz=arrow.tz)
    return pa.time64("us") if types.is_time(arrow) else pa.duration("us")
