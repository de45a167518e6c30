// What a row is made of: the columns of a key or of a value, the sizes that both may have, and the byte orders.
// key_codec.h makes ordered key rows of them and value_codec.h compact value rows; FORMAT.md sections 3 and 4.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sfkv/column.h"

namespace sfkv {

// Limits that FORMAT.md states; beyond them a write is refused.
constexpr size_t kMaxKeyRowBytes = 65535;
constexpr size_t kMaxValueBytes = size_t{256} << 20;
constexpr size_t kMaxColumns = 1024;

struct Column {
  CellType type = CellType::kInt64;
  bool nullable = false;
};

using Columns = std::vector<ColumnView>;

// Reads the columns of "array": the array itself if the schema is one plain column, else the children of a struct array.
// "*rows" tells which rows are null as a whole.
inline Status ReadArrow(const ArrowArray& array, const std::vector<Column>& schema, bool is_record, Columns* columns, ColumnView* rows) {
  columns->assign(schema.size(), ColumnView());
  if (!is_record) {
    SFKV_RETURN_IF_ERROR(ColumnView::Make(array, schema[0].type, columns->data()));
    *rows = (*columns)[0];
    return Status::OK();
  }
  if (array.n_children != static_cast<int64_t>(schema.size()) || array.n_buffers != 1 || array.offset < 0 || array.length < 0) {
    return Status(Code::kSchema, "the struct array does not have the schema's columns");
  }
  for (size_t i = 0; i < schema.size(); ++i) {
    SFKV_RETURN_IF_ERROR(ColumnView::MakeChild(*array.children[i], schema[i].type, array.offset, array.length, &(*columns)[i]));
  }
  *rows = ColumnView::OfValidity(array);
  return Status::OK();
}

inline std::vector<ColumnBuilder> MakeBuilders(const std::vector<Column>& schema, int64_t length) {
  std::vector<ColumnBuilder> builders;
  builders.reserve(schema.size());
  for (const Column& column : schema) builders.emplace_back(column.type, length);
  return builders;
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

// The first null of a column that may have none, if there is one.
inline Status CheckNulls(const Columns& columns, const std::vector<Column>& schema) {
  for (size_t c = 0; c < schema.size(); ++c) {
    const int64_t row = schema[c].nullable ? -1 : FirstNull(columns[c]);
    if (row >= 0) return Status(Code::kSchema, "is null, and the column may not be", row, static_cast<int>(c));
  }
  return Status::OK();
}

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

}  // namespace sfkv
