// Key rows (key_codec.h): any bytes, as any schema reads them, and pairs of keys.
//
//   Keys have one form: what is parsed, written again, is the same bytes, and FORMAT.md's. Nothing that is parsed depends on what
//   follows it, and what follows is handed back. A row that is cut short is refused.
//   What is written is FORMAT.md's bytes, and is parsed back as what it was, with -0.0 as 0.0 and every NaN as one.
//   Rows sort as their values do; different rows are no prefix of each other, and equal ones are equal keys.
#include "arrays.h"
#include "model.h"
#include "sfkv/finish.h"
#include "sfkv/key_codec.h"

namespace sfkv::fuzz {
namespace {

std::string WriteRow(const KeyCodec& codec, const Schema& schema, const Row& row, Input* input = nullptr) {
  return EncodeExactly(codec, TestColumns({row}, schema, input).get())[0];
}

// Parses a row off the front of "bytes". False if there is none, else "*rest" is what follows it.
bool ReadFront(const KeyCodec& codec, std::string_view bytes, Row* row, std::string_view* rest) {
  Builders builders = MakeBuilders(codec.columns(), 1);
  const auto left = codec.ParseFront(bytes, 0, &builders);
  OwnedArray array;
  FUZZ_EXPECT(FinishRecord(&builders, 1, nullptr, array.get()).ok());  // also of a row that is half read
  if (!left) return false;
  FUZZ_EXPECT(left->data() + left->size() == bytes.data() + bytes.size());
  *rest = *left;
  *row = RowsOf(*array.get(), codec.columns(), true)[0];
  return true;
}

// One text, as the single calls parse it.
void ReadText(std::string_view bytes) {
  const char* at = bytes.data();
  const char* end = at + bytes.size();
  std::string text;
  const size_t taken = FindOrderedEnd(bytes);
  const bool is_text = ParseOrdered(&at, end, &text);
  FUZZ_EXPECT(at >= bytes.data() && at <= end);
  FUZZ_EXPECT(is_text == (taken != std::string_view::npos));
  if (!is_text) return;
  FUZZ_EXPECT(static_cast<size_t>(at - bytes.data()) == taken);
  FUZZ_EXPECT(OrderedBytes(text) == taken);
  std::string again(taken, '\0');
  FUZZ_EXPECT(EncodeOrdered(again.data(), text) == again.data() + taken);
  FUZZ_EXPECT(again == bytes.substr(0, taken));
}

void ReadAnything(Input* input, const Schema& schema, const KeyCodec& codec) {
  const ExactBytes bytes(input->Rest());
  ReadText(bytes.view());
  Row row;
  std::string_view rest;
  if (!ReadFront(codec, bytes.view(), &row, &rest)) return;
  const std::string_view front = bytes.view().substr(0, bytes.view().size() - rest.size());
  FUZZ_EXPECT(KeyOf(row, schema.columns) == row);
  const Schema binary = AsBinary(schema);  // of a text that is not UTF-8 no column is accepted
  FUZZ_EXPECT(WriteRow(KeyCodec(binary.columns, binary.is_record, HashKind::kMurmur), binary, row) == front);
  FUZZ_EXPECT(KeyRowOf(row, schema.columns) == front);
  const ExactBytes cut(front.substr(0, front.size() - 1)), alone(front);
  Row again;
  FUZZ_EXPECT(!ReadFront(codec, cut.view(), &again, &rest));
  FUZZ_EXPECT(ReadFront(codec, alone.view(), &again, &rest) && rest.empty() && again == row);
}

// Writes a row as Python's single calls do.
std::string WriteCells(const Row& row, const std::vector<Column>& schema) {
  std::string bytes;
  for (size_t c = 0; c < row.size(); ++c) {
    if (schema[c].nullable) bytes.push_back(row[c].is_null ? '\0' : '\1');
    if (row[c].is_null) continue;
    const size_t at = bytes.size(), width = schema[c].type.width;
    bytes.resize(at + (width != 0 ? width : OrderedBytes(row[c].bytes)));
    if (width != 0) {
      EncodeOrderedCell(schema[c].type, row[c].bytes.data(), &bytes[at]);
    } else {
      EncodeOrdered(&bytes[at], row[c].bytes);
    }
  }
  return bytes;
}

void WriteAndRead(Input* input, const Schema& schema, const KeyCodec& codec) {
  const Row one = TakeRow(input, schema.columns);
  Row other = TakeRow(input, schema.columns);
  for (size_t same = input->Below(one.size() + 1), c = 0; c < same; ++c) other[c] = one[c];  // so that the later columns count too
  const Row one_key = KeyOf(one, schema.columns), other_key = KeyOf(other, schema.columns);
  const std::string row = WriteRow(codec, schema, one, input), other_row = WriteRow(codec, schema, other, input);
  FUZZ_EXPECT(row == KeyRowOf(one_key, schema.columns));
  FUZZ_EXPECT(row == WriteCells(one, schema.columns));
  FUZZ_EXPECT(!codec.is_fixed() || row.size() == codec.fixed_bytes());

  const int order = CompareKeys(one_key, other_key, schema.columns);
  const int found = row.compare(other_row);
  FUZZ_EXPECT((found < 0) == (order < 0) && (found == 0) == (order == 0));
  FUZZ_EXPECT(order == 0 || (row.compare(0, other_row.size(), other_row) != 0 && other_row.compare(0, row.size(), row) != 0));

  Row again;
  std::string_view rest;
  const std::string suffix = input->Rest();
  const ExactBytes with_suffix(row + suffix);
  FUZZ_EXPECT(ReadFront(codec, with_suffix.view(), &again, &rest));
  FUZZ_EXPECT(again == one_key && rest == suffix);
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  const bool writes = input.Bool();
  const Schema schema = TakeKeySchema(&input);
  const sfkv::KeyCodec codec(schema.columns, schema.is_record, sfkv::HashKind::kMurmur);
  writes ? WriteAndRead(&input, schema, codec) : ReadAnything(&input, schema, codec);
  return 0;
}
