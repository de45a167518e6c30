// The floor of state in memory: the same keys and values in a C++ loop over an open-addressing table that fetches ahead, with no codec, no
// key groups and no Python. What sfkv's operations on HashMapStateBackend are compared with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace sfkv {

// Numbers to values: a power of two of slots, half of them empty at the least, probed one after the other.
template <typename Value>
class OpenTable {
 public:
  OpenTable() : slots_(size_t{1} << bits_) {}

  Value* Find(int64_t key) {
    for (size_t at = IndexOf(key);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key == key) return &slots_[at].value;
      if (slots_[at].key == kNoKey) return nullptr;
    }
  }
  Value* FindOrMake(int64_t key) {
    if (Value* found = Find(key)) return found;
    if ((count_ + 1) * 2 > slots_.size()) Grow();
    ++count_;
    return Make(key);
  }
  // Inlined, because GCC takes a function that only does this for one without effect.
  __attribute__((always_inline)) void Prefetch(int64_t key) const { __builtin_prefetch(&slots_[IndexOf(key)]); }

 private:
  static constexpr int64_t kNoKey = INT64_MIN;
  struct Slot {
    int64_t key = kNoKey;
    Value value{};
  };

  size_t IndexOf(int64_t key) const { return (static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15) >> (64 - bits_); }
  Value* Make(int64_t key) {
    size_t at = IndexOf(key);
    while (slots_[at].key != kNoKey) at = (at + 1) & (slots_.size() - 1);
    slots_[at].key = key;
    return &slots_[at].value;
  }
  void Grow() {
    std::vector<Slot> old(size_t{2} << bits_);
    old.swap(slots_);
    ++bits_;
    for (Slot& slot : old) {
      if (slot.key != kNoKey) *Make(slot.key) = std::move(slot.value);
    }
  }

  int bits_ = 4;
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

class MemoryFloor {
 public:
  enum class Kind { kValue, kRecord, kList, kMap, kFold, kTable };

  // The rows that the calls below work on, in batches; "user_keys" are moments of tables. "records": values that are bytes. A batch of
  // 0 is of single rows.
  bool Prepare(Kind kind, const int64_t* keys, const int64_t* user_keys, const int64_t* values, const std::vector<std::string>& records,
               size_t count, size_t batch) {
    kind_ = kind;
    batch_ = batch == 0 ? count : batch;
    rows_.clear();
    for (size_t i = 0; i < count; ++i) {
      rows_.push_back({keys[i], user_keys == nullptr ? 0 : user_keys[i], values[i]});
    }
    records_.clear();
    for (const std::string& record : records) {
      if (record.size() > sizeof(Record::bytes)) return false;
      records_.emplace_back();
      records_.back().size = record.size();
      std::memcpy(records_.back().bytes, record.data(), record.size());
    }
    return true;
  }

  // Batches fetch ahead; single calls do not.
  void GetMany(uint64_t* sum) {
    EachAhead([&](size_t i) { GetRow(i, sum); });
  }
  void PutMany() {
    EachAhead([&](size_t i) { PutRow(i); });
  }
  void MergeMany() {
    EachAhead([&](size_t i) { MergeRow(i); });
  }
  void Get(uint64_t* sum) {
    for (size_t i = 0; i < rows_.size(); ++i) GetRow(i, sum);
  }
  void Put() {
    for (size_t i = 0; i < rows_.size(); ++i) PutRow(i);
  }
  void Merge() {
    for (size_t i = 0; i < rows_.size(); ++i) MergeRow(i);
  }

  // All entries of each key.
  void ItemsMany(uint64_t* sum) {
    EachAhead([&](size_t i) {
      if (const Entries* entries = maps_.Find(rows_[i].key)) {
        for (const auto& [user_key, value] : *entries) *sum += static_cast<uint64_t>(user_key) + static_cast<uint64_t>(value);
      }
    });
  }

  // All rows of a table in the order of their moments, or those that come before one.
  void Scan(uint64_t* sum) { ScanTo(Sorted().size(), sum); }
  void ScanBelow(int64_t moment, uint64_t* sum) {
    const std::vector<Row>& rows = Sorted();
    const auto bound = std::lower_bound(rows.begin(), rows.end(), moment, [](const Row& row, int64_t m) { return row.user_key < m; });
    ScanTo(static_cast<size_t>(bound - rows.begin()), sum);
  }

 private:
  using Entries = std::vector<std::pair<int64_t, int64_t>>;  // by user key
  struct Row {
    int64_t key, user_key, value;
  };
  struct Fold {
    int64_t sum = 0, count = 0;
  };
  struct Record {
    size_t size = 0;
    char bytes[80];
  };
  static constexpr size_t kAhead = 16;

