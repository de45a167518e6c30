"""Folds of any values that they take: the rows are FORMAT.md's, and results are what slow Python makes of the values."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sfkv
from sfkv._folds import BUILT_INS
from sfkv._types import ValueSchema
from tests.format import decoder, folds
from tests.format import strategies as sts
from tests.format.arrays import plain
from tests.format.running import draw_chunked, examples, run
from tests.format.test_states_against_the_format import afresh, opened

NUMBERS = {
    "sum": 1,
    "min": 2,
    "max": 3,
    "count": 4,
    "mean": 5,
    "variance": 6,
    "sample_variance": 7,
    "first": 8,
    "count_distinct": 9,
}
BY_WIDTH = {1: 1, 2: 2, 4: 3, 8: 4}
FLOATS = {2: ("<e", 9), 4: ("<f", 10), 8: ("<d", 11)}


def cell_type(arrow: pa.DataType) -> int:
    """The type of a min or max, by the width of a cell and its meaning."""
    types = pa.types
    if types.is_decimal(arrow):
        return folds.DECIMAL128 if types.is_decimal128(arrow) else folds.DECIMAL256
    if types.is_floating(arrow):
        return FLOATS[arrow.bit_width // 8][1]
    if types.is_boolean(arrow):
        return 5
    if types.is_unsigned_integer(arrow):
        return BY_WIDTH[arrow.bit_width // 8] + 4
    if types.is_integer(arrow) or types.is_temporal(arrow):
        return BY_WIDTH[arrow.bit_width // 8]
    return folds.BYTES


def sum_type(arrow: pa.DataType) -> int:
    type = cell_type(arrow)
    return type if pa.types.is_decimal(arrow) else folds.FLOAT64 if pa.types.is_floating(arrow) else folds.WHOLE


def number_of(arrow: pa.DataType, cell: bytes) -> Any:
    """What a cell counts as: a whole number, unscaled where it is a decimal; a float."""
    if pa.types.is_floating(arrow):
        return struct.unpack(FLOATS[len(cell)][0], cell)[0]
    unsigned = pa.types.is_unsigned_integer(arrow) or pa.types.is_boolean(arrow)
    return int.from_bytes(cell, "little", signed=not unsigned)


def operand(name: str, arrow: pa.DataType, row: bytes) -> bytes:
    """The fold row of one value, of which the value's row is given."""
    fold = NUMBERS[name]
    if name == "count":
        return folds.head(fold, folds.ANY) + struct.pack("<Q", 1)
    if name == "first":
        return folds.head(fold, folds.ANY) + row
    if name in ("min", "max"):
        return folds.head(fold, cell_type(arrow)) + row
    if name == "count_distinct":
        if pa.types.is_floating(arrow):
            number = number_of(arrow, row)
            quiet = {2: b"\0\x7e", 4: b"\0\0\xc0\x7f", 8: b"\0" * 6 + b"\xf8\x7f"}[len(row)]
            row = quiet if number != number else bytes(len(row)) if number == 0 else row
        return folds.head(fold, folds.BYTES) + folds.write_distinct([row])
    number = number_of(arrow, row)
    if "variance" in name:
        return folds.head(fold, folds.FLOAT64) + struct.pack("<Qdd", 1, number, 0.0)
    count = struct.pack("<Q", 1) if name == "mean" else b""
    type = sum_type(arrow)
    if type == folds.FLOAT64:
        return folds.head(fold, type) + struct.pack("<dd", number, 0.0) + count
    return folds.head(fold, type) + number.to_bytes(folds._SUM_BYTES[type], "little", signed=True) + count


def expected(name: str, arrow: pa.DataType, values: list[Any], rows: list[bytes]) -> Any:
    """The result as a plain value; None where it is not looked at."""
    if name == "count":
        return len(values)
    if name in ("first", "last"):
        return values[0 if name == "first" else -1]
    if name == "collect":
        return values
    if name == "count_distinct":
        return len({operand(name, arrow, row) for row in rows})
    if pa.types.is_floating(arrow) or "variance" in name:
        return None  # in tests/unit/test_folds.py and tests/state
    if name in ("min", "max"):
        return (min if name == "min" else max)(
            zip(map(folds.order, [cell_type(arrow)] * len(rows), rows), values, strict=True), key=lambda pair: pair[0]
        )[1]
    total = sum(number_of(arrow, row) for row in rows)
    if name == "sum":
        return total
    if pa.types.is_decimal(arrow) or pa.types.is_duration(arrow):
        gained = min(6, 76 - arrow.precision) if pa.types.is_decimal(arrow) else 0
        exact = Fraction(total * 10**gained, len(rows))
        rounded = int(abs(exact) + Fraction(1, 2))
        return rounded if exact >= 0 else -rounded
    return None


def fits(name: str, state: Any, value: Any) -> bool:
    """Whether a sum is within its type."""
    if name != "sum" or value is None:
        return True
    arrow = state.type
    if pa.types.is_decimal(arrow):
        return abs(value) < 10**arrow.precision
    bits = arrow.bit_width
    return 0 <= value < 2**bits if pa.types.is_unsigned_integer(arrow) else -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


@examples(quick=150)
def test_folds_of_any_values_are_stored_and_read_as_the_format_says(tmp_path, examples):
    def check(data):
        name = data.draw(st.sampled_from(sorted(BUILT_INS)))
        arrow = data.draw(sts.scalar_types)
        values = data.draw(st.lists(sts.values(arrow, nullable=False), min_size=1, max_size=8))
        try:
            state = afresh(keyed).aggregating_state("state", arrow, name)
        except sfkv.SchemaError:
            return
        schema = ValueSchema.of(arrow).describe()
        rows = [decoder.encode_value_row(schema, [value]) for value in values]
        split = data.draw(st.integers(0, len(values)))
        for part in (values[:split], values[split:]):
            if part:
                state.add_many(pa.array([7] * len(part), pa.int32()), draw_chunked(data, data.draw(sts.arrays(part, arrow))))
        (stored,) = state._table.store.read_range(b"", b"\xff\xff").values()
        if name in NUMBERS:
            operands = [operand(name, arrow, row) for row in rows]
            parts = [folds.merge(part) for part in (operands[:split], operands[split:]) if part]
            assert stored == folds.merge(parts) or arrow in (pa.float16(), pa.float32(), pa.float64()) or "variance" in name
        right = expected(name, arrow, values, rows)
        if not fits(name, state, right):
            with pytest.raises(sfkv.SchemaError, match="does not hold"):
                state.get_many(pa.array([7], pa.int32()))
            return
        answer = state.get_many(pa.array([8, 7], pa.int32()))
        answer.validate(full=True)
        assert answer.type == state.type
        assert answer.null_count == 1
        if right is not None:
            assert plain(answer)[1] == right

    with opened(tmp_path / "s") as keyed:
        run(examples, check)
