"""Sizes: bytes, or text such as "64MB", which is 64 x 2^20 bytes, as in Flink."""

from __future__ import annotations

import re

from sfkv._errors import ConfigError
from sfkv.config._options import whole_number

_MOST_BYTES = (1 << 63) - 1
_UNITS = {
    "": 1,
    "b": 1,
    "bytes": 1,
    **dict.fromkeys(("k", "kb", "kib", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mib", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gib", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tib", "tebibytes"), 1 << 40),
}


def parse_bytes(size: int | str, option: str) -> int:
    """The number of bytes that ``size`` names, up to 2^63 - 1. ``option`` is what an error calls it."""
    number = whole_number(size)
    if number is not None:
        count = number
    else:
        match = re.fullmatch(r"\s*(\d{1,20})\s*([a-z]*)\s*", size.lower()) if isinstance(size, str) else None
        if match is None or match[2] not in _UNITS:
            raise ConfigError(f'{option} is {size!r}: pass bytes, or a text such as "64MB" (2^20 bytes each)')
        count = int(match[1]) * _UNITS[match[2]]
    if count < 0:
        raise ConfigError(f"{option} is {size!r}: a size cannot be negative")
    if count > _MOST_BYTES:
        raise ConfigError(f"{option} is {size!r}: a size is at most {_MOST_BYTES} bytes")
    return count
