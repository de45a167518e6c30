"""The manifest of a snapshot: what is in it, and which files, each with size and checksum.

It is the last file to be written, so a folder without one is no snapshot. Its first line says that it is sfkv's, its format
and its own checksum; the rest is JSON. FORMAT.md section 6.
"""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from sfkv._descriptions import UNREADABLE, Operator, Table
from sfkv._errors import CheckpointError, CorruptionError, FormatError
from sfkv.checkpoint.metadata import Metadata, describe_metadata, parse_metadata
from sfkv.checkpoint.rows_file import ROWS_NAME

# What the files of a snapshot are: a database's, or one file of rows.
Layout = Literal["rocksdb", "rows"]
# The files as a backend gives them: name, bytes, and CRC32C as eight hexadecimal digits, or "" where it is still to be taken.
Files = list[tuple[str, int, str]]

MANIFEST_NAME = "SNAPSHOT"
FORMAT = 2
_READABLE = (b"1", b"2")


@dataclasses.dataclass(frozen=True)
class SnapshotFile:
    """A file of a snapshot.

    Attributes:
        name: in the snapshot's folder.
        bytes: its size.
        crc32c: its checksum, eight hexadecimal digits.
    """

    name: str
    bytes: Annotated[int, msgspec.Meta(ge=0)]
    crc32c: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{8}\Z")]


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A complete snapshot of one keyed backend.

    Attributes:
        id: the number that the user gave it.
        path: its folder.
        files: what it consists of, apart from the manifest.
        key: the description of the key's schema.
        max_parallelism: the number of key groups, of all backends of the operator together.
        key_groups: the first and the last that the backend owns.
        tables: descriptions of the states, in the order of their table bytes.
        layout: what the files are: "rocksdb", a database's, or "rows", one file of rows. Either backend restores both.
        metadata: what the user stored with it, such as source offsets.
        created_ms: the wall clock when it was taken.
        sync_ms: how long the backend stood still for it; None for a snapshot that was found on disk.
        total_ms: how long it took in all; None likewise.
    """

    id: int
    path: Path
    files: tuple[SnapshotFile, ...]
    key: dict[str, Any]
    max_parallelism: int
    key_groups: tuple[int, int]
    tables: tuple[dict[str, Any], ...]
    metadata: Any
    created_ms: int
    layout: Layout = "rocksdb"
    sync_ms: float | None = None
    total_ms: float | None = None

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)

    def __fspath__(self) -> str:
        return os.fspath(self.path)


class _StoredTable(Table):
    id: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0


class _Manifest(Operator, kw_only=True):
    id: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    created_ms: int
    tables: list[_StoredTable]
    metadata: Metadata
    files: tuple[SnapshotFile, ...]
    layout: Layout = "rocksdb"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layout == "rows" and [file.name for file in self.files] != [ROWS_NAME]:
            raise ValueError(f"a snapshot of rows is one file, {ROWS_NAME}")


_decode = msgspec.json.Decoder(_Manifest).decode


def encode_manifest(snapshot: Snapshot, version: str, engine: str) -> bytes:
    body = msgspec.json.format(
        msgspec.json.encode(
            {
                "id": snapshot.id,
                "created_ms": snapshot.created_ms,
                "sfkv": version,
                "rocksdb": engine,
                "key": snapshot.key,
                "max_parallelism": snapshot.max_parallelism,
                "key_groups": snapshot.key_groups,
                "tables": snapshot.tables,
                "metadata": describe_metadata(snapshot.metadata),
                "layout": snapshot.layout,
                "files": [dataclasses.asdict(file) for file in snapshot.files],
            }
        )
    )
    return f"sfkv snapshot format {FORMAT} crc32 {zlib.crc32(body):08x}\n".encode() + body + b"\n"


def read_manifest(directory: str | os.PathLike[str]) -> Snapshot:
    """The snapshot in a folder, by its manifest; the files are not looked at.

    Raises:
        CheckpointError: if there is none, or it cannot be read.
        CorruptionError: if the manifest is torn or altered, or does not say what a manifest says.
        FormatError: if it is of another format, or not sfkv's.
    """
    path = Path(directory) / MANIFEST_NAME
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CheckpointError(
            f"there is no complete snapshot in {directory}: {MANIFEST_NAME} is missing", path=str(directory), code="missing"
        ) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}", path=str(path)) from error
    body = _check_head(path, text)
    try:
        stored = _decode(body)
    except UNREADABLE as error:
        raise CorruptionError(
            f"Corruption: {path} does not describe a snapshot: {error}: restore another snapshot", path=str(path)
        ) from error
    return Snapshot(
        id=stored.id,
        path=Path(directory),
        files=stored.files,
        key=stored.key_schema.describe(),
        max_parallelism=stored.max_parallelism,
        key_groups=stored.key_groups,
        tables=tuple(msgspec.to_builtins(table) for table in stored.tables),
        metadata=parse_metadata(stored.metadata, str(path)),
        created_ms=stored.created_ms,
        layout=stored.layout,
    )


def _check_head(path: Path, text: bytes) -> bytes:
    """The body of a manifest whose first line and checksum are right."""
    head, _, body = text.partition(b"\n")
    words = head.split(b" ")
    if words[:3] != [b"sfkv", b"snapshot", b"format"] or len(words) != 6:
        raise FormatError(f"{path} is not a manifest of sfkv's", path=str(path), code="not_ours")
    if words[3] not in _READABLE:
        raise FormatError(
            f"{path} has format {words[3].decode('ascii', 'replace')}, and this sfkv reads formats up to {FORMAT}: "
            "restore it with the sfkv that wrote it",
            path=str(path),
        )
    body = body.removesuffix(b"\n")
    if words[4:] != [b"crc32", f"{zlib.crc32(body):08x}".encode()]:
        raise CorruptionError(f"Corruption: {path} was torn or altered: restore another snapshot", path=str(path))
    return body


def check_files(snapshot: Snapshot, checksums: Sequence[tuple[int, str]]) -> None:
    """Compares what was found, in the files' order, with what the manifest says."""
    for file, (found_bytes, found_crc32c) in zip(snapshot.files, checksums, strict=True):
        path = str(snapshot.path / file.name)
        if found_bytes != file.bytes:
            raise CorruptionError(
                f"Corruption: {path} has {found_bytes} bytes, and the snapshot says {file.bytes}: restore another snapshot",
                path=path,
            )
        if found_crc32c != file.crc32c:
            raise CorruptionError(
                f"Corruption: {path} has CRC32C {found_crc32c}, and the snapshot says {file.crc32c}: restore another snapshot",
                path=path,
            )
