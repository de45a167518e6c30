// The rows of one key group, to be found by their keys: small hash tables, the pages, behind a directory.
//
// A page is groups of eight control bytes and eight slots (row_slot.h): a control byte is seven bits of the key's hash, or says that its
// slot is empty or deleted. It is probed a group at a time; the directory says how many there are, so that a lookup that goes well
// waits for one line of memory, or two. A page that is full is made twice as large, up to kPageBytes, and is then split in two by
// the next bit of the hash, as extendible hashing does: so no insert ever moves more than a page, and a view (row_heap.h) costs
// its writers copies of the pages that they touch. Pages that become nearly empty shrink.
// One thread; what a view sees may be read by any.
#pragma once

#include <algorithm>
#include <vector>

#include "sfkv/row_hash.h"
#include "sfkv/row_slot.h"

namespace sfkv {

struct HashPage {
  uint64_t born;
  uint32_t slots;    // a power of two, at least 8
  uint32_t count;    // that hold rows
  uint32_t deleted;  // that held one, and are passed over
  uint32_t depth;    // bits of the hash that all rows of the page share

  // The control bytes of the group of slot "i", which is its first.
  char* controls(size_t i, size_t slot_bytes) { return reinterpret_cast<char*>(this + 1) + i * (1 + slot_bytes); }
  uint8_t* control(size_t i, size_t slot_bytes) { return reinterpret_cast<uint8_t*>(controls(i & ~size_t{7}, slot_bytes) + (i & 7)); }
  char* slot(size_t i, size_t slot_bytes) { return controls(i & ~size_t{7}, slot_bytes) + 8 + (i & 7) * slot_bytes; }
  static size_t BytesFor(size_t slots, size_t slot_bytes) { return sizeof(HashPage) + slots * (1 + slot_bytes); }
};

// A page and how many slots it has, in one word: pages are aligned.
class HashPageRef {
 public:
  HashPageRef() = default;
  explicit HashPageRef(HashPage* page)
      : bits_(reinterpret_cast<uintptr_t>(page) | static_cast<uintptr_t>(__builtin_ctz(page->slots) - kLeastShift)) {}
  HashPage* page() const { return reinterpret_cast<HashPage*>(bits_ & ~kMask); }
  size_t slots() const { return size_t{1} << ((bits_ & kMask) + kLeastShift); }

 private:
  static constexpr uintptr_t kMask = 15;
  static constexpr int kLeastShift = 3;
  uintptr_t bits_ = 0;
};

class HashRows {
 public:
  static constexpr bool kOrdered = false;

  // What is shared by all key groups of a table.
  struct Context {
    RowHeap* heap;
    SlotForm form;
    RowHash hash;
  };

  // Frees all pages and heap rows. To be called before it ends.
  void Clear(Context& c) {
    VisitPages([&](HashPage* page) {
      ForEachSlot(page, c.form.bytes(), [&](const char* slot) { c.form.Empty(c.heap, slot); });
      FreePage(c, page);
    });
    c.heap->Count(pages_.capacity() * sizeof(HashPageRef), 0);
    pages_ = std::vector<HashPageRef>();  // not {}, which would keep the memory
    depth_ = 0;
    rows_ = 0;
  }

  size_t rows() const { return rows_; }

  // The slot of a key; null if there is none.
  char* Find(const Context& c, std::string_view key) const { return FindHashed(c, key, c.hash(key)); }

