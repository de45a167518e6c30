"""Files of rows that a store of either kind can be made from: blocks of rows, sorted, compressed and checksummed.

FORMAT.md section 7. Nothing here knows stores: a block's rows are row_blocks.h's.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Generator, Iterable
from pathlib import Path

import pyarrow as pa

from sfkv._errors import CorruptionError
from sfkv._store import RESERVED_GROUP

ROWS_NAME = "ROWS"
# Blocks end when they hold as much.
BLOCK_BYTES = 1 << 20

_HEAD = b"sfkv rows format 1\n"
_END_GROUP = 0xFFFE
_FIELDS = struct.Struct("<HII")  # key group, bytes of the block, bytes as they are stored
_CHECKSUM = struct.Struct("<I")
_MOST_COMPRESSED = 255  # LZ4 makes no byte of more


def write_rows(path: Path, blocks: Iterable[tuple[int, bytes]]) -> None:
    """Writes a file of blocks, durably. Blocks are pairs of key group and rows, in the order of the key groups.

    Raises:
        OSError
    """
    codec = pa.Codec("lz4_raw")
    count = 0
    with path.open("wb") as file:
        file.write(_HEAD)
        for key_group, rows in blocks:
            stored = codec.compress(rows, asbytes=True)
            _write_block(file, _FIELDS.pack(key_group, len(rows), len(stored)), stored)
            count += 1
        _write_block(file, _FIELDS.pack(_END_GROUP, count, 0), b"")
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path) -> Generator[tuple[int, bytes], None, None]:
    """The blocks of a file, one at a time.

    Raises:
        CorruptionError: the file was torn or altered, or is none of rows.
        OSError
    """
    codec = pa.Codec("lz4_raw")
    count = 0
    with path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size - len(_HEAD)
        if file.read(len(_HEAD)) != _HEAD:
            raise _damaged(path)
        while True:
            fields = file.read(_FIELDS.size)
            checksum = file.read(_CHECKSUM.size)
            if len(checksum) < _CHECKSUM.size:
                raise _damaged(path)
            key_group, size, stored_size = _FIELDS.unpack(fields)
            left -= _FIELDS.size + _CHECKSUM.size + stored_size
            if left < 0:  # and no memory is asked for that a damaged size speaks of
                raise _damaged(path)
            stored = file.read(stored_size)
            if len(stored) < stored_size or zlib.crc32(stored, zlib.crc32(fields)) != _CHECKSUM.unpack(checksum)[0]:
                raise _damaged(path)
            if count == 0 and key_group != RESERVED_GROUP:  # what a store is comes first
                raise _damaged(path)
            if key_group == _END_GROUP:
                if size != count or file.read(1):
                    raise _damaged(path)
                return
            count += 1
            if size > _MOST_COMPRESSED * stored_size:
                raise _damaged(path)
            try:
                block = codec.decompress(stored, size, asbytes=True)
            except (OSError, ValueError) as error:  # as pyarrow's are
                raise _damaged(path) from error
            yield key_group, block


def _write_block(file: object, fields: bytes, stored: bytes) -> None:
    checksum = zlib.crc32(stored, zlib.crc32(fields))
    file.write(fields + _CHECKSUM.pack(checksum))  # type: ignore[attr-defined]
    file.write(stored)  # type: ignore[attr-defined]


def _damaged(path: Path) -> CorruptionError:
    return CorruptionError(f"Corruption: {path} was torn or altered: restore another snapshot", path=str(path))
