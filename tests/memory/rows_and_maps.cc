// Random writes to tables in memory (memory_table.h), of both kinds and of every form of slots, beside std::map; views that are taken
// on the way, and read later, by this thread or another, must show what was there then.
//
//   rows_and_maps SEED STEPS
//
// Ends with what does not hold, or says nothing.
#include <condition_variable>
#include <deque>
#include <map>
#include <optional>
#include <thread>

#include "check.h"
#include "sfkv/memory_table.h"

namespace sfkv {
namespace {

constexpr int kGroups = 3;
constexpr uint8_t kTable = 9;
using Model = std::map<std::string, std::string>;  // of one key group
using Models = std::vector<Model>;

struct View {
  std::shared_ptr<RowView> view;
  FrozenTable frozen;
  RowRange rows;
  Models models;
};

bool IsInside(const std::string& key, const RowRange& rows) { return key >= rows.lower && (rows.upper.empty() || key < rows.upper); }

void CheckView(const View& view) {
  for (const bool reverse : {false, true}) {
    std::vector<std::vector<std::pair<std::string, std::string>>> found(kGroups);
    for (const FrozenGroup& group : view.frozen.groups) {
      for (FrozenRows rows(view.frozen, group, view.rows, reverse); rows.Next();) found[static_cast<size_t>(group.key_group)].emplace_back(rows.key(), rows.value());
    }
    for (size_t group = 0; group < kGroups; ++group) {
      std::vector<std::pair<std::string, std::string>> expected;
      for (const auto& row : view.models[group]) {
        if (IsInside(row.first, view.rows)) expected.emplace_back(row);
      }
      if (reverse) std::reverse(expected.begin(), expected.end());
      CHECK(found[group] == expected);
    }
  }
}

// Reads views and drops them beside the thread that writes.
class Reader {
 public:
  Reader() : thread_([this] { Run(); }) {}
  ~Reader() {
    Give(std::nullopt);
    thread_.join();
  }
  void Give(std::optional<View> view) {
    std::lock_guard<std::mutex> guard(mutex_);
    given_.push_back(std::move(view));
    changed_.notify_one();
  }

