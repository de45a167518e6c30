// Types and schemas out of a fuzzer's bytes, as Arrow's schemas have them.
#pragma once

#include "input.h"
#include "sfkv/row_codec.h"

namespace sfkv::fuzz {

// An Arrow schema with its memory. It never moves: the schema points into it.
class TestSchema {
 public:
  explicit TestSchema(std::string format, std::string name = {}, bool nullable = false)
      : format_(std::move(format)), name_(std::move(name)) {
    schema_.format = format_.c_str();
    schema_.name = name_.c_str();
    schema_.flags = nullable ? kArrowNullable : 0;
  }
  TestSchema(const TestSchema&) = delete;
  TestSchema& operator=(const TestSchema&) = delete;

  ArrowSchema* get() { return &schema_; }
  const std::string& format() const { return format_; }
  size_t child_count() const { return children_.size(); }
  TestSchema* child(size_t i) { return children_[i].get(); }
  TestSchema* dictionary() { return dictionary_.get(); }

  TestSchema* AddChild(std::string format, std::string name, bool nullable) {
    children_.push_back(std::make_unique<TestSchema>(std::move(format), std::move(name), nullable));
    pointers_.push_back(children_.back()->get());
    schema_.n_children = static_cast<int64_t>(pointers_.size());
    schema_.children = pointers_.data();
    return children_.back().get();
  }
  void DropChild(size_t i) { pointers_[i] = nullptr; }
  TestSchema* SetDictionary(std::string format) {
    dictionary_ = std::make_unique<TestSchema>(std::move(format));
    schema_.dictionary = dictionary_->get();
    return dictionary_.get();
  }
  void SetFormat(std::string format) {
    format_ = std::move(format);
    schema_.format = format_.c_str();
  }

 private:
  ArrowSchema schema_{};
  std::string format_;
  std::string name_;
  std::vector<std::unique_ptr<TestSchema>> children_;
  std::vector<ArrowSchema*> pointers_;
  std::unique_ptr<TestSchema> dictionary_;
};

// Those that keys may have, the commonest first.
constexpr const char* kKeyFormats[] = {
    "l",   "u",   "i",   "b",   "z",    "g",                 "f",   "s",      "c",       "C",          "S",   "I",    "L",     "e",  "tdD", "tdm",
    "tts", "ttm", "ttu", "ttn", "tsu:", "tsn:Europe/Berlin", "tDm", "d:10,2", "d:38,-3", "d:50,5,256", "w:3", "w:16", "w:300", "U",  "Z",   "vu",
    "vz",
};
constexpr const char* kOtherFormats[] = {"n", "+s", "+l", "+L", "+m", "+w:1", "+w:3", "+w:9"};

// Gives a schema a format, and the children that it takes; of these there are at most "levels" levels.
inline void TakeFormat(Input* input, bool is_key, int levels, TestSchema* schema) {
  const uint8_t chosen = input->Byte();
  if (is_key || levels == 0 || chosen < 176) return schema->SetFormat(kKeyFormats[chosen % std::size(kKeyFormats)]);
  const std::string format = kOtherFormats[chosen % std::size(kOtherFormats)];
  schema->SetFormat(format);
  if (format == "n") return;
  TestSchema* parent = format == "+m" ? schema->AddChild("+s", "entries", false) : schema;
  const size_t count = format == "+m" ? 2 : format == "+s" ? input->Below(4) : 1;
  for (size_t i = 0; i < count; ++i) {
    const bool nullable = (format != "+m" || i == 1) && input->Bool();
    TestSchema* child = parent->AddChild("", format == "+s" ? std::string(1, static_cast<char>('p' + i)) : "item", nullable);
    TakeFormat(input, format == "+m" && i == 0, levels - 1, child);
    if (child->format() == "n") child->get()->flags = kArrowNullable;
  }
}

inline Type TypeOf(TestSchema* schema) {
  Type type;
  FUZZ_EXPECT(ParseType(*schema->get(), &type));
  return type;
}

// Without the null type unless it is nullable: a column of nothing but nulls that may not be null has no cells.
inline Column TakeColumn(Input* input, std::string name, bool may_be_nullable, bool is_key) {
  TestSchema schema("");
  const bool nullable = may_be_nullable && input->Bool();
  TakeFormat(input, is_key, 3, &schema);
  const Type type = TypeOf(&schema);
  return {std::move(name), type, nullable || type.cell == CellType::kNull};
}

struct Schema {
  std::vector<Column> columns;
  bool is_record = true;
};

// One plain column, which cannot be nullable, or a record: mostly of a few columns, sometimes of more null bits than one byte holds.
inline Schema TakeSchema(Input* input, bool is_key = false) {
  const uint8_t chosen = input->Byte();
  if (chosen % 4 == 0) return {{TakeColumn(input, "value", false, is_key)}, false};
  const size_t count = chosen >= 240 ? 7 + input->Below(20) : 1 + (chosen >> 2) % 5;
  Schema schema;
  for (size_t c = 0; c < count; ++c) schema.columns.push_back(TakeColumn(input, "c" + std::to_string(c), true, is_key));
  return schema;
}

inline Schema TakeKeySchema(Input* input) { return TakeSchema(input, true); }

// Another type that arrays may have and be read as "type": text and lists in any layout, text by a dictionary. "indices": how many
// types of integers the dictionary's may have; not those of 8 bits where there may be many cells.
inline Type TakeGivenType(Input* input, Type type, int indices = 8) {
  for (Column& child : type.children) child.type = TakeGivenType(input, child.type, 6);
  if (!type.is_text() && type.cell != CellType::kList) return type;
  const uint8_t chosen = input->Byte();
  if (type.cell == CellType::kList) {
    type.layout = chosen % 2 == 0 ? Layout::kPlain : Layout::kLarge;
    return type;
  }
  type.layout = static_cast<Layout>(chosen % 3);
  static constexpr CellType kIndices[] = {CellType::kInt32,  CellType::kUInt32, CellType::kInt16, CellType::kUInt16,
                                          CellType::kUInt64, CellType::kInt64,  CellType::kInt8,  CellType::kUInt8};
  if (chosen >= 128) type.index = kIndices[chosen / 4 % indices];
  return type;
}

// The type with every text as binary, which has the same rows: for bytes that need not be UTF-8.
inline Type AsBinary(Type type) {
  for (Column& child : type.children) child.type = AsBinary(child.type);
  if (type.cell != CellType::kUtf8) return type;
  type.cell = CellType::kBinary;
  type.meaning = "z";
  return type;
}

inline Schema AsBinary(Schema schema) {
  for (Column& column : schema.columns) column.type = AsBinary(column.type);
  return schema;
}

// The column with nulls allowed everywhere.
inline Column AsNullable(Column column) {
  column.nullable = true;
  for (Column& child : column.type.children) child = AsNullable(child);
  return column;
}

inline std::vector<Column> AsNullable(std::vector<Column> columns) {
  for (Column& column : columns) column = AsNullable(column);
  return columns;
}

}  // namespace sfkv::fuzz
