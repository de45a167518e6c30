// The rows of one key group, to be found by their keys: small hash tables, the pages, behind a directory.
//
// A page has slots (row_slot.h) and a control byte for each: seven bits of the key's hash, or empty, or deleted. It is probed
// eight control bytes at a time. One that is full is made twice as large, up to kPageBytes, and is then split in two by the next
// bit of the hash, as extendible hashing does: so no insert ever moves more than a page, and a view (row_heap.h) costs its
// writers copies of the pages that they touch. Pages that become nearly empty shrink.
// One thread; what a view sees may be read by any.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "sfkv/row_slot.h"

namespace sfkv {

// A hash of 64 bits. Seeded, so that nobody can choose keys that collide.
class RowHash {
 public:
  uint64_t operator()(std::string_view key) const {
    const char* at = key.data();
    size_t left = key.size();
    uint64_t hash = seed_ ^ (left * kOdd[0]);
    if (left == 8) return Mix(LoadAs<uint64_t>(at) ^ kOdd[1], hash);
    for (; left > 16; left -= 16, at += 16) hash = Mix(LoadAs<uint64_t>(at) ^ kOdd[1], LoadAs<uint64_t>(at + 8) ^ hash);
    char rest[16] = {};
    if (left != 0) std::memcpy(rest, at, left);
    return Mix(Mix(LoadAs<uint64_t>(rest) ^ kOdd[1], LoadAs<uint64_t>(rest + 8) ^ hash), kOdd[2] ^ key.size());
  }

 private:
  static constexpr uint64_t kOdd[3] = {0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F};
  static uint64_t Mix(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  uint64_t seed_ = (static_cast<uint64_t>(std::random_device{}()) << 32) | std::random_device{}();
};

struct HashPage {
  uint64_t born;
  uint32_t slots;    // a power of two, at least 8
  uint32_t count;    // that hold rows
  uint32_t deleted;  // that held one, and are passed over
  uint32_t depth;    // bits of the hash that all rows of the page share

  uint8_t* controls() { return reinterpret_cast<uint8_t*>(this + 1); }
  char* slot(size_t i, size_t slot_bytes) { return reinterpret_cast<char*>(this + 1) + slots + i * slot_bytes; }
  static size_t BytesFor(size_t slots, size_t slot_bytes) { return sizeof(HashPage) + slots * (1 + slot_bytes); }
};

class HashRows {
 public:
  using Page = HashPage;
  static constexpr bool kOrdered = false;

  // What is shared by all key groups of a table.
  struct Context {
    RowHeap* heap;
    SlotForm form;
    RowHash hash;
  };

  // Frees all pages and cells. To be called before it ends.
  void Clear(Context& c) {
    VisitPages([&](HashPage* page) {
      ForEachSlot(page, c.form.bytes(), [&](const char* slot) { c.form.Empty(c.heap, slot); });
      FreePage(c, page);
    });
    c.heap->Count(pages_.capacity() * sizeof(HashPage*), 0);
    pages_ = {};
    depth_ = 0;
    rows_ = 0;
  }

  size_t rows() const { return rows_; }

  // The slot of a key; null if there is none.
  char* Find(const Context& c, std::string_view key) const { return FindHashed(c, key, c.hash(key)); }

  // Finds several keys, and brings what is needed of them into the cache meanwhile.
  char* FindHashed(const Context& c, std::string_view key, uint64_t hash) const {
    if (pages_.empty()) return nullptr;
    HashPage* page = PageOf(hash);
    const size_t index = FindIn(c, page, key, hash);
    return index == kNone ? nullptr : page->slot(index, c.form.bytes());
  }
  void Prefetch(const Context& c, uint64_t hash) const {
    if (pages_.empty()) return;
    HashPage* page = PageOf(hash);
    const size_t at = (hash >> kTagBits) & (page->slots - 1) & ~size_t{7};
    __builtin_prefetch(page->controls() + at);
    __builtin_prefetch(page->slot(at, c.form.bytes()));
    __builtin_prefetch(page->slot(at, c.form.bytes()) + 64);
  }
  // The cell that a key probably has is brought into the cache.
  void PrefetchCell(const Context& c, uint64_t hash) const {
    if (pages_.empty() || !c.form.has_cells()) return;
    HashPage* page = PageOf(hash);
    const size_t at = (hash >> kTagBits) & (page->slots - 1) & ~size_t{7};
    const uint64_t match = MatchTag(LoadControls(page, at), TagOf(hash));
    if (match != 0) __builtin_prefetch(c.form.CellOf(page->slot(at + FirstOf(match), c.form.bytes())));
  }

