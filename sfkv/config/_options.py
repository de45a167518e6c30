"""What options are given as: whole numbers, paths, and names of columns."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sfkv._errors import ConfigError, SchemaError


def whole_number(value: Any) -> int | None:
    """The int that a value is, such as one of NumPy's; None if it is none. A bool is none."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def int_of(value: Any) -> int:
    """The same for msgspec, which asks this of what it does not know."""
    number = whole_number(value)
    if number is None:
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    return number


def parse_path(path: Any, option: str, hint: str) -> Path:
    """A path as it was given. ``option`` is what an error calls it, ``hint`` what is to be passed.

    Raises:
        ConfigError: it is no path, or no file can be called so.
    """
    name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(name, str):
        raise ConfigError(f"{option} is {path!r}: {hint}")
    try:
        is_name = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise ConfigError(f"{option} is {path!r}: no file is called so, which has a NUL or half a character; use another name")
    return Path(name)


def column_names(names: Any, option: str, there: Sequence[str], state: str | None = None) -> list[str]:
    """Several names, or a single one, as a list. ``option`` is what an error calls them, ``there`` what may be among them.

    Raises:
        SchemaError: they are none.
    """
    listed = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not all(isinstance(name, str) for name in listed):
        raise wrong_columns(names, option, there, state)
    return listed


def chosen_columns(names: Any, option: str, there: Sequence[str], state: str | None = None) -> list[str]:
    """The same where they are some of ``there``, each once."""
    listed = column_names(names, option, there, state)
    if not listed or not all(listed.count(name) == 1 and name in there for name in listed):
        raise wrong_columns(names, option, there, state)
    return listed


def wrong_columns(names: Any, option: str, there: Sequence[str], state: str | None) -> SchemaError:
    where = "" if state is None else f" [state {state!r}]"
    return SchemaError(f"{option} is {names!r}: name one or more of {', '.join(there)}, each once{where}", state=state)
