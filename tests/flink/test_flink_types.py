"""Types and rows: PyFlink's names, and the objects that they stand for."""

import copy
import datetime as dt
import pickle
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pytest

import sfkv
from sfkv.flink import (
    HashMapStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)

UTC = dt.timezone.utc

# A type, what it stores, and values that come back as they went in.
VALUES = {
    "STRING": (Types.STRING(), pa.utf8(), ["", "ü"]),
    "CHAR": (Types.CHAR(), pa.utf8(), ["c"]),
    "BYTE": (Types.BYTE(), pa.int8(), [-128, 127]),
    "SHORT": (Types.SHORT(), pa.int16(), [-(2**15)]),
    "INT": (Types.INT(), pa.int32(), [2**31 - 1]),
    "LONG": (Types.LONG(), pa.int64(), [-(2**63)]),
    "BIG_INT": (Types.BIG_INT(), pa.decimal256(76, 0), [0, 10**76 - 1, -(10**75)]),
    "BIG_DEC": (Types.BIG_DEC(), pa.decimal128(38, 18), [Decimal("150000.25"), Decimal("1e-18"), Decimal(-7)]),
    "BOOLEAN": (Types.BOOLEAN(), pa.bool_(), [True, False]),
    "FLOAT": (Types.FLOAT(), pa.float32(), [0.5]),
    "DOUBLE": (Types.DOUBLE(), pa.float64(), [0.1]),
    "SQL_DATE": (Types.SQL_DATE(), pa.date32(), [dt.date(2026, 2, 28)]),
    "SQL_TIME": (Types.SQL_TIME(), pa.time64("us"), [dt.time(1, 2, 3, 4)]),
    "SQL_TIMESTAMP": (Types.SQL_TIMESTAMP(), pa.timestamp("us"), [dt.datetime(2026, 2, 28, 1, 2, 3, 4)]),
    "INSTANT": (Types.INSTANT(), pa.timestamp("us", tz="UTC"), [dt.datetime(2026, 2, 28, tzinfo=UTC)]),
    "PICKLED_BYTE_ARRAY": (Types.PICKLED_BYTE_ARRAY(), pa.binary(), [{"a": [1, None, b"x"]}, "text", 7, [1.5]]),
    "TUPLE": (Types.TUPLE([Types.STRING(), int]), pa.struct({"f0": pa.utf8(), "f1": pa.int64()}), [("a", 1), (None, None)]),
    "ROW": (Types.ROW([Types.INT(), pa.utf8()]), pa.struct({"f0": pa.int32(), "f1": pa.utf8()}), [Row(1, "a"), Row(None, "b")]),
    "ROW_NAMED": (
        Types.ROW_NAMED(["id", "tags"], [Types.INT(), Types.LIST(Types.STRING())]),
        pa.struct({"id": pa.int32(), "tags": pa.list_(pa.utf8())}),
        [Row(id=1, tags=["a", None]), Row(id=2, tags=None)],
    ),
    "LIST": (Types.LIST(Types.INT()), pa.list_(pa.int32()), [[], [1, None, 2]]),
    "LIST of tuples": (
        Types.LIST(Types.TUPLE([Types.INT()])),
        pa.list_(pa.struct({"f0": pa.int32()})),
        [[], [(1,), None, (None,)]],
    ),
    "MAP": (Types.MAP(Types.STRING(), Types.INT()), pa.map_(pa.utf8(), pa.int32()), [{}, {"b": 1, "a": None}]),
    "MAP of tuples": (
        Types.MAP(Types.TUPLE([str, int]), Types.TUPLE([Types.MAP(str, int)])),
        pa.map_(
            pa.struct({"f0": pa.utf8(), "f1": pa.int64()}),
            pa.struct({"f0": pa.map_(pa.utf8(), pa.int64())}),
        ),
        [{("a", 1): ({"x": 1},), ("b", None): None}],
    ),
    "PRIMITIVE_ARRAY": (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), pa.list_(pa.float64()), [[0.5, 1.5]]),
    "PRIMITIVE_ARRAY of bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), pa.binary(), [b"\x00x"]),
    "BASIC_ARRAY": (Types.BASIC_ARRAY(Types.STRING()), pa.list_(pa.utf8()), [["a"]]),
    "OBJECT_ARRAY": (Types.OBJECT_ARRAY(Types.ROW([str])), pa.list_(pa.struct({"f0": pa.utf8()})), [[Row("a"), Row("b")]]),
    "pyarrow": (pa.uint16(), pa.uint16(), [65535]),
    "Python": (float, pa.float64(), [1.5]),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_type_gives_back_what_went_in(context, keyed, name):
    info, arrow, values = VALUES[name]
    state = context.get_state(ValueStateDescriptor("v", info))
    for value in values:
        state.update(value)
        read = state.value()
        assert read == value
        assert type(read) is type(value)
    assert keyed.value_state("v", info if name.startswith(("PICKLED", "Python")) else arrow).type == arrow


