"""How the tests of the format run Hypothesis: a few examples in the quick run, many in the slow one; and what they compare."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfkv._types import KeySchema

types = pa.types


def examples(quick: int, slow: int = 5000) -> Any:
    return pytest.mark.parametrize(
        "examples", [pytest.param(quick, id="quick"), pytest.param(slow, id="many", marks=pytest.mark.slow)]
    )


def run(examples: int, check: Callable[..., None]) -> None:
    """Checks what is drawn from ``st.data()``, so often."""
    settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))(given(st.data())(check))()


def draw_chunked(data: st.DataObject, array: pa.Array) -> Any:
    """The array, or the same in chunks, of which one may be empty."""
    if data.draw(st.integers(0, 2)):
        return array
    at = data.draw(st.integers(0, len(array)))
    return pa.chunked_array([array.slice(0, at), array.slice(at)], array.type)


def key_schema(schema: pa.Schema | pa.DataType) -> KeySchema:
    return KeySchema.of(schema)


def may_lack_an_object(arrow: pa.DataType) -> bool:
    """Whether Python has no object for some values: moments outside its years, nanoseconds, decimals beyond pyarrow's."""
    if types.is_nested(arrow):
        return any(may_lack_an_object(arrow.field(i).type) for i in range(arrow.num_fields))
    if types.is_decimal(arrow):
        most = 38 * arrow.bit_width // 128
        return arrow.scale > most or arrow.precision - arrow.scale > most
    return types.is_temporal(arrow)


# --- Plain values.


def number_of(bits: int, arrow: pa.DataType) -> float:
    """The float that has these bits."""
    code = {16: ("<H", "<e"), 32: ("<I", "<f"), 64: ("<Q", "<d")}[arrow.bit_width]
    return struct.unpack(code[1], struct.pack(code[0], bits))[0]


def with_one_nan(value: Any, arrow: pa.DataType, *, one_zero: bool = False) -> Any:
    """The plain value with every NaN as one, and with ``one_zero`` every zero: Python, or a key, does not keep their bits."""
    if value is None:
        return None
    if types.is_floating(arrow):
        number = number_of(value, arrow)
        return "NaN" if math.isnan(number) else 0 if one_zero and number == 0 else value
    if types.is_struct(arrow):
        return [with_one_nan(part, field.type) for part, field in zip(value, arrow, strict=True)]
    if types.is_map(arrow):
        return [[with_one_nan(key, arrow.key_type), with_one_nan(item, arrow.item_type)] for key, item in value]
    return [with_one_nan(part, arrow.value_type) for part in value] if types.is_nested(arrow) else value


def order_of(value: Any, arrow: pa.DataType) -> Any:
    """What a key's cell sorts by: null first, NaN last, numbers as numbers, text by code points, bytes as bytes."""
    if value is None:
        return (0,)
    if types.is_floating(arrow):
        number = number_of(value, arrow)
        return (2,) if math.isnan(number) else (1, number)
    return (1, value)


def same(one: Any, other: Any) -> bool:
    """Whether two of Python's objects are equal, where NaN equals NaN."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and same(list(one.values()), list(other.values()))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other
