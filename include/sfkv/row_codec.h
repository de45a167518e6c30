// What rows of keys and of values share: their limits, byte orders, and the columns that they are made from and read into.
// key_codec.h makes ordered key rows of them and value_codec.h compact value rows; FORMAT.md sections 3 and 4.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sfkv/column_view.h"

namespace sfkv {

// Limits that FORMAT.md states, beside kMaxValueBytes; beyond them a write is refused.
constexpr size_t kMaxKeyRowBytes = 65535;
constexpr size_t kMaxColumns = 1024;

using Columns = std::vector<ColumnView>;

// Reads the columns of "array", whose schema says it to be "given": the array itself if the schema is one plain column, else the
// children of a struct array, by name. "*rows" tells which rows are null as a whole. REQUIRES: CanReadAs(given, schema, is_record).
inline Status ReadArrow(const ArrowArray& array, const Type& given, const std::vector<Column>& schema, bool is_record, Columns* columns,
                        ColumnView* rows) {
  columns->assign(schema.size(), ColumnView());
  const auto within = [](const Status& status, size_t column) {
    return Status(status.code(), status.message(), status.row(), static_cast<int>(column), status.path());
  };
  if (!is_record) {
    const Status status = ColumnView::Make(array, given, columns->data());
    *rows = (*columns)[0];
    return status.ok() ? status : within(status, 0);
  }
  if (array.n_children != static_cast<int64_t>(schema.size()) || array.n_buffers != 1 || array.buffers == nullptr ||
      array.children == nullptr || !HasCells(array)) {
    return Status(Code::kSchema, "the struct array does not have the schema's columns");
  }
  for (size_t i = 0; i < schema.size(); ++i) {
    size_t c = 0;
    while (given.children[c].name != schema[i].name) ++c;
    if (array.children[c] == nullptr) return Status(Code::kSchema, "the struct array lacks a column", -1, static_cast<int>(i));
    const Status status = ColumnView::MakePart(*array.children[c], given.children[c].type, array.offset, array.length, &(*columns)[i]);
    if (!status.ok()) return within(status, i);
  }
  *rows = ColumnView::OfValidity(array);
  return Status::OK();
}

// Whether arrays of the type "given" can be read as they are: of several columns each by its name.
inline bool CanReadAs(const Type& given, const std::vector<Column>& schema, bool is_record) {
  if (!is_record) return CanRead(given, schema[0].type);
  if (given.cell != CellType::kStruct || given.index != CellType::kNull || given.children.size() != schema.size()) return false;
  for (const Column& column : schema) {
    size_t found = 0;
    for (const Column& child : given.children) {
      if (child.name != column.name) continue;
      if (!CanRead(child.type, column.type)) return false;
      ++found;
    }
    if (found != 1) return false;
  }
  return true;
}

// The rows of all "columns", for tools and tests.
template <typename Codec>
std::vector<std::string> EncodeRows(const Codec& codec, const Columns& columns) {
  std::vector<std::string> rows(static_cast<size_t>(columns[0].length()));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].resize(codec.RowBytes(columns, static_cast<int64_t>(i)));
    codec.EncodeRow(columns, static_cast<int64_t>(i), rows[i].data());
  }
  return rows;
}

inline Status ValueTooLong(size_t bytes, int64_t row) {
  return Status(Code::kLimit, "the value takes " + std::to_string(bytes) + " bytes, and a value may take at most " +
                                  std::to_string(kMaxValueBytes) + ": split it over several keys", row);
}

inline Status UnreadableRow(int64_t row) {
  return Status(Code::kCorruption, "Corruption: a stored row does not have the form of its schema: restore the store from a snapshot", row);
}

// --- Nulls where the schema has none.

// Whether some cell of a nested column may hold one.
inline bool MayHoldStrayNull(const ColumnView& column, const Type& type) {
  for (size_t c = 0; c < type.children.size(); ++c) {
    const ColumnView& child = column.children()[c];
    if ((!type.children[c].nullable && child.MayHaveNulls()) || MayHoldStrayNull(child, type.children[c].type)) return true;
  }
  return false;
}

// Whether a cell that is not null itself holds one; "*path" then says where in it.
inline bool HoldsStrayNull(const ColumnView& column, const Type& type, int64_t i, std::string* path) {
  const bool is_struct = type.cell == CellType::kStruct;
  for (size_t c = 0; c < type.children.size(); ++c) {
    const ColumnView& child = column.children()[c];
    const int64_t first = is_struct ? i : column.FirstItem(i), bound = is_struct ? i + 1 : column.ItemBound(i);
    for (int64_t item = first; item < bound; ++item) {
      const bool is_null = child.IsNull(item);
      if (is_null ? type.children[c].nullable : !HoldsStrayNull(child, type.children[c].type, item, path)) continue;
      *path = PathOf(type, c) + *path;
      return true;
    }
  }
  return false;
}

inline Status StrayNull(int64_t row, size_t column, std::string path = {}) {
  return Status(Code::kSchema, "is null, and may not be", row, static_cast<int>(column), std::move(path));
}

// The first null of a column that may have none, if there is one; rows that "absent" says are null are passed over.
inline Status CheckNulls(const Columns& columns, const std::vector<Column>& schema, const ColumnView* absent = nullptr) {
  for (size_t c = 0; c < schema.size(); ++c) {
    const bool check_inside = MayHoldStrayNull(columns[c], schema[c].type);
    if (!check_inside && (schema[c].nullable || !columns[c].MayHaveNulls())) continue;
    std::string path;
    for (int64_t i = 0; i < columns[c].length(); ++i) {
      if (absent != nullptr && absent->IsNull(i)) continue;
      const bool is_null = columns[c].IsNull(i);
      if (is_null && !schema[c].nullable) return StrayNull(i, c);
      if (!is_null && check_inside && HoldsStrayNull(columns[c], schema[c].type, i, &path)) return StrayNull(i, c, path);
    }
  }
  return Status::OK();
}

// --- Bytes.

template <typename T>
inline T ByteSwap(T value) {
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(value)));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(value)));
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(value)));
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "sfkv stores values as this machine does, which must be little-endian");

template <typename T>
inline void StoreAs(char* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

template <typename T>
inline T LoadAs(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Whole numbers as LEB128: seven bits a byte, the lowest first, the highest bit set in all bytes but the last.
inline size_t VarintBytes(size_t value) {
  size_t bytes = 1;
  for (; value >= 128; value >>= 7) ++bytes;
  return bytes;
}
inline char* AppendVarint(char* at, size_t value) {
  for (; value >= 128; value >>= 7) *at++ = static_cast<char>(value | 128);
  *at++ = static_cast<char>(value);
  return at;
}
// Takes a number of up to five bytes off the front. False if there is none.
inline bool TakeVarint(std::string_view* bytes, size_t* value) {
  *value = 0;
  for (size_t i = 0; i < bytes->size() && i < 5; ++i) {
    *value |= static_cast<size_t>((*bytes)[i] & 127) << (7 * i);
    if (((*bytes)[i] & 128) != 0) continue;
    bytes->remove_prefix(i + 1);
    return true;
  }
  return false;
}

}  // namespace sfkv
