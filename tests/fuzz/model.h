// FORMAT.md once more, by the letter and without regard for speed: what the codecs are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "cells.h"

namespace sfkv::fuzz {

inline void AppendLittle(std::string* bytes, uint64_t number, size_t width) {
  for (size_t i = 0; i < width; ++i) bytes->push_back(static_cast<char>(number >> (8 * i)));
}

// Takes "n" bytes off the front; false if there are fewer.
inline bool TakeFront(std::string_view* bytes, size_t n, std::string* taken) {
  if (bytes->size() < n) return false;
  *taken = std::string(bytes->substr(0, n));
  bytes->remove_prefix(n);
  return true;
}

inline void AppendCount(std::string* bytes, size_t count) {
  for (; count >= 128; count /= 128) bytes->push_back(static_cast<char>(count % 128 + 128));
  bytes->push_back(static_cast<char>(count));
}

// LEB128 of at most five bytes.
inline bool TakeCount(std::string_view* bytes, size_t* count) {
  size_t digit = 1;
  std::string byte;
  *count = 0;
  for (int i = 0; i < 5; ++i, digit *= 128) {
    if (!TakeFront(bytes, 1, &byte)) return false;
    *count += static_cast<size_t>(static_cast<uint8_t>(byte[0]) % 128) * digit;
    if (static_cast<uint8_t>(byte[0]) < 128) return true;
  }
  return false;
}

template <typename T>
T NumberOf(const Cell& cell) {
  T number;
  std::memcpy(&number, cell.bytes.data(), sizeof(number));
  return number;
}

// --- Key rows, section 3.

inline bool IsFloat(const Type& type) { return type.cell >= CellType::kFloat16 && type.cell <= CellType::kFloat64; }

// A float16 as a double, which holds them all.
inline double HalfOf(const Cell& cell) {
  const uint16_t bits = NumberOf<uint16_t>(cell);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

inline double FloatOf(const Cell& cell, const Type& type) {
  return type.cell == CellType::kFloat16 ? HalfOf(cell) : type.cell == CellType::kFloat32 ? NumberOf<float>(cell) : NumberOf<double>(cell);
}

// A cell as a key has it: one zero, and one NaN.
inline Cell KeyCell(Cell cell, const Type& type) {
  if (cell.is_null || !IsFloat(type)) return cell;
  const double number = FloatOf(cell, type);
  if (number == 0) cell.bytes = std::string(type.width, '\0');
  if (std::isnan(number)) {
    const std::string_view top = type.width == 2 ? std::string_view("\x00\x7e", 2) : type.width == 4 ? "\xc0\x7f" : "\xf8\x7f";
    cell.bytes = std::string(type.width - 2, '\0').append(top);
  }
  return cell;
}

inline Row KeyOf(Row row, const std::vector<Column>& schema) {
  for (size_t c = 0; c < schema.size(); ++c) row[c] = KeyCell(row[c], schema[c].type);
  return row;
}

inline std::string OrderedCell(const Cell& cell, const Type& type) {
  std::string bytes = cell.bytes;
  if (type.is_text()) {
    std::string escaped;
    for (const char c : bytes) c == 0 ? escaped.append("\0\xff", 2) : escaped.append(1, c);
    return escaped.append(2, '\0');
  }
  if (type.cell == CellType::kBool || type.cell == CellType::kFixedBinary) return bytes;
  std::reverse(bytes.begin(), bytes.end());  // big-endian
  if (type.cell >= CellType::kUInt8 && type.cell <= CellType::kUInt64) return bytes;
  if (IsFloat(type) && std::isnan(FloatOf(cell, type))) return std::string(bytes.size(), '\xff');
  if (IsFloat(type) && (bytes[0] & 0x80) != 0) {
    for (char& c : bytes) c = static_cast<char>(~c);
  } else {
    bytes[0] = static_cast<char>(bytes[0] ^ 0x80);
  }
  return bytes;
}

// The key row of a row that KeyOf() gave.
inline std::string KeyRowOf(const Row& row, const std::vector<Column>& schema) {
  std::string bytes;
  for (size_t c = 0; c < schema.size(); ++c) {
    if (schema[c].nullable) bytes.push_back(row[c].is_null ? '\0' : '\1');
    if (!row[c].is_null) bytes += OrderedCell(row[c], schema[c].type);
  }
  return bytes;
}

template <typename T>
int Compare(T a, T b) {
  return static_cast<int>(a > b) - static_cast<int>(a < b);
}

inline int CompareFloats(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return static_cast<int>(std::isnan(a)) - static_cast<int>(std::isnan(b));
  return Compare(a, b);
}

// Of whole numbers of any width.
inline int CompareSigned(std::string a, std::string b) {
  if ((a.back() & 0x80) != (b.back() & 0x80)) return (a.back() & 0x80) != 0 ? -1 : 1;
  std::reverse(a.begin(), a.end());
  std::reverse(b.begin(), b.end());
  return a.compare(b);
}

// Less than, equal to or greater than 0, as one cell of a key comes before, with or after another.
inline int CompareCells(const Cell& one, const Cell& other, const Type& type) {
  if (one.is_null || other.is_null) return static_cast<int>(!one.is_null) - static_cast<int>(!other.is_null);
  switch (type.cell) {
    case CellType::kInt8: return Compare(NumberOf<int8_t>(one), NumberOf<int8_t>(other));
    case CellType::kInt16: return Compare(NumberOf<int16_t>(one), NumberOf<int16_t>(other));
    case CellType::kInt32: return Compare(NumberOf<int32_t>(one), NumberOf<int32_t>(other));
    case CellType::kInt64: return Compare(NumberOf<int64_t>(one), NumberOf<int64_t>(other));
    case CellType::kUInt8: return Compare(NumberOf<uint8_t>(one), NumberOf<uint8_t>(other));
    case CellType::kUInt16: return Compare(NumberOf<uint16_t>(one), NumberOf<uint16_t>(other));
    case CellType::kUInt32: return Compare(NumberOf<uint32_t>(one), NumberOf<uint32_t>(other));
    case CellType::kUInt64: return Compare(NumberOf<uint64_t>(one), NumberOf<uint64_t>(other));
    case CellType::kFloat16:
    case CellType::kFloat32:
    case CellType::kFloat64: return CompareFloats(FloatOf(one, type), FloatOf(other, type));
    case CellType::kDecimal: return CompareSigned(one.bytes, other.bytes);
    default: return one.bytes.compare(other.bytes);
  }
}

inline int CompareKeys(const Row& one, const Row& other, const std::vector<Column>& schema) {
  for (size_t c = 0; c < schema.size(); ++c) {
    const int order = CompareCells(one[c], other[c], schema[c].type);
    if (order != 0) return order;
  }
  return 0;
}

// --- Records and items, section 4.

inline std::string RecordOf(const std::vector<Cell>& cells, const std::vector<Column>& columns);
inline std::string ItemsOf(const std::vector<Cell>& cells, const Column& column);

// A cell that is not null, as it stands in a record.
inline std::string StoredCell(const Cell& cell, const Type& type) {
  std::string bytes;
  switch (type.cell) {
    case CellType::kStruct: return RecordOf(cell.children, type.children);
    case CellType::kList: AppendCount(&bytes, cell.children.size()); [[fallthrough]];
    case CellType::kFixedList: return bytes + ItemsOf(cell.children, type.children[0]);
    default: return cell.bytes;
  }
}

// Null bits, fixed cells, ends and variable cells, one after the other.
struct Parts {
  std::string nulls, fixed, ends, bytes;
  size_t nullable = 0, variable = 0;

  void Add(const Cell& cell, const Column& column, size_t variable_count) {
    if (column.nullable) {
      if (nullable % 8 == 0) nulls.push_back('\0');
      if (cell.is_null) nulls.back() = static_cast<char>(nulls.back() | (1 << (nullable % 8)));
      ++nullable;
    }
    if (!column.type.is_variable()) {
      fixed += cell.is_null ? std::string(column.type.width, '\0') : cell.bytes;
      return;
    }
    if (!cell.is_null) bytes += StoredCell(cell, column.type);
    if (++variable < variable_count) AppendLittle(&ends, bytes.size(), 4);
  }
  std::string Join() const { return nulls + fixed + ends + bytes; }
};

inline size_t VariableCount(const std::vector<Column>& columns) {
  size_t count = 0;
  for (const Column& column : columns) count += column.type.is_variable();
  return count;
}

inline std::string RecordOf(const std::vector<Cell>& cells, const std::vector<Column>& columns) {
  Parts parts;
  for (size_t c = 0; c < cells.size(); ++c) parts.Add(cells[c], columns[c], VariableCount(columns));
  return parts.Join();
}

inline std::string ItemsOf(const std::vector<Cell>& cells, const Column& column) {
  Parts parts;
  for (const Cell& cell : cells) parts.Add(cell, column, cells.size());
  return parts.Join();
}

// A row of a schema of one version, or of the version that is named.
inline std::string ValueRowOf(const Row& row, const Schema& schema, size_t version = 0) {
  return (schema.is_record ? std::string(1, static_cast<char>(version)) : std::string()) + RecordOf(row, schema.columns);
}

// --- Reading them. What a reader does not look at may be anything: bits behind the last null bit, what stands under a null, and
// which byte other than 0 says true.

// A cell as it is stored, or null.
using Stored = std::optional<std::string>;

// The cells of a record, or of as many items; false if the bytes are none. "column_of" has the column of each.
template <typename ColumnOf>
bool Split(std::string_view bytes, size_t count, ColumnOf&& column_of, std::vector<Stored>* cells) {
  std::string nulls, taken;
  size_t nullable_count = 0, variable_count = 0;
  for (size_t i = 0; i < count; ++i) {
    nullable_count += column_of(i).nullable;
    variable_count += column_of(i).type.is_variable();
  }
  if (!TakeFront(&bytes, (nullable_count + 7) / 8, &nulls)) return false;
  std::vector<bool> is_null(count);
  size_t nullable = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!column_of(i).nullable) continue;
    is_null[i] = ((nulls[nullable / 8] >> (nullable % 8)) & 1) != 0;
    ++nullable;
  }
  cells->assign(count, std::nullopt);
  for (size_t i = 0; i < count; ++i) {
    if (!TakeFront(&bytes, column_of(i).type.width, &taken)) return false;
    if (!is_null[i]) (*cells)[i] = taken;
  }
  if (variable_count == 0) return bytes.empty();
  std::vector<size_t> ends;
  for (size_t v = 0; v + 1 < variable_count; ++v) {
    if (!TakeFront(&bytes, 4, &taken)) return false;
    ends.push_back(NumberOf<uint32_t>({false, taken, {}}));
  }
  ends.push_back(bytes.size());
  size_t begin = 0, variable = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!column_of(i).type.is_variable()) continue;
    const size_t end = ends[variable++];
    if (end < begin || end > bytes.size()) return false;
    if (!is_null[i]) (*cells)[i] = std::string(bytes.substr(begin, end - begin));
    begin = end;
  }
  return true;
}

