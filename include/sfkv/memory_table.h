// One table in memory: the rows of each of its key groups, hashed where they are only looked up, ordered where they are passed over.
//
// Works on encoded keys, of which it passes the key group and leaves the table byte alone. A frozen table is the pages as they were,
// under a view of the heap (row_heap.h): it can be read by any thread while the table goes on.
// One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sfkv/hash_rows.h"
#include "sfkv/ordered_rows.h"
#include "sfkv/rows.h"

namespace sfkv {

// The pages of one key group as they were.
struct FrozenGroup {
  int key_group = 0;
  std::vector<void*> pages;
};

struct FrozenTable {
  uint8_t table = 0;
  bool is_ordered = true;
  SlotForm form;
  std::vector<FrozenGroup> groups;  // that have rows
};

inline SlotForm FormOf(const TableShape& shape) { return SlotForm(shape.key_bytes, shape.value_bytes, shape.value_is_fixed, shape.is_ordered); }

class MemoryTable {
 public:
  explicit MemoryTable(const TableShape& shape) : shape_(shape) {}
  virtual ~MemoryTable() = default;
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  static constexpr size_t kMostAtOnce = 64;

  const TableShape& shape() const { return shape_; }

  // The row of an encoded key; no data if there is none. Valid until the next write.
  virtual std::string_view Find(std::string_view key) const = 0;
  // Those of several keys. REQUIRES: count <= kMostAtOnce.
  virtual void FindMany(const std::string_view* keys, size_t count, std::string_view* rows) const = 0;
  // Brings what a write of them will touch into the cache. REQUIRES: count <= kMostAtOnce.
  virtual void PrefetchMany(const std::string_view* keys, size_t count) const = 0;

  // Makes a row, or gives it another value, and returns where that is to be written, before the next call. The first "kept" bytes
  // of the old one stay. Null if such a row does not fit the table's shape.
  virtual char* Place(std::string_view key, size_t value_bytes, size_t kept) = 0;
  virtual void Erase(std::string_view key) = 0;
  // Gives back what a row that was taken back, or made shorter again, has left.
  virtual void Trim(std::string_view key) = 0;
  // Removes the rows of a range of one key group. REQUIRES: is_ordered.
  virtual void EraseRange(int key_group, const RowRange& rows) = 0;
  virtual void Clear() = 0;
  virtual size_t rows() const = 0;

  // The pages of some key groups, or, of ordered tables, those of them in which rows of the range lie.
  virtual FrozenTable Freeze(KeyGroupRange range, const RowRange& rows) const = 0;

  // Calls visit(key row, value) for the rows of a range of one key group, in order, until it returns false. REQUIRES: is_ordered.
  template <typename Visit>
  void VisitRange(int key_group, const RowRange& rows, Visit&& visit) const {
    struct Caller : Visitor {
      explicit Caller(Visit& v) : call(v) {}
      bool operator()(std::string_view key, std::string_view value) override { return call(key, value); }
      Visit& call;
    } caller(visit);
    DoVisitRange(key_group, rows, &caller);
  }

  static int GroupOf(std::string_view key) { return (static_cast<uint8_t>(key[0]) << 8) | static_cast<uint8_t>(key[1]); }

 protected:
  struct Visitor {
    virtual ~Visitor() = default;
    virtual bool operator()(std::string_view key, std::string_view value) = 0;
  };
  virtual void DoVisitRange(int key_group, const RowRange& rows, Visitor* visit) const = 0;

  TableShape shape_;
};

template <typename Rows>
class MemoryTableOf : public MemoryTable {
 public:
  MemoryTableOf(const TableShape& shape, RowHeap* heap)
      : MemoryTable(shape), groups_(static_cast<size_t>(shape.range.last - shape.range.first + 1)) {
    context_.heap = heap;
    context_.form = FormOf(shape);
    heap->Count(0, groups_.size() * sizeof(Rows));
  }
  ~MemoryTableOf() override {
    Clear();
    context_.heap->Count(groups_.size() * sizeof(Rows), 0);
  }

  std::string_view Find(std::string_view key) const override { return ValueOf(RowsOf(key).Find(context_, RowOf(key))); }

