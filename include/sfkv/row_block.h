// Some rows on their way into a WriteBatch: keys are appended one by one, and then all values at once, column by column.
#pragma once

#include "sfkv/value_codec.h"
#include "sfkv/write_batch.h"

namespace sfkv {

class RowBlock {
 public:
  RowBlock(const ValueCodec& codec, const Columns& values) : codec_(codec), values_(values) {}

  // Appends a put of row "row". REQUIRES: !is_full(), and always the same batch until Encode().
  void Add(std::string_view key, int64_t row, WriteBatch* batch) {
    const size_t bytes = codec_.RowBytes(values_, row);
    batch->BeginPut(key, bytes);
    rows_[count_] = row;
    begins_[count_++] = batch->bytes() - bytes;
  }
  bool is_full() const { return count_ == kRows; }

  // Writes the values of the rows that were added.
  void Encode(WriteBatch* batch) {
    char* at[kRows] = {};
    for (size_t r = 0; r < count_; ++r) at[r] = batch->At(begins_[r]);
    codec_.EncodeRows(values_, rows_, at, count_);
    count_ = 0;
  }

 private:
  static constexpr size_t kRows = 64;

  const ValueCodec& codec_;
  const Columns& values_;
  size_t count_ = 0;
  int64_t rows_[kRows];
  size_t begins_[kRows];
};

}  // namespace sfkv
