// Rows that are read again and again, kept in front of the engine: most keys of a stream are few, and finding them in blocks costs
// the engine as much as the others.
//
// A row comes in when it is read for the second time while it is still remembered that it was read before. Rows lie in a ring, in the
// order in which they came; the oldest makes room for the next, but one that was found since gets another round (CLOCK). They
// are found through an index of sets of eight words, each a line of memory:
//
//   word := [32 bits of the key's hash] [where the row lies in the ring, plus one, in units of 8 bytes; 0 for a key that was read once]
//   row  := RowHead · key · value, padded to 8 bytes
//
// What is kept is what the engine has: whoever writes says so, and a row is changed or dropped with it. Per table, what looking costs
// is set against what it saves, from time to time: where that is little, the table rests, and is tried again much later. The
// cache begins small, grows while it is worth it and rows make room for others, and has its memory from its source.
// One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "sfkv/key_codec.h"
#include "sfkv/row_hash.h"
#include "sfkv/write_batch.h"

namespace sfkv {

// Who has the memory that caches take. Thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Gives memory; false if there is none to spare.
  virtual bool Take(size_t bytes) = 0;
  virtual void GiveBack(size_t bytes) = 0;
};

template <typename Hash>
class RowCacheBy {
 public:
  static constexpr size_t kMostRowBytes = 1024;  // longer ones are not kept
  static constexpr size_t kMostAtOnce = 64;

  // "source" outlives it; null for none. "period": lookups after which a table's cost and gain are compared.
  explicit RowCacheBy(MemorySource* source, uint64_t period = 1 << 17) : source_(source), period_(period) {}
  ~RowCacheBy() { Release(); }
  RowCacheBy(const RowCacheBy&) = delete;
  RowCacheBy& operator=(const RowCacheBy&) = delete;

  size_t bytes() const { return space_.bytes(); }
  size_t rows() const { return rows_; }
  uint64_t found() const { return found_; }

  // Whether rows of a table are worth looking for. To be asked before "keys" of them are read.
  bool IsWorthIt(uint8_t table, size_t keys) {
    Account* account = &accounts_[table];
    account->cost += keys;
    if (account->cost >= (account->rests ? kRestPeriods : 1) * period_) Settle(table);
    if (account->rests || space_.ring != nullptr) return !account->rests;
    account->rests = !space_.Allocate(kLeastRingBytes, source_);
    return !account->rests;
  }

