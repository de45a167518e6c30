// How rows lie in the pages of memory tables: in their slots, where key and value have a width, else behind a pointer.
//
//   slot   := [key] [value], where all have one length
//           | [key] [bytes of the value u8] [value, in as much room as the longest takes]
//           | [the key's first eight bytes, as a number, in ordered tables] [pointer to a cell]
//   cell   := header · key · value, with as much room to grow as malloc has left
//
// Keys are rows without their header: the table and the key group are known by where they lie. Cells and pages belong to a
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

// A row behind a pointer.
struct Cell {
  uint32_t born_low;   // 280 million million views may begin before it wraps
  uint16_t born_high;
  uint16_t key_bytes;
  uint32_t value_bytes;

  uint64_t born() const { return (uint64_t{born_high} << 32) | born_low; }
  char* bytes() { return reinterpret_cast<char*>(this + 1); }
  std::string_view key() { return {bytes(), key_bytes}; }
  std::string_view value() { return {bytes() + key_bytes, value_bytes}; }
  // For the value.
  size_t room() { return RowHeap::RoomOf(this) - sizeof(Cell) - key_bytes; }

  static Cell* Make(RowHeap* heap, std::string_view key, size_t value_bytes, size_t room) {
    auto* cell = static_cast<Cell*>(heap->Allocate(sizeof(Cell) + key.size() + room));
    cell->born_low = static_cast<uint32_t>(heap->epoch());
    cell->born_high = static_cast<uint16_t>(heap->epoch() >> 32);
    cell->key_bytes = static_cast<uint16_t>(key.size());
    cell->value_bytes = static_cast<uint32_t>(value_bytes);
    if (!key.empty()) std::memcpy(cell->bytes(), key.data(), key.size());
    return cell;
  }
  void Free(RowHeap* heap) { heap->Free(this, born()); }
};
static_assert(sizeof(Cell) == 12, "a cell's header is as small as it can be: there are as many as rows");
static_assert(kMaxKeyRowBytes < (1u << 16) && kMaxValueBytes < (size_t{1} << 32), "a cell's header holds every size");

class SlotForm {
 public:
  static constexpr size_t kMostKeyBytes = 48;
  static constexpr size_t kMostValueBytes = 80;
  static constexpr size_t kMostBytes = kMostKeyBytes + 1 + kMostValueBytes;
  static constexpr size_t kRoundedToPages = size_t{64} << 10;  // malloc may, from here on

  SlotForm() = default;
  // "key_bytes" and "value_bytes": of all keys, and of the longest value; "value_is_fixed" if no value is shorter.
  SlotForm(size_t key_bytes, size_t value_bytes, bool value_is_fixed, bool ordered)
      : has_cells_(key_bytes > kMostKeyBytes || value_bytes > kMostValueBytes),
        has_length_(!value_is_fixed),
        pointer_at_(ordered ? 8 : 0) {
    bytes_ = pointer_at_ + sizeof(Cell*);
    if (has_cells_) return;
    key_bytes_ = static_cast<uint32_t>(key_bytes);
    value_room_ = static_cast<uint32_t>(value_bytes);
    value_at_ = key_bytes_ + (has_length_ ? 1 : 0);
    bytes_ = value_at_ + value_room_;
  }

  bool has_cells() const { return has_cells_; }
  size_t bytes() const { return bytes_; }
  size_t key_bytes() const { return key_bytes_; }
  // Whether such a row can lie in a slot.
  bool Fits(size_t key_bytes, size_t value_bytes) const {
    return has_cells_ || (key_bytes == key_bytes_ && (has_length_ ? value_bytes <= value_room_ : value_bytes == value_room_));
  }

