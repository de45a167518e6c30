// A pass over one table, key group by key group, in the order of the keys within each; batch by batch, as Arrow arrays.
//
// It sees the store as of its start. One iterator serves the whole pass: it is re-seeked to each key group, and its bounds,
// changed only between seeks, keep it from walking over the rows and tombstones of neighbouring tables and outside the range
// that was asked for. Rows are copied as they come, and decoded when a batch is complete, so that a short one costs little.
// Belongs to a store, which ends it on close; then it holds no native memory any more. Next() needs a Call scope (lifetime.h);
// a scan may be ended or dropped by any thread.
#pragma once

#include <atomic>
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
      : open_(std::move(open)), least_(std::move(least)), options_(std::move(options)), keys_(std::move(keys)),
        user_keys_(std::move(user_keys)), values_(std::move(values)),
        with_keys_(!options_.key_columns.empty()) {
    PlanVisits();
    if (!visits_.empty()) {
      read_.iterate_upper_bound = &upper_slice_;
      if (options_.reverse) read_.iterate_lower_bound = &lower_slice_;
      // One pass over everything must not push out what is read again and again, which a part of it may be.
      read_.fill_cache = !(options_.key.empty() && options_.rows.lower.empty() && options_.rows.upper.empty());
      CountSeek();
      iterator_ = table.NewIterator(read_);
    }
    std::lock_guard<std::mutex> guard(open_->mutex_);
    open_->scans_.insert(this);
  }
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  Status Next(int64_t* rows, ArrowArray* keys, ArrowArray* user_keys, ArrowArray* values) override {
    *rows = 0;
    if (ended_) return Ended();
    key_rows_.Clear();
    value_rows_.Clear();
    size_t bytes = 0;
    while (*rows < options_.batch_rows && bytes < kBatchBytes && FindRow()) {
      const std::string_view key = AsView(iterator_->key()).substr(kKeyHeaderBytes);
      if (with_keys_) key_rows_.Add(key);
      bytes += key.size();
      if (options_.with_values) {
        const std::string_view value = AsView(iterator_->value());
        value_rows_.Add(value);
        bytes += value.size();
      }
      ++*rows;
      SFKV_RETURN_IF_ERROR(Advance(key));
    }
    if (iterator_ != nullptr) SFKV_RETURN_IF_ERROR(FromRocksDB(iterator_->status()));
    if (*rows == 0) return Status::OK();
    SFKV_RETURN_IF_ERROR(FinishKeyColumns(*rows, keys, user_keys));
    return options_.with_values ? FinishValueColumns(value_rows_, values) : Status::OK();
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
  static constexpr int64_t kChunkRows = 64;  // that are decoded at a time
  static constexpr size_t kBatchBytes = size_t{32} << 20;  // a batch of long rows ends early

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
      const int key_group = (static_cast<uint8_t>(options_.key[0]) << 8) | static_cast<uint8_t>(options_.key[1]);
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
    const std::optional<size_t> bytes = keys_.FrontBytes(key);
    if (!bytes) return Table::Unreadable(-1);
    const std::string prefix(iterator_->key().data(), kKeyHeaderBytes + *bytes);
    iterator_->Next();
    if (iterator_->Valid() && iterator_->key().starts_with(prefix)) {
      CountSeek();
      iterator_->Seek(PrefixBound(prefix));
    }
    return Status::OK();
  }

  // The key rows as struct arrays: of the keys' columns, and for maps of the user keys'.
  Status FinishKeyColumns(int64_t rows, ArrowArray* keys, ArrowArray* user_keys) const {
    const bool with_user_keys = options_.kind == TableKind::kMap && !options_.distinct_keys;
    Builders columns = MakeBuildersOf(keys_.columns(), options_.key_columns, rows);
    Builders user_columns;
    if (with_user_keys) user_columns = MakeBuilders(user_keys_.columns(), rows);
    const bool alike = keys_.is_fixed() && options_.kind != TableKind::kMap && KeysHaveOneLength();
    if (alike && with_keys_ && !keys_.ParseFixedRows(key_rows_.bytes(), &columns)) return Table::Unreadable(-1);
    for (int64_t i = 0; i < rows && with_keys_ && !alike; ++i) {
      auto rest = keys_.ParseFront(key_rows_.Get(static_cast<size_t>(i)), i, &columns);
      if (rest && with_user_keys) rest = user_keys_.ParseFront(*rest, i, &user_columns);
      if (!rest || !(rest->empty() || options_.distinct_keys)) return Table::Unreadable(-1);
    }
    SFKV_RETURN_IF_ERROR(FinishRecordOf(&columns, options_.key_columns, rows, nullptr, keys));
    return with_user_keys ? FinishRecord(&user_columns, rows, nullptr, user_keys) : Status::OK();
  }

  bool KeysHaveOneLength() const {
    for (size_t i = 0; i < key_rows_.size(); ++i) {
      if (key_rows_.Get(i).size() != keys_.fixed_bytes()) return false;
    }
    return true;
  }

  // The stored values as a struct array: of the values' columns, or of the one column of lists.
  Status FinishValueColumns(const RowList& stored, ArrowArray* out) const {
    const int64_t rows = static_cast<int64_t>(stored.size());
    if (options_.kind == TableKind::kList) {
      OwnedArray lists;
      SFKV_RETURN_IF_ERROR(BuildLists(rows, values_, [&](int64_t i) { return stored.Get(static_cast<size_t>(i)); }, lists.get()));
      FinishStruct(&lists, 1, rows, out);
      return Status::OK();
    }
    Builders columns = MakeBuildersOf(values_.columns(), options_.value_columns, rows);
    ValidityBuilder present(rows);
    std::string_view found[kChunkRows];
    int64_t positions[kChunkRows];
    for (int64_t begin = 0; begin < rows; begin += kChunkRows) {
      size_t count = 0;
      for (int64_t i = begin; i < std::min(rows, begin + kChunkRows); ++i) {
        std::string_view row = stored.Get(static_cast<size_t>(i));
        bool is_none = false;
        if (options_.kind == TableKind::kMap && !ParseMapValue(row, &is_none, &row)) return Table::Unreadable(-1);
        if (is_none) continue;
        found[count] = row;
        positions[count++] = i;
        if (options_.kind == TableKind::kMap) present.Set(i);
      }
      if (values_.ParseRows(found, positions, count, &columns) != count) return Table::Unreadable(-1);
    }
    const ValidityBuilder* some = options_.kind == TableKind::kMap ? &present : nullptr;  // of maps None is a value
    return FinishRecordOf(&columns, options_.value_columns, rows, some, out);
  }

  ForkGuard fork_;
  std::shared_ptr<OpenScans> open_;
  std::shared_ptr<LeastKeys> least_;
  ScanOptions options_;
  KeyCodec keys_;
  KeyCodec user_keys_;
  ValueCodec values_;
  bool with_keys_;          // some of their columns are asked for
  std::vector<Visit> visits_;
  size_t next_visit_ = 0;
  uint64_t began_at_ = 0;   // among the table's puts
  bool in_group_ = false;
  bool found_row_ = false;  // in this key group
  bool ended_ = false;      // with its store
  RowList key_rows_;        // of the batch that is being read
  RowList value_rows_;
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
