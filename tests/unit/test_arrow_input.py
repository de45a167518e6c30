"""Bad input: refused with state, column and row, and nothing is written."""

from __future__ import annotations

import ctypes
import datetime as dt
import decimal
import struct
from unittest.mock import ANY

import numpy as np
import pyarrow as pa
import pytest

import sfkv
from tests.unit.broken import Broken

pytestmark = pytest.mark.backends

BAD = b"\xff\xfe"  # no UTF-8
POINT = pa.struct([pa.field("x", pa.int16(), nullable=False), ("name", pa.utf8())])
DEEP = pa.schema(
    [
        pa.field("n", pa.int32(), nullable=False),
        pa.field("points", pa.list_(pa.field("item", POINT, nullable=False))),
        ("pair", pa.list_(pa.field("item", pa.utf8(), nullable=False), 2)),
        ("map", pa.map_(pa.utf8(), pa.field("value", POINT, nullable=False))),
        ("words", pa.utf8()),
    ]
)
GOOD = {"n": 1, "points": [{"x": 1, "name": "a"}], "pair": ["a", "b"], "map": [("k", {"x": 2, "name": None})], "words": "w"}


def rows_of(state):
    return state._table.store.read_range(b"", b"\xff\xff")


def refused(state, values, *, column, row, match=None):
    """The error of a batch, after which the state is as it was."""
    before = rows_of(state)
    keys = [f"k{i}" for i in range(len(values))]
    with pytest.raises(sfkv.SchemaError, match=match) as raised:
        state.put_many(keys, values)
    assert rows_of(state) == before
    error = raised.value
    assert (error.state, error.row) == ("s", row), error
    assert column is ANY or error.column == column
    assert "state 's'" in str(error)
    return str(error)


@pytest.fixture
def deep(keyed):
    state = keyed.value_state("s", DEEP)
    state.put_many(["k0"], [GOOD])
    return state


def deep_rows(*changes):
    """A struct array of good records with these changes, one a row."""

    def free(arrow):
        if pa.types.is_struct(arrow):
            return pa.struct([pa.field(field.name, free(field.type)) for field in arrow])
        if pa.types.is_map(arrow):
            return pa.map_(free(arrow.key_type), free(arrow.item_type))
        if pa.types.is_fixed_size_list(arrow):
            return pa.list_(free(arrow.value_type), arrow.list_size)
        return pa.list_(free(arrow.value_type)) if pa.types.is_list(arrow) else arrow

    return pa.array([{**GOOD, **change} for change in changes], free(pa.struct(list(DEEP))))


# --- Nulls, at any depth.

STRAY_NULLS = [
    ({"n": None}, "n"),
    ({"points": [{"x": 1}, None]}, "points.item"),
    ({"points": [{"x": 1}, {"x": None}]}, "points.item.x"),
    ({"pair": ["a", None]}, "pair.item"),
    ({"map": [("k", None)]}, "map.value"),
    ({"map": [("k", {"x": None})]}, "map.value.x"),
]
each_stray_null = pytest.mark.parametrize(("change", "column"), STRAY_NULLS)


@each_stray_null
def test_a_null_is_refused_in_arrow_by_its_row_and_path(change, column, deep):
    refused(deep, deep_rows({}, {}, change, change), column=column, row=2, match="is null, and may not be")


@each_stray_null
def test_a_null_is_refused_in_python_by_its_row_and_path(change, column, deep):
    refused(deep, [GOOD, {**GOOD, **change}], column=column, row=1)
    before = rows_of(deep)
    with pytest.raises(sfkv.SchemaError) as raised:
        deep.put("k0", {**GOOD, **change})
    assert raised.value.column == column
    assert rows_of(deep) == before


def test_nulls_that_nobody_sees_are_no_nulls(deep):
    """Under a null list or struct, and in rows that are absent as a whole, anything may lie."""
    whole = deep_rows({}, {"n": None}, {"points": None, "pair": None, "map": None})
    mask = pa.array([False, True, False])
    absent = pa.StructArray.from_arrays(whole.flatten(), fields=list(whole.type), mask=mask)
    deep.put_many(["k0", "k1", "k2"], absent)
    assert deep.get_many(["k0", "k1", "k2"]).to_pylist() == [GOOD, None, {**GOOD, "points": None, "pair": None, "map": None}]


