// Keys as bytes that sort as the keys do:  encoded key = [key group u16 BE][table u8][key row][suffix].
//
// A key row is the columns one after the other. Integers are big-endian with the sign bit flipped, floats likewise with all
// bits of negative ones flipped, text and binary escaped and terminated, so that no key row is a prefix of another. A
// nullable column has a byte before it: 0 for null, which sorts first, else 1. FORMAT.md section 3 has the grammar.
// Not thread-safe; no state but the schema.
#pragma once

#include <optional>

#include "sfkv/buffer.h"
#include "sfkv/key_group.h"
#include "sfkv/column_builder.h"
#include "sfkv/row_codec.h"

namespace sfkv {

constexpr size_t kKeyHeaderBytes = 3;

inline void EncodeKeyHeader(char* at, int key_group, uint8_t table) {
  at[0] = static_cast<char>(key_group >> 8);
  at[1] = static_cast<char>(key_group);
  at[2] = static_cast<char>(table);
}
// Of an encoded key, or of what begins with its header.
inline int GroupOf(std::string_view key) { return (static_cast<uint8_t>(key[0]) << 8) | static_cast<uint8_t>(key[1]); }
inline uint8_t TableOf(std::string_view key) { return static_cast<uint8_t>(key[2]); }

// --- One cell, in order-preserving form.

// Gives a float's bits an order that is its numbers': -0.0 is 0.0, and all NaNs are one, which sorts last.
template <typename Bits>
inline Bits OrderedBits(Bits bits, Bits infinity) {
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  const Bits magnitude = static_cast<Bits>(bits & static_cast<Bits>(~sign));
  if (magnitude > infinity) return static_cast<Bits>(~Bits{0});
  if (magnitude == 0) return sign;
  return (bits & sign) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | sign);
}

// The bits that a float had: of NaN, the quiet one without sign.
template <typename Bits>
inline Bits FromOrderedBits(Bits bits, Bits infinity) {
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  if (bits == static_cast<Bits>(~Bits{0})) return static_cast<Bits>(infinity | (infinity >> 1));
  return (bits & sign) != 0 ? static_cast<Bits>(bits ^ sign) : static_cast<Bits>(~bits);
}

constexpr uint16_t kInfinity16 = 0x7C00;
constexpr uint32_t kInfinity32 = 0x7F800000;
constexpr uint64_t kInfinity64 = 0x7FF0000000000000;

// Writes a number's bits, most significant byte first.
template <typename Bits>
inline void StoreBig(char* at, Bits bits) {
  StoreAs(at, ByteSwap(bits));
}
template <typename Bits>
inline Bits LoadBig(const char* at) {
  return ByteSwap(LoadAs<Bits>(at));
}
template <typename Bits>
constexpr Bits SignOf() {
  return static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
}

inline void ReverseBytes(const char* from, size_t width, char* at) {
  for (size_t i = 0; i < width; ++i) at[i] = from[width - 1 - i];
}

// Bytes of "text" once it is escaped and terminated.
inline size_t OrderedBytes(std::string_view text) {
  size_t zeros = 0;
  for (char c : text) zeros += c == 0;
  return text.size() + zeros + 2;
}

// Escapes 0x00 to 0x00 0xFF and ends with 0x00 0x00. REQUIRES: OrderedBytes(text) bytes at "at", which it returns the end of.
inline char* EncodeOrdered(char* at, std::string_view text) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  while (begin < end) {
    const auto* zero = static_cast<const char*>(std::memchr(begin, 0, static_cast<size_t>(end - begin)));
    const char* stop = zero == nullptr ? end : zero + 1;
    std::memcpy(at, begin, static_cast<size_t>(stop - begin));
    at += stop - begin;
    if (zero != nullptr) *at++ = static_cast<char>(0xFF);
    begin = stop;
  }
  at[0] = at[1] = 0;
  return at + 2;
}

