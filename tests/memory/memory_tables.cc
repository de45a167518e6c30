// What tables in memory do where something goes wrong, or is not as it was declared: memory_tables.h.
//
//   memory_tables SEED STEPS
//
//   Rows that do not fit their table's shape, and move it into another, are put, folded and counted as others are. A change that throws
//   is taken back. Of the allocations of many writes each fails once: no row is lost, nor is memory. Where those of taking back fail, once
//   or for good, the rest is taken back later, and until then every call says so; no row holds an object that is not counted.
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

// Writes, and batches that are dropped, put aside and taken up again, of which the allocations fail from some number on, or only that one.
// With a limit, all writes are near it.
class UndoWithoutMemory {
 public:
  UndoWithoutMemory(uint64_t seed, size_t steps, const TableShape& shape, size_t limit, bool with_views)
      : random_(seed), steps_(steps), shape_(shape), limit_(limit), with_views_(with_views), tables_(limit) {
    tables_.Own(kGroups);
    tables_.Declare(shape);
  }

  void Run() {
    new_may_fail = !with_views_;
    for (size_t step = 0; step < steps_; ++step) {
      if (with_views_ && random_() % 10 == 0) view_ = random_() % 2 == 0 ? nullptr : tables_.heap()->NewView();
      switch (random_() % 12) {
        case 0: Begin(); break;
        case 1: Commit(); break;
        case 2: Drop(); break;
        case 3: Suspend(); break;
        default: Write(); break;
      }
    }
    Drop();
    view_ = nullptr;
    tables_.Clear();
    CHECK(tables_.heap()->used_bytes() == 0 && tables_.heap()->kept_bytes() == 0);
    new_may_fail = true;
  }

 private:
  struct Change {
    size_t kind;
    std::string key, value;

    std::string bound() const { return key.substr(0, key.size() - 1) + '\xff'; }
  };

  // Runs a call that runs out of memory, maybe for good.
  template <typename Call>
  bool Fails(Call&& call) {
    return RunsOutOfMemory(static_cast<int64_t>(random_() % 12), random_() % 2 == 0, [&] {
      tables_.RequireTakenBack();
      call();
    });
  }
  // What could not be taken back for want of memory is when there is some; until then every call fails.
  void Check() {
    RunsOutOfMemory(0, /*for_good=*/true, [&] {
      try {
        tables_.RequireTakenBack();
      } catch (const NotTakenBack& error) {
        CHECK(std::string_view(error.what()).find("take back") != std::string_view::npos);
      }
    });
    tables_.RequireTakenBack();
    const MemoryTable* table = tables_.table(kTable);
    CHECK((table == nullptr ? Model() : RowsOf(*table)) == model_);
    CHECK(table == nullptr || table->rows() == model_.size());
    Count();
  }
  // No row holds an object that is not counted. One may be counted that none holds: where its release could not be noted, which new does.
  void Count() {
    for (uint64_t number : tables_.objects()->TakeAdopted()) ++counts_[number];
    for (uint64_t number : tables_.objects()->TakeReleased()) --counts_[number];
    std::map<uint64_t, int> held;
    for (const auto& [key, row] : model_) {
      if (shape_.holds_objects) AddNumbers(row, &held);
    }
    for (const auto& [number, count] : held) CHECK(counts_[number] >= count);
    for (const auto& [number, count] : counts_) {
      CHECK(count >= 0);
      if (!new_may_fail && !has_log_) CHECK(count == held[number]);
    }
  }
  void AddNumbers(std::string_view row, std::map<uint64_t, int>* numbers) const {
    std::string_view element = row;
    while (shape_.kind != TableKind::kList || TakeElement(&row, &element)) {
      ++(*numbers)[LoadAs<uint64_t>(element.data())];
      if (shape_.kind != TableKind::kList) break;
    }
  }
  std::string Value() {
    if (!shape_.holds_objects) return std::string(shape_.value_is_fixed ? shape_.value_bytes : random_() % 300, static_cast<char>(random_()));
    if (shape_.kind != TableKind::kList) return Number(next_++);
    const uint64_t first = next_;
    next_ += 2;
    return '\x08' + Number(first) + '\x08' + Number(first + 1);
  }

