"""A program through sfkv.flink and the same one through sfkv's own states give equal answers, and leave equal states."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import sfkv
from sfkv.flink import ListStateDescriptor, MapStateDescriptor, RuntimeContext, Types, ValueStateDescriptor

RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])

KEYS = st.sampled_from(["a", "b", "", "ü"])
NUMBERS = st.integers(-(2**63), 2**63 - 1)
WRONG = st.sampled_from(["text", 2**63, 1.5, b"bytes"])
RECORDS = st.tuples(st.none() | st.text(max_size=3), st.none() | NUMBERS)
USER_KEYS = st.integers(-3, 3)


def steps() -> st.SearchStrategy[tuple[Any, ...]]:
    """A state, a method of it, and its arguments; or the key that becomes current; or the store opened again."""
    calls = {
        ("v", "value"): [],
        ("v", "update"): [st.none() | NUMBERS | WRONG],
        ("v", "clear"): [],
        ("r", "value"): [],
        ("r", "update"): [st.none() | RECORDS | WRONG],
        ("l", "get"): [],
        ("l", "add"): [st.none() | RECORDS | WRONG],
        ("l", "add_all"): [st.lists(RECORDS, max_size=4)],
        ("l", "update"): [st.lists(st.none() | RECORDS, max_size=3)],
        ("l", "clear"): [],
        ("m", "get"): [USER_KEYS],
        ("m", "put"): [USER_KEYS | WRONG, st.none() | RECORDS],
        ("m", "put_all"): [st.dictionaries(USER_KEYS, st.none() | RECORDS, max_size=4)],
        ("m", "remove"): [USER_KEYS],
        ("m", "contains"): [USER_KEYS],
        ("m", "items"): [],
        ("m", "keys"): [],
        ("m", "values"): [],
        ("m", "is_empty"): [],
        ("m", "clear"): [],
    }
    every = [st.tuples(st.just(state), st.just(method), *arguments) for (state, method), arguments in calls.items()]
    return st.one_of(st.tuples(st.just("key"), KEYS), st.tuples(st.just("reopen")), *every)


class ByFlink:
    """The program in Flink's manner."""

    def __init__(self, keyed: sfkv.KeyedStateBackend, key: str) -> None:
        self.context = RuntimeContext(keyed)
        self.context.set_current_key(key)
        self.states = {
            "v": self.context.get_state(ValueStateDescriptor("v", Types.LONG())),
            "r": self.context.get_state(ValueStateDescriptor("r", RECORD)),
            "l": self.context.get_list_state(ListStateDescriptor("l", RECORD)),
            "m": self.context.get_map_state(MapStateDescriptor("m", Types.LONG(), RECORD)),
        }

    def key(self, key: str) -> None:
        self.context.set_current_key(key)

    def call(self, state: str, method: str, *arguments: Any) -> Any:
        answer = getattr(self.states[state], method)(*arguments)
        return list(answer) if method in ("items", "keys", "values") else answer


class ByStates:
    """The same with a key in each call, and records as sfkv takes and gives them."""

    def __init__(self, keyed: sfkv.KeyedStateBackend, key: str) -> None:
        self.now = key
        columns = RECORD.arrow
        self.v = keyed.value_state("v", int)
        self.r = keyed.value_state("r", columns)
        self.l = keyed.list_state("l", columns)
        self.m = keyed.map_state("m", int, columns)

    def key(self, key: str) -> None:
        self.now = key

    def call(self, state: str, method: str, *arguments: Any) -> Any:
        key = self.now
        calls: dict[tuple[str, str], Callable[..., Any]] = {
            ("v", "value"): self.v.get,
            ("v", "update"): self.v.put,
            ("v", "clear"): self.v.clear,
            ("r", "value"): lambda key: pair(self.r.get(key)),
            ("r", "update"): lambda key, value: self.r.put(key, record(value)),
            ("l", "get"): lambda key: [pair(value) for value in self.l.get(key)],
            ("l", "add"): lambda key, value: self.l.add(key, record(value)),
            ("l", "add_all"): lambda key, values: self.l.add_all(key, map(record, values)),
            ("l", "update"): lambda key, values: self.l.update(key, map(record, values)),
            ("l", "clear"): self.l.clear,
            ("m", "get"): lambda key, user_key: pair(self.m.get(key, user_key)),
            ("m", "put"): lambda key, user_key, value: self.m.put(key, user_key, record(value)),
            ("m", "put_all"): lambda key, entries: self.m.put_all(key, {k: record(v) for k, v in entries.items()}),
            ("m", "remove"): self.m.delete,
            ("m", "contains"): lambda key, user_key: user_key in self.m[key],
            ("m", "items"): lambda key: [(user_key, pair(value)) for user_key, value in self.m[key].items()],
            ("m", "keys"): lambda key: list(self.m[key]),
            ("m", "values"): lambda key: [pair(value) for value in self.m[key].values()],
            ("m", "is_empty"): self.m.is_empty,
            ("m", "clear"): self.m.clear,
        }
        return calls[state, method](key, *arguments)


def record(value: Any) -> Any:
    return {"f0": value[0], "f1": value[1]} if isinstance(value, tuple) else value


def pair(value: dict[str, Any] | None) -> tuple[Any, Any] | None:
    return None if value is None else (value["f0"], value["f1"])


def answer_of(program: Any, step: tuple[Any, ...]) -> Any:
    """What a step answers, or the class of what it raises."""
    try:
        return program.key(step[1]) if step[0] == "key" else program.call(*step)
    except sfkv.UsageError as error:
        return type(error)


@pytest.mark.parametrize("make_backend", [sfkv.EmbeddedRocksDBStateBackend, sfkv.HashMapStateBackend])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(program=st.lists(steps(), max_size=60))
@example(
    program=[("m", "put", 1, None), ("m", "contains", 1), ("m", "items"), ("l", "update", [None]), ("r", "update", "text")]
)
def test_a_program_in_flinks_manner_gives_the_same_answers(make_backend, program):
    backend = make_backend()
    with tempfile.TemporaryDirectory(prefix="sfkv-flink-") as folder:
        stores = [backend.open(Path(folder) / name, key=str) for name in ("flink", "states")]
        try:
            programs = [make(store, "a") for make, store in zip((ByFlink, ByStates), stores, strict=True)]
            for step in program:
                if step[0] == "reopen":
                    for store in stores:
                        store.close()
                    stores = [backend.open(Path(folder) / name) for name in ("flink", "states")]
                    key = programs[1].now
                    programs = [make(store, key) for make, store in zip((ByFlink, ByStates), stores, strict=True)]
                    continue
                by_flink, by_states = (answer_of(one, step) for one in programs)
                assert by_flink == by_states, step
            assert stores[0].states == stores[1].states
            for name in ("v", "r", "l", "m"):
                scans = [getattr(one, name).scan().to_arrow() for one in (ByStates(store, "a") for store in stores)]
                assert scans[0] == scans[1]
        finally:
            for store in stores:
                store.close()
