"""What a keyed backend asks of what keeps its rows; ``rocksdb.py`` and ``memory.py`` have one each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sfkv._rows import KeyRows
from sfkv._store import Store
from sfkv._types import ValueSchema
from sfkv.checkpoint.manifest import Files, Layout


class Engine(Protocol):
    """One store, from its opening to its end."""

    @property
    def store(self) -> Store:
        """The rows."""

    @property
    def layout(self) -> Layout:
        """What the files of its snapshots are."""

    @property
    def used_bytes(self) -> int | None:
        """What the state takes in memory; None where it lies on disk."""

    def values(self, value: ValueSchema, table: int, kind: str, keys: KeyRows) -> ValueSchema:
        """How the values of a table are kept: what users gave, or with another serializer."""

    def forget(self, table: int) -> None:
        """A table has no rows any more, and its number is free."""

    def begin_snapshot(self, folder: Path) -> Callable[[], Files]:
        """Fixes the rows as they are now, in ``folder`` or in memory.

        What is returned brings those that are in memory into ``folder``, from any thread, and says which files there are.
        """

    def compact(self) -> None:
        """Leaves nothing of what was removed."""

    def close(self, discard: bool) -> None:
        """Ends the store: written, durably, and marked clean; or, with ``discard``, as it is.

        If it cannot be written, it stays open.
        """
