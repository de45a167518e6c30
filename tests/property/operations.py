"""Lists of random operations over all states; runners.py carries them out, on sfkv in a configuration and on the model.

An operation is a tuple of a name, which is a method of both runners, and its arguments. Calls on states carry the state with
them, as (kind, name, type), and their keys first, so that the model knows which calls a range of key groups refuses.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.property.keys import Kind
from tests.property.values import FOLDS, random_value, types_of, values_of

Operation = tuple[Any, ...]
State = tuple[str, str, str]

STATES: list[State] = [
    *(("value", "count", "int"), ("value", "last", "record"), ("value", "any", "object"), ("value", "payload", "blob")),
    *(("list", "numbers", "int"), ("list", "visits", "record"), ("map", "totals", "int"), ("map", "pages", "text")),
    *(("reducing", "total", "sum"), ("reducing", "most", "max"), ("reducing", "tail", "letters")),
    *(("aggregating", "average", "mean"), ("aggregating", "words", "distinct"), ("aggregating", "span", "spread")),
]
METHODS = {
    "value": "put clear put_many put_many put_many clear_many get contains get_many get_many contains_many bundle bundle",
    "list": "add add_all add_many add_many update update_many clear clear_many get contains get_many get_many contains_many",
    "reducing": "add add_many add_many add_many clear clear_many get contains get_many get_many contains_many",
    "map": "put put_all put_many put_many delete delete_many delete_many clear clear_many get contains is_empty get_many "
    "contains_many contains_entries items items_many view",
}
METHODS["aggregating"] = METHODS["reducing"]
OTHERS = [
    *(
        "batch",
        "batch",
        "batch",
        "batch",
        "batch",
        "batch",
        "cells",
        "set_cell",
        "delete_cell",
        "payloads",
        "set_payload",
        "replace_payloads",
    ),
    *(
        "scan",
        "scan",
        "scan_keys",
        "scan_open",
        "flush",
        "flush",
        "compact",
        "reopen",
        "snapshot",
        "restore",
        "drop_state",
        "drop_state",
    ),
    *("states", "offset"),
]
WRITES_WITH_OFFSET = {"put_many", "clear_many", "add_many", "update_many", "delete_many", "bundle"}
ONE_KEY = {"put", "clear", "get", "contains", "add", "add_all", "update", "put_all", "delete", "is_empty", "items", "view"}


class Generator:
    """Makes operations from a seed. Keys are drawn from few, so that operations meet."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self.rng = random.Random(seed)
        self.keys = kind.map_keys
        self.user_keys = kind.user_keys
        # Most calls are about these few, so that they meet: rows are overwritten, appended to, deleted and read again.
        self.few_keys = self.rng.sample(self.keys, min(6, len(self.keys)))
        self.few_user_keys = self.rng.sample(self.user_keys, min(4, len(self.user_keys)))
        self.states = list(STATES)
        self.taken: dict[int, list[State]] = {}
        self.dropped = 0

    def operations(self, count: int) -> list[Operation]:
        made: list[Operation] = []
        while len(made) < count:
            made.append(self.operation())
            if made[-1][0] == "call" and self.rng.random() < 0.5:
                made += self.reads_of(*made[-1][1:4])
        return [*made, *(("scan", state, 1000) for state in self.states), ("cells",), ("payloads",), ("offset",), ("states",)]

    def reads_of(self, state: State, method: str, keys: Any) -> list[Operation]:
        """Reads some of what a call may have changed, before others change it again."""
        some = [keys] if method in ONE_KEY else keys[:3]
        if state[0] != "map":
            return [("call", state, "get_many", some, (), None, "list")]
        return [("call", state, "items", key, (), None, "list") for key in dict.fromkeys(some)]

    def operation(self) -> Operation:
        if self.rng.random() < 0.8:
            return self.call()
        name = self.rng.choice(OTHERS)
        make: Callable[[], Operation] | None = getattr(self, f"make_{name}", None)
        return (name,) if make is None else make()

    def key(self) -> Any:
        return self.rng.choice(self.few_keys if self.rng.random() < 0.8 else self.keys)

    def user_key(self) -> Any:
        return self.rng.choice(self.few_user_keys if self.rng.random() < 0.8 else self.user_keys)

    def count(self) -> int:
        return self.rng.choice([0, 1, 2, 5, 10, 80])

    def offset(self) -> Any:
        return self.rng.choice([None, None, self.rng.randrange(2**63), {"a": [1, "x"]}])

    def call(self) -> Operation:
        state = self.rng.choice(self.states)
        method = self.rng.choice(METHODS[state[0]].split())
        keys = self.key() if method in ONE_KEY else [self.key() for _ in range(self.count())]
        count = 1 if method in ONE_KEY else len(keys)
        arguments = getattr(self, f"arguments_of_{state[0]}")(method, count, state[2])
        offset = self.offset() if method in WRITES_WITH_OFFSET else None
        shape = self.rng.choice(["list", "arrow", "columns", "numpy"])
        return ("call", state, method, keys, arguments, offset, shape)

    def value(self, type: str, *, or_none: float = 0) -> Any:
        return None if self.rng.random() < or_none else random_value(self.rng, type)

    def arguments_of_value(self, method: str, count: int, type: str) -> tuple[Any, ...]:
        if method == "put":
            return (self.value(type, or_none=0.1),)
        if method == "put_many":
            return ([self.value(type, or_none=0.1) for _ in range(count)],)
        if method == "bundle":  # what becomes of each key, if anything, and whether the block fails
            changes = [self.rng.choice(["keep", "del", "set"]) for _ in range(count)]
            return ([(change, self.value(type, or_none=0.1)) for change in changes], self.rng.random() < 0.2)
        return ()

    def arguments_of_list(self, method: str, count: int, type: str) -> tuple[Any, ...]:
        def some() -> list[Any]:
            return [self.value(type) for _ in range(self.rng.randrange(4))]

        if method == "add":
            return (self.value(type),)
        if method == "add_all":
            return ([self.value(type), *some()],)
        if method == "add_many":
            return ([self.value(type) for _ in range(count)],)
        if method == "update":
            return (self.rng.choice([None, some()]),)
        if method == "update_many":
            return ([self.rng.choice([None, some(), some()]) for _ in range(count)],)
        return ()

    def arguments_of_reducing(self, method: str, count: int, type: str, kind: str = "reducing") -> tuple[Any, ...]:
        of = values_of(kind, type)
        if method == "add":
            return (self.value(of),)
        return ([self.value(of) for _ in range(count)],) if method == "add_many" else ()

    def arguments_of_aggregating(self, method: str, count: int, type: str) -> tuple[Any, ...]:
        return self.arguments_of_reducing(method, count, type, "aggregating")

    def arguments_of_map(self, method: str, count: int, type: str) -> tuple[Any, ...]:
        if method == "put_all":
            several = [self.user_key() for _ in range(1 + self.count())]
            return ({user_key: self.value(type, or_none=0.2) for user_key in several},)
        if method == "view":  # an entry that is set, and one that is taken, while the map is passed over
            return (self.user_key(), self.value(type), self.user_key())
        if method not in ("put", "put_many", "delete", "delete_many", "get", "get_many", "contains_entries"):
            return ()
        user_keys = [self.user_key() for _ in range(count)]
        values = [self.value(type, or_none=0.2) for _ in range(count)] if method.startswith("put") else None
        return tuple(part if method.endswith(("s", "y")) else part[0] for part in (user_keys, values) if part is not None)

    def make_batch(self) -> Operation:
        steps: list[Operation] = []
        for _ in range(self.rng.randrange(1, 6)):
            step = self.rng.choice(["call", "call", "call", "set_cell", "set_payload", "cells", "payloads"])
            make: Callable[[], Operation] | None = getattr(self, f"make_{step}", None)
            made = self.call() if step == "call" else (step,) if make is None else make()
            # An offset inside would be the batch's too, and how far it counts is told by the batch alone.
            steps.append((*made[:5], None, made[6]) if step == "call" else made)
        return ("batch", steps, self.rng.random() < 0.4, self.offset())

    def make_set_cell(self) -> Operation:
        return ("set_cell", self.rng.choice("abc"), self.rng.randrange(-(2**63), 2**63))

    def make_delete_cell(self) -> Operation:
        return ("delete_cell", self.rng.choice("abc"))

    def make_set_payload(self) -> Operation:
        return ("set_payload", self.rng.choice([0, 5, 119, 127]), self.rng.choice([None, b"", self.rng.randbytes(5000)]))

    def make_replace_payloads(self) -> Operation:
        groups = self.rng.choice([[], [0], [0, 100], [7, 127]])
        return ("replace_payloads", {group: self.rng.randbytes(self.rng.randrange(100)) for group in groups})

    def make_scan(self) -> Operation:
        return ("scan", self.rng.choice(self.states), self.rng.choice([1, 3, 1000]))

    def make_scan_keys(self) -> Operation:
        return ("scan_keys", self.rng.choice(self.states), self.rng.choice([1, 3, 1000]))

    def make_scan_open(self) -> Operation:
        """A scan between whose batches a call changes its state: it sees it as of its start."""
        state = self.rng.choice(self.states)
        return ("scan_open", state, self.rng.choice([1, 10]), ("call", state, "clear_many", self.keys[::2], (), None, "list"))

    def make_snapshot(self) -> Operation:
        id = len(self.taken)
        self.taken[id] = list(self.states)
        return ("snapshot", id, self.rng.choice([None, {"at": id}]))

    def make_restore(self) -> Operation:
        if not self.taken:
            return ("states",)
        id = self.rng.choice(list(self.taken))
        self.states = list(self.taken[id])
        return ("restore", id)

    def make_drop_state(self) -> Operation:
        """Its name comes back with another type, and now and then as another kind."""
        i = self.rng.randrange(len(self.states))
        old = self.states[i]
        kind = self.rng.choice([old[0], "value", "list", "map", *FOLDS])
        self.states[i] = (kind, old[1], self.rng.choice(types_of(kind)))
        return ("drop_state", old, self.states[i])
