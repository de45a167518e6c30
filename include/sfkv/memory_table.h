// One table in memory: the rows of each of its key groups, hashed where they are only looked up, ordered where they are passed over.
//
// Takes encoded keys: the key group says whose rows are meant, and the table byte is not looked at. What it was at one moment can be
// had, and read while it goes on: frozen_rows.h. One thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sfkv/frozen_rows.h"

namespace sfkv {

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

  // What fails for want of memory has changed no row.

  // Makes a row, or gives it another value, and returns where that is to be written, before the next call. The first "kept" bytes
  // of the old one stay. Null if such a row does not fit the table's shape.
  virtual char* Place(std::string_view key, size_t value_bytes, size_t kept) = 0;
  virtual void Erase(std::string_view key) = 0;
  // Gives back what a row that was taken back, or made shorter again, has left. Never fails.
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
    SFKV_REQUIRES(shape_.is_ordered);
    DoVisitRange(key_group, rows, &caller);
  }

 protected:
  struct Visitor {
    virtual ~Visitor() = default;
    virtual bool operator()(std::string_view key, std::string_view value) = 0;
  };
  virtual void DoVisitRange(int key_group, const RowRange& rows, Visitor* visit) const = 0;

  TableShape shape_;
};

template <typename GroupRows>
class MemoryTableOf : public MemoryTable {
 public:
  MemoryTableOf(const TableShape& shape, RowHeap* heap)
      : MemoryTable(shape), groups_(static_cast<size_t>(shape.range.last - shape.range.first + 1)) {
    context_.heap = heap;
    context_.form = FormOf(shape);
    heap->Count(0, groups_.size() * sizeof(GroupRows));
  }
  ~MemoryTableOf() override {
    Clear();
    context_.heap->Count(groups_.size() * sizeof(GroupRows), 0);
  }

  std::string_view Find(std::string_view key) const override { return ValueOf(RowsOf(key).Find(context_, RowOf(key))); }

  void FindMany(const std::string_view* keys, size_t count, std::string_view* rows) const override {
    if constexpr (GroupRows::kOrdered) {
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
    if constexpr (GroupRows::kOrdered) {
      OrderedRows::Search searches[kMostAtOnce];
      SearchMany(keys, count, searches);
    } else {
      uint64_t hashes[kMostAtOnce];
      PrefetchRows</*kWrite=*/true>(keys, count, hashes);
    }
  }

  char* Place(std::string_view key, size_t value_bytes, size_t kept) override {
    if (!context_.form.Fits(key.size() - kKeyHeaderBytes, value_bytes)) return nullptr;
    GroupRows& rows = RowsOf(key);
    const size_t before = rows.rows();
    char* at = rows.Place(context_, RowOf(key), value_bytes, kept);
    rows_ += rows.rows() - before;
    return at;
  }
  void Erase(std::string_view key) override { rows_ -= RowsOf(key).Erase(context_, RowOf(key)) ? 1 : 0; }
  void Trim(std::string_view key) override { RowsOf(key).Trim(context_, RowOf(key)); }
  void EraseRange(int key_group, const RowRange& range) override {
    SFKV_REQUIRES(GroupRows::kOrdered);
    if constexpr (GroupRows::kOrdered) {
      GroupRows& rows = At(key_group);
      const size_t before = rows.rows();
      rows.EraseRange(context_, range.lower, range.upper);
      rows_ -= before - rows.rows();
    }
  }
  void Clear() override {
    for (GroupRows& rows : groups_) rows.Clear(context_);
    rows_ = 0;
  }
  size_t rows() const override { return rows_; }

  FrozenTable Freeze(KeyGroupRange range, const RowRange& rows) const override {
    FrozenTable frozen{shape_.table, GroupRows::kOrdered, context_.form, {}};
    for (int group = range.first; group <= range.last; ++group) {
      if (At(group).rows() == 0) continue;
      FrozenGroup made{group, {}};
      if constexpr (GroupRows::kOrdered) {
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
    if constexpr (GroupRows::kOrdered) {
      const GroupRows& rows = At(key_group);
      for (auto at = rows.LowerBound(context_, range.lower); !rows.AtEnd(at); rows.Next(&at)) {
        const char* slot = rows.At(context_, at);
        const std::string_view key = context_.form.Key(slot);
        if ((!range.upper.empty() && key >= range.upper) || !(*visit)(key, context_.form.Value(slot))) return;
      }
    }
  }

 private:
  static std::string_view RowOf(std::string_view key) { return key.substr(kKeyHeaderBytes); }
  // REQUIRES: the table's range contains the key group.
  const GroupRows& At(int key_group) const {
    SFKV_REQUIRES(shape_.range.Contains(key_group));
    return groups_[static_cast<size_t>(key_group - shape_.range.first)];
  }
  GroupRows& At(int key_group) { return const_cast<GroupRows&>(std::as_const(*this).At(key_group)); }
  GroupRows& RowsOf(std::string_view key) { return At(GroupOf(key)); }
  const GroupRows& RowsOf(std::string_view key) const { return At(GroupOf(key)); }
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
    if (!context_.form.has_heap_rows()) return;
    for (size_t i = 0; i < count; ++i) RowsOf(keys[i]).PrefetchHeapRow(context_, hashes[i]);
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

  typename GroupRows::Context context_;
  std::vector<GroupRows> groups_;
  size_t rows_ = 0;
};

inline std::unique_ptr<MemoryTable> MakeTable(const TableShape& shape, RowHeap* heap) {
  if (shape.is_ordered) return std::make_unique<MemoryTableOf<OrderedRows>>(shape, heap);
  return std::make_unique<MemoryTableOf<HashRows>>(shape, heap);
}

}  // namespace sfkv
