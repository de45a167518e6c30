// What single calls add to folds, held back for a moment: it is folded in memory, by key, and written as one sorted batch, which costs
// the engine a fraction of as many single merges.
//
// Whoever owns it writes what is held before anything else is written, so that the order of writes stays, and before anything of its
// tables is read. Only folds of a fixed size are held (fold.h), and of these only such whose result does not depend on what is folded
// first. Where something else comes between the adds all the time, holding is of no use, and rests.
// One thread.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "sfkv/buffer.h"
#include "sfkv/fold.h"
#include "sfkv/key_codec.h"
#include "sfkv/row_hash.h"

namespace sfkv {

class HeldFolds {
 public:
  bool is_empty() const { return rows_.empty(); }
  // Whether rows of a table are held.
  bool Has(uint8_t table) const { return of_table_[table]; }
  bool is_full() const { return rows_.size() == kMostRows || bytes_.size() >= kMostBytes; }

  // Whether an operand is to be held, now.
  bool Takes(std::string_view operand) {
    if (rests_ > 0) {
      --rests_;
      return false;
    }
    if (!IsFold(operand) || DependsOnGrouping(operand)) return false;
    const size_t bytes = RuleOf(operand).bytes;
    return bytes != 0 && operand.size() == kFoldHeadBytes + bytes;
  }
  // Folds an operand into what is held of a key. False if that is another fold; then nothing has changed. REQUIRES: Takes(), !is_full().
  bool Add(std::string_view key, std::string_view operand) {
    if (index_.empty()) {
      rows_.reserve(kMostRows);
      index_.resize(kPlaces);
    }
    bytes_.Reserve(key.size() + operand.size());  // the last that may fail
    const uint64_t hash = hash_(key);
    size_t at = hash % kPlaces;
    for (; index_[at] != 0; at = (at + 1) % kPlaces) {
      const Row& row = rows_[index_[at] - size_t{1}];
      if (row.hash == hash && KeyOf(row) == key) return FoldInPlace(bytes_.data() + row.begin + row.key_bytes, row.operand_bytes, operand);
    }
    rows_.push_back({hash, bytes_.size(), static_cast<uint32_t>(key.size()), static_cast<uint16_t>(operand.size()), static_cast<uint16_t>(at)});
    index_[at] = static_cast<uint16_t>(rows_.size());
    of_table_[TableOf(key)] = true;
    bytes_.Append(key.data(), key.size());
    bytes_.Append(operand.data(), operand.size());
    return true;
  }

  // Calls visit(key, operand) for what is held, in the order of the keys.
  template <typename Visit>
  void VisitInOrder(Visit&& visit) const {
    std::vector<std::pair<uint64_t, const Row*>> order;  // with the first bytes of each key
    order.reserve(rows_.size());
    for (const Row& row : rows_) {
      char first[8] = {};
      std::memcpy(first, bytes_.data() + row.begin, std::min<size_t>(row.key_bytes, 8));
      order.emplace_back(ByteSwap(LoadAs<uint64_t>(first)), &row);
    }
    std::sort(order.begin(), order.end(), [this](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : KeyOf(*a.second) < KeyOf(*b.second);
    });
    for (const auto& [first, row] : order) visit(KeyOf(*row), std::string_view(bytes_.data() + row->begin + row->key_bytes, row->operand_bytes));
  }
  size_t bytes() const { return bytes_.size(); }
  size_t size() const { return rows_.size(); }

  // It was written.
  void Clear() {
    few_ = rows_.size() <= kFewRows ? few_ + 1 : 0;
    if (few_ == kMostFew) {
      few_ = 0;
      rests_ = kRest;
    }
    for (const Row& row : rows_) {
      index_[row.place] = 0;
      of_table_[TableOf(KeyOf(row))] = false;
    }
    rows_.clear();
    bytes_.Clear();
  }

 private:
  static constexpr size_t kMostRows = 4096;
  static constexpr size_t kMostBytes = size_t{1} << 20;
  static constexpr size_t kPlaces = 2 * kMostRows;
  static constexpr size_t kFewRows = 2;
  static constexpr int kMostFew = 8;  // times in a row that so few were held
  static constexpr int kRest = 512;   // adds after which it is tried again

  struct Row {
    uint64_t hash;
    size_t begin;  // of the key, behind which its operand lies
    uint32_t key_bytes;
    uint16_t operand_bytes;
    uint16_t place;  // in the index
  };

  std::string_view KeyOf(const Row& row) const { return {bytes_.data() + row.begin, row.key_bytes}; }

  RowHash hash_;
  std::vector<uint16_t> index_;  // numbers of rows, from 1
  std::vector<Row> rows_;
  ByteBuffer bytes_;
  std::array<bool, 256> of_table_{};
  int few_ = 0;
  int rests_ = 0;
};

}  // namespace sfkv
