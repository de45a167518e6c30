"""Source offsets: where a source stands after a write, stored with it as msgpack."""

from __future__ import annotations

from typing import Any

import msgspec

from sfkv._descriptions import UNREADABLE
from sfkv._errors import CorruptionError, SchemaError
from sfkv.config._options import int_of

_encode = msgspec.msgpack.Encoder(enc_hook=int_of).encode
_decode = msgspec.msgpack.Decoder().decode


def encode_offset(offset: Any) -> bytes | None:
    """A source offset as bytes; None stays None."""
    if offset is None:
        return None
    try:
        return _encode(offset)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SchemaError(f"an offset is stored as msgpack, which cannot hold {offset!r}: {error}") from error


def decode_offset(stored: bytes | None, path: str) -> Any:
    """The source offset that was stored in ``path``.

    Raises:
        CorruptionError: if the bytes are no msgpack.
    """
    if stored is None:
        return None
    try:
        return _decode(stored)
    except UNREADABLE as error:
        raise CorruptionError(
            f"Corruption: the source offset in {path} cannot be read: {error}: restore the store from a snapshot", path=path
        ) from error