  void Begin() {
    if (tables_.in_batch()) return;
    has_log_ = true;
    before_ = model_;
    tables_.BeginBatch();
  }
  void Commit() {
    if (!tables_.in_batch()) return;
    CHECK(!RunsOutOfMemory(0, /*for_good=*/true, [&] { tables_.CommitBatch(); }));
    has_log_ = false;
    Check();
  }
  void Drop() {
    if (!tables_.in_batch()) return;
    const auto drop = [&] { tables_.DropBatch(); };
    CHECK(!RunsOutOfMemory(static_cast<int64_t>(random_() % 12), random_() % 2 == 0, drop));
    CHECK(!tables_.in_batch());
    has_log_ = false;
    model_ = before_;
    Check();
  }
  void Suspend() {
    if (!tables_.in_batch()) return;
    const bool failed = Fails([&] { tables_.SuspendBatch(); });
    CHECK(tables_.in_batch() == failed);
    if (!failed) {
      const Model now = std::exchange(model_, before_);
      Check();
      model_ = now;
      CHECK(!RunsOutOfMemory(static_cast<int64_t>(random_() % 12), random_() % 2 == 0, [&] { tables_.ResumeBatch(); }));
    }
    CHECK(tables_.in_batch());
    if (random_() % 4 == 0) return Drop();  // before all of it is there again
    Check();
  }

  Change AnyChange() {
    char digits[24];
    const bool is_padded = shape_.key_bytes == 8 && random_() % 200 != 0;
    std::snprintf(digits, sizeof(digits), is_padded ? "%08zu" : "%zu", static_cast<size_t>(random_() % 300));
    size_t kind = random_() % 6;
    if ((kind == 1 && !shape_.is_ordered) || (kind == 2 && shape_.value_is_fixed)) kind = 3;
    return {kind, Key(digits), Value()};
  }
  void Write() {
    std::vector<Change> changes(1 + random_() % 5);
    std::vector<Model> models{model_};  // after so many changes
    WriteSize size{changes.size(), limit_};
    for (Change& change : changes) {
      change = AnyChange();
      size.bytes += change.key.size() + change.value.size();
      models.push_back(models.back());
      Make(change, &models.back());
    }
    Status status;
    const bool is_whole = tables_.in_batch() || limit_ != 0;
    const bool failed = Fails([&] {
      status = tables_.Write(size, [&] {
        for (const Change& change : changes) Make(change);
      });
    });
    CHECK(failed || status.ok());
    if (!failed) model_ = models.back();
    if (failed && !is_whole) {
      const MemoryTable* table = tables_.table(kTable);
      model_ = table == nullptr ? Model() : RowsOf(*table);
      CHECK(std::find(models.begin(), models.end(), model_) != models.end());
    }
    Check();
  }
  void Make(const Change& change, Model* model) const {
    switch (change.kind) {
      case 0: model->erase(change.key); break;
      case 1: model->erase(model->lower_bound(change.key), model->lower_bound(change.bound())); break;
      case 2: (*model)[change.key] += change.value; break;
      default: (*model)[change.key] = change.value; break;
    }
  }
  void Make(const Change& change) {
    const std::string& value = change.value;
    switch (change.kind) {
      case 0: tables_.Erase(change.key); break;
      case 1: tables_.EraseRange(kTable, 1, {change.key.substr(kKeyHeaderBytes), change.bound().substr(kKeyHeaderBytes)}); break;
      case 2: tables_.Extend(change.key, value.size(), [&](char* at) { std::memcpy(at, value.data(), value.size()); }); break;
      default: tables_.Put(change.key, value); break;
    }
  }

  std::mt19937_64 random_;
  const size_t steps_;
  const TableShape shape_;
  const size_t limit_;
  const bool with_views_;
  MemoryTables tables_;
  std::shared_ptr<RowView> view_;
  Model model_, before_;
  bool has_log_ = false;  // of a batch, which holds objects too
  std::map<uint64_t, int> counts_;
  uint64_t next_ = 1;
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
  for (const bool with_views : {false, true}) {
    for (const size_t limit : {size_t{0}, size_t{1} << 20}) {
      for (const bool is_ordered : {false, true}) {
        for (const size_t value_bytes : {size_t{8}, TableShape::kAnyBytes}) {
          for (const size_t key_bytes : {size_t{8}, TableShape::kAnyBytes}) {
            TableShape shape = Shape(key_bytes, value_bytes, is_ordered);
            UndoWithoutMemory(++seed, steps / 10, shape, limit, with_views).Run();
            shape.holds_objects = true;
            if (value_bytes != 8) shape.kind = TableKind::kList;
            UndoWithoutMemory(++seed, steps / 10, shape, limit, with_views).Run();
          }
        }
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
