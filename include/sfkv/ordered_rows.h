// The rows of one key group in the order of their keys: sorted leaves behind a sorted directory, which keeps the first eight bytes
// of each leaf's first key beside it.
//
// A leaf has up to kLeafSlots slots (row_slot.h). A full one is split in halves, or, where rows come in order, left full. What a
// view sees (row_heap.h) is copied by the leaf before it is changed.
// One thread; what a view sees may be read by any.
#pragma once

#include <algorithm>
#include <vector>

#include "sfkv/row_slot.h"

namespace sfkv {

struct Leaf {
  uint64_t born;
  uint32_t count;
  uint32_t room;  // slots

  char* slot(size_t i, size_t slot_bytes) { return reinterpret_cast<char*>(this + 1) + i * slot_bytes; }
  static size_t BytesFor(size_t slots, size_t slot_bytes) { return sizeof(Leaf) + slots * slot_bytes; }
};

class OrderedRows {
 public:
  static constexpr bool kOrdered = true;

  struct Context {
    RowHeap* heap;
    SlotForm form;
  };

  // A place among the rows: a leaf, and a slot in it. What is behind the last row has no leaf.
  struct Position {
    size_t leaf;
    size_t slot;
  };

  // Frees all pages and heap rows. To be called before it ends.
  void Clear(Context& c) {
    for (Leaf* leaf : leaves_) {
      for (size_t i = 0; i < leaf->count; ++i) c.form.Empty(c.heap, leaf->slot(i, c.form.bytes()));
      FreeLeaf(c, leaf);
    }
    c.heap->Count(DirectoryBytes(), 0);
    leaves_ = std::vector<Leaf*>();  // not {}, which would keep the memory
    firsts_ = std::vector<uint64_t>();
    rows_ = 0;
  }

  size_t rows() const { return rows_; }

  // The leaves in which rows of a range may lie.
  template <typename Visit>
  void VisitLeaves(const Context& c, std::string_view lower, std::string_view upper, Visit&& visit) const {
    for (size_t at = LowerBound(c, lower).leaf; at < leaves_.size(); ++at) {
      if (!upper.empty() && c.form.Key(leaves_[at]->slot(0, c.form.bytes())) >= upper) return;
      visit(leaves_[at]);
    }
  }

  // The first row that is not less than "key"; AtEnd() if there is none.
  Position LowerBound(const Context& c, std::string_view key) const {
    if (leaves_.empty()) return {0, 0};
    const size_t leaf = LeafOf(c, key);
    const size_t slot = SlotOf(c, leaf, key);
    return slot < leaves_[leaf]->count ? Position{leaf, slot} : Position{leaf + 1, 0};
  }
  bool AtEnd(Position at) const { return at.leaf == leaves_.size(); }
  char* At(const Context& c, Position at) const { return leaves_[at.leaf]->slot(at.slot, c.form.bytes()); }
  void Next(Position* at) const {
    if (++at->slot < leaves_[at->leaf]->count) return;
    *at = {at->leaf + 1, 0};
  }

  char* Find(const Context& c, std::string_view key) const {
    if (leaves_.empty()) return nullptr;
    const size_t at = LeafOf(c, key);
    return SlotWith(c, leaves_[at], SlotOf(c, at, key), key);
  }

  // A key that is looked for step by step, so that several can be at once: Start() of all, Enter() of all, StepDown() of all as long as it is
  // true of one. Each brings what the next will touch into the cache.
  class Search {
   public:
    void Start(const Context& c, const OrderedRows& rows, std::string_view key) {
      leaf_ = rows.leaves_.empty() ? nullptr : rows.leaves_[rows.LeafOf(c, key)];
      first_ = FirstBytes(key);
      __builtin_prefetch(leaf_);
    }
    void Enter(const Context& c) {
      slot_ = 0;
      left_ = leaf_ == nullptr ? 0 : leaf_->count;
      PrefetchMiddle(c);
    }
    bool StepDown(const Context& c, std::string_view key) {
      if (left_ == 0) return false;
      const size_t half = left_ / 2;
      const bool is_less = IsLess(c, leaf_->slot(slot_ + half, c.form.bytes()), first_, key);
      slot_ = is_less ? slot_ + half + 1 : slot_;
      left_ = is_less ? left_ - half - 1 : half;
      PrefetchMiddle(c);
      return left_ != 0;
    }
    // The slot that was found; null if the key is not there.
    char* Found(const Context& c, std::string_view key) const { return leaf_ == nullptr ? nullptr : SlotWith(c, leaf_, slot_, key); }

