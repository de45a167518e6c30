// FORMAT.md once more, by the letter and without regard for speed: what the codecs are compared with.
#pragma once

#include <algorithm>
#include <cmath>

#include "input.h"

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

template <typename T>
T NumberOf(const Cell& cell) {
  T number;
  std::memcpy(&number, cell.bytes.data(), sizeof(number));
  return number;
}

// --- Key rows, section 3.

// A cell as a key has it: one zero, and one NaN.
inline Cell KeyCell(Cell cell, CellType type) {
  if (cell.is_null) return cell;
  if (type == CellType::kFloat32) {
    const float number = NumberOf<float>(cell);
    if (number == 0) cell.bytes = std::string(4, '\0');
    if (std::isnan(number)) cell.bytes = std::string("\0\0\xc0\x7f", 4);
  }
  if (type == CellType::kFloat64) {
    const double number = NumberOf<double>(cell);
    if (number == 0) cell.bytes = std::string(8, '\0');
    if (std::isnan(number)) cell.bytes = std::string("\0\0\0\0\0\0\xf8\x7f", 8);
  }
  return cell;
}

inline Row KeyOf(Row row, const std::vector<Column>& schema) {
  for (size_t c = 0; c < schema.size(); ++c) row[c] = KeyCell(row[c], schema[c].type);
  return row;
}

