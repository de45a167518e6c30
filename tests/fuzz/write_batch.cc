// The write batch (write_batch.h): any run of puts, deletes, merges and deletes of ranges; and whole columns of values (row_block.h).
//
//   Its bytes, read by the grammar at the top of the header, are these records and nothing else; count() and bytes() say how many
//   and how long. After Take() it is empty and can be filled anew. Rows that go through a block are the columns' rows, each once.
#include "arrays.h"
#include "model.h"
#include "sfkv/row_block.h"

namespace sfkv::fuzz {
namespace {

struct Record {
  char tag;  // RocksDB's: 0 a delete, 1 a put, 2 a merge, 15 a delete of a range
  std::string key;
  std::string value;

  bool operator==(const Record& other) const { return tag == other.tag && key == other.key && value == other.value; }
};

// Mostly short, at times of a length that takes two or three bytes to tell.
std::string TakePart(Input* input, size_t least) {
  const uint8_t chosen = input->Byte();
  std::string text = input->Bytes(chosen % 32);
  if (chosen >= 250) text.append(static_cast<size_t>(100 + chosen % 60), 'k');
  if (chosen >= 254) text.append(16384 - 130, 'v');
  if (text.size() < least) text.push_back('x');
  return text;
}

void Append(const Record& record, bool in_place, WriteBatch* batch) {
  if (record.tag == 0) return batch->Delete(record.key);
  if (record.tag == 15) return batch->DeleteRange(record.key, record.value);
  if (record.tag == 1 && !in_place) return batch->Put(record.key, record.value);
  char* at = record.tag == 1 ? batch->BeginPut(record.key, record.value.size()) : batch->BeginMerge(record.key, record.value.size());
  if (!record.value.empty()) std::memcpy(at, record.value.data(), record.value.size());
}

std::string TakeCounted(std::string_view* bytes) {
  size_t length = 0, digit = 1;
  std::string taken;
  do {
    FUZZ_EXPECT(TakeFront(bytes, 1, &taken));
    length += static_cast<size_t>(static_cast<uint8_t>(taken[0]) % 128) * digit;
    digit *= 128;
  } while (static_cast<uint8_t>(taken[0]) >= 128);
  FUZZ_EXPECT(digit == 128 || taken[0] != 0);  // the shortest form
  FUZZ_EXPECT(TakeFront(bytes, length, &taken));
  return taken;
}

std::vector<Record> Read(std::string_view bytes) {
  std::string head, tag;
  FUZZ_EXPECT(TakeFront(&bytes, 12, &head));
  FUZZ_EXPECT(head.substr(0, 8) == std::string(8, '\0'));
  std::vector<Record> records;
  while (TakeFront(&bytes, 1, &tag)) {
    records.push_back({tag[0], TakeCounted(&bytes), {}});
    if (tag[0] != 0) records.back().value = TakeCounted(&bytes);
  }
  FUZZ_EXPECT(NumberOf<uint32_t>({false, head.substr(8), {}}) == records.size());
  return records;
}

void WriteAnything(Input* input) {
  WriteBatch batch(input->Below(200));
  do {
    std::vector<Record> records;
    while (!input->empty()) {
      const uint8_t chosen = input->Byte();
      if (chosen == 255) break;
      Record record{"\0\1\2\x0f"[chosen % 4], TakePart(input, 1), {}};
      if (record.tag != 0) record.value = TakePart(input, 0);
      Append(record, (chosen & 4) != 0, &batch);
      records.push_back(record);
      FUZZ_EXPECT(batch.count() == records.size());
    }
    const size_t bytes = batch.bytes();
    const ExactBytes taken(batch.Take());
    FUZZ_EXPECT(taken.view().size() == bytes);
    FUZZ_EXPECT(Read(taken.view()) == records);
    FUZZ_EXPECT(batch.count() == 0 && batch.bytes() == 12);
  } while (!input->empty());
}

// The rows of columns, over and over, so that blocks are filled.
void WriteBlocks(Input* input) {
  const Schema schema = TakeSchema(input);
  const ValueCodec codec(schema.columns, schema.is_record);
  const size_t times = 1 + input->Below(20);
  const std::vector<Row> rows = TakeRows(input, schema.columns, 20);
  const TestColumns columns(rows, schema, input);
  RowBlock block(codec, columns.get());
  WriteBatch batch;
  std::vector<Record> records;
  for (size_t i = 0; i < times * rows.size(); ++i) {
    records.push_back({1, std::to_string(i * i), ValueRowOf(rows[i % rows.size()], schema)});
    block.Add(records.back().key, static_cast<int64_t>(i % rows.size()), &batch);
    if (block.is_full()) block.Encode(&batch);
  }
  block.Encode(&batch);
  FUZZ_EXPECT(Read(ExactBytes(batch.Take()).view()) == records);
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  input.Below(4) == 1 ? WriteBlocks(&input) : WriteAnything(&input);
  return 0;
}