   private:
    // Inlined, because GCC takes a function that only does this for one without effect.
    __attribute__((always_inline)) void PrefetchMiddle(const Context& c) const {
      if (left_ != 0) __builtin_prefetch(leaf_->slot(slot_ + left_ / 2, c.form.bytes()));
    }
    Leaf* leaf_;
    uint64_t first_;
    size_t slot_;  // the first that may not be less
    size_t left_;  // slots from there on that may be
  };

  // The last leaf whose first key is not greater than "key", or the first leaf.
  size_t LeafOf(const Context& c, std::string_view key) const {
    const uint64_t first = FirstBytes(key);
    size_t from = 0, to = leaves_.size();  // the first leaf whose first key is greater
    while (from < to) {
      const size_t middle = (from + to) / 2;
      const bool is_greater = firsts_[middle] != first ? firsts_[middle] > first : c.form.Key(leaves_[middle]->slot(0, c.form.bytes())) > key;
      if (is_greater) {
        to = middle;
      } else {
        from = middle + 1;
      }
    }
    return from == 0 ? 0 : from - 1;
  }

  // Makes a row of a key, or gives the one that is there another value, and returns where that is to be written: the first "kept"
  // bytes of the old one stay.
  char* Place(Context& c, std::string_view key, size_t value_bytes, size_t kept) {
    size_t at = 0, slot = 0;
    if (!leaves_.empty()) {
      at = LeafOf(c, key);
      slot = SlotOf(c, at, key);
      if (slot < leaves_[at]->count && c.form.HasKey(leaves_[at]->slot(slot, c.form.bytes()), key)) {
        Leaf* leaf = Own(c, at);
        return c.form.Resize(c.heap, leaf->slot(slot, c.form.bytes()), value_bytes, kept);
      }
    }
    if (!leaves_.empty()) RequireRoom(c, at, slot, c.form.HeapRowBytes(key.size(), value_bytes));
    char filled[SlotForm::kMostBytes];
    c.form.Fill(c.heap, filled, key, value_bytes);
    Leaf* leaf = nullptr;
    try {
      leaf = MakeRoom(c, &at, &slot);
    } catch (...) {
      c.form.Empty(c.heap, filled);
      throw;
    }
    char* to = leaf->slot(slot, c.form.bytes());
    std::memmove(to + c.form.bytes(), to, (leaf->count - slot) * c.form.bytes());
    std::memcpy(to, filled, c.form.bytes());
    ++leaf->count;
    ++rows_;
    if (slot == 0) firsts_[at] = FirstBytes(key);
    return c.form.ValueAt(to);
  }

  // Removes a row. False if there is none; it is there if that fails.
  bool Erase(Context& c, std::string_view key) {
    if (leaves_.empty()) return false;
    const size_t at = LeafOf(c, key);
    const size_t slot = SlotOf(c, at, key);
    if (slot == leaves_[at]->count || !c.form.HasKey(leaves_[at]->slot(slot, c.form.bytes()), key)) return false;
    EraseBetween(c, {at, slot}, {at, slot + 1});
    return true;
  }

  // Gives back the room that was made for rows which were taken back: of the leaf of a key, and of its row. Never fails: where there is
  // no memory for what is smaller, the room stays.
  void Trim(Context& c, std::string_view key) {
    if (leaves_.empty()) return;
    const size_t at = LeafOf(c, key);
    const size_t room = std::max<size_t>(kLeastSlots, (leaves_[at]->count + size_t{7}) & ~size_t{7});
    if (room < leaves_[at]->room) Shrink(c, at, room);
    const size_t slot = SlotOf(c, at, key);
    const bool found = slot < leaves_[at]->count && c.form.HasKey(leaves_[at]->slot(slot, c.form.bytes()), key);
    if (found && !c.heap->IsSeen(leaves_[at]->born)) c.form.Trim(c.heap, leaves_[at]->slot(slot, c.form.bytes()));
  }

