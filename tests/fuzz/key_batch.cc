// The keys of a batch (key_batch.h): any columns of keys, with or without user keys, beside a std::map of the same keys.
//
//   Each key is its group, table, key row and user key's row as FORMAT.md has them, and its group the one that ComputeKeyGroups()
//   tells. A key outside the range is refused with the first such row, and the batch is then empty. Sorted, the distinct keys are
//   the map's, in its order, each with all its positions from first to last; by appearance, in the order of their first ones.
#include <map>
#include <numeric>

#include "arrays.h"
#include "model.h"
#include "sfkv/key_batch.h"
#include "sfkv/row_set.h"

namespace sfkv::fuzz {
namespace {

constexpr uint8_t kTable = 7;

// A batch's rows: a few of the input, over and over in a mixed order, with numbers that count up, so that short inputs make
// batches that are sorted by radix, too.
std::vector<Row> TakeBatch(Input* input, const std::vector<Column>& schema, size_t count) {
  const std::vector<Row> few = TakeRows(input, schema, 8);
  std::vector<Row> rows;
  if (few.empty()) return rows;
  const uint32_t step = 1 + input->Byte();
  const bool counts = input->Bool();
  uint32_t mixed = input->Byte();
  for (size_t i = 0; i < count; ++i) {
    mixed = mixed * 1664525u + 1013904223u;
    rows.push_back(few[(mixed >> 16) % few.size()]);
    for (size_t c = 0; counts && c < schema.size(); ++c) {
      Cell* cell = &rows.back()[c];
      if (cell->is_null || schema[c].type.cell == CellType::kBool || cell->bytes.empty()) continue;
      if (schema[c].type.cell == CellType::kUtf8) {
        cell->bytes.push_back(static_cast<char>((mixed >> 24) / step % 128));
        continue;
      }
      cell->bytes.back() = static_cast<char>(cell->bytes.back() + static_cast<char>((mixed >> 24) / step));
    }
  }
  return rows;
}

bool MayHashAsJava(const Schema& schema) {
  const CellType type = schema.columns[0].type.cell;
  return !schema.is_record && (type == CellType::kInt32 || type == CellType::kInt64 || type == CellType::kUtf8);
}

int GroupOf(const Row& row, const Schema& schema, const KeyCodec& codec, int max_parallelism) {
  const std::string bytes = KeyRowOf(row, schema.columns);
  int32_t hash = 0;
  if (codec.hash_kind() == HashKind::kMurmur) {
    hash = MurmurHash(bytes.data(), bytes.size());
  } else if (schema.columns[0].type.cell == CellType::kInt32) {
    hash = JavaHash(NumberOf<int32_t>(row[0]));
  } else if (schema.columns[0].type.cell == CellType::kInt64) {
    hash = JavaHash(NumberOf<int64_t>(row[0]));
  } else {
    hash = JavaHash(row[0].bytes.data(), row[0].bytes.size());
  }
  return KeyGroupOf(hash, max_parallelism);
}

void CheckGroups(const KeyCodec& codec, const Columns& columns, int max_parallelism, const std::vector<int>& groups) {
  OwnedArray array;
  FUZZ_EXPECT(ComputeKeyGroups(codec, columns, max_parallelism, array.get()).ok());
  TestSchema int32("i");
  const std::vector<Row> found = RowsOf(*array.get(), {{"", TypeOf(&int32), false}}, false);
  FUZZ_EXPECT(found.size() == groups.size());
  for (size_t i = 0; i < groups.size(); ++i) FUZZ_EXPECT(NumberOf<int32_t>(found[i][0]) == groups[i]);
}

void CheckSorted(const std::vector<std::string>& keys, KeyBatch* batch) {
  std::map<std::string, std::vector<int64_t>> expected;
  for (size_t i = 0; i < keys.size(); ++i) expected[keys[i]].push_back(static_cast<int64_t>(i));
  batch->Sort();
  FUZZ_EXPECT(batch->size() == keys.size() && batch->distinct_count() == expected.size());
  RowSet copies;
  copies.Begin(batch->distinct_count());
  const std::vector<uint32_t> distinct_of = batch->DistinctOfPositions();
  size_t distinct = 0;
  for (const auto& [key, positions] : expected) {
    FUZZ_EXPECT(batch->DistinctKey(distinct) == key);
    std::vector<int64_t> visited;
    batch->VisitPositions(distinct, [&](int64_t position) { visited.push_back(position); });
    FUZZ_EXPECT(visited == positions);
    FUZZ_EXPECT(batch->FirstPosition(distinct) == positions.front() && batch->LastPosition(distinct) == positions.back());
    for (const int64_t position : positions) FUZZ_EXPECT(distinct_of[static_cast<size_t>(position)] == distinct);
    if (distinct % 3 != 0) copies.Set(distinct, key);
    ++distinct;
  }
  distinct = 0;
  for (const auto& entry : expected) {
    FUZZ_EXPECT(copies.Has(distinct) == (distinct % 3 != 0));
    FUZZ_EXPECT(!copies.Has(distinct) || copies.Get(distinct) == entry.first);
    ++distinct;
  }
  std::vector<size_t> by_appearance(expected.size());
  std::iota(by_appearance.begin(), by_appearance.end(), size_t{0});
  std::sort(by_appearance.begin(), by_appearance.end(),
            [&](size_t a, size_t b) { return batch->FirstPosition(a) < batch->FirstPosition(b); });
  FUZZ_EXPECT(batch->DistinctByAppearance() == by_appearance);
}

struct Setting {
  Schema schema;
  Schema user_schema;
  bool has_user_keys;
  KeyCodec codec;
  KeyCodec user_codec;
  int max_parallelism;
  KeyGroupRange range;
};

Setting TakeSetting(Input* input) {
  Setting setting;
  setting.schema = TakeKeySchema(input);
  const uint8_t chosen = input->Byte();
  setting.has_user_keys = chosen % 4 == 0;
  if (setting.has_user_keys) setting.user_schema = TakeKeySchema(input);
  const bool java = (chosen & 4) != 0 && MayHashAsJava(setting.schema);
  setting.codec = KeyCodec(setting.schema.columns, setting.schema.is_record, java ? HashKind::kJava : HashKind::kMurmur);
  setting.user_codec = KeyCodec(setting.user_schema.columns, setting.user_schema.is_record, HashKind::kMurmur);
  setting.max_parallelism = (chosen & 8) != 0 ? 1 + chosen / 16 : 1 + static_cast<int>(input->Number<uint16_t>() % kMaxParallelism);
  setting.range = {0, setting.max_parallelism - 1};
  if (chosen >= 224) {
    setting.range.first = static_cast<int>(input->Below(static_cast<size_t>(setting.max_parallelism)));
    setting.range.last = setting.range.first + static_cast<int>(input->Below(static_cast<size_t>(setting.max_parallelism - setting.range.first)));
  }
  return setting;
}

void CheckBatch(const Setting& setting, Input* input, KeyBatch* batch) {
  const size_t count = input->Below(400);
  const std::vector<Row> rows = TakeBatch(input, setting.schema.columns, count);
  const std::vector<Row> user_rows = TakeBatch(input, setting.user_schema.columns, setting.has_user_keys ? rows.size() : 0);
  if (setting.has_user_keys && user_rows.size() != rows.size()) return;
  const TestColumns columns(rows, setting.schema, input);

  std::vector<std::string> keys;
  std::vector<int> groups;
  int64_t outside = -1;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row row = KeyOf(rows[i], setting.schema.columns);
    groups.push_back(GroupOf(row, setting.schema, setting.codec, setting.max_parallelism));
    if (outside < 0 && !setting.range.Contains(groups.back())) outside = static_cast<int64_t>(i);
    keys.push_back({static_cast<char>(groups.back() / 256), static_cast<char>(groups.back() % 256), static_cast<char>(kTable)});
    keys.back() += KeyRowOf(row, setting.schema.columns);
    if (setting.has_user_keys) keys.back() += KeyRowOf(KeyOf(user_rows[i], setting.user_schema.columns), setting.user_schema.columns);
  }
  CheckGroups(setting.codec, columns.get(), setting.max_parallelism, groups);

  Status status;
  if (setting.has_user_keys) {
    const TestColumns user_columns(user_rows, setting.user_schema);
    status = batch->EncodePairs(setting.codec, columns.get(), setting.user_codec, user_columns.get(), kTable, setting.max_parallelism,
                                setting.range);
  } else {
    status = batch->Encode(setting.codec, columns.get(), kTable, setting.max_parallelism, setting.range);
  }
  FUZZ_EXPECT(status.ok() == (outside < 0));
  if (!status.ok()) {
    FUZZ_EXPECT(status.code() == Code::kKeyGroup && status.row() == outside);
    return CheckSorted({}, batch);
  }
  for (size_t i = 0; i < keys.size(); ++i) FUZZ_EXPECT(batch->Key(i) == keys[i]);
  CheckSorted(keys, batch);
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  const Setting setting = TakeSetting(&input);
  sfkv::KeyBatch batch;
  CheckBatch(setting, &input, &batch);
  CheckBatch(setting, &input, &batch);  // nothing is left of the batch before
  return 0;
}
