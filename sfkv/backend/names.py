"""Names of states and cells."""

from __future__ import annotations

from sfkv._errors import ConfigError

_MAX_BYTES = 1000


def encode_name(name: str, what: str) -> bytes:
    """A name in UTF-8. ``what`` is what has it, for errors."""
    try:
        encoded = name.encode() if isinstance(name, str) else b""
    except UnicodeEncodeError as error:
        raise ConfigError(f"a {what}'s name is a text, and {name!r} has half a character: use another one") from error
    if not 1 <= len(encoded) <= _MAX_BYTES:
        raise ConfigError(f"a {what}'s name is a text of 1 to {_MAX_BYTES} bytes, not {name!r}")
    return encoded