inline bool SplitRecord(std::string_view bytes, const std::vector<Column>& columns, std::vector<Stored>* cells) {
  return Split(bytes, columns.size(), [&](size_t i) -> const Column& { return columns[i]; }, cells);
}

// What a stored cell is; false if it does not have the form of its type.
inline bool ReadCell(const Stored& stored, const Type& type, Cell* cell) {
  *cell = NullCell();
  if (!stored || type.cell == CellType::kNull) return true;
  cell->is_null = false;
  std::string_view bytes = *stored;
  std::vector<Stored> children;
  if (!type.is_nested()) {
    cell->bytes = *stored;
    if (type.cell == CellType::kBool) cell->bytes[0] = cell->bytes[0] != 0;
    return true;
  }
  if (type.cell == CellType::kStruct) {
    if (!SplitRecord(bytes, type.children, &children)) return false;
  } else {
    size_t count = static_cast<size_t>(type.list_size);
    if (type.cell == CellType::kList && !TakeCount(&bytes, &count)) return false;
    const Column& item = type.children[0];
    // No number of items that the bytes cannot hold is gone through; each takes at least a bit, or a byte, or the end of one.
    if (type.cell == CellType::kList && count / 8 > bytes.size()) return false;
    if (!Split(bytes, count, [&](size_t) -> const Column& { return item; }, &children)) return false;
  }
  for (size_t i = 0; i < children.size(); ++i) {
    cell->children.emplace_back();
    if (!ReadCell(children[i], type.children[type.cell == CellType::kStruct ? i : 0].type, &cell->children.back())) return false;
  }
  return true;
}