  // Makes a row of a key, or gives the one that is there another value, and returns where that is to be written: the first "kept"
  // bytes of the old one stay.
  char* Place(Context& c, std::string_view key, size_t value_bytes, size_t kept) {
    const uint64_t hash = c.hash(key);
    if (pages_.empty()) AddFirstPage(c);
    HashPage* page = PageOf(hash);
    const size_t found = FindIn(c, page, key, hash);
    if (found != kNone) {
      page = Own(c, page, hash);
      return c.form.Resize(c.heap, page->slot(found, c.form.bytes()), value_bytes, kept);
    }
    while ((page->count + page->deleted + 1) * 8 > page->slots * 7) page = MakeRoom(c, page, hash);
    page = Own(c, page, hash);
    const size_t index = FreeSlot(page, hash);
    char* slot = page->slot(index, c.form.bytes());
    c.form.Fill(c.heap, slot, key, value_bytes);  // the last that may fail
    page->deleted -= page->controls()[index] == kDeleted;
    page->controls()[index] = TagOf(hash);
    ++page->count;
    ++rows_;
    return c.form.ValueAt(slot);
  }

  // Removes a row. False if there is none.
  bool Erase(Context& c, std::string_view key) {
    if (pages_.empty()) return false;
    const uint64_t hash = c.hash(key);
    HashPage* page = PageOf(hash);
    const size_t index = FindIn(c, page, key, hash);
    if (index == kNone) return false;
    if (rows_ == 1) {
      Clear(c);
      return true;
    }
    page = Own(c, page, hash);
    --rows_;
    c.form.Empty(c.heap, page->slot(index, c.form.bytes()));
    // A probe ends at an empty control byte, so the place may be given back where its group has one already.
    const bool ends_probes = MatchEmpty(LoadControls(page, index & ~size_t{7})) != 0;
    page->controls()[index] = ends_probes ? kEmpty : kDeleted;
    page->deleted += !ends_probes;
    --page->count;
    if (page->slots > kLeastSlots && page->count * 8 < page->slots) Rehash(c, page, hash, SlotsFor(page->count));
    return true;
  }

  // The pages, each once; they hold the rows in no order.
  template <typename Visit>
  void VisitPages(Visit&& visit) const {
    for (size_t i = 0; i < pages_.size(); i += size_t{1} << (depth_ - pages_[i]->depth)) visit(pages_[i]);
  }
  template <typename Visit>
  static void ForEachSlot(HashPage* page, size_t slot_bytes, Visit&& visit) {
    for (size_t i = 0; i < page->slots; ++i) {
      if (page->controls()[i] < kEmpty) visit(page->slot(i, slot_bytes));
    }
  }

 private:
  static constexpr uint8_t kEmpty = 0x80, kDeleted = 0xFE;
  static constexpr int kTagBits = 7;
  static constexpr size_t kNone = static_cast<size_t>(-1);
  static constexpr size_t kLeastSlots = 8;
  static constexpr size_t kPageBytes = 16384;
  static constexpr uint32_t kMostDepth = 28;  // beyond it pages grow instead
  static constexpr uint64_t kLows = 0x0101010101010101, kHighs = 0x8080808080808080;

  static uint8_t TagOf(uint64_t hash) { return static_cast<uint8_t>(hash & 0x7F); }
  static uint64_t LoadControls(HashPage* page, size_t at) { return LoadAs<uint64_t>(reinterpret_cast<const char*>(page->controls() + at)); }
  // Bit 8 i + 7 is set for the bytes that are meant; MatchTag() may err, and the key tells.
  static uint64_t MatchTag(uint64_t controls, uint8_t tag) {
    const uint64_t x = controls ^ (kLows * tag);
    return (x - kLows) & ~x & kHighs;
  }
  static uint64_t MatchEmpty(uint64_t controls) { return controls & ~(controls << 6) & kHighs; }
  static uint64_t MatchFree(uint64_t controls) { return controls & kHighs; }
  static size_t FirstOf(uint64_t match) { return static_cast<size_t>(__builtin_ctzll(match)) >> 3; }

  size_t IndexOf(uint64_t hash) const { return depth_ == 0 ? 0 : hash >> (64 - depth_); }
  HashPage* PageOf(uint64_t hash) const { return pages_[IndexOf(hash)]; }

  // Visits the groups of eight slots in which a hash may lie, until visit(first slot) returns true.
  template <typename Visit>
  static void Probe(const HashPage* page, uint64_t hash, Visit&& visit) {
    const size_t mask = page->slots - 1;
    size_t at = (hash >> kTagBits) & mask & ~size_t{7};
    for (size_t step = 8;; step += 8) {
      if (visit(at)) return;
      at = (at + step) & mask;
    }
  }

  static size_t FindIn(const Context& c, HashPage* page, std::string_view key, uint64_t hash) {
    size_t found = kNone;
    const uint8_t tag = TagOf(hash);
    Probe(page, hash, [&](size_t at) {
      const uint64_t controls = LoadControls(page, at);
      for (uint64_t match = MatchTag(controls, tag); match != 0; match &= match - 1) {
        const size_t index = at + FirstOf(match);
        if (page->controls()[index] != tag || !c.form.HasKey(page->slot(index, c.form.bytes()), key)) continue;
        found = index;
        return true;
      }
      return MatchEmpty(controls) != 0;
    });
    return found;
  }
  static size_t FreeSlot(HashPage* page, uint64_t hash) {
    size_t found = 0;
    Probe(page, hash, [&](size_t at) {
      const uint64_t free = MatchFree(LoadControls(page, at));
      if (free != 0) found = at + FirstOf(free);
      return free != 0;
    });
    return found;
  }

