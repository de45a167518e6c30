// A store in memory (memory_store.h, row_blocks.h, memory_snapshot.h) beside a std::map of its rows.
//
//   A block of any bytes is loaded if it is rows as FORMAT.md section 7 has them, else refused as corrupt, and changes nothing; whatever
//   the rows are, and whatever shape their table was declared with, each is found again. What passes the limit changes nothing.
//   Batches are there as a whole or not at all. A snapshot gives the rows as they were at its start, in the order of their key groups
//   and keys, and another store that they are loaded into is the same.
#include <map>

#include "input.h"
#include "sfkv/memory_snapshot.h"

namespace sfkv::fuzz {
namespace {

constexpr KeyGroupRange kGroups = {2, 5};
constexpr size_t kPageHeads = 1024;
using Model = std::map<std::string, std::string>;

bool TakeCounted(std::string_view* bytes, size_t most, std::string* taken) {
  size_t length = 0;
  int digits = 0;
  for (; digits < 5; ++digits) {
    if (bytes->empty()) return false;
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    length |= static_cast<size_t>(byte & 127) << (7 * digits);
    if (byte < 128) break;
  }
  if (digits == 5 || length > most || length > bytes->size()) return false;
  *taken = bytes->substr(0, length);
  bytes->remove_prefix(length);
  return true;
}

// The rows of a block; false if it is none.
bool ReadBlock(int group, std::string_view block, Model* rows) {
  std::string key, value;
  while (!block.empty()) {
    if (!TakeCounted(&block, 1 + kMaxKeyRowBytes, &key) || key.empty()) return false;
    if (!TakeCounted(&block, kMaxStoredBytes, &value)) return false;
    (*rows)[std::string({static_cast<char>(group >> 8), static_cast<char>(group)}) + key] = value;
  }
  return true;
}

Model RowsOf(MemoryStore* store) {
  std::vector<std::string> keys, values;
  FUZZ_EXPECT(store->ReadRange("", std::string(70000, '\xff'), &keys, &values).ok());
  Model rows;
  for (size_t i = 0; i < keys.size(); ++i) rows[keys[i]] = values[i];
  FUZZ_EXPECT(rows.size() == keys.size());
  return rows;
}

class Test {
 public:
  Test(Input* input, size_t limit) : input_(input), limit_(limit), store_(limit) { store_.tables()->Own(kGroups); }

  void Run() {
    while (!input_->empty()) {
      switch (input_->Below(10)) {
        case 0: Load(AnyBytes()); break;
        case 1: Load(Block()); break;
        case 2:
        case 3: Write(); break;
        case 4: Declare(); break;
        case 5: Batch(); break;
        case 6: TakeSnapshot(); break;
        case 7: ReadSnapshot(); break;
        case 8: DeleteRange(); break;
        default: Drop(); break;
      }
    }
    store_.DropBatch();
    if (in_batch_) model_ = before_;
    FUZZ_EXPECT(RowsOf(&store_) == model_);
    bool begun = false;
    FUZZ_EXPECT(store_.BeginClose(&begun).ok() && begun);
    store_.FinishClose(true);
    FUZZ_EXPECT(store_.tables()->heap()->used_bytes() == 0);
    while (!snapshots_.empty()) ReadSnapshot();
    FUZZ_EXPECT(store_.tables()->heap()->kept_bytes() == 0);
  }

 private:
  std::string AnyBytes() {
    std::string bytes = input_->Bytes(input_->Below(64));
    if (input_->Below(8) == 0) bytes.append(input_->Below(300), '\x80');
    return bytes;
  }
  int Group() {
    const size_t chosen = input_->Below(5);
    return chosen == 4 ? kReservedGroup : kGroups.first + static_cast<int>(chosen);
  }
  // Key rows of which most are of one length.
  std::string KeyRow() {
    const uint8_t chosen = input_->Byte();
    if (chosen < 200) return std::string(7, chosen % 3 == 0 ? '\xff' : 'a') + static_cast<char>(chosen);
    return chosen < 250 ? input_->Bytes(chosen % 16) : std::string(chosen < 253 ? 49 : kMaxKeyRowBytes, static_cast<char>(chosen));
  }
  std::string Value() {
    const uint8_t chosen = input_->Byte();
    return std::string(chosen < 100 ? 8 : chosen < 200 ? chosen % 24 : (chosen - 200) * 40, static_cast<char>(chosen));
  }
  uint8_t Table() { return static_cast<uint8_t>(input_->Below(4)); }

  std::string Block() {
    ByteBuffer block;
    for (size_t i = input_->Below(40); i > 0; --i) AppendBlockRow(Table(), KeyRow(), Value(), &block);
    return {block.data(), block.size()};
  }
  void Load(const std::string& block) {
    const int group = Group();
    Model rows;
    const bool is_block = ReadBlock(group, block, &rows);
    const ExactBytes exact(block);
    const size_t used = store_.tables()->heap()->used_bytes();
    const auto shapes = Shapes();
    const Status status = LoadBlock(&store_, group, exact.view());
    CheckLimit(used, shapes);
    FUZZ_EXPECT(is_block ? status.ok() || status.code() == Code::kLimit : status.code() == Code::kCorruption);
    if (!status.ok()) return;
    for (const auto& [key, value] : rows) model_[key] = value;
  }

