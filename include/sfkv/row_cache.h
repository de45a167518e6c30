// Rows that are read again and again, kept in front of the engine: where a few keys are most of what is asked for, finding them in
// blocks costs the engine as much as all others.
//
// A row comes in when it is read for the second time while it is still remembered that it was read before. Rows lie in a ring, in the
// order in which they came; the oldest makes room for the next, but one that was found since gets another round (CLOCK). They
// are found through an index of sets of eight words, each a line of memory, in which no two words have the same tag:
//
//   word := [tag: 31 bits of the key's hash, and a one] [where the row lies in the ring, in units of 8 bytes, from 1; 0 for a key read once]
//   row  := RowHead · key · value, padded to 8 bytes
//
// What is kept is what the engine has: whoever writes says so, and a row is changed or dropped with it. Per table, what looking costs
// is set against what it saves, from time to time: where that is little, the table rests, and is tried again much later. The
// cache begins small, or, where that was of no use, larger; it grows while it is worth it and rows make room for others; and it
// gives its memory back when all tables rest. One thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

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

namespace internal {

struct RowHead {
  static constexpr size_t kMostBytes = 1024;  // of key and value

  uint8_t units;  // of 8 bytes, in the ring
  uint8_t lives : 1;      // the index has it
  uint8_t was_found : 1;  // since it came, or was given another round
  uint16_t generation;    // of its table, when it came
  uint16_t key_bytes;
  uint16_t value_bytes;

  char* key() { return reinterpret_cast<char*>(this + 1); }
  std::string_view Key() { return {key(), key_bytes}; }
  std::string_view Value() { return {key() + key_bytes, value_bytes}; }
  size_t bytes() const { return size_t{units} * 8; }
  static size_t BytesFor(size_t key_bytes, size_t value_bytes) { return (sizeof(RowHead) + key_bytes + value_bytes + 7) & ~size_t{7}; }
};
static_assert(sizeof(RowHead) == 8 && 2 * sizeof(RowHead) + RowHead::kMostBytes <= 255 * 8, "the units of a row fit a byte");

// The rows in the order in which they came, and the words that find them.
class RowRing {
 public:
  static constexpr size_t kSetWords = 8;

  size_t ring_bytes() const { return ring_bytes_; }
  size_t bytes() const { return ring_bytes_ + sets_ * kSetBytes; }
  bool is_empty() const { return used_ == 0; }

  bool Allocate(size_t ring_bytes, MemorySource* source) {
    RowRing made;
    made.ring_bytes_ = ring_bytes;
    made.sets_ = ring_bytes / 128;  // two words for each row of an int64
    if (source == nullptr || !source->Take(made.bytes())) return false;
    made.ring_ = static_cast<char*>(std::malloc(ring_bytes));
    made.index_memory_ = std::calloc(made.sets_ + 1, kSetBytes);
    if (made.ring_ == nullptr || made.index_memory_ == nullptr) {
      made.Free(source);
      return false;
    }
    made.index_ = reinterpret_cast<uint64_t*>((reinterpret_cast<uintptr_t>(made.index_memory_) + kSetBytes - 1) & ~(kSetBytes - 1));
    *this = made;
    return true;
  }
  void Free(MemorySource* source) {
    std::free(ring_);
    std::free(index_memory_);
    if (ring_bytes_ != 0) source->GiveBack(bytes());
    *this = RowRing();
  }
  void Empty() {
    head_ = tail_ = used_ = 0;
    std::memset(index_, 0, sets_ * kSetBytes);
  }

  uint64_t* SetOf(uint64_t hash) const { return index_ + (hash & (sets_ - 1)) * kSetWords; }
  RowHead* RowAt(uint32_t place) const { return reinterpret_cast<RowHead*>(ring_ + size_t{place - 1} * 8); }
  uint32_t PlaceOf(const RowHead* row) const { return static_cast<uint32_t>((reinterpret_cast<const char*>(row) - ring_) / 8 + 1); }

