// What tables in memory do where something goes wrong, or is not as it was declared: memory_tables.h.
//
//   memory_tables SEED STEPS
//
//   Rows that do not fit their table's shape, and move it into another, are put, folded and counted as others are. A change that throws
//   is taken back. Of the allocations of many writes each fails once: no row is lost, nor is memory.
//
// Ends with what does not hold, or says nothing.
#include <map>
#include <random>
#include <stdexcept>
#include <string>

#include "check.h"
#include "sfkv/memory_tables.h"

namespace {
int64_t allowed_allocations = -1;  // before one fails; -1 for all
bool new_may_fail = true;          // and not only malloc

bool MayAllocate() { return allowed_allocations < 0 || allowed_allocations-- > 0; }
}  // namespace

// The linker is told that malloc is this (test_native_tables.py).
extern "C" void* __real_malloc(size_t bytes);
extern "C" void* __wrap_malloc(size_t bytes) { return MayAllocate() ? __real_malloc(bytes) : nullptr; }
// Not inlined, because GCC takes free() for the wrong end of what is new.
__attribute__((noinline)) void* operator new(size_t bytes) {
  void* memory = !new_may_fail || MayAllocate() ? __real_malloc(bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

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

// Puts rows with one allocation after the other failing; under views not those that note what is kept, which would be lost.
void CheckWantOfMemory(uint64_t seed, size_t steps, const TableShape& shape, bool with_views) {
  new_may_fail = !with_views;
  std::mt19937_64 random(seed);
  RowHeap heap;
  std::unique_ptr<MemoryTable> table = MakeTable(shape, &heap);
  std::map<std::string, std::string> model;
  std::shared_ptr<RowView> view;
  const bool in_order = random() % 2 == 0;
  for (size_t step = 0; step < steps; ++step) {
    char digits[24];
    std::snprintf(digits, sizeof(digits), "%08zu", in_order ? step : random() % (2 * steps));
    const std::string key = Key(digits);
    const std::string value(shape.value_is_fixed ? shape.value_bytes : random() % 200, static_cast<char>(random()));
    if (with_views && random() % 50 == 0) view = heap.NewView();
    if (random() % 50 == 0) view = nullptr;
    for (int64_t allowed = 0;; ++allowed) {
      allowed_allocations = allowed;
      try {
        char* at = table->Place(key, value.size(), 0);
        allowed_allocations = -1;
        std::memcpy(at, value.data(), value.size());
        break;
      } catch (const std::bad_alloc&) {
        allowed_allocations = -1;
        const auto old = model.find(key);
        CHECK(old == model.end() ? table->Find(key).data() == nullptr : table->Find(key) == old->second);
      }
    }
    model[key] = value;
    CHECK(table->Find(key) == value);
  }
  CHECK(table->rows() == model.size());
  for (const auto& [key, value] : model) CHECK(table->Find(key) == value);
  table = nullptr;
  CHECK(heap.used_bytes() == 0);
}

void RunAll(uint64_t seed, size_t steps) {
  std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
  CheckObjectsOfAnotherShape();
  CheckFoldsOfAnotherShape();
  CheckExceptions();
  for (const bool is_ordered : {false, true}) {
    for (const size_t value_bytes : {size_t{8}, size_t{100}, TableShape::kAnyBytes}) {
      for (const size_t key_bytes : {size_t{8}, TableShape::kAnyBytes}) {
        for (const bool with_views : {false, true}) CheckWantOfMemory(++seed, steps, Shape(key_bytes, value_bytes, is_ordered), with_views);
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
