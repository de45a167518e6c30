// Rows copied out of the store: those of a batch's distinct keys, which a bundle remembers, and those that a scan collects. One thread.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "sfkv/buffer.h"

namespace sfkv {

class RowSet {
 public:
  // Makes "count" rows, all absent.
  void Begin(size_t count) {
    bytes_.Clear();
    rows_.assign(count, Row());
  }
  void Set(size_t i, std::string_view row) {
    rows_[i] = {bytes_.size(), row.size(), true};
    bytes_.Append(row.data(), row.size());
  }
  // Makes it empty, for rows that are added one by one.
  void Clear() { Begin(0); }
  void Add(std::string_view row) {
    rows_.emplace_back();
    Set(rows_.size() - 1, row);
  }
  size_t size() const { return rows_.size(); }
  bool Has(size_t i) const { return rows_[i].present; }
  std::string_view Get(size_t i) const { return {bytes_.data() + rows_[i].begin, rows_[i].bytes}; }

 private:
  struct Row {
    size_t begin = 0;
    size_t bytes = 0;
    bool present = false;
  };
  ByteBuffer bytes_;
  std::vector<Row> rows_;
};

// Rows one after the other, none of them absent.
class RowList {
 public:
  void Clear() {
    bytes_.Clear();
    ends_.clear();
  }
  void Add(std::string_view row) {
    CopyRow(row, bytes_.Extend(row.size()));
    ends_.push_back(bytes_.size());
  }
  size_t size() const { return ends_.size(); }
  // All of them, with nothing between.
  std::string_view bytes() const { return {bytes_.data(), bytes_.size()}; }
  std::string_view Get(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return {bytes_.data() + begin, ends_[i] - begin};
  }

 private:
  // Most rows are of 8 to 16 bytes, for which two words need no call.
  static void CopyRow(std::string_view row, char* at) {
    if (row.size() >= 8 && row.size() <= 16) {
      std::memcpy(at, row.data(), 8);
      std::memcpy(at + row.size() - 8, row.data() + row.size() - 8, 8);
    } else if (!row.empty()) {
      std::memcpy(at, row.data(), row.size());
    }
  }

  ByteBuffer bytes_;
  std::vector<size_t> ends_;
};

}  // namespace sfkv