  // REQUIRES: !is_empty().
  RowHead* Oldest() const { return reinterpret_cast<RowHead*>(ring_ + tail_); }
  void PassOldest() {
    const size_t row_bytes = Oldest()->bytes();
    tail_ = tail_ + row_bytes == ring_bytes_ ? 0 : tail_ + row_bytes;
    used_ -= row_bytes;
  }
  bool HasRoom(size_t row_bytes) const { return ring_bytes_ - used_ >= row_bytes && ring_bytes_ - head_ >= row_bytes; }
  // Ends the lap if the row does not fit into what is left of it and nothing lies there: then the next row goes to the ring's start.
  bool EndLap(size_t row_bytes) {
    const size_t rest = ring_bytes_ - head_;
    if (rest >= row_bytes || ring_bytes_ - used_ < rest) return false;
    *reinterpret_cast<RowHead*>(ring_ + head_) = {static_cast<uint8_t>(rest / 8), 0, 0, 0, 0, 0};
    used_ += rest;
    head_ = 0;
    return true;
  }
  // REQUIRES: HasRoom().
  RowHead* Append(std::string_view key, std::string_view value, uint16_t generation) {
    const size_t row_bytes = RowHead::BytesFor(key.size(), value.size());
    auto* made = reinterpret_cast<RowHead*>(ring_ + head_);
    *made = {static_cast<uint8_t>(row_bytes / 8), 1, 0, generation, static_cast<uint16_t>(key.size()), static_cast<uint16_t>(value.size())};
    std::memcpy(made->key(), key.data(), key.size());
    if (!value.empty()) std::memcpy(made->key() + key.size(), value.data(), value.size());
    head_ = head_ + row_bytes == ring_bytes_ ? 0 : head_ + row_bytes;
    used_ += row_bytes;
    return made;
  }

 private:
  static constexpr size_t kSetBytes = kSetWords * sizeof(uint64_t);

  char* ring_ = nullptr;
  void* index_memory_ = nullptr;
  uint64_t* index_ = nullptr;  // in it, at the start of a line
  size_t ring_bytes_ = 0;
  size_t sets_ = 0;  // a power of two
  size_t head_ = 0;  // where the next row goes
  size_t tail_ = 0;  // the oldest row
  size_t used_ = 0;  // bytes between them
};

}  // namespace internal

template <typename Hash>
class RowCacheBy {
 public:
  static constexpr size_t kMostRowBytes = internal::RowHead::kMostBytes;  // longer ones are not kept
  static constexpr size_t kMostAtOnce = 64;

  // "source" outlives it; null for none. "period": lookups after which a table's cost and gain are compared.
  explicit RowCacheBy(MemorySource* source, uint64_t period = 1 << 17) : source_(source), period_(period) {}
  ~RowCacheBy() { Release(); }
  RowCacheBy(const RowCacheBy&) = delete;
  RowCacheBy& operator=(const RowCacheBy&) = delete;

  size_t bytes() const { return ring_.bytes(); }
  size_t rows() const { return rows_; }
  uint64_t found() const { return found_; }

  // Whether rows of a table are worth looking for. To be asked before each read, of "keys" of them.
  bool IsWorthIt(uint8_t table, size_t keys) {
    Account* account = &accounts_[table];
    if (account->cost >= (account->rests ? kRestPeriods : 1) * Period() && account->reads >= kLeastReads) Settle(account);
    account->cost += keys;
    ++account->reads;
    if (!account->rests && ring_.ring_bytes() == 0) account->rests = !Begin();
    return !account->rests;
  }

