"""Row: a record with places and, where they were given, names, as PyFlink spells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sfkv._errors import SchemaError


class Row:
    """A record of some fields, by place and by name.

    ``Row(1, "a")`` has places only, ``Row(id=1, name="a")`` names too. ``Row("id", "name")`` may be called with values, which
    makes a row with these names.

    Args:
        values: of the fields, in order.
        named: the same with names; one of the two.

    Raises:
        SchemaError: both were given.
    """

    __slots__ = ("_names", "_values")
    _names: tuple[str, ...] | None
    _values: list[Any]

    def __init__(self, *values: Any, **named: Any) -> None:
        if values and named:
            raise SchemaError("a row has fields by place or by name: pass values or keywords, and not both")
        object.__setattr__(self, "_names", tuple(named) if named else None)
        object.__setattr__(self, "_values", list(named.values()) if named else list(values))

    def set_field_names(self, field_names: Iterable[str]) -> None:
        """Gives the fields names, as many as there are.

        Raises:
            SchemaError: there are more or fewer fields.
        """
        names = tuple(field_names)
        if len(names) != len(self._values):
            raise SchemaError(f"the row has {len(self._values)} fields, and was given {len(names)} names: {names}")
        object.__setattr__(self, "_names", names)

    def get_fields_by_names(self, names: Iterable[str]) -> list[Any]:
        """The values of some fields, in the order of the names. SchemaError if one is not there."""
        return [self[name] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """The fields by name.

        Args:
            recursive: rows inside become dicts as well.

        Raises:
            SchemaError: they have no names.
        """
        if self._names is None:
            raise SchemaError(f"{self!r} has no names: call set_field_names, or make it with keywords")
        values = [value.as_dict(True) if recursive and isinstance(value, Row) else value for value in self._values]
        return dict(zip(self._names, values, strict=True))

    def _place(self, field: int | str) -> int:
        if isinstance(field, str):
            if self._names is None or field not in self._names:
                raise SchemaError(f"the row has no field {field!r}: it has {self._names or len(self._values)}")
            return self._names.index(field)
        if not -len(self._values) <= field < len(self._values):
            raise IndexError(field)
        return field

    def __getitem__(self, field: int | str) -> Any:
        return self._values[self._place(field)]

    def __setitem__(self, field: int | str, value: Any) -> None:
        self._values[self._place(field)] = value

    def __getattr__(self, name: str) -> Any:
        # Names of Python's own protocols are asked for by copy and pickle before a row has its slots.
        if name.startswith("_") or self._names is None or name not in self._names:
            raise AttributeError(f"the row has no field {name!r}")
        return self._values[self._names.index(name)]

    def __setattr__(self, name: str, value: Any) -> None:
        if self._names is None or name not in self._names:
            raise AttributeError(f"the row has no field {name!r}")
        self._values[self._names.index(name)] = value

    def __call__(self, *values: Any) -> Row:
        row = Row(*values)
        row.set_field_names(self._values)
        return row

    def __contains__(self, value: object) -> bool:
        return value in self._values

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        """Rows are equal if their values are, and their names, where both have some."""
        if not isinstance(other, Row):
            return NotImplemented
        named_alike = self._names is None or other._names is None or self._names == other._names
        return named_alike and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __reduce__(self) -> Any:
        return _remake, (self._names, self._values)

    def __repr__(self) -> str:
        names = [""] * len(self._values) if self._names is None else [f"{name}=" for name in self._names]
        return f"Row({', '.join(name + repr(value) for name, value in zip(names, self._values, strict=True))})"


def _remake(names: tuple[str, ...] | None, values: list[Any]) -> Row:
    row = Row(*values)
    if names is not None:
        row.set_field_names(names)
    return row
