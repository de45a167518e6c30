"""Backends, and settings of the engine and of sfkv, that must not change any answer."""

from __future__ import annotations

import dataclasses

import sfkv

TINY = "write_buffer_size=65536"  # the engine takes no smaller memtable
SMALL_FILES = f"{TINY};target_file_size_base=65536;max_bytes_for_level_base=131072;max_bytes_for_level_multiplier=2"


@dataclasses.dataclass(frozen=True)
class Configuration:
    """How a backend is opened.

    Attributes:
        name: for messages.
        engine: changes to the engine's options, in its text form.
        table: those of its table files, likewise.
        memory: the slot's.
        max_parallelism: the number of key groups.
        key_groups: those that the backend owns; None is all.
        store: which backend it is.
    """

    name: str
    engine: str = ""
    table: str = ""
    write_batch_bytes: int | str = "2MB"
    read_chunk_keys: int = 64
    memory: str = "128MB"
    max_parallelism: int = 128
    key_groups: tuple[int, int] | None = None
    store: str = "rocksdb"

    def backend(self) -> sfkv.EmbeddedRocksDBStateBackend | sfkv.HashMapStateBackend:
        if self.store == "memory":
            return sfkv.HashMapStateBackend()
        backend = sfkv.EmbeddedRocksDBStateBackend(
            write_batch_bytes=self.write_batch_bytes, read_chunk_keys=self.read_chunk_keys
        )
        parts = [self.engine, f"block_based_table_factory={{{self.table}}}" if self.table else ""]
        backend._engine_options = ";".join(filter(None, parts))
        return backend

    def owned(self) -> range:
        first, last = self.key_groups or (0, self.max_parallelism - 1)
        return range(first, last + 1)


def _compressions() -> list[Configuration]:
    """Those that the engine has, each on all levels and in a tower of them."""
    names = {"snappy": "kSnappyCompression", "lz4": "kLZ4Compression", "lz4hc": "kLZ4HCCompression", "zstd": "kZSTD"}
    there = {short: name for short, name in names.items() if name in sfkv.build_info()["compressions"]}
    each = [Configuration(f"{short} everywhere", f"{TINY};compression_per_level={name}") for short, name in there.items()]
    tower = ":".join(["kNoCompression", *there.values()])
    return [
        *each,
        Configuration("no compression", f"{TINY};compression_per_level=kNoCompression"),
        Configuration("another compression on each level", f"{SMALL_FILES};compression_per_level={tower}"),
    ]


DEFAULT = Configuration("default")
MEMORY = Configuration("in memory", store="memory")
TWO_LEVELS = "index_type=kTwoLevelIndexSearch;partition_filters=true;metadata_block_size=128;block_size=128"

# The state machine draws from these, and in memory; all but one of them meet files as soon as there is anything to write.
SMALL = [
    DEFAULT,
    Configuration("tiny memtable and blocks", TINY, "block_size=64", memory="4MB"),
    Configuration("tiny cache that holds indexes", TINY, "block_cache=1M;cache_index_and_filter_blocks=true", memory="4MB"),
    Configuration("always compacting", f"{TINY};level0_file_num_compaction_trigger=1", write_batch_bytes=1, read_chunk_keys=1),
    Configuration("universal compaction", f"{TINY};compaction_style=kCompactionStyleUniversal", write_batch_bytes=100),
    Configuration("index in two levels, no batches", TINY, TWO_LEVELS, read_chunk_keys=3),
]

ALL = [
    *SMALL,
    MEMORY,
    Configuration("one key group in memory", store="memory", max_parallelism=1),
    Configuration("32,768 key groups in memory", store="memory", max_parallelism=32768),
    Configuration("the first 120 key groups in memory", store="memory", key_groups=(0, 119)),
    Configuration("blocks of 64 B", table="block_size=64"),
    Configuration("blocks of 64 KiB", TINY, "block_size=65536"),
    Configuration(
        "each key whole in its block", TINY, "block_restart_interval=1;data_block_index_type=kDataBlockBinaryAndHash"
    ),
    Configuration("many small files", SMALL_FILES),
    *_compressions(),
    Configuration("writes split at every row", write_batch_bytes=1),
    Configuration("reads of one key", TINY, read_chunk_keys=1),
    Configuration("reads of 1,024 keys", TINY, read_chunk_keys=1024),
    Configuration("no filter", f"{TINY};memtable_prefix_bloom_size_ratio=0", "filter_policy=nullptr"),
    Configuration("ribbon filter", TINY, "filter_policy=ribbonfilter:10"),
    Configuration("memory-mapped files", f"{TINY};allow_mmap_reads=true;compression_per_level=kNoCompression"),
    Configuration("few open files", f"{SMALL_FILES};max_open_files=20"),
    Configuration("never compacting", f"{TINY};disable_auto_compactions=true"),
    Configuration("two levels of files", f"{TINY};num_levels=2;level_compaction_dynamic_level_bytes=false"),
    Configuration("one key group", TINY, "block_size=256", max_parallelism=1),
    Configuration("32,768 key groups", TINY, "block_size=256", max_parallelism=32768),
    Configuration("the first 120 key groups", key_groups=(0, 119)),
    Configuration(
        "the first 120 key groups, split",
        TINY,
        "block_size=64",
        write_batch_bytes=1,
        read_chunk_keys=1,
        memory="4MB",
        key_groups=(0, 119),
    ),
    Configuration("the last key groups of 32,768", TINY, max_parallelism=32768, key_groups=(2000, 32767)),
]
