"""States by descriptors and a current key: PyFlink's methods, and what they do at their edges."""

import pytest

import sfkv
from sfkv.flink import (
    ListStateDescriptor,
    MapStateDescriptor,
    Row,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)


@pytest.fixture
def value(context):
    return context.get_state(ValueStateDescriptor("v", Types.LONG()))


@pytest.fixture
def listed(context):
    return context.get_list_state(ListStateDescriptor("l", Types.STRING()))


@pytest.fixture
def mapped(context):
    return context.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))


# --- The current key.


def test_without_a_current_key_every_call_says_what_to_do(keyed):
    context = RuntimeContext(keyed)
    value = context.get_state(ValueStateDescriptor("v", Types.LONG()))
    listed = context.get_list_state(ListStateDescriptor("l", Types.LONG()))
    mapped = context.get_map_state(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
    for call in (
        context.get_current_key,
        value.value,
        lambda: value.update(1),
        value.clear,
        listed.get,
        lambda: list(listed),
        lambda: listed.add(1),
        lambda: listed.add_all([1]),
        lambda: listed.update([1]),
        listed.clear,
        lambda: mapped.get(1),
        lambda: mapped.put(1, 1),
        lambda: mapped.put_all({1: 1}),
        lambda: mapped.remove(1),
        lambda: mapped.contains(1),
        mapped.items,
        mapped.keys,
        mapped.values,
        mapped.is_empty,
        mapped.clear,
        lambda: 1 in mapped,
        lambda: list(mapped),
    ):
        with pytest.raises(sfkv.UsageError, match="set_current_key") as raised:
            call()
        assert raised.value.code == "no_current_key"
    assert keyed.value_state("v", int).scan().to_arrow().num_rows == 0
    context.set_current_key("a")
    assert value.value() is None


def test_states_work_on_the_key_that_is_current(context, value, listed, mapped):
    for number, key in enumerate(["a", "b", "a"]):
        context.set_current_key(key)
        assert context.get_current_key() == key
        value.update((value.value() or 0) + 1)
        listed.add(f"{key}{number}")
        mapped[key] = number
    assert (value.value(), listed.get(), dict(mapped.items())) == (2, ["a0", "a2"], {"a": 2})
    context.set_current_key("b")
    assert (value.value(), listed.get(), dict(mapped.items())) == (1, ["b1"], {"b": 1})
    context.set_current_key("c")
    assert (value.value(), listed.get(), dict(mapped.items())) == (None, [], {})


def test_a_switch_of_the_key_without_an_access_changes_nothing(context, value):
    value.update(1)
    context.set_current_key("b")
    context.set_current_key("a")
    assert value.value() == 1


def test_none_is_no_key(context):
    with pytest.raises(sfkv.UsageError, match="cannot be None"):
        context.set_current_key(None)
    assert context.get_current_key() == "a"


def test_a_key_of_another_type_is_refused_by_its_first_use(context, value):
    context.set_current_key(7)
    with pytest.raises(sfkv.SchemaError, match="state 'v'"):
        value.value()
    with pytest.raises(sfkv.SchemaError):
        value.update(1)


def test_contexts_of_one_backend_have_a_current_key_each(keyed, context, value):
    other = RuntimeContext(keyed)
    other.set_current_key("b")
    same = other.get_state(ValueStateDescriptor("v", Types.LONG()))
    same.update(2)
    assert value.value() is None
    context.set_current_key("b")
    assert value.value() == 2


def test_keys_of_several_columns_are_tuples(backend, tmp_path):
    key = Types.TUPLE([Types.STRING(), Types.INT()]).arrow
    with backend.open(tmp_path / "s", key=key) as keyed:
        context = RuntimeContext(keyed)
        count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        context.set_current_key(("a", 1))
        count.update(5)
        context.set_current_key(("a", 2))
        assert count.value() is None
        assert keyed.value_state("count", int).get(("a", 1)) == 5


def test_states_are_those_of_the_backend(keyed, context, value, listed, mapped):
    value.update(1)
    listed.add("x")
    mapped.put("k", 2)
    assert keyed.states == {"v": "value<int64>", "l": "list<utf8>", "m": "map<utf8, int64>"}
    assert keyed.value_state("v", int).get("a") == 1
    assert keyed.list_state("l", str).get_many(["a"]).to_pylist() == [["x"]]
    keyed.map_state("m", str, int).put("a", "z", 3)
    assert dict(mapped.items()) == {"k": 2, "z": 3}


def test_a_context_is_of_a_backend():
    with pytest.raises(sfkv.UsageError, match="KeyedStateBackend"):
        RuntimeContext({})


# --- Value.


def test_a_value_is_updated_and_cleared(value):
    assert value.value() is None
    value.update(1)
    value.update(2)
    assert value.value() == 2
    value.clear()
    assert value.value() is None
    value.clear()


def test_updating_with_none_clears(keyed, value):
    value.update(1)
    value.update(None)
    assert value.value() is None
    assert "a" not in keyed.value_state("v", int)


def test_a_value_of_another_type_is_refused_and_the_state_is_as_it_was(value):
    value.update(1)
    for wrong in ("x", 1.5, 2**63, True):
        with pytest.raises(sfkv.SchemaError, match="state 'v'"):
            value.update(wrong)
    assert value.value() == 1


# --- List.


def test_a_list_keeps_the_order_of_adding(listed):
    assert listed.get() == []
    listed.add("b")
    listed.add_all(["a", "c"])
    listed.add("b")
    assert listed.get() == list(listed) == ["b", "a", "c", "b"]


def test_what_is_read_of_a_list_may_be_changed_freely(listed):
    listed.add("a")
    listed.get().append("b")
    assert listed.get() == ["a"]


def test_an_update_replaces_a_list_and_an_empty_one_clears(keyed, listed):
    listed.add_all(["a", "b"])
    listed.update(["c"])
    assert listed.get() == ["c"]
    listed.update([])
    assert listed.get() == []
    assert "a" not in keyed.list_state("l", str)
    listed.add_all(("d", "e"))
    listed.clear()
    assert listed.get() == []


def test_adding_nothing_does_nothing(keyed, listed):
    listed.add_all([])
    assert "a" not in keyed.list_state("l", str)
    listed.add("a")
    listed.add_all([])
    assert listed.get() == ["a"]


def test_none_is_no_element_and_no_list(listed):
    listed.add("a")
    for call in (
        lambda: listed.add(None),
        lambda: listed.add_all(None),
        lambda: listed.add_all(["b", None]),
        lambda: listed.update(None),
        lambda: listed.update(["b", None]),
        lambda: listed.add_all("text"),
        lambda: listed.update(7),
        lambda: listed.add(7),
    ):
        with pytest.raises(sfkv.SchemaError):
            call()
    assert listed.get() == ["a"]


# --- Map.


def test_a_map_is_used_by_pyflinks_methods(mapped):
    assert mapped.is_empty()
    mapped.put("b", 2)
    mapped.put_all({"c": 3, "a": 1})
    assert not mapped.is_empty()
    assert (mapped.get("a"), mapped.get("z")) == (1, None)
    assert (mapped.contains("b"), mapped.contains("z")) == (True, False)
    assert list(mapped.items()) == [("a", 1), ("b", 2), ("c", 3)]
    assert list(mapped.keys()) == list(mapped) == ["a", "b", "c"]
    assert list(mapped.values()) == [1, 2, 3]
    mapped.remove("b")
    mapped.remove("b")
    assert list(mapped.keys()) == ["a", "c"]
    mapped.clear()
    assert mapped.is_empty()
    assert list(mapped.items()) == []


def test_a_map_has_item_access_that_knows_no_key_error(mapped):
    mapped["a"] = 1
    assert "a" in mapped
    assert mapped["a"] == 1
    assert mapped["z"] is None
    del mapped["a"]
    del mapped["a"]
    assert "a" not in mapped


def test_a_map_may_hold_none_which_is_not_absent(mapped):
    mapped.put("n", None)
    mapped.put_all({"o": None})
    assert mapped.get("n") is None
    assert mapped.contains("n")
    assert not mapped.is_empty()
    assert dict(mapped.items()) == {"n": None, "o": None}


def test_putting_an_empty_dict_does_nothing_and_none_is_refused(keyed, mapped):
    mapped.put_all({})
    assert "a" not in keyed.map_state("m", str, int)
    for wrong in (None, 7, [("a", 1)]):
        with pytest.raises(sfkv.SchemaError):
            mapped.put_all(wrong)
    for call in (lambda: mapped.put(None, 1), lambda: mapped.put(1, 1), lambda: mapped.put("a", "x"), lambda: mapped.get(1)):
        with pytest.raises(sfkv.SchemaError):
            call()
    assert mapped.is_empty()


def test_what_a_map_gives_stays_with_its_key_and_is_read_anew_each_time(context, mapped):
    mapped.put_all({"a": 1, "b": 2})
    items, keys, values = mapped.items(), mapped.keys(), mapped.values()
    context.set_current_key("other")
    mapped.put("z", 26)
    assert (list(items), list(keys), list(values)) == ([("a", 1), ("b", 2)], ["a", "b"], [1, 2])
    context.set_current_key("a")
    mapped.remove("a")
    assert (list(items), list(keys), list(values)) == ([("b", 2)], ["b"], [2])


@pytest.mark.parametrize("count", [127, 128, 129, 1000])
def test_entries_may_be_removed_while_a_map_is_passed_over(context, count):
    mapped = context.get_map_state(MapStateDescriptor("big", Types.INT(), Types.INT()))
    mapped.put_all({number: number for number in range(count)})
    seen = []
    for key in mapped:
        seen.append(key)
        mapped.remove(key)
        mapped.put(key + 10_000, 0)
    assert seen == list(range(count))
    assert list(mapped) == [number + 10_000 for number in range(count)]
    iterator = iter(mapped.items())
    assert len(list(iterator)) == count
    with pytest.raises(StopIteration):
        next(iterator)


# --- Types that differ from Arrow's.


def test_tuples_rows_and_dicts_come_back_as_they_went_in(context):
    info = Types.TUPLE([Types.STRING(), Types.LIST(Types.ROW_NAMED(["id"], [Types.INT()])), Types.MAP(str, Types.BIG_INT())])
    written = ("x", [Row(id=1), None], {"big": 10**50, "none": None})
    value = context.get_state(ValueStateDescriptor("v", info))
    value.update(written)
    assert value.value() == written
    assert type(value.value()) is tuple
    assert type(value.value()[2]["big"]) is int
    value.update((None, None, None))
    assert value.value() == (None, None, None)
    value.update(None)
    assert value.value() is None
    listed = context.get_list_state(ListStateDescriptor("l", info))
    listed.add(written)
    listed.add_all([written, (None, [], {})])
    assert listed.get() == [written, written, (None, [], {})]
    listed.update([written])
    assert list(listed) == [written]


@pytest.mark.parametrize("make", [tuple, Row], ids=["tuples", "rows"])
def test_user_keys_of_several_columns(context, make):
    of_two = [Types.STRING(), Types.INT()]
    info = Types.TUPLE(of_two) if make is tuple else Types.ROW(of_two)
    key = (lambda *parts: parts) if make is tuple else Row
    mapped = context.get_map_state(MapStateDescriptor("m", info, Types.ROW_NAMED(["n"], [Types.LONG()])))
    mapped.put(key("b", 1), Row(n=1))
    mapped.put_all({key("a", 2): Row(2), key("a", 1): None})
    assert list(mapped) == [key("a", 1), key("a", 2), key("b", 1)]
    assert list(mapped.items()) == [(key("a", 1), None), (key("a", 2), Row(n=2)), (key("b", 1), Row(n=1))]
    assert list(mapped.values()) == [None, Row(n=2), Row(n=1)]
    assert mapped.get(key("a", 2)).n == 2
    assert mapped[key("z", 2)] is None
    assert key("a", 1) in mapped
    assert mapped.contains(key("b", 1))
    mapped.remove(key("a", 1))
    del mapped[key("b", 1)]
    assert list(mapped.keys()) == [key("a", 2)]


def test_big_integers_are_user_keys(context):
    mapped = context.get_map_state(MapStateDescriptor("m", Types.BIG_INT(), Types.LONG()))
    mapped.put_all({10**30: 1, -1: 2})
    assert list(mapped.items()) == [(-1, 2), (10**30, 1)]
    assert type(next(iter(mapped))) is int


def test_none_is_refused_where_it_is_without_types_that_differ(context):
    listed = context.get_list_state(ListStateDescriptor("l", Types.TUPLE([int])))
    for call in (lambda: listed.add(None), lambda: listed.add_all([(1,), None]), lambda: listed.update(None)):
        with pytest.raises(sfkv.SchemaError, match="None"):
            call()
    for wrong in ("text", 7, [7], [(1, 2)]):
        with pytest.raises(sfkv.SchemaError):
            listed.add_all(wrong)
    assert listed.get() == []
    mapped = context.get_map_state(MapStateDescriptor("m", str, Types.TUPLE([int])))
    for wrong in (None, [("a", (1,))], {"a": 1}):
        with pytest.raises(sfkv.SchemaError):
            mapped.put_all(wrong)
    assert mapped.is_empty()


# --- Registering.


def test_another_kind_of_descriptor_is_refused(context):
    value, listed = ValueStateDescriptor("v", int), ListStateDescriptor("l", int)
    for call in (
        lambda: context.get_state(listed),
        lambda: context.get_list_state(value),
        lambda: context.get_map_state(value),
        lambda: context.get_reducing_state(value),
        lambda: context.get_aggregating_state(value),
        lambda: context.get_state("v"),
    ):
        with pytest.raises(sfkv.UsageError, match="takes a .*Descriptor"):
            call()


def test_a_second_descriptor_of_another_type_is_refused_and_shows_both(context, value):
    value.update(1)
    assert context.get_state(ValueStateDescriptor("v", int)).value() == 1
    with pytest.raises(sfkv.SchemaError, match="value<int64>.*value<utf8>"):
        context.get_state(ValueStateDescriptor("v", Types.STRING()))
    with pytest.raises(sfkv.SchemaError, match="value<int64>.*list<int64>"):
        context.get_list_state(ListStateDescriptor("v", Types.LONG()))
    assert value.value() == 1


def test_state_is_there_again_after_reopening(backend, tmp_path):
    def open_it(use):
        with backend.open(tmp_path / "s", key=str) as keyed:
            context = RuntimeContext(keyed)
            context.set_current_key("a")
            use(keyed, context.get_state(ValueStateDescriptor("v", Types.ROW_NAMED(["n"], [int]))))

    def write(keyed, state):
        state.update(Row(n=5))
        keyed.snapshot(1, tmp_path / "chk").result()

    open_it(write)
    with backend.restore(tmp_path / "r", tmp_path / "chk" / "chk-1") as keyed:
        context = RuntimeContext(keyed)
        context.set_current_key("a")
        assert context.get_state(ValueStateDescriptor("v", Types.ROW_NAMED(["n"], [int]))).value() == Row(n=5)


def test_states_of_a_closed_backend_say_so(backend, tmp_path):
    with backend.open(tmp_path / "s", key=str) as keyed:
        context = RuntimeContext(keyed)
        context.set_current_key("a")
        value = context.get_state(ValueStateDescriptor("v", int))
    for call in (value.value, lambda: value.update(1), value.clear):
        with pytest.raises(sfkv.ClosedError):
            call()


def test_states_and_contexts_show_what_they_are(context, value, listed, mapped):
    assert repr(value) == "flink.ValueState('v', int64)"
    assert repr(listed) == "flink.ListState('l', utf8)"
    assert repr(mapped) == "flink.MapState('m', utf8, int64)"
    assert repr(context).startswith("RuntimeContext(KeyedStateBackend(")


# --- Beside sfkv's own calls.


def test_calls_take_part_in_a_batch(keyed, context, value, listed, mapped):
    value.update(1)
    with keyed.batch(offset=7):
        value.update(2)
        listed.add("x")
        mapped.put("k", 3)
        assert (value.value(), listed.get(), mapped.get("k")) == (2, ["x"], 3)
    assert keyed.offset == 7
    with pytest.raises(RuntimeError), keyed.batch(offset=8):
        value.update(9)
        mapped.clear()
        raise RuntimeError
    assert (value.value(), listed.get(), mapped.get("k"), keyed.offset) == (2, ["x"], 3, 7)


def test_bundles_and_batches_of_the_same_state_are_seen(keyed, context, value):
    value.update(1)
    plain = keyed.value_state("v", int)
    with plain.bundle(["a", "b"]) as rows:
        rows["a"] += 1
        rows["b"] = 5
    assert value.value() == 2
    context.set_current_key("b")
    assert value.value() == 5
    value.update(6)
    assert plain.get_many(["b", "a"]).to_pylist() == [6, 2]


def test_a_key_outside_of_the_range_is_refused(backend, tmp_path):
    with backend.open(tmp_path / "s", key=Types.STRING(), key_groups=(0, 63)) as keyed:
        context = RuntimeContext(keyed)
        value = context.get_state(ValueStateDescriptor("v", Types.LONG()))
        names = list("abcdefgh")
        outside = next(name for name, group in zip(names, sfkv.key_groups(names, 128).tolist(), strict=True) if group > 63)
        context.set_current_key(outside)
        with pytest.raises(sfkv.KeyGroupError):
            value.update(1)