# --- Text that is not UTF-8.


def text_array(layout, values):
    """Bytes as text that nobody has checked."""
    if layout == "utf8_view":
        return pa.Array.from_buffers(pa.string_view(), len(values), pa.array(values, pa.binary_view()).buffers())
    arrow, binary = (pa.large_utf8(), pa.large_binary()) if layout == "large_utf8" else (pa.utf8(), pa.binary())
    if layout == "dictionary":
        distinct = pa.Array.from_buffers(arrow, len(values), pa.array(values, binary).buffers())
        return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int8()), distinct)
    return pa.Array.from_buffers(arrow, len(values), pa.array(values, binary).buffers())


LAYOUTS = ["utf8", "large_utf8", "utf8_view", "dictionary"]
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


@each_layout
@pytest.mark.parametrize("bad", [BAD, b"a" * 40 + b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"], ids=bytes.hex)
def test_text_that_is_no_utf8_is_refused_in_every_layout(layout, bad, keyed):
    state = keyed.value_state("s", str)
    state.put("k0", "before")
    refused(state, text_array(layout, [b"good", b"x" * 20, bad]), column="value", row=2, match="not UTF-8")


@each_layout
def test_text_that_is_no_utf8_is_refused_in_keys(layout, keyed):
    state = keyed.value_state("s", int)
    with pytest.raises(sfkv.SchemaError, match="not UTF-8") as raised:
        state.put_many(text_array(layout, [b"good", BAD]), [1, 2])
    assert (raised.value.row, raised.value.column) == (1, "key")
    assert rows_of(state) == {}


def nested_text(place, texts):
    """Two good rows and one whose text, in this place, is ``texts[2]``."""
    whole = deep_rows({}, {}, {})
    columns = dict(zip(whole.type.names, whole.flatten(), strict=True))
    if place == "words":
        columns["words"] = texts
    elif place == "pair.item":
        doubled = pa.concat_arrays([part for i in range(3) for part in (texts.slice(i, 1), texts.slice(0, 1))])
        columns["pair"] = pa.FixedSizeListArray.from_arrays(doubled, 2)
    elif place == "points.item.name":
        points = pa.StructArray.from_arrays([pa.array([1, 2, 3], pa.int16()), texts], names=["x", "name"])
        columns["points"] = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), points)
    else:
        columns["map"] = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts, columns["map"].items)
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


@each_layout
@pytest.mark.parametrize("place", ["words", "pair.item", "points.item.name", "map.key"])
def test_text_that_is_no_utf8_is_refused_at_any_depth(place, layout, deep):
    values = nested_text(place, text_array(layout, [b"good", b"", BAD]))
    refused(deep, values, column=place, row=2, match="not UTF-8")


@each_layout
def test_what_lies_under_a_null_is_not_looked_at(layout, keyed):
    state = keyed.value_state("s", pa.schema([("t", pa.utf8())]))
    texts = text_array(layout, [b"good", BAD])
    mask = pa.array([True, False])  # the validity's bits
    if layout == "dictionary":
        whole = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array(["good"]))
    else:
        whole = pa.Array.from_buffers(texts.type, 2, [mask.buffers()[1], *texts.buffers()[1:]])
    state.put_many(["k0", "k1"], pa.StructArray.from_arrays([whole], ["t"]))
    assert state.get_many(["k0", "k1"]).to_pylist() == [{"t": "good"}, {"t": None}]


# --- Arrays that are broken: in C, behind pyarrow's back, which checks what it makes.


LONG = pa.array(["abc", "of more than twelve bytes"], pa.string_view())


def numbers(code, at, *values):
    """Overwrites numbers of the array's second buffer: offsets, views or indices."""

    def edit(array):
        raw = struct.pack(f"<{len(values)}{code}", *values)
        ctypes.memmove(array.buffers[1] + at, raw, len(raw))

    return edit


