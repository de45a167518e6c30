// What the fuzz targets share: schemas, values and arrays taken out of a fuzzer's bytes, and the check that a property holds.
//
// An input that has run out gives zeros, so every input means something, and a short one stays meaningful when it is cut. Buffers
// that the code under test reads are allocated with exactly the size they may be read to, for AddressSanitizer to guard.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sfkv/row_codec.h"

// A property of the code under test. Unlike assert(), it is there in every build.
#define FUZZ_EXPECT(condition)                                                                \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);     \
      std::abort();                                                                           \
    }                                                                                         \
  } while (false)

namespace sfkv::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  bool empty() const { return at_ == end_; }
  uint8_t Byte() { return at_ == end_ ? 0 : *at_++; }
  bool Bool() { return (Byte() & 1) != 0; }

  // A number below "bound". REQUIRES: bound > 0.
  size_t Below(size_t bound) { return (bound <= 256 ? Byte() : Number<uint16_t>()) % bound; }

  template <typename T>
  T Number() {
    T number{};
    const std::string bytes = Bytes(sizeof(T));
    std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }

  // The next "n" bytes, or as many as there are.
  std::string Bytes(size_t n) {
    const size_t left = static_cast<size_t>(end_ - at_);
    const std::string bytes(reinterpret_cast<const char*>(at_), n < left ? n : left);
    at_ += bytes.size();
    return bytes;
  }
  std::string Rest() { return Bytes(static_cast<size_t>(end_ - at_)); }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

// Bytes in memory of exactly their size: to read one more is seen.
class ExactBytes {
 public:
  explicit ExactBytes(std::string_view bytes) : size_(bytes.size()), data_(new char[bytes.size()]) {
    if (size_ != 0) std::memcpy(data_.get(), bytes.data(), size_);
  }
  std::string_view view() const { return {data_.get(), size_}; }

 private:
  size_t size_;
  std::unique_ptr<char[]> data_;
};

// --- Schemas.

constexpr CellType kCellTypes[] = {CellType::kBool,  CellType::kInt8,    CellType::kInt16,   CellType::kInt32, CellType::kInt64,
                                   CellType::kUtf8,  CellType::kFloat32, CellType::kFloat64, CellType::kBinary};

struct Schema {
  std::vector<Column> columns;
  bool is_record = true;
};

inline Column TakeColumn(Input* input, bool may_be_nullable) {
  const uint8_t chosen = input->Byte();
  return {kCellTypes[(chosen >> 1) % 9], may_be_nullable && (chosen & 1) != 0};
}

// One plain column, which cannot be nullable, or a record: mostly of a few columns, sometimes of more null bits than one byte holds.
inline Schema TakeSchema(Input* input) {
  const uint8_t chosen = input->Byte();
  if (chosen % 4 == 0) return {{TakeColumn(input, false)}, false};
  const size_t count = chosen >= 240 ? 7 + input->Below(20) : 1 + (chosen >> 2) % 5;
  Schema schema;
  for (size_t c = 0; c < count; ++c) schema.columns.push_back(TakeColumn(input, true));
  return schema;
}

// --- Values: the model that rows are compared with.

struct Cell {
  bool is_null = false;
  std::string bytes;  // in this machine's order; CellBytes(type) of them, or any number

  bool operator==(const Cell& other) const { return is_null == other.is_null && (is_null || bytes == other.bytes); }
};
using Row = std::vector<Cell>;

inline Cell TakeCell(Input* input, Column column) {
  static constexpr uint64_t kEdges[] = {0, 1, ~uint64_t{0}, 0x8000000000000000u, 0x7FF8000000000001u, 0xFFF0000000000000u, 0x80, 0x8000};
  static constexpr uint32_t kFloatEdges[] = {0x80000000u, 0x7FC00001u, 0xFF800000u, 0x7F800000u};
  const uint8_t chosen = input->Byte();
  if (column.nullable && chosen % 4 == 0) return {true, {}};
  const size_t width = CellBytes(column.type);
  if (column.type == CellType::kBool) return {false, std::string(1, static_cast<char>((chosen >> 2) & 1))};
  if (width == 0) {
    // Mostly short, and of the bytes that escaping treats on their own.
    const std::string drawn = input->Bytes(chosen < 250 ? (chosen >> 2) % 8 : 300);
    if (chosen % 2 != 0) return {false, drawn};
    std::string text;
    for (const char c : drawn) text.push_back("\0\xff\x01" "a"[c & 3]);
    return {false, text};
  }
  std::string bytes(width, '\0');
  const uint8_t edge = (chosen >> 2) % 16;
  if (edge < 8) {
    std::memcpy(bytes.data(), &kEdges[edge], width);
  } else if (edge < 12 && width == 4) {
    std::memcpy(bytes.data(), &kFloatEdges[edge - 8], width);
  } else {
    const std::string drawn = input->Bytes(width);
    std::memcpy(bytes.data(), drawn.data(), drawn.size());
  }
  return {false, bytes};
}

inline Row TakeRow(Input* input, const std::vector<Column>& schema) {
  Row row;
  for (const Column column : schema) row.push_back(TakeCell(input, column));
  return row;
}

// Up to "most" rows, some of which repeat an earlier one.
inline std::vector<Row> TakeRows(Input* input, const std::vector<Column>& schema, size_t most) {
  std::vector<Row> rows;
  while (rows.size() < most && !input->empty()) {
    const uint8_t chosen = input->Byte();
    if (chosen % 4 == 0 && !rows.empty()) {
      rows.push_back(rows[(chosen >> 2) % rows.size()]);
    } else {
      rows.push_back(TakeRow(input, schema));
    }
  }
  return rows;
}