  void FindMany(const std::string_view* keys, size_t count, std::string_view* rows) const override {
    if constexpr (Rows::kOrdered) {
      OrderedRows::Search searches[kMostAtOnce];
      SearchMany(keys, count, searches);
      for (size_t i = 0; i < count; ++i) rows[i] = ValueOf(searches[i].Found(context_, RowOf(keys[i])));
    } else {
      uint64_t hashes[kMostAtOnce];
      PrefetchRows</*kWrite=*/false>(keys, count, hashes);
      for (size_t i = 0; i < count; ++i) rows[i] = ValueOf(RowsOf(keys[i]).FindHashed(context_, RowOf(keys[i]), hashes[i]));
    }
  }
  void PrefetchMany(const std::string_view* keys, size_t count) const override {
    if constexpr (Rows::kOrdered) {
      OrderedRows::Search searches[kMostAtOnce];
      SearchMany(keys, count, searches);
    } else {
      uint64_t hashes[kMostAtOnce];
      PrefetchRows</*kWrite=*/true>(keys, count, hashes);
    }
  }

  char* Place(std::string_view key, size_t value_bytes, size_t kept) override {
    if (!context_.form.Fits(key.size() - kKeyHeaderBytes, value_bytes)) return nullptr;
    Rows& rows = RowsOf(key);
    const size_t before = rows.rows();
    char* at = rows.Place(context_, RowOf(key), value_bytes, kept);
    rows_ += rows.rows() - before;
    return at;
  }
  void Erase(std::string_view key) override { rows_ -= RowsOf(key).Erase(context_, RowOf(key)) ? 1 : 0; }
  void Trim(std::string_view key) override { RowsOf(key).Trim(context_, RowOf(key)); }
  void EraseRange(int key_group, const RowRange& range) override {
    if constexpr (Rows::kOrdered) {
      Rows& rows = At(key_group);
      rows_ -= rows.rows();
      rows.EraseRange(context_, range.lower, range.upper);
      rows_ += rows.rows();
    }
  }
  void Clear() override {
    for (Rows& rows : groups_) rows.Clear(context_);
    rows_ = 0;
  }
  size_t rows() const override { return rows_; }

  FrozenTable Freeze(KeyGroupRange range, const RowRange& rows) const override {
    FrozenTable frozen{shape_.table, Rows::kOrdered, context_.form, {}};
    for (int group = range.first; group <= range.last; ++group) {
      if (At(group).rows() == 0) continue;
      FrozenGroup made{group, {}};
      if constexpr (Rows::kOrdered) {
        At(group).VisitLeaves(context_, rows.lower, rows.upper, [&](Leaf* leaf) { made.pages.push_back(leaf); });
      } else {
        At(group).VisitPages([&](HashPage* page) { made.pages.push_back(page); });
      }
      if (!made.pages.empty()) frozen.groups.push_back(std::move(made));
    }
    return frozen;
  }

 protected:
  void DoVisitRange(int key_group, const RowRange& range, Visitor* visit) const override {
    if constexpr (Rows::kOrdered) {
      const Rows& rows = At(key_group);
      for (auto at = rows.LowerBound(context_, range.lower); !rows.AtEnd(at); rows.Next(&at)) {
        const char* slot = rows.At(context_, at);
        const std::string_view key = context_.form.Key(slot);
        if ((!range.upper.empty() && key >= range.upper) || !(*visit)(key, context_.form.Value(slot))) return;
      }
    }
  }

 private:
  static std::string_view RowOf(std::string_view key) { return key.substr(kKeyHeaderBytes); }
  Rows& At(int key_group) { return groups_[static_cast<size_t>(key_group - shape_.range.first)]; }
  const Rows& At(int key_group) const { return groups_[static_cast<size_t>(key_group - shape_.range.first)]; }
  Rows& RowsOf(std::string_view key) { return At(GroupOf(key)); }
  const Rows& RowsOf(std::string_view key) const { return At(GroupOf(key)); }
  std::string_view ValueOf(const char* slot) const { return slot == nullptr ? std::string_view() : context_.form.Value(slot); }

  template <bool kWrite>
  void PrefetchRows(const std::string_view* keys, size_t count, uint64_t* hashes) const {
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = context_.hash(RowOf(keys[i]));
      if constexpr (kWrite) {
        RowsOf(keys[i]).PrefetchWrite(context_, hashes[i]);
      } else {
        RowsOf(keys[i]).Prefetch(context_, hashes[i]);
      }
    }
    if (!context_.form.has_cells()) return;
    for (size_t i = 0; i < count; ++i) RowsOf(keys[i]).PrefetchCell(context_, hashes[i]);
  }

  // A step of each in turn, so that the memory which one waits for arrives while the others are looked at.
  void SearchMany(const std::string_view* keys, size_t count, OrderedRows::Search* searches) const {
    for (size_t i = 0; i < count; ++i) searches[i].Start(context_, RowsOf(keys[i]), RowOf(keys[i]));
    for (size_t i = 0; i < count; ++i) searches[i].Enter(context_);
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (size_t i = 0; i < count; ++i) goes_on |= searches[i].StepDown(context_, RowOf(keys[i]));
    }
  }

  typename Rows::Context context_;
  std::vector<Rows> groups_;
  size_t rows_ = 0;
};