  // The same of one whose hash is known, as of several that were brought into the cache by it.
  char* FindHashed(const Context& c, std::string_view key, uint64_t hash) const {
    if (pages_.empty()) return nullptr;
    const HashPageRef ref = pages_[IndexOf(hash)];
    const size_t index = FindIn(c, ref, key, hash);
    return index == kNone ? nullptr : ref.page()->slot(index, c.form.bytes());
  }
  // Inlined, because GCC takes a function that only does this for one without effect.
  __attribute__((always_inline)) void Prefetch(const Context& c, uint64_t hash) const {
    if (pages_.empty()) return;
    const HashPageRef ref = pages_[IndexOf(hash)];
    const char* group = ref.page()->controls(FirstGroup(ref, hash), c.form.bytes());
    __builtin_prefetch(group);
    __builtin_prefetch(group + 64);
    __builtin_prefetch(group + 128);
  }
  // The same before a write, which looks at the page's head too.
  __attribute__((always_inline)) void PrefetchWrite(const Context& c, uint64_t hash) const {
    Prefetch(c, hash);
    if (!pages_.empty()) __builtin_prefetch(pages_[IndexOf(hash)].page());
  }
  // The heap row that a key probably has is brought into the cache. REQUIRES: the form has heap rows.
  __attribute__((always_inline)) void PrefetchHeapRow(const Context& c, uint64_t hash) const {
    SFKV_REQUIRES(c.form.has_heap_rows());
    if (pages_.empty()) return;
    const HashPageRef ref = pages_[IndexOf(hash)];
    const size_t at = FirstGroup(ref, hash);
    const uint64_t match = MatchTag(LoadAs<uint64_t>(ref.page()->controls(at, c.form.bytes())), TagOf(hash));
    if (match == 0) return;
    const char* row = reinterpret_cast<const char*>(c.form.HeapRowOf(ref.page()->slot(at + FirstOf(match), c.form.bytes())));
    __builtin_prefetch(row);
    __builtin_prefetch(row + 64);
  }

  // Makes a row of a key, or gives the one that is there another value, and returns where that is to be written: the first "kept"
  // bytes of the old one stay.
  char* Place(Context& c, std::string_view key, size_t value_bytes, size_t kept) {
    const uint64_t hash = c.hash(key);
    if (pages_.empty()) AddFirstPage(c);
    HashPage* page = PageOf(hash);
    const size_t found = FindIn(c, pages_[IndexOf(hash)], key, hash);
    if (found != kNone) {
      page = Own(c, page, hash);
      return c.form.Resize(c.heap, page->slot(found, c.form.bytes()), value_bytes, kept);
    }
    while ((page->count + page->deleted + 1) * 8 > page->slots * 7) page = MakeRoom(c, page, hash, c.form.HeapRowBytes(key.size(), value_bytes));
    page = Own(c, page, hash);
    const size_t index = FreeSlot(c, page, hash);
    char* slot = page->slot(index, c.form.bytes());
    c.form.Fill(c.heap, slot, key, value_bytes);  // the last that may fail
    uint8_t* control = page->control(index, c.form.bytes());
    page->deleted -= *control == kDeleted;
    *control = TagOf(hash);
    ++page->count;
    ++rows_;
    return c.form.ValueAt(slot);
  }

  // Removes a row. False if there is none; it is there if that fails.
  bool Erase(Context& c, std::string_view key) {
    if (pages_.empty()) return false;
    const uint64_t hash = c.hash(key);
    HashPage* page = PageOf(hash);
    const size_t index = FindIn(c, pages_[IndexOf(hash)], key, hash);
    if (index == kNone) return false;
    if (rows_ == 1) {
      Clear(c);
      return true;
    }
    page = Own(c, page, hash);
    --rows_;
    c.form.Empty(c.heap, page->slot(index, c.form.bytes()));
    // A probe ends at an empty control byte, so the place may be given back where its group has one already.
    const bool ends_probes = MatchEmpty(LoadAs<uint64_t>(page->controls(index & ~size_t{7}, c.form.bytes()))) != 0;
    *page->control(index, c.form.bytes()) = ends_probes ? kEmpty : kDeleted;
    page->deleted += !ends_probes;
    --page->count;
    if (page->slots > kLeastSlots && page->count * 8 < page->slots) Shrink(c, page, hash, SlotsFor(page->count));
    return true;
  }

  // Gives back the room that was made for rows which were taken back: of the page of a key, and of its row. Never fails: where there is
  // no memory for what is smaller, the room stays.
  void Trim(Context& c, std::string_view key) {
    if (pages_.empty()) return;
    const uint64_t hash = c.hash(key);
    HashPage* page = PageOf(hash);
    size_t slots = kLeastSlots;
    while (slots * 7 < size_t{page->count} * 8) slots *= 2;
    if (slots < page->slots) Shrink(c, page, hash, slots);
    page = PageOf(hash);
    const size_t found = FindIn(c, pages_[IndexOf(hash)], key, hash);
    if (found != kNone && !c.heap->IsSeen(page->born)) c.form.Trim(c.heap, page->slot(found, c.form.bytes()));
  }

