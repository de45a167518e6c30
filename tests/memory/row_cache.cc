// A row cache beside a map that stands for the engine: whatever is read, written and dropped, what the cache finds is what the map has.
//
//   row_cache SEED STEPS
#include "sfkv/row_cache.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "check.h"


namespace {

unsigned seed = 0;
int step = 0;

class Memory : public sfkv::MemorySource {
 public:
  bool Take(size_t bytes) override {
    if (taken_ + bytes > most) return false;
    taken_ += bytes;
    return true;
  }
  void GiveBack(size_t bytes) override { taken_ -= bytes; }
  size_t taken() const { return taken_; }

  size_t most = 0;

 private:
  size_t taken_ = 0;
};

// Many keys look alike by it, as some do among very many by the real one.
struct WeakHash {
  uint64_t operator()(std::string_view key) const { return hash(key) & 0xF'FFFF'FFFF; }
  sfkv::RowHash hash;
};

template <typename Hash>
class Test {
 public:
  using RowCache = sfkv::RowCacheBy<Hash>;

  Test() : random_(seed), memory_(std::make_shared<Memory>()), cache_(std::make_unique<RowCache>(memory_.get(), /*period=*/4096)) { memory_->most = 4 << 20; }
  ~Test() {
    cache_.reset();
    CHECK(memory_->taken() == 0);
  }

  void Run(int steps) {
    for (step = 0; step < steps; ++step) Step();
    // It has been large and small, and of use: else little was tested.
    CHECK(found_ > static_cast<uint64_t>(steps));
    CHECK(most_bytes_ >= size_t{700} << 10);
    // And its memory goes back when all tables have turned out not to be worth it.
    for (uint8_t table = 0; table < 3; ++table) {
      for (rests_ = false; !rests_;) ReadManyOnce(table);
    }
    CHECK(memory_->taken() == 0);
  }

 private:
  void Step() {
    const uint8_t table = static_cast<uint8_t>(Number(3));
    switch (step < kQuietSteps ? 7 + Number(2) : Number(40)) {
      case 0: return DeleteRange(table);
      case 1: return Write(table, /*merges=*/Number(2) == 0);
      case 2: return Number(100) == 0 ? cache_->Clear() : static_cast<void>(0);
      case 3: memory_->most = size_t{4 << 20} >> Number(6); return;
      case 4: return WriteOne(table);
      case 5: return Number(20) == 0 ? ReadUnknown(table) : static_cast<void>(0);
      case 6: return Number(60) == 0 ? ReadManyOnce(table) : static_cast<void>(0);
      case 7: return Number(10) == 0 ? Write(table, /*merges=*/false) : static_cast<void>(0);
      default: return Read(table);
    }
  }

  static constexpr int kQuietSteps = 5000;  // in which it can grow

  size_t Number(size_t below) { return random_() % below; }

  // Few keys are drawn often, and most of them seldom.
  std::string Key(uint8_t table, size_t among) {
    const size_t number = Number(Number(2) == 0 ? 300 : 1 + Number(among));
    std::string key = {'\0', static_cast<char>(number % 5), static_cast<char>(table)};
    return key.append(number % 7 + (number % 97 == 0 ? 300 : 0), 'k').append(std::to_string(number));
  }
  std::string Row() {
    const size_t bytes = Number(30) == 0 ? Number(1500) : Number(3) == 0 ? Number(40) : 9;
    return std::string(bytes, static_cast<char>('a' + Number(26))).append(std::to_string(random_() % 100)).substr(0, bytes);
  }
  const std::string* InEngine(const std::string& key) const {
    const auto at = engine_.find(key);
    return at == engine_.end() ? nullptr : &at->second;
  }

