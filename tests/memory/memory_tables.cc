// What tables in memory do where something goes wrong, or is not as it was declared: memory_tables.h.
//
//   memory_tables SEED STEPS
//
//   Rows that do not fit their table's shape, and move it into another, are put, folded and counted as others are. A change that throws
//   is taken back. Of the allocations of many writes each fails once: no row is lost, nor is memory.
//
// Ends with what does not hold, or says nothing.
#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "check.h"
#include "failing_malloc.h"
#include "sfkv/memory_tables.h"

namespace sfkv {
namespace {

constexpr uint8_t kTable = 9;
constexpr KeyGroupRange kGroups = {0, 2};

TableShape Shape(size_t key_bytes, size_t value_bytes, bool is_ordered) {
  TableShape shape;
  shape.table = kTable;
  shape.range = kGroups;
  shape.key_bytes = key_bytes;
  shape.value_bytes = value_bytes;
  shape.value_is_fixed = value_bytes != TableShape::kAnyBytes;
  shape.is_ordered = is_ordered;
  return shape;
}
std::string Key(std::string_view row) { return MemoryTables::Encoded(1, kTable, row); }
std::string Number(uint64_t number) { return {reinterpret_cast<const char*>(&number), sizeof(number)}; }

void CheckObjectsOfAnotherShape() {
  MemoryTables tables(0);
  tables.Own(kGroups);
  TableShape shape = Shape(8, 8, false);
  shape.holds_objects = true;
  tables.Declare(shape);
  CHECK(tables.Write({2, 0}, [&] {
    tables.Put(Key("8 bytes."), Number(1));
    tables.Put(Key("longer than 8 bytes"), Number(2));
    tables.Put(Key("8 bytes."), Number(3));
  }).ok());
  CHECK(tables.objects()->TakeAdopted() == std::vector<uint64_t>({1, 2, 3}));
  CHECK(tables.objects()->TakeReleased() == std::vector<uint64_t>({1}));
  tables.ClearTable(kTable);
  CHECK(tables.table(kTable) == nullptr);
  CHECK(tables.objects()->TakeReleased().size() == 2);
  CHECK(tables.heap()->used_bytes() == 0);
}

void CheckFoldsOfAnotherShape() {
  MemoryTables tables(0);
  tables.Own(kGroups);
  const std::string row(8, 'v');
  tables.Declare(Shape(8, row.size(), false));
  CHECK(tables.Write({2, 0}, [&] {
    tables.Fold(Key("8 bytes."), row);
    tables.Fold(Key("longer than 8 bytes"), row);
  }).ok());
  CHECK(tables.Find(Key("8 bytes.")) == row);
  CHECK(tables.Find(Key("longer than 8 bytes")) == row);
}

// A change that throws leaves nothing where a batch is open, and what is written afterwards is remembered, and taken back, as before.
void CheckExceptions() {
  MemoryTables tables(0);
  tables.Own(kGroups);
  const auto put = [&](const char* key, bool throws) {
    return tables.Write({1, 0}, [&] {
      tables.Put(Key(key), "v");
      if (throws) throw std::length_error(key);
    });
  };
  const auto throws = [](auto&& call) {
    try {
      call();
    } catch (const std::length_error&) {
      return true;
    }
    return false;
  };
  CHECK(put("before", false).ok());
  tables.BeginBatch();
  CHECK(put("first", false).ok());
  CHECK(throws([&] { static_cast<void>(put("thrown", true)); }));
  CHECK(tables.Find(Key("thrown")).data() == nullptr);
  CHECK(throws([&] { tables.WriteThrough([&] { throw std::length_error("through"); }); }));
  CHECK(put("second", false).ok());
  tables.DropBatch();
  CHECK(tables.Find(Key("before")) == "v");
  for (const char* key : {"first", "second"}) CHECK(tables.Find(Key(key)).data() == nullptr);

  MemoryTables limited(100'000);
  limited.Own(kGroups);
  const auto change = [&](bool fails) {
    return limited.Write({1, 90'000}, [&] {
      limited.Put(Key(fails ? "thrown" : "stays"), "v");
      if (fails) throw std::length_error("thrown");
    });
  };
  CHECK(throws([&] { static_cast<void>(change(true)); }));
  CHECK(limited.Find(Key("thrown")).data() == nullptr);
  CHECK(change(false).ok() && limited.Find(Key("stays")) == "v");
}

using Model = std::map<std::string, std::string>;

Model RowsOf(const MemoryTable& table) {
  const RowRange all;
  const FrozenTable frozen = table.Freeze(kGroups, all);
  Model rows;
  for (const FrozenGroup& group : frozen.groups) {
    for (FrozenRows each(frozen, group, all, /*reverse=*/false); each.Next();) {
      rows[MemoryTables::Encoded(group.key_group, kTable, each.key())] = std::string(each.value());
    }
  }
  return rows;
}

// Changes rows of a table with one allocation after the other failing; under views not those that note what is kept, which would be lost.
class WantOfMemory {
 public:
  WantOfMemory(uint64_t seed, size_t steps, const TableShape& shape, bool with_views)
      : random_(seed), steps_(steps), shape_(shape), with_views_(with_views), table_(MakeTable(shape, &heap_)) {}

  void Run() {
    new_may_fail = !with_views_;
    const bool in_order = random_() % 2 == 0;
    for (size_t step = 0; step < steps_; ++step) {
      if (with_views_ && random_() % 50 == 0) Look();
      if (random_() % 50 == 0) LookAway();
      const size_t chosen = random_() % 200;
      if (chosen < 140) {
        Put(KeyOf(in_order ? step : random_() % (2 * steps_)));
      } else if (chosen < 198 || !shape_.is_ordered) {
        const std::string key = model_.empty() ? KeyOf(0) : AnyKey();
        chosen % 2 == 0 ? Erase(key) : Trim(key);
      } else {
        EraseRange();
      }
    }
    LookAway();
    CHECK(RowsOf(*table_) == model_ && table_->rows() == model_.size());
    if (shape_.is_ordered) {
      const Model before = std::move(model_);
      model_.clear();
      Fail([&] { table_->EraseRange(1, {}); }, before, {});
    } else {
      while (!model_.empty()) Erase(std::string(model_.begin()->first));
    }
    CHECK(heap_.used_bytes() == kGroupBytes(shape_));
    table_ = nullptr;
    CHECK(heap_.used_bytes() == 0 && heap_.kept_bytes() == 0);
    new_may_fail = true;
  }

 private:
  // What a table takes without rows.
  static size_t kGroupBytes(const TableShape& shape) {
    RowHeap heap;
    const auto table = MakeTable(shape, &heap);
    return heap.used_bytes();
  }
  static std::string KeyOf(size_t number) {
    char digits[24];
    std::snprintf(digits, sizeof(digits), "%08zu", number);
    return Key(digits);
  }
  std::string AnyKey() {
    const auto found = model_.lower_bound(KeyOf(random_() % (2 * steps_)));
    return found == model_.end() ? model_.begin()->first : found->first;
  }

  // Runs a change until no allocation fails in it. Until then the rows are as "before" says, then as "after" does.
  template <typename Change>
  void Fail(Change&& change, const Model& before, const Model& after) {
    for (int64_t allowed = 0; RunsOutOfMemory(allowed, /*for_good=*/false, change); ++allowed) {
      CHECK(table_->rows() == before.size());
      CHECK(RowsOf(*table_) == before);
    }
    CHECK(table_->rows() == after.size());
    CHECK(RowsOf(*table_) == after);
  }
  // The same of a change of one row, which alone is looked at.
  template <typename Change>
  void FailAt(const std::string& key, Change&& change) {
    for (int64_t allowed = 0; RunsOutOfMemory(allowed, /*for_good=*/false, change); ++allowed) {
      const auto old = model_.find(key);
      CHECK(old == model_.end() ? table_->Find(key).data() == nullptr : table_->Find(key) == old->second);
      CHECK(table_->rows() == model_.size());
    }
  }

  void Put(const std::string& key) {
    const std::string value(shape_.value_is_fixed ? shape_.value_bytes : random_() % 200, static_cast<char>(random_()));
    char* at = nullptr;
    FailAt(key, [&] { at = table_->Place(key, value.size(), 0); });
    std::memcpy(at, value.data(), value.size());
    model_[key] = value;
    CHECK(table_->Find(key) == value);
    CHECK(table_->rows() == model_.size());
  }
  void Erase(const std::string& key) {
    FailAt(key, [&] { table_->Erase(key); });
    model_.erase(key);
    CHECK(table_->Find(key).data() == nullptr);
    CHECK(table_->rows() == model_.size());
  }
  void Trim(const std::string& key) {
    for (int64_t allowed = 0; allowed < 4; ++allowed) {
      CHECK(!RunsOutOfMemory(allowed, /*for_good=*/true, [&] { table_->Trim(key); }));
      if (model_.count(key) != 0) CHECK(table_->Find(key) == model_[key]);
    }
  }
  void EraseRange() {
    RowRange rows;
    if (random_() % 4 != 0) rows.lower = KeyOf(random_() % (2 * steps_)).substr(kKeyHeaderBytes);
    if (random_() % 4 != 0) rows.upper = KeyOf(random_() % (2 * steps_)).substr(kKeyHeaderBytes);
    if (random_() % 4 == 0) rows.upper = rows.lower + "0";
    Model after = model_;
    for (auto at = after.begin(); at != after.end();) {
      const std::string row = at->first.substr(kKeyHeaderBytes);
      at = row >= rows.lower && (rows.upper.empty() || row < rows.upper) ? after.erase(at) : std::next(at);
    }
    Fail([&] { table_->EraseRange(1, rows); }, model_, after);
    model_ = after;
  }

  void Look() {
    LookAway();
    view_ = heap_.NewView();
    seen_ = table_->Freeze(kGroups, all_);
    seen_rows_ = model_;
  }
  void LookAway() {
    if (view_ == nullptr) return;
    size_t found = 0;
    for (const FrozenGroup& group : seen_.groups) {
      for (FrozenRows rows(seen_, group, all_, /*reverse=*/false); rows.Next(); ++found) CHECK(seen_rows_.at(Key(rows.key())) == rows.value());
    }
    CHECK(found == seen_rows_.size());
    view_ = nullptr;
  }

  std::mt19937_64 random_;
  const size_t steps_;
  const TableShape shape_;
  const bool with_views_;
  RowHeap heap_;
  std::unique_ptr<MemoryTable> table_;
  Model model_;
  const RowRange all_;
  std::shared_ptr<RowView> view_;
  FrozenTable seen_;
  Model seen_rows_;
};

void RunAll(uint64_t seed, size_t steps) {
  std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
  CheckObjectsOfAnotherShape();
  CheckFoldsOfAnotherShape();
  CheckExceptions();
  for (const bool is_ordered : {false, true}) {
    for (const size_t value_bytes : {size_t{8}, size_t{100}, TableShape::kAnyBytes}) {
      for (const size_t key_bytes : {size_t{8}, TableShape::kAnyBytes}) {
        for (const bool with_views : {false, true}) WantOfMemory(++seed, steps, Shape(key_bytes, value_bytes, is_ordered), with_views).Run();
      }
    }
  }
  CHECK(RowView::live() == 0);
}

}  // namespace
}  // namespace sfkv

int main(int, char** arguments) {
  sfkv::RunAll(std::strtoull(arguments[1], nullptr, 10), std::strtoull(arguments[2], nullptr, 10));
  return 0;
}
