// Several cells as one run of bytes: what tells nulls first, then the cells of fixed width, then the others.
//
//   record := nulls · fixed cell* · end u32 LE of all variable cells but the last · variable cell*
//   struct := record            list, map := count LEB128 · items            fixed-size list := items
//   items  := nulls · (cell* | end u32 LE of all but the last · cell*)
//
// Rows of values are records (value_codec.h), and so are the structs in them. Columns are encoded and read column by column, a few
// rows at a time. Records are read where they lie, in a pinned slice. FORMAT.md section 4. Not thread-safe; no state but the schema.
#pragma once

#include <string>
#include <vector>

#include "sfkv/column_builder.h"
#include "sfkv/row_codec.h"

namespace sfkv {

// Where item or cell number "i" of several ends: what is behind the end offsets, "count" in all, at "ends".
struct Ends {
  const char* ends = nullptr;
  size_t count = 0;
  std::string_view bytes;

  size_t end(size_t i) const { return i + 1 == count ? bytes.size() : LoadAs<uint32_t>(ends + 4 * i); }
  std::string_view cell(size_t i) const {
    const size_t begin = i == 0 ? 0 : end(i - 1);
    return bytes.substr(begin, end(i) - begin);
  }
  // Whether the ends rise, and stay within the bytes.
  bool AreSound() const {
    size_t before = 0;
    for (size_t i = 0; i < count; ++i) {
      if (end(i) < before || end(i) > bytes.size()) return false;
      before = end(i);
    }
    return count != 0 || bytes.empty();
  }
};

class RecordCodec {
 public:
  RecordCodec() = default;
  // "begin": bytes that a record has before its own.
  explicit RecordCodec(std::vector<Column> columns, size_t begin = 0) : columns_(std::move(columns)), nulls_at_(begin) {
    size_t nullable_count = 0;
    for (const Column& column : columns_) {
      null_bits_.push_back(nullable_count);
      nullable_count += column.nullable;
      variable_numbers_.push_back(variable_count_);
      variable_count_ += column.type.is_variable();
      inner_.push_back(column.type.is_nested() ? RecordCodec(column.type.children) : RecordCodec());
    }
    size_t at = begin + (nullable_count + 7) / 8;
    for (const Column& column : columns_) {
      cells_at_.push_back(at);
      at += column.type.width;
    }
    ends_at_ = at;
    if (variable_count_ > 1) at += 4 * (variable_count_ - 1);
    head_bytes_ = at;
  }

  const std::vector<Column>& columns() const { return columns_; }
  // Bytes of a record apart from its variable cells.
  size_t head_bytes() const { return head_bytes_; }
  bool is_fixed() const { return variable_count_ == 0; }

  // --- Writing.

