// A pass over one table, key group by key group, in the order of the keys within each; batch by batch, as Arrow arrays.
//
// It sees the store as of its start. One iterator serves the whole pass: it is re-seeked to each key group, and its bounds,
// changed only between seeks, keep it from walking over the rows and tombstones of neighbouring tables and outside the range
// that was asked for. Rows are gathered in a ScanBatch (scan_batch.h).
// Belongs to a store, which ends it on close; then it holds no native memory any more. Next() needs a Call scope (lifetime.h);
// a scan may be ended or dropped by any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>

#include "sfkv/list_table.h"
#include "sfkv/map_table.h"
#include "sfkv/scan_batch.h"

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
  // How often they asked for an iterator or sought with one.
  uint64_t seeks() const { return seeks_.load(std::memory_order_relaxed); }

 private:
  friend class Scan;
  std::mutex mutex_;
  std::set<Scan*> scans_;
  std::atomic<uint64_t> seeks_{0};
};

class Scan : public Cursor, private Counted<Scan> {
 public:
  // "least" may be null; "user_keys" is asked only of maps. REQUIRES: a Call scope of the store whose table and open scans these are.
  Scan(const Table& table, std::shared_ptr<OpenScans> open, std::shared_ptr<LeastKeys> least, ScanOptions options, KeyCodec keys,
       KeyCodec user_keys, ValueCodec values)
      : open_(std::move(open)), least_(std::move(least)), options_(options),
        batch_(std::move(options), std::move(keys), std::move(user_keys), std::move(values)) {
    PlanVisits();
    if (!visits_.empty()) {
      read_.iterate_upper_bound = &upper_slice_;
      if (options_.reverse) read_.iterate_lower_bound = &lower_slice_;
      // One pass over everything must not push out what is read again and again, which a part of it may be.
      read_.fill_cache = !(options_.key.empty() && options_.rows.lower.empty() && options_.rows.upper.empty());
      CountSeek();
      iterator_ = table.NewIterator(read_, options_.table);
    }
    std::lock_guard<std::mutex> guard(open_->mutex_);
    open_->scans_.insert(this);
  }
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  Status Next(int64_t* rows, ArrowArray* keys, ArrowArray* user_keys, ArrowArray* values) override {
    *rows = 0;
    if (ended_) return Ended();
    batch_.Clear();
    while (!batch_.is_full() && FindRow()) {
      const std::string_view key = AsView(iterator_->key()).substr(kKeyHeaderBytes);
      batch_.Add(key, options_.with_values ? AsView(iterator_->value()) : std::string_view());
      SFKV_RETURN_IF_ERROR(Advance(key));
    }
    if (iterator_ != nullptr) SFKV_RETURN_IF_ERROR(FromRocksDB(iterator_->status()));
    *rows = batch_.rows();
    return *rows == 0 ? Status::OK() : batch_.Finish(keys, user_keys, values);
  }