  // The pages, each once; they hold the rows in no order. "visit" may free its page.
  template <typename Visit>
  void VisitPages(Visit&& visit) const {
    const HashPage* last = nullptr;  // by the directory alone, in which a page's entries are neighbours: no page is waited for
    for (const HashPageRef ref : pages_) {
      if (ref.page() == last) continue;
      last = ref.page();
      visit(ref.page());
    }
  }
  template <typename Visit>
  static void ForEachSlot(HashPage* page, size_t slot_bytes, Visit&& visit) {
    for (size_t i = 0; i < page->slots; ++i) {
      if (*page->control(i, slot_bytes) < kEmpty) visit(page->slot(i, slot_bytes));
    }
  }

 private:
  static constexpr uint8_t kEmpty = 0x80, kDeleted = 0xFE;
  static constexpr int kTagBits = 7;
  static constexpr size_t kNone = static_cast<size_t>(-1);
  static constexpr size_t kLeastSlots = 8;
  static constexpr size_t kPageBytes = 8192;
  static constexpr uint32_t kMostDepth = 28;  // beyond it pages grow instead
  static constexpr uint64_t kLows = 0x0101010101010101, kHighs = 0x8080808080808080;

  static uint8_t TagOf(uint64_t hash) { return static_cast<uint8_t>(hash & 0x7F); }
  // Bit 8 i + 7 is set for the bytes i that are meant; by MatchTag() maybe for some above such a one, too.
  static uint64_t MatchTag(uint64_t controls, uint8_t tag) {
    const uint64_t x = controls ^ (kLows * tag);
    return (x - kLows) & ~x & kHighs;
  }
  static uint64_t MatchEmpty(uint64_t controls) { return controls & ~(controls << 6) & kHighs; }
  static uint64_t MatchFree(uint64_t controls) { return controls & kHighs; }
  static size_t FirstOf(uint64_t match) { return static_cast<size_t>(__builtin_ctzll(match)) >> 3; }

  size_t IndexOf(uint64_t hash) const { return depth_ == 0 ? 0 : hash >> (64 - depth_); }
  HashPage* PageOf(uint64_t hash) const { return pages_[IndexOf(hash)].page(); }
  static size_t FirstGroup(HashPageRef ref, uint64_t hash) { return (hash >> kTagBits) & (ref.slots() - 1) & ~size_t{7}; }

  // Where a hash may lie after group "at"; steps count from 1, and reach all groups.
  static size_t NextGroup(HashPageRef ref, size_t at, size_t step) { return (at + 8 * step) & (ref.slots() - 1); }

  static size_t FindIn(const Context& c, HashPageRef ref, std::string_view key, uint64_t hash) {
    const uint8_t tag = TagOf(hash);
    HashPage* page = ref.page();
    size_t at = FirstGroup(ref, hash);
    for (size_t step = 1;; ++step) {
      const char* group = page->controls(at, c.form.bytes());
      __builtin_prefetch(group + 64);  // the slots arrive while the control bytes are waited for
      __builtin_prefetch(group + 128);
      const auto controls = LoadAs<uint64_t>(group);
      for (uint64_t match = MatchTag(controls, tag); match != 0; match &= match - 1) {
        const size_t i = FirstOf(match);
        const bool has_tag = static_cast<uint8_t>(group[i]) == tag;
        if (has_tag && c.form.HasKey(group + 8 + i * c.form.bytes(), key)) return at + i;
      }
      if (MatchEmpty(controls) != 0) return kNone;
      at = NextGroup(ref, at, step);
    }
  }
  static size_t FreeSlot(const Context& c, HashPage* page, uint64_t hash) {
    const HashPageRef ref(page);
    size_t at = FirstGroup(ref, hash);
    for (size_t step = 1;; ++step) {
      const uint64_t free = MatchFree(LoadAs<uint64_t>(page->controls(at, c.form.bytes())));
      if (free != 0) return at + FirstOf(free);
      at = NextGroup(ref, at, step);
    }
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
    for (size_t at = 0; at < slots; at += 8) std::memset(page->controls(at, c.form.bytes()), kEmpty, 8);
    return page;
  }
  static void FreePage(Context& c, HashPage* page) { c.heap->Free(page, HashPage::BytesFor(page->slots, c.form.bytes()), page->born); }