BROKEN = {
    "falling offsets": (pa.array(["abc", "de"]), numbers("i", 4, 9, 5), None),
    "a negative offset": (pa.array(["abc", "de"]), numbers("i", 0, -1), None),
    "falling large offsets": (pa.array(["abc", "de"], pa.large_utf8()), numbers("q", 8, 9, 5), None),
    "a negative large offset": (pa.array(["abc", "de"], pa.large_utf8()), numbers("q", 0, -(2**40)), None),
    "a negative view": (LONG, numbers("i", 16, -1), 1),
    "a view of no buffer": (LONG, numbers("i", 24, 1), 1),
    "a view of a negative buffer": (LONG, numbers("i", 24, -1), 1),
    "a view beyond its buffer": (LONG, numbers("i", 28, 1), 1),
    "a view before its buffer": (LONG, numbers("i", 28, -1), 1),
    "a view that is too long": (LONG, numbers("i", 16, 2**31 - 1), 1),
}


@pytest.mark.parametrize(("array", "edit", "row"), BROKEN.values(), ids=BROKEN.keys())
def test_offsets_and_views_that_are_out_of_bounds_are_refused(array, edit, row, keyed):
    state = keyed.value_state("s", str)
    state.put("k0", "before")
    refused(state, Broken(array, edit), column="value", row=row, match="the Arrow array has")
    with pytest.raises(sfkv.SchemaError) as raised:
        state.get_many(Broken(array, edit))
    assert (raised.value.column, raised.value.row) == ("key", row)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("ends", [(0, 2, 1), (-1, 1, 2), (0, 1, 4), (0, 5, 2), (0, 2**31 - 1, 2**31 - 1)])
def test_lists_that_pass_their_items_are_refused(ends, large, keyed):
    state = keyed.value_state("s", pa.list_(pa.int64()))
    state.put("k0", [1])
    array = pa.array([[1], [2, 3]], (pa.large_list if large else pa.list_)(pa.int64()))
    refused(state, Broken(array, numbers("q" if large else "i", 0, *ends)), column=ANY, row=None, match="the Arrow array has")


@pytest.mark.parametrize(
    "index", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()], ids=str
)
@pytest.mark.parametrize("number", [-1, 2, 100])
def test_indices_outside_their_dictionary_are_refused(index, number, keyed):
    if number < 0 and pa.types.is_unsigned_integer(index):
        number = 2**index.bit_width - 1
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, number], index), pa.array(["a", "b"]), safe=False)
    state = keyed.value_state("s", str)
    state.put("k0", "before")
    refused(state, array, column="value", row=2, match="outside its dictionary")


def set_length(length, *path):
    """Says that the array at this path of children is so long."""

    def edit(array):
        for child in path:
            array = array.children[child].contents
        array.length = length

    return edit


SIZES = {
    "a field that is too short": (pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]), set_length(1, 1), "b", ".b"),
    "a negative length": (pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]), set_length(-1, 0), "a", ".a"),
}


@pytest.mark.parametrize(("array", "edit", "column", "path"), SIZES.values(), ids=SIZES.keys())
def test_struct_fields_of_different_lengths_are_refused(array, edit, column, path, keyed):
    records = keyed.value_state("s", array.type)
    refused(records, Broken(array, edit), column=column, row=None, match="the Arrow array has")
    keyed.drop_state("s")
    inside = keyed.value_state("s", pa.schema([("p", array.type)]))
    whole = pa.StructArray.from_arrays([array], ["p"])
    refused(inside, Broken(whole, lambda made: edit(made.children[0].contents)), column="p" + path, row=None)


def test_items_that_are_not_there_are_refused(keyed):
    pairs = keyed.value_state("s", pa.list_(pa.int64(), 2))
    array = pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))
    refused(pairs, Broken(array, set_length(3, 0)), column="value.item", row=None)
    keyed.drop_state("s")
    maps = keyed.value_state("s", pa.map_(pa.utf8(), pa.int64()))
    array = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.utf8(), pa.int64()))
    refused(maps, Broken(array, set_length(1, 0)), column="value", row=None)
    refused(maps, Broken(array, set_length(1, 0, 1)), column="value.value", row=None)