  void Read(uint8_t table) {
    std::vector<std::string> keys(1 + Number(RowCache::kMostAtOnce));
    for (std::string& key : keys) key = Key(table, 60'000);
    ReadKeys(table, keys);
  }
  // Each key once: no table is worth looking into that is read so.
  void ReadManyOnce(uint8_t table) {
    for (int part = 0; part < 1000; ++part) {
      std::vector<std::string> keys(RowCache::kMostAtOnce);
      for (std::string& key : keys) key = std::string("\0\0", 2).append(1, static_cast<char>(table)).append(std::to_string(once_++));
      ReadKeys(table, keys);
    }
  }
  void ReadKeys(uint8_t table, const std::vector<std::string>& keys) {
    const bool looks = cache_->IsWorthIt(table, keys.size());
    CHECK(memory_->taken() == cache_->bytes());
    most_bytes_ = std::max(most_bytes_, cache_->bytes());
    rests_ = !looks;
    if (rests_) return;
    std::vector<uint64_t> hashes(keys.size());
    std::vector<std::string_view> rows(keys.size());
    if (keys.size() == 1) {
      rows[0] = cache_->Find(keys[0], &hashes[0]);
    } else {
      cache_->FindMany(keys.size(), [&](size_t i) { return std::string_view(keys[i]); }, hashes.data(), rows.data());
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      if (rows[i].data() == nullptr) continue;
      const std::string* stored = InEngine(keys[i]);
      CHECK(stored != nullptr && *stored == rows[i]);
      ++found_;
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      if (rows[i].data() != nullptr) continue;
      // Most keys are there, so that they can be kept.
      if (InEngine(keys[i]) == nullptr && Number(4) != 0) engine_[keys[i]] = Row();
      if (const std::string* stored = InEngine(keys[i])) cache_->Offer(keys[i], hashes[i], *stored);
    }
  }
  void ReadUnknown(uint8_t table) {
    std::vector<std::string> keys(RowCache::kMostAtOnce);
    for (int part = 0; part < 100; ++part) {
      for (std::string& key : keys) key = Key(table, 1'000'000);
      ReadKeys(table, keys);
    }
  }
  void WriteOne(uint8_t table) {
    const std::string key = Key(table, 60'000);
    if (Number(3) == 0) {
      engine_.erase(key);
      return cache_->Erase(key);
    }
    const std::string row = Row();
    engine_[key] = row;
    cache_->Put(key, row);
  }
  void Write(uint8_t table, bool merges) {
    sfkv::WriteBatch batch;
    for (size_t i = Number(200); i > 0; --i) {
      const std::string key = Key(Number(10) == 0 ? static_cast<uint8_t>(Number(3)) : table, 60'000);
      const std::string row = Row();
      const size_t kind = Number(4);
      if (kind == 0) {
        batch.Delete(key);
        engine_.erase(key);
      } else if (kind == 1 && merges) {
        std::memcpy(batch.BeginMerge(key, row.size()), row.data(), row.size());
        engine_[key] += row;
      } else {
        batch.Put(key, row);
        engine_[key] = row;
      }
    }
    cache_->Write(batch.Take());
  }
  void DeleteRange(uint8_t table) {
    if (Number(30) != 0) return;
    const std::string first = {'\0', static_cast<char>(Number(5)), static_cast<char>(table)};
    const std::string bound = first + "kkk";
    sfkv::WriteBatch batch;
    batch.Put(Key(table, 100), "before");
    engine_[Key(table, 100)];  // some key more
    const std::string again = first + "kk";
    batch.DeleteRange(first, bound);
    batch.Put(again, "after");
    std::string taken = batch.Take();
    sfkv::ForEachWrite(taken, [&](sfkv::WriteKind kind, std::string_view key, std::string_view value) {
      if (kind == sfkv::WriteKind::kPut) engine_[std::string(key)] = value;
      if (kind == sfkv::WriteKind::kDeleteRange) engine_.erase(engine_.lower_bound(std::string(key)), engine_.lower_bound(std::string(value)));
    });
    cache_->Write(taken);
  }

  std::mt19937 random_;
  std::shared_ptr<Memory> memory_;
  std::unique_ptr<RowCache> cache_;
  std::map<std::string, std::string> engine_;
  uint64_t once_ = 10'000'000;
  uint64_t found_ = 0;
  size_t most_bytes_ = 0;
  bool rests_ = false;  // the table that was read last
};

// Keys that hold the hash's own constants, which would wipe out what came before, if words were mixed with nothing secret.
void HashKeysThatAreChosen() {
  const sfkv::RowHash hash;
  std::set<uint64_t> found;
  size_t made = 0;
  for (uint64_t constant : {0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F}) {
    for (uint64_t number = 0; number < 1000; ++number, ++made) {
      std::string key(40, 'k');
      std::memcpy(&key[0], &number, 8);
      std::memcpy(&key[16], &constant, 8);
      found.insert(hash(key));
    }
  }
  CHECK(found.size() == made);
}

}  // namespace

int main(int, char** arguments) {
  seed = static_cast<unsigned>(std::stoul(arguments[1]));
  const int steps = std::stoi(arguments[2]);
  HashKeysThatAreChosen();
  Test<WeakHash>().Run(steps);
  Test<sfkv::RowHash>().Run(steps);
}
