// Values as compact rows: first what tells nulls, then the columns of fixed width, then the others.
//
//   plain value   the cell alone: 8 bytes for an int64, the text for a utf8
//   record        [schema version u8][null bits][fixed-width cells][end offsets u32 of all variable cells but the last][bytes]
//
// Rows are read where they lie, in a pinned slice. FORMAT.md section 4 has the grammar. Not thread-safe; no state but the schema.
#pragma once

#include "sfkv/row_codec.h"

namespace sfkv {

// The only version of a record's schema so far. Rows name theirs, so that columns can be added without rewriting rows.
constexpr uint8_t kSchemaVersion = 0;

class ValueCodec {
 public:
  ValueCodec() = default;
  ValueCodec(std::vector<Column> columns, bool is_record) : columns_(std::move(columns)), is_record_(is_record) {
    size_t nullable_count = 0;
    for (const Column& column : columns_) {
      null_bits_.push_back(nullable_count);
      nullable_count += column.nullable;
      variable_count_ += CellBytes(column.type) == 0;
    }
    size_t at = is_record ? 1 : 0;
    nulls_at_ = at;
    at += (nullable_count + 7) / 8;
    for (const Column& column : columns_) {
      cells_at_.push_back(at);
      at += CellBytes(column.type);
    }
    ends_at_ = at;
    if (variable_count_ > 1) at += 4 * (variable_count_ - 1);
    head_bytes_ = at;
  }

  const std::vector<Column>& columns() const { return columns_; }
  bool is_record() const { return is_record_; }

  // Bytes of a row apart from its variable cells.
  size_t head_bytes() const { return head_bytes_; }

  // Bytes of row "i".
  size_t RowBytes(const Columns& columns, int64_t i) const {
    size_t bytes = head_bytes_;
    if (variable_count_ == 0) return bytes;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (CellBytes(columns_[c].type) == 0 && !columns[c].IsNull(i)) bytes += columns[c].Bytes(i).size();
    }
    return bytes;
  }

