"""A snapshot becomes a store, when it was checked: a database by its files, linked or copied, or of any snapshot's rows."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from sfkv import _core, _store
from sfkv._errors import BusyError, CheckpointError, ConfigError, CorruptionError, Error, StorageError, of_system
from sfkv.checkpoint.manifest import Snapshot, check_files, read_manifest
from sfkv.checkpoint.rows_file import BLOCK_BYTES, ROWS_NAME, read_rows
from sfkv.config._options import parse_path

_Opened = TypeVar("_Opened")


def single_snapshot(snapshots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Snapshot:
    """The one snapshot that is to be restored.

    Raises:
        ConfigError: it is none, or there are several.
        CheckpointError, CorruptionError, FormatError: it cannot be read.
    """
    several = snapshots if isinstance(snapshots, Sequence) and not isinstance(snapshots, (str, bytes)) else [snapshots]
    if len(several) != 1:
        raise ConfigError(f"{len(several)} snapshots were given: pass the one whose range of key groups is to be restored")
    (snapshot,) = several
    if not isinstance(snapshot, (str, os.PathLike)):
        hint = "; of a future, its result()" if isinstance(snapshot, Future) else ""
        raise ConfigError(f"{snapshot!r} is no snapshot: pass its folder, or a sfkv.Snapshot{hint}")
    return read_manifest(parse_path(snapshot, "snapshot", "pass its folder, or a sfkv.Snapshot"))


def restore_files(snapshot: Snapshot, target: Path, open_store: Callable[[], _Opened]) -> _Opened:
    """Makes ``target``, which is missing or empty, a closed store with the snapshot's rows, and opens it.

    Raises:
        CorruptionError: naming the file that is missing, torn or altered.
        CheckpointError: if ``target`` is not empty, or cannot be written or opened.

        With every error ``target`` is as it was.
    """
    check_empty(target)
    verify(snapshot)
    return _make(snapshot, target, lambda partial: _bring_files(snapshot, partial), open_store)


def restore_rows(
    snapshot: Snapshot, target: Path, make_store: Callable[[Path], _core.RocksDBStore], open_store: Callable[[], _Opened]
) -> _Opened:
    """The same from the rows of a snapshot; ``make_store`` makes an empty store in a directory."""

    def fill(partial: Path) -> None:
        store = make_store(partial)
        try:
            store.own(snapshot.max_parallelism, *snapshot.key_groups)
            load(store, blocks_of(snapshot), str(snapshot.path))
            store.close()
        except BaseException:
            store.close(discard=True)
            raise

    check_empty(target)
    verify(snapshot)
    return _make(snapshot, target, fill, open_store)


def undo(target: Path, was_there: bool, error: BaseException) -> None:
    """Leaves of a target whose opening failed what it was: an empty directory, or none. Not if somebody else has it by now."""
    if isinstance(error, BusyError):
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(target):
            os.unlink(target / name)
        if not was_there:
            target.rmdir()


def not_restored(snapshot: Snapshot, target: str, cause: OSError) -> CheckpointError:
    """What a failure of the engine or the disk is raised as, which may name a directory that is gone by then."""
    error = CheckpointError(f"snapshot {snapshot.id} was not restored into {target}: {cause}", operation="restore", path=target)
    known = cause if isinstance(cause, Error) else of_system(cause, "restore", target)
    error.code, error.retryable = known.code, known.retryable
    return error


def load(store: _store.Store, blocks: Iterator[tuple[int, bytes]], path: str) -> None:
    """Writes blocks of rows to a store.

    Raises:
        CorruptionError: a block is not of the store's key groups, or none of rows.
        LimitError: of a store in memory.
    """
    first, last = store.key_groups
    for key_group, block in blocks:
        if not (first <= key_group <= last or key_group == _store.RESERVED_GROUP):
            raise CorruptionError(
                f"Corruption: {path} has rows of key group {key_group}, and owns {first} to {last}: restore another snapshot",
                path=path,
            )
        store.load_block(key_group, block)


def blocks_of(snapshot: Snapshot) -> Generator[tuple[int, bytes], None, None]:
    """The rows of a snapshot that was verified, the store's own first."""
    if snapshot.layout == "rows":
        yield from read_rows(snapshot.path / ROWS_NAME)
        return
    with tempfile.TemporaryDirectory(prefix="sfkv-restore-") as directory:
        _bring_files(snapshot, Path(directory))
        store = _core.RocksDBStore(
            directory, _core.Slot(32 << 20, 0.5, 0.1), create=False, write_batch_bytes=BLOCK_BYTES, read_chunk_keys=1
        )
        try:
            yield from _blocks_between(store, _store.STORE_ROW, _store.RESERVED_BOUND)
            yield from _blocks_between(store, b"\0", _store.STORE_ROW)
        finally:
            store.close(discard=True)


def _blocks_between(store: _core.RocksDBStore, first: bytes, bound: bytes) -> Iterator[tuple[int, bytes]]:
    while first < bound:
        key_group, block, first = store.read_block(first, bound, BLOCK_BYTES)
        if block:
            yield key_group, block


def _make(snapshot: Snapshot, target: Path, fill: Callable[[Path], None], open_store: Callable[[], _Opened]) -> _Opened:
    """A directory that becomes ``target`` when it was filled. If that fails, or opening it, nothing is left of it."""
    partial = target.with_name(target.name + ".restoring")
    was_there = os.path.isdir(target)
    is_current = _is_current(target)
    made = False
    try:
        _core.make_directories(target.parent)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        fill(partial)
        partial.rename(target)
        made = True
        if is_current:
            os.chdir(target)  # the process stays where it was: what it was in is gone
        _core.sync_directory(target.parent)
        return open_store()
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if made:
            undo(target, was_there, error)
        if not isinstance(error, OSError) or isinstance(error, CorruptionError):
            raise
        raise not_restored(snapshot, str(target), error) from error


def _is_current(directory: Path) -> bool:
    try:
        return os.path.samefile(".", directory)
    except OSError:
        return False


def _bring_files(snapshot: Snapshot, directory: Path) -> None:
    for file in snapshot.files:
        _bring(snapshot.path / file.name, directory / file.name)
    _core.mark_clean(directory)


def check_empty(target: Path) -> None:
    """Refuses a directory that holds something."""
    try:
        occupied = bool(os.listdir(target))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        occupied = True
    except OSError as error:
        raise CheckpointError(f"{target} cannot be restored into: {error}", operation="restore", path=str(target)) from error
    if occupied:
        raise CheckpointError(f"{target} is not empty: restore into another directory", path=str(target), code="exists")


def verify(snapshot: Snapshot) -> None:
    """Reads every file of a snapshot and compares it with the manifest."""
    found = []
    for file in snapshot.files:
        path = snapshot.path / file.name
        if Path(file.name).name != file.name or "\0" in file.name:
            raise CorruptionError(f"Corruption: {file.name!r} in {snapshot.path} is no name of a file", path=str(path))
        try:
            found.append(_core.checksum_file(path))
        except StorageError as error:
            raise CorruptionError(f"Corruption: {path} cannot be read: {error}", operation="restore", path=str(path)) from error
    check_files(snapshot, [(size, crc32c.lower()) for size, crc32c in found])


def _bring(source: Path, target: Path) -> None:
    """Table files never change, so both stores may share them; what RocksDB appends to or replaces is copied."""
    if source.suffix == ".sst":
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
                raise
        else:
            return
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