  template <typename Visit>
  void EachAhead(Visit&& visit) {
    for (size_t begin = 0; begin < rows_.size(); begin += batch_) {
      const size_t end = std::min(begin + batch_, rows_.size());
      for (size_t i = begin; i < std::min(begin + kAhead, end); ++i) FetchSlot(rows_[i].key);
      for (size_t i = begin; i < end; ++i) {
        if (i + kAhead < end) FetchSlot(rows_[i + kAhead].key);
        if (i + kAhead / 2 < end) FetchBehind(rows_[i + kAhead / 2].key);
        visit(i);
      }
    }
  }
  __attribute__((always_inline)) void FetchSlot(int64_t key) const {
    if (kind_ == Kind::kValue) numbers_.Prefetch(key);
    if (kind_ == Kind::kRecord) bytes_.Prefetch(key);
    if (kind_ == Kind::kFold) folds_.Prefetch(key);
    if (kind_ == Kind::kList) lists_.Prefetch(key);
    if (kind_ == Kind::kMap) maps_.Prefetch(key);
  }
  // What the slot points to.
  __attribute__((always_inline)) void FetchBehind(int64_t key) {
    if (kind_ == Kind::kList) {
      const std::vector<int64_t>* list = lists_.Find(key);
      if (list != nullptr) __builtin_prefetch(list->data());
    } else if (kind_ == Kind::kMap) {
      const Entries* entries = maps_.Find(key);
      if (entries != nullptr) __builtin_prefetch(entries->data());
    }
  }

  void GetRow(size_t i, uint64_t* sum) {
    const Row& row = rows_[i];
    if (kind_ == Kind::kValue) {
      if (const int64_t* value = numbers_.Find(row.key)) *sum += static_cast<uint64_t>(*value);
    } else if (kind_ == Kind::kRecord) {
      if (const Record* record = bytes_.Find(row.key)) Touch(*record, sum);
    } else if (kind_ == Kind::kFold) {
      if (const Fold* fold = folds_.Find(row.key)) *sum += static_cast<uint64_t>(fold->sum);
    } else if (kind_ == Kind::kList) {
      if (const std::vector<int64_t>* list = lists_.Find(row.key)) {
        for (int64_t value : *list) *sum += static_cast<uint64_t>(value);
      }
    } else if (Entries* entries = maps_.Find(row.key)) {
      const auto found = EntryOf(entries, row.user_key);
      if (found != entries->end() && found->first == row.user_key) *sum += static_cast<uint64_t>(found->second);
    }
  }
  void PutRow(size_t i) {
    const Row& row = rows_[i];
    if (kind_ == Kind::kValue) {
      *numbers_.FindOrMake(row.key) = row.value;
    } else if (kind_ == Kind::kRecord) {
      *bytes_.FindOrMake(row.key) = records_[i];
    } else if (kind_ == Kind::kFold) {
      *folds_.FindOrMake(row.key) = {row.value, 1};
    } else if (kind_ == Kind::kMap) {
      Entries* entries = maps_.FindOrMake(row.key);
      const auto at = EntryOf(entries, row.user_key);
      if (at != entries->end() && at->first == row.user_key) {
        at->second = row.value;
      } else {
        entries->insert(at, {row.user_key, row.value});
      }
    } else {
      sorted_.push_back(row);
      is_sorted_ = false;
    }
  }

  void MergeRow(size_t i) {
    if (kind_ == Kind::kList) {
      lists_.FindOrMake(rows_[i].key)->push_back(rows_[i].value);
    } else {
      Fold* fold = folds_.FindOrMake(rows_[i].key);
      fold->sum = static_cast<int64_t>(static_cast<uint64_t>(fold->sum) + static_cast<uint64_t>(rows_[i].value));
      ++fold->count;
    }
  }

  static Entries::iterator EntryOf(Entries* entries, int64_t user_key) {
    return std::lower_bound(entries->begin(), entries->end(), user_key, [](const auto& entry, int64_t key) { return entry.first < key; });
  }
  static void Touch(const Record& record, uint64_t* sum) {
    for (size_t at = 0; at + 8 <= record.size; at += 8) {
      uint64_t word;
      std::memcpy(&word, record.bytes + at, 8);
      *sum += word;
    }
  }

  const std::vector<Row>& Sorted() {
    if (!is_sorted_) std::sort(sorted_.begin(), sorted_.end(), [](const Row& a, const Row& b) { return a.user_key < b.user_key; });
    is_sorted_ = true;
    return sorted_;
  }
  void ScanTo(size_t end, uint64_t* sum) {
    for (size_t i = 0; i < end; ++i) {
      const Row& row = sorted_[i];
      *sum += static_cast<uint64_t>(row.key) + static_cast<uint64_t>(row.user_key) + static_cast<uint64_t>(row.value);
    }
  }

  Kind kind_ = Kind::kValue;
  size_t batch_ = 1;
  std::vector<Row> rows_;
  std::vector<Record> records_;  // beside the rows, if they are of records
  OpenTable<int64_t> numbers_;
  OpenTable<Record> bytes_;
  OpenTable<Fold> folds_;
  OpenTable<std::vector<int64_t>> lists_;
  OpenTable<Entries> maps_;
  std::vector<Row> sorted_;  // of a table
  bool is_sorted_ = true;
};

}  // namespace sfkv
