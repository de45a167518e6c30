"""sfkv's rows are those of decoder.py, which was written from FORMAT.md alone."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sfkv
from sfkv._rows import KeyRows, ValueRows
from sfkv._types import KeySchema, ValueSchema
from tests.format import decoder
from tests.format import strategies as sts
from tests.format.arrays import plain, simplest
from tests.format.running import draw_chunked, examples, may_lack_an_object, order_of, run, with_one_nan

any_type = sts.value_types | sts.records | sts.deep_types()


def as_columns(value: Any, schema: KeySchema | ValueSchema) -> list[Any]:
    """A plain value or key as the decoder has it: the list of its columns."""
    return value if schema.is_record else [value]


@examples(quick=250)
def test_value_rows_are_those_of_the_format(examples):
    def check(data):
        arrow = data.draw(any_type)
        values = data.draw(st.lists(sts.values(arrow, nullable=False), max_size=5))
        array = data.draw(sts.arrays(values, arrow))
        array.validate(full=True)
        schema = ValueSchema.of(arrow)
        expected = [decoder.encode_value_row(schema.describe(), as_columns(value, schema)) for value in values]
        assert ValueRows(schema).rows_of(draw_chunked(data, array)) == expected
        assert [decoder.decode_value_row(schema.describe(), row) for row in expected] == [
            as_columns(value, schema) for value in values
        ]

    run(examples, check)


def key_type(data: st.DataObject) -> Any:
    return data.draw(sts.key_columns() | sts.scalar_types)


@examples(quick=250)
def test_key_rows_and_groups_are_those_of_the_format(examples):
    def check(data):
        type = key_type(data)
        schema = KeySchema.of(type)
        keys = data.draw(st.lists(sts.values(schema.arrow, nullable=False), min_size=1, max_size=5))
        array = data.draw(sts.arrays(keys, schema.arrow))
        expected = [decoder.encode_key_row(schema.describe(), as_columns(key, schema)) for key in keys]
        assert KeyRows(schema).rows_of(draw_chunked(data, array)) == expected
        most = data.draw(st.sampled_from([1, 128, 4096, 32768]))
        groups = [decoder.key_group(schema.describe(), as_columns(key, schema), most) for key in keys]
        assert sfkv.key_groups(array, most, key=type).to_pylist() == groups
        for key, row in zip(keys, expected, strict=True):
            read = decoder.decode_key_row(schema.describe(), row)
            for one, other, column in zip(read, as_columns(key, schema), schema.columns, strict=True):
                assert with_one_nan(one, column.type, one_zero=True) == with_one_nan(other, column.type, one_zero=True)
            assert decoder.encode_key_row(schema.describe(), read) == row

    run(examples, check)


def cells_order(key: list[Any], schema: KeySchema) -> list[Any]:
    return [order_of(cell, column.type) for cell, column in zip(key, schema.columns, strict=True)]


def check_order(keys: list[Any], schema: KeySchema) -> None:
    rows = KeyRows(schema).rows_of(simplest(keys, schema.arrow))
    orders = [cells_order(as_columns(key, schema), schema) for key in keys]
    for row, order in zip(rows, orders, strict=True):
        for other_row, other in zip(rows, orders, strict=True):
            assert (row < other_row) == (order < other)
            assert (row == other_row) == (order == other) == row.startswith(other_row)


@pytest.mark.parametrize("arrow", [*sts.PLAIN, pa.decimal128(38, 5), pa.decimal128(3, -2), pa.decimal256(76, 0)], ids=str)
@examples(quick=8, slow=500)
def test_keys_of_each_type_sort_as_their_values(arrow, examples):
    schema = KeySchema.of(arrow)
    run(examples, lambda data: check_order(data.draw(st.lists(sts.scalars(arrow), min_size=2, max_size=12)), schema))


@examples(quick=150)
def test_keys_of_several_columns_sort_column_by_column(examples):
    def check(data):
        schema = KeySchema.of(data.draw(sts.key_columns()))
        # Few different cells in each column, so that later ones decide.
        cells = [
            data.draw(st.lists(sts.values(column.type, nullable=column.nullable), min_size=1, max_size=3))
            for column in schema.columns
        ]
        key = st.tuples(*map(st.sampled_from, cells)).map(list)
        check_order(data.draw(st.lists(key, min_size=2, max_size=8)), schema)

    run(examples, check)


@examples(quick=150)
def test_python_reads_of_a_row_what_arrow_reads(examples):
    """``key_of`` gives what the row was made from, or says that Python has no object for it."""

    def check(data):
        schema = KeySchema.of(key_type(data))
        key = data.draw(sts.values(schema.arrow, nullable=False))
        rows = KeyRows(schema)
        (row,) = rows.rows_of(simplest([key], schema.arrow))
        try:
            found = rows.key_of(row)
            again = rows.row_of(found)
        except sfkv.SchemaError:
            assert may_lack_an_object(schema.record_arrow)
        else:
            assert again == row

    run(examples, check)


@pytest.mark.parametrize("cut", [1, 2, 3])
@examples(quick=60)
def test_rows_that_are_cut_off_are_refused_by_both(cut, examples):
    def check(data):
        schema = KeySchema.of(key_type(data))
        key = data.draw(sts.values(schema.arrow, nullable=False))
        (row,) = KeyRows(schema).rows_of(simplest([key], schema.arrow))
        with pytest.raises(decoder.Malformed):
            decoder.decode_key_row(schema.describe(), row[: max(0, len(row) - cut)])
        # Python may have no object for a cell before the missing one.
        with pytest.raises((sfkv.CorruptionError, sfkv.SchemaError)):
            KeyRows(schema).key_of(row[: max(0, len(row) - cut)])

    run(examples, check)


# --- The decoder itself, by hand from FORMAT.md.


def test_the_decoder_has_the_key_groups_of_the_table():
    table = [
        ("int32", 0, 0, (94, 2526, 31198)),
        ("int32", 42, 42, (29, 3613, 28189)),
        ("int32", -1, 0xFFFFFFFF, (80, 2896, 15184)),
        ("int64", 1234567890123, 1912276436, (92, 3420, 32092)),
        ("utf8", "hello", 99162322, (35, 2723, 31395)),
        ("utf8", "\U0001f600", 1772899, (54, 3254, 7350)),
    ]
    for type, key, hash, groups in table:
        assert decoder.java_hash(type, key) == hash
        assert tuple(decoder.mix(hash) % most for most in (128, 4096, 32768)) == groups
    assert [decoder.mix(hash) for hash in (0, 42, -1)] == [593689054, 1134849565, 1982413648]


def test_the_plain_values_of_arrays_are_what_they_say():
    assert plain(pa.array([1.5, -0.0, None])) == [0x3FF8 << 48, 1 << 63, None]
    assert plain(pa.array([[1], None, []], pa.list_(pa.int64())).slice(1)) == [None, []]
    assert plain(pa.array([[("a", 1)]], pa.map_(pa.utf8(), pa.int8()))) == [[["a", 1]]]
    assert plain(pa.array([{"a": 1}, None])) == [[1], None]
    assert math.isnan(pa.array(simplest([0x7E00], pa.float16()))[0].as_py())
