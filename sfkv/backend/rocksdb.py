"""EmbeddedRocksDBStateBackend: state on disk, far larger than memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from sfkv import _batch, _core
from sfkv._descriptions import UNREADABLE, read_operator
from sfkv._errors import ConfigError, CorruptionError, FormatError, KeyGroupError, SchemaError, StorageError
from sfkv._types import KeySchema
from sfkv.backend.keyed import KeyedStateBackend
from sfkv.backend.routing import check_parallelism
from sfkv.backend.slot import Slot
from sfkv.checkpoint.manifest import Snapshot, read_manifest
from sfkv.checkpoint.restore import restore_files
from sfkv.config._sizes import parse_bytes

_DEFAULT_MAX_PARALLELISM = 128


class EmbeddedRocksDBStateBackend:
    """Keyed state in RocksDB, in a directory on a local disk.

    Args:
        write_batch_bytes: where the writes of one call are split; bytes or "2MB".
        read_chunk_keys: how many keys of a batch the engine reads at a time; the blocks it needs for them stay pinned.

    Raises:
        ConfigError: naming the option.
    """

    def __init__(self, *, write_batch_bytes: int | str = "2MB", read_chunk_keys: int = 64) -> None:
        self._write_batch_bytes = parse_bytes(write_batch_bytes, "write_batch_bytes")
        if self._write_batch_bytes < 1:
            raise ConfigError(f"write_batch_bytes is {write_batch_bytes!r}: use 1 or more")
        if isinstance(read_chunk_keys, bool) or not isinstance(read_chunk_keys, int) or not 1 <= read_chunk_keys <= 1 << 20:
            raise ConfigError(f"read_chunk_keys is {read_chunk_keys!r}: use a whole number from 1 to {1 << 20}")
        self._read_chunk_keys = read_chunk_keys
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
        schema = None if key is None else KeySchema.of(key)
        return self._open(Path(path), schema, slot, max_parallelism, key_groups, create=create, recover=recover)

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
            snapshots: one snapshot: its folder, or what ``list_snapshots`` and ``snapshot`` return.
            key: compared with the snapshot's, if it is given.
            key_groups: must be the snapshot's range, if it is given.

        Returns:
            The backend; ``restored_from.metadata`` is what was stored with the snapshot.

        Raises:
            CorruptionError: naming the file of the snapshot that is missing, torn or altered; ``path`` is as it was.
            CheckpointError: there is no such snapshot, or ``path`` is not empty.
            SchemaError, KeyGroupError, FormatError: it holds something else; shows both.
        """
        several = [snapshots] if isinstance(snapshots, (str, os.PathLike)) else list(snapshots)
        if len(several) != 1:
            raise ConfigError(f"{len(several)} snapshots were given: pass the one whose range of key groups is to be restored")
        snapshot = read_manifest(several[0])
        schema = KeySchema.parse(snapshot.key)
        if key is not None:
            _compare_keys(schema, KeySchema.of(key), str(snapshot.path))
        if key_groups is not None:
            _compare_ranges(snapshot.key_groups, key_groups, str(snapshot.path))
        restore_files(snapshot, Path(path))
        return self._open(Path(path), schema, slot, snapshot.max_parallelism, snapshot.key_groups, restored_from=snapshot)

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
        if max_parallelism is not None:
            check_parallelism(max_parallelism)
        if slot is None:
            slot = Slot()
        elif not isinstance(slot, Slot):
            raise ConfigError(f"slot is {slot!r}: pass a sfkv.Slot")
        try:
            store = _core.Store(
                str(path.absolute()),
                slot._native,
                create=create and key is not None,
                recover=recover,
                write_batch_bytes=self._write_batch_bytes,
                read_chunk_keys=self._read_chunk_keys,
                engine_options=self._engine_options,
            )
        except StorageError as error:
            if create and key is None and not os.path.exists(path / "SFKV"):
                raise ConfigError(f"{path} holds no store yet: pass key=, such as key=str, to make one") from error
            raise
        try:
            schema = _agree(store, key, max_parallelism, key_groups)
            return KeyedStateBackend(store, slot, schema, restored_from)
        except BaseException:
            store.close(store.was_unclean)  # as it was found
            raise


def open(path: str | os.PathLike[str], **options: Any) -> KeyedStateBackend:
    """Opens the state in a directory, with everything by default: ``EmbeddedRocksDBStateBackend().open(path, ...)``."""
    return EmbeddedRocksDBStateBackend().open(path, **options)


def _agree(
    store: _core.Store, key: KeySchema | None, max_parallelism: int | None, key_groups: tuple[int, int] | None
) -> KeySchema:
    """Compares what the store says of itself with what was asked for; a new store is told."""
    row = store.reserved_rows().get(_core.STORE_ROW)
    if row is None:
        if key is None:
            raise ConfigError(
                f"{store.path} does not know its keys, because who made it ended at once: pass key=, such as key=str"
            )
        max_parallelism = max_parallelism or _DEFAULT_MAX_PARALLELISM
        first, last = _check_range(key_groups or (0, max_parallelism - 1), max_parallelism)
        description = {"key": key.describe(), "max_parallelism": max_parallelism, "key_groups": [first, last]}
        _batch.write_rows(store, {_core.STORE_ROW: msgspec.json.encode(description)}, "open")
        store.flush()  # what a store is does not depend on how it ends
        store.own(max_parallelism, first, last)
        return key
    try:
        stored = read_operator(row)
    except UNREADABLE as error:
        raise CorruptionError(f"Corruption: {store.path} does not describe itself: {error}", path=store.path) from error
    if key is not None:
        _compare_keys(stored.key_schema, key, store.path)
    if max_parallelism not in (None, stored.max_parallelism):
        raise FormatError(
            f"{store.path} has max_parallelism={stored.max_parallelism}, and was asked for with {max_parallelism}: "
            "it can never change",
            path=store.path,
            code="max_parallelism",
        )
    if key_groups is not None:
        _compare_ranges(stored.key_groups, key_groups, store.path)
    store.own(stored.max_parallelism, *stored.key_groups)
    return stored.key_schema


def _check_range(key_groups: tuple[int, int], max_parallelism: int) -> tuple[int, int]:
    try:
        first, last = key_groups
        if 0 <= first <= last < max_parallelism:
            return int(first), int(last)
    except (TypeError, ValueError):
        pass
    raise ConfigError(
        f"key_groups is {key_groups!r}: pass (first, last), with 0 <= first <= last < max_parallelism={max_parallelism}"
    )


def _compare_keys(stored: KeySchema, wanted: KeySchema, path: str) -> None:
    if stored.describe() != wanted.describe():
        raise SchemaError(
            f"{path} has keys of {stored}, and was asked for with {wanted}: rows lie by their keys, which cannot change: "
            "open it with the stored type, or write its rows into a new store",
            path=path,
        )


def _compare_ranges(stored: tuple[int, int], wanted: tuple[int, int], path: str) -> None:
    if tuple(stored) != tuple(wanted):
        raise KeyGroupError(
            f"{path} has the key groups {stored[0]} to {stored[1]}, and was asked for with {wanted[0]} to {wanted[1]}: "
            "a range is fixed when a store is made",
            path=path,
        )