inline std::string OrderedCell(const Cell& cell, CellType type) {
  std::string bytes = cell.bytes;
  if (CellBytes(type) == 0) {
    std::string escaped;
    for (const char c : bytes) c == 0 ? escaped.append("\0\xff", 2) : escaped.append(1, c);
    return escaped.append(2, '\0');
  }
  if (type == CellType::kBool) return bytes;
  std::reverse(bytes.begin(), bytes.end());  // big-endian
  const bool is_float = type == CellType::kFloat32 || type == CellType::kFloat64;
  const bool is_nan = is_float && std::isnan(type == CellType::kFloat32 ? NumberOf<float>(cell) : NumberOf<double>(cell));
  if (is_nan) return std::string(bytes.size(), '\xff');
  if (is_float && (bytes[0] & 0x80) != 0) {
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

// Less than, equal to or greater than 0, as one cell of a key comes before, with or after another.
template <typename T>
int CompareNumbers(const Cell& one, const Cell& other) {
  const T a = NumberOf<T>(one), b = NumberOf<T>(other);
  if (a != a || b != b) return static_cast<int>(a != a) - static_cast<int>(b != b);
  return static_cast<int>(a > b) - static_cast<int>(a < b);
}

inline int CompareCells(const Cell& one, const Cell& other, CellType type) {
  if (one.is_null || other.is_null) return static_cast<int>(!one.is_null) - static_cast<int>(!other.is_null);
  switch (type) {
    case CellType::kInt8: return CompareNumbers<int8_t>(one, other);
    case CellType::kInt16: return CompareNumbers<int16_t>(one, other);
    case CellType::kInt32: return CompareNumbers<int32_t>(one, other);
    case CellType::kInt64: return CompareNumbers<int64_t>(one, other);
    case CellType::kFloat32: return CompareNumbers<float>(one, other);
    case CellType::kFloat64: return CompareNumbers<double>(one, other);
    case CellType::kBool:
    case CellType::kUtf8:
    case CellType::kBinary: return one.bytes.compare(other.bytes);
  }
  return 0;
}

inline int CompareKeys(const Row& one, const Row& other, const std::vector<Column>& schema) {
  for (size_t c = 0; c < schema.size(); ++c) {
    const int order = CompareCells(one[c], other[c], schema[c].type);
    if (order != 0) return order;
  }
  return 0;
}

// --- Value rows, section 4.

inline std::string ValueRowOf(const Row& row, const Schema& schema) {
  std::string nulls, fixed, ends, bytes;
  size_t nullable = 0, variable = 0, variable_count = 0;
  for (const Column column : schema.columns) variable_count += CellBytes(column.type) == 0;
  for (size_t c = 0; c < row.size(); ++c) {
    const size_t width = CellBytes(schema.columns[c].type);
    if (schema.columns[c].nullable) {
      if (nullable % 8 == 0) nulls.push_back('\0');
      if (row[c].is_null) nulls.back() = static_cast<char>(nulls.back() | (1 << (nullable % 8)));
      ++nullable;
    }
    if (width != 0) {
      fixed += row[c].is_null ? std::string(width, '\0') : row[c].bytes;
    } else {
      if (!row[c].is_null) bytes += row[c].bytes;
      if (++variable < variable_count) AppendLittle(&ends, bytes.size(), 4);
    }
  }
  return (schema.is_record ? std::string(1, '\0') : std::string()) + nulls + fixed + ends + bytes;
}

// Reads a value row; false if it is none. What a reader does not look at may be anything: bits behind the last null bit, what
// stands under a null, and which byte other than 0 says true.
inline bool ReadValueRow(std::string_view bytes, const Schema& schema, Row* row) {
  std::string version, nulls, taken;
  if (schema.is_record && (!TakeFront(&bytes, 1, &version) || version[0] != 0)) return false;
  size_t nullable_count = 0, variable_count = 0;
  for (const Column column : schema.columns) {
    nullable_count += column.nullable;
    variable_count += CellBytes(column.type) == 0;
  }
  if (!TakeFront(&bytes, (nullable_count + 7) / 8, &nulls)) return false;
  row->assign(schema.columns.size(), Cell());
  size_t nullable = 0;
  for (size_t c = 0; c < row->size(); ++c) {
    if (schema.columns[c].nullable) {
      (*row)[c].is_null = ((nulls[nullable / 8] >> (nullable % 8)) & 1) != 0;
      ++nullable;
    }
    if (!TakeFront(&bytes, CellBytes(schema.columns[c].type), &(*row)[c].bytes)) return false;
    if (schema.columns[c].type == CellType::kBool) (*row)[c].bytes[0] = (*row)[c].bytes[0] != 0;
  }
  if (variable_count == 0) return bytes.empty();
  std::vector<size_t> lengths;
  size_t begin = 0;
  for (size_t v = 0; v + 1 < variable_count; ++v) {
    if (!TakeFront(&bytes, 4, &taken)) return false;
    const size_t end = NumberOf<uint32_t>({false, taken});
    if (end < begin) return false;
    lengths.push_back(end - begin);
    begin = end;
  }
  if (begin > bytes.size()) return false;
  lengths.push_back(bytes.size() - begin);
  size_t variable = 0;
  for (size_t c = 0; c < row->size(); ++c) {
    if (CellBytes(schema.columns[c].type) == 0) TakeFront(&bytes, lengths[variable++], &(*row)[c].bytes);
  }
  return true;
}

// --- Lists, section 4.

inline std::string ElementOf(std::string_view row) {
  std::string bytes;
  size_t rest = row.size();
  for (; rest >= 128; rest /= 128) bytes.push_back(static_cast<char>(rest % 128 + 128));
  bytes.push_back(static_cast<char>(rest));
  return bytes.append(row);
}

// The rows of a list; false if it is none.
inline bool ReadList(std::string_view bytes, std::vector<std::string>* rows) {
  rows->clear();
  while (!bytes.empty()) {
    size_t length = 0, digit = 1;
    std::string byte;
    for (int i = 0;; ++i, digit *= 128) {
      if (i == 5 || !TakeFront(&bytes, 1, &byte)) return false;
      length += static_cast<size_t>(static_cast<uint8_t>(byte[0]) % 128) * digit;
      if (static_cast<uint8_t>(byte[0]) < 128) break;
    }
    rows->emplace_back();
    if (!TakeFront(&bytes, length, &rows->back())) return false;
  }
  return true;
}

}  // namespace sfkv::fuzz
