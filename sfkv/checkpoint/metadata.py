"""What users store beside their state: source offsets and snapshot metadata."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from sfkv._errors import CorruptionError, SchemaError

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def encode_offset(offset: Any) -> bytes | None:
    """A source offset as bytes; None stays None."""
    if offset is None:
        return None
    try:
        return _encode(offset)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SchemaError(f"an offset is stored as msgpack, which cannot hold {offset!r}: {error}") from error


def decode_offset(stored: bytes | None) -> Any:
    return None if stored is None else _decode(stored)


def describe_metadata(metadata: Any) -> dict[str, Any]:
    """Metadata as it stands in a manifest: readable JSON where that keeps everything, else msgpack."""
    try:
        encoded = _encode(metadata)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SchemaError(f"metadata is stored as msgpack, which cannot hold {metadata!r}: {error}") from error
    plain = _decode(encoded)
    try:
        if msgspec.json.decode(msgspec.json.encode(plain)) == plain:
            return {"json": plain}
    except (TypeError, ValueError, msgspec.MsgspecError):
        pass
    return {"msgpack": base64.b64encode(encoded).decode()}


def parse_metadata(description: dict[str, Any]) -> Any:
    if "json" in description:
        return description["json"]
    try:
        return _decode(base64.b64decode(description["msgpack"], validate=True))
    except (KeyError, ValueError, msgspec.DecodeError) as error:
        raise CorruptionError(f"Corruption: the metadata in a manifest cannot be read: {error}") from error
