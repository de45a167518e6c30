"""What sfkv was built with."""

from __future__ import annotations

from typing import Any

from sfkv import _core


def build_info() -> dict[str, Any]:
    """What this build of sfkv links.

    Returns:
        A dict of ``engine`` ("tuned" or "system"), ``engine_flags`` (the compiler's, of the tuned engine), ``rocksdb`` (its
        version), ``assertions`` (whether the engine checks itself, which halves its writes), ``crc32c`` (whether in
        hardware), ``compressions``, and ``compiler`` (of sfkv).
    """
    return _core.build_info()