 private:
  void Run() {
    while (true) {
      std::unique_lock<std::mutex> guard(mutex_);
      changed_.wait(guard, [this] { return !given_.empty(); });
      const std::optional<View> view = std::move(given_.front());
      given_.pop_front();
      guard.unlock();
      if (!view) return;
      CheckView(*view);
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::optional<View>> given_;
  std::thread thread_;
};

// A way to draw rows.
struct Sort {
  const char* name;
  size_t key_bytes;  // kAnyBytes: of several lengths
  size_t value_bytes;
  bool value_is_fixed;
};

constexpr size_t kAny = TableShape::kAnyBytes;
constexpr Sort kSorts[] = {
    {"eight bytes each", 8, 8, true},      {"short values", 8, 20, false},        {"one byte, which may be none", 3, 1, false},
    {"the longest slots", 48, 80, true},   {"the longest slots, not full", 48, 80, false}, {"a key too long for slots", 49, 8, true},
    {"a value too long for slots", 8, 81, false}, {"keys of any length", kAny, 16, false}, {"all of any length", kAny, kAny, false},
    {"keys of two words", 16, 8, true},    {"keys of any length, values of one", kAny, 8, true},
};

class Test {
 public:
  Test(uint64_t seed, const Sort& sort, bool is_ordered) : random_(seed), sort_(sort), models_(kGroups) {
    TableShape shape;
    shape.table = kTable;
    shape.is_ordered = is_ordered;
    shape.range = {0, kGroups - 1};
    shape.key_bytes = sort.key_bytes;
    shape.value_bytes = sort.value_bytes;
    shape.value_is_fixed = sort.value_is_fixed;
    table_ = MakeTable(shape, &heap_);
  }

  void Run(size_t steps, Reader* reader) {
    bool grows = true;
    for (size_t step = 0; step < steps; ++step) {
      if (Below(3000) == 0) grows = !grows;
      if (Below(10) < (grows ? 8u : 3u)) {
        Put();
      } else {
        Erase();
      }
      if (Below(2000) == 0) EraseRange();
      if (Below(30000) == 0) Clear();
      if (Below(50) == 0) CheckMany();
      if (Below(150) == 0) TakeView();
      if (Below(150) == 0) EndView(reader);
      if (Below(5000) == 0) CheckAll();
    }
    CheckAll();
    for (const View& view : views_) CheckView(view);
    table_ = nullptr;
    CHECK(heap_.used_bytes() == 0);
    for (const View& view : views_) CheckView(view);
    while (!views_.empty()) EndView(nullptr);
  }
  size_t kept_bytes() const { return heap_.kept_bytes(); }

 private:
  size_t Below(size_t bound) { return random_() % bound; }

  // Keys come from a few thousand, so that writes meet: of one length by their number, else prefixes of each other, and some long ones.
  std::string Key() {
    const size_t number = Below(Below(4) == 0 ? 40 : 4000);
    if (sort_.key_bytes == kAny) {
      const size_t bytes = number % 97 == 0 ? kMaxKeyRowBytes - number % 3 : number % 23;
      std::string key(bytes, number % 2 == 0 ? '\xff' : '\0');
      if (bytes > 2) key[bytes - 1 - number % 2] = static_cast<char>(number >> 4);
      return key;
    }
    std::string key(sort_.key_bytes, number % 3 == 0 ? '\xff' : 'k');
    const size_t at = number % 5 == 0 ? 0 : key.size() - 2;
    key[at] = static_cast<char>(number >> 8);
    key[at + 1] = static_cast<char>(number);
    return key;
  }
  std::string Value() {
    if (sort_.value_bytes == kAny) return std::string(Below(500) == 0 ? 50000 : Below(300), static_cast<char>(random_()));
    const size_t bytes = sort_.value_is_fixed ? sort_.value_bytes : Below(sort_.value_bytes + 1);
    return std::string(bytes, static_cast<char>(random_()));
  }
  static std::string Encoded(size_t group, const std::string& key) {
    std::string encoded(kKeyHeaderBytes, '\0');
    EncodeKeyHeader(encoded.data(), static_cast<int>(group), kTable);
    return encoded + key;
  }

  void Put() {
    const size_t group = Below(kGroups);
    const std::string key = Key();
    std::string value = Value();
    const auto old = models_[group].find(key);
    size_t kept = 0;
    if (old != models_[group].end() && Below(2) == 0) {  // made longer, or shorter, by what comes behind its front
      kept = std::min(Below(old->second.size() + 1), value.size());
      value.replace(0, kept, old->second, 0, kept);
    }
    char* at = table_->Place(Encoded(group, key), value.size(), kept);
    CHECK(at != nullptr);
    if (value.size() != kept) std::memcpy(at + kept, value.data() + kept, value.size() - kept);
    models_[group][key] = value;
    CHECK(table_->Find(Encoded(group, key)) == value);
    if (Below(100) == 0) table_->Trim(Encoded(group, key));
  }
  void Erase() {
    const size_t group = Below(kGroups);
    std::string key = Key();
    const auto near = models_[group].lower_bound(key);
    if (near != models_[group].end() && Below(2) == 0) key = near->first;  // one that is there
    table_->Erase(Encoded(group, key));
    models_[group].erase(key);
    CHECK(table_->Find(Encoded(group, key)).data() == nullptr);
    if (Below(100) == 0) table_->Trim(Encoded(group, key));
  }
  RowRange Range() {
    RowRange range;
    if (Below(3) != 0) range.lower = Key();
    if (Below(3) != 0) range.upper = Key();
    return range;
  }
  void EraseRange() {
    if (!table_->shape().is_ordered) return;
    const size_t group = Below(kGroups);
    const RowRange range = Range();
    table_->EraseRange(static_cast<int>(group), range);
    for (auto at = models_[group].begin(); at != models_[group].end();) at = IsInside(at->first, range) ? models_[group].erase(at) : std::next(at);
  }
  void Clear() {
    table_->Clear();
    models_ = Models(kGroups);
  }
  void TakeView() {
    if (views_.size() > 5) return;
    View view{heap_.NewView(), {}, Below(2) == 0 ? RowRange() : Range(), models_};
    view.frozen = table_->Freeze({0, kGroups - 1}, view.rows);
    views_.push_back(std::move(view));
  }
  void EndView(Reader* reader) {
    if (views_.empty()) return;
    const size_t i = Below(views_.size());
    if (reader != nullptr && Below(2) == 0) {
      reader->Give(std::move(views_[i]));
    } else {
      CheckView(views_[i]);
    }
    views_.erase(views_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  // Several rows at a time, some of which are not there.
  void CheckMany() {
    std::vector<std::string> keys;
    for (size_t i = 0, count = 1 + Below(MemoryTable::kMostAtOnce); i < count; ++i) keys.push_back(Encoded(Below(kGroups), Key()));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<std::string_view> found(keys.size());
    table_->PrefetchMany(views.data(), views.size());
    table_->FindMany(views.data(), views.size(), found.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      const Model& model = models_[static_cast<size_t>(GroupOf(keys[i]))];
      const auto expected = model.find(keys[i].substr(kKeyHeaderBytes));
      CHECK((found[i].data() != nullptr) == (expected != model.end()));
      if (expected != model.end()) CHECK(found[i] == expected->second);
    }
  }
  void CheckAll() {
    for (int i = 0; i < 20; ++i) CheckMany();
    size_t rows = 0;
    for (size_t group = 0; group < kGroups; ++group) {
      rows += models_[group].size();
      for (const auto& [key, value] : models_[group]) CHECK(table_->Find(Encoded(group, key)) == value);
      if (!table_->shape().is_ordered) continue;
      const RowRange range = Range();
      auto expected = models_[group].lower_bound(range.lower);
      table_->VisitRange(static_cast<int>(group), range, [&](std::string_view key, std::string_view value) {
        CHECK(expected != models_[group].end() && key == expected->first && value == expected->second);
        ++expected;
        return true;
      });
      CHECK(expected == models_[group].end() || !IsInside(expected->first, range));
    }
    CHECK(table_->rows() == rows);
  }

  std::mt19937_64 random_;
  const Sort& sort_;
  RowHeap heap_;
  std::unique_ptr<MemoryTable> table_;
  Models models_;
  std::vector<View> views_;
};

void RunAll(uint64_t seed, size_t steps) {
  for (const Sort& sort : kSorts) {
    for (const bool is_ordered : {false, true}) {
      std::fprintf(stderr, "seed %llu, %s, %s\n", static_cast<unsigned long long>(seed), is_ordered ? "ordered" : "hash", sort.name);
      Test test(seed, sort, is_ordered);
      {
        Reader reader;
        test.Run(steps, &reader);
      }
      CHECK(test.kept_bytes() == 0);
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