// Writes the ordered form of a cell with a width, given in this machine's form.
inline void EncodeOrderedCell(const Type& type, const char* cell, char* at) {
  switch (type.cell) {
    case CellType::kBool: *at = *cell != 0 ? 1 : 0; break;
    case CellType::kInt8: *at = static_cast<char>(*cell ^ 0x80); break;
    case CellType::kInt16: StoreBig(at, static_cast<uint16_t>(LoadAs<uint16_t>(cell) ^ SignOf<uint16_t>())); break;
    case CellType::kInt32: StoreBig(at, LoadAs<uint32_t>(cell) ^ SignOf<uint32_t>()); break;
    case CellType::kInt64: StoreBig(at, LoadAs<uint64_t>(cell) ^ SignOf<uint64_t>()); break;
    case CellType::kUInt8: *at = *cell; break;
    case CellType::kUInt16: StoreBig(at, LoadAs<uint16_t>(cell)); break;
    case CellType::kUInt32: StoreBig(at, LoadAs<uint32_t>(cell)); break;
    case CellType::kUInt64: StoreBig(at, LoadAs<uint64_t>(cell)); break;
    case CellType::kFloat16: StoreBig(at, OrderedBits(LoadAs<uint16_t>(cell), kInfinity16)); break;
    case CellType::kFloat32: StoreBig(at, OrderedBits(LoadAs<uint32_t>(cell), kInfinity32)); break;
    case CellType::kFloat64: StoreBig(at, OrderedBits(LoadAs<uint64_t>(cell), kInfinity64)); break;
    case CellType::kDecimal:
      ReverseBytes(cell, type.width, at);
      *at = static_cast<char>(*at ^ 0x80);
      break;
    default: std::memcpy(at, cell, type.width); break;  // fixed-size binary
  }
}

// Turns the ordered form of a cell with a width into this machine's form.
inline void DecodeOrdered(const Type& type, const char* from, char* cell) {
  switch (type.cell) {
    case CellType::kInt8: *cell = static_cast<char>(*from ^ 0x80); break;
    case CellType::kInt16: StoreAs(cell, static_cast<uint16_t>(LoadBig<uint16_t>(from) ^ SignOf<uint16_t>())); break;
    case CellType::kInt32: StoreAs(cell, LoadBig<uint32_t>(from) ^ SignOf<uint32_t>()); break;
    case CellType::kInt64: StoreAs(cell, LoadBig<uint64_t>(from) ^ SignOf<uint64_t>()); break;
    case CellType::kUInt16: StoreAs(cell, LoadBig<uint16_t>(from)); break;
    case CellType::kUInt32: StoreAs(cell, LoadBig<uint32_t>(from)); break;
    case CellType::kUInt64: StoreAs(cell, LoadBig<uint64_t>(from)); break;
    case CellType::kFloat16: StoreAs(cell, FromOrderedBits(LoadBig<uint16_t>(from), kInfinity16)); break;
    case CellType::kFloat32: StoreAs(cell, FromOrderedBits(LoadBig<uint32_t>(from), kInfinity32)); break;
    case CellType::kFloat64: StoreAs(cell, FromOrderedBits(LoadBig<uint64_t>(from), kInfinity64)); break;
    case CellType::kDecimal:
      ReverseBytes(from, type.width, cell);
      cell[type.width - 1] = static_cast<char>(cell[type.width - 1] ^ 0x80);
      break;
    default: std::memcpy(cell, from, type.width); break;  // bool, uint8, fixed-size binary
  }
}

// Undoes EncodeOrdered for text at "*at", before "end"; advances "*at" past it. False if it is malformed.
inline bool ParseOrdered(const char** at, const char* end, std::string* text) {
  text->clear();
  while (true) {
    const auto* zero = static_cast<const char*>(std::memchr(*at, 0, static_cast<size_t>(end - *at)));
    if (zero == nullptr || zero + 1 == end) return false;
    text->append(*at, static_cast<size_t>(zero - *at));
    *at = zero + 2;
    if (zero[1] == 0) return true;
    if (static_cast<uint8_t>(zero[1]) != 0xFF) return false;
    text->push_back('\0');
  }
}

// Whether the ordered form of a cell with a width is one that EncodeOrderedCell writes: keys that are equal must have equal bytes.
inline bool IsOrdered(const Type& type, const char* from) {
  if (type.cell == CellType::kBool) return static_cast<uint8_t>(*from) <= 1;
  if (type.cell < CellType::kFloat16 || type.cell > CellType::kFloat64) return true;
  char cell[8], again[8];
  DecodeOrdered(type, from, cell);
  EncodeOrderedCell(type, cell, again);
  return std::memcmp(from, again, type.width) == 0;
}

// Where the escaped text at the beginning of "bytes" ends, its terminator included; npos if it does not, or is malformed.
inline size_t FindOrderedEnd(std::string_view bytes) {
  size_t at = 0;
  while ((at = bytes.find('\0', at)) != std::string_view::npos) {
    if (at + 1 == bytes.size()) break;
    if (bytes[at + 1] == '\0') return at + 2;
    if (static_cast<uint8_t>(bytes[at + 1]) != 0xFF) break;
    at += 2;
  }
  return std::string_view::npos;
}

// --- Whole keys.