  // Removes the rows from "lower", up to but without "upper"; an empty "upper" is no bound. All rows are there if it fails.
  void EraseRange(Context& c, std::string_view lower, std::string_view upper) {
    if (!upper.empty() && upper <= lower) return;
    EraseBetween(c, LowerBound(c, lower), upper.empty() ? Position{leaves_.size(), 0} : LowerBound(c, upper));
  }

 private:
  static constexpr size_t kLeafSlots = 128;
  static constexpr size_t kLeastSlots = 4;

  // A slot if it is the key's; null otherwise.
  static char* SlotWith(const Context& c, Leaf* leaf, size_t slot, std::string_view key) {
    if (slot == leaf->count) return nullptr;
    char* found = leaf->slot(slot, c.form.bytes());
    return c.form.HasKey(found, key) ? found : nullptr;
  }

  // Whether the key of a slot is less than "key", whose first bytes are "first".
  static bool IsLess(const Context& c, const char* slot, uint64_t first, std::string_view key) {
    const uint64_t other = c.form.First(slot);
    return other != first ? other < first : c.form.RestIsLess(slot, key);
  }

  // Where in its leaf a key probably is, if keys are spread evenly between the leaf's first and that of the next. In the last leaf,
  // where rows that come in order go, the last slot. REQUIRES: the leaf holds a row.
  size_t Guess(size_t at, uint64_t first) const {
    const size_t last = leaves_[at]->count - size_t{1};
    if (at + 1 == leaves_.size()) return last;
    if (first <= firsts_[at]) return 0;
    const double share = static_cast<double>(first - firsts_[at]) / static_cast<double>(firsts_[at + 1] - firsts_[at]);
    return std::min(last, static_cast<size_t>(share * static_cast<double>(last + 1)));
  }

  // The first slot of leaf "at" that is not less than "key": looked for around where it probably is, ever further away.
  size_t SlotOf(const Context& c, size_t at, std::string_view key) const {
    Leaf* leaf = leaves_[at];
    const uint64_t first = FirstBytes(key);
    const auto is_less = [&](size_t slot) { return IsLess(c, leaf->slot(slot, c.form.bytes()), first, key); };
    const size_t guess = Guess(at, first);
    size_t from = 0, to = leaf->count;
    if (is_less(guess)) {
      from = guess + 1;
      for (size_t step = 1; guess + step < to; step *= 2) {
        if (!is_less(guess + step)) {
          to = guess + step;
        } else {
          from = guess + step + 1;
        }
      }
    } else {
      to = guess;
      const bool is_last = at + 1 == leaves_.size();  // whose guess is its last slot: no nearer one is more likely
      for (size_t step = 1; !is_last && from + step <= guess; step *= 2) {
        if (is_less(guess - step)) {
          from = guess - step + 1;
        } else {
          to = guess - step;
        }
      }
    }
    while (from < to) {
      const size_t middle = (from + to) / 2;
      if (is_less(middle)) {
        from = middle + 1;
      } else {
        to = middle;
      }
    }
    return from;
  }

  static Leaf* NewLeaf(Context& c, size_t room) {
    auto* leaf = static_cast<Leaf*>(c.heap->Allocate(Leaf::BytesFor(room, c.form.bytes())));
    leaf->born = c.heap->epoch();
    leaf->count = 0;
    leaf->room = static_cast<uint32_t>(room);
    return leaf;
  }
  static void FreeLeaf(Context& c, Leaf* leaf) { c.heap->Free(leaf, Leaf::BytesFor(leaf->room, c.form.bytes()), leaf->born); }

