"""EmbeddedRocksDBStateBackend: state on disk, far larger than memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sfkv import _core
from sfkv._errors import ConfigError, StorageError
from sfkv._rows import KeyRows
from sfkv._types import KeySchema, ValueSchema
from sfkv.backend.identity import agree, agree_with, asking_for_a_key, parse_directory, parse_range
from sfkv.backend.keyed import KeyedStateBackend
from sfkv.backend.slot import Slot, check_slot
from sfkv.checkpoint.manifest import Files, Layout, Snapshot
from sfkv.checkpoint.restore import restore_files, restore_rows, single_snapshot
from sfkv.config._options import whole_number
from sfkv.config._sizes import parse_bytes

_MOST_WRITE_BYTES = 256 << 20


class EmbeddedRocksDBStateBackend:
    """Keyed state in RocksDB, in a directory on a local disk.

    Args:
        write_batch_bytes: where the writes of one call are split; bytes or "2MB", up to "256MB".
        read_chunk_keys: how many keys of a batch the engine reads at a time; the blocks it needs for them stay pinned.
        row_cache: whether rows that are read again and again are kept as such, in up to an eighth of the slot's cache.

    Raises:
        ConfigError: naming the option.
    """

    def __init__(self, *, write_batch_bytes: int | str = "2MB", read_chunk_keys: int = 64, row_cache: bool = True) -> None:
        self._write_batch_bytes = parse_bytes(write_batch_bytes, "write_batch_bytes")
        if not 1 <= self._write_batch_bytes <= _MOST_WRITE_BYTES:  # calls ask for so much memory at once
            raise ConfigError(f'write_batch_bytes is {write_batch_bytes!r}: use 1 byte to "256MB"')
        chunk_keys = whole_number(read_chunk_keys)
        if chunk_keys is None or not 1 <= chunk_keys <= 1 << 20:
            raise ConfigError(f"read_chunk_keys is {read_chunk_keys!r}: use a whole number from 1 to {1 << 20}")
        if not isinstance(row_cache, bool):
            raise ConfigError(f"row_cache is {row_cache!r}: use True or False")
        self._read_chunk_keys = chunk_keys
        self._row_cache = row_cache
        self._engine_options = ""  # changes to the engine's options, in RocksDB's text form: for tests and measurements

    def open(
        self,
        path: str | os.PathLike[str],
        *,
        key: Any = None,
        slot: Slot | None = None,
        max_parallelism: int | None = None,
        key_groups: tuple[int, int] | None = None,
        create: bool = True,
        recover: bool = False,
    ) -> KeyedStateBackend:
        """Opens the state in a directory, or makes it.

        Args:
            path: the directory; made, with its parents, if it is missing.
            key: what keys are: a pyarrow type, ``int``, ``str`` and the like, or a pyarrow schema, struct type, dict or
                dataclass of several columns. Needed to make a store; later it is compared, if it is given.
            slot: the memory to share; the default is one of its own, with 128 MB.
            max_parallelism: the number of key groups, 1 to 32768; the default is 128. It can never change.
            key_groups: the first and last that this backend owns; the default is all.
            create: whether to make what is missing.
            recover: accept a directory that was not closed. It then holds the writes up to some moment before the end;
                ``offset`` of what is returned tells which.

        Raises:
            SchemaError: another key than what is stored; shows both.
            ConfigError: an option is wrong, or ``key`` is missing for a new store.
            KeyGroupError, FormatError: another range or max parallelism; or a directory that is not sfkv's.
            BusyError: it is open elsewhere; names the process.
            UncleanError: it was not closed, and ``recover`` is not set.
            StorageError: missing and ``create`` is false; damaged; or the disk failed.
        """
        check_slot(slot)
        schema = None if key is None else KeySchema.of(key)
        directory = parse_directory(path)
        max_parallelism, key_groups = parse_range(directory, max_parallelism, key_groups)
        return self._open(directory, schema, slot, max_parallelism, key_groups, create=create, recover=recover)

    def restore(
        self,
        path: str | os.PathLike[str],
        snapshots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        key: Any = None,
        slot: Slot | None = None,
        key_groups: tuple[int, int] | None = None,
    ) -> KeyedStateBackend:
        """Makes a store from a snapshot, and opens it.

        Args:
            path: the directory; missing or empty. On the snapshot's file system, table files are hard-linked.
            snapshots: one snapshot: its folder, or a Snapshot: ``sfkv.list_snapshots(storage)[-1]``, or
                ``keyed.snapshot(...).result()``.
            key: compared with the snapshot's, if it is given.
            key_groups: must be the snapshot's range, if it is given.

        Returns:
            The backend; ``restored_from.metadata`` is what was stored with the snapshot.

        Raises:
            CorruptionError: naming the file of the snapshot that is missing, torn or altered.
            CheckpointError: there is no such snapshot; ``path`` is not empty; or the disk or the engine failed: see the cause.
            SchemaError, KeyGroupError, FormatError: it holds something else; shows both.
            ConfigError: an option is wrong, or ``snapshots`` is not one snapshot.

            With each of them, ``path`` is as it was.
        """
        check_slot(slot)
        target = parse_directory(path)
        snapshot = single_snapshot(snapshots)
        schema = agree_with(snapshot, key, key_groups)

        def open_store() -> KeyedStateBackend:
            return self._open(target, schema, slot, snapshot.max_parallelism, snapshot.key_groups, restored_from=snapshot)

        if snapshot.layout == "rows":
            return restore_rows(
                snapshot, target, lambda directory: self._store(directory, slot or Slot(), create=True), open_store
            )
        return restore_files(snapshot, target, open_store)

    def _open(
        self,
        path: Path,
        key: KeySchema | None,
        slot: Slot | None,
        max_parallelism: int | None,
        key_groups: tuple[int, int] | None,
        *,
        create: bool = True,
        recover: bool = False,
        restored_from: Snapshot | None = None,
    ) -> KeyedStateBackend:
        slot = slot or Slot()
        with asking_for_a_key(path, key, create):
            store = self._store(path, slot, create=create and key is not None, recover=recover)
        try:
            is_new = not store.reserved_rows()
            schema = agree(store, key, max_parallelism, key_groups)
            if is_new:
                store.flush()  # what a store is does not depend on how it ends
            return KeyedStateBackend(_Engine(store), schema, slot, restored_from)
        except BaseException:
            with contextlib.suppress(StorageError):
                store.close(store.was_unclean)  # as it was found
            store.close(discard=True)  # if that failed: it would stay open
            raise

    def _store(self, path: Path, slot: Slot, *, create: bool, recover: bool = False) -> _core.RocksDBStore:
        return _core.RocksDBStore(
            str(path),
            slot._native,
            create=create,
            recover=recover,
            write_batch_bytes=self._write_batch_bytes,
            read_chunk_keys=self._read_chunk_keys,
            row_cache=self._row_cache,
            engine_options=self._engine_options,
        )


class _Engine:
    """A database; see ``engine.Engine``."""

    layout: Layout = "rocksdb"
    used_bytes = None

    def __init__(self, store: _core.RocksDBStore) -> None:
        self.store = store

    def values(self, value: ValueSchema, table: int, kind: str, keys: KeyRows) -> ValueSchema:
        return value

    def forget(self, table: int) -> None:
        """There is nothing to forget."""

    def begin_snapshot(self, folder: Path) -> Callable[[], Files]:
        files = self.store.snapshot(folder)
        return lambda: files

    def compact(self) -> None:
        self.store.compact()

    def close(self, discard: bool) -> None:
        self.store.close(discard)


def open(path: str | os.PathLike[str], **options: Any) -> KeyedStateBackend:
    """Opens the state in a directory, with everything by default: ``EmbeddedRocksDBStateBackend().open(path, ...)``."""
    return EmbeddedRocksDBStateBackend().open(path, **options)
