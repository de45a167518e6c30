// Keeps what a read has to fold few, though adding does not know how many operands a key has.
#pragma once

#include "sfkv/append_guard.h"

namespace sfkv {

// Operands lie one behind the other until the engine folds them for good, and until then each read of their key folds them anew: of a
// key that is added to all the time there would be as many as a memtable holds. So adds to frequent keys are counted, and each
// kMostOperands-th is folded into what is stored, by a read and a put. A cell counts for one of the keys that share it, the others
// against it: so it finds the keys that are more than their share of the adds, and the others have few operands in a memtable anyway.
// Of one table or, since keys begin with theirs, of several. One thread.
class FoldGuard {
 public:
  // Counts an add. Whether what is stored of the key must be read and put now, until IsSettled() says that it was.
  bool MustSettle(std::string_view key) {
    if (cells_.empty()) cells_.resize(kCells);  // not before: a store in memory never asks
    const size_t hash = std::hash<std::string_view>()(key);
    Cell& cell = cells_[hash % kCells];
    const auto tag = static_cast<uint8_t>(hash >> 56);
    if (cell.added == 0) cell.tag = tag;
    if (cell.tag != tag) {
      --cell.added;
      return false;
    }
    if (cell.added < kMostOperands) ++cell.added;
    return cell.added == kMostOperands;
  }
  void IsSettled(std::string_view key) { cells_[std::hash<std::string_view>()(key) % kCells].added = 0; }
  // Of rows that grow.
  AppendGuard* sizes() { return &sizes_; }

 private:
  struct Cell {
    uint8_t tag = 0;
    uint8_t added = 0;
  };
  static constexpr size_t kCells = 65536;
  static constexpr uint8_t kMostOperands = 16;
  std::vector<Cell> cells_;
  AppendGuard sizes_;
};

}  // namespace sfkv
