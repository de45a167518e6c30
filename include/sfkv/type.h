// Types: what a column's cells are, how they lie in a row, and how Arrow lays them out. Read from Arrow's schemas.
//
// Two types are the same for a store if their cells have the same bytes and the same meaning: text is text whether Arrow has it
// with 32-bit offsets, with 64-bit ones, as views or by a dictionary. Such arrays are read as they are; what differs otherwise has
// to be converted first. FORMAT.md sections 3 and 4 say what the types become in rows.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "sfkv/arrow.h"
#include "sfkv/status.h"

namespace sfkv {

// A type may hold types, which may hold types, ... so deep, itself counted. States' are one less: a list state's lists hold them.
constexpr int kMaxTypeDepth = 17;
// A value is at most so long, and no type is accepted that has no shorter ones.
constexpr size_t kMaxValueBytes = size_t{256} << 20;

// How a cell's bytes are to be understood. Several Arrow types share one: a timestamp is an int64, a date32 an int32.
enum class CellType : uint8_t {
  kNull,
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kDecimal,      // of 16 or 32 bytes
  kFixedBinary,
  kUtf8,         // from here on cells have their own lengths
  kBinary,
  kStruct,       // from here on they hold other cells
  kList,         // maps too: lists of structs of a key and a value
  kFixedList,
};

// How Arrow lays out text, binary and lists: with offsets of 32 or 64 bits, or as views.
enum class Layout : uint8_t { kPlain, kLarge, kView };

struct Column;

struct Type {
  CellType cell = CellType::kInt64;
  Layout layout = Layout::kPlain;
  CellType index = CellType::kNull;  // the integers that stand for cells in an array with a dictionary; kNull for none
  size_t width = 8;                  // bytes of a cell in a row; 0 where each has its own length, and for kNull
  int64_t list_size = 0;             // of fixed-size lists
  std::string meaning = "l";         // Arrow's format without the layout: what types of one cell type may still differ in
  std::vector<Column> children;      // fields of a struct; the one item of a list

