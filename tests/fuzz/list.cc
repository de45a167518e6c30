// Lists (list_codec.h): any bytes as lists, and lists made of values.
//
//   Bytes are a list just when FORMAT.md's grammar says so, and its elements are what the grammar says; they lie in the list one after
//   the other. BuildLists() answers with those elements' values, or says Corruption and which list it was: the first that is no
//   list, or too short for so many rows, else the first with an element that is no row; or none, if a nested cell does not have
//   the form of its type.
//   What is written is FORMAT.md's bytes, takes ElementBytes(), and is read back as what it was.
#include "arrays.h"
#include "model.h"
#include "sfkv/list_codec.h"

namespace sfkv::fuzz {
namespace {

using Elements = std::vector<std::string>;

// Walks over a list as the core does. False if its bytes are no list.
bool Walk(std::string_view list, Elements* rows) {
  const char* end = list.data();
  const char* list_end = list.data() + list.size();
  std::string_view row;
  rows->clear();
  while (TakeElement(&list, &row)) {
    FUZZ_EXPECT(row.data() > end && row.data() + row.size() == list_end - list.size());
    end = row.data() + row.size();
    rows->emplace_back(row);
  }
  return list.empty();
}

// What BuildLists() must answer.
struct Expected {
  int64_t bad_list = -1;  // the one to be reported, or -1
  bool bad_cell = false;  // a nested one does not have the form of its type
  std::vector<Row> elements;
  std::vector<int64_t> ends;  // of each list, in elements
};

Expected Expect(const std::vector<ExactBytes>& lists, const Schema& schema, const ValueCodec& codec) {
  Expected expected;
  int64_t bad_element = -1;
  for (size_t i = 0; i < lists.size(); ++i) {
    Elements rows, walked;
    const bool is_list = ReadList(lists[i].view(), &rows);
    FUZZ_EXPECT(Walk(lists[i].view(), &walked) == is_list);
    FUZZ_EXPECT(CountElements(lists[i].view()) == (is_list ? static_cast<int64_t>(rows.size()) : -1));
    const bool has_room = is_list && rows.size() * codec.record().head_bytes() <= lists[i].view().size();
    if (!has_room && expected.bad_list < 0) expected.bad_list = static_cast<int64_t>(i);
    if (!is_list) continue;
    FUZZ_EXPECT(walked == rows);
    for (const std::string& bytes : rows) {
      Row row;
      std::vector<Stored> stored;
      if (!SplitValueRow(bytes, schema, &stored)) {
        if (bad_element < 0) bad_element = static_cast<int64_t>(i);
      } else if (!ReadCells(stored, schema.columns, &row)) {
        expected.bad_cell = true;
      }
      expected.elements.push_back(row);
    }
    expected.ends.push_back(static_cast<int64_t>(expected.elements.size()));
  }
  if (expected.bad_list < 0) expected.bad_list = bad_element;
  return expected;
}

void Build(const std::vector<ExactBytes>& lists, const Schema& schema, const ValueCodec& codec) {
  const Expected expected = Expect(lists, schema, codec);
  const auto list_of = [&](int64_t i) { return lists[static_cast<size_t>(i)].view(); };
  OwnedArray array;
  const Status status = BuildLists(static_cast<int64_t>(lists.size()), codec, list_of, array.get());
  FUZZ_EXPECT(status.ok() == (expected.bad_list < 0 && !expected.bad_cell));
  if (!status.ok()) {
    FUZZ_EXPECT(status.code() == Code::kCorruption && status.row() == expected.bad_list);
    FUZZ_EXPECT(array.get()->release == nullptr);
    return;
  }
  FUZZ_EXPECT(array.get()->length == static_cast<int64_t>(lists.size()) && array.get()->null_count == 0);
  const auto* offsets = static_cast<const int32_t*>(array.get()->buffers[1]);
  FUZZ_EXPECT(offsets[0] == 0);
  for (size_t i = 0; i < lists.size(); ++i) FUZZ_EXPECT(offsets[i + 1] == expected.ends[i]);
  FUZZ_EXPECT(RowsOf(*array.get()->children[0], schema.columns, schema.is_record) == expected.elements);
}

void ReadAnything(Input* input, const Schema& schema, const ValueCodec& codec) {
  std::vector<ExactBytes> lists;
  for (size_t more = input->Below(4); more > 0; --more) lists.emplace_back(input->Bytes(input->Below(64)));
  lists.emplace_back(input->Rest());
  Build(lists, schema, codec);
}

// Lists whose heads are right and whose rows are anything, so that the rows are reached.
void ReadAnyRows(Input* input, const Schema& schema, const ValueCodec& codec) {
  std::vector<ExactBytes> lists;
  while (!input->empty()) {
    std::string list;
    for (size_t more = input->Below(4); more > 0; --more) {
      list += ElementOf(input->Bool() ? ValueRowOf(TakeRow(input, schema.columns, Texts::kAny), schema) : input->Bytes(input->Below(200)));
    }
    lists.emplace_back(list);
  }
  Build(lists, schema, codec);
}

void WriteAndRead(Input* input, const Schema& schema, const ValueCodec& codec) {
  std::string list;
  const std::vector<Row> rows = TakeRows(input, schema.columns, 40);
  const TestColumns columns(rows, schema, input);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t row_bytes = codec.RowBytes(columns.get(), static_cast<int64_t>(i));
    ExactBytes exact(std::string(ElementBytes(row_bytes), '\x55'));
    FUZZ_EXPECT(EncodeElement(codec, columns.get(), static_cast<int64_t>(i), exact.data()) == exact.data() + exact.size());
    const std::string element(exact.view());
    FUZZ_EXPECT(element == ElementOf(ValueRowOf(rows[i], schema)));
    list += element;
  }
  std::vector<ExactBytes> lists;
  lists.emplace_back(list);
  Build(lists, schema, codec);
  Elements walked;
  FUZZ_EXPECT(Walk(list, &walked) && walked == EncodeExactly(codec, columns.get()));
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  const size_t mode = input.Below(3);
  const Schema schema = TakeSchema(&input);
  const sfkv::ValueCodec codec(schema.columns, schema.is_record);
  if (mode == 0) ReadAnything(&input, schema, codec);
  if (mode == 1) ReadAnyRows(&input, schema, codec);
  if (mode == 2) WriteAndRead(&input, schema, codec);
  return 0;
}
