// A pass over a table in memory, as of its start: the pages of its rows under a view (row_heap.h), key group by key group, in the order
// of the keys within each.
//
// It belongs to a store, which ends it on close. Next() needs a Call scope (lifetime.h); it may be ended or dropped by any thread.
// A call that fails for want of memory ends it too, as the rows are lost that it had read.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "sfkv/memory_table.h"
#include "sfkv/scan_batch.h"

namespace sfkv {

class MemoryScan;

// The open scans of a store.
class OpenMemoryScans {
 public:
  void EndAll();
  size_t count() {
    std::lock_guard<std::mutex> guard(mutex_);
    return scans_.size();
  }

 private:
  friend class MemoryScan;
  std::mutex mutex_;
  std::set<MemoryScan*> scans_;
};

// The rows of a key group that begin with the row of an encoded key; they have no bound if all bytes of that are 0xff.
inline RowRange RangeOfPrefix(std::string_view key) {
  const std::string bound = PrefixBound(key);
  return {std::string(key.substr(kKeyHeaderBytes)), bound.size() > kKeyHeaderBytes ? bound.substr(kKeyHeaderBytes) : std::string()};
}

class MemoryScan : public Cursor, private Counted<MemoryScan> {
 public:
  // "table" may be null, for one that has no rows yet.
  MemoryScan(const MemoryTable* table, RowHeap* heap, std::shared_ptr<OpenMemoryScans> open, ScanBatch batch)
      : open_(std::move(open)), batch_(std::move(batch)), range_(batch_.options().rows) {
    const ScanOptions& options = batch_.options();
    KeyGroupRange groups = options.range;
    if (!options.key.empty()) {
      range_ = RangeOfPrefix(options.key);
      groups.first = groups.last = GroupOf(options.key);
    }
    if (table != nullptr) {
      view_ = heap->NewView();
      table_ = table->Freeze(groups, range_);
    }
    if (options.reverse) std::reverse(table_.groups.begin(), table_.groups.end());
    std::lock_guard<std::mutex> guard(open_->mutex_);
    open_->scans_.insert(this);
  }
  MemoryScan(const MemoryScan&) = delete;
  MemoryScan& operator=(const MemoryScan&) = delete;
  using Counted<MemoryScan>::live;

  Status Next(int64_t* rows, ArrowArray* keys, ArrowArray* user_keys, ArrowArray* values) override {
    *rows = 0;
    return Read([&] {
      batch_.Clear();
      SFKV_RETURN_IF_ERROR(FillBatch());
      *rows = batch_.rows();
      return *rows == 0 ? Status::OK() : batch_.Finish(keys, user_keys, values);
    });
  }

  Status NextEntries(size_t most, RowSet* user_keys, RowSet* values) override {
    user_keys->Clear();
    values->Clear();
    return Read([&] {
      const size_t key_bytes = batch_.options().key.size() - kKeyHeaderBytes;
      while (user_keys->size() < most && NextRow()) {
        user_keys->Add(rows_->key().substr(key_bytes));
        if (batch_.options().with_values) values->Add(rows_->value());
      }
      return Status::OK();
    });
  }

  // In a forked child the mutex is left alone, which a thread of the parent may have held.
  ~MemoryScan() override {
    if (fork_.InChild()) return;
    std::lock_guard<std::mutex> guard(open_->mutex_);
    open_->scans_.erase(this);
  }

 private:
  friend class OpenMemoryScans;

  template <typename Next>
  Status Read(Next&& next) {
    if (failed_) return Status(Code::kClosed, "the scan has ended, as there was not enough memory for its last batch: begin another");
    if (ended_) return Status(Code::kClosed, "the scan has ended");
    try {
      return next();
    } catch (...) {
      failed_ = true;
      LetGo();
      throw;
    }
  }
  void LetGo() {
    rows_.reset();
    table_ = FrozenTable();
    view_.reset();
  }

  Status FillBatch() {
    while (!batch_.is_full() && NextRow()) {
      if (batch_.options().distinct_keys) {
        const std::optional<size_t> bytes = batch_.keys().FrontBytes(rows_->key());
        if (!bytes) return UnreadableRow(-1);
        const std::string_view key = rows_->key().substr(0, *bytes);
        if (has_last_key_ && key == last_key_) continue;
        last_key_.assign(key);
        has_last_key_ = true;
      }
      batch_.Add(rows_->key(), rows_->value());
    }
    return Status::OK();
  }
  bool NextRow() {
    while (true) {
      if (rows_ && rows_->Next()) return true;
      rows_.reset();
      has_last_key_ = false;
      if (next_group_ == table_.groups.size()) return false;
      rows_.emplace(table_, table_.groups[next_group_++], range_, batch_.options().reverse);
    }
  }

  ForkGuard fork_;
  std::shared_ptr<OpenMemoryScans> open_;
  ScanBatch batch_;
  RowRange range_;
  std::shared_ptr<RowView> view_;
  FrozenTable table_;
  size_t next_group_ = 0;
  std::optional<FrozenRows> rows_;  // of the key group before it
  std::string last_key_;            // the key row that came last, if only one row of each is asked for
  bool has_last_key_ = false;
  bool ended_ = false;              // with its store
  bool failed_ = false;
};

inline void OpenMemoryScans::EndAll() {
  std::lock_guard<std::mutex> guard(mutex_);
  for (MemoryScan* scan : scans_) {
    scan->LetGo();
    scan->ended_ = true;
  }
  scans_.clear();
}

}  // namespace sfkv