  // Finds a row; no data if there is none. Valid until a row is offered or written, or IsWorthIt() is asked. REQUIRES: IsWorthIt().
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
      __builtin_prefetch(ring_.SetOf(hashes[i]));
    }
    for (size_t i = 0; i < count; ++i) {
      places[i] = PlaceOf(hashes[i]);
      if (places[i] != kOnlySeen) __builtin_prefetch(ring_.RowAt(places[i]));
    }
    for (size_t i = 0; i < count; ++i) rows[i] = FindAt(key_of(i), places[i]);
  }

  // Takes note that a row was read, and keeps it if that is not the first time. REQUIRES: it was looked for, which gave its hash, and not found.
  void Offer(std::string_view key, uint64_t hash, std::string_view row) {
    if (key.size() + row.size() > kMostRowBytes) return;
    uint64_t* set = ring_.SetOf(hash);
    uint64_t* free = nullptr;
    for (size_t i = 0; i < kSetWords; ++i) {
      if (TagOf(set[i]) == TagOf(hash)) return OfferAgain(key, hash, row, &set[i]);
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
    Change changes[kChunk];
    size_t count = 0;
    const bool is_known = ForEachWrite(serialized, [&](WriteKind kind, std::string_view key, std::string_view value) {
      if (!Has(TableOf(key))) return;
      if (kind == WriteKind::kDeleteRange) return ClearTable(TableOf(key));
      const uint64_t hash = HashOf(key);
      changes[count++] = {kind, key.data(), key.size(), value.data(), value.size(), hash};
      __builtin_prefetch(ring_.SetOf(hash));
      if (count == kChunk) {
        Apply(changes, count);
        count = 0;
      }
    });
    Apply(changes, count);
    if (!is_known) Clear();
  }
  // Drops everything: what the engine has is not known.
  void Clear() {
    if (rows_ == 0) return;
    ring_.Empty();
    ForgetRows();
  }

 private:
  using RowHead = internal::RowHead;
  static constexpr size_t kSetWords = internal::RowRing::kSetWords;
  static constexpr uint32_t kOnlySeen = 0;
  static constexpr size_t kChunk = 32;
  static constexpr size_t kLeastRingBytes = size_t{256} << 10;
  static constexpr size_t kFirstRingBytes = size_t{1} << 20;
  static constexpr size_t kMostRingBytes = size_t{64} << 20;
  static constexpr uint64_t kRestPeriods = 16;  // of keys that are read before a table is tried again
  static constexpr uint64_t kLeastReads = 4;    // in a period: a row is found at its third
  static constexpr uint64_t kGain = 32;         // lookups that a row that is found pays for
  static constexpr int kMostRounds = 8;         // rows that are given another round for one that comes

  // A write of a batch; without constructors, as most of them are never used.
  struct Change {
    WriteKind kind;
    const char* key;
    size_t key_bytes;
    const char* value;
    size_t value_bytes;
    uint64_t hash;
  };
  // What looking for a table's rows has cost, in lookups, and what it has saved.
  struct Account {
    uint64_t cost = 0;
    uint64_t gain = 0;
    uint64_t reads = 0;
    size_t rows = 0;          // that are kept now
    uint16_t generation = 0;  // rows of an earlier one are no more
    bool rests = false;
  };

  static uint64_t TagOf(uint64_t word) { return word >> 32; }
  static uint32_t PlaceIn(uint64_t word) { return static_cast<uint32_t>(word); }
  static uint64_t Word(uint64_t hash, uint32_t place) { return (hash & ~uint64_t{0xFFFFFFFF}) | place; }
  // The tag is never 0: no word of a key is that of an empty place.
  uint64_t HashOf(std::string_view key) const { return hash_(key) | uint64_t{1} << 32; }

  bool Has(uint8_t table) const { return accounts_[table].rows != 0; }
  bool IsCurrent(RowHead* row) const { return row->generation == accounts_[TableOf(row->Key())].generation; }
  bool IsRowOf(RowHead* row, std::string_view key) const { return row->Key() == key && IsCurrent(row); }

  // Where a row with such a hash lies, kOnlySeen if nowhere.
  uint32_t PlaceOf(uint64_t hash) const {
    const uint64_t* set = ring_.SetOf(hash);
    for (size_t i = 0; i < kSetWords; ++i) {
      if (TagOf(set[i]) == TagOf(hash)) return PlaceIn(set[i]);
    }
    return kOnlySeen;
  }
  std::string_view FindAt(std::string_view key, uint32_t place) {
    if (place == kOnlySeen) return {};
    RowHead* row = ring_.RowAt(place);
    if (!IsRowOf(row, key)) return {};
    row->was_found = 1;
    accounts_[TableOf(key)].gain += kGain;
    ++found_;
    return row->Value();
  }

  // The same where the index has a word with the key's tag.
  void OfferAgain(std::string_view key, uint64_t hash, std::string_view value, uint64_t* word) {
    if (PlaceIn(*word) == kOnlySeen) return Keep(key, hash, value, word);
    RowHead* other = ring_.RowAt(PlaceIn(*word));
    if (IsCurrent(other)) return;  // another key's, which has the place
    other->lives = 0;
    *word = Word(hash, kOnlySeen);
  }
  // Puts a row into the ring, and where it lies into "word", which is the index's.
  void Keep(std::string_view key, uint64_t hash, std::string_view value, uint64_t* word) {
    const size_t row_bytes = RowHead::BytesFor(key.size(), value.size());
    for (int rounds = 0; !ring_.HasRoom(row_bytes);) {
      if (!ring_.EndLap(row_bytes)) rounds += MakeRoom(/*may_stay=*/rounds < kMostRounds) ? 1 : 0;
    }
    Account* account = &accounts_[TableOf(key)];
    *word = Word(hash, ring_.PlaceOf(ring_.Append(key, value, account->generation)));
    ++account->rows;
    ++rows_;
  }
  // Takes the oldest row out of the ring, or, if it was found and may stay, to the head. Whether it stayed.
  bool MakeRoom(bool may_stay) {
    RowHead* oldest = ring_.Oldest();
    const bool was_of_use = oldest->lives && IsCurrent(oldest);
    made_room_ |= was_of_use;
    alignas(RowHead) char copy[sizeof(RowHead) + kMostRowBytes + 8];
    const bool stays = was_of_use && oldest->was_found && may_stay;
    if (stays) std::memcpy(copy, oldest, oldest->bytes());
    const uint64_t hash = oldest->lives ? HashOf(oldest->Key()) : 0;
    uint64_t* word = oldest->lives ? WordOf(hash, ring_.PlaceOf(oldest)) : nullptr;
    if (oldest->lives && !stays) Drop(oldest, word);
    ring_.PassOldest();
    if (!stays) return false;
    auto* row = reinterpret_cast<RowHead*>(copy);
    if (!ring_.HasRoom(row->bytes())) {  // where a lap ends
      Drop(row, word);
      return false;
    }
    *word = Word(hash, ring_.PlaceOf(ring_.Append(row->Key(), row->Value(), row->generation)));
    return true;
  }
  // The word of the index that has a row that lives.
  uint64_t* WordOf(uint64_t hash, uint32_t place) const {
    uint64_t* word = ring_.SetOf(hash);
    while (*word != Word(hash, place)) ++word;
    return word;
  }
  // REQUIRES: the row lives, and "word" has it.
  void Drop(RowHead* row, uint64_t* word) {
    *word = 0;
    row->lives = 0;
    if (!IsCurrent(row)) return;  // it was counted out before
    --accounts_[TableOf(row->Key())].rows;
    --rows_;
  }

  // Counts a write. A table that is hardly read any more is cleared, which makes its writes cheap.
  bool IsWritten(uint8_t table) {
    if (!Has(table)) return false;
    if (++accounts_[table].cost <= kRestPeriods * Period()) return true;
    ClearTable(table);
    return false;
  }
  void PutHashed(std::string_view key, uint64_t hash, std::string_view value) {
    if (!IsWritten(TableOf(key))) return;
    const uint32_t place = PlaceOf(hash);
    if (place == kOnlySeen) return;
    RowHead* row = ring_.RowAt(place);
    if (!IsRowOf(row, key)) return;
    if (row->value_bytes != value.size()) {
      Drop(row, WordOf(hash, place));
    } else if (!value.empty()) {
      std::memcpy(row->key() + row->key_bytes, value.data(), value.size());
    }
  }
  void EraseHashed(std::string_view key, uint64_t hash) {
    if (!IsWritten(TableOf(key))) return;
    const uint32_t place = PlaceOf(hash);
    if (place != kOnlySeen && IsRowOf(ring_.RowAt(place), key)) Drop(ring_.RowAt(place), WordOf(hash, place));
  }
  void Apply(const Change* changes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const uint32_t place = PlaceOf(changes[i].hash);
      if (place != kOnlySeen) __builtin_prefetch(ring_.RowAt(place));
    }
    for (size_t i = 0; i < count; ++i) {
      const Change& change = changes[i];
      const std::string_view key(change.key, change.key_bytes);
      if (change.kind == WriteKind::kPut) {
        PutHashed(key, change.hash, {change.value, change.value_bytes});
      } else {
        EraseHashed(key, change.hash);
      }
    }
  }

  // All rows of a table are no more: they stay where they are, of a generation that is over, until others need their room.
  void ClearTable(uint8_t table) {
    Account* account = &accounts_[table];
    rows_ -= account->rows;
    account->rows = 0;
    if (++account->generation != 0) return;
    ring_.Empty();  // rows of the first generation may still be there, and it begins anew
    ForgetRows();
  }
  void ForgetRows() {
    for (Account& account : accounts_) account.rows = 0;
    rows_ = 0;
  }

  uint64_t Period() const { return std::max<uint64_t>(period_, ring_.ring_bytes() / 8); }

  // Compares what a table has cost and saved, or lets it be tried again.
  void Settle(Account* account) {
    const bool has_rested = account->rests;
    account->rests = !has_rested && account->gain < account->cost;
    account->cost = account->gain = account->reads = 0;
    if (has_rested) return;
    if (!account->rests) {
      if (made_room_) Grow();
    } else if (std::all_of(accounts_.begin(), accounts_.end(), [](const Account& one) { return one.rests || one.reads == 0; })) {
      first_ring_bytes_ = ring_.ring_bytes() < first_ring_bytes_ ? kFirstRingBytes : std::min(kMostRingBytes, 2 * ring_.ring_bytes());
      Release();
    }
  }
  // Takes memory, as much as there is to spare. False if that is too little.
  bool Begin() {
    for (size_t bytes = first_ring_bytes_; bytes >= kLeastRingBytes; bytes /= 2) {
      if (ring_.Allocate(bytes, source_)) return true;
    }
    return false;
  }
  // Begins anew in twice the space, if there is memory for it: moving the rows would take as long as reading them again.
  void Grow() {
    const size_t before = ring_.ring_bytes();
    made_room_ = false;
    if (before == kMostRingBytes) return;
    Release();
    if (!ring_.Allocate(2 * before, source_)) ring_.Allocate(before, source_);
  }
  void Release() {
    ring_.Free(source_);
    ForgetRows();
    made_room_ = false;
  }

  MemorySource* source_;
  const uint64_t period_;
  Hash hash_;
  internal::RowRing ring_;
  std::array<Account, 256> accounts_;  // by table
  size_t rows_ = 0;
  uint64_t found_ = 0;
  size_t first_ring_bytes_ = kFirstRingBytes;  // of a cache that begins
  size_t turn_ = 0;         // which of the keys that were read once makes room
  bool made_room_ = false;  // rows have made room for others since the cache grew
};

using RowCache = RowCacheBy<RowHash>;

}  // namespace sfkv