  void Write() {
    WriteBatch batch;
    Model after = model_;
    for (size_t i = input_->Below(20); i > 0; --i) {
      const int group = Group();
      std::string key(kKeyHeaderBytes, '\0');
      EncodeKeyHeader(key.data(), group, Table());
      key += KeyRow();
      const size_t chosen = input_->Below(4);
      if (chosen == 0) {
        batch.Delete(key);
        after.erase(key);
      } else {
        const std::string value = Value();
        batch.Put(key, value);
        after[key] = value;
      }
    }
    const size_t used = store_.tables()->heap()->used_bytes();
    const auto shapes = Shapes();
    const Status status = store_.WriteRows(&batch);
    CheckLimit(used, shapes);
    FUZZ_EXPECT(status.ok() || (limit_ != 0 && status.code() == Code::kLimit));
    if (status.ok()) model_ = after;
  }

  // A write may leave what it found, and else keeps to the limit, apart from what tells pages that were split; unless its rows, which no state writes, made a table or changed its shape.
  void CheckLimit(size_t used, const std::vector<int>& shapes) {
    if (limit_ == 0 || shapes != Shapes()) return;
    FUZZ_EXPECT(store_.tables()->heap()->used_bytes() <= std::max(limit_, used) + kPageHeads);
  }
  std::vector<int> Shapes() {
    std::vector<int> shapes;
    for (int id = 0; id < 256; ++id) {
      const MemoryTable* table = store_.tables()->table(static_cast<uint8_t>(id));
      shapes.push_back(table == nullptr ? 0 : FormOf(table->shape()).has_heap_rows() ? 1 : 2);
    }
    return shapes;
  }

  void Declare() {
    TableShape shape;
    shape.table = Table();
    shape.is_ordered = input_->Bool();
    shape.range = kGroups;
    const size_t chosen = input_->Below(5);
    if (chosen < 4) shape.key_bytes = chosen < 2 ? 8 : chosen == 2 ? 48 : 49;
    if (input_->Bool()) shape.value_bytes = input_->Below(90);
    shape.value_is_fixed = shape.value_bytes != TableShape::kAnyBytes && input_->Bool();
    shape.holds_objects = input_->Bool();
    shape.kind = static_cast<TableKind>(input_->Below(3));
    store_.Declare(shape);
  }

  void Batch() {
    if (!in_batch_) {
      FUZZ_EXPECT(store_.BeginBatch().ok());
      before_ = model_;
    } else if (input_->Bool()) {
      FUZZ_EXPECT(store_.CommitBatch().ok());
    } else if (input_->Bool()) {
      store_.DropBatch();
      model_ = before_;
    } else {  // a close that fails: the batch is not seen meanwhile, and is there again
      bool begun = false;
      FUZZ_EXPECT(store_.BeginClose(&begun).ok() && begun);
      FUZZ_EXPECT(RowsOf(&store_) == before_);
      store_.FinishClose(false);
      FUZZ_EXPECT(RowsOf(&store_) == model_);
      return;
    }
    in_batch_ = !in_batch_;
  }

  void TakeSnapshot() {
    if (in_batch_ || snapshots_.size() == 4) return;
    snapshots_.emplace_back(std::make_unique<MemorySnapshot>(store_.tables()), model_);
  }
  void ReadSnapshot() {
    if (snapshots_.empty()) return;
    const size_t i = input_->Below(snapshots_.size());
    auto [snapshot, model] = std::move(snapshots_[i]);
    snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(i));
    MemoryStore second(0);
    second.tables()->Own(kGroups);
    const size_t most = 1 + input_->Below(2000);
    int group = 0, last = -1;
    for (ByteBuffer block; snapshot->NextBlock(most, &group, &block); block.Clear()) {
      FUZZ_EXPECT(block.size() != 0 && (group >= last || last == kReservedGroup));
      last = group;
      FUZZ_EXPECT(LoadBlock(&second, group, {block.data(), block.size()}).ok());
    }
    FUZZ_EXPECT(RowsOf(&second) == model);
  }

  void DeleteRange() {
    const uint8_t id = Table();
    const MemoryTable* table = store_.tables()->table(id);
    if (table == nullptr || !table->shape().is_ordered) return;
    RowRange rows;
    if (input_->Bool()) rows.lower = KeyRow();
    if (input_->Bool()) rows.upper = KeyRow();
    const Status status = store_.DeleteRange(id, kGroups, rows, {});
    FUZZ_EXPECT(status.ok());
    for (auto at = model_.begin(); at != model_.end();) {
      const std::string row = at->first.substr(kKeyHeaderBytes);
      const bool is_inside = !MemoryTables::IsReserved(at->first) && TableOf(at->first) == id && row >= rows.lower &&
                             (rows.upper.empty() || row < rows.upper);
      at = is_inside ? model_.erase(at) : std::next(at);
    }
  }
  void Drop() {
    if (in_batch_) return;
    const uint8_t id = Table();
    FUZZ_EXPECT(store_.DropTable(id, kGroups).ok());
    for (auto at = model_.begin(); at != model_.end();) {
      at = !MemoryTables::IsReserved(at->first) && TableOf(at->first) == id ? model_.erase(at) : std::next(at);
    }
  }

  Input* input_;
  const size_t limit_;
  MemoryStore store_;
  Model model_;
  Model before_;
  bool in_batch_ = false;
  std::vector<std::pair<std::unique_ptr<MemorySnapshot>, Model>> snapshots_;
};

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  const size_t limits[] = {0, 0, 3000, 20000};
  Test(&input, limits[input.Below(4)]).Run();
  return 0;
}
