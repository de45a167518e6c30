"""Whatever a state takes in, in whatever layout, it stores as FORMAT.md says and gives back as it was."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sfkv
from sfkv._types import KeySchema, ValueSchema
from tests.format import decoder
from tests.format import strategies as sts
from tests.format.arrays import plain, simplest
from tests.format.running import draw_chunked, examples, may_lack_an_object, run, same, with_one_nan

pytestmark = pytest.mark.backends

any_type = sts.value_types | sts.records | sts.deep_types()
types = pa.types
INT32 = pa.int32()
KEYS = [0, 1, -1, 2**31 - 1, 7, 8]


def opened(path: Any, key: Any = INT32) -> sfkv.KeyedStateBackend:
    return sfkv.open(path, key=key, max_parallelism=128)


def afresh(keyed: sfkv.KeyedStateBackend) -> sfkv.KeyedStateBackend:
    """The store without the state of the example before."""
    if "state" in keyed.states:
        keyed.drop_state("state")
    return keyed


def stored_rows(state: Any) -> dict[bytes, bytes]:
    """What the database has of a state, by key row and what is behind it."""
    rows = state._table.store.read_range(b"", b"\xff\xff")
    return {key[3:]: value for key, value in rows.items() if key[2] == state._table.id}


def as_columns(value: Any, schema: KeySchema | ValueSchema) -> list[Any]:
    return value if schema.is_record or value is None else [value]


def key_row(key: int) -> bytes:
    return (key + 2**31).to_bytes(4, "big")


def check_array(array: pa.Array, arrow: pa.DataType, values: list[Any]) -> None:
    array.validate(full=True)
    assert array.type == arrow
    assert plain(array) == values


def check_single(state: Any, value: Any, arrow: pa.DataType) -> None:
    """The object that ``get`` gives is the batch's, and ``put`` stores what the batch has stored."""
    try:
        found = state.get(KEYS[0])
        state.put(KEYS[-1], found)
    except sfkv.SchemaError:
        assert may_lack_an_object(arrow)
        return
    (again,) = plain(state.get_many(pa.array([KEYS[-1]], pa.int32())))
    assert with_one_nan(again, arrow) == with_one_nan(value, arrow)
    assert same(state.get(KEYS[-1]), found)


@examples(quick=60)
def test_value_states_give_back_what_they_take(tmp_path, examples):
    def check(data):
        arrow = data.draw(any_type)
        schema = ValueSchema.of(arrow)
        values = data.draw(st.lists(sts.values(arrow, nullable=True), min_size=1, max_size=len(KEYS)))
        state = afresh(keyed).value_state("state", arrow)
        keys = pa.array(KEYS[: len(values)], pa.int32())
        state.put_many(keys, draw_chunked(data, data.draw(sts.arrays(values, arrow))))
        check_array(state.get_many(keys), schema.arrow, values)
        present = {key: value for key, value in zip(KEYS, values, strict=False) if value is not None}
        assert stored_rows(state) == {
            key_row(key): decoder.encode_value_row(schema.describe(), as_columns(value, schema))
            for key, value in present.items()
        }
        with state.scan(batch_rows=data.draw(st.integers(1, 4))) as scan:
            check_scan(pa.Table.from_batches(list(scan), scan.schema), schema, present)
        if values[0] is not None:
            check_single(state, values[0], schema.arrow)

    with opened(tmp_path / "s") as keyed:
        run(examples, check)


def check_scan(table: pa.Table, schema: ValueSchema, present: dict[int, Any]) -> None:
    columns = [plain(column.combine_chunks()) for column in table.columns]
    found = {row[0]: list(row[1:]) for row in zip(*columns, strict=True)}
    assert found == {key: as_columns(value, schema) for key, value in present.items()}
    assert list(table.schema.types[1:]) == [column.type for column in schema.columns]


@examples(quick=40)
def test_list_states_give_back_what_they_take(tmp_path, examples):
    def check(data):
        arrow = data.draw(any_type)
        schema = ValueSchema.of(arrow)
        lists = data.draw(st.lists(st.lists(sts.values(arrow, nullable=False), max_size=3), min_size=1, max_size=3))
        state = afresh(keyed).list_state("state", arrow)
        keys = pa.array(KEYS[: len(lists)], pa.int32())
        whole = pa.list_(pa.field("item", arrow, nullable=False))
        state.update_many(keys, draw_chunked(data, data.draw(sts.arrays(lists, whole))))
        check_array(state.get_many(keys), pa.list_(schema.item), lists)
        more = data.draw(sts.arrays([part for part in lists for part in part], arrow))
        beside = [key for key, part in zip(KEYS, lists, strict=False) for _ in part]
        state.add_many(pa.array(beside, pa.int32()), draw_chunked(data, more))
        check_array(state.get_many(keys), pa.list_(schema.item), [part * 2 for part in lists])
        described = schema.describe()
        stored = {
            key_row(key): decoder.encode_list(described, [as_columns(value, schema) for value in part * 2])
            for key, part in zip(KEYS, lists, strict=False)
            if part
        }
        assert stored_rows(state) == stored
        for part, row in zip(filter(None, lists), stored.values(), strict=True):
            assert decoder.decode_list(described, row) == [as_columns(value, schema) for value in part * 2]
        check_single_list(state, lists[0] * 2, arrow)

    with opened(tmp_path / "s") as keyed:
        run(examples, check)


