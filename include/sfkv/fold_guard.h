// Keeps what a read has to fold few, though adding does not know how many operands a key has.
#pragma once

#include "sfkv/append_guard.h"

namespace sfkv {

// Operands lie one behind the other until the engine folds them for good, and until then each read of their key folds them anew: of a
// key that is added to all the time there would be as many as a memtable holds. So adds are counted per key, in cells that several
// keys may share, and each kMostOperands-th is folded into what is stored, by a read and a put. One table's, one thread's.
class FoldGuard {
 public:
  // Whether what is stored of the key must be read and put now.
  bool MustSettle(std::string_view key) {
    uint8_t& added = added_[std::hash<std::string_view>()(key) % kCells];
    if (++added < kMostOperands) return false;
    added = 0;
    return true;
  }
  // Of rows that grow.
  AppendGuard* sizes() { return &sizes_; }

 private:
  static constexpr size_t kCells = 65536;
  static constexpr uint8_t kMostOperands = 16;
  std::vector<uint8_t> added_ = std::vector<uint8_t>(kCells);
  AppendGuard sizes_;
};

}  // namespace sfkv