  void AddFirstPage(Context& c) {
    const size_t before = pages_.capacity();
    pages_.reserve(1);
    c.heap->Count(before * sizeof(HashPageRef), pages_.capacity() * sizeof(HashPageRef));
    pages_.push_back(HashPageRef(NewPage(c, kLeastSlots, 0)));
  }

  // Puts a page where "old" was, in all of the directory's entries for it.
  void Replace(HashPage* old, HashPage* page, uint64_t hash) {
    const size_t count = size_t{1} << (depth_ - old->depth);
    const size_t first = IndexOf(hash) & ~(count - 1);
    std::fill_n(pages_.begin() + static_cast<std::ptrdiff_t>(first), count, HashPageRef(page));
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
    const size_t index = FreeSlot(c, to, hash);
    *to->control(index, c.form.bytes()) = TagOf(hash);
    ++to->count;
    std::memcpy(to->slot(index, c.form.bytes()), slot, c.form.bytes());
  }

  void Rehash(Context& c, HashPage* page, uint64_t hash, size_t slots) {
    HashPage* made = NewPage(c, slots, page->depth);
    ForEachSlot(page, c.form.bytes(), [&](const char* slot) { Move(c, slot, made, c.hash(c.form.Key(slot))); });
    Replace(page, made, hash);
    FreePage(c, page);
  }

  // Rehashes into fewer slots, if there is memory for these.
  void Shrink(Context& c, HashPage* page, uint64_t hash, size_t slots) {
    try {
      Rehash(c, page, hash, slots);
    } catch (const std::bad_alloc&) {
    }
  }

  // Makes room for a row, of "heap_row_bytes" beside its slot, in the page of a hash, and returns the page that the hash belongs to now.
  HashPage* MakeRoom(Context& c, HashPage* page, uint64_t hash, size_t heap_row_bytes) {
    const size_t bytes = HashPage::BytesFor(page->slots, c.form.bytes());
    if (page->deleted * 4 > page->slots) {
      Rehash(c, page, hash, page->slots);
    } else if (page->slots < MostSlots(c) || page->depth == kMostDepth) {
      c.heap->Require(bytes + heap_row_bytes);
      Rehash(c, page, hash, size_t{page->slots} * 2);
    } else {
      c.heap->Require(bytes + heap_row_bytes + (page->depth == depth_ ? pages_.size() * sizeof(HashPageRef) : 0));
      Split(c, page, hash);
    }
    return PageOf(hash);
  }

  void Split(Context& c, HashPage* page, uint64_t hash) {
    if (page->depth == depth_) GrowDirectory(c);
    const uint32_t depth = page->depth + 1;
    HashPage* halves[2] = {NewPage(c, page->slots, depth), nullptr};
    try {
      halves[1] = NewPage(c, page->slots, depth);
    } catch (...) {
      FreePage(c, halves[0]);
      throw;
    }
    ForEachSlot(page, c.form.bytes(), [&](const char* slot) {
      const uint64_t moved = c.hash(c.form.Key(slot));
      Move(c, slot, halves[(moved >> (64 - depth)) & 1], moved);
    });
    const size_t count = size_t{1} << (depth_ - depth);
    const size_t first = IndexOf(hash) & ~(2 * count - 1);
    for (size_t half = 0; half < 2; ++half) {
      std::fill_n(pages_.begin() + static_cast<std::ptrdiff_t>(first + half * count), count, HashPageRef(halves[half]));
    }
    FreePage(c, page);
  }

  void GrowDirectory(Context& c) {
    std::vector<HashPageRef> grown(pages_.size() * 2);
    for (size_t i = 0; i < grown.size(); ++i) grown[i] = pages_[i / 2];
    c.heap->Count(pages_.capacity() * sizeof(HashPageRef), grown.capacity() * sizeof(HashPageRef));
    pages_ = std::move(grown);
    ++depth_;
  }

  std::vector<HashPageRef> pages_;  // by the first "depth_" bits of the hash
  uint32_t depth_ = 0;
  size_t rows_ = 0;
};

}  // namespace sfkv
