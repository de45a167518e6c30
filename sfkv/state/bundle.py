"""A batch's rows as a dict: read once, worked on by Python, written once."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from sfkv import _bundle, _table
from sfkv._errors import UsageError


class Bundle:
    """``with state.bundle(keys) as rows:`` gives a plain dict ``{key: value or None}`` of the keys asked for.

    What changed in the dict is written when the block ends without an exception; None and ``del`` clear. Another key in it
    is a KeyError then, and nothing is written. What the block puts to the bundle's keys past it, by the state itself, is
    overwritten where the dict has changed.
    """

    def __init__(self, table: _table.Table, keys: Any, offset: bytes | None) -> None:
        self._table = table
        self._keys = keys
        self._offset = offset
        self._bundle: _bundle.BundleRows | None = None

    def __enter__(self) -> dict[Any, Any]:
        if self._bundle is not None:
            raise UsageError("a bundle is entered once: ask the state for another", operation="bundle")
        self._bundle = _bundle.BundleRows(self._table, self._keys)
        return self._bundle.rows

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and self._bundle is not None:
            self._bundle.write(self._offset)