// --- Arrow arrays of such values.

// An array with its memory. It never moves: the array points into it.
class TestArray {
 public:
  TestArray() = default;
  TestArray(const TestArray&) = delete;
  TestArray& operator=(const TestArray&) = delete;

  ArrowArray* get() { return &array_; }
  TestArray* child(size_t i) { return children_[i].get(); }

  // Gives the array a buffer of exactly these bytes.
  void SetBuffer(size_t i, std::string_view bytes) {
    memory_[i] = std::make_unique<ExactBytes>(bytes);
    buffers_[i] = memory_[i]->view().data();
  }
  void DropBuffer(size_t i) { buffers_[i] = nullptr; }

  // The array of column "c" of "rows", with "offset" cells of another value before its first.
  void FillColumn(const std::vector<Row>& rows, size_t c, Column column, size_t offset) {
    const size_t width = CellBytes(column.type);
    std::string bits((rows.size() + offset + 7) / 8, '\0'), values, offsets;
    int64_t nulls = 0;
    if (column.type == CellType::kBool) values.resize(bits.size());
    int32_t end = 0;
    for (size_t i = 0; i < rows.size() + offset; ++i) {
      const Cell cell = i < offset ? Cell{false, std::string(width == 0 ? 3 : width, '\x01')} : rows[i - offset][c];
      nulls += cell.is_null;
      if (!cell.is_null) SetBit(reinterpret_cast<uint8_t*>(bits.data()), static_cast<int64_t>(i));
      if (width == 0) offsets.append(reinterpret_cast<const char*>(&end), sizeof(end));
      if (column.type == CellType::kBool) {
        if (!cell.is_null && cell.bytes[0] != 0) SetBit(reinterpret_cast<uint8_t*>(values.data()), static_cast<int64_t>(i));
      } else {
        values += cell.is_null && width != 0 ? std::string(width, '\x7f') : cell.bytes;  // what is under a null must not matter
      }
      end = static_cast<int32_t>(values.size());
    }
    if (width == 0) offsets.append(reinterpret_cast<const char*>(&end), sizeof(end));
    Begin(static_cast<int64_t>(rows.size()), nulls, static_cast<int64_t>(offset), width == 0 ? 3 : 2);
    if (nulls != 0) SetBuffer(0, bits);
    SetBuffer(width == 0 ? 2 : 1, values);
    if (width == 0) SetBuffer(1, offsets);
  }

  // The array of all columns: of the one plain column, or a struct array.
  void Fill(const std::vector<Row>& rows, const Schema& schema, size_t offset) {
    if (!schema.is_record) return FillColumn(rows, 0, schema.columns[0], offset);
    Begin(static_cast<int64_t>(rows.size()), 0, 0, 1);
    for (size_t c = 0; c < schema.columns.size(); ++c) AddChild()->FillColumn(rows, c, schema.columns[c], offset);
  }

  void Begin(int64_t length, int64_t null_count, int64_t offset, int64_t buffer_count) {
    array_ = ArrowArray{length, null_count, offset, buffer_count, 0, buffers_, nullptr, nullptr, nullptr, nullptr};
  }

  TestArray* AddChild() {
    children_.push_back(std::make_unique<TestArray>());
    pointers_.push_back(children_.back()->get());
    array_.n_children = static_cast<int64_t>(pointers_.size());
    array_.children = pointers_.data();
    return children_.back().get();
  }

 private:
  ArrowArray array_{};
  const void* buffers_[3] = {nullptr, nullptr, nullptr};
  std::unique_ptr<ExactBytes> memory_[3];
  std::vector<std::unique_ptr<TestArray>> children_;
  std::vector<ArrowArray*> pointers_;
};

// Columns read from an array that must be right.
class TestColumns {
 public:
  TestColumns(const std::vector<Row>& rows, const Schema& schema, size_t offset = 0) {
    array_.Fill(rows, schema, offset);
    FUZZ_EXPECT(ReadArrow(*array_.get(), schema.columns, schema.is_record, &columns_, &rows_).ok());
    FUZZ_EXPECT(CheckNulls(columns_, schema.columns).ok());
  }
  const Columns& get() const { return columns_; }

 private:
  TestArray array_;
  Columns columns_;
  ColumnView rows_;
};

template <typename T>
Cell FixedCellOf(const ColumnView& column, int64_t i) {
  const T value = column.Value<T>(i);
  return {false, std::string(reinterpret_cast<const char*>(&value), sizeof(value))};
}

// The cell at row "i" of a column, as the model has it.
inline Cell CellOf(const ColumnView& column, CellType type, int64_t i) {
  if (column.IsNull(i)) return {true, {}};
  if (type == CellType::kBool) return {false, std::string(1, column.Bool(i) ? '\1' : '\0')};
  switch (CellBytes(type)) {
    case 1: return FixedCellOf<uint8_t>(column, i);
    case 2: return FixedCellOf<uint16_t>(column, i);
    case 4: return FixedCellOf<uint32_t>(column, i);
    case 8: return FixedCellOf<uint64_t>(column, i);
    default: return {false, std::string(column.Bytes(i))};
  }
}

// The rows of an array that the core made.
inline std::vector<Row> RowsOf(const ArrowArray& array, const std::vector<Column>& schema, bool is_record) {
  Columns columns;
  ColumnView whole;
  FUZZ_EXPECT(ReadArrow(array, schema, is_record, &columns, &whole).ok());
  std::vector<Row> rows(static_cast<size_t>(array.length));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t c = 0; c < schema.size(); ++c) rows[i].push_back(CellOf(columns[c], schema[c].type, static_cast<int64_t>(i)));
  }
  return rows;
}

}  // namespace sfkv::fuzz
