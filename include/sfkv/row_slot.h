// How rows lie in the pages of memory tables: in their slots, where key and value have a width, else behind a pointer.
//
//   slot     := [key] [value], where all have one length
//             | [key] [bytes of the value u8] [value, in as much room as the longest takes]
//             | [the key's first eight bytes, as a number, in ordered tables] [pointer to a heap row]
//   heap row := header · key · value, of the table's one length
//             | header · bytes of the value, and room for it · key · value, with room for it to grow
//
// Keys are rows without their header: the table and the key group are known by where they lie. Heap rows and pages belong to a
// RowHeap and carry the epoch in which they were made (row_heap.h): what a view sees is copied before it is changed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "sfkv/row_codec.h"
#include "sfkv/row_heap.h"

namespace sfkv {

// The first eight bytes of a key as a number that sorts as they do; zeros where it is shorter.
inline uint64_t FirstBytes(std::string_view key) {
  if (key.size() >= 8) return ByteSwap(LoadAs<uint64_t>(key.data()));
  char bytes[8] = {};
  if (!key.empty()) std::memcpy(bytes, key.data(), key.size());
  return ByteSwap(LoadAs<uint64_t>(bytes));
}

// A row behind a pointer: the header of all, and what follows it where values have lengths of their own.
struct HeapRow {
  uint64_t born : 48;  // 280 million million views may begin before it wraps
  uint64_t key_bytes : 16;
};
struct HeapRowLengths {
  uint32_t value_bytes;
  uint32_t room;  // for the value
};
static_assert(kMaxKeyRowBytes < (1u << 16) && kMaxValueBytes < (size_t{1} << 32), "a heap row's header holds every size");

class SlotForm {
 public:
  static constexpr size_t kMostKeyBytes = 48;
  static constexpr size_t kMostValueBytes = 80;
  static constexpr size_t kMostBytes = kMostKeyBytes + 1 + kMostValueBytes;

  SlotForm() = default;
  // "key_bytes" and "value_bytes": of all keys, and of the longest value; "value_is_fixed" if no value is shorter.
  SlotForm(size_t key_bytes, size_t value_bytes, bool value_is_fixed, bool ordered)
      : has_heap_rows_(key_bytes > kMostKeyBytes || value_bytes > kMostValueBytes),
        has_length_(!value_is_fixed),
        pointer_at_(ordered ? 8 : 0) {
    bytes_ = pointer_at_ + sizeof(HeapRow*);
    if (value_is_fixed) head_bytes_ = sizeof(HeapRow);
    value_room_ = static_cast<uint32_t>(value_bytes);
    if (has_heap_rows_) return;
    key_bytes_ = static_cast<uint32_t>(key_bytes);
    value_at_ = key_bytes_ + (has_length_ ? 1 : 0);
    bytes_ = value_at_ + value_room_;
  }

  bool has_heap_rows() const { return has_heap_rows_; }
  size_t bytes() const { return bytes_; }
  // Whether such a row can lie in a slot.
  bool Fits(size_t key_bytes, size_t value_bytes) const {
    if (has_heap_rows_) return has_length_ || value_bytes == value_room_;
    return key_bytes == key_bytes_ && (has_length_ ? value_bytes <= value_room_ : value_bytes == value_room_);
  }

  HeapRow* HeapRowOf(const char* slot) const { return LoadAs<HeapRow*>(slot + pointer_at_); }
  std::string_view Key(const char* slot) const { return has_heap_rows_ ? KeyOf(HeapRowOf(slot)) : std::string_view(slot, key_bytes_); }
  std::string_view Value(const char* slot) const {
    if (has_heap_rows_) return ValueOf(HeapRowOf(slot));
    return {slot + value_at_, has_length_ ? static_cast<uint8_t>(slot[key_bytes_]) : value_room_};
  }
  bool HasKey(const char* slot, std::string_view key) const {
    if (has_heap_rows_) return KeyOf(HeapRowOf(slot)) == key;
    if (key.size() != key_bytes_) return false;  // one from a file, that was not looked at yet
    if (key_bytes_ == 8) return LoadAs<uint64_t>(slot) == LoadAs<uint64_t>(key.data());
    if (key_bytes_ == 16) {
      return LoadAs<uint64_t>(slot) == LoadAs<uint64_t>(key.data()) && LoadAs<uint64_t>(slot + 8) == LoadAs<uint64_t>(key.data() + 8);
    }
    return std::memcmp(slot, key.data(), key_bytes_) == 0;
  }
  // Whether the key of a slot is less than one with the same first bytes.
  bool RestIsLess(const char* slot, std::string_view key) const {
    const bool is_two_words = !has_heap_rows_ && key_bytes_ == 16 && key.size() == 16;
    if (is_two_words) return ByteSwap(LoadAs<uint64_t>(slot + 8)) < ByteSwap(LoadAs<uint64_t>(key.data() + 8));
    return Key(slot) < key;
  }
  // The key's first bytes. REQUIRES: of an ordered table.
  uint64_t First(const char* slot) const { return has_heap_rows_ ? LoadAs<uint64_t>(slot) : FirstBytes({slot, key_bytes_}); }

