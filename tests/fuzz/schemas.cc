// Types (type.h, row_codec.h): Arrow schemas that are not what they should be, and pairs of types.
//
//   A schema is accepted just when its formats are those of Arrow that sfkv has, its children are those that they take, it is not too
//   deep, and no cell has to be longer than a value may be; the type then is what its formats say. Layouts make no difference to
//   whether arrays can be read, all else does. Codecs can be made of whatever is accepted.
#include <regex>

#include "arrays.h"
#include "sfkv/key_codec.h"
#include "sfkv/value_codec.h"

namespace sfkv::fuzz {
namespace {

// --- Arrow's formats once more, as they are written down.

constexpr int64_t kMost = 1 << 28;

// A whole number of digits, or one that is too large.
int64_t NumberIn(const std::string& digits) {
  const size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return 0;
  return digits.size() - first > 10 ? int64_t{1} << 62 : std::stoll(digits.substr(first));
}

// What a format says, its children apart; false if it is none that sfkv has.
bool ReadFormat(const std::string& format, Type* type) {
  static const std::pair<const char*, size_t> kWidths[] = {
      {"n", 0}, {"b", 1}, {"c", 1}, {"s", 2}, {"i", 4}, {"l", 8}, {"C", 1}, {"S", 2}, {"I", 4}, {"L", 8}, {"e", 2}, {"f", 4}, {"g", 8},
      {"tdD", 4}, {"tdm", 8}, {"tts", 4}, {"ttm", 4}, {"ttu", 8}, {"ttn", 8}, {"tDs", 8}, {"tDm", 8}, {"tDu", 8}, {"tDn", 8}, {"u", 0},
      {"z", 0}, {"+s", 0}, {"+l", 0}, {"+m", 0}};
  static const std::pair<const char*, CellType> kCells[] = {
      {"n", CellType::kNull}, {"b", CellType::kBool}, {"c", CellType::kInt8}, {"s", CellType::kInt16}, {"i", CellType::kInt32},
      {"l", CellType::kInt64}, {"C", CellType::kUInt8}, {"S", CellType::kUInt16}, {"I", CellType::kUInt32}, {"L", CellType::kUInt64},
      {"e", CellType::kFloat16}, {"f", CellType::kFloat32}, {"g", CellType::kFloat64}, {"u", CellType::kUtf8}, {"z", CellType::kBinary},
      {"+s", CellType::kStruct}, {"+l", CellType::kList}, {"+m", CellType::kList}};
  static const std::regex kZoned("ts[smun]:[^]*"), kWidth("w:([0-9]+)"), kList("\\+w:([0-9]+)");
  static const std::regex kDecimal("d:([0-9]+),(-?)([0-9]+)(,128|,256)?");
  std::smatch match;
  *type = Type();
  type->meaning = format;
  if (format.size() > 300) return false;  // std::regex recurses; no format in a test is so long and one
  if (std::regex_match(format, kZoned)) return true;
  if (std::regex_match(format, match, kWidth)) {
    type->cell = CellType::kFixedBinary;
    type->width = static_cast<size_t>(NumberIn(match[1]));
    return type->width > 0 && type->width <= kMost;
  }
  if (std::regex_match(format, match, kList)) {
    type->cell = CellType::kFixedList;
    type->width = 0;
    type->list_size = NumberIn(match[1]);
    return type->list_size > 0 && type->list_size <= kMost;
  }
  if (std::regex_match(format, match, kDecimal)) {
    const bool wide = match[4] == ",256";
    type->cell = CellType::kDecimal;
    type->width = wide ? 32 : 16;
    if (match[4] == ",128") type->meaning = format.substr(0, format.size() - 4);
    return NumberIn(match[1]) > 0 && NumberIn(match[1]) <= (wide ? 76 : 38) && NumberIn(match[3]) < int64_t{1} << 31;
  }
  if (format == "U" || format == "Z" || format == "+L") {
    type->layout = Layout::kLarge;
    type->meaning = format == "U" ? "u" : format == "Z" ? "z" : "+l";
  }
  if (format == "vu" || format == "vz") {
    type->layout = Layout::kView;
    type->meaning = format.substr(1);
  }
  for (const auto& [name, width] : kWidths) {
    if (type->meaning != name) continue;
    type->width = width;
    type->cell = width == 4 ? CellType::kInt32 : CellType::kInt64;  // dates and times, unless it is told below
    for (const auto& [named, cell] : kCells) {
      if (type->meaning == named) type->cell = cell;
    }
    return true;
  }
  return false;
}

// Bytes that a cell takes at least in an array.
double LeastBytes(const Type& type) {
  double bytes = static_cast<double>(type.width);
  for (const Column& child : type.children) {
    const double times = type.cell == CellType::kFixedList ? static_cast<double>(type.list_size) : 1;
    if (type.cell != CellType::kList) bytes += times * LeastBytes(child.type);
  }
  return std::max(bytes, 1.0);
}

bool ReadSchema(TestSchema* schema, Type* type, int depth) {
  const ArrowSchema& arrow = *schema->get();
  if (arrow.format == nullptr || depth > 17) return false;  // one more than a state's type may have
  if (arrow.dictionary != nullptr) {
    Type index;
    if (!ReadFormat(schema->format(), &index)) return false;
    const bool is_index = index.meaning.size() == 1 && std::strchr("csilCSIL", index.meaning[0]) != nullptr;
    if (!is_index || arrow.dictionary->dictionary != nullptr || !ReadSchema(schema->dictionary(), type, depth)) return false;
    type->index = index.cell;
    return true;
  }
  if (!ReadFormat(schema->format(), type)) return false;
  if (!type->is_nested()) return arrow.n_children == 0;
  if (type->cell == CellType::kStruct ? arrow.n_children < 0 : arrow.n_children != 1) return false;
  if (arrow.n_children > 0 && arrow.children == nullptr) return false;
  for (size_t i = 0; i < static_cast<size_t>(arrow.n_children); ++i) {
    if (arrow.children[i] == nullptr) return false;
    Column column;
    if (!ReadSchema(schema->child(i), &column.type, depth + 1)) return false;
    column.name = arrow.children[i]->name == nullptr ? "" : arrow.children[i]->name;
    column.nullable = (arrow.children[i]->flags & 2) != 0;
    type->children.push_back(column);
  }
  if (type->meaning == "+m") {
    Type& entry = type->children[0].type;
    if (entry.meaning != "+s" || entry.index != CellType::kNull || entry.children.size() != 2) return false;
    entry.children[0].name = "key";  // whatever the producer calls them
    entry.children[1].name = "value";
  }
  return LeastBytes(*type) <= static_cast<double>(kMost);
}

bool IsSame(const Type& one, const Type& other) {
  if (one.cell != other.cell || one.layout != other.layout || one.index != other.index || one.width != other.width) return false;
  if (one.list_size != other.list_size || one.meaning != other.meaning || one.children.size() != other.children.size()) return false;
  for (size_t i = 0; i < one.children.size(); ++i) {
    const Column &a = one.children[i], &b = other.children[i];
    if (a.name != b.name || a.nullable != b.nullable || !IsSame(a.type, b.type)) return false;
  }
  return true;
}

bool MayRead(const Type& given, const Type& wanted) {
  if (given.meaning != wanted.meaning || given.children.size() != wanted.children.size()) return false;
  if (given.index != CellType::kNull && given.meaning != "u" && given.meaning != "z") return false;
  for (size_t i = 0; i < given.children.size(); ++i) {
    if (given.meaning == "+s" && given.children[i].name != wanted.children[i].name) return false;
    if (!MayRead(given.children[i].type, wanted.children[i].type)) return false;
  }
  return true;
}

// --- Schemas out of an input.

std::string TakeAnyFormat(Input* input) {
  static constexpr const char* kOdd[] = {"",       "w:",     "w:0",     "w:268435456", "w:268435457",  "w:2147483647", "w:2147483648",
                                         "w:99999999999999999999", "w:-1",   "w:3x",    "+w:",         "+w:0",         "+w:268435456",
                                         "+w:2147483647", "+w:99999999999999999999", "d:",  "d:5",     "d:5,",         "d:5,2,",
                                         "d:5,2,64", "d:5,2,128", "d:76,2,256", "d:77,2,256", "d:39,2", "d:0,0",       "d:-5,2",
                                         "d:5,-",  "d:5,2x",  "d:5,2,256,", "d:5,256", "d:2147483648,1", "ts",         "tsu",
                                         "tsx:",   "tsu:\xff", "tiM",   "tin",         "+vl",          "+us:0",        "+r",
                                         "+ud:0",  "+",      "v",       "tt",          "td"};
  const uint8_t chosen = input->Byte();
  if (chosen < 120) return kKeyFormats[chosen % std::size(kKeyFormats)];
  if (chosen < 200) return kOtherFormats[chosen % std::size(kOtherFormats)];
  if (chosen < 248) return kOdd[chosen % std::size(kOdd)];
  if (chosen < 252) return "+w:" + std::to_string(input->Number<uint32_t>());
  return input->Bytes(input->Below(12)).c_str();
}

void TakeSchemas(Input* input, int levels, TestSchema* schema) {
  schema->SetFormat(TakeAnyFormat(input));
  if (levels == 0 || input->empty()) return;
  const uint8_t chosen = input->Byte();
  const std::string& format = schema->format();
  size_t count = format == "+s" ? chosen % 4 : format.substr(0, 1) == "+" ? 1 : 0;
  if (chosen >= 250) count = input->Below(4);
  for (size_t i = 0; i < count; ++i) {
    static constexpr const char* kNames[] = {"a", "b", "c", "", "\xff"};
    TakeSchemas(input, levels - 1, schema->AddChild("", kNames[(chosen / 4 + i) % 5], input->Bool()));
  }
  ArrowSchema* arrow = schema->get();
  switch (input->Byte()) {
    case 255: arrow->format = nullptr; break;
    case 254: arrow->name = nullptr; break;
    case 253: arrow->flags = static_cast<int64_t>(input->Number<uint64_t>()); break;
    case 252: arrow->n_children = -1; break;
    case 251: arrow->children = nullptr; break;
    case 250:
      if (arrow->n_children > 0) arrow->n_children -= 1;
      break;
    case 249:
      if (count > 0) schema->DropChild(input->Below(count));
      break;
    case 248:
    case 247:
    case 246: {
      static constexpr const char* kIndices[] = {"c", "s", "i", "l", "C", "S", "I", "L", "n", "f"};
      const std::string values = format;
      TakeSchemas(input, levels - 1, schema->SetDictionary(values));
      schema->SetFormat(kIndices[input->Below(10)]);
      break;
    }
    default: break;
  }
}

// A chain of lists or structs, as deep as types may be or a little deeper.
void TakeChain(Input* input, TestSchema* schema) {
  const size_t links = 10 + input->Below(12);
  const uint8_t kind = input->Byte();
  for (size_t i = 0; i < links; ++i) {
    schema->SetFormat(kind % 2 == 0 ? "+l" : "+s");
    schema = schema->AddChild("", "item", kind % 4 < 2);
  }
  schema->SetFormat(TakeAnyFormat(input));
}

// Dictionaries of dictionaries, of which there are none; without end, as far as the stack is concerned.
void CheckDictionaries(Input* input) {
  std::vector<ArrowSchema> chain(2 + input->Number<uint16_t>() / (input->Bool() ? 1 : 8000));
  for (size_t i = 0; i < chain.size(); ++i) {
    chain[i] = ArrowSchema{"i", nullptr, nullptr, 0, 0, nullptr, i + 1 < chain.size() ? &chain[i + 1] : nullptr, nullptr, nullptr};
  }
  Type type;
  FUZZ_EXPECT(ParseType(chain[0], &type) == (chain.size() == 2));
}

// Whether the schema is accepted, as it must be or not; then "*type" is what it says.
bool Check(TestSchema* schema, Type* type) {
  Type expected;
  const bool accepted = ParseType(*schema->get(), type);
  FUZZ_EXPECT(accepted == ReadSchema(schema, &expected, 1));
  if (!accepted) return false;
  FUZZ_EXPECT(IsSame(*type, expected));
  FUZZ_EXPECT(type->width <= kMaxValueBytes && type->list_size >= 0 && type->list_size <= kMost);
  FUZZ_EXPECT(type->is_variable() == (type->width == 0 && type->cell != CellType::kNull));
  const ValueCodec plain({{"value", *type, false}}, false), record({{"a", *type, true}, {"b", *type, false}}, true);
  FUZZ_EXPECT(plain.record().head_bytes() == type->width);
  const size_t ends = type->is_variable() ? 4 : 0;
  FUZZ_EXPECT(record.record().head_bytes() == 2 + 2 * type->width + ends);
  return true;
}

void CheckPair(Input* input, const Type& one, const Type& other) {
  FUZZ_EXPECT(CanRead(one, other) == MayRead(one, other) && CanRead(other, one) == MayRead(other, one));
  FUZZ_EXPECT(CanReadAs(one, {{"value", other, false}}, false) == MayRead(one, other));
  const Type varied = TakeGivenType(input, WithoutIndex(one));
  FUZZ_EXPECT(CanRead(varied, WithoutIndex(one)) == MayRead(varied, WithoutIndex(one)));

  // Records, whose names may be the same.
  std::vector<Column> columns, children;
  for (size_t c = 0, count = 1 + input->Below(3); c < count; ++c) {
    const uint8_t chosen = input->Byte();
    columns.push_back({std::string(1, "abc"[chosen % 3]), (chosen & 4) != 0 ? one : other, false});
    children.push_back({std::string(1, "abc"[chosen / 8 % 3]), (chosen & 128) != 0 ? one : other, false});
  }
  if (input->Below(4) == 3) children = columns;
  std::rotate(children.begin(), children.begin() + static_cast<ptrdiff_t>(input->Below(children.size())), children.end());
  if (input->Below(8) == 7) children.pop_back();
  bool expected = children.size() == columns.size();
  for (const Column& column : columns) {
    int same = 0;
    for (const Column& child : children) {
      if (child.name != column.name) continue;
      ++same;
      expected = expected && MayRead(child.type, column.type);
    }
    expected = expected && same == 1;
  }
  FUZZ_EXPECT(CanReadAs(RecordType(children), columns, true) == expected);
  FUZZ_EXPECT(!CanReadAs(one, columns, true) || one.meaning == "+s");
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  TestSchema schema(""), other_schema("");
  sfkv::Type type, other;
  const size_t mode = input.Below(8);
  if (mode == 6) {
    CheckDictionaries(&input);
    return 0;
  }
  if (mode == 7) {
    TakeChain(&input, &schema);
    Check(&schema, &type);
    return 0;
  }
  TakeSchemas(&input, 18, &schema);
  if (!Check(&schema, &type)) return 0;
  other = type;
  TakeSchemas(&input, 18, &other_schema);
  if (mode % 2 == 0 && !Check(&other_schema, &other)) return 0;
  CheckPair(&input, type, other);
  return 0;
}