  Cell* CellOf(const char* slot) const { return LoadAs<Cell*>(slot + pointer_at_); }
  std::string_view Key(const char* slot) const { return has_cells_ ? CellOf(slot)->key() : std::string_view(slot, key_bytes_); }
  std::string_view Value(const char* slot) const {
    if (has_cells_) return CellOf(slot)->value();
    return {slot + value_at_, has_length_ ? static_cast<uint8_t>(slot[key_bytes_]) : value_room_};
  }
  bool HasKey(const char* slot, std::string_view key) const {
    if (has_cells_) return CellOf(slot)->key() == key;
    if (key.size() != key_bytes_) return false;  // one from a file, that was not looked at yet
    if (key_bytes_ == 8) return LoadAs<uint64_t>(slot) == LoadAs<uint64_t>(key.data());
    if (key_bytes_ == 16) return LoadAs<uint64_t>(slot) == LoadAs<uint64_t>(key.data()) && LoadAs<uint64_t>(slot + 8) == LoadAs<uint64_t>(key.data() + 8);
    return std::memcmp(slot, key.data(), key_bytes_) == 0;
  }
  // Whether the key of a slot is less than one with the same first bytes.
  bool RestIsLess(const char* slot, std::string_view key) const {
    if (!has_cells_ && key_bytes_ == 16 && key.size() == 16) return ByteSwap(LoadAs<uint64_t>(slot + 8)) < ByteSwap(LoadAs<uint64_t>(key.data() + 8));
    return Key(slot) < key;
  }
  // The key's first bytes. REQUIRES: of an ordered table.
  uint64_t First(const char* slot) const { return has_cells_ ? LoadAs<uint64_t>(slot) : FirstBytes({slot, key_bytes_}); }

  // Where the value of an occupied slot is written: in the slot or in a cell.
  char* ValueAt(char* slot) const { return has_cells_ ? CellOf(slot)->bytes() + CellOf(slot)->key_bytes : slot + value_at_; }

  // Fills an empty slot with a key, and makes room for its value.
  void Fill(RowHeap* heap, char* slot, std::string_view key, size_t value_bytes) const {
    if (!has_cells_) {
      std::memcpy(slot, key.data(), key_bytes_);
      if (has_length_) slot[key_bytes_] = static_cast<char>(value_bytes);
      return;
    }
    if (pointer_at_ != 0) StoreAs(slot, FirstBytes(key));
    StoreAs(slot + pointer_at_, Cell::Make(heap, key, value_bytes, value_bytes));
  }

  // Gives a row of "value_bytes", of which the first "kept" stay as they are, and returns where the value begins.
  // REQUIRES: the slot's page was not seen, or copied.
  char* Resize(RowHeap* heap, char* slot, size_t value_bytes, size_t kept) const {
    if (!has_cells_) {
      if (has_length_) slot[key_bytes_] = static_cast<char>(value_bytes);
      return slot + value_at_;
    }
    Cell* cell = CellOf(slot);
    // A value that grows is given room to go on; one that shrinks to a fraction gives its memory back.
    const size_t old_room = cell->room();
    const bool fits = value_bytes <= old_room && value_bytes + 64 >= old_room / 4;
    if (fits && !heap->IsSeen(cell->born())) {
      cell->value_bytes = static_cast<uint32_t>(value_bytes);
      return cell->bytes() + cell->key_bytes;
    }
    // No more than the limit leaves when the old cell has gone, and malloc has rounded the new one's size.
    const size_t rounded = value_bytes + (value_bytes < kRoundedToPages ? 64 : 8192);
    const size_t left = heap->left_bytes() + old_room;
    const size_t more = kept == 0 || value_bytes <= old_room || left <= rounded ? 0 : std::min(value_bytes / 2, left - rounded);
    const size_t room = value_bytes + more;
    Cell* grown = Cell::Make(heap, cell->key(), value_bytes, room);
    if (kept != 0) std::memcpy(grown->bytes() + grown->key_bytes, cell->value().data(), kept);
    cell->Free(heap);
    StoreAs(slot + pointer_at_, grown);
    return grown->bytes() + grown->key_bytes;
  }

  // Takes the room from a row with which it could grow.
  void Trim(RowHeap* heap, char* slot) const {
    if (!has_cells_ || CellOf(slot)->room() == CellOf(slot)->value_bytes) return;
    Cell* cell = CellOf(slot);
    Cell* made = Cell::Make(heap, cell->key(), cell->value_bytes, cell->value_bytes);
    std::memcpy(made->bytes() + made->key_bytes, cell->value().data(), cell->value_bytes);
    cell->Free(heap);
    StoreAs(slot + pointer_at_, made);
  }

  // Frees what an occupied slot points to.
  void Empty(RowHeap* heap, const char* slot) const {
    if (has_cells_) CellOf(slot)->Free(heap);
  }

 private:
  bool has_cells_ = true;
  bool has_length_ = true;
  uint32_t key_bytes_ = 0;
  uint32_t value_at_ = 0;
  uint32_t value_room_ = 0;
  uint32_t pointer_at_ = 8;
  size_t bytes_ = 8 + sizeof(Cell*);
};

}  // namespace sfkv
