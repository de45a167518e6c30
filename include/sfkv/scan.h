// A pass over one table, key group by key group, in the order of the keys within each; batch by batch, as Arrow arrays.
//
// It sees the store as of its start. One iterator serves the whole pass: it is re-seeked to each key group, and its upper
// bound, changed only between seeks, keeps it from walking over the rows and tombstones of neighbouring tables.
// Belongs to a store, which ends it on close; then it holds no native memory any more. Next() needs a Call scope (lifetime.h);
// a scan may be ended or dropped by any thread.
#pragma once

#include <memory>
#include <mutex>
#include <set>

#include "sfkv/table.h"

namespace sfkv {

struct ScanOptions {
  uint8_t table = 0;
  KeyGroupRange range;
  int64_t batch_rows = 65536;
  bool with_values = true;
};

class Scan;

// The open scans of a store.
class OpenScans {
 public:
  void EndAll();
  size_t count() {
    std::lock_guard<std::mutex> guard(mutex_);
    return scans_.size();
  }

 private:
  friend class Scan;
  std::mutex mutex_;
  std::set<Scan*> scans_;
};

class Scan {
 public:
  // REQUIRES: a Call scope of the store whose database and open scans these are.
  Scan(rocksdb::DB* db, std::shared_ptr<OpenScans> open, const ScanOptions& options, KeyCodec keys, ValueCodec values)
      : open_(std::move(open)), options_(options), keys_(std::move(keys)), values_(std::move(values)), next_group_(options.range.first) {
    rocksdb::ReadOptions read;
    read.iterate_upper_bound = &bound_;
    read.fill_cache = false;     // one pass over everything must not push out what is read again and again
    read.total_order_seek = true;
    EncodeKeyHeader(bound_bytes_, kReservedKeyGroup, 0);
    iterator_.reset(db->NewIterator(read));
    std::lock_guard<std::mutex> guard(open_->mutex_);
    open_->scans_.insert(this);
  }
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  // Reads up to batch_rows rows into two struct arrays: keys, and values unless they were not asked for. "*rows" is how many;
  // 0 means that the scan is over.
  Status Next(int64_t* rows, ArrowArray* keys, ArrowArray* values) {
    *rows = 0;
    if (iterator_ == nullptr) return Status(Code::kClosed, "the scan has ended");
    if (!FindRow()) return FromRocksDB(iterator_->status());
    std::vector<ColumnBuilder> key_columns = MakeBuilders(keys_.columns(), options_.batch_rows);
    std::vector<ColumnBuilder> value_columns;
    if (options_.with_values) value_columns = MakeBuilders(values_.columns(), options_.batch_rows);
    size_t bytes = 0;
    do {
      const std::string_view key = AsView(iterator_->key());
      bytes += key.size() + iterator_->value().size();
      if (!keys_.ParseRow(key.substr(kKeyHeaderBytes), *rows, &key_columns)) return Table::Unreadable(-1);
      if (options_.with_values && !values_.ParseRow(AsView(iterator_->value()), *rows, &value_columns)) return Table::Unreadable(-1);
      ++*rows;
      iterator_->Next();
    } while (*rows < options_.batch_rows && bytes < kBatchBytes && FindRow());
    SFKV_RETURN_IF_ERROR(FromRocksDB(iterator_->status()));
    SFKV_RETURN_IF_ERROR(FinishRecord(&key_columns, *rows, nullptr, keys));
    return options_.with_values ? FinishRecord(&value_columns, *rows, nullptr, values) : Status::OK();
  }

  // Frees the iterator. In a forked child it is left alone, and so is the mutex, which a thread of the parent may have held.
  ~Scan() {
    if (fork_.InChild()) {
      static_cast<void>(iterator_.release());
      return;
    }
    std::lock_guard<std::mutex> guard(open_->mutex_);
    open_->scans_.erase(this);
    iterator_.reset();
  }

 private:
  friend class OpenScans;
  static constexpr size_t kBatchBytes = size_t{32} << 20;  // a batch of long rows ends early

  // Brings the iterator onto a row of the table, in this key group or a later one. False at the end or on an error.
  bool FindRow() {
    while (!iterator_->Valid()) {
      if (!iterator_->status().ok() || next_group_ > options_.range.last) return false;
      char first[kKeyHeaderBytes];
      EncodeKeyHeader(first, next_group_, options_.table);
      const int group = options_.table == 0xFF ? next_group_ + 1 : next_group_;
      EncodeKeyHeader(bound_bytes_, group, static_cast<uint8_t>(options_.table + 1));
      ++next_group_;
      iterator_->Seek({first, kKeyHeaderBytes});
    }
    return true;
  }

  ForkGuard fork_;
  std::shared_ptr<OpenScans> open_;
  ScanOptions options_;
  KeyCodec keys_;
  ValueCodec values_;
  int next_group_;
  char bound_bytes_[kKeyHeaderBytes];
  rocksdb::Slice bound_{bound_bytes_, kKeyHeaderBytes};
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

inline void OpenScans::EndAll() {
  std::lock_guard<std::mutex> guard(mutex_);
  for (Scan* scan : scans_) scan->iterator_.reset();
  scans_.clear();
}

}  // namespace sfkv
