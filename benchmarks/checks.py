"""Answers are checked once before they are timed: those of the first rows, against what the workload says is stored.

A system's ``plain(operation, answer)`` turns what it delivers into Python's numbers, lists and dicts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workload import OPERATIONS, Rows, Workload

CHECKED_ROWS = 1000

# What reads back what an operation wrote.
READ_BACK = {"value": "value_get_many", "record": "record_get_many", "map": "map_get", "list": "list_get_many"}
READ_BACK |= {kind: f"{kind}_get_many" for kind in ("reducing", "aggregating")}


def check(system: Any, workload: Workload) -> None:
    """Raises AssertionError if the system answers or writes something else than it should."""
    rows = workload.asked.part(0, min(CHECKED_ROWS, workload.batch or CHECKED_ROWS))
    operation = workload.operation
    if operation.whole and not hasattr(system, "check"):
        check_whole(system, workload)
        return
    if hasattr(system, "check"):
        system.check(workload, distinct(rows, operation.columns))
        return
    answers = ask(system, operation.name, rows)
    if not operation.writes:
        assert answers == expected(workload, rows), f"{system.name}: wrong answers of {operation.name}"
        return
    system.end_round()
    answers = ask(system, READ_BACK[operation.kind], rows)
    assert answers == expected_after(workload, rows), f"{system.name}: {operation.name} wrote something else"


def check_whole(system: Any, workload: Workload) -> None:
    """Compares all that a round reads of a table, as tuples of moment, key and value."""
    found: list[tuple[int, ...]] = []
    getattr(system, workload.operation.name)(found)
    rows = workload.rows_of(workload.asked.keys)
    wanted = zip(rows.user_keys.tolist(), rows.keys.tolist(), rows.values.tolist(), strict=True)
    assert sorted(found) == sorted(wanted), f"{system.name}: wrong answers of {workload.operation.name}"


def distinct(rows: Rows, columns: tuple[str, ...]) -> Rows:
    """The rows without those that repeat an entry."""
    entries = np.stack([rows.keys, rows.user_keys if "user_keys" in columns else np.zeros_like(rows.keys)])
    _, first = np.unique(entries, axis=1, return_index=True)
    first.sort()
    return Rows(rows.keys[first], rows.user_keys[first], rows.values[first])


def ask(system: Any, name: str, rows: Rows) -> list[Any]:
    """The plain answers to an operation, in the order of the rows."""
    operation = OPERATIONS[name]
    call = getattr(system, name)
    if operation.many:
        columns = zip(operation.columns, rows.columns(operation), strict=True)
        converted = [system.convert_values(column) if name == "values" else system.convert(column) for name, column in columns]
        return system.plain(operation, call(*converted))
    singles = zip(*(column.tolist() for column in rows.columns(operation)), strict=True)
    return [system.plain(operation, call(*row)) for row in singles]


def stored_of(workload: Workload, key: int) -> Rows:
    return workload.rows_of(np.array([key] if key % 2 == 0 else [], "i8"))


def expected(workload: Workload, rows: Rows) -> list[Any]:
    """What a read has to answer."""
    name = workload.operation.name
    answers: list[Any] = []
    for key, user_key in zip(rows.keys.tolist(), rows.user_keys.tolist(), strict=True):
        values = stored_of(workload, key).values.tolist()
        if name == "map_get":
            answers.append(values[user_key] if values else None)
        elif name == "map_items_many":
            answers.append(dict(enumerate(values)))
        elif workload.operation.kind == "list":
            answers.append(values)
        elif workload.operation.kind == "aggregating":
            answers.append(float(values[0]) if values else None)
        else:
            answers.append(values[0] if values else None)
    return answers


def expected_after(workload: Workload, rows: Rows) -> list[Any]:
    """What the rows hold after they were written once."""
    operation = workload.operation
    if operation.name == "value_bundle":
        return [int(stored_of(workload, key).values[0]) + 1 for key in rows.keys.tolist()]
    if operation.kind != "list" and not operation.adds:
        return rows.values.tolist()
    lists = {key: stored_of(workload, key).values.tolist() for key in rows.keys.tolist()}
    for key, value in zip(rows.keys.tolist(), rows.values.tolist(), strict=True):
        lists[key].append(value)
    answers = [lists[key] for key in rows.keys.tolist()]
    if operation.kind == "list":
        return answers
    if operation.kind == "aggregating":  # of the sum as a float
        return [float(sum(values)) / len(values) for values in answers]
    return [sum(values) for values in answers]
