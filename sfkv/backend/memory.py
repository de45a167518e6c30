"""HashMapStateBackend: state in memory, at memory's speed."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from sfkv import _core, _memory, _table
from sfkv._errors import ConfigError, CorruptionError, StorageError, of_system
from sfkv._evolution import with_history
from sfkv._rows import KeyRows, ValueRows
from sfkv._store import RESERVED_GROUP
from sfkv._types import KeySchema, ValueSchema
from sfkv.backend.identity import agree, agree_with, asking_for_a_key, parse_directory, parse_range
from sfkv.backend.keyed import KeyedStateBackend
from sfkv.backend.registry import KINDS, read_tables
from sfkv.backend.slot import Slot, check_slot
from sfkv.checkpoint.local import replace_durably
from sfkv.checkpoint.manifest import Files, Layout, Snapshot
from sfkv.checkpoint.restore import blocks_of, check_empty, load, not_restored, single_snapshot, undo, verify
from sfkv.checkpoint.rows_file import BLOCK_BYTES, ROWS_NAME, read_rows, write_rows
from sfkv.config._sizes import parse_bytes

_WRITE_BYTES = sys.maxsize  # a call's writes are one, so that a limit refuses all of them


class HashMapStateBackend:
    """Keyed state in memory: hash tables for what is looked up, ordered ones for maps and tables.

    It is used as ``EmbeddedRocksDBStateBackend`` is, with equal answers. The directory holds the state while it is closed, and
    snapshots outlive a crash; between them nothing is on disk.

    Args:
        memory_limit: bytes, or "4GB", that the state of one ``open`` may take, with all that holds it; None for no limit. The
            write that would pass it is a LimitError, and changes nothing. What open scans and unfinished snapshots keep
            beyond the state is not counted.

    Raises:
        ConfigError: naming the option.
    """

    def __init__(self, *, memory_limit: int | str | None = None) -> None:
        self._limit_bytes = 0 if memory_limit is None else parse_bytes(memory_limit, "memory_limit")
        if memory_limit is not None and self._limit_bytes < 1:
            raise ConfigError(f"memory_limit is {memory_limit!r}: use 1 or more, or None for no limit")

    def open(
        self,
        path: str | os.PathLike[str] | None,
        *,
        key: Any = None,
        slot: Slot | None = None,
        max_parallelism: int | None = None,
        key_groups: tuple[int, int] | None = None,
        create: bool = True,
        recover: bool = False,
    ) -> KeyedStateBackend:
        """Reads the state that was closed into a directory, or begins with none.

        Args:
            path: the directory; made, with its parents, if it is missing. None for state that ends with ``close``.
            key: as for ``EmbeddedRocksDBStateBackend.open``, and so are the other arguments and what is raised.
            slot: not used; state in memory has a limit of its own.
            create: as there; without a directory it means nothing, nor does ``recover``.
            recover: accept a directory that was not closed. It then holds what it was last closed with: nothing, if it
                never was.

        Raises:
            LimitError: the state takes more than ``memory_limit``.
        """
        check_slot(slot)
        schema = None if key is None else KeySchema.of(key)
        if path is None and schema is None:
            raise ConfigError("state without a directory is new: pass key=, such as key=str")
        place = None if path is None else parse_directory(path)
        max_parallelism, key_groups = parse_range(place, max_parallelism, key_groups)
        directory = None if place is None else _open_directory(place, schema, create, recover)
        with self._opening(place, directory) as store:
            rows = _stored_rows(place)
            schema = _fill(store, rows, lambda: agree(store, schema, max_parallelism, key_groups))
            return self._opened(store, directory, schema, slot, None)

    def restore(
        self,
        path: str | os.PathLike[str] | None,
        snapshots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        key: Any = None,
        slot: Slot | None = None,
        key_groups: tuple[int, int] | None = None,
    ) -> KeyedStateBackend:
        """Reads a snapshot of either backend into memory.

        Args:
            path: the directory; missing or empty. None for state that ends with ``close``.
            snapshots: as for ``EmbeddedRocksDBStateBackend.restore``, and so is the rest: what is returned and raised too.

        Raises:
            LimitError: the state takes more than ``memory_limit``.
        """
        check_slot(slot)
        target = None if path is None else parse_directory(path)
        snapshot = single_snapshot(snapshots)
        schema = agree_with(snapshot, key, key_groups)
        if target is not None:
            check_empty(target)
        verify(snapshot)
        try:
            with self._opening(target, None) as store:
                _fill(store, blocks_of(snapshot), lambda: agree(store, schema, snapshot.max_parallelism, snapshot.key_groups))
                if target is None:
                    return self._opened(store, None, schema, slot, snapshot)
                check_empty(target)  # still; and only now it is made, so that a failure leaves nothing
                was_there = os.path.isdir(target)
                directory = None
                try:
                    directory = _core.Directory(str(target), create=True, recover=False)
                    return self._opened(store, directory, schema, slot, snapshot)
                except BaseException as error:
                    undo(target, was_there, error)
                    if directory is not None:
                        directory.close()
                    raise
        except OSError as error:
            if isinstance(error, CorruptionError):
                raise
            raise not_restored(snapshot, "memory" if target is None else str(target), error) from error

    @contextlib.contextmanager
    def _opening(self, path: Path | None, directory: _core.Directory | None) -> Iterator[_memory.MemoryStore]:
        """An empty store. If it does not come to be opened, its directory is left as it was found."""
        store = _memory.MemoryStore(
            "memory" if path is None else str(path), limit_bytes=self._limit_bytes, write_batch_bytes=_WRITE_BYTES
        )
        try:
            yield store
        except BaseException:
            store.close()
            if directory is not None:
                with contextlib.suppress(StorageError):
                    directory.mark(directory.found_state.encode())
                directory.close()
            raise

    def _opened(
        self,
        store: _memory.MemoryStore,
        directory: _core.Directory | None,
        key: KeySchema,
        slot: Slot | None,
        restored_from: Snapshot | None,
    ) -> KeyedStateBackend:
        if directory is not None and directory.found_state == "new":
            directory.mark(b"open")
        return KeyedStateBackend(_Engine(store, directory), key, slot, restored_from)


class _Engine:
    """Tables in memory, and the directory that holds them while they are closed; see ``engine.Engine``."""

    layout: Layout = "rows"

    def __init__(self, store: _memory.MemoryStore, directory: _core.Directory | None) -> None:
        self.store = store
        self._directory = directory

    @property
    def used_bytes(self) -> int:
        return self.store.used_bytes

    def values(self, value: ValueSchema, table: int, kind: str, keys: KeyRows) -> ValueSchema:
        if value.serializer is None:
            return value
        live = copy.copy(value)
        live.serializer = self.store.live(table, KINDS[kind], value.serializer, keys)
        return live

    def forget(self, table: int) -> None:
        self.store.live_tables.pop(table, None)

    def begin_snapshot(self, folder: Path) -> Callable[[], Files]:
        frozen = self.store.freeze()

        def bring_files() -> Files:
            folder.mkdir()
            write_rows(folder / ROWS_NAME, _blocks(frozen))
            return [(ROWS_NAME, 0, "")]

        return bring_files

    def compact(self) -> None:
        self.store.compact()

    def close(self, discard: bool) -> None:
        if not self.store.begin_close():
            return
        closed = False
        try:
            if self._directory is not None and not discard:
                _store_rows(Path(self.store.path), self.store.freeze_closing())
                self._directory.mark(b"clean")
            closed = True
        finally:
            self.store.finish_close(closed)
        if self._directory is not None:
            self._directory.close()


def _open_directory(path: Path, key: KeySchema | None, create: bool, recover: bool) -> _core.Directory:
    with asking_for_a_key(path, key, create):
        return _core.Directory(str(path), create=create and key is not None, recover=recover)


def _stored_rows(path: Path | None) -> Generator[tuple[int, bytes], None, None]:
    """The rows that a directory holds; none if it is new."""
    if path is not None and os.path.exists(path / ROWS_NAME):
        try:
            yield from read_rows(path / ROWS_NAME)
        except OSError as error:
            raise of_system(error, "open", str(path)) from error


def _fill(
    store: _memory.MemoryStore, blocks: Generator[tuple[int, bytes], None, None], agree_with_store: Callable[[], KeySchema]
) -> KeySchema:
    """Puts rows into an empty store: its own first, which say what the others are."""
    with contextlib.closing(blocks):
        first = next(blocks, None)
        if first is not None and first[0] != RESERVED_GROUP:
            raise CorruptionError(
                f"Corruption: the rows of {store.path} do not begin with what they are: restore another snapshot",
                path=store.path,
            )
        if first is not None:
            load(store, iter([first]), store.path)
        schema = agree_with_store()
        if first is not None:
            _declare(store, schema)
            load(store, blocks, store.path)
        return schema


def _declare(store: _memory.MemoryStore, key: KeySchema) -> None:
    """Tells the store what its tables hold, so that rows find their place at once."""
    for table, stored in read_tables(store).items():
        if stored["kind"] == "payloads":
            continue
        name = stored["name"]
        kind = KINDS.get(stored["kind"], _table.VALUE)
        keys = KeyRows(KeySchema.parse(stored["key"]) if "key" in stored else key, name)
        value = with_history(ValueSchema.parse(stored["value"]), stored["value"])
        if stored["kind"] not in KINDS:  # a fold, whose rows come to have their form when it is registered
            value = ValueSchema.of(bytes)
        elif stored["value"]["serializer"] is not None:  # the object itself comes with the state
            value.serializer = store.live(table, kind, None, keys)
        user_keys = KeyRows(KeySchema.parse(stored["user_key"]), name) if "user_key" in stored else None
        _table.Table(store, table, keys, ValueRows(value, name), name, None, kind, user_keys)


def _blocks(frozen: _memory.Snapshot) -> Iterator[tuple[int, bytes]]:
    while (block := frozen.next_block(BLOCK_BYTES)) is not None:
        yield block


def _store_rows(path: Path, frozen: _memory.Snapshot) -> None:
    """Replaces the rows that a directory holds, at once: a crash leaves the old ones or the new."""
    try:
        replace_durably(path / ROWS_NAME, lambda new: write_rows(new, _blocks(frozen)))
    except OSError as error:
        raise of_system(error, "close", str(path)) from error