  // REQUIRES: MakeDirectoryRoom() was called.
  void AddLeaf(Context& c, size_t at, Leaf* leaf) {
    leaves_.insert(leaves_.begin() + static_cast<std::ptrdiff_t>(at), leaf);
    firsts_.insert(firsts_.begin() + static_cast<std::ptrdiff_t>(at), leaf->count == 0 ? 0 : c.form.First(leaf->slot(0, c.form.bytes())));
  }
  void MakeDirectoryRoom(Context& c) {
    if (leaves_.size() < leaves_.capacity() && firsts_.size() < firsts_.capacity()) return;
    const size_t room = leaves_.size() + leaves_.size() / 2 + 1;
    const size_t before = DirectoryBytes();
    leaves_.reserve(room);
    c.heap->Count(before, DirectoryBytes());  // at once, as the next may fail
    const size_t between = DirectoryBytes();
    firsts_.reserve(room);
    c.heap->Count(between, DirectoryBytes());
  }

  // Before a row, of "heap_row_bytes" beside its slot, is put into leaf "at": whether the heap has what makes room for it.
  void RequireRoom(const Context& c, size_t at, size_t slot, size_t heap_row_bytes) const {
    const Leaf* leaf = leaves_[at];
    const auto leaf_bytes = [&c](size_t room) { return Leaf::BytesFor(room, c.form.bytes()); };
    if (leaf->count == kLeafSlots) {
      const size_t directory = leaves_.size() < leaves_.capacity() ? 0 : DirectoryBytes() / 2 + sizeof(Leaf*) + sizeof(uint64_t);
      c.heap->Require(leaf_bytes(GoesBehindAll(at, slot) ? kLeafSlots / 2 : kLeafSlots) + directory + heap_row_bytes);
    } else if (leaf->count == leaf->room) {
      c.heap->Require(leaf_bytes(std::min<size_t>(kLeafSlots, leaf->room * 2)) - leaf_bytes(leaf->room) + heap_row_bytes);
    }
  }

  // A copy of a leaf in its place, with as much room as is asked for.
  Leaf* Remake(Context& c, size_t at, size_t room) {
    Leaf* leaf = leaves_[at];
    Leaf* made = NewLeaf(c, room);
    made->count = leaf->count;
    std::memcpy(made->slot(0, c.form.bytes()), leaf->slot(0, c.form.bytes()), leaf->count * c.form.bytes());
    FreeLeaf(c, leaf);
    return leaves_[at] = made;
  }
  // The leaf itself, or a copy that no view sees; the second with room for one more row.
  Leaf* Own(Context& c, size_t at) { return c.heap->IsSeen(leaves_[at]->born) ? Remake(c, at, leaves_[at]->room) : leaves_[at]; }
  Leaf* OwnWithRoom(Context& c, size_t at) {
    if (leaves_[at]->count < leaves_[at]->room) return Own(c, at);
    return Remake(c, at, std::min<size_t>(kLeafSlots, leaves_[at]->room * 2));
  }

  // Makes room for a row before slot "*slot" of leaf "*at", and says where it is then. All rows are there if it fails.
  Leaf* MakeRoom(Context& c, size_t* at, size_t* slot) {
    if (leaves_.empty()) {
      MakeDirectoryRoom(c);
      AddLeaf(c, 0, NewLeaf(c, kLeastSlots));
    } else if (leaves_[*at]->count == kLeafSlots) {
      Split(c, *at, *slot);
      const size_t kept = leaves_[*at]->count;
      if (*slot > kept || kept == kLeafSlots) {  // it is in the second half
        *slot -= kept;
        ++*at;
      }
    }
    return OwnWithRoom(c, *at);
  }

  // Whether a slot is the one after the last row of all, in a full leaf.
  bool GoesBehindAll(size_t at, size_t slot) const { return slot == kLeafSlots && at + 1 == leaves_.size(); }

  // Splits a full leaf before a row is put at "slot": behind the last leaf's last row nothing is moved.
  void Split(Context& c, size_t at, size_t slot) {
    const bool in_order = GoesBehindAll(at, slot);
    const size_t kept = in_order ? kLeafSlots : kLeafSlots / 2;
    MakeDirectoryRoom(c);
    Leaf* leaf = in_order ? leaves_[at] : Own(c, at);
    Leaf* rest = NewLeaf(c, in_order ? kLeafSlots / 2 : kLeafSlots);  // the last that may fail
    if (!in_order) {
      rest->count = static_cast<uint32_t>(kLeafSlots - kept);
      std::memcpy(rest->slot(0, c.form.bytes()), leaf->slot(kept, c.form.bytes()), rest->count * c.form.bytes());
      leaf->count = static_cast<uint32_t>(kept);
    }
    AddLeaf(c, at + 1, rest);
  }

