// A slot: one block cache and one write-buffer manager, shared by all stores that are opened in it. Their row caches take from the
// block cache.
//
// Sizes follow Apache Flink's formulas for memory T and write-buffer ratio r: the cache takes (3 - r) T / 3, the write-buffer
// manager 2 T r / 3 of it, because the manager lets memtables grow to 1.5 times its size before flushes catch up.
// Thread-safe. Freed with its last holder; in a forked child never.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "sfkv/debug.h"
#include "sfkv/lifetime.h"
#include "sfkv/rocksdb_compat.h"
#include "sfkv/row_cache.h"

namespace sfkv {

class Slot : public MemorySource, private Counted<Slot> {
 public:
  Slot(size_t memory_bytes, double write_buffer_ratio, double high_priority_ratio)
      : memory_bytes_(memory_bytes),
        cache_bytes_(static_cast<size_t>((3.0 - write_buffer_ratio) * static_cast<double>(memory_bytes) / 3.0)),
        write_buffer_bytes_(static_cast<size_t>(2.0 * static_cast<double>(memory_bytes) * write_buffer_ratio / 3.0)) {
    rocksdb::LRUCacheOptions options;
    options.capacity = cache_bytes_;
    options.num_shard_bits = ShardBits(cache_bytes_);
    options.strict_capacity_limit = false;  // a read must not fail because the cache is full of pinned blocks
    options.high_pri_pool_ratio = high_priority_ratio;
    cache_ = rocksdb::NewLRUCache(options);
    write_buffers_ = std::make_shared<rocksdb::WriteBufferManager>(
        write_buffer_bytes_, cache_, /*allow_stall=*/false);  // a stall that nothing flushes would never end
  }

  ~Slot() override {
    if (!fork_.InChild()) return;
    // The parent's locks may be held for ever in here: leave everything as it is.
    new std::shared_ptr<rocksdb::WriteBufferManager>(write_buffers_);
    new std::shared_ptr<rocksdb::Cache>(cache_);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  // For row caches, which hold more of what is asked for in the same memory: an eighth at the most of what is there for blocks.
  bool Take(size_t bytes) override {
    std::lock_guard<std::mutex> guard(mutex_);
    const size_t taken = row_cache_bytes_ + bytes;
    if (taken > (cache_bytes_ - write_buffer_bytes_) / 8) return false;
    cache_->SetCapacity(cache_bytes_ - taken);
    row_cache_bytes_ = taken;
    return true;
  }
  void GiveBack(size_t bytes) override {
    if (fork_.InChild()) return;  // a thread of the parent may have held the mutex, or the cache's
    std::lock_guard<std::mutex> guard(mutex_);
    row_cache_bytes_ -= bytes;
    cache_->SetCapacity(cache_bytes_ - row_cache_bytes_);
  }

  bool InChild() const { return fork_.InChild(); }
  size_t memory_bytes() const { return memory_bytes_; }
  size_t cache_bytes() const { return cache_bytes_; }
  size_t write_buffer_bytes() const { return write_buffer_bytes_; }
  size_t cache_usage_bytes() const { return cache_->GetUsage(); }
  size_t row_cache_bytes() const { return row_cache_bytes_; }
  size_t pinned_bytes() const { return cache_->GetPinnedUsage(); }

  const std::shared_ptr<rocksdb::Cache>& cache() const { return cache_; }
  const std::shared_ptr<rocksdb::WriteBufferManager>& write_buffers() const { return write_buffers_; }

  // Shards of at least 16 MiB, at most 64 of them: smaller ones cannot hold a filter block, and reads fall off a cliff.
  static int ShardBits(size_t cache_bytes) {
    int bits = 0;
    while (bits < 6 && (cache_bytes >> (bits + 1)) >= (size_t{16} << 20)) ++bits;
    return bits;
  }

 private:
  ForkGuard fork_;
  size_t memory_bytes_;
  size_t cache_bytes_;
  size_t write_buffer_bytes_;
  std::mutex mutex_;
  std::atomic<size_t> row_cache_bytes_{0};  // taken from the cache
  std::shared_ptr<rocksdb::Cache> cache_;
  std::shared_ptr<rocksdb::WriteBufferManager> write_buffers_;
};

}  // namespace sfkv
