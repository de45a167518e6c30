"""The engine's options as Flink sets them, for sfkv to be opened with, and whether the engine took them."""

from __future__ import annotations

import glob
from pathlib import Path

import sfkv

# How Flink opens RocksDB when nothing is configured but the slot's memory, as its OPTIONS file tells; in its text form.
FLINK_OPTIONS = {
    "write_buffer_size": "67108864",
    "max_write_buffer_number": "2",
    "memtable_factory": "SkipListFactory",
    "memtable_whole_key_filtering": "false",
    "memtable_prefix_bloom_size_ratio": "0",
    "allow_concurrent_memtable_write": "true",
    "level_compaction_dynamic_level_bytes": "false",
    "compression": "kSnappyCompression",
    "compression_per_level": ":".join(["kSnappyCompression"] * 7),  # an empty list cannot be said, and ours would stay
    "max_background_jobs": "2",
    "level0_file_num_compaction_trigger": "4",
    "max_open_files": "-1",
    "atomic_flush": "false",
}
FLINK_TABLE_OPTIONS = {
    "block_size": "4096",
    "filter_policy": "nullptr",
    "index_type": "kBinarySearch",
    "format_version": "5",
    "cache_index_and_filter_blocks": "true",
    "cache_index_and_filter_blocks_with_high_priority": "true",
    "pin_l0_filter_and_index_blocks_in_cache": "false",
    "pin_top_level_index_and_filter": "true",
}


def joined(options: dict[str, str]) -> str:
    return ";".join(f"{name}={value}" for name, value in options.items())


def not_taken(folder: Path) -> dict[str, str]:
    """Which of Flink's options a store does not have, by the engine's own OPTIONS file: name to what it has instead."""
    newest = max(glob.glob(f"{folder}/OPTIONS-*"), key=lambda path: int(path.rsplit("-", 1)[1]))
    found: dict[str, str] = {}
    for line in Path(newest).read_text().splitlines():
        name, equals, value = line.strip().partition("=")
        if equals:
            found.setdefault(name, value)
    wanted = FLINK_OPTIONS | FLINK_TABLE_OPTIONS
    return {
        name: found.get(name, "nothing")
        for name, value in wanted.items()
        if not (found.get(name, "nothing") + ";").replace("{id=", "").startswith((value + ";", value + "."))
    }


def text_for(slot: sfkv.Slot) -> str:
    """Flink's options, and a block cache that is cut into shards as Flink's is, of 512 KiB or more and at most 64 of them.

    Blocks of indexes may not fit into such a shard; the slot's own cache is cut into larger ones. Memtables are still
    charged to the slot.
    """
    shard_bits = min(6, max(0, (slot.cache_bytes >> 19).bit_length() - 1))
    cache = f"{{capacity={slot.cache_bytes};num_shard_bits={shard_bits};high_pri_pool_ratio=0.1}}"
    table = joined(FLINK_TABLE_OPTIONS | {"block_cache": cache})
    return joined(FLINK_OPTIONS | {"block_based_table_factory": f"{{{table}}}"})