// The cells of a row; false if one does not have the form of its type.
inline bool ReadCells(const std::vector<Stored>& stored, const std::vector<Column>& columns, Row* row) {
  row->assign(columns.size(), Cell());
  for (size_t c = 0; c < columns.size(); ++c) {
    if (!ReadCell(stored[c], columns[c].type, &(*row)[c])) return false;
  }
  return true;
}

// The stored cells of a value row of a schema with one version; false if it is none.
inline bool SplitValueRow(std::string_view bytes, const Schema& schema, std::vector<Stored>* stored) {
  std::string version;
  if (schema.is_record && (!TakeFront(&bytes, 1, &version) || version[0] != 0)) return false;
  return SplitRecord(bytes, schema.columns, stored);
}

// --- Lists, section 4.

inline std::string ElementOf(std::string_view row) {
  std::string bytes;
  AppendCount(&bytes, row.size());
  return bytes.append(row);
}

// The rows of a list; false if it is none.
inline bool ReadList(std::string_view bytes, std::vector<std::string>* rows) {
  rows->clear();
  while (!bytes.empty()) {
    size_t length = 0;
    rows->emplace_back();
    if (!TakeCount(&bytes, &length) || !TakeFront(&bytes, length, &rows->back())) return false;
  }
  return true;
}

}  // namespace sfkv::fuzz
