"""Fold rows: folding as FORMAT.md says, in any grouping, and without ever failing; and what the registry makes of folds."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfkv
from sfkv._fold import merge_operand, merge_rows
from sfkv._folds import BUILT_INS, REDUCES, aggregated, reduced
from sfkv._types import ValueSchema
from tests.format import folds
from tests.format.decoder import Malformed

GOLDEN = Path(__file__).parents[1] / "golden" / "folds.txt"


def all_folds():
    """Each fold and type that there is."""
    for fold in range(1, 10):
        for type in range(15):
            try:
                folds.accumulator_bytes(fold, type)
            except Malformed:
                continue
            yield fold, type


FOLDS = list(all_folds())
# Whose accumulators are the same in any grouping, to the last bit; those of floats but nearly.
EXACT = [(fold, type) for fold, type in FOLDS if fold not in (6, 7) and not (fold in (1, 5) and type == folds.FLOAT64)]
INEXACT = {folds.head(*of) for of in FOLDS if of not in EXACT}


@st.composite
def fold_rows(draw, fold, type):
    """A row of a fold, with an accumulator of its form and any content."""
    size = folds.accumulator_bytes(fold, type)
    if fold == folds.DISTINCT:
        accumulator = folds.write_distinct(draw(st.lists(st.binary(max_size=3), max_size=5)))
    else:
        accumulator = draw(st.binary(max_size=8) if size is None else st.binary(min_size=size, max_size=size))
    return folds.head(fold, type) + accumulator


any_rows = st.sampled_from(FOLDS).flatmap(lambda of: st.lists(fold_rows(*of), min_size=1, max_size=6))
garbage = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda rest: b"\x80\0" + rest),
    st.sampled_from(FOLDS).flatmap(lambda of: fold_rows(*of)),
    st.sampled_from(FOLDS).flatmap(lambda of: st.binary(max_size=50).map(lambda rest: folds.head(*of) + rest)),
)


def equal(a: bytes, b: bytes) -> bool:
    """Whether two rows are one, but for the bits of NaNs, which are the machine's."""
    if a == b:
        return True
    fold, type = a[2:4]
    if a[:4] != b[:4] or len(a) != len(b) or type != folds.FLOAT64 or fold in (folds.MIN, folds.MAX):
        return False
    parts = zip(*(struct.iter_unpack("<d", row[4:]) for row in (a, b)), strict=True)
    return all(x == y or (math.isnan(x[0]) and math.isnan(y[0])) for x, y in parts)


@settings(deadline=None)
@given(any_rows)
def test_rows_are_folded_as_the_format_says(rows):
    assert equal(merge_rows(rows), folds.merge(rows))


@settings(deadline=None)
@given(st.lists(garbage, min_size=1, max_size=6))
def test_what_is_no_fold_is_kept_and_never_fails(rows):
    merged = merge_rows(rows)
    assert equal(merged, folds.merge(rows))
    if merged[:4] == folds.BROKEN and rows[0][:4] != folds.BROKEN:
        assert merged == folds.BROKEN + b"".join(rows)


@settings(deadline=None)
@given(st.data())
def test_operands_may_be_folded_in_any_grouping(data):
    rows = data.draw(st.sampled_from(EXACT).flatmap(lambda of: st.lists(fold_rows(*of), min_size=2, max_size=8)))
    grouped = list(rows)
    while len(grouped) > 1:
        begin = data.draw(st.integers(0, len(grouped) - 2))
        end = data.draw(st.integers(begin + 2, len(grouped)))
        grouped[begin:end] = [merge_rows(grouped[begin:end])]
    assert grouped == [merge_rows(rows)]


finite = st.floats(-1e100, 1e100)


@settings(deadline=None)
@given(st.lists(finite, min_size=1, max_size=20), st.data())
def test_float_sums_lose_nothing_that_counts_in_any_grouping(values, data):
    rows = [folds.head(folds.SUM, folds.FLOAT64) + struct.pack("<dd", value, 0.0) for value in values]
    while len(rows) > 1:
        at = data.draw(st.integers(0, len(rows) - 2))
        rows[at : at + 2] = [merge_rows(rows[at : at + 2])]
    total, lost = struct.unpack("<dd", rows[0][4:])
    assert total + lost == pytest.approx(math.fsum(values), rel=1e-15, abs=1e-29 * max(map(abs, values)))


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.data())
def test_variances_are_right_in_any_grouping(values, data):
    rows = [folds.head(folds.VARIANCE, folds.FLOAT64) + struct.pack("<Qdd", 1, value, 0.0) for value in values]
    while len(rows) > 1:
        at = data.draw(st.integers(0, len(rows) - 2))
        rows[at : at + 2] = [merge_rows(rows[at : at + 2])]
    count, mean, squares = struct.unpack("<Qdd", rows[0][4:])
    right = math.fsum(values) / len(values)
    assert count == len(values)
    assert mean == pytest.approx(right, rel=1e-12, abs=1e-6)
    assert squares == pytest.approx(math.fsum((value - right) ** 2 for value in values), rel=1e-9, abs=1e-3)