def test_all_names_of_types_are_tried():
    assert {name for name in vars(Types) if name.isupper()} == {name.split(" ")[0] for name in VALUES} - {"pyarrow", "Python"}


class Nameless:
    """What no serializer takes, and whose text is always the same."""

    def __repr__(self):
        return "something"


@pytest.mark.parametrize(
    ("info", "value"),
    [
        (Types.BYTE(), 128),
        (Types.INT(), 2**31),
        (Types.BIG_INT(), 10**76),
        (Types.BIG_INT(), 1.5),
        (Types.BIG_DEC(), Decimal("1e-19")),
        (Types.BIG_DEC(), 0.5),
        (Types.TUPLE([int]), 1),
        (Types.TUPLE([int]), (1, 2)),
        (Types.TUPLE([int]), ("x",)),
        (Types.TUPLE([int]), "x"),
        (Types.ROW_NAMED(["a", "b"], [int, int]), Row(a=1, c=2)),
        (Types.ROW_NAMED(["a", "b"], [int, int]), {"a": 1}),
        (Types.ROW_NAMED(["a", "b"], [int, int]), {"a": 1, "b": 2, "c": 3}),
        (Types.ROW([int]), 7),
        (Types.LIST(Types.TUPLE([int])), (7,)),
        (Types.LIST(Types.TUPLE([int])), "text"),
        (Types.LIST(int), [1, "x"]),
        (Types.MAP(str, int), [("a", 1)]),
        (Types.MAP(str, int), {1: 1}),
        (Types.PICKLED_BYTE_ARRAY(), Nameless()),
        (Types.SQL_TIMESTAMP(), dt.datetime(2026, 1, 1, tzinfo=UTC)),
        (Types.INSTANT(), dt.datetime(2026, 1, 1)),
    ],
    ids=str,
)
def test_what_does_not_fit_a_type_is_refused(context, info, value):
    state = context.get_state(ValueStateDescriptor("v", info))
    with pytest.raises(sfkv.SchemaError) as raised:
        state.update(value)
    assert raised.value.state == "v" or info is object  # a serializer knows no state
    assert state.value() is None


def test_a_tuple_in_an_object_is_a_list_when_it_was_stored(backend, tmp_path):
    value, descriptor = ("a", (1, 2)), ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY())

    def state_of(keyed):
        context = RuntimeContext(keyed)
        context.set_current_key("a")
        return context.get_state(descriptor)

    with backend.open(tmp_path / "s", key=str) as keyed:
        state = state_of(keyed)
        state.update(value)
        if isinstance(backend, HashMapStateBackend):
            assert state.value() is value, "objects in memory live"
        else:
            assert state.value() == ["a", [1, 2]]
    with backend.open(tmp_path / "s") as keyed:
        assert state_of(keyed).value() == ["a", [1, 2]]


