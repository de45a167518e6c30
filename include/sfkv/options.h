// Every option of the engine that sfkv sets, with the reason beside the value. They hold for a whole store: all states of a
// backend share one database and one column family.
#pragma once

#include <algorithm>

#include "sfkv/background.h"
#include "sfkv/merge.h"
#include "sfkv/slot.h"

namespace sfkv {

struct StoreOptions {
  std::string path;
  bool create = true;                        // make the directory, if there is none
  bool recover = false;                      // accept a directory that was not closed
  size_t write_batch_bytes = size_t{2} << 20;  // where writes of one call are split
  size_t read_chunk_keys = 64;               // keys of one MultiGet: each chunk's pins are freed before the next
  bool row_cache = true;                     // keep rows that are read again and again (row_cache.h)
  std::string engine_options;                // changes to those below, in RocksDB's own text form: for measurements and tests
};

inline rocksdb::BlockBasedTableOptions MakeTableOptions(const Slot& slot) {
  rocksdb::BlockBasedTableOptions table;
  table.format_version = 5;                         // read by all engines that sfkv is tested with
  table.block_cache = slot.cache();
  table.block_size = 8 << 10;                       // half of what 16 KiB gains for batches, a tenth of what it costs single reads
  table.checksum = rocksdb::kXXH3;                  // faster than CRC32C on every miss
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));  // deduplicating jobs ask mostly for absent keys
  table.whole_key_filtering = true;
  table.cache_index_and_filter_blocks = false;      // a cache that must hold whole index blocks falls off a cliff beyond its size
  table.cache_usage_options.options_overrides[rocksdb::CacheEntryRole::kBlockBasedTableReader].charged =
      rocksdb::CacheEntryRoleOptions::Decision::kEnabled;  // ... but they count against the slot
  return table;
}

inline rocksdb::Options MakeOptions(const Slot& slot) {
  rocksdb::Options options;
  options.env = BackgroundEnv::OfThisProcess();     // threads that a forked child does not inherit
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(MakeTableOptions(slot)));

  // Memtables. The slot's manager decides when to flush; this is the most that one may hold.
  options.write_buffer_manager = slot.write_buffers();
  options.write_buffer_size = std::clamp<size_t>(slot.write_buffer_bytes() / 2, size_t{256} << 10, size_t{32} << 20);
  options.max_write_buffer_number = 2;
  options.memtable_whole_key_filtering = true;      // reads skip a memtable that lacks the key: a quarter off mixed reads
  options.memtable_prefix_bloom_size_ratio = 0.02;  // larger than the L2 cache, it costs writes more than it saves reads
  options.allow_concurrent_memtable_write = false;  // a backend has one writer

  // Files.
  options.level_compaction_dynamic_level_bytes = true;
  options.compression = rocksdb::kNoCompression;    // a cache miss costs a fifth more where blocks are compressed
  if (HasCompression(rocksdb::kLZ4Compression)) {
    options.compression_per_level = {rocksdb::kNoCompression, rocksdb::kNoCompression, rocksdb::kNoCompression,
                                     rocksdb::kLZ4Compression};
  }
  options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();  // snapshots carry them
  options.ttl = 0;                                  // RocksDB would rewrite files after 30 days without being asked
  options.periodic_compaction_seconds = 0;
  options.max_background_jobs = 2;
  options.max_open_files = -1;
  options.use_fsync = false;                        // fdatasync is enough for files that only grow

  options.merge_operator = std::make_shared<TableMerge>();

  // Failures.
  options.max_bgerror_resume_count = 0;             // sfkv says when to try again (flush_watch.h)

  // Opening and closing. The log is the store's (info_log.h).
  options.create_if_missing = true;
  options.avoid_flush_during_shutdown = true;       // close() flushes, close(discard=True) must not
  options.skip_stats_update_on_db_open = true;      // would read every file's properties
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.fail_if_options_file_error = true;        // a snapshot copies the OPTIONS file
  return options;
}

// Applies changes such as "write_buffer_size=1M;block_based_table_factory={block_size=512}".
inline Status ChangeOptions(const std::string& changes, rocksdb::Options* options) {
  if (changes.empty()) return Status::OK();
  rocksdb::ConfigOptions config;
  config.env = options->env;
  const rocksdb::Options before = *options;
  const rocksdb::Status changed = rocksdb::GetOptionsFromString(config, before, changes, options);
  return changed.ok() ? Status::OK() : Status(Code::kUsage, changed.ToString() + ": correct the options of the engine");
}

// The log is off: a store's promise is its snapshots and close(), and after a crash a prefix of its writes.
inline rocksdb::WriteOptions MakeWriteOptions() {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  return options;
}

}  // namespace sfkv