  Status NextEntries(size_t most, RowSet* user_keys, RowSet* values) override {
    user_keys->Clear();
    values->Clear();
    if (ended_) return Ended();
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
  // A key group that is to be visited, and from which row on. What is least in it is told as of the scan's start.
  struct Visit {
    int key_group;
    std::string lower;
    bool from_least;  // no row of the group is less
  };

  static Status Ended() { return Status(Code::kClosed, "the scan has ended"); }

  void CountSeek() { open_->seeks_.fetch_add(1, std::memory_order_relaxed); }

  // Finds the key groups that may have rows of the range.
  void PlanVisits() {
    if (!options_.key.empty()) {
      const int key_group = GroupOf(options_.key);
      options_.rows.lower = options_.key.substr(kKeyHeaderBytes);
      visits_.push_back({key_group, options_.rows.lower, false});
      return;
    }
    if (least_ != nullptr) began_at_ = least_->puts();
    for (int group = options_.range.first; group <= options_.range.last; ++group) {
      if (least_ == nullptr) {
        visits_.push_back({group, options_.rows.lower, false});
      } else if (!least_->HasNoneBelow(group, options_.rows.upper)) {
        const std::string& least = least_->least(group);
        const bool from_least = options_.rows.lower <= least;
        visits_.push_back({group, from_least ? least : options_.rows.lower, from_least});
      }
    }
    if (options_.reverse) std::reverse(visits_.begin(), visits_.end());
  }

  // With one key, its prefix is compared as EntryCursor does its bound.
  bool AtRow() const {
    return in_group_ && iterator_->Valid() && (options_.key.empty() || iterator_->key().starts_with(options_.key));
  }

  // Brings the iterator onto a row of the range, in this key group or a later one. False at the end or on an error.
  bool FindRow() {
    while (!AtRow()) {
      if (in_group_) LeaveGroup();
      if (next_visit_ == visits_.size() || !iterator_->status().ok()) return false;
      EnterGroup();
    }
    if (!found_row_ && !options_.reverse) Learn(AsView(iterator_->key()).substr(kKeyHeaderBytes));
    found_row_ = true;
    return true;
  }

  void EnterGroup() {
    const Visit& visit = visits_[next_visit_++];
    header_.resize(kKeyHeaderBytes);
    EncodeKeyHeader(header_.data(), visit.key_group, options_.table);
    lower_ = header_ + visit.lower;
    if (!options_.key.empty()) {
      upper_ = PrefixBound(lower_);
    } else {
      upper_ = options_.rows.upper.empty() ? PrefixBound(header_) : header_ + options_.rows.upper;
    }
    lower_slice_ = lower_;
    upper_slice_ = upper_;
    in_group_ = true;
    found_row_ = false;
    CountSeek();
    options_.reverse ? iterator_->SeekToLast() : iterator_->Seek(lower_slice_);
  }

  // Ends with a key group. One that had no row in a range from its least row on is looked at once behind the range, so that the
  // next scan of such a range need not look at all.
  void LeaveGroup() {
    in_group_ = false;
    if (found_row_ || !MayLearn() || !iterator_->status().ok()) return;
    if (options_.rows.upper.empty()) return Learn(std::nullopt);
    const std::string from = upper_;
    lower_slice_ = lower_ = from;
    upper_slice_ = upper_ = PrefixBound(header_);
    CountSeek();
    iterator_->Seek(from);
    if (iterator_->Valid()) {
      Learn(AsView(iterator_->key()).substr(kKeyHeaderBytes));
    } else if (iterator_->status().ok()) {
      Learn(std::nullopt);
    }
  }

  // Whether what the scan sees of the group is what there is: it began at its least row, and no row was put since.
  bool MayLearn() const {
    if (least_ == nullptr || options_.distinct_keys) return false;
    const Visit& visit = visits_[next_visit_ - 1];
    return visit.from_least && least_->IsUntouched(visit.key_group, began_at_);
  }
  void Learn(std::optional<std::string_view> first_row) {
    if (MayLearn()) least_->Raise(visits_[next_visit_ - 1].key_group, first_row);
  }

  // Leaves a row; with distinct_keys all rows of its key. "key" is what follows the header, and invalid afterwards.
  Status Advance(std::string_view key) {
    if (options_.reverse) {
      iterator_->Prev();
      return Status::OK();
    }
    if (!options_.distinct_keys) {
      iterator_->Next();
      return Status::OK();
    }
    const std::optional<size_t> bytes = batch_.keys().FrontBytes(key);
    if (!bytes) return UnreadableRow(-1);
    const std::string prefix(iterator_->key().data(), kKeyHeaderBytes + *bytes);
    iterator_->Next();
    if (iterator_->Valid() && iterator_->key().starts_with(prefix)) {
      CountSeek();
      iterator_->Seek(PrefixBound(prefix));
    }
    return Status::OK();
  }

  ForkGuard fork_;
  std::shared_ptr<OpenScans> open_;
  std::shared_ptr<LeastKeys> least_;
  ScanOptions options_;
  ScanBatch batch_;
  std::vector<Visit> visits_;
  size_t next_visit_ = 0;
  uint64_t began_at_ = 0;   // among the table's puts
  bool in_group_ = false;
  bool found_row_ = false;  // in this key group
  bool ended_ = false;      // with its store
  std::string header_;
  std::string lower_;
  std::string upper_{"\xff\xff"};
  rocksdb::Slice lower_slice_{lower_};
  rocksdb::Slice upper_slice_{upper_};
  rocksdb::ReadOptions read_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

inline void OpenScans::EndAll() {
  std::lock_guard<std::mutex> guard(mutex_);
  for (Scan* scan : scans_) {
    scan->iterator_.reset();
    scan->ended_ = true;
  }
  scans_.clear();
}

}  // namespace sfkv
