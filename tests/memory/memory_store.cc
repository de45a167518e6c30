// What a store in memory does where there is no memory, or too little: memory_store.h, memory_scan.h.
//
//   memory_store SEED STEPS
//
//   A close that fails leaves the store open, with the batch that was. A scan that failed gives no more rows, and says why.
//   An offset that would pass the limit is refused with its write.
//
// Ends with what does not hold, or says nothing.
#include <string>

#include "check.h"
#include "failing_malloc.h"
#include "sfkv/memory_store.h"

namespace sfkv {
namespace {

constexpr uint8_t kTable = 9;
constexpr KeyGroupRange kGroups = {0, 2};

std::string Key(int key_group, uint64_t number) {
  char row[8];
  StoreBig(row, number | SignOf<uint64_t>());
  return MemoryTables::Encoded(key_group, kTable, {row, sizeof(row)});
}
std::string Found(MemoryStore* store, const std::string& key) {
  ByteBuffer row;
  bool found = false;
  CHECK(store->ReadRow(key, true, &row, &found).ok());
  return found ? std::string(row.data(), row.size()) : "none";
}

// Every allocation of a close fails once, and all from it on.
void CheckCloses() {
  for (const bool for_good : {false, true}) {
    for (int64_t allowed = 0;; ++allowed) {
      MemoryStore store(0);
      store.tables()->Own(kGroups);
      const std::string before(100, 'a'), after(1000, 'A');
      for (uint64_t i = 0; i < 3; ++i) CHECK(store.PutRow(Key(1, i), before, true).ok());
      CHECK(store.BeginBatch().ok());
      for (uint64_t i = 0; i < 4; ++i) CHECK(store.PutRow(Key(1, i), after, true).ok());
      bool begun = false;
      const bool failed = RunsOutOfMemory(allowed, for_good, [&] { CHECK(store.BeginClose(&begun).ok()); });
      CHECK(begun == !failed);
      if (failed) {
        Call call;
        CHECK(call.Enter(store.lifetime()).ok());
        CHECK(store.InBatch());
        for (uint64_t i = 0; i < 4; ++i) CHECK(Found(&store, Key(1, i)) == after);
        store.DropBatch();
        for (uint64_t i = 0; i < 4; ++i) CHECK(Found(&store, Key(1, i)) == (i < 3 ? before : "none"));
        continue;
      }
      store.FinishClose(true);
      break;
    }
  }
  // What was to be taken back is not, and the store ends.
  MemoryStore store(0);
  store.tables()->Own(kGroups);
  CHECK(store.PutRow(Key(1, 0), std::string(100, 'a'), true).ok());
  CHECK(store.BeginBatch().ok() && store.PutRow(Key(1, 0), std::string(1000, 'A'), true).ok());
  const auto view = store.tables()->heap()->NewView();
  CHECK(!RunsOutOfMemory(0, /*for_good=*/true, [&] { store.DropBatch(); }));
  CHECK(RunsOutOfMemory(0, /*for_good=*/true, [&] { Found(&store, Key(1, 0)); }));
}

ScanOptions Options() {
  ScanOptions options;
  options.table = kTable;
  options.range = kGroups;
  options.key_columns = options.value_columns = {0};
  options.batch_rows = 100;
  return options;
}

// Every allocation of a scan fails once.
void CheckScans() {
  constexpr uint64_t kRows = 500;
  const KeyCodec keys({{"key", Type(), false}}, false, HashKind::kMurmur);
  const ValueCodec values({{"value", Type(), false}}, false);
  for (const bool is_ordered : {false, true}) {
    MemoryStore store(0);
    store.tables()->Own(kGroups);
    TableShape shape;
    shape.table = kTable;
    shape.range = kGroups;
    shape.is_ordered = is_ordered;
    store.Declare(shape);
    for (uint64_t i = 0; i < kRows; ++i) CHECK(store.PutRow(Key(static_cast<int>(i % 3), i), std::string(8, 'v'), true).ok());
    for (int64_t allowed = 0;; ++allowed) {
      const auto scan = store.NewScan(Options(), keys, KeyCodec(), values);
      uint64_t rows = 0;
      const bool failed = RunsOutOfMemory(allowed, /*for_good=*/false, [&] {
        for (int64_t some = 1; some != 0; rows += static_cast<uint64_t>(some)) {
          OwnedArray key_rows, user_keys, value_rows;
          CHECK(scan->Next(&some, key_rows.get(), user_keys.get(), value_rows.get()).ok());
        }
      });
      for (int again = 0; again < 2 && failed; ++again) {
        int64_t some = 1;
        OwnedArray key_rows, user_keys, value_rows;
        const Status status = scan->Next(&some, key_rows.get(), user_keys.get(), value_rows.get());
        CHECK(status.code() == Code::kClosed && some == 0);
        CHECK(status.message().find("memory") != std::string::npos);
      }
      if (failed) continue;
      CHECK(rows == kRows);
      break;
    }
    ScanOptions options = Options();
    options.key = MemoryTables::Encoded(1, kTable, {});
    for (int64_t allowed = 0;; ++allowed) {
      const auto scan = store.NewScan(options, keys, KeyCodec(), values);
      uint64_t rows = 0;
      RowSet user_keys, entries;
      const bool failed = RunsOutOfMemory(allowed, /*for_good=*/false, [&] {
        do {
          CHECK(scan->NextEntries(20, &user_keys, &entries).ok());
          rows += user_keys.size();
        } while (user_keys.size() != 0);
      });
      if (failed) CHECK(scan->NextEntries(20, &user_keys, &entries).code() == Code::kClosed && user_keys.size() == 0);
      if (failed) continue;
      CHECK(rows == kRows / 3 + 1);
      break;
    }
  }
}

void CheckOffsets() {
  MemoryStore store(1 << 20);
  store.tables()->Own(kGroups);
  CHECK(store.PutRow(Key(1, 0), "v", true).ok());
  const std::string key = "\xff\xff\x03", large(10'000'000, 'x');
  const size_t used = store.tables()->heap()->used_bytes();
  CHECK(store.DeleteRange(kTable, kGroups, {}, {key, large}).code() == Code::kLimit);
  CHECK(store.tables()->heap()->used_bytes() == used);
  CHECK(Found(&store, Key(1, 0)) == "v" && Found(&store, key) == "none");
  CHECK(store.BeginBatch().ok());
  CHECK(store.DeleteRange(kTable, kGroups, {}, {key, large}).code() == Code::kLimit);
  CHECK(Found(&store, Key(1, 0)) == "v" && Found(&store, key) == "none");
  CHECK(store.DeleteRange(kTable, kGroups, {}, {key, "7"}).ok());
  CHECK(store.CommitBatch().ok());
  CHECK(Found(&store, Key(1, 0)) == "none" && Found(&store, key) == "7");
}

}  // namespace
}  // namespace sfkv

int main() {
  sfkv::CheckCloses();
  sfkv::CheckScans();
  sfkv::CheckOffsets();
  return 0;
}
