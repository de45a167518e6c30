// The rows that a scan has read and not yet given away: copied as they come, and decoded when a batch is complete, so that a short one
// costs little. One thread.
#pragma once

#include "sfkv/rows.h"

namespace sfkv {

class ScanBatch {
 public:
  ScanBatch(ScanOptions options, KeyCodec keys, KeyCodec user_keys, ValueCodec values)
      : options_(std::move(options)), keys_(std::move(keys)), user_keys_(std::move(user_keys)), values_(std::move(values)),
        with_keys_(!options_.key_columns.empty()) {}

  const ScanOptions& options() const { return options_; }
  const KeyCodec& keys() const { return keys_; }

  void Clear() {
    key_rows_.Clear();
    value_rows_.Clear();
    rows_ = 0;
    bytes_ = 0;
  }
  // Adds a row; "key" is what follows the header.
  void Add(std::string_view key, std::string_view value) {
    if (with_keys_) key_rows_.Add(key);
    bytes_ += key.size();
    if (options_.with_values) {
      value_rows_.Add(value);
      bytes_ += value.size();
    }
    ++rows_;
  }
  int64_t rows() const { return rows_; }
  bool is_full() const { return rows_ >= options_.batch_rows || bytes_ >= kBatchBytes; }

  // The rows as struct arrays: of the keys' columns, of the user keys' (maps only) and of the values', where they were asked for.
  Status Finish(ArrowArray* keys, ArrowArray* user_keys, ArrowArray* values) const {
    SFKV_RETURN_IF_ERROR(FinishKeyColumns(keys, user_keys));
    return options_.with_values ? FinishValueColumns(values) : Status::OK();
  }

 private:
  static constexpr int64_t kChunkRows = 64;  // that are decoded at a time
  static constexpr size_t kBatchBytes = size_t{32} << 20;  // a batch of long rows ends early

  // The key rows as struct arrays: of the keys' columns, and for maps of the user keys'.
  Status FinishKeyColumns(ArrowArray* keys, ArrowArray* user_keys) const {
    const bool with_user_keys = options_.kind == TableKind::kMap && !options_.distinct_keys;
    Builders columns = MakeBuildersOf(keys_.columns(), options_.key_columns, rows_);
    Builders user_columns;
    if (with_user_keys) user_columns = MakeBuilders(user_keys_.columns(), rows_);
    const bool alike = keys_.is_fixed() && options_.kind != TableKind::kMap && KeysHaveOneLength();
    if (alike && with_keys_ && !keys_.ParseFixedRows(key_rows_.bytes(), &columns)) return UnreadableRow(-1);
    for (int64_t i = 0; i < rows_ && with_keys_ && !alike; ++i) {
      auto rest = keys_.ParseFront(key_rows_.Get(static_cast<size_t>(i)), i, &columns);
      if (rest && with_user_keys) rest = user_keys_.ParseFront(*rest, i, &user_columns);
      if (!rest || !(rest->empty() || options_.distinct_keys)) return UnreadableRow(-1);
    }
    SFKV_RETURN_IF_ERROR(FinishRecordOf(&columns, options_.key_columns, rows_, nullptr, keys));
    return with_user_keys ? FinishRecord(&user_columns, rows_, nullptr, user_keys) : Status::OK();
  }

  bool KeysHaveOneLength() const {
    for (size_t i = 0; i < key_rows_.size(); ++i) {
      if (key_rows_.Get(i).size() != keys_.fixed_bytes()) return false;
    }
    return true;
  }

  // The stored values as a struct array: of the values' columns, or of the one column of lists.
  Status FinishValueColumns(ArrowArray* out) const {
    if (options_.kind == TableKind::kList) {
      OwnedArray lists;
      SFKV_RETURN_IF_ERROR(BuildLists(rows_, values_, [&](int64_t i) { return value_rows_.Get(static_cast<size_t>(i)); }, lists.get()));
      FinishStruct(&lists, 1, rows_, out);
      return Status::OK();
    }
    Builders columns = MakeBuildersOf(values_.columns(), options_.value_columns, rows_);
    ValidityBuilder present(rows_);
    std::string_view found[kChunkRows];
    int64_t positions[kChunkRows];
    for (int64_t begin = 0; begin < rows_; begin += kChunkRows) {
      size_t count = 0;
      for (int64_t i = begin; i < std::min(rows_, begin + kChunkRows); ++i) {
        std::string_view row = value_rows_.Get(static_cast<size_t>(i));
        bool is_none = false;
        if (options_.kind == TableKind::kMap && !ParseMapValue(row, &is_none, &row)) return UnreadableRow(-1);
        if (is_none) continue;
        found[count] = row;
        positions[count++] = i;
        if (options_.kind == TableKind::kMap) present.Set(i);
      }
      if (values_.ParseRows(found, positions, count, &columns) != count) return UnreadableRow(-1);
    }
    const ValidityBuilder* some = options_.kind == TableKind::kMap ? &present : nullptr;  // of maps None is a value
    return FinishRecordOf(&columns, options_.value_columns, rows_, some, out);
  }

  ScanOptions options_;
  KeyCodec keys_;
  KeyCodec user_keys_;
  ValueCodec values_;
  bool with_keys_;  // some of their columns are asked for
  RowList key_rows_;
  RowList value_rows_;
  int64_t rows_ = 0;
  size_t bytes_ = 0;
};

}  // namespace sfkv