def check_single_list(state: Any, values: list[Any], arrow: pa.DataType) -> None:
    try:
        found = state.get(KEYS[0])
        state.update(KEYS[-1], found)
    except sfkv.SchemaError:
        assert may_lack_an_object(arrow)
        return
    (again,) = plain(state.get_many(pa.array([KEYS[-1]], pa.int32())))
    assert [with_one_nan(value, arrow) for value in again] == [with_one_nan(value, arrow) for value in values]


def loose(arrow: pa.DataType) -> pa.DataType:
    """A type that converts into this one: wider numbers, lists of any length, fields in another order."""
    if types.is_struct(arrow):
        return pa.struct([field.with_type(loose(field.type)) for field in list(arrow)[::-1]])
    if types.is_map(arrow):
        return pa.map_(loose(arrow.key_type), arrow.item_field.with_type(loose(arrow.item_type)))
    if types.is_nested(arrow):
        item = arrow.value_field.with_type(loose(arrow.value_type))
        return pa.list_(item) if types.is_fixed_size_list(arrow) or types.is_large_list(arrow) else pa.large_list(item)
    return pa.int64() if types.is_integer(arrow) and arrow != pa.uint64() else arrow


def turned(value: Any, arrow: pa.DataType) -> Any:
    """The plain value as one of the loose type."""
    if value is None or not types.is_nested(arrow):
        return value
    if types.is_struct(arrow):
        return [turned(part, field.type) for part, field in zip(value, arrow, strict=True)][::-1]
    if types.is_map(arrow):
        return [[turned(key, arrow.key_type), turned(item, arrow.item_type)] for key, item in value]
    return [turned(part, arrow.value_type) for part in value]


@examples(quick=60)
def test_what_is_converted_on_its_way_in_loses_nothing(tmp_path, examples):
    def check(data):
        arrow = data.draw(any_type)
        values = data.draw(st.lists(sts.values(arrow, nullable=True), min_size=1, max_size=len(KEYS)))
        state = afresh(keyed).value_state("state", arrow)
        keys = pa.array(KEYS[: len(values)], pa.int32())
        given = draw_chunked(data, data.draw(sts.arrays([turned(value, arrow) for value in values], loose(arrow))))
        state.put_many(keys, given)
        check_array(state.get_many(keys), state.type, values)

    with opened(tmp_path / "s") as keyed:
        run(examples, check)


def user_key_type(data: st.DataObject) -> Any:
    return data.draw(sts.key_columns() | sts.scalar_types)


def distinct(keys: list[Any], schema: KeySchema) -> list[Any]:
    """Those that differ as keys."""
    return list({decoder.encode_key_row(schema.describe(), as_columns(key, schema)): key for key in keys}.values())


@examples(quick=60)
def test_map_states_give_back_what_they_take(tmp_path, examples):
    def check(data):
        user_key, arrow = user_key_type(data), data.draw(any_type)
        users, schema = KeySchema.of(user_key), ValueSchema.of(arrow)
        user_keys = distinct(
            data.draw(st.lists(sts.values(users.arrow, nullable=False), min_size=1, max_size=3)),
            users,
        )
        values = [data.draw(sts.values(arrow, nullable=True)) for _ in user_keys]
        state = afresh(keyed).map_state("state", user_key, arrow)
        keys = pa.array([7] * len(values), pa.int32())
        entries = draw_chunked(data, data.draw(sts.arrays(user_keys, users.arrow)))
        state.put_many(keys, entries, draw_chunked(data, data.draw(sts.arrays(values, arrow))))
        check_array(state.get_many(keys, entries), schema.arrow, values)
        rows = [decoder.encode_key_row(users.describe(), as_columns(key, users)) for key in user_keys]
        stored = {
            key_row(7) + row: decoder.encode_entry(schema.describe(), as_columns(value, schema))
            for row, value in zip(rows, values, strict=True)
        }
        assert stored_rows(state) == stored
        items = state.items_many(pa.array([7], pa.int32()))
        items.validate(full=True)
        by_row = dict(zip(rows, values, strict=True))
        expected = [[decoder.decode_key_row(users.describe(), row), by_row[row]] for row in sorted(rows)]
        assert [[as_columns(key, users), value] for key, value in plain(items)[0]] == expected

    with opened(tmp_path / "s") as keyed:
        run(examples, check)


@examples(quick=40, slow=2000)
def test_keys_of_every_type_are_found_again(tmp_path_factory, examples):
    def check(data):
        type = user_key_type(data)
        schema = KeySchema.of(type)
        keys = distinct(data.draw(st.lists(sts.values(schema.arrow, nullable=False), min_size=1, max_size=5)), schema)
        array = draw_chunked(data, data.draw(sts.arrays(keys, schema.arrow)))
        with opened(tmp_path_factory.mktemp("keys") / "s", type) as keyed:
            state = afresh(keyed).value_state("state", int)
            state.put_many(array, pa.array(range(len(keys))))
            assert state.get_many(simplest(keys, schema.arrow)).to_pylist() == list(range(len(keys)))
            described = schema.describe()
            rows = {decoder.encode_key(described, as_columns(key, schema), 0, 128): i for i, key in enumerate(keys)}
            stored = state._table.store.read_range(b"", b"\xff\xff")
            assert stored == {row: i.to_bytes(8, "little") for row, i in rows.items()}
            with state.scan() as scan:
                found = pa.Table.from_batches(list(scan), scan.schema)
            columns = [plain(column.combine_chunks()) for column in found.columns]
            read = {i: list(cells) for *cells, i in zip(*columns, strict=True)}
            assert read == {i: decoder.decode_key_row(described, row[3:]) for row, i in rows.items()}

    run(examples, check)
