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

#include "sfkv/list_table.h"
#include "sfkv/map_table.h"

namespace sfkv {

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

class Scan : public Cursor, private Counted<Scan> {
 public:
  // "user_keys" is asked only of maps. REQUIRES: a Call scope of the store whose table and open scans these are.
  Scan(const Table& table, std::shared_ptr<OpenScans> open, ScanOptions options, KeyCodec keys, KeyCodec user_keys, ValueCodec values)
      : open_(std::move(open)), options_(std::move(options)), keys_(std::move(keys)), user_keys_(std::move(user_keys)),
        values_(std::move(values)), next_group_(options_.range.first) {
    read_.iterate_upper_bound = &bound_slice_;
    read_.fill_cache = false;  // one pass over everything must not push out what is read again and again
    iterator_ = table.NewIterator(read_);
    std::lock_guard<std::mutex> guard(open_->mutex_);
    open_->scans_.insert(this);
  }
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  Status Next(int64_t* rows, ArrowArray* keys, ArrowArray* user_keys, ArrowArray* values) override {
    *rows = 0;
    const bool with_user_keys = options_.kind == TableKind::kMap && !options_.distinct_keys;
    if (iterator_ == nullptr) return Ended();
    if (!FindRow()) return FromRocksDB(iterator_->status());
    Builders key_columns = MakeBuilders(keys_.columns(), options_.batch_rows);
    Builders user_columns;
    if (with_user_keys) user_columns = MakeBuilders(user_keys_.columns(), options_.batch_rows);
    RowSet stored;
    size_t bytes = 0;
    do {
      const std::string_view key = AsView(iterator_->key()).substr(kKeyHeaderBytes);
      const auto rest = keys_.ParseFront(key, *rows, &key_columns);
      if (!rest) return Table::Unreadable(-1);
      if (with_user_keys) {
        const auto end = user_keys_.ParseFront(*rest, *rows, &user_columns);
        if (!end || !end->empty()) return Table::Unreadable(-1);
      } else if (options_.kind != TableKind::kMap && !rest->empty()) {
        return Table::Unreadable(-1);
      }
      bytes += key.size() + iterator_->value().size();
      if (options_.with_values) stored.Add(AsView(iterator_->value()));
      ++*rows;
      Advance(kKeyHeaderBytes + key.size() - rest->size());
    } while (*rows < options_.batch_rows && bytes < kBatchBytes && FindRow());
    SFKV_RETURN_IF_ERROR(FromRocksDB(iterator_->status()));
    SFKV_RETURN_IF_ERROR(FinishRecord(&key_columns, *rows, nullptr, keys));
    if (with_user_keys) SFKV_RETURN_IF_ERROR(FinishRecord(&user_columns, *rows, nullptr, user_keys));
    return options_.with_values ? FinishValueColumns(stored, values) : Status::OK();
  }

  Status NextEntries(size_t most, RowSet* user_keys, RowSet* values) override {
    user_keys->Clear();
    values->Clear();
    if (iterator_ == nullptr) return Ended();
    while (user_keys->size() < most && FindRow()) {
      user_keys->Add(AsView(iterator_->key()).substr(options_.key.size()));
      if (options_.with_values) values->Add(AsView(iterator_->value()));
      iterator_->Next();
    }
    return FromRocksDB(iterator_->status());
  }

  // Frees the iterator. In a forked child it is left alone, and so is the mutex, which a thread of the parent may have held.
  ~Scan() override {
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

  static Status Ended() { return Status(Code::kClosed, "the scan has ended"); }

  // With one key, its prefix is compared as EntryCursor does.
  bool AtRow() const { return iterator_->Valid() && iterator_->key().starts_with(options_.key); }

  // Brings the iterator onto a row of the table, in this key group or a later one. False at the end or on an error.
  bool FindRow() {
    while (!AtRow()) {
      if (!iterator_->status().ok() || next_group_ > options_.range.last) return false;
      std::string first = options_.key;
      if (first.empty()) {
        first.resize(kKeyHeaderBytes);
        EncodeKeyHeader(first.data(), next_group_++, options_.table);
      } else {
        next_group_ = options_.range.last + 1;
      }
      bound_ = PrefixBound(first);
      bound_slice_ = bound_;
      iterator_->Seek(first);
    }
    return true;
  }

  // Leaves a row whose encoded key, without a user key, takes "key_bytes"; with distinct_keys all rows of that key.
  void Advance(size_t key_bytes) {
    if (!options_.distinct_keys) return iterator_->Next();
    const std::string key(iterator_->key().data(), key_bytes);
    iterator_->Next();
    if (iterator_->Valid() && iterator_->key().starts_with(key)) iterator_->Seek(PrefixBound(key));
  }

  // The stored values as a struct array: of the values' columns, or of the one column of lists.
  Status FinishValueColumns(const RowSet& stored, ArrowArray* out) const {
    const int64_t rows = static_cast<int64_t>(stored.size());
    if (options_.kind == TableKind::kList) {
      OwnedArray lists;
      SFKV_RETURN_IF_ERROR(BuildLists(rows, values_, [&](int64_t i) { return stored.Get(static_cast<size_t>(i)); }, lists.get()));
      FinishStruct(&lists, 1, rows, out);
      return Status::OK();
    }
    Builders columns = MakeBuilders(values_.columns(), rows);
    ValidityBuilder present(rows);
    for (int64_t i = 0; i < rows; ++i) {
      std::string_view row = stored.Get(static_cast<size_t>(i));
      bool is_none = false;
      if (options_.kind == TableKind::kMap && !ParseMapValue(row, &is_none, &row)) return Table::Unreadable(-1);
      if (is_none) continue;
      if (!values_.ParseRow(row, i, &columns)) return Table::Unreadable(-1);
      present.Set(i);
    }
    return FinishRecord(&columns, rows, &present, out);
  }

  ForkGuard fork_;
  std::shared_ptr<OpenScans> open_;
  ScanOptions options_;
  KeyCodec keys_;
  KeyCodec user_keys_;
  ValueCodec values_;
  int next_group_;
  std::string bound_{"\xff\xff"};
  rocksdb::Slice bound_slice_{bound_};
  rocksdb::ReadOptions read_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

inline void OpenScans::EndAll() {
  std::lock_guard<std::mutex> guard(mutex_);
  for (Scan* scan : scans_) scan->iterator_.reset();
  scans_.clear();
}

}  // namespace sfkv