  // Where the value of an occupied slot is written: in the slot or in a heap row.
  char* ValueAt(char* slot) const { return has_heap_rows_ ? ValueAt(HeapRowOf(slot)) : slot + value_at_; }

  // What a row takes beside its slot.
  size_t HeapRowBytes(size_t key_bytes, size_t value_bytes) const { return has_heap_rows_ ? head_bytes_ + key_bytes + value_bytes : 0; }

  // Fills an empty slot with a key, and makes room for its value.
  void Fill(RowHeap* heap, char* slot, std::string_view key, size_t value_bytes) const {
    if (!has_heap_rows_) {
      std::memcpy(slot, key.data(), key_bytes_);
      if (has_length_) slot[key_bytes_] = static_cast<char>(value_bytes);
      return;
    }
    if (pointer_at_ != 0) StoreAs(slot, FirstBytes(key));
    StoreAs(slot + pointer_at_, MakeHeapRow(heap, key, value_bytes, value_bytes));
  }

  // Gives a row of "value_bytes", of which the first "kept" stay as they are, and returns where the value begins.
  // REQUIRES: the slot's page was not seen, or copied.
  char* Resize(RowHeap* heap, char* slot, size_t value_bytes, size_t kept) const {
    if (!has_heap_rows_) {
      if (has_length_) slot[key_bytes_] = static_cast<char>(value_bytes);
      return slot + value_at_;
    }
    HeapRow* row = HeapRowOf(slot);
    // A value that grows is given room to go on; one that shrinks to a fraction gives its memory back.
    const size_t old_room = RoomOf(row);
    const bool fits = value_bytes <= old_room && value_bytes + 64 >= old_room / 4;
    if (fits && !heap->IsSeen(row->born)) {
      if (has_length_) LengthsOf(row)->value_bytes = static_cast<uint32_t>(value_bytes);
      return ValueAt(row);
    }
    const size_t left = heap->BytesToGrow() + old_room;  // for the room of the new one, when the old one has gone
    const size_t more = kept == 0 || value_bytes <= old_room || left <= value_bytes ? 0 : std::min(value_bytes / 2, left - value_bytes);
    HeapRow* grown = MakeHeapRow(heap, KeyOf(row), value_bytes, value_bytes + more);
    if (kept != 0) std::memcpy(ValueAt(grown), ValueAt(row), kept);
    FreeHeapRow(heap, row);
    StoreAs(slot + pointer_at_, grown);
    return ValueAt(grown);
  }

  // Takes the room from a row with which it could grow, if there is memory for a smaller one.
  void Trim(RowHeap* heap, char* slot) const {
    if (!has_heap_rows_ || RoomOf(HeapRowOf(slot)) == Value(slot).size()) return;
    HeapRow* row = HeapRowOf(slot);
    const std::string_view value = ValueOf(row);
    HeapRow* made = nullptr;
    try {
      made = MakeHeapRow(heap, KeyOf(row), value.size(), value.size());
    } catch (const std::bad_alloc&) {
      return;
    }
    std::memcpy(ValueAt(made), value.data(), value.size());
    FreeHeapRow(heap, row);
    StoreAs(slot + pointer_at_, made);
  }

  // Frees what an occupied slot points to.
  void Empty(RowHeap* heap, const char* slot) const {
    if (has_heap_rows_) FreeHeapRow(heap, HeapRowOf(slot));
  }

 private:
  static HeapRowLengths* LengthsOf(HeapRow* row) { return reinterpret_cast<HeapRowLengths*>(row + 1); }
  std::string_view KeyOf(HeapRow* row) const { return {reinterpret_cast<char*>(row) + head_bytes_, row->key_bytes}; }
  char* ValueAt(HeapRow* row) const { return reinterpret_cast<char*>(row) + head_bytes_ + row->key_bytes; }
  std::string_view ValueOf(HeapRow* row) const { return {ValueAt(row), has_length_ ? LengthsOf(row)->value_bytes : value_room_}; }
  size_t RoomOf(HeapRow* row) const { return has_length_ ? LengthsOf(row)->room : value_room_; }

  HeapRow* MakeHeapRow(RowHeap* heap, std::string_view key, size_t value_bytes, size_t room) const {
    auto* row = static_cast<HeapRow*>(heap->Allocate(head_bytes_ + key.size() + room));
    row->born = heap->epoch();
    row->key_bytes = key.size();
    if (has_length_) *LengthsOf(row) = {static_cast<uint32_t>(value_bytes), static_cast<uint32_t>(room)};
    if (!key.empty()) std::memcpy(reinterpret_cast<char*>(row) + head_bytes_, key.data(), key.size());
    return row;
  }
  void FreeHeapRow(RowHeap* heap, HeapRow* row) const { heap->Free(row, head_bytes_ + row->key_bytes + RoomOf(row), row->born); }

  bool has_heap_rows_ = true;
  bool has_length_ = true;
  uint32_t key_bytes_ = 0;
  uint32_t value_at_ = 0;
  uint32_t value_room_ = 0;  // in a slot; in a heap row, if all values have one length
  uint32_t head_bytes_ = sizeof(HeapRow) + sizeof(HeapRowLengths);
  uint32_t pointer_at_ = 8;
  size_t bytes_ = 8 + sizeof(HeapRow*);
};

}  // namespace sfkv
