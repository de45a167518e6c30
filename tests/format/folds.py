"""Fold rows in slow Python, from FORMAT.md section 4 alone: what they hold, and what becomes of several.

Numbers are plain: whole numbers, unscaled decimals, floats of 64 bits; text and binary are bytes.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence

from tests.format.decoder import Malformed, leb128, take_leb128

SUM, MIN, MAX, COUNT, MEAN, VARIANCE, SAMPLE_VARIANCE, FIRST, DISTINCT = range(1, 10)
ANY, FLOAT64, DECIMAL128, DECIMAL256, BYTES = 0, 11, 12, 13, 14
WHOLE = 4
BROKEN = b"\x80\0\0\0"

_SUM_BYTES = {WHOLE: 16, FLOAT64: 16, DECIMAL128: 24, DECIMAL256: 40}
_CELL_BYTES = {1: 1, 2: 2, 3: 4, 4: 8, 5: 1, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 8, DECIMAL128: 16, DECIMAL256: 32}


def head(fold: int, type: int) -> bytes:
    return bytes([0x80, 0, fold, type])


def accumulator_bytes(fold: int, type: int) -> int | None:
    """The size of an accumulator; None if it has a length of its own. Raises Malformed where there is no such fold."""
    if (fold, type) in {(FIRST, ANY), (DISTINCT, BYTES), (MIN, BYTES), (MAX, BYTES)}:
        return None
    if fold in (SUM, MEAN) and type in _SUM_BYTES:
        return _SUM_BYTES[type] + 8 * (fold == MEAN)
    if fold in (MIN, MAX) and type in _CELL_BYTES:
        return _CELL_BYTES[type]
    if (fold, type) == (COUNT, ANY):
        return 8
    if fold in (VARIANCE, SAMPLE_VARIANCE) and type == FLOAT64:
        return 24
    raise Malformed


def read_distinct(accumulator: bytes) -> list[bytes]:
    values: list[bytes] = []
    while accumulator:
        length, accumulator = take_leb128(accumulator)
        if length > len(accumulator) or (values and values[-1] >= accumulator[:length]):
            raise Malformed
        values.append(accumulator[:length])
        accumulator = accumulator[length:]
    return values


def write_distinct(values: Sequence[bytes]) -> bytes:
    return b"".join(leb128(len(value)) + value for value in sorted(set(values)))


def add_floats(a: bytes, b: bytes) -> bytes:
    (x, lost_x), (y, lost_y) = struct.unpack("<dd", a), struct.unpack("<dd", b)
    total = x + y
    if not math.isfinite(total):
        return struct.pack("<dd", total, lost_x)
    return struct.pack("<dd", total, lost_x + lost_y + ((x - total) + y if abs(x) >= abs(y) else (y - total) + x))


def add_whole(a: bytes, b: bytes) -> bytes:
    bits = 8 * len(a)
    total = int.from_bytes(a, "little") + int.from_bytes(b, "little")
    return (total % (1 << bits)).to_bytes(len(a), "little")


def order(type: int, cell: bytes) -> tuple[int, ...] | bytes:
    """What cells are compared by."""
    if type == BYTES:
        return cell
    number = int.from_bytes(cell, "little", signed=type in (1, 2, 3, 4, DECIMAL128, DECIMAL256))
    if type not in (9, 10, 11):
        return (number,)
    bits = 8 * len(cell)
    magnitude = number % (1 << (bits - 1))
    fraction_bits = {16: 10, 32: 23, 64: 52}[bits]
    if magnitude > ((1 << (bits - 1 - fraction_bits)) - 1) << fraction_bits:
        return (1 << bits,)  # NaN
    return (-magnitude - 1,) if number >> (bits - 1) else (magnitude,)


def add_variances(a: bytes, b: bytes) -> bytes:
    (n, mean, squares), (m, other_mean, other_squares) = struct.unpack("<Qdd", a), struct.unpack("<Qdd", b)
    x, y = float(n), float(m)
    share = y / (x + y) if x + y else math.nan
    apart = other_mean - mean
    made = mean + apart * share, squares + other_squares + apart * apart * (x * share)
    return struct.pack("<Qdd", (n + m) % 2**64, *made)


def fold_two(fold: int, type: int, a: bytes, b: bytes) -> bytes:
    """The accumulator of two, of which b comes behind a."""
    if fold == FIRST:
        return a
    if fold == MIN:
        return b if order(type, b) < order(type, a) else a
    if fold == MAX:
        return b if order(type, a) < order(type, b) else a
    if fold in (VARIANCE, SAMPLE_VARIANCE):
        return add_variances(a, b)
    add = add_floats if type == FLOAT64 else add_whole
    if fold != MEAN:
        return add(a, b)
    return add(a[:-8], b[:-8]) + add_whole(a[-8:], b[-8:])


def merge(rows: Sequence[bytes]) -> bytes:
    """What the rows of one key become, in order; lists are put one behind the other."""
    if rows[0][:2] != b"\x80\0" or len(rows[0]) < 4:
        return b"".join(rows)
    fold, type = rows[0][2:4]
    try:
        size = accumulator_bytes(fold, type)
        for row in rows:
            if row[:4] != rows[0][:4] or (size is not None and len(row) != 4 + size):
                raise Malformed
            if fold == DISTINCT:
                read_distinct(row[4:])
    except Malformed:
        return BROKEN + b"".join(rows)
    accumulators = [row[4:] for row in rows]
    if fold == DISTINCT:
        return rows[0][:4] + write_distinct([value for accumulator in accumulators for value in read_distinct(accumulator)])
    return rows[0][:4] + functools.reduce(functools.partial(fold_two, fold, type), accumulators)
