"""Snapshots in a folder of this machine: one folder ``chk-<id>`` for each, with the engine's files and a manifest.

How a snapshot comes to be complete, or never was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sfkv import __version__, _core
from sfkv._errors import CheckpointError, ConfigError, Error, of_system
from sfkv.checkpoint.manifest import MANIFEST_NAME, Files, Snapshot, SnapshotFile, encode_manifest, read_manifest
from sfkv.config._options import parse_path, whole_number


def list_snapshots(storage: str | os.PathLike[str]) -> list[Snapshot]:
    """The complete snapshots in a folder, from the lowest id to the highest; an empty list if there are none.

    Folders without a manifest, which a crash may leave, are passed over. Files are looked at when a snapshot is restored. One
    manifest that cannot be read hides the others: restore one of these by its folder, or take the damaged folder away.

    Raises:
        CheckpointError: if the folder or a manifest cannot be read.
        ConfigError: ``storage`` is no path.
        CorruptionError, FormatError: if a manifest is damaged, or of another format.
    """
    folder = parse_storage(storage)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"the snapshots in {storage} cannot be listed: {error}", path=str(folder)) from error
    found = []
    for name in names:
        if re.fullmatch(r"chk-\d+", name):
            try:
                found.append(read_manifest(folder / name))
            except CheckpointError as error:
                if error.code != "missing":
                    raise
    return sorted(found, key=lambda snapshot: snapshot.id)


def parse_id(id: Any) -> int:
    number = whole_number(id)
    if number is None or not 0 <= number < 1 << 63:
        raise ConfigError(f"the snapshot id is {id!r}: use a whole number from 0")
    return number


def parse_storage(storage: Any) -> Path:
    return parse_path(storage, "storage", "pass the folder that snapshots are stored in")


# The folders of the snapshots that this process is taking: until its manifest is there, one looks like what a crash has left.
# No lock, which a fork might find taken: setdefault() is one step.
_begun: dict[str, object] = {}
os.register_at_fork(after_in_child=_begun.clear)


def prepare_folder(storage: Path, id: int) -> Path:
    """Where the snapshot's files go: a folder that does not exist yet. What an unfinished attempt left is removed.

    The folder is the caller's, until ``complete`` or ``abandon`` ends the snapshot.

    Raises:
        CheckpointError: it is there, or another is being taken there; or the folder cannot be made.
    """
    folder = storage.absolute() / f"chk-{id}"
    mine = object()
    if _begun.setdefault(_place(folder), mine) is not mine:
        raise _is_there(id, folder)
    try:
        if os.path.exists(folder / MANIFEST_NAME):
            raise _is_there(id, folder)
        _core.make_directories(folder.parent)
        discard(folder)
    except BaseException as error:
        _give_back(folder)
        if isinstance(error, CheckpointError) or not isinstance(error, (OSError, Error)):
            raise
        raise CheckpointError(f"snapshot {id} cannot be stored in {storage}: {error}", path=str(folder)) from error
    return folder


def _is_there(id: int, folder: Path) -> CheckpointError:
    text = f"snapshot {id} is there already, or being taken: take one with another id"
    return CheckpointError(text, path=str(folder), code="exists")


def abandon(folder: Path) -> None:
    """Ends a snapshot that is not to be."""
    discard(folder)
    _give_back(folder)


def _place(folder: Path) -> str:
    """The one name of a folder, however it was spelled."""
    return os.path.join(os.path.realpath(folder.parent), folder.name)


def _give_back(folder: Path) -> None:
    _begun.pop(_place(folder), None)


def discard(folder: Path) -> None:
    """Removes a snapshot that is not to be, and what RocksDB makes beside it; the manifest first, without which it is none."""
    with contextlib.suppress(OSError):
        (folder / MANIFEST_NAME).unlink()
    for path in (folder, folder.with_name(folder.name + ".tmp")):
        shutil.rmtree(path, ignore_errors=True)  # what stays is passed over, and refused by the next attempt


def complete(snapshot: Snapshot, bring_files: Callable[[], Files], started: float) -> Snapshot:
    """Checksums what the engine has not, and writes the manifest: from then on the snapshot is there.

    Args:
        snapshot: without files.
        bring_files: puts the files into its folder; returns name, bytes and CRC32C (or "") of each.
        started: ``time.monotonic()`` when it was begun.

    Raises:
        CheckpointError: and, as with every error, nothing of the snapshot is left.
    """
    try:
        files = []
        for name, size, crc32c in sorted(bring_files()):
            if not crc32c:
                size, crc32c = _core.checksum_file(snapshot.path / name)
            files.append(SnapshotFile(name, size, crc32c.lower()))
        whole = dataclasses.replace(snapshot, files=tuple(files))
        write_durably(whole.path / MANIFEST_NAME, encode_manifest(whole, __version__, _core.build_info()["rocksdb"]))
        _core.sync_directory(whole.path.parent)
    except BaseException as error:
        discard(snapshot.path)
        if not isinstance(error, (OSError, Error)):
            raise
        raise failed(snapshot.id, snapshot.path, error) from error
    finally:
        _give_back(snapshot.path)
    return dataclasses.replace(whole, total_ms=(time.monotonic() - started) * 1000)


def failed(id: int, folder: Path, cause: Exception) -> CheckpointError:
    if isinstance(cause, OSError):
        cause = of_system(cause, "snapshot", str(folder))
    error = CheckpointError(f"snapshot {id} was not taken: {cause}", operation="snapshot", path=str(folder))
    error.code = getattr(cause, "code", CheckpointError.code)
    error.retryable = getattr(cause, "retryable", False)
    return error


def write_durably(path: Path, content: bytes) -> None:
    """Writes a file that is there as a whole or not at all, also after a crash."""

    def write(new: Path) -> None:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    replace_durably(path, write)


def replace_durably(path: Path, write: Callable[[Path], None]) -> None:
    """Replaces a file at once: a crash leaves the old one or the new. ``write`` writes a file to the disk."""
    new = path.with_name(path.name + ".new")
    try:
        write(new)
        new.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    _core.sync_directory(path.parent)
