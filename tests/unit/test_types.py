"""Types: which are accepted where, how they come back from the registry, and what is said of those that are not supported."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest

import sfkv
from sfkv._stored_types import describe_type, parse_type
from sfkv._types import MAX_TYPE_DEPTH
from tests.format.arrays import simplest
from tests.format.strategies import noise

UNITS = ("s", "ms", "us", "ns")
ORDERED = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.decimal128(38, 9), pa.decimal128(3, -2), pa.decimal256(76, 0)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, tz=zone) for unit in UNITS for zone in (None, "UTC", "Europe/Berlin", "+05:30")),
    *map(pa.duration, UNITS),
    *(pa.utf8(), pa.large_utf8(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(16)),
]
NESTED = [
    pa.struct([pa.field("a", pa.int64(), nullable=False), ("b", pa.null())]),
    pa.list_(pa.field("element", pa.utf8(), nullable=False)),
    pa.large_list(pa.decimal256(40, 3)),
    pa.list_(pa.float16(), 3),
    pa.map_(pa.utf8(), pa.list_(pa.timestamp("ns", tz="Asia/Kathmandu")), keys_sorted=True),
    pa.list_(pa.struct([("x", pa.map_(pa.int8(), pa.struct([("y", pa.list_(pa.binary(2), 2))])))])),
]
each_ordered = pytest.mark.parametrize("arrow", ORDERED, ids=str)
each_type = pytest.mark.parametrize("arrow", [*ORDERED, *NESTED], ids=str)


@each_type
def test_a_type_is_stored_as_text_or_json_and_read_again(arrow):
    again = parse_type(describe_type(arrow))
    assert again.equals(arrow)
    assert str(again) == str(arrow)


@each_type
def test_every_type_is_accepted_for_values_elements_and_columns_and_is_the_same_after_reopening(arrow, tmp_path):
    record = pa.struct([pa.field("n", arrow, nullable=False), ("a", arrow)])
    for _ in range(2):
        with sfkv.open(tmp_path / "s", key=int) as keyed:
            assert keyed.value_state("value", arrow).type.equals(arrow)
            assert keyed.list_state("list", arrow).type.equals(arrow)
            assert keyed.map_state("map", int, arrow).type.equals(pa.map_(pa.int64(), arrow))
            assert keyed.value_state("record", pa.schema(list(record))).type.equals(record)
            assert keyed.list_state("records", record).type.equals(record)
            assert len(keyed.states) == 5


@each_ordered
def test_every_type_with_an_order_is_accepted_for_keys_and_user_keys(arrow, tmp_path):
    columns = pa.schema([("a", arrow), pa.field("b", arrow, nullable=False)])
    for name, key in (("plain", arrow), ("columns", columns)):
        for _ in range(2):
            with sfkv.open(tmp_path / name, key=key) as keyed:
                made = keyed.map_state("map", key, int)
                assert made.type.key_type.equals(arrow if name == "plain" else pa.struct(list(columns)))
                assert keyed.states == {"map": keyed.states["map"]}


@each_type
def test_single_reads_give_what_batches_give_and_take_it_back(arrow, keyed):
    array = simplest([noise(random.Random(seed), arrow) for seed in range(3)], arrow)
    values = keyed.value_state("value", arrow)
    lists = keyed.list_state("list", arrow)
    maps = keyed.map_state("map", int, arrow)
    values.put_many(["a", "b", "c"], array)
    lists.add_many(["a", "a", "a"], array)
    maps.put_many(["a", "a", "a"], [0, 1, 2], array)
    objects = [values.get(key) for key in "abc"]
    assert pa.array(objects, arrow).equals(array)
    assert lists.get("a") == [maps.get("a", i) for i in range(3)] == list(maps["a"].values()) == objects
    lists.update("b", objects)
    lists.add_all("b", objects)
    assert lists.get_many(["b"]).values.equals(pa.concat_arrays([array, array]))
    values.put("d", objects[2])
    assert values.get_many(["d"]).equals(array.slice(2))


def test_a_state_of_another_nested_type_is_refused_with_both(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        keyed.value_state("a", pa.list_(pa.int64()))
    with (
        sfkv.open(tmp_path / "s", key=int) as keyed,
        pytest.raises(sfkv.SchemaError, match=r"holds value<list<item: int64>>, and was asked for as value<list<item: int32>>"),
    ):
        keyed.value_state("a", pa.list_(pa.int32()))


def test_dictionaries_are_stored_as_their_values_at_any_depth(keyed):
    words = pa.dictionary(pa.int32(), pa.utf8())
    assert keyed.value_state("plain", words).type == pa.utf8()
    assert keyed.value_state("list", pa.list_(words)).type == pa.list_(pa.utf8())
    assert keyed.map_state("map", words, pa.map_(words, words)).type == pa.map_(pa.utf8(), pa.map_(pa.utf8(), pa.utf8()))
    assert keyed.value_state("record", pa.schema([("w", words)])).type == pa.struct([("w", pa.utf8())])


def nested(depth, inner=None):
    arrow = pa.int8() if inner is None else inner
    for _ in range(depth - 1):
        arrow = pa.list_(arrow)
    return arrow


def test_types_nest_as_deep_as_documented(keyed):
    assert keyed.value_state("a", nested(MAX_TYPE_DEPTH)).type == nested(MAX_TYPE_DEPTH)
    assert keyed.value_state("b", pa.schema([("x", nested(MAX_TYPE_DEPTH))])).type.field(0).type == nested(MAX_TYPE_DEPTH)
    with pytest.raises(sfkv.SchemaError, match=r"value(\.item){16} is nested more than 16 types deep"):
        keyed.value_state("c", nested(MAX_TYPE_DEPTH + 1))
    with pytest.raises(sfkv.SchemaError, match=r"value column 'x'(\.item){16} is nested more than 16 types deep"):
        keyed.value_state("c", pa.schema([("x", nested(MAX_TYPE_DEPTH + 1))]))


def test_a_map_nests_two_types(keyed):
    """Its entries are structs, as in Arrow."""
    fits = nested(MAX_TYPE_DEPTH - 2, pa.map_(pa.int8(), pa.int8()))
    state = keyed.value_state("fits", fits)
    value = {1: 2}
    for _ in range(MAX_TYPE_DEPTH - 3):
        value = [value]
    state.put("k", value)
    assert state.get_many(["k"]).type == fits
    with pytest.raises(sfkv.SchemaError, match="nested more than 16 types deep"):
        keyed.value_state("deeper", nested(MAX_TYPE_DEPTH - 1, pa.map_(pa.int8(), pa.int8())))


NO_STATE_TYPES = [
    pa.month_day_nano_interval(),
    pa.list_view(pa.int8()),
    pa.large_list_view(pa.int8()),
    pa.dense_union([pa.field("a", pa.int8())]),
    pa.sparse_union([pa.field("a", pa.int8())]),
    pa.run_end_encoded(pa.int32(), pa.int64()),
    pa.decimal32(5, 2),
    pa.decimal64(10, 2),
    pa.binary(0),
    pa.list_(pa.int8(), 0),
    pa.struct([]),
    pa.struct([("a", pa.int8()), ("a", pa.int8())]),
]
each_unsupported = pytest.mark.parametrize("arrow", NO_STATE_TYPES, ids=str)


@each_unsupported
def test_an_unsupported_type_is_refused_by_name_and_path(arrow, keyed):
    with pytest.raises(sfkv.SchemaError, match=r"^value\.item ") as raised:
        keyed.value_state("s", pa.list_(pa.field("item", arrow, nullable=False)))
    assert names(arrow) in str(raised.value)
    deep = pa.map_(pa.int8(), pa.struct([pa.field("x", arrow, nullable=False)]))
    with pytest.raises(sfkv.SchemaError, match=r"^value column 'a'\.item\.value\.x ") as raised:
        keyed.list_state("s", pa.schema([("b", pa.int8()), ("a", pa.list_(deep))]))
    assert names(arrow) in str(raised.value)
    with pytest.raises(sfkv.SchemaError, match=r"^value column 'a' "):
        keyed.map_state("s", int, pa.schema([pa.field("a", arrow, nullable=False)]))
    with pytest.raises(sfkv.SchemaError, match=r"^key column 'a' "):
        keyed.map_state("s", pa.schema([pa.field("a", arrow, nullable=False)]), int)
    assert keyed.states == {}


def names(arrow):
    """What a message says of the type."""
    if pa.types.is_struct(arrow):
        return "struct"
    return "list of 0 items" if pa.types.is_fixed_size_list(arrow) else str(arrow)


@pytest.mark.parametrize(
    ("type", "match"),
    [
        (pa.null(), "^value type null"),
        (pa.binary(0), r"^value type fixed_size_binary\[0\]"),
        (pa.run_end_encoded(pa.int32(), pa.utf8()), r"^value type run_end_encoded<"),
        (pa.struct([("a", pa.list_(pa.struct([])))]), r"^value column 'a'\.item is a struct without fields"),
        (pa.schema([]), "^the value has 0 columns, and must have 1 to 1024"),
        (pa.schema([(f"c{i}", pa.int8()) for i in range(1025)]), "^the value has 1025 columns, and must have 1 to 1024"),
        (
            pa.schema([("a", pa.struct([(f"c{i}", pa.int8()) for i in range(1025)]))]),
            "^value column 'a' is a struct of 1025 fields: it must have 1 to 1024",
        ),
        (
            pa.schema([("a", pa.struct([("x", pa.int8()), ("x", pa.int8())]))]),
            "^value column 'a' is a struct with the field 'x' twice",
        ),
    ],
)
def test_what_is_wrong_with_a_value_type_is_said(type, match, keyed):
    with pytest.raises(sfkv.SchemaError, match=match):
        keyed.value_state("s", type)


def test_what_is_no_type_is_none_for_msgpack():
    with pytest.raises(sfkv.SchemaError, match="msgpack cannot be decoded to 5"):
        sfkv.Msgpack(5)


@pytest.mark.parametrize("arrow", [*NESTED, pa.null()], ids=str)
def test_nested_and_null_types_are_no_keys(arrow, tmp_path, keyed):
    with pytest.raises(sfkv.SchemaError, match=r"^key column 'k' type "):
        sfkv.open(tmp_path / "other", key=pa.schema([("k", arrow)]))
    with pytest.raises(sfkv.SchemaError, match=r"^key column 'k' type "):
        keyed.map_state("s", pa.schema([("k", arrow)]), int)
    if not pa.types.is_struct(arrow):
        with pytest.raises(sfkv.SchemaError, match=r"^key type "):
            sfkv.open(tmp_path / "other", key=arrow)
    assert not (tmp_path / "other").exists()


def test_a_null_column_may_be_null_and_nothing_else(keyed):
    state = keyed.value_state("s", pa.schema([("n", pa.null()), ("items", pa.list_(pa.null()))]))
    state.put("a", {"n": None, "items": [None, None]})
    assert state.get("a") == {"n": None, "items": [None, None]}
    state.put_many(["b"], pa.array([{"n": None, "items": [None]}], state.type))
    assert state.get_many(["b", "a"]).to_pylist() == [{"n": None, "items": [None]}, {"n": None, "items": [None, None]}]
    with pytest.raises(sfkv.SchemaError, match="'n'"):
        state.put("a", {"n": 1, "items": []})


def test_python_gets_its_own_objects_for_nanoseconds_and_an_error_where_it_has_none(keyed):
    """Whether pandas is installed or not; and null lists of a fixed size beside them are no reason to abort."""
    arrow = pa.map_(pa.timestamp("ns", tz="UTC"), pa.struct([("at", pa.time64("ns")), ("none", pa.list_(pa.null(), 3))]))
    state = keyed.value_state("s", arrow)
    moment = dt.datetime(2024, 1, 1, 0, 0, 0, 7, tzinfo=dt.timezone.utc)
    value = [(moment, {"at": dt.time(1, 2, 3, 4), "none": [None] * 3}), (moment, {"at": None, "none": None})]
    state.put("a", value)
    found = state.get("a")
    assert found == value
    assert type(found[0][0]) is dt.datetime
    inner = pa.array([[{"at": 1, "none": None}]], pa.list_(pa.struct([("at", pa.int64()), ("none", pa.list_(pa.null(), 3))])))
    times = inner.values.field(0).view(pa.time64("ns"))
    structs = pa.StructArray.from_arrays([times, inner.values.field(1)], ["at", "none"])
    keys = pa.array([0], pa.timestamp("ns", tz="UTC"))
    state.put_many(["b"], pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), keys, structs))
    with pytest.raises(sfkv.SchemaError, match="Python has no object for it: read it by get_many") as raised:
        state.get("b")
    assert raised.value.code == "no_object"


def test_1024_columns_and_fields_are_accepted(keyed):
    fields = [(f"c{i}", pa.int32()) for i in range(1024)]
    wide = keyed.value_state("wide", pa.schema(fields))
    inside = keyed.value_state("inside", pa.list_(pa.struct(fields)))
    row = {name: i if i % 3 else None for i, (name, _) in enumerate(fields)}
    wide.put("a", row)
    inside.put("a", [row, None])
    assert wide.get("a") == row
    assert inside.get("a") == [row, None]
