"""What users store with a snapshot."""

from __future__ import annotations

from typing import Any

import msgspec

from sfkv._descriptions import UNREADABLE
from sfkv._errors import CorruptionError, SchemaError
from sfkv.config._options import int_of

_encode = msgspec.msgpack.Encoder(enc_hook=int_of).encode
_decode = msgspec.msgpack.Decoder().decode


class Metadata(msgspec.Struct, omit_defaults=True):
    """Metadata in a manifest: one of the two."""

    json: Any = msgspec.UNSET
    msgpack: bytes = b""


def describe_metadata(metadata: Any) -> Metadata:
    """Metadata as it stands in a manifest: readable JSON where that keeps everything, else msgpack."""
    try:
        encoded = _encode(metadata)
        plain = _decode(encoded)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SchemaError(f"metadata is stored as msgpack, which cannot hold {metadata!r}: {error}") from error
    try:
        if msgspec.json.decode(msgspec.json.encode(plain)) == plain:
            return Metadata(json=plain)
    except (TypeError, ValueError, RecursionError):
        pass
    return Metadata(msgpack=encoded)


def parse_metadata(description: Metadata, path: str) -> Any:
    """What ``describe_metadata`` was given. ``path`` is the manifest's.

    Raises:
        CorruptionError: if there is no metadata, or no msgpack.
    """
    if description.json is not msgspec.UNSET:
        return description.json
    try:
        return _decode(description.msgpack)
    except UNREADABLE as error:
        raise CorruptionError(
            f"Corruption: the metadata in {path} cannot be read: {error}: restore another snapshot", path=path
        ) from error
