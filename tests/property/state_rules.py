"""The state machine's rules for value, list and map states. Inside a batch, others call them too."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.property.keys import canonical, order
from tests.property.machine import ABSENT, OFFSETS, Base
from tests.property.values import FOLDS, VALUES, plain, plain_entries, plain_lists, values_of


class ValueRules(Base):
    @rule(data=st.data())
    def put(self, data):
        state, model, type = self.pick(data, "value")
        key, value = self.key(data), data.draw(st.none() | VALUES[type])
        state.put(key, value)
        model.put(key, value)
        self.mark()

    @rule(data=st.data(), offset=OFFSETS)
    def put_many(self, data, offset):
        state, model, type = self.pick(data, "value")
        keys = self.keys(data)
        values = [data.draw(st.none() | VALUES[type]) for _ in keys]
        state.put_many(self.shaped(data, keys), values, offset=offset)
        model.put_many(keys, values)
        self.set_offset(offset)
        self.mark("in order" if offset is None else "whole")

    @rule(data=st.data(), offset=OFFSETS)
    def clear_values(self, data, offset):
        state, model, _ = self.pick(data, "value")
        keys = self.keys(data)
        if len(keys) == 1:
            state.clear(keys[0])
            offset = None
        else:
            state.clear_many(self.shaped(data, keys), offset=offset)
        model.clear_many(keys)
        self.set_offset(offset)
        self.mark("in order" if offset is None else "whole")

    @rule(data=st.data())
    def read_values(self, data):
        state, model, type = self.pick(data, "value")
        keys = self.keys(data)
        batch = self.shaped(data, keys)
        assert plain(type, state.get_many(batch)) == model.get_many(keys)
        assert [state.get(key) for key in keys] == model.get_many(keys)
        assert state.contains_many(batch).to_pylist() == model.contains_many(keys)
        assert [key in state for key in keys] == model.contains_many(keys)

    @rule(data=st.data(), offset=OFFSETS)
    def work_on_a_bundle(self, data, offset):
        state, model, type = self.pick(data, "value")
        keys = self.keys(data)
        fails = data.draw(st.booleans(), label="fails")
        changes = {}
        try:
            with state.bundle(self.shaped(data, keys), offset=offset) as rows:
                assert list(map(canonical, rows)) == list(dict.fromkeys(keys))
                assert list(rows.values()) == model.get_many(list(map(canonical, rows)))
                for key in list(rows):
                    if data.draw(st.booleans()):
                        changes[canonical(key)] = rows[key] = data.draw(st.none() | VALUES[type])
                        if rows[key] is None and data.draw(st.booleans()):
                            del rows[key]
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return
        model.put_many(list(changes), list(changes.values()))
        self.set_offset(offset)
        self.mark("in order" if offset is None else "whole")


class ListRules(Base):
    @rule(data=st.data(), offset=OFFSETS)
    def add_to_lists(self, data, offset):
        state, model, type = self.pick(data, "list")
        keys = self.keys(data)
        values = [data.draw(VALUES[type]) for _ in keys]
        if data.draw(st.booleans(), label="one by one"):
            for key, value in zip(keys, values, strict=True):
                state.add(key, value)
                model.add(key, value)
                self.mark()
        else:
            state.add_many(self.shaped(data, keys), values, offset=offset)
            model.add_many(keys, values)
            self.set_offset(offset)
            self.mark("in order" if offset is None else "whole")

    @rule(data=st.data())
    def change_a_list(self, data):
        state, model, type = self.pick(data, "list")
        key, values = self.key(data), data.draw(st.lists(VALUES[type], max_size=4))
        how = data.draw(st.sampled_from(["add_all", "update", "clear"]))
        if how == "clear":
            state.clear(key)
            model.clear(key)
        else:
            getattr(state, how)(key, values)
            getattr(model, how)(key, values)
        self.mark()

    @rule(data=st.data(), offset=OFFSETS)
    def replace_lists(self, data, offset):
        state, model, type = self.pick(data, "list")
        keys = self.keys(data)
        if data.draw(st.integers(0, 3)) == 0:
            state.clear_many(self.shaped(data, keys), offset=offset)
            model.clear_many(keys)
        else:
            lists = [data.draw(st.none() | st.lists(VALUES[type], max_size=4)) for _ in keys]
            state.update_many(self.shaped(data, keys), lists, offset=offset)
            model.update_many(keys, lists)
        self.set_offset(offset)
        self.mark("in order" if offset is None else "whole")

    @rule(data=st.data())
    def read_lists(self, data):
        state, model, type = self.pick(data, "list")
        keys = self.keys(data)
        expected = model.get_many(keys)
        assert [state.get(key) for key in keys] == expected
        assert plain_lists(type, state.get_many(self.shaped(data, keys))) == expected
        assert state.contains_many(keys).to_pylist() == [bool(values) for values in expected]
        assert [key in state for key in keys] == [bool(values) for values in expected]


class FoldRules(Base):
    """Reducing and aggregating states."""

    def pick_fold(self, data):
        kind = data.draw(st.sampled_from(sorted(FOLDS)), label="kind")
        state, model, type = self.pick(data, kind)
        return state, model, VALUES[values_of(kind, type)]

    @rule(data=st.data(), offset=OFFSETS)
    def add_to_folds(self, data, offset):
        state, model, values_of_type = self.pick_fold(data)
        keys = self.keys(data)
        values = [data.draw(values_of_type) for _ in keys]
        if data.draw(st.booleans(), label="one by one"):
            for key, value in zip(keys, values, strict=True):
                state.add(key, value)
                model.add(key, value)
                self.mark()
        else:
            state.add_many(self.shaped(data, keys), values, offset=offset)
            model.add_many(keys, values)
            self.set_offset(offset)
            self.mark("in order" if offset is None else "whole")

    @rule(data=st.data(), offset=OFFSETS)
    def clear_folds(self, data, offset):
        state, model, _ = self.pick_fold(data)
        keys = self.keys(data)
        state.clear_many(self.shaped(data, keys), offset=offset)
        model.clear_many(keys)
        self.set_offset(offset)
        self.mark("in order" if offset is None else "whole")

    @rule(data=st.data())
    def read_folds(self, data):
        state, model, _ = self.pick_fold(data)
        keys = self.keys(data)
        batch = self.shaped(data, keys)
        assert state.get_many(batch).to_pylist() == model.get_many(keys)
        assert [state.get(key, ABSENT) for key in keys] == [model.get(key, ABSENT) for key in keys]
        assert state.contains_many(batch).to_pylist() == model.contains_many(keys)
        assert [key in state for key in keys] == model.contains_many(keys)


class MapRules(Base):
    """Maps have the keys of the backend as user keys too."""

    @rule(data=st.data(), offset=OFFSETS)
    def put_entries(self, data, offset):
        state, model, type = self.pick(data, "map")
        keys, user_keys = self.entry_keys(data)
        values = [data.draw(st.none() | VALUES[type]) for _ in keys]
        if data.draw(st.booleans(), label="one by one"):
            for entry in zip(keys, user_keys, values, strict=True):
                state.put(*entry)
                model.put(*entry)
                self.mark()
        else:
            state.put_many(self.shaped(data, keys), user_keys, values, offset=offset)
            model.put_many(keys, user_keys, values)
            self.set_offset(offset)
            self.mark("in order" if offset is None else "whole")

    @rule(data=st.data(), offset=OFFSETS)
    def remove_entries(self, data, offset):
        state, model, _ = self.pick(data, "map")
        keys, user_keys = self.entry_keys(data)
        if data.draw(st.booleans(), label="whole maps"):
            state.clear_many(self.shaped(data, keys), offset=offset)
            model.clear_many(keys)
        else:
            state.delete_many(self.shaped(data, keys), user_keys, offset=offset)
            model.delete_many(keys, user_keys)
        self.set_offset(offset)
        self.mark("in order" if offset is None else "whole")

    @rule(data=st.data())
    def read_entries(self, data):
        state, model, type = self.pick(data, "map")
        keys, user_keys = self.entry_keys(data)
        batch = self.shaped(data, keys)
        assert plain(type, state.get_many(batch, user_keys)) == model.get_many(keys, user_keys)
        assert state.contains_many(batch, user_keys).to_pylist() == model.contains_many(keys, user_keys)
        assert state.contains_many(batch).to_pylist() == model.contains_many(keys)
        for key, user_key in zip(keys, user_keys, strict=True):
            assert state.get(key, user_key, ABSENT) == model.get(key, user_key, ABSENT)
            assert state.is_empty(key) == model.is_empty(key)
        assert plain_entries(type, state.items_many(batch)) == [self.entries(model, key) for key in keys]

    def entries(self, model, key):
        return sorted(model.items(key).items(), key=lambda entry: order(entry[0]))

    @rule(data=st.data())
    def change_a_map_by_its_view(self, data):
        state, model, type = self.pick(data, "map")
        keys, user_keys = self.entry_keys(data)
        for key, user_key in list(zip(keys, user_keys, strict=True))[:4]:
            view, how = state[key], data.draw(st.sampled_from(["set", "delete", "pop", "setdefault", "update", "clear"]))
            pass_over = iter(view.items())
            before = self.entries(model, key)
            first = [next(pass_over)] if before else []
            value = data.draw(st.none() | VALUES[type])
            was = model.get(key, user_key, ABSENT)
            if how == "set":
                view[user_key] = value
                model.put(key, user_key, value)
            elif how == "delete" and was is ABSENT:
                with pytest.raises(KeyError):
                    del view[user_key]
            elif how == "delete":
                del view[user_key]
                model.delete(key, user_key)
            elif how == "pop":
                assert view.pop(user_key, ABSENT) == was
                model.delete(key, user_key)
            elif how == "setdefault":
                assert view.setdefault(user_key, value) == (value if was is ABSENT else was)
                if was is ABSENT:
                    model.put(key, user_key, value)
            elif how == "update":
                several = dict.fromkeys(user_keys, value)
                view.update(several)
                model.put_all(key, several)
            else:
                view.clear()
                model.clear(key)
            self.mark("any" if how == "update" else "whole")
            assert [(canonical(user_key), entry) for user_key, entry in [*first, *pass_over]] == before
            self.check_view(view, self.entries(model, key))

    def check_view(self, view, entries):
        assert len(view) == len(view.items()) == len(entries)
        assert bool(view) == bool(entries)
        assert list(map(canonical, view)) == [user_key for user_key, _ in entries]
        assert list(view.values()) == [value for _, value in entries]
        for user_key, value in entries:
            assert user_key in view
            assert view[user_key] == value
            assert (user_key, value) in view.items()
