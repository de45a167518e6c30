"""What a keyed backend asks of what keeps its rows; ``rocksdb.py`` and ``memory.py`` have one each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from sfkv._store import Store

# The files of a snapshot: name, bytes, and CRC32C as eight hexadecimal digits, or "" where it is still to be taken.
Files = list[tuple[str, int, str]]
# What they are: a database's, or one file of rows.
Layout = Literal["rocksdb", "rows"]


class Engine(Protocol):
    """One store, from its opening to its end."""

    @property
    def store(self) -> Store:
        """The rows."""

    @property
    def layout(self) -> Layout:
        """What the files of its snapshots are."""

    def begin_snapshot(self, folder: Path) -> Callable[[], Files]:
        """Fixes the rows as they are now. What is returned puts them into ``folder``, from any thread, and names them."""

    def compact(self) -> None:
        """Leaves nothing of what was removed."""

    def close(self, discard: bool) -> None:
        """Ends the store: written, durably, and marked clean; or, with ``discard``, as it is. It stays open if that fails."""