  // Finds rows; "rows" get no data where there are none. Valid until the next row is offered or written. REQUIRES: IsWorthIt().
  std::string_view Find(std::string_view key, uint64_t* hash) {
    *hash = HashOf(key);
    return FindAt(key, PlaceOf(*hash));
  }
  // The same for several, which key_of(i) names. REQUIRES: count <= kMostAtOnce.
  template <typename KeyOf>
  void FindMany(size_t count, KeyOf&& key_of, uint64_t* hashes, std::string_view* rows) {
    uint32_t places[kMostAtOnce];
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = HashOf(key_of(i));
      __builtin_prefetch(space_.SetOf(hashes[i]));
    }
    for (size_t i = 0; i < count; ++i) {
      places[i] = PlaceOf(hashes[i]);
      if (places[i] != kOnlySeen) __builtin_prefetch(space_.RowAt(places[i]));
    }
    for (size_t i = 0; i < count; ++i) rows[i] = FindAt(key_of(i), places[i]);
  }

  // Takes note that a row was read that was not found here, and keeps it if that is not the first time. REQUIRES: IsWorthIt().
  void Offer(std::string_view key, uint64_t hash, std::string_view row) {
    if (key.size() + row.size() > kMostRowBytes) return;
    uint64_t* set = space_.SetOf(hash);
    uint64_t* free = nullptr;
    for (size_t i = 0; i < kSetWords; ++i) {
      if (TagOf(set[i]) == TagOf(hash)) {
        if (PlaceIn(set[i]) == kOnlySeen) Keep(key, hash, row, &set[i]);
        return;
      }
      if (set[i] == 0) free = &set[i];
    }
    for (size_t i = 0; free == nullptr && i < kSetWords; ++i) {
      uint64_t* word = &set[(i + turn_) % kSetWords];
      if (PlaceIn(*word) == kOnlySeen) free = word;
    }
    ++turn_;
    if (free != nullptr) *free = Word(hash, kOnlySeen);
  }

  // --- What was written to the engine.

  void Put(std::string_view key, std::string_view row) {
    if (Has(TableOf(key))) PutHashed(key, HashOf(key), row);
  }
  void Erase(std::string_view key) {
    if (Has(TableOf(key))) EraseHashed(key, HashOf(key));
  }
  // The writes of a serialised batch.
  void Write(std::string_view serialized) {
    if (rows_ == 0) return;
    std::array<bool, kTables> cleared{};
    Change changes[kChunk];
    size_t count = 0;
    ForEachWrite(serialized, [&](WriteKind kind, std::string_view key, std::string_view value) {
      if (!Has(TableOf(key))) return;
      if (kind == WriteKind::kDeleteRange) {
        cleared[TableOf(key)] = true;
        return;
      }
      changes[count] = {kind, key, value, HashOf(key)};
      __builtin_prefetch(space_.SetOf(changes[count].hash));
      if (++count == kChunk) Apply(changes, count);
      count %= kChunk;
    });
    Apply(changes, count);
    for (size_t table = 0; table < kTables; ++table) {
      if (cleared[table]) DropTable(static_cast<uint8_t>(table));
      if (Has(table) && accounts_[table].cost >= period_) Settle(static_cast<uint8_t>(table));
    }
  }
  // Drops everything: what the engine has is not known.
  void Clear() {
    if (rows_ == 0) return;
    for (Account& account : accounts_) account.rows = 0;
    rows_ = 0;
    space_.Empty();
  }

 private:
  static constexpr size_t kTables = 256;
  static constexpr size_t kSetWords = 8;
  static constexpr uint32_t kOnlySeen = 0;
  static constexpr size_t kChunk = 32;
  static constexpr size_t kLeastRingBytes = size_t{256} << 10;
  static constexpr size_t kMostRingBytes = size_t{1} << 30;
  static constexpr uint64_t kRestPeriods = 16;  // of keys that are read before a table is tried again
  static constexpr uint64_t kGain = 32;         // lookups that a row that is found pays for
  static constexpr int kMostRounds = 8;         // rows that are given another round for one that comes

  struct RowHead {
    uint16_t units;  // of 8 bytes, in the ring
    uint16_t key_bytes;
    uint16_t value_bytes;
    bool lives;      // the index has it
    bool was_found;  // since it came, or was given another round

    char* key() { return reinterpret_cast<char*>(this + 1); }
    std::string_view Key() { return {key(), key_bytes}; }
    std::string_view Value() { return {key() + key_bytes, value_bytes}; }
  };
  struct Change {
    WriteKind kind;
    std::string_view key;
    std::string_view value;
    uint64_t hash;
  };
  // What looking for a table's rows has cost, in lookups, and what it has saved.
  struct Account {
    uint64_t cost = 0;
    uint64_t gain = 0;
    size_t rows = 0;  // that are kept now
    bool rests = false;
  };

  // The ring and its index.
  struct Space {
    char* ring = nullptr;
    uint64_t* index = nullptr;
    size_t ring_bytes = 0;
    size_t sets = 0;  // a power of two
    size_t head = 0;  // where the next row goes
    size_t tail = 0;  // the oldest row
    size_t used = 0;  // bytes between them

    size_t bytes() const { return ring_bytes + sets * kSetWords * sizeof(uint64_t); }
    bool Allocate(size_t bytes, MemorySource* source) {
      Space made;
      made.ring_bytes = bytes;
      made.sets = bytes / 128;
      if (source == nullptr || !source->Take(made.bytes())) return false;
      made.ring = static_cast<char*>(std::malloc(bytes));
      made.index = static_cast<uint64_t*>(std::aligned_alloc(64, made.sets * kSetWords * sizeof(uint64_t)));
      if (made.ring == nullptr || made.index == nullptr) {
        made.Free(source);
        return false;
      }
      *this = made;
      Empty();
      return true;
    }
    void Free(MemorySource* source) {
      std::free(ring);
      std::free(index);
      if (ring_bytes != 0) source->GiveBack(bytes());
      *this = Space();
    }
    void Empty() {
      head = tail = used = 0;
      std::memset(index, 0, sets * kSetWords * sizeof(uint64_t));
    }
    uint64_t* SetOf(uint64_t hash) const { return index + (hash & (sets - 1)) * kSetWords; }
    RowHead* RowAt(uint32_t place) const { return reinterpret_cast<RowHead*>(ring + size_t{place - 1} * 8); }
    RowHead* Oldest() const { return reinterpret_cast<RowHead*>(ring + tail); }
    uint32_t PlaceAt(size_t at) const { return static_cast<uint32_t>(at / 8 + 1); }
    void PassOldest() {
      const size_t row_bytes = size_t{Oldest()->units} * 8;
      tail = tail + row_bytes == ring_bytes ? 0 : tail + row_bytes;
      used -= row_bytes;
    }
    bool HasRoom(size_t row_bytes) const { return ring_bytes - used >= row_bytes && ring_bytes - head >= row_bytes; }
    // Ends the lap: the next row goes to the ring's start. REQUIRES: nothing lies between the head and the ring's end.
    void EndLap() {
      const size_t rest = ring_bytes - head;
      *reinterpret_cast<RowHead*>(ring + head) = {static_cast<uint16_t>(rest / 8), 0, 0, false, false};
      used += rest;
      head = 0;
    }
    // REQUIRES: HasRoom().
    RowHead* Append(std::string_view key, std::string_view row, size_t row_bytes) {
      auto* made = reinterpret_cast<RowHead*>(ring + head);
      *made = {static_cast<uint16_t>(row_bytes / 8), static_cast<uint16_t>(key.size()), static_cast<uint16_t>(row.size()), true, false};
      std::memcpy(made->key(), key.data(), key.size());
      if (!row.empty()) std::memcpy(made->key() + key.size(), row.data(), row.size());
      head = head + row_bytes == ring_bytes ? 0 : head + row_bytes;
      used += row_bytes;
      return made;
    }
    uint32_t PlaceOfRow(const RowHead* row) const { return PlaceAt(static_cast<size_t>(reinterpret_cast<const char*>(row) - ring)); }
  };

  static uint8_t TableOf(std::string_view key) { return static_cast<uint8_t>(key[kKeyHeaderBytes - 1]); }
  static uint64_t TagOf(uint64_t word) { return word >> 32; }
  static uint32_t PlaceIn(uint64_t word) { return static_cast<uint32_t>(word); }
  static uint64_t Word(uint64_t hash, uint32_t place) { return (hash & ~uint64_t{0xFFFFFFFF}) | place; }
  static size_t RowBytes(size_t key_bytes, size_t value_bytes) { return (sizeof(RowHead) + key_bytes + value_bytes + 7) & ~size_t{7}; }

  // The upper half, which the index keeps, is never 0: no word of a key is that of an empty place.
  uint64_t HashOf(std::string_view key) const { return hash_(key) | uint64_t{1} << 32; }

  bool Has(size_t table) const { return accounts_[table].rows != 0; }

  // Where a row of such a hash lies, kOnlySeen if nowhere.
  uint32_t PlaceOf(uint64_t hash) const {
    const uint64_t* set = space_.SetOf(hash);
    for (size_t i = 0; i < kSetWords; ++i) {
      if (TagOf(set[i]) == TagOf(hash)) return PlaceIn(set[i]);
    }
    return kOnlySeen;
  }
  std::string_view FindAt(std::string_view key, uint32_t place) {
    if (place == kOnlySeen) return {};
    RowHead* row = space_.RowAt(place);
    if (row->Key() != key) return {};
    row->was_found = true;
    accounts_[TableOf(key)].gain += kGain;
    ++found_;
    return row->Value();
  }

  void PutHashed(std::string_view key, uint64_t hash, std::string_view value) {
    const uint32_t place = PlaceOf(hash);
    if (place == kOnlySeen) return;
    RowHead* row = space_.RowAt(place);
    if (row->Key() != key) return;
    if (row->value_bytes != value.size()) return EraseHashed(key, hash);
    if (!value.empty()) std::memcpy(row->key() + row->key_bytes, value.data(), value.size());
  }
  void EraseHashed(std::string_view key, uint64_t hash) {
    const uint32_t place = PlaceOf(hash);
    if (place != kOnlySeen && space_.RowAt(place)->Key() == key) Drop(space_.RowAt(place), hash);
  }
  void Apply(const Change* changes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const uint32_t place = PlaceOf(changes[i].hash);
      if (place != kOnlySeen) __builtin_prefetch(space_.RowAt(place));
    }
    for (size_t i = 0; i < count; ++i) {
      const Change& change = changes[i];
      ++accounts_[TableOf(change.key)].cost;
      if (change.kind == WriteKind::kPut) {
        PutHashed(change.key, change.hash, change.value);
      } else {
        EraseHashed(change.key, change.hash);
      }
    }
  }

  // Puts a row into the ring, and where it lies into "word", which is the index's.
  void Keep(std::string_view key, uint64_t hash, std::string_view value, uint64_t* word) {
    const size_t row_bytes = RowBytes(key.size(), value.size());
    for (int rounds = 0; !space_.HasRoom(row_bytes);) {
      const size_t rest = space_.ring_bytes - space_.head;
      if (rest < row_bytes && space_.ring_bytes - space_.used >= rest) {
        space_.EndLap();
      } else {
        rounds += MakeRoom(/*may_stay=*/rounds < kMostRounds) ? 1 : 0;
      }
    }
    *word = Word(hash, space_.PlaceOfRow(space_.Append(key, value, row_bytes)));
    ++accounts_[TableOf(key)].rows;
    ++rows_;
  }

  // Takes the oldest row out of the ring, or, if it was found and may stay, to the head. Whether it stayed.
  bool MakeRoom(bool may_stay) {
    RowHead* oldest = space_.Oldest();
    const uint32_t place = space_.PlaceOfRow(oldest);
    const size_t row_bytes = size_t{oldest->units} * 8;
    if (!oldest->lives) {
      space_.PassOldest();
      return false;
    }
    const uint64_t hash = HashOf(oldest->Key());
    if (!may_stay || !oldest->was_found) {
      Drop(oldest, hash);
      space_.PassOldest();
      made_room_ = true;
      return false;
    }
    char copy[sizeof(RowHead) + kMostRowBytes + 8];
    std::memcpy(copy, oldest, row_bytes);
    auto* row = reinterpret_cast<RowHead*>(copy);
    uint64_t* word = WordOf(hash, place);
    space_.PassOldest();
    if (!space_.HasRoom(row_bytes)) {  // only where a lap ends
      *word = 0;
      Count(row->Key());
      return false;
    }
    *word = Word(hash, space_.PlaceOfRow(space_.Append(row->Key(), row->Value(), row_bytes)));
    return true;
  }

  // The word of the index that has a row that lives.
  uint64_t* WordOf(uint64_t hash, uint32_t place) const {
    uint64_t* word = space_.SetOf(hash);
    while (*word != Word(hash, place)) ++word;
    return word;
  }
  void Drop(RowHead* row, uint64_t hash) {
    *WordOf(hash, space_.PlaceOfRow(row)) = 0;
    row->lives = false;
    Count(row->Key());
  }
  // A row of such a key has gone.
  void Count(std::string_view key) {
    --accounts_[TableOf(key)].rows;
    --rows_;
  }
  void DropTable(uint8_t table) {
    size_t left = space_.used;
    for (size_t at = space_.tail; left > 0 && Has(table);) {
      auto* row = reinterpret_cast<RowHead*>(space_.ring + at);
      const size_t row_bytes = size_t{row->units} * 8;
      if (row->lives && TableOf(row->Key()) == table) Drop(row, HashOf(row->Key()));
      at = at + row_bytes == space_.ring_bytes ? 0 : at + row_bytes;
      left -= row_bytes;
    }
  }

  // Compares what a table has cost and saved.
  void Settle(uint8_t table) {
    Account* account = &accounts_[table];
    const bool has_rested = account->rests;
    account->rests = !has_rested && account->gain < account->cost;
    account->cost = account->gain = 0;
    if (account->rests) {
      DropTable(table);
      if (rows_ == 0) Release();
    } else if (!has_rested && made_room_) {
      Grow();
    }
  }

  // Moves all rows into twice the space, if there is memory for it.
  void Grow() {
    Space old = space_;
    made_room_ = false;
    if (old.ring_bytes == kMostRingBytes || !space_.Allocate(2 * old.ring_bytes, source_)) return;
    for (; old.used > 0; old.PassOldest()) {
      RowHead* row = old.Oldest();
      if (!row->lives) continue;
      const uint64_t hash = HashOf(row->Key());
      uint64_t* set = space_.SetOf(hash);
      uint64_t* word = set;
      while (word < set + kSetWords && *word != 0) ++word;
      if (word == set + kSetWords) {
        Count(row->Key());
      } else {
        *word = Word(hash, space_.PlaceOfRow(space_.Append(row->Key(), row->Value(), size_t{row->units} * 8)));
      }
    }
    old.Free(source_);
  }
  void Release() {
    space_.Free(source_);
    made_room_ = false;
  }

  MemorySource* source_;
  const uint64_t period_;
  Hash hash_;
  Space space_;
  std::array<Account, kTables> accounts_;
  size_t rows_ = 0;
  uint64_t found_ = 0;
  size_t turn_ = 0;         // which of the keys that were read once makes room
  bool made_room_ = false;  // rows have made room for others since the cache grew
};

using RowCache = RowCacheBy<RowHash>;

}  // namespace sfkv