  // Writes row "i". REQUIRES: RowBytes(columns, i) bytes at "row", and no null where the schema has none.
  void EncodeRow(const Columns& columns, int64_t i, char* row) const {
    BeginRow(row);
    char* bytes = row + head_bytes_;
    size_t variable = 0;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const ColumnView& column = columns[c];
      const bool present = !column.IsNull(i);
      if (!present) MarkNull(row, c);
      char* cell = row + cells_at_[c];
      switch (columns_[c].type) {
        case CellType::kBool: *cell = present && column.Bool(i) ? 1 : 0; break;
        case CellType::kInt8: StoreAs(cell, present ? column.Value<int8_t>(i) : int8_t{0}); break;
        case CellType::kInt16: StoreAs(cell, present ? column.Value<int16_t>(i) : int16_t{0}); break;
        case CellType::kInt32:
        case CellType::kFloat32: StoreAs(cell, present ? column.Value<uint32_t>(i) : 0u); break;
        case CellType::kInt64:
        case CellType::kFloat64: StoreAs(cell, present ? column.Value<uint64_t>(i) : uint64_t{0}); break;
        case CellType::kUtf8:
        case CellType::kBinary: {
          const std::string_view text = present ? column.Bytes(i) : std::string_view();
          if (!text.empty()) std::memcpy(bytes, text.data(), text.size());
          bytes += text.size();
          MarkEnd(row, variable++, bytes);
          break;
        }
      }
    }
  }

  // --- One row at a time, cell by cell, for values that are no Arrow columns.

  // Prepares the head of a row: all zero, its version set. REQUIRES: head_bytes() bytes at "row".
  void BeginRow(char* row) const {
    std::memset(row, 0, head_bytes_);
    if (is_record_) row[0] = static_cast<char>(kSchemaVersion);
  }
  void MarkNull(char* row, size_t column) const {
    const size_t bit = null_bits_[column];
    if (columns_[column].nullable) row[nulls_at_ + bit / 8] = static_cast<char>(row[nulls_at_ + bit / 8] | (1 << (bit % 8)));
  }
  char* Cell(char* row, size_t column) const { return row + cells_at_[column]; }
  // Says that the variable cell number "variable", counted among those, ends at "end".
  void MarkEnd(char* row, size_t variable, const char* end) const {
    if (variable + 1 < variable_count_) {
      StoreAs(row + ends_at_ + 4 * variable, static_cast<uint32_t>(end - row - static_cast<ptrdiff_t>(head_bytes_)));
    }
  }

  // Checks that "row" is one of this schema: its length, version and end offsets. What follows may then be read from it.
  bool IsRow(std::string_view row) const {
    if (row.size() < head_bytes_) return false;
    if (is_record_ && static_cast<uint8_t>(row[0]) != kSchemaVersion) return false;
    if (variable_count_ == 0) return row.size() == head_bytes_;
    uint32_t begin = 0;
    for (size_t v = 0; v + 1 < variable_count_; ++v) {
      const uint32_t end = LoadAs<uint32_t>(row.data() + ends_at_ + 4 * v);
      if (end < begin || end > row.size() - head_bytes_) return false;
      begin = end;
    }
    return true;
  }
  // REQUIRES for the next three: IsRow(row).
  bool IsNull(std::string_view row, size_t column) const {
    const size_t bit = null_bits_[column];
    return columns_[column].nullable && ((row[nulls_at_ + bit / 8] >> (bit % 8)) & 1) != 0;
  }
  const char* FixedCell(std::string_view row, size_t column) const { return row.data() + cells_at_[column]; }
  std::string_view VariableCell(std::string_view row, size_t variable) const {
    const std::string_view bytes = row.substr(head_bytes_);
    const size_t begin = variable == 0 ? 0 : LoadAs<uint32_t>(row.data() + ends_at_ + 4 * (variable - 1));
    const size_t end = variable + 1 == variable_count_ ? bytes.size() : LoadAs<uint32_t>(row.data() + ends_at_ + 4 * variable);
    return bytes.substr(begin, end - begin);
  }

  // Reads a row into row "i" of "builders", one per column. False if the bytes are no row of this schema.
  bool ParseRow(std::string_view row, int64_t i, std::vector<ColumnBuilder>* builders) const {
    if (!IsRow(row)) return false;
    size_t variable = 0;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const bool is_variable = CellBytes(columns_[c].type) == 0;
      const size_t number = variable;
      variable += is_variable;
      if (IsNull(row, c)) continue;
      if (is_variable) {
        (*builders)[c].SetBytes(i, VariableCell(row, number));
      } else {
        (*builders)[c].SetFixed(i, FixedCell(row, c));
      }
    }
    return true;
  }

  // The same of some columns: "places" has for each where it stands among the builders, or -1 for one that is left out.
  bool ParseColumns(std::string_view row, int64_t i, const std::vector<int>& places, std::vector<ColumnBuilder>* builders) const {
    if (!IsRow(row)) return false;
    size_t variable = 0;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const bool is_variable = CellBytes(columns_[c].type) == 0;
      const size_t number = variable;
      variable += is_variable;
      if (places[c] < 0 || IsNull(row, c)) continue;
      ColumnBuilder& builder = (*builders)[static_cast<size_t>(places[c])];
      if (is_variable) {
        builder.SetBytes(i, VariableCell(row, number));
      } else {
        builder.SetFixed(i, FixedCell(row, c));
      }
    }
    return true;
  }

 private:
  std::vector<Column> columns_;
  bool is_record_ = false;
  size_t variable_count_ = 0;
  size_t nulls_at_ = 0;
  size_t ends_at_ = 0;
  size_t head_bytes_ = 0;
  std::vector<size_t> null_bits_;  // each column's bit, counted among the nullable ones
  std::vector<size_t> cells_at_;   // each fixed-width column's cell
};

}  // namespace sfkv