class KeyCodec {
 public:
  KeyCodec() = default;
  // "group_columns" are those that are hashed, in this order; none for all. REQUIRES: "hash" is kJava only where this is one
  // column of int32, int64 or utf8 that may not be null.
  KeyCodec(std::vector<Column> columns, bool is_record, HashKind hash, std::vector<size_t> group_columns = {})
      : columns_(std::move(columns)), is_record_(is_record), hash_kind_(hash), group_columns_(std::move(group_columns)) {
    for (const Column& column : columns_) {
      is_fixed_ &= !column.type.is_variable() && !column.nullable;
      fixed_bytes_ += column.type.width;
    }
  }

  const std::vector<Column>& columns() const { return columns_; }
  bool is_record() const { return is_record_; }
  HashKind hash_kind() const { return hash_kind_; }
  // All key rows have one length, which is then fixed_bytes().
  bool is_fixed() const { return is_fixed_; }
  size_t fixed_bytes() const { return fixed_bytes_; }

  bool is_java_int64() const { return hash_kind_ == HashKind::kJava && columns_.size() == 1 && columns_[0].type.cell == CellType::kInt64; }

  // The 32-bit hash of row "i", whose key row is "bytes" long at "row".
  int32_t Hash(const Columns& columns, int64_t i, const char* row, size_t bytes) const {
    if (hash_kind_ == HashKind::kMurmur) return HashRow({row, bytes});
    const size_t hashed = has_group() ? group_columns_[0] : 0;
    switch (columns_[hashed].type.cell) {
      case CellType::kInt32: return JavaHash(columns[hashed].Value<int32_t>(i));
      case CellType::kInt64: return JavaHash(columns[hashed].Value<int64_t>(i));
      default: {
        const std::string_view text = columns[hashed].Bytes(i);
        return JavaHash(text.data(), text.size());
      }
    }
  }

  // Bytes of row "i" as a key row.
  size_t RowBytes(const Columns& columns, int64_t i) const {
    if (is_fixed_) return fixed_bytes_;
    size_t bytes = 0;
    for (size_t c = 0; c < columns_.size(); ++c) {
      bytes += columns_[c].nullable;
      if (columns[c].IsNull(i)) continue;
      const Type& type = columns_[c].type;
      bytes += type.is_variable() ? OrderedBytes(columns[c].Bytes(i)) : type.width;
    }
    return bytes;
  }

  // Writes row "i" as a key row. REQUIRES: RowBytes(columns, i) bytes at "at", and no null where the schema has none.
  void EncodeRow(const Columns& columns, int64_t i, char* at) const {
    for (size_t c = 0; c < columns_.size(); ++c) {
      const ColumnView& column = columns[c];
      if (columns_[c].nullable) {
        const bool present = !column.IsNull(i);
        *at++ = present ? 1 : 0;
        if (!present) continue;
      }
      const Type& type = columns_[c].type;
      if (type.is_variable()) {
        at = EncodeOrdered(at, column.Bytes(i));
        continue;
      }
      if (type.cell == CellType::kBool) {
        *at = column.Bool(i) ? 1 : 0;
      } else {
        EncodeOrderedCell(type, column.Fixed(i, type.width), at);
      }
      at += type.width;
    }
  }