def test_a_row_type_takes_rows_tuples_lists_and_dicts(context):
    state = context.get_state(ValueStateDescriptor("v", Types.ROW_NAMED(["id", "name"], [int, str])))
    for value in (Row(1, "a"), Row(id=1, name="a"), Row(name="a", id=1), (1, "a"), [1, "a"], {"name": "a", "id": 1}):
        state.update(value)
        assert state.value() == Row(id=1, name="a")
    assert state.value().name == "a"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Types.TUPLE([Types.PICKLED_BYTE_ARRAY()]),
        lambda: Types.LIST(Types.PICKLED_BYTE_ARRAY()),
        lambda: Types.MAP(str, sfkv.Msgpack()),
        lambda: Types.MAP(str, "int"),
        lambda: Types.TUPLE([]),
        lambda: Types.TUPLE(Types.STRING()),
        lambda: Types.TUPLE("ab"),
        lambda: Types.ROW_NAMED(["a"], [int, int]),
        lambda: Types.ROW_NAMED([1, 2], [int, int]),
        lambda: Types.ROW_NAMED(["a", "a"], [int, int]),
        lambda: Types.ROW_NAMED("ab", [int, int]),
        lambda: ValueStateDescriptor("v", "LONG"),
        lambda: ValueStateDescriptor("v", None),
        lambda: ValueStateDescriptor("v", Types.LONG),
        lambda: MapStateDescriptor("m", Types.LIST(int), int),
        lambda: MapStateDescriptor("m", Types.PICKLED_BYTE_ARRAY(), int),
        lambda: MapStateDescriptor("m", Types.TUPLE([Types.TUPLE([int])]), int),
    ],
)
def test_a_type_that_cannot_be_stored_is_refused_where_it_is_made(make):
    with pytest.raises(sfkv.SchemaError):
        make()


@pytest.mark.parametrize("info", [Types.BIG_INT(), Types.TUPLE([int])], ids=str)
def test_a_type_of_the_layer_that_stands_for_one_of_sfkv_says_how_it_is_written(backend, tmp_path, info):
    with pytest.raises(sfkv.SchemaError, match=r"sfkv\.flink's types, their \.arrow"):
        backend.open(tmp_path / "s", key=info)
    with backend.open(tmp_path / "s", key=info.arrow) as keyed:
        assert keyed.states == {}


def test_row_keys_are_found_however_they_are_spelled(keyed, context):
    info = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.STRING()])
    state = context.get_map_state(MapStateDescriptor("m", info, Types.LONG()))
    context.set_current_key("x")
    for number, key in enumerate([{"b": "y", "a": "x"}, Row(b="y", a="x"), Row("x", "y"), ("x", "y"), ["x", "y"]]):
        state.put(key, number)
        assert (state.get(key), state.contains(key)) == (number, True)
    assert dict(keyed.map_state("m", info.arrow, int)["x"].items()) == {("x", "y"): 4}
    assert list(state.keys()) == [Row(a="x", b="y")]


@pytest.mark.parametrize("key", ["xy", 5, None, ("x",), {"a": "x", "c": "y"}, Row(a="x", c="y")])
@pytest.mark.parametrize("call", [lambda s, k: s.put(k, 1), lambda s, k: s.get(k), lambda s, k: s.contains(k)])
def test_what_is_no_row_is_no_row_key(context, key, call):
    info = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.STRING()])
    state = context.get_map_state(MapStateDescriptor("m", info, Types.LONG()))
    context.set_current_key("x")
    with pytest.raises(sfkv.SchemaError) as raised:
        call(state, key)
    assert raised.value.state == "m"
    assert state.is_empty()


def test_what_does_not_fit_names_the_state(context):
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    context.set_current_key("x")
    listed = context.get_list_state(ListStateDescriptor("l", pair))
    mapped = context.get_map_state(MapStateDescriptor("m", Types.LONG(), pair))
    reducing = context.get_reducing_state(ReducingStateDescriptor("r", max, pair))
    for call, name in [
        (lambda: listed.add(1), "l"),
        (lambda: listed.add_all([(1, 2), 1]), "l"),
        (lambda: listed.update([1]), "l"),
        (lambda: mapped.put(1, 1), "m"),
        (lambda: mapped.put_all({1: 1}), "m"),
        (lambda: reducing.add(1), "r"),
    ]:
        with pytest.raises(sfkv.SchemaError, match=f"a tuple of 2 fields is expected, .*state '{name}'") as raised:
            call()
        assert raised.value.state == name