def test_buffers_that_are_not_there_are_refused(keyed):
    state = keyed.value_state("s", int)

    def drop_buffer(array):
        array.buffers[1] = None

    refused(state, Broken(pa.array([1, 2]), drop_buffer), column="value", row=None, match="lacks its values")


def test_what_is_nested_too_deep_is_refused(keyed):
    array = pa.array([1, 2])
    for _ in range(16):
        array = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
    state = keyed.value_state("s", pa.list_(pa.int64()))
    refused(state, array, column="value", row=None)
    keyed.drop_state("s")
    refused(keyed.value_state("s", pa.schema([("a", pa.int64())])), pa.record_batch({"a": array}), column="a", row=None)


# --- Types, units, zones, scales and lengths that do not fit.

MOMENT = dt.datetime(2024, 1, 1, 0, 0, 0, 1)
WRONG = [
    (pa.int64(), pa.array([1.0, 1.5]), None),
    (pa.int64(), pa.array(["1"]), None),
    (pa.int8(), pa.array([1, 128]), 1),
    (pa.uint8(), pa.array([1, -1]), 1),
    (pa.uint64(), pa.array([1, -1]), 1),
    (pa.int32(), pa.array([0, 2**32], pa.uint64()), 1),
    (pa.int64(), pa.array([0, 2**63], pa.uint64()), 1),
    (pa.float32(), pa.array([0.0, 1e300]), 1),
    (pa.float16(), pa.array([0.0, 1e5], pa.float32()), 1),
    (pa.bool_(), pa.array([1, 0]), None),
    (pa.utf8(), pa.array([b"a"]), None),
    (pa.binary(), pa.array(["a"]), None),
    (pa.binary(3), pa.array([b"abc", b"ab"]), 1),
    (pa.binary(3), pa.array([b"ab"], pa.binary(2)), 0),
    (pa.timestamp("us"), pa.array([0], pa.timestamp("us", tz="UTC")), None),
    (pa.timestamp("us", tz="UTC"), pa.array([0], pa.timestamp("us")), None),
    (pa.timestamp("s"), pa.array([dt.datetime(2024, 1, 1), MOMENT], pa.timestamp("us")), 1),
    (pa.timestamp("ns"), pa.array([0, 2**62], pa.timestamp("s")), 1),
    (pa.duration("s"), pa.array([1_000_000, 1], pa.duration("us")), 1),
    (pa.time32("s"), pa.array([1000, 1], pa.time32("ms")), 1),
    (pa.date32(), pa.array([MOMENT]), None),
    (pa.timestamp("us"), pa.array([dt.date(2024, 1, 1)]), None),
    (pa.decimal128(5, 2), pa.array([decimal.Decimal("1.00"), decimal.Decimal("1.005")], pa.decimal128(9, 3)), 1),
    (pa.decimal128(5, 2), pa.array([1, 1000]), 1),
    (pa.decimal128(5, 2), pa.array([1.0]), None),
    (pa.decimal128(38, 0), pa.array([1, 10**40], pa.decimal256(50, 0)), 1),
    (pa.list_(pa.int8()), pa.array([[1], [1, 300]]), 1, ".item"),
    (pa.list_(pa.int8()), pa.array([["a"]]), None),
    (pa.list_(pa.int8(), 2), pa.array([[1, 2], [3]], pa.list_(pa.int8())), 1),
    (pa.list_(pa.int8(), 2), pa.array([[1, 2, 3]], pa.list_(pa.int8(), 3)), 0),
    (pa.map_(pa.utf8(), pa.int8()), pa.array([[("a", 1)], [("a", 300)]], pa.map_(pa.utf8(), pa.int64())), 1, ".value"),
    (
        pa.list_(POINT),
        pa.array([[{"x": 1}], [{"x": 2}, {"x": 2**15}]], pa.list_(pa.struct({"x": pa.int64(), "name": pa.utf8()}))),
        1,
        ".item.x",
    ),
    (pa.list_(pa.float32()), pa.array([[1.0], [2.0, 1e300]]), 1, ".item"),
    (pa.map_(pa.utf8(), pa.int8()), pa.array([{"a": 1}]), None),
    (pa.list_(pa.int8()), pa.array([[1]], pa.list_view(pa.int8())), None),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong[1].type} for {wrong[0]}")