  // Reads the key row at the beginning of "bytes" into row "i" of "builders", one per column. Returns what follows it; nothing at
  // all if the bytes begin with no key row of this schema.
  std::optional<std::string_view> ParseFront(std::string_view bytes, int64_t i, Builders* builders) const {
    std::string text;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::optional<std::string_view> ordered = TakeCell(c, &bytes);
      if (!ordered) return std::nullopt;
      if (ordered->data() == nullptr || !(*builders)[c].is_wanted()) continue;
      if (!columns_[c].type.is_variable()) {
        text.resize(columns_[c].type.width);
        DecodeOrdered(columns_[c].type, ordered->data(), text.data());
        (*builders)[c].SetFixed(i, text.data());
      } else {
        const char* at = ordered->data();
        if (!ParseOrdered(&at, at + ordered->size(), &text)) return std::nullopt;
        (*builders)[c].SetBytes(i, text);
      }
    }
    return bytes;
  }

  // Reads key rows that lie one after the other into the first rows of "builders", column by column. False if one is none of this
  // schema. REQUIRES: is_fixed().
  bool ParseFixedRows(std::string_view rows, Builders* builders) const {
    if (rows.size() % fixed_bytes_ != 0) return false;
    const char* cells = rows.data();
    for (size_t c = 0; c < columns_.size(); ++c) {
      ColumnBuilder* builder = &(*builders)[c];
      if (builder->is_wanted() && !ParseFixedColumn(columns_[c].type, cells, rows.size() / fixed_bytes_, builder)) return false;
      cells += columns_[c].type.width;
    }
    return true;
  }

  // Reads a whole key row into row 0. False if the bytes are none.
  bool Parse(std::string_view row, Builders* builders) const {
    const auto rest = ParseFront(row, 0, builders);
    return rest && rest->empty();
  }

  // Whether some columns only, or in another order, make the key group.
  bool has_group() const { return !group_columns_.empty(); }

  // The hash of a key row, or of the beginning of one. REQUIRES: it is one of this schema, and has all columns that are hashed.
  int32_t HashRow(std::string_view row) const {
    if (hash_kind_ == HashKind::kJava) return JavaHashOfCell(has_group() ? group_columns_[0] : 0, row);
    if (!has_group()) return MurmurHash(row.data(), row.size());
    ByteBuffer cells;
    for (size_t column : group_columns_) {
      const std::string_view cell = CellOf(row, column);
      cells.Append(cell.data(), cell.size());
    }
    return MurmurHash(cells.data(), cells.size());
  }

  // How many bytes the key row at the beginning of "bytes" takes; nothing if there is none of this schema.
  std::optional<size_t> FrontBytes(std::string_view bytes) const {
    std::string_view rest = bytes;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (!TakeCell(c, &rest)) return std::nullopt;
    }
    return bytes.size() - rest.size();
  }

 private:
  // The bytes of a column in a key row, with those that tell whether it is null.
  std::string_view CellOf(std::string_view row, size_t column) const {
    for (size_t c = 0; c < column; ++c) TakeCell(c, &row);
    std::string_view rest = row;
    TakeCell(column, &rest);
    return row.substr(0, row.size() - rest.size());
  }

  int32_t JavaHashOfCell(size_t column, std::string_view row) const {
    const std::string_view ordered = CellOf(row, column);
    char cell[8] = {};
    if (columns_[column].type.cell == CellType::kUtf8) {
      std::string text;
      const char* at = ordered.data();
      ParseOrdered(&at, at + ordered.size(), &text);
      return JavaHash(text.data(), text.size());
    }
    DecodeOrdered(columns_[column].type, ordered.data(), cell);
    return columns_[column].type.cell == CellType::kInt32 ? JavaHash(LoadAs<int32_t>(cell)) : JavaHash(LoadAs<int64_t>(cell));
  }

  bool ParseFixedColumn(const Type& type, const char* at, size_t count, ColumnBuilder* builder) const {
    switch (type.cell) {
      case CellType::kInt64: return ParseNumbers<uint64_t>(at, count, SignOf<uint64_t>(), builder);
      case CellType::kUInt64: return ParseNumbers<uint64_t>(at, count, 0, builder);
      case CellType::kInt32: return ParseNumbers<uint32_t>(at, count, SignOf<uint32_t>(), builder);
      case CellType::kUInt32: return ParseNumbers<uint32_t>(at, count, 0, builder);
      default: break;
    }
    std::string cell(type.width, '\0');
    for (size_t i = 0; i < count; ++i, at += fixed_bytes_) {
      if (!IsOrdered(type, at)) return false;
      DecodeOrdered(type, at, cell.data());
      builder->SetFixed(static_cast<int64_t>(i), cell.data());
    }
    return true;
  }

  template <typename Bits>
  bool ParseNumbers(const char* at, size_t count, Bits sign, ColumnBuilder* builder) const {
    char* cells = builder->cells();
    for (size_t i = 0; i < count; ++i, at += fixed_bytes_) StoreAs(cells + i * sizeof(Bits), static_cast<Bits>(LoadBig<Bits>(at) ^ sign));
    return true;
  }

  // Takes the next column's ordered cell off the front of "bytes": null data for a null, nothing if the bytes are malformed.
  std::optional<std::string_view> TakeCell(size_t column, std::string_view* bytes) const {
    if (columns_[column].nullable) {
      if (bytes->empty() || static_cast<uint8_t>((*bytes)[0]) > 1) return std::nullopt;
      const bool present = (*bytes)[0] == 1;
      bytes->remove_prefix(1);
      if (!present) return std::string_view();
    }
    size_t taken = columns_[column].type.width;
    if (columns_[column].type.is_variable()) {
      const size_t end = FindOrderedEnd(*bytes);
      if (end == std::string_view::npos) return std::nullopt;
      taken = end;
    }
    if (bytes->size() < taken) return std::nullopt;
    const std::string_view cell = bytes->substr(0, taken);
    if (!columns_[column].type.is_variable() && !IsOrdered(columns_[column].type, cell.data())) return std::nullopt;
    bytes->remove_prefix(taken);
    return cell;
  }

  std::vector<Column> columns_;
  bool is_record_ = false;
  bool is_fixed_ = true;
  size_t fixed_bytes_ = 0;
  HashKind hash_kind_ = HashKind::kMurmur;
  std::vector<size_t> group_columns_;
};

}  // namespace sfkv
