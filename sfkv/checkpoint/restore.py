"""A snapshot becomes the directory of a store: table files by hard link, the rest copied, all of it checked first."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from sfkv import _core
from sfkv._errors import CheckpointError, CorruptionError, Error, StorageError
from sfkv.checkpoint.manifest import Snapshot, check_files


def restore_files(snapshot: Snapshot, target: Path) -> None:
    """Makes ``target``, which is missing or empty, a closed store with the snapshot's rows. On an error it is as it was.

    Raises:
        CorruptionError: naming the file that is missing, torn or altered.
        CheckpointError: if ``target`` is not empty, or cannot be written.
    """
    _check_empty(target)
    verify(snapshot)
    partial = target.with_name(target.name + ".restoring")
    try:
        _core.make_directories(target.parent)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for file in snapshot.files:
            _bring(snapshot.path / file.name, partial / file.name)
        _core.mark_clean(partial)
        partial.rename(target)
        _core.sync_directory(target.parent)
    except (OSError, Error) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise CheckpointError(
            f"snapshot {snapshot.id} was not restored: {error}", operation="restore", path=str(target)
        ) from error


def _check_empty(target: Path) -> None:
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