def test_what_does_not_fit_is_refused_as_a_value_an_element_and_a_column(wrong, keyed):
    arrow, values, row, path = wrong if len(wrong) == 4 else (*wrong, "")
    values = values if len(values) > 1 else pa.concat_arrays([values, values])
    refused(keyed.value_state("s", arrow), values, column="value" + path, row=row)
    keyed.drop_state("s")
    record = keyed.value_state("s", pa.schema([("n", pa.int64()), ("a", arrow)]))
    refused(record, {"n": np.arange(len(values)), "a": values}, column="a" + path, row=row)
    refused(record, pa.record_batch({"a": values, "n": pa.array(range(len(values)))}), column="a" + path, row=row)
    keyed.drop_state("s")
    before = rows_of(record)
    elements = keyed.list_state("s", arrow)
    with pytest.raises(sfkv.SchemaError, match="state 's'"):
        elements.add_many(["a"] * len(values), values)
    with pytest.raises(sfkv.SchemaError, match="state 's'"):
        elements.update_many(["a"], pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values))
    keyed.drop_state("s")
    entries = keyed.map_state("s", int, arrow)
    with pytest.raises(sfkv.SchemaError, match="state 's'"):
        entries.put_many(["a"] * len(values), range(len(values)), values)
    assert rows_of(entries) == before


@pytest.mark.parametrize(
    ("arrow", "values"),
    [
        (pa.int8(), pa.array([1, None, -3])),
        (pa.uint64(), pa.array([1, 2], pa.int8())),
        (pa.float64(), pa.array([1, 2])),
        (pa.timestamp("ms"), pa.array([1_000, 2_000], pa.timestamp("us"))),
        (pa.timestamp("us", tz="Europe/Berlin"), pa.array([1, 2], pa.timestamp("us", tz="UTC"))),
        (pa.decimal128(9, 3), pa.array([decimal.Decimal("1.25")], pa.decimal128(5, 2))),
        (pa.decimal256(40, 2), pa.array([decimal.Decimal("1.25")])),
        (pa.decimal128(5, 2), pa.array([1, -999])),
        (pa.decimal128(5, -2), pa.array([100, -99900])),
        (pa.list_(pa.int8()), pa.array([[1], [], None], pa.large_list(pa.int64()))),
        (pa.list_(pa.int8(), 2), pa.array([[1, 2]], pa.list_(pa.int64()))),
        (pa.struct([("a", pa.int8()), ("b", pa.utf8())]), pa.array([{"b": "x", "a": 1}])),
        (pa.list_(pa.struct([("a", pa.int8()), ("b", pa.utf8())])), pa.array([[{"b": "x", "a": 1}]])),
        (pa.int64(), pa.RunEndEncodedArray.from_arrays([2, 3], [7, 8])),
        (pa.int64(), pa.array([7, 8, 7]).dictionary_encode()),
        (pa.list_(pa.int32()), pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array([7, 7]).dictionary_encode())),
    ],
    ids=str,
)
def test_what_fits_is_converted(arrow, values, keyed):
    state = keyed.value_state("s", arrow)
    keys = [f"k{i}" for i in range(len(values))]
    state.put_many(keys, values)
    expected = values.to_pylist()
    assert state.get_many(keys).type == arrow
    assert [same_fields(value) for value in state.get_many(keys).to_pylist()] == [same_fields(value) for value in expected]


def test_maps_are_read_whatever_their_entries_are_called(keyed):
    state = keyed.value_state("s", pa.map_(pa.utf8(), pa.int8()))
    named = pa.map_(pa.field("keys", pa.utf8(), nullable=False), pa.field("values", pa.int8()))
    state.put_many(["k0"], pa.array([[("a", 1), ("b", None)]], named))
    assert state.get_many(["k0"]).type == pa.map_(pa.utf8(), pa.int8())
    assert state.get("k0") == [("a", 1), ("b", None)]


def same_fields(value):
    """Dicts with their fields in one order."""
    if isinstance(value, dict):
        return sorted(value.items())
    return list(map(same_fields, value)) if isinstance(value, list) else value