inline std::unique_ptr<MemoryTable> MakeTable(const TableShape& shape, RowHeap* heap) {
  if (shape.is_ordered) return std::make_unique<MemoryTableOf<OrderedRows>>(shape, heap);
  return std::make_unique<MemoryTableOf<HashRows>>(shape, heap);
}

// The rows of one frozen key group, in order, one after the other.
class FrozenRows {
 public:
  // Only those of a range, from the last to the first with "reverse". REQUIRES: all of these live as long as it does.
  FrozenRows(const FrozenTable& table, const FrozenGroup& group, const RowRange& range, bool reverse)
      : form_(table.form), group_(group), range_(range), step_(reverse ? -1 : 1) {
    if (table.is_ordered) {
      leaf_ = reverse ? static_cast<std::ptrdiff_t>(group.pages.size()) - 1 : 0;
    } else {
      SortRows(reverse);
    }
  }

  // Goes to the next row; false at the end.
  bool Next() { return leaf_ == kSorted ? NextSorted() : NextInLeaf(); }
  std::string_view key() const { return form_.Key(slot_); }
  std::string_view value() const { return form_.Value(slot_); }

 private:
  static constexpr std::ptrdiff_t kSorted = -2;
  static constexpr size_t kRadixThreshold = 256;
  struct Row {
    uint64_t first;
    const char* slot;
  };

  bool IsInside(std::string_view key) const { return key >= range_.lower && (range_.upper.empty() || key < range_.upper); }

  void SortRows(bool reverse) {
    for (void* at : group_.pages) {
      HashRows::ForEachSlot(static_cast<HashPage*>(at), form_.bytes(), [&](const char* slot) {
        const std::string_view key = form_.Key(slot);
        if (IsInside(key)) sorted_.push_back({FirstBytes(key), slot});
      });
    }
    const auto is_less = [this](const Row& a, const Row& b) {
      return a.first != b.first ? a.first < b.first : form_.Key(a.slot) < form_.Key(b.slot);
    };
    if (sorted_.size() < kRadixThreshold) {
      std::sort(sorted_.begin(), sorted_.end(), is_less);
    } else {
      RadixSort();  // and then what the first bytes do not tell apart
      for (auto begin = sorted_.begin(), end = begin; begin != sorted_.end(); begin = end) {
        while (end != sorted_.end() && end->first == begin->first) ++end;
        if (end - begin > 1) std::sort(begin, end, is_less);
      }
    }
    if (reverse) std::reverse(sorted_.begin(), sorted_.end());
  }
  // By the first bytes of the keys, least significant byte first, leaving out the bytes that are equal in all.
  void RadixSort() {
    uint64_t differing = 0;
    for (const Row& row : sorted_) differing |= row.first ^ sorted_[0].first;
    std::vector<Row> scratch(sorted_.size());
    for (int shift = 0; shift < 64; shift += 8) {
      if (((differing >> shift) & 0xFF) == 0) continue;
      size_t starts[257] = {0};
      for (const Row& row : sorted_) ++starts[((row.first >> shift) & 0xFF) + 1];
      for (int b = 0; b < 256; ++b) starts[b + 1] += starts[b];
      for (const Row& row : sorted_) scratch[starts[(row.first >> shift) & 0xFF]++] = row;
      sorted_.swap(scratch);
    }
  }
  bool NextSorted() {
    if (next_ == sorted_.size()) return false;
    slot_ = sorted_[next_++].slot;
    return true;
  }

  bool NextInLeaf() {
    const auto leaves = static_cast<std::ptrdiff_t>(group_.pages.size());
    for (; leaf_ >= 0 && leaf_ < leaves; leaf_ += step_, next_ = 0) {
      auto* leaf = static_cast<Leaf*>(group_.pages[static_cast<size_t>(leaf_)]);
      while (next_ < leaf->count) {
        slot_ = leaf->slot(step_ > 0 ? next_ : leaf->count - 1 - next_, form_.bytes());
        ++next_;
        if (IsInside(key())) return true;
      }
    }
    return false;
  }

  SlotForm form_;
  const FrozenGroup& group_;
  const RowRange& range_;
  int step_;
  std::ptrdiff_t leaf_ = kSorted;
  std::vector<Row> sorted_;
  size_t next_ = 0;  // row of the sorted ones, or of the leaf
  const char* slot_ = nullptr;
};

}  // namespace sfkv