  // Removes the rows from "first", up to but without "bound". All rows are there if it fails.
  void EraseBetween(Context& c, Position first, Position bound) {
    if (first.leaf == bound.leaf) {
      if (first.slot != bound.slot) EraseInLeaf(c, first.leaf, first.slot, bound.slot);
      return;
    }
    if (first.leaf > bound.leaf) return;
    // Only leaves that keep some of their rows are made anew where a view sees them, and only that may fail.
    if (first.slot != 0) Own(c, first.leaf);
    if (bound.slot != 0) Own(c, bound.leaf);
    if (bound.slot != 0) TakeOut(c, bound.leaf, 0, bound.slot);
    const size_t whole = first.leaf + (first.slot != 0 ? 1 : 0);
    if (first.slot != 0) TakeOut(c, first.leaf, first.slot, leaves_[first.leaf]->count);
    DropLeaves(c, whole, bound.leaf);
    if (bound.slot != 0) ShrinkEmptied(c, whole);
    if (first.slot != 0) ShrinkEmptied(c, first.leaf);
  }
  // The same of rows of one leaf.
  void EraseInLeaf(Context& c, size_t at, size_t from, size_t to) {
    if (to - from == leaves_[at]->count) return DropLeaves(c, at, at + 1);
    Own(c, at);
    TakeOut(c, at, from, to);
    ShrinkEmptied(c, at);
  }
  // Takes rows out of a leaf, of which some stay. REQUIRES: no view sees the leaf.
  void TakeOut(Context& c, size_t at, size_t from, size_t to) {
    Leaf* leaf = leaves_[at];
    const size_t slot_bytes = c.form.bytes();
    for (size_t i = from; i < to; ++i) c.form.Empty(c.heap, leaf->slot(i, slot_bytes));
    std::memmove(leaf->slot(from, slot_bytes), leaf->slot(to, slot_bytes), (leaf->count - to) * slot_bytes);
    leaf->count -= static_cast<uint32_t>(to - from);
    rows_ -= to - from;
    if (from == 0) firsts_[at] = c.form.First(leaf->slot(0, slot_bytes));
  }
  // Removes whole leaves, as they are.
  void DropLeaves(Context& c, size_t begin, size_t end) {
    if (begin == 0 && end == leaves_.size()) return Clear(c);
    for (size_t at = begin; at < end; ++at) {
      Leaf* leaf = leaves_[at];
      for (size_t i = 0; i < leaf->count; ++i) c.form.Empty(c.heap, leaf->slot(i, c.form.bytes()));
      rows_ -= leaf->count;
      FreeLeaf(c, leaf);
    }
    leaves_.erase(leaves_.begin() + static_cast<std::ptrdiff_t>(begin), leaves_.begin() + static_cast<std::ptrdiff_t>(end));
    firsts_.erase(firsts_.begin() + static_cast<std::ptrdiff_t>(begin), firsts_.begin() + static_cast<std::ptrdiff_t>(end));
  }
  // Makes a leaf smaller that became nearly empty.
  void ShrinkEmptied(Context& c, size_t at) {
    const Leaf* leaf = leaves_[at];
    if (leaf->room > kLeastSlots && leaf->count * 4 < leaf->room) Shrink(c, at, leaf->room / 2);
  }
  // Remakes a leaf with less room, if there is memory for that.
  void Shrink(Context& c, size_t at, size_t room) {
    try {
      Remake(c, at, room);
    } catch (const std::bad_alloc&) {
    }
  }

  size_t DirectoryBytes() const { return leaves_.capacity() * sizeof(Leaf*) + firsts_.capacity() * sizeof(uint64_t); }
  std::vector<Leaf*> leaves_;
  std::vector<uint64_t> firsts_;  // the first eight bytes of each leaf's first key
  size_t rows_ = 0;
};

}  // namespace sfkv
