// Keeps lists within the size of a value, though appending does not know how long a list is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace sfkv {

// It counts the bytes appended per key, in cells that several keys may share, and asks for the real size of a list whenever a
// cell has counted kCheckBytes. So a list is refused at the write that would pass the limit, or at most kCheckBytes later,
// far below what the engine can hold; and never at a read. One table's, one thread's.
class AppendGuard {
 public:
  // Whether the list's real size must be looked at before "bytes" more are appended.
  bool MustCheck(std::string_view key, size_t bytes) {
    if (cells_.empty()) cells_.resize(kCells);  // not before: a store in memory never asks
    size_t& counted = cells_[std::hash<std::string_view>()(key) % kCells];
    counted += bytes;
    return counted >= kCheckBytes;
  }
  // REQUIRES: MustCheck() was asked of it.
  void Checked(std::string_view key) { cells_[std::hash<std::string_view>()(key) % kCells] = 0; }

 private:
  static constexpr size_t kCells = 16384;
  static constexpr size_t kCheckBytes = size_t{16} << 20;
  std::vector<size_t> cells_;
};

}  // namespace sfkv
