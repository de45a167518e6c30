// Values: the model that rows and arrays are compared with, taken out of a fuzzer's bytes or read from Arrow arrays by the letter.
#pragma once

#include "types.h"

namespace sfkv::fuzz {

struct Cell {
  bool is_null = false;
  std::string bytes;           // in this machine's order: as many as the type's width, or any number
  std::vector<Cell> children;  // a struct's fields, a list's items

  bool operator==(const Cell& other) const {
    return is_null == other.is_null && (is_null || (bytes == other.bytes && children == other.children));
  }
};
using Row = std::vector<Cell>;

inline Cell NullCell() { return {true, {}, {}}; }

// Whether text has to be UTF-8.
enum class Texts { kUtf8, kAny };

inline std::string TakeText(Input* input, uint8_t chosen) {
  static constexpr std::string_view kPieces[] = {std::string_view("\0", 1), "a",            "\x01",             "\x7f",
                                                 "\xc3\xbf",                 "\xe2\x82\xac", "\xf0\x9f\x98\x80", "longer "};
  std::string text;
  for (const char c : input->Bytes(chosen < 250 ? (chosen >> 2) % 8 : 100)) text += kPieces[c & 7];
  return text;
}

// Mostly short, and of the bytes that escaping treats on their own.
inline std::string TakeBinary(Input* input, uint8_t chosen) {
  const std::string drawn = input->Bytes(chosen < 250 ? (chosen >> 2) % 8 : 300);
  if (chosen % 2 != 0) return drawn;
  std::string bytes;
  for (const char c : drawn) bytes.push_back("\0\xff\x01" "a"[c & 3]);
  return bytes;
}

inline std::string TakeFixed(Input* input, uint8_t chosen, size_t width) {
  static constexpr uint64_t kEdges[] = {0, 1, ~uint64_t{0}, 0x8000000000000000u, 0x7FF8000000000001u, 0xFFF0000000000000u, 0x80, 0x8000};
  static constexpr uint32_t kSingleEdges[] = {0x80000000u, 0x7FC00001u, 0xFF800000u, 0x7F800000u};
  static constexpr uint16_t kHalfEdges[] = {0x8000, 0x7E01, 0xFC00, 0x7C00};
  std::string bytes(width, '\0');
  const uint8_t edge = (chosen >> 2) % 16;
  if (edge < 8) {
    std::memcpy(bytes.data(), &kEdges[edge], width < 8 ? width : 8);
    if (width > 8 && edge == 2) bytes.assign(width, '\xff');
    if (width > 8 && edge == 3) bytes.back() = '\x80';
  } else if (edge < 12 && width == 4) {
    std::memcpy(bytes.data(), &kSingleEdges[edge - 8], width);
  } else if (edge < 12 && width == 2) {
    std::memcpy(bytes.data(), &kHalfEdges[edge - 8], width);
  } else {
    const std::string drawn = input->Bytes(width);
    std::memcpy(bytes.data(), drawn.data(), drawn.size());
  }
  return bytes;
}

inline Cell TakeCell(Input* input, const Column& column, Texts texts = Texts::kUtf8) {
  const Type& type = column.type;
  if (type.cell == CellType::kNull) return NullCell();
  const uint8_t chosen = input->Byte();
  if (column.nullable && chosen % 4 == 0) return NullCell();
  Cell cell;
  switch (type.cell) {
    case CellType::kBool: cell.bytes.assign(1, static_cast<char>((chosen >> 2) & 1)); break;
    case CellType::kUtf8: cell.bytes = texts == Texts::kAny && chosen % 8 == 7 ? TakeBinary(input, chosen) : TakeText(input, chosen); break;
    case CellType::kBinary: cell.bytes = TakeBinary(input, chosen); break;
    case CellType::kStruct:
      for (const Column& field : type.children) cell.children.push_back(TakeCell(input, field, texts));
      break;
    case CellType::kList:
    case CellType::kFixedList: {
      const size_t count = type.list_size != 0 ? static_cast<size_t>(type.list_size) : chosen < 250 ? (chosen >> 2) % 4 : 20;
      for (size_t i = 0; i < count; ++i) cell.children.push_back(TakeCell(input, type.children[0], texts));
      break;
    }
    default: cell.bytes = TakeFixed(input, chosen, type.width); break;
  }
  return cell;
}

inline Row TakeRow(Input* input, const std::vector<Column>& schema, Texts texts = Texts::kUtf8) {
  Row row;
  for (const Column& column : schema) row.push_back(TakeCell(input, column, texts));
  return row;
}

// Up to "most" rows, some of which repeat an earlier one.
inline std::vector<Row> TakeRows(Input* input, const std::vector<Column>& schema, size_t most, Texts texts = Texts::kUtf8) {
  std::vector<Row> rows;
  while (rows.size() < most && !input->empty()) {
    const uint8_t chosen = input->Byte();
    if (chosen % 4 == 0 && !rows.empty()) {
      rows.push_back(Row(rows[(chosen >> 2) % rows.size()]));
    } else {
      rows.push_back(TakeRow(input, schema, texts));
    }
  }
  return rows;
}

inline std::vector<Cell> ColumnOf(const std::vector<Row>& rows, size_t c) {
  std::vector<Cell> cells;
  for (const Row& row : rows) cells.push_back(row[c]);
  return cells;
}

// --- Cells of Arrow arrays. Row "i" counts from the array's offset, and may lie before it or behind its end.

template <typename T>
T LoadAt(const void* buffer, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(buffer) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

inline bool IsNullIn(const ArrowArray& array, int64_t i) {
  return array.null_count != 0 && array.buffers[0] != nullptr && !GetBit(static_cast<const uint8_t*>(array.buffers[0]), array.offset + i);
}

inline size_t IndexBytes(CellType index) { return size_t{1} << (static_cast<int>(index) - static_cast<int>(CellType::kInt8)) % 4; }

// An index as its type has it; one that no int64 holds is -1.
inline int64_t IndexAt(const void* buffer, CellType index, int64_t i) {
  switch (index) {
    case CellType::kInt8: return LoadAt<int8_t>(buffer, i);
    case CellType::kInt16: return LoadAt<int16_t>(buffer, i);
    case CellType::kInt32: return LoadAt<int32_t>(buffer, i);
    case CellType::kUInt8: return LoadAt<uint8_t>(buffer, i);
    case CellType::kUInt16: return LoadAt<uint16_t>(buffer, i);
    case CellType::kUInt32: return LoadAt<uint32_t>(buffer, i);
    default: {
      const int64_t number = LoadAt<int64_t>(buffer, i);
      return number < 0 ? -1 : number;
    }
  }
}

inline int64_t OffsetIn(const ArrowArray& array, const Type& type, int64_t i) {
  return type.layout == Layout::kLarge ? LoadAt<int64_t>(array.buffers[1], array.offset + i) : LoadAt<int32_t>(array.buffers[1], array.offset + i);
}

inline Type WithoutIndex(Type type) {
  type.index = CellType::kNull;
  return type;
}

inline Cell CellIn(const ArrowArray& array, const Type& type, int64_t i) {
  if (type.cell == CellType::kNull || IsNullIn(array, i)) return NullCell();
  const int64_t at = array.offset + i;
  if (type.index != CellType::kNull) return CellIn(*array.dictionary, WithoutIndex(type), IndexAt(array.buffers[1], type.index, at));
  Cell cell;
  switch (type.cell) {
    case CellType::kBool: cell.bytes.assign(1, GetBit(static_cast<const uint8_t*>(array.buffers[1]), at) ? '\1' : '\0'); break;
    case CellType::kStruct:
      for (size_t c = 0; c < type.children.size(); ++c) cell.children.push_back(CellIn(*array.children[c], type.children[c].type, at));
      break;
    case CellType::kList:
      for (int64_t item = OffsetIn(array, type, i); item < OffsetIn(array, type, i + 1); ++item) {
        cell.children.push_back(CellIn(*array.children[0], type.children[0].type, item));
      }
      break;
    case CellType::kFixedList:
      for (int64_t item = at * type.list_size; item < (at + 1) * type.list_size; ++item) {
        cell.children.push_back(CellIn(*array.children[0], type.children[0].type, item));
      }
      break;
    case CellType::kUtf8:
    case CellType::kBinary:
      if (type.layout == Layout::kView) {
        const char* view = static_cast<const char*>(array.buffers[1]) + at * 16;
        const size_t size = LoadAt<uint32_t>(view, 0);
        const int32_t buffer = LoadAt<int32_t>(view, 2), offset = LoadAt<int32_t>(view, 3);
        cell.bytes.assign(size <= 12 ? view + 4 : static_cast<const char*>(array.buffers[2 + buffer]) + offset, size);
      } else if (OffsetIn(array, type, i) != OffsetIn(array, type, i + 1)) {
        const char* bytes = static_cast<const char*>(array.buffers[2]);
        cell.bytes.assign(bytes + OffsetIn(array, type, i), bytes + OffsetIn(array, type, i + 1));
      }
      break;
    default: cell.bytes.assign(static_cast<const char*>(array.buffers[1]) + at * static_cast<int64_t>(type.width), type.width); break;
  }
  return cell;
}

// An array that the core made: its buffers and children are those of its type, as long as they must be, and its nulls are counted.
inline void CheckMade(const ArrowArray& array, const Type& type, int64_t length) {
  FUZZ_EXPECT(array.release != nullptr && array.length == length && array.offset == 0 && array.dictionary == nullptr);
  FUZZ_EXPECT(array.n_children == static_cast<int64_t>(type.children.size()));
  int64_t nulls = 0;
  if (type.cell == CellType::kNull) {
    nulls = length;
    FUZZ_EXPECT(array.n_buffers == 0);
  } else {
    const bool has_one = type.cell == CellType::kStruct || type.cell == CellType::kFixedList;
    FUZZ_EXPECT(array.n_buffers == (has_one ? 1 : !type.is_text() ? 2 : type.layout == Layout::kView ? 4 : 3));
    FUZZ_EXPECT(has_one || array.buffers[1] != nullptr);
    for (int64_t i = 0; i < length; ++i) nulls += array.buffers[0] != nullptr && !GetBit(static_cast<const uint8_t*>(array.buffers[0]), i);
  }
  FUZZ_EXPECT(array.null_count == nulls);
  for (size_t c = 0; c < type.children.size(); ++c) {
    int64_t items = type.cell == CellType::kFixedList ? length * type.list_size : length;
    if (type.cell == CellType::kList) items = OffsetIn(array, type, length);
    CheckMade(*array.children[c], type.children[c].type, items);
  }
}

// A struct of the columns.
inline Type RecordType(const std::vector<Column>& columns) {
  Type type;
  type.cell = CellType::kStruct;
  type.width = 0;
  type.meaning = "+s";
  type.children = columns;
  return type;
}

// The rows of an array that the core made.
inline std::vector<Row> RowsOf(const ArrowArray& array, const std::vector<Column>& columns, bool is_record) {
  CheckMade(array, is_record ? RecordType(columns) : columns[0].type, array.length);
  std::vector<Row> rows(static_cast<size_t>(array.length));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t c = 0; c < columns.size(); ++c) {
      rows[i].push_back(CellIn(is_record ? *array.children[c] : array, columns[c].type, static_cast<int64_t>(i)));
    }
  }
  return rows;
}

}  // namespace sfkv::fuzz
