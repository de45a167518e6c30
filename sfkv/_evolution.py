"""Schemas that change: which ones can be read without rewriting rows, and what is stored of them.

A record may gain columns that may be null or have a default, a column may become nullable, and columns may change places.
Each such change makes a version; rows keep the version that they were written by. FORMAT.md sections 4 and 5.
"""

from __future__ import annotations

import base64
import contextlib
from typing import Any

from sfkv._errors import CorruptionError, SchemaError
from sfkv._rows import ValueRows
from sfkv._stored_types import NO_DEFAULT, Column, parse_type
from sfkv._types import ValueSchema

_MAX_VERSIONS = 256


def current(stored: dict[str, Any]) -> dict[str, Any]:
    """A stored description of a value without its history: what a schema says of itself."""
    columns = [{name: part for name, part in column.items() if name != "default"} for column in stored["columns"]]
    return {"columns": columns, "record": stored["record"], "serializer": stored["serializer"]}


def evolve(stored: dict[str, Any], wanted: ValueSchema) -> dict[str, Any]:
    """What is to be stored of a value when it is asked for as ``wanted``: ``stored`` itself, if that is what it is.

    Raises:
        SchemaError: rows of the stored schema cannot be read by the wanted one. It says what differs, and what to do.
    """
    asked = wanted.describe()
    if asked == current(stored):
        return stored
    difference = _difference(stored, asked, wanted)
    if difference is not None:
        raise SchemaError(difference[0], column=difference[1])
    older = [*stored.get("older", []), current(stored)["columns"]]
    if len(older) >= _MAX_VERSIONS:
        raise SchemaError(
            f"the schema was changed {_MAX_VERSIONS - 1} times, which is the most: write its rows into a new state"
        )
    known = {column["name"]: column for column in stored["columns"]}
    columns = []
    for column in wanted.columns:
        described = column.describe()
        if column.name not in known:
            if column.default is not NO_DEFAULT and column.default is not None:
                described["default"] = _cell_of(column)
        elif "default" in known[column.name]:
            described["default"] = known[column.name]["default"]
        columns.append(described)
    return {**asked, "columns": columns, "older": older}


def with_history(value: ValueSchema, stored: dict[str, Any]) -> ValueSchema:
    """The schema, with the versions and defaults that are stored for it.

    Raises:
        CorruptionError: a stored default is no cell of its column.
    """
    value.older = [[Column.parse(column) for column in columns] for columns in stored.get("older", [])]
    value.defaults = {column["name"]: _default_of(column) for column in stored["columns"] if "default" in column}
    return value


def _default_of(column: dict[str, Any]) -> bytes:
    """The cell of a stored default, which the core reads as it is: so it is looked at here."""
    plain = ValueSchema([Column(column["name"], parse_type(column["type"]), nullable=False)], is_record=False)
    try:
        cell = base64.b64decode(column["default"], validate=True)
        with contextlib.suppress(SchemaError):  # right, though Python has no object for it
            ValueRows(plain).value_of(cell)
    except (ValueError, CorruptionError) as error:
        raise CorruptionError(f"Corruption: the default of column {column['name']!r} is no cell of its type") from error
    return cell


def _difference(stored: dict[str, Any], asked: dict[str, Any], wanted: ValueSchema) -> tuple[str, str | None] | None:
    """Why rows of ``stored`` cannot be read as ``asked``, and the column that it is about; None if they can."""
    if stored["serializer"] != asked["serializer"] or not (stored["record"] and asked["record"]):
        return "use the stored type, or another name", None
    found = {column.name: column for column in wanted.columns}
    for column in stored["columns"]:
        name = column["name"]
        if name not in found:
            return f"column {name!r} is missing, and stored rows have it: keep it, or write the rows into a new state", name
        described = found[name].describe()
        if described["type"] != column["type"]:
            return (
                f"column {name!r} has another type: give the new column another name, or write the rows into a new state",
                name,
            )
        if column["nullable"] and not described["nullable"]:
            return f"column {name!r} may be null in stored rows: keep it nullable, or write the rows into a new state", name
    names = {column["name"] for column in stored["columns"]}
    for column in wanted.columns:
        if column.name not in names and not column.nullable and column.default is NO_DEFAULT:
            return (
                f"column {column.name!r} is new, and stored rows lack it: make it nullable, or give it a default",
                column.name,
            )
    return None


def _cell_of(column: Column) -> str:
    """The cell of a column's default, in base64."""
    schema = ValueSchema([Column(column.name, column.type, nullable=False)], is_record=False)
    return base64.b64encode(ValueRows(schema).row_of(column.default)).decode()