  static size_t SlotsFor(size_t count) {
    size_t slots = kLeastSlots;
    while (slots * 5 < count * 8) slots *= 2;
    return slots;
  }
  static size_t MostSlots(const Context& c) {
    size_t slots = 64;
    while (slots < 512 && HashPage::BytesFor(slots * 2, c.form.bytes()) <= kPageBytes) slots *= 2;
    return slots;
  }

  static HashPage* NewPage(Context& c, size_t slots, uint32_t depth) {
    auto* page = static_cast<HashPage*>(c.heap->Allocate(HashPage::BytesFor(slots, c.form.bytes())));
    page->born = c.heap->epoch();
    page->slots = static_cast<uint32_t>(slots);
    page->count = page->deleted = 0;
    page->depth = depth;
    std::memset(page->controls(), kEmpty, slots);
    return page;
  }
  static void FreePage(Context& c, HashPage* page) { c.heap->Free(page, HashPage::BytesFor(page->slots, c.form.bytes()), page->born); }

  void AddFirstPage(Context& c) {
    pages_.assign(1, NewPage(c, kLeastSlots, 0));
    c.heap->Count(0, pages_.capacity() * sizeof(HashPage*));
  }

  // Puts a page where "old" was, in all of the directory's entries for it.
  void Replace(HashPage* old, HashPage* page, uint64_t hash) {
    const size_t count = size_t{1} << (depth_ - old->depth);
    const size_t first = IndexOf(hash) & ~(count - 1);
    std::fill_n(pages_.begin() + static_cast<std::ptrdiff_t>(first), count, page);
  }

  // The page itself, or a copy that no view sees.
  HashPage* Own(Context& c, HashPage* page, uint64_t hash) {
    if (!c.heap->IsSeen(page->born)) return page;
    const size_t bytes = HashPage::BytesFor(page->slots, c.form.bytes());
    auto* copy = static_cast<HashPage*>(c.heap->Allocate(bytes));
    std::memcpy(static_cast<void*>(copy), page, bytes);
    copy->born = c.heap->epoch();
    Replace(page, copy, hash);
    FreePage(c, page);
    return copy;
  }

  // Moves a slot's row, as it is, to a page that has room.
  static void Move(const Context& c, const char* slot, HashPage* to, uint64_t hash) {
    const size_t index = FreeSlot(to, hash);
    to->controls()[index] = TagOf(hash);
    ++to->count;
    std::memcpy(to->slot(index, c.form.bytes()), slot, c.form.bytes());
  }

  void Rehash(Context& c, HashPage* page, uint64_t hash, size_t slots) {
    HashPage* made = NewPage(c, slots, page->depth);
    ForEachSlot(page, c.form.bytes(), [&](const char* slot) { Move(c, slot, made, c.hash(c.form.Key(slot))); });
    Replace(page, made, hash);
    FreePage(c, page);
  }

  // Makes room for a row in the page of a hash, and returns the page that the hash belongs to now.
  HashPage* MakeRoom(Context& c, HashPage* page, uint64_t hash) {
    if (page->deleted * 4 > page->slots) {
      Rehash(c, page, hash, page->slots);
    } else if (page->slots < MostSlots(c) || page->depth == kMostDepth) {
      Rehash(c, page, hash, size_t{page->slots} * 2);
    } else {
      Split(c, page, hash);
    }
    return PageOf(hash);
  }

  void Split(Context& c, HashPage* page, uint64_t hash) {
    if (page->depth == depth_) GrowDirectory(c);
    const uint32_t depth = page->depth + 1;
    HashPage* halves[2] = {NewPage(c, page->slots, depth), NewPage(c, page->slots, depth)};
    ForEachSlot(page, c.form.bytes(), [&](const char* slot) {
      const uint64_t moved = c.hash(c.form.Key(slot));
      Move(c, slot, halves[(moved >> (64 - depth)) & 1], moved);
    });
    const size_t count = size_t{1} << (depth_ - depth);
    const size_t first = IndexOf(hash) & ~(2 * count - 1);
    for (size_t half = 0; half < 2; ++half) {
      std::fill_n(pages_.begin() + static_cast<std::ptrdiff_t>(first + half * count), count, halves[half]);
    }
    FreePage(c, page);
  }

  void GrowDirectory(Context& c) {
    std::vector<HashPage*> grown(pages_.size() * 2);
    for (size_t i = 0; i < grown.size(); ++i) grown[i] = pages_[i / 2];
    c.heap->Count(pages_.capacity() * sizeof(HashPage*), grown.capacity() * sizeof(HashPage*));
    pages_ = std::move(grown);
    ++depth_;
  }

  std::vector<HashPage*> pages_;  // by the first "depth_" bits of the hash
  uint32_t depth_ = 0;
  size_t rows_ = 0;
};

}  // namespace sfkv