def test_the_golden_folds_are_read_by_the_decoder():
    lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    assert len(lines) > 40
    for line in lines:
        rows = [bytes.fromhex(row) for row in line["rows"]]
        assert folds.merge(rows).hex() == line["folded"]
    assert {tuple(bytes.fromhex(line["rows"][0])[2:4]) for line in lines} == set(FOLDS)


# --- Which values each takes, and what its results are.

TYPES = [
    *(pa.bool_(), pa.int8(), pa.int64(), pa.uint16(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal128(9, 2), pa.decimal128(38, 0), pa.decimal256(76, 4), pa.date32(), pa.time64("us"), pa.duration("s")),
    *(pa.timestamp("ms", tz="UTC"), pa.utf8(), pa.large_utf8(), pa.binary(), pa.binary(4), pa.list_(pa.int64())),
    pa.struct([("a", pa.int64())]),
]
NUMBERS = set(TYPES[:11]) - {pa.bool_()}
SUMMED = NUMBERS | {pa.bool_(), pa.duration("s")}
SINGLE = {arrow for arrow in TYPES if not pa.types.is_nested(arrow)}
TAKEN = {
    **dict.fromkeys(("sum", "mean"), SUMMED),
    **dict.fromkeys(("variance", "sample_variance"), NUMBERS),
    **dict.fromkeys(("min", "max", "count_distinct"), SINGLE),
    **{name: set(TYPES) for name in ("count", "first", "last", "collect")},
}


@pytest.mark.parametrize("arrow", TYPES, ids=str)
@pytest.mark.parametrize("name", BUILT_INS)
def test_each_fold_takes_the_types_that_it_is_for(name, arrow):
    value = ValueSchema.of(arrow)
    if arrow in TAKEN[name]:
        assert aggregated(name, value) is not None
        return
    with pytest.raises(sfkv.SchemaError, match=f"there is no {name} of .* it takes"):
        aggregated(name, value)


def test_folds_of_objects_are_those_that_look_at_none():
    for name in BUILT_INS:
        if name in ("count", "first", "last", "collect"):
            assert aggregated(name, ValueSchema.of(dict)) is not None
        else:
            with pytest.raises(sfkv.SchemaError, match=f"no {name} of msgpack"):
                aggregated(name, ValueSchema.of(dict))


@pytest.mark.parametrize(
    ("name", "arrow", "result"),
    [
        ("sum", pa.int8(), pa.int64()),
        ("sum", pa.bool_(), pa.int64()),
        ("sum", pa.uint32(), pa.uint64()),
        ("sum", pa.float16(), pa.float64()),
        ("sum", pa.decimal128(5, 2), pa.decimal128(38, 2)),
        ("sum", pa.decimal256(50, 2), pa.decimal256(76, 2)),
        ("sum", pa.duration("ms"), pa.duration("ms")),
        ("mean", pa.int8(), pa.float64()),
        ("mean", pa.bool_(), pa.float64()),
        ("mean", pa.decimal128(5, 2), pa.decimal128(11, 8)),
        ("mean", pa.decimal128(33, 2), pa.decimal256(39, 8)),
        ("mean", pa.decimal256(76, 2), pa.decimal256(76, 2)),
        ("mean", pa.duration("us"), pa.duration("us")),
        ("variance", pa.decimal128(5, 2), pa.float64()),
        ("count", pa.utf8(), pa.int64()),
        ("count_distinct", pa.date32(), pa.int64()),
        ("min", pa.date32(), pa.date32()),
        ("first", pa.list_(pa.int8()), pa.list_(pa.int8())),
    ],
)
def test_results_have_the_types_that_are_documented(name, arrow, result):
    assert aggregated(name, ValueSchema.of(arrow)).arrow == result
    if name in REDUCES and arrow != pa.bool_():
        assert reduced(name, ValueSchema.of(arrow)).arrow == arrow


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_store_folds_operands_as_the_format_says_whatever_they_are(tmp_path_factory, data):
    """Straight into the engine, past the states: flushes and compactions merge what is there, and no row fails."""
    rows = data.draw(st.lists(garbage, min_size=2, max_size=6))
    with sfkv.open(tmp_path_factory.mktemp("fold") / "s", key=str) as keyed:
        table = keyed.list_state("l", bytes)._table
        key = b"\0\0" + bytes([table.id]) + b"k\0\0"
        for row in rows:
            merge_operand(keyed._store, key, row)
            if data.draw(st.booleans()):
                keyed._store.flush()
        stored = keyed._store.read_range(b"", b"\xff\xff")[key]
        keyed.compact()
        compacted = keyed._store.read_range(b"", b"\xff\xff")[key]
        merge_operand(keyed._store, key[:-3] + b"l\0\0", rows[0])
        keyed._store.flush()  # which a store that was poisoned would refuse
    heads = {row[:4] if len(row) >= 4 and row[:2] == b"\x80\0" else b"" for row in rows}
    if len(heads) == 1 and heads != {b""} and folds.merge(rows)[:4] != folds.BROKEN:
        assert equal(stored, folds.merge(rows)) or heads & INEXACT
        assert len(stored) == len(compacted) == len(folds.merge(rows))
    elif not any(row.startswith(b"\x80") for row in rows):
        assert stored == compacted == b"".join(rows)
    else:  # kept, in a grouping that is the engine's
        assert len(stored) >= len(rows[0])