  bool is_variable() const { return cell >= CellType::kUtf8; }
  bool is_nested() const { return cell >= CellType::kStruct; }
  bool is_text() const { return cell == CellType::kUtf8 || cell == CellType::kBinary; }
};

struct Column {
  std::string name;
  Type type;
  bool nullable = false;
};

namespace internal {

struct FormatOfType {
  const char* format;
  CellType cell;
  size_t width;
};

constexpr FormatOfType kFormats[] = {
    {"n", CellType::kNull, 0},     {"b", CellType::kBool, 1},     {"c", CellType::kInt8, 1},     {"C", CellType::kUInt8, 1},
    {"s", CellType::kInt16, 2},    {"S", CellType::kUInt16, 2},   {"i", CellType::kInt32, 4},    {"I", CellType::kUInt32, 4},
    {"l", CellType::kInt64, 8},    {"L", CellType::kUInt64, 8},   {"e", CellType::kFloat16, 2},  {"f", CellType::kFloat32, 4},
    {"g", CellType::kFloat64, 8},  {"tdD", CellType::kInt32, 4},  {"tdm", CellType::kInt64, 8},  {"tts", CellType::kInt32, 4},
    {"ttm", CellType::kInt32, 4},  {"ttu", CellType::kInt64, 8},  {"ttn", CellType::kInt64, 8},  {"tDs", CellType::kInt64, 8},
    {"tDm", CellType::kInt64, 8},  {"tDu", CellType::kInt64, 8},  {"tDn", CellType::kInt64, 8},  {"u", CellType::kUtf8, 0},
    {"z", CellType::kBinary, 0},   {"+s", CellType::kStruct, 0},  {"+l", CellType::kList, 0},    {"+m", CellType::kList, 0},
};

struct LayoutOfFormat {
  const char* format;
  const char* plain;
  Layout layout;
};

constexpr LayoutOfFormat kLayouts[] = {
    {"U", "u", Layout::kLarge}, {"Z", "z", Layout::kLarge}, {"+L", "+l", Layout::kLarge}, {"vu", "u", Layout::kView}, {"vz", "z", Layout::kView},
};

// A whole number at the beginning of "text", without sign; -1 for none, or one that is too large.
inline int64_t TakeNumber(std::string_view* text) {
  int64_t number = -1;
  while (!text->empty() && text->front() >= '0' && text->front() <= '9' && number < (int64_t{1} << 31)) {
    number = (number < 0 ? 0 : number) * 10 + (text->front() - '0');
    text->remove_prefix(1);
  }
  return number < (int64_t{1} << 31) ? number : -1;
}

// The types whose format has numbers in it.
inline bool ParseSizedFormat(std::string_view format, Type* type) {
  const std::string_view head = format.substr(0, format[0] == '+' ? 3 : 2);
  format.remove_prefix(head.size());
  const int64_t number = TakeNumber(&format);
  if (number < 0) return false;
  if (head == "w:") {
    type->cell = CellType::kFixedBinary;
    type->width = static_cast<size_t>(number);
    return number > 0 && format.empty();
  }
  if (head == "+w:") {
    type->cell = CellType::kFixedList;
    type->width = 0;
    type->list_size = number;
    return number > 0 && format.empty();
  }
  if (head != "d:") return false;
  type->cell = CellType::kDecimal;
  type->width = 16;
  // precision,scale[,bits]; the scale may be negative
  if (format.substr(0, 1) != ",") return false;
  format.remove_prefix(format.substr(1, 1) == "-" ? 2 : 1);
  if (TakeNumber(&format) < 0) return false;
  if (format == ",256") {
    type->width = 32;
  } else if (format == ",128") {
    type->meaning.resize(type->meaning.size() - 4);  // may be left out
  } else if (!format.empty()) {
    return false;
  }
  return number > 0 && number <= (type->width == 32 ? 76 : 38);
}

// Bytes that a cell takes in Arrow's memory even if it is null; at least one.
inline size_t SlotBytes(const Type& type) {
  size_t bytes = type.width;
  if (type.cell == CellType::kStruct) {
    for (const Column& field : type.children) bytes += SlotBytes(field.type);
  } else if (type.cell == CellType::kFixedList) {
    bytes = static_cast<size_t>(type.list_size) * SlotBytes(type.children[0].type);
  }
  return bytes == 0 ? 1 : bytes;
}

inline bool ParseFormat(std::string_view format, Type* type) {
  type->meaning = std::string(format);
  for (const LayoutOfFormat& known : kLayouts) {
    if (format != known.format) continue;
    type->layout = known.layout;
    type->meaning = known.plain;
  }
  for (const FormatOfType& known : kFormats) {
    if (type->meaning != known.format) continue;
    type->cell = known.cell;
    type->width = known.width;
    return true;
  }
  if (format.substr(0, 2) == "ts") {
    type->cell = CellType::kInt64;
    type->width = 8;
    return format.size() >= 4 && std::strchr("smun", format[2]) != nullptr && format[3] == ':';
  }
  return format.size() > 2 && ParseSizedFormat(format, type);
}

// Producers of Arrow's maps call what is in their entries as they like.
inline void NameEntries(Type* entries) {
  entries->children[0].name = "key";
  entries->children[1].name = "value";
}

}  // namespace internal

// The type that an Arrow schema describes. False if sfkv does not have it.
inline bool ParseType(const ArrowSchema& schema, Type* type, int depth = 1) {
  if (schema.format == nullptr || depth > kMaxTypeDepth) return false;
  *type = Type();
  if (schema.dictionary != nullptr) {
    Type index;
    if (!internal::ParseFormat(schema.format, &index) || index.cell < CellType::kInt8 || index.cell > CellType::kUInt64) return false;
    if (schema.dictionary->dictionary != nullptr) return false;
    if (!ParseType(*schema.dictionary, type, depth)) return false;
    type->index = index.cell;
    return true;
  }
  if (!internal::ParseFormat(schema.format, type)) return false;
  if (!type->is_nested()) return schema.n_children == 0 && type->width <= kMaxValueBytes;
  if (type->cell == CellType::kStruct ? schema.n_children < 0 : schema.n_children != 1) return false;
  if (schema.n_children != 0 && schema.children == nullptr) return false;
  type->children.resize(static_cast<size_t>(schema.n_children));
  for (size_t i = 0; i < type->children.size(); ++i) {
    if (schema.children[i] == nullptr) return false;
    const ArrowSchema& child = *schema.children[i];
    Column& column = type->children[i];
    if (!ParseType(child, &column.type, depth + 1)) return false;
    column.name = child.name == nullptr ? "" : child.name;
    column.nullable = (child.flags & kArrowNullable) != 0;
  }
  if (type->meaning == "+m") {
    const Type& entry = type->children[0].type;
    if (entry.cell != CellType::kStruct || entry.index != CellType::kNull || entry.children.size() != 2) return false;
    internal::NameEntries(&type->children[0].type);
  }
  return internal::SlotBytes(*type) <= kMaxValueBytes;
}

// How errors name a child of a type: ".field" or ".item"; not at all for a map's entries, of which ".key" and ".value" tell enough.
inline std::string PathOf(const Type& type, size_t child) {
  return type.meaning == "+m" ? std::string() : "." + type.children[child].name;
}

// Whether arrays of "given" can be read as columns of "wanted" as they are. Nulls are looked for in the arrays.
inline bool CanRead(const Type& given, const Type& wanted) {
  if (given.cell != wanted.cell || given.meaning != wanted.meaning || given.children.size() != wanted.children.size()) return false;
  if (given.index != CellType::kNull && !given.is_text()) return false;
  for (size_t i = 0; i < given.children.size(); ++i) {
    const bool same_name = given.cell != CellType::kStruct || given.children[i].name == wanted.children[i].name;
    if (!same_name || !CanRead(given.children[i].type, wanted.children[i].type)) return false;
  }
  return true;
}

}  // namespace sfkv