def test_big_integers_in_tuples_are_user_keys(context):
    state = context.get_map_state(MapStateDescriptor("m", Types.TUPLE([Types.BIG_INT(), Types.STRING()]), Types.LONG()))
    context.set_current_key("x")
    state.put((10**40, "a"), 1)
    (key,) = state.keys()
    assert key == (10**40, "a")
    assert type(key[0]) is int


@dataclass
class Point:
    x: int
    y: int | None


def test_classes_and_schemas_are_types_too(context):
    state = context.get_state(ValueStateDescriptor("v", Point))
    state.update(Point(1, None))
    assert state.value() == Point(1, None)
    fields = context.get_state(ValueStateDescriptor("d", {"x": int}))
    fields.update({"x": 1})
    assert fields.value() == {"x": 1}


def test_types_are_equal_by_what_they_hold_and_show_it():
    assert Types.TUPLE([Types.INT()]) == Types.TUPLE([pa.int32()])
    assert Types.TUPLE([Types.INT()]) != Types.ROW([Types.INT()])
    for info in (info for info, _, _ in VALUES.values()):
        assert pickle.loads(pickle.dumps(info)) == info
    assert repr(Types.TUPLE([Types.INT(), Types.STRING()])) == "Types.TUPLE([int32, string])"
    assert repr(Types.ROW([Types.INT()])) == "Types.ROW([int32])"
    assert repr(Types.ROW_NAMED(["a"], [Types.BIG_INT()])) == "Types.ROW_NAMED(['a'], [Types.BIG_INT()])"
    assert repr(Types.LIST(Types.MAP(Types.STRING(), Types.INT()))) == "Types.LIST(Types.MAP(string, int32))"


# --- Rows.


def test_rows_have_fields_by_place_and_by_name():
    row = Row(id=1, name="a")
    assert (row[0], row["name"], row.id, row[-1]) == (1, "a", 1, "a")
    row.id, row["name"], row[0] = 2, "b", 3
    assert row.as_dict() == {"id": 3, "name": "b"}
    assert row.get_fields_by_names(["name", "id"]) == ["b", 3]
    assert list(row) == [3, "b"]
    assert len(row) == 2
    assert "b" in row
    assert repr(row) == "Row(id=3, name='b')"


def test_rows_get_names_later_or_by_a_call():
    row = Row(1, "a")
    assert repr(row) == "Row(1, 'a')"
    row.set_field_names(["id", "name"])
    assert row == Row(id=1, name="a") == Row("id", "name")(1, "a")
    assert Row(Row(id=1), [2]).as_dict.__self__[0].as_dict() == {"id": 1}
    outer = Row(inner=Row(id=1), plain=2)
    assert outer.as_dict(recursive=True) == {"inner": {"id": 1}, "plain": 2}
    assert outer.as_dict() == {"inner": Row(id=1), "plain": 2}


def test_rows_are_equal_by_values_and_by_names_where_both_have_some():
    assert Row(1, 2) == Row(a=1, b=2)
    assert Row(a=1, b=2) != Row(b=1, a=2)
    assert Row(1) != Row(2)
    assert Row(1) != (1,)
    assert hash(Row(1, "a")) == hash(Row(id=1, name="a"))
    assert len({Row(1), Row(a=1)}) == 1


def test_rows_are_copied_and_pickled():
    for row in (Row(), Row(1, [2]), Row(id=1, name=None)):
        for again in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
            assert again == row
            assert repr(again) == repr(row)


def test_rows_refuse_what_they_have_not():
    with pytest.raises(sfkv.SchemaError, match="not both"):
        Row(1, a=2)
    with pytest.raises(sfkv.SchemaError, match="2 fields, and was given 1"):
        Row(1, 2).set_field_names(["a"])
    with pytest.raises(sfkv.SchemaError, match="no names"):
        Row(1).as_dict()
    for row in (Row(1), Row(a=1)):
        with pytest.raises(sfkv.SchemaError, match="no field 'b'"):
            row["b"]
        with pytest.raises(IndexError):
            row[1]
        with pytest.raises(AttributeError, match="no field 'b'"):
            row.b  # noqa: B018
        with pytest.raises(AttributeError):
            row.b = 1
