"""The folds that reducing and aggregating states have by name: which values they take, and what their results are.

What each does to bytes is the core's (fold.h); docs/guide/folds.md says it for users.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa

from sfkv import _fold
from sfkv._errors import ConfigError, SchemaError
from sfkv._stored_types import Column
from sfkv._types import ValueSchema, describe_text

_MEAN_DIGITS = 6  # that the mean of decimals has more behind the point


@dataclasses.dataclass(frozen=True)
class BuiltIn:
    """A fold by name.

    Attributes:
        fold: its number in the core; None for those that are other states' rows: ``last`` a value's, ``collect`` a list's.
        takes: in words, which values it is for.
        fits: whether it is for plain values of a type.
        result: what its result is for plain values of a type that fits; None if it is the values' own.
    """

    fold: int | None
    takes: str
    fits: Callable[[pa.DataType], bool]
    result: Callable[[pa.DataType], pa.DataType] | None = None


def _is_number(arrow: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(arrow) or types.is_floating(arrow) or types.is_decimal(arrow))


def _is_summed(arrow: pa.DataType) -> bool:
    return _is_number(arrow) or bool(pa.types.is_duration(arrow) or pa.types.is_boolean(arrow))


def _is_single(arrow: pa.DataType) -> bool:
    return not (pa.types.is_nested(arrow) or pa.types.is_null(arrow))


def _sum_type(arrow: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_decimal(arrow):
        return pa.decimal256(76, arrow.scale) if types.is_decimal256(arrow) else pa.decimal128(38, arrow.scale)
    if types.is_floating(arrow):
        return pa.float64()
    if types.is_duration(arrow):
        return arrow
    return pa.uint64() if types.is_unsigned_integer(arrow) else pa.int64()


def _mean_type(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_duration(arrow):
        return arrow
    if not pa.types.is_decimal(arrow):
        return pa.float64()
    digits = min(_MEAN_DIGITS, 76 - arrow.precision)
    make = pa.decimal128 if arrow.precision + digits <= 38 else pa.decimal256
    return make(arrow.precision + digits, arrow.scale + digits)


def _float64(_: pa.DataType) -> pa.DataType:
    return pa.float64()


def _int64(_: pa.DataType) -> pa.DataType:
    return pa.int64()


def _always(_: pa.DataType) -> bool:
    return True


_NUMBERS = "whole numbers, floats and decimals"
_SUMMED = f"{_NUMBERS}, durations and bool"
_SINGLE = "all types but structs, lists and maps"
_ALL = "all types"

BUILT_INS = {
    "sum": BuiltIn(1, _SUMMED, _is_summed, _sum_type),
    "min": BuiltIn(2, _SINGLE, _is_single),
    "max": BuiltIn(3, _SINGLE, _is_single),
    "count": BuiltIn(4, _ALL, _always, _int64),
    "mean": BuiltIn(5, _SUMMED, _is_summed, _mean_type),
    "variance": BuiltIn(6, _NUMBERS, _is_number, _float64),
    "sample_variance": BuiltIn(7, _NUMBERS, _is_number, _float64),
    "first": BuiltIn(8, _ALL, _always),
    "last": BuiltIn(None, _ALL, _always),
    "count_distinct": BuiltIn(9, _SINGLE, _is_single, _int64),
    "collect": BuiltIn(None, _ALL, _always),
}
# Those whose result is a value like those that are added.
REDUCES = ("sum", "min", "max", "first", "last")


def check_name(name: str, names: Collection[str], what: str) -> None:
    """Refuses a name that is none of ``names``."""
    if name not in names:
        other = "a function" if what == "reduce" else "an object with create, add, merge and result"
        hint = f"; {name!r} is one of aggregating states" if isinstance(name, str) and name in BUILT_INS else ""
        raise ConfigError(f"{what} is {name!r}: use one of {', '.join(names)}, or {other}{hint}", operation="register")


def reduced(name: str, value: ValueSchema) -> ValueSchema:
    """What a built-in fold that reduces gives: a value like those that are added.

    Raises:
        SchemaError: there is no such fold of these values; says of which there are.
    """
    if name == "sum" and value.arrow == pa.bool_():
        raise _refusal(name, value, f"{_NUMBERS}, and durations")
    _check_takes(name, value)
    return value


def aggregated(name: str, value: ValueSchema) -> ValueSchema:
    """What a built-in fold that aggregates gives; sums have the widest type of their kind. Raises as ``reduced``."""
    _check_takes(name, value)
    make = BUILT_INS[name].result
    return value if make is None else ValueSchema([Column("value", make(value.arrow), nullable=False)], is_record=False)


def _check_takes(name: str, value: ValueSchema) -> None:
    built_in = BUILT_INS[name]
    if built_in.fits is _always:
        return
    is_plain = not value.is_record and value.serializer is None
    if not is_plain or not built_in.fits(value.arrow) or not _fold.can_fold(built_in.fold or 0, value.columns[0]):
        raise _refusal(name, value, built_in.takes)


def _refusal(name: str, value: ValueSchema, takes: str) -> SchemaError:
    return SchemaError(f"there is no {name} of {value}: it takes {takes}", operation="register")


def describe_aggregate(table: dict[str, Any]) -> str:
    """The fold of a stored state, as errors show it."""
    if table["aggregate"] is not None:
        return str(table["aggregate"])
    return f"an object over {describe_text(table['accumulator'])}" if "accumulator" in table else "a function"