  // Bytes of row "i" as a record.
  size_t RowBytes(const Columns& columns, int64_t i) const {
    size_t bytes = head_bytes_;
    if (variable_count_ == 0) return bytes;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].type.is_variable() && !columns[c].IsNull(i)) bytes += CellBytes(c, columns[c], i);
    }
    return bytes;
  }

  // Writes the rows of the numbers "rows" to where "at" says. REQUIRES: RowBytes() bytes at each, and no null where the schema has
  // none.
  void EncodeRows(const Columns& columns, const int64_t* rows, char* const* at, size_t count) const {
    for (size_t r = 0; r < count; ++r) std::memset(at[r], 0, head_bytes_);
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (columns[c].MayHaveNulls()) {
        for (size_t r = 0; r < count; ++r) {
          if (columns[c].IsNull(rows[r])) MarkNull(at[r], c);
        }
      }
      EncodeFixed(c, columns[c], rows, at, count);
    }
    for (size_t r = 0; variable_count_ != 0 && r < count; ++r) EncodeVariable(columns, rows[r], at[r]);
  }
  void EncodeRow(const Columns& columns, int64_t i, char* at) const { EncodeRows(columns, &i, &at, 1); }

  // --- Cell by cell, for values that are no Arrow columns.

  // Prepares the head of a record, which is then all zero. REQUIRES: head_bytes() bytes at "row".
  void BeginRow(char* row) const { std::memset(row, 0, head_bytes_); }
  void MarkNull(char* row, size_t column) const {
    const size_t bit = null_bits_[column];
    if (columns_[column].nullable) row[nulls_at_ + bit / 8] = static_cast<char>(row[nulls_at_ + bit / 8] | (1 << (bit % 8)));
  }
  // Where a cell of fixed width goes.
  char* FixedCell(char* row, size_t column) const { return row + cells_at_[column]; }
  // Says that a variable cell ends at "end".
  void MarkEnd(char* row, size_t column, const char* end) const {
    const size_t number = variable_numbers_[column];
    if (number + 1 < variable_count_) StoreAs(row + ends_at_ + 4 * number, static_cast<uint32_t>(end - row - static_cast<ptrdiff_t>(head_bytes_)));
  }

  // --- Reading.

  // Checks that "row" is a record of this schema: its length and end offsets. What follows may then be read from it.
  bool IsRow(std::string_view row) const {
    if (row.size() < head_bytes_) return false;
    return variable_count_ == 0 ? row.size() == head_bytes_ : EndsOf(row).AreSound();
  }
  // Looks for a cell: false if it is null. REQUIRES: IsRow(row).
  bool FindCell(std::string_view row, size_t column, std::string_view* cell) const {
    if (IsNull(row.data(), column)) return false;
    const Type& type = columns_[column].type;
    *cell = type.is_variable() ? EndsOf(row).cell(variable_numbers_[column]) : row.substr(cells_at_[column], type.width);
    return true;
  }

  // Reads a column of records into the rows "positions" of "builder", which may be nullable where this column is not.
  // REQUIRES: IsRow() of each.
  void ParseColumn(size_t c, const std::string_view* rows, const int64_t* positions, size_t count, ColumnBuilder* builder) const {
    const Column& column = columns_[c];
    if (builder->validity() != nullptr || column.type.is_variable() || column.type.cell == CellType::kBool) {
      std::string_view cell;
      for (size_t r = 0; r < count; ++r) {
        if (FindCell(rows[r], c, &cell)) builder->Set(positions[r], cell);
      }
      return;
    }
    switch (column.type.width) {
      case 1: return CopyIn<1>(c, rows, positions, count, builder->cells());
      case 2: return CopyIn<2>(c, rows, positions, count, builder->cells());
      case 4: return CopyIn<4>(c, rows, positions, count, builder->cells());
      case 8: return CopyIn<8>(c, rows, positions, count, builder->cells());
      case 16: return CopyIn<16>(c, rows, positions, count, builder->cells());
      default: return CopyIn<0>(c, rows, positions, count, builder->cells());
    }
  }

  // --- Items of lists, for this codec's only column.

  size_t ItemsBytes(const ColumnView& items, int64_t first, int64_t bound) const {
    const size_t count = static_cast<size_t>(bound - first);
    const Type& type = columns_[0].type;
    size_t bytes = columns_[0].nullable ? (count + 7) / 8 : 0;
    if (!type.is_variable()) return bytes + count * type.width;
    if (count > 1) bytes += 4 * (count - 1);
    for (int64_t i = first; i < bound; ++i) {
      if (!items.IsNull(i)) bytes += CellBytes(0, items, i);
    }
    return bytes;
  }

  char* EncodeItems(const ColumnView& items, int64_t first, int64_t bound, char* at) const {
    const size_t count = static_cast<size_t>(bound - first);
    const Type& type = columns_[0].type;
    if (columns_[0].nullable) {
      std::memset(at, 0, (count + 7) / 8);
      for (int64_t i = first; items.MayHaveNulls() && i < bound; ++i) {
        if (items.IsNull(i)) SetBit(reinterpret_cast<uint8_t*>(at), i - first);
      }
      at += (count + 7) / 8;
    }
    if (!type.is_variable()) return EncodeFixedItems(items, first, bound, at);
    char* ends = at;
    if (count > 1) at += 4 * (count - 1);
    const char* bytes = at;
    for (int64_t i = first; i < bound; ++i) {
      if (!items.IsNull(i)) at = EncodeCell(0, items, i, at);
      if (i + 1 < bound) StoreAs(ends + 4 * (i - first), static_cast<uint32_t>(at - bytes));
    }
    return at;
  }

  // Whether so many bytes can be so many items: looked at before room is made for them.
  bool CanHoldItems(size_t bytes, size_t count) const {
    if (count > kMaxValueBytes * 8) return false;
    const Type& type = columns_[0].type;
    const size_t nulls = columns_[0].nullable ? (count + 7) / 8 : 0;
    const size_t ends = count > 1 ? 4 * (count - 1) : 0;
    return bytes >= nulls + (type.is_variable() ? ends : count * type.width);
  }

  // Reads "count" items into the rows from "begin" of "builder". False if the bytes are not so many items.
  bool ParseItems(std::string_view bytes, size_t count, int64_t begin, ColumnBuilder* builder) const {
    if (!CanHoldItems(bytes.size(), count)) return false;
    const Type& type = columns_[0].type;
    const char* nulls = bytes.data();
    if (columns_[0].nullable) bytes.remove_prefix((count + 7) / 8);
    const auto is_null = [&](size_t i) { return columns_[0].nullable && GetBit(reinterpret_cast<const uint8_t*>(nulls), static_cast<int64_t>(i)); };
    if (!type.is_variable()) {
      if (bytes.size() != count * type.width) return false;
      if (!columns_[0].nullable && type.cell != CellType::kBool) {
        if (!bytes.empty()) std::memcpy(builder->cells() + static_cast<size_t>(begin) * type.width, bytes.data(), bytes.size());
        return true;
      }
      for (size_t i = 0; i < count; ++i) {
        if (!is_null(i)) builder->SetFixed(begin + static_cast<int64_t>(i), bytes.data() + i * type.width);
      }
      return true;
    }
    const Ends ends{bytes.data(), count, bytes.substr(count > 1 ? 4 * (count - 1) : 0)};
    if (!ends.AreSound()) return false;
    for (size_t i = 0; i < count; ++i) {
      if (!is_null(i)) builder->SetBytes(begin + static_cast<int64_t>(i), ends.cell(i));
    }
    return true;
  }

 private:
  bool IsNull(const char* row, size_t column) const {
    const size_t bit = null_bits_[column];
    return columns_[column].nullable && ((row[nulls_at_ + bit / 8] >> (bit % 8)) & 1) != 0;
  }
  Ends EndsOf(std::string_view row) const { return {row.data() + ends_at_, variable_count_, row.substr(head_bytes_)}; }

  // Bytes of a variable cell that is not null.
  size_t CellBytes(size_t c, const ColumnView& column, int64_t i) const {
    switch (columns_[c].type.cell) {
      case CellType::kStruct: return inner_[c].RowBytes(column.children(), i);
      case CellType::kList: {
        const int64_t first = column.FirstItem(i), bound = column.ItemBound(i);
        return VarintBytes(static_cast<size_t>(bound - first)) + inner_[c].ItemsBytes(column.children()[0], first, bound);
      }
      case CellType::kFixedList: return inner_[c].ItemsBytes(column.children()[0], column.FirstItem(i), column.ItemBound(i));
      default: return column.Bytes(i).size();
    }
  }

  char* EncodeCell(size_t c, const ColumnView& column, int64_t i, char* at) const {
    switch (columns_[c].type.cell) {
      case CellType::kStruct: {
        const size_t bytes = inner_[c].RowBytes(column.children(), i);
        inner_[c].EncodeRow(column.children(), i, at);
        return at + bytes;
      }
      case CellType::kList:
        at = AppendVarint(at, static_cast<size_t>(column.ItemBound(i) - column.FirstItem(i)));
        return inner_[c].EncodeItems(column.children()[0], column.FirstItem(i), column.ItemBound(i), at);
      case CellType::kFixedList: return inner_[c].EncodeItems(column.children()[0], column.FirstItem(i), column.ItemBound(i), at);
      default: {
        const std::string_view bytes = column.Bytes(i);
        if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
        return at + bytes.size();
      }
    }
  }

  void EncodeVariable(const Columns& columns, int64_t i, char* row) const {
    char* at = row + head_bytes_;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (!columns_[c].type.is_variable()) continue;
      if (!columns[c].IsNull(i)) at = EncodeCell(c, columns[c], i, at);
      MarkEnd(row, c, at);
    }
  }

  template <size_t kWidth>
  void CopyOut(size_t c, const ColumnView& column, const int64_t* rows, char* const* at, size_t count) const {
    const size_t width = kWidth != 0 ? kWidth : columns_[c].type.width;
    for (size_t r = 0; r < count; ++r) std::memcpy(at[r] + cells_at_[c], column.Fixed(rows[r], width), width);
  }

  // Nulls are zeros already, and stay it.
  void EncodeFixed(size_t c, const ColumnView& column, const int64_t* rows, char* const* at, size_t count) const {
    const Type& type = columns_[c].type;
    if (type.is_variable() || type.width == 0) return;
    if (type.cell == CellType::kBool || column.MayHaveNulls()) {
      for (size_t r = 0; r < count; ++r) {
        if (column.IsNull(rows[r])) continue;
        if (type.cell == CellType::kBool) {
          at[r][cells_at_[c]] = column.Bool(rows[r]) ? 1 : 0;
        } else {
          std::memcpy(at[r] + cells_at_[c], column.Fixed(rows[r], type.width), type.width);
        }
      }
      return;
    }
    switch (type.width) {
      case 1: return CopyOut<1>(c, column, rows, at, count);
      case 2: return CopyOut<2>(c, column, rows, at, count);
      case 4: return CopyOut<4>(c, column, rows, at, count);
      case 8: return CopyOut<8>(c, column, rows, at, count);
      case 16: return CopyOut<16>(c, column, rows, at, count);
      default: return CopyOut<0>(c, column, rows, at, count);
    }
  }

  char* EncodeFixedItems(const ColumnView& items, int64_t first, int64_t bound, char* at) const {
    const Type& type = columns_[0].type;
    if (type.cell == CellType::kBool) {
      for (int64_t i = first; i < bound; ++i) *at++ = !items.IsNull(i) && items.Bool(i) ? 1 : 0;
      return at;
    }
    const size_t bytes = static_cast<size_t>(bound - first) * type.width;
    if (bytes == 0) return at;
    std::memcpy(at, items.Fixed(first, type.width), bytes);
    for (int64_t i = first; items.MayHaveNulls() && i < bound; ++i) {
      if (items.IsNull(i)) std::memset(at + static_cast<size_t>(i - first) * type.width, 0, type.width);
    }
    return at + bytes;
  }

  template <size_t kWidth>
  void CopyIn(size_t c, const std::string_view* rows, const int64_t* positions, size_t count, char* cells) const {
    const size_t width = kWidth != 0 ? kWidth : columns_[c].type.width;
    for (size_t r = 0; r < count; ++r) std::memcpy(cells + static_cast<size_t>(positions[r]) * width, rows[r].data() + cells_at_[c], width);
  }

  std::vector<Column> columns_;
  size_t variable_count_ = 0;
  size_t nulls_at_ = 0;
  size_t ends_at_ = 0;
  size_t head_bytes_ = 0;
  std::vector<size_t> null_bits_;         // each column's bit, counted among the nullable ones
  std::vector<size_t> cells_at_;          // each fixed-width column's cell
  std::vector<size_t> variable_numbers_;  // each variable column's number among those
  std::vector<RecordCodec> inner_;        // of each nested column's children
};

}  // namespace sfkv
