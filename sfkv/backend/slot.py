"""Slots: the memory that backends share."""

from __future__ import annotations

import numbers
from typing import Any

from sfkv import _core
from sfkv._errors import ConfigError
from sfkv.config._sizes import parse_bytes

_SMALLEST_BYTES = 4 << 20


class Slot:
    """One block cache and one write-buffer manager, shared by all backends that are opened in it.

    Args:
        memory: bytes, or "256MB" (2^20 bytes each), for both together. At least 4 MB.
        write_buffer_ratio: the share for writes that are not in files yet, 0 to 1; Flink's formulas apply: the cache takes
            (3 - r) / 3 of the memory, the write buffers 2 r / 3, and these may briefly grow to half as much again.
        high_priority_ratio: the share of the cache, 0 to 1, that is kept for blocks that were used more than once.

    Raises:
        ConfigError: naming the option.

    Lifetime:
        Freed with the last backend that uses it. May be shared between threads, not with a forked child.
    """

    def __init__(
        self, memory: int | str = "128MB", *, write_buffer_ratio: float = 0.5, high_priority_ratio: float = 0.1
    ) -> None:
        memory_bytes = parse_bytes(memory, "memory")
        if memory_bytes < _SMALLEST_BYTES:
            raise ConfigError(f'memory is {memory!r}: a slot needs at least "4MB"')
        for name, ratio in (("write_buffer_ratio", write_buffer_ratio), ("high_priority_ratio", high_priority_ratio)):
            if not isinstance(ratio, numbers.Real) or isinstance(ratio, bool) or not 0 < ratio < 1:
                raise ConfigError(f"{name} is {ratio!r}: use a number between 0 and 1")
        self._native = _core.Slot(memory_bytes, float(write_buffer_ratio), float(high_priority_ratio))

    @property
    def memory_bytes(self) -> int:
        """What the slot was given."""
        return self._native.memory_bytes

    @property
    def cache_bytes(self) -> int:
        """How much the block cache may hold; write buffers and row caches count against it."""
        return self._native.cache_bytes

    @property
    def write_buffer_bytes(self) -> int:
        """What the write buffers may take before they are flushed."""
        return self._native.write_buffer_bytes

    @property
    def row_cache_bytes(self) -> int:
        """What row caches have taken of the block cache now; at the most an eighth of what it has beside write buffers."""
        return self._native.row_cache_bytes

    @property
    def cache_usage_bytes(self) -> int:
        """What the block cache holds now."""
        return self._native.cache_usage_bytes

    def __repr__(self) -> str:
        return f"Slot(memory={self.memory_bytes}, cache_usage_bytes={self.cache_usage_bytes})"


def check_slot(slot: Any) -> None:
    """Refuses what is no slot; None stands for one of its own."""
    if slot is not None and not isinstance(slot, Slot):
        raise ConfigError(f"slot is {slot!r}: pass a sfkv.Slot")
