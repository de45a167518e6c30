// The rows of a table in memory as they were: the pages, under a view of the heap (row_heap.h), and a pass over them.
//
// They may be read by any thread while the table goes on.
#pragma once

#include <algorithm>
#include <vector>

#include "sfkv/hash_rows.h"
#include "sfkv/ordered_rows.h"
#include "sfkv/radix_sort.h"
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
    uint64_t word;  // the key's first bytes
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
      return a.word != b.word ? a.word < b.word : form_.Key(a.slot) < form_.Key(b.slot);
    };
    if (sorted_.size() < kRadixThreshold) {
      std::sort(sorted_.begin(), sorted_.end(), is_less);
    } else {
      std::vector<Row> scratch(sorted_.size());
      if (RadixSort(sorted_.data(), scratch.data(), sorted_.size()) == scratch.data()) sorted_.swap(scratch);
      for (auto begin = sorted_.begin(), end = begin; begin != sorted_.end(); begin = end) {  // what the words do not tell apart
        while (end != sorted_.end() && end->word == begin->word) ++end;
        if (end - begin > 1) std::sort(begin, end, is_less);
      }
    }
    if (reverse) std::reverse(sorted_.begin(), sorted_.end());
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
