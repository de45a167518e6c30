// Whether an Arrow array must be accepted: what the C data interface says of it, by the letter and with the buffers' sizes known.
#pragma once

#include "arrays.h"

namespace sfkv::fuzz {

using Wide = __int128;  // in which no sum of two lengths overflows

enum class Verdict {
  kSound,
  kRefused,
  kUnseen,  // what is wrong cannot be seen without the sizes of its buffers: nobody may read it
};

inline bool HasBytes(TestArray* array, size_t buffer, Wide count, size_t width) {
  return count * static_cast<Wide>(width) <= static_cast<Wide>(array->buffer_bytes(buffer));
}
inline bool HasBits(TestArray* array, size_t buffer, Wide count) { return HasBytes(array, buffer, (count + 7) / 8, 1); }

inline bool MayHaveCells(const ArrowArray& arrow) {
  return arrow.offset >= 0 && arrow.length >= 0 && Wide{arrow.offset} + arrow.length <= std::numeric_limits<int64_t>::max();
}

inline Verdict LookAt(TestArray* array, const Type& type, Wide begin, Wide length);

// The indices of an array with a dictionary, up to "end" from the beginning of the buffers.
inline Verdict LookAtDictionary(TestArray* array, const Type& type, int64_t begin, int64_t length, Wide end) {
  const ArrowArray& arrow = *array->get();
  if (arrow.n_buffers != 2 || arrow.dictionary == nullptr) return Verdict::kRefused;
  const Verdict values = LookAt(array->dictionary(), WithoutIndex(type), 0, arrow.dictionary->length);
  if (values == Verdict::kUnseen || length == 0) return values;
  if (arrow.buffers[1] == nullptr) return Verdict::kRefused;
  if (!HasBytes(array, 1, end, IndexBytes(type.index))) return Verdict::kUnseen;  // they tell which row has a bad value
  if (values == Verdict::kRefused) return values;
  for (int64_t i = begin; i < begin + length; ++i) {
    if (IsNullIn(arrow, i)) continue;
    const int64_t index = IndexAt(arrow.buffers[1], type.index, arrow.offset + i);
    if (index < 0 || index >= arrow.dictionary->length) return Verdict::kRefused;
  }
  return Verdict::kSound;
}

inline Verdict LookAtOffsets(TestArray* array, const Type& type, int64_t begin, int64_t length, Wide end) {
  const ArrowArray& arrow = *array->get();
  if (arrow.buffers[1] == nullptr) return Verdict::kRefused;
  if (!HasBytes(array, 1, end + 1, type.layout == Layout::kLarge ? 8 : 4)) return Verdict::kUnseen;
  int64_t before = 0;
  for (int64_t i = begin; i <= begin + length; ++i) {
    const int64_t next = OffsetIn(arrow, type, i);
    if (next < before) return Verdict::kRefused;
    before = next;
  }
  return Verdict::kSound;
}

inline Verdict LookAtTexts(TestArray* array, const Type& type, int64_t begin, int64_t length, Wide end) {
  const ArrowArray& arrow = *array->get();
  if (arrow.n_buffers != 3) return Verdict::kRefused;
  if (length == 0) return Verdict::kSound;
  const Verdict offsets = LookAtOffsets(array, type, begin, length, end);
  if (offsets != Verdict::kSound) return offsets;
  const int64_t last = OffsetIn(arrow, type, begin + length);
  if (arrow.buffers[2] == nullptr) return last != 0 ? Verdict::kRefused : Verdict::kSound;
  return HasBytes(array, 2, last, 1) ? Verdict::kSound : Verdict::kUnseen;
}

inline Verdict LookAtViews(TestArray* array, int64_t begin, int64_t length, Wide end) {
  const ArrowArray& arrow = *array->get();
  if (arrow.n_buffers < 3) return Verdict::kRefused;
  if (arrow.n_buffers > static_cast<int64_t>(array->buffer_count())) return Verdict::kUnseen;
  if (length == 0) return Verdict::kSound;
  if (arrow.buffers[1] == nullptr) return Verdict::kRefused;
  if (!HasBytes(array, 1, end, 16)) return Verdict::kUnseen;
  const size_t sizes = static_cast<size_t>(arrow.n_buffers) - 1;
  for (int64_t i = begin; i < begin + length; ++i) {
    if (IsNullIn(arrow, i)) continue;
    const void* view = static_cast<const char*>(arrow.buffers[1]) + (arrow.offset + i) * 16;
    const int32_t size = LoadAt<int32_t>(view, 0), buffer = LoadAt<int32_t>(view, 2), offset = LoadAt<int32_t>(view, 3);
    if (size < 0) return Verdict::kRefused;
    if (size <= 12) continue;
    if (buffer < 0 || buffer >= arrow.n_buffers - 3 || offset < 0) return Verdict::kRefused;
    if (arrow.buffers[2 + buffer] == nullptr || arrow.buffers[sizes] == nullptr) return Verdict::kRefused;
    if (!HasBytes(array, sizes, buffer + 1, 8)) return Verdict::kUnseen;
    const int64_t there = LoadAt<int64_t>(arrow.buffers[sizes], buffer);
    if (Wide{offset} + size > there) return Verdict::kRefused;
    if (!HasBytes(array, static_cast<size_t>(2 + buffer), Wide{offset} + size, 1)) return Verdict::kUnseen;
  }
  return Verdict::kSound;
}

inline Verdict LookAtNested(TestArray* array, const Type& type, int64_t begin, int64_t length, Wide end) {
  const ArrowArray& arrow = *array->get();
  if (arrow.n_buffers != (type.cell == CellType::kList ? 2 : 1)) return Verdict::kRefused;
  if (arrow.n_children != static_cast<int64_t>(type.children.size())) return Verdict::kRefused;
  Wide child_begin = Wide{arrow.offset} + begin, child_length = length;
  if (type.cell == CellType::kFixedList) {
    if (end * type.list_size > std::numeric_limits<int64_t>::max()) return Verdict::kRefused;
    child_begin *= type.list_size;
    child_length *= type.list_size;
  } else if (type.cell == CellType::kList) {
    child_begin = child_length = 0;
    if (length != 0) {
      const Verdict offsets = LookAtOffsets(array, type, begin, length, end);
      if (offsets != Verdict::kSound) return offsets;
      child_begin = OffsetIn(arrow, type, begin);
      child_length = OffsetIn(arrow, type, begin + length) - child_begin;
    }
  }
  for (size_t c = 0; c < type.children.size(); ++c) {
    if (arrow.children == nullptr || arrow.children[c] == nullptr) return Verdict::kRefused;
  }
  for (size_t c = 0; c < type.children.size(); ++c) {
    const Verdict child = LookAt(array->child(c), type.children[c].type, child_begin, child_length);
    if (child != Verdict::kSound) return child;
  }
  return Verdict::kSound;
}

// The "length" cells from "begin" of an array.
inline Verdict LookAt(TestArray* array, const Type& type, Wide begin, Wide length) {
  const ArrowArray& arrow = *array->get();
  if (!MayHaveCells(arrow)) return Verdict::kRefused;
  if (begin < 0 || length < 0 || begin + length > arrow.length) return Verdict::kRefused;
  // Cells without memory may be too many to be gone through.
  if ((type.cell == CellType::kNull || type.cell == CellType::kStruct) && length > 4096) return Verdict::kUnseen;
  if (type.cell == CellType::kNull) return Verdict::kSound;
  if (arrow.n_buffers < 1 || arrow.buffers == nullptr) return Verdict::kRefused;
  const Wide end = arrow.offset + begin + length;
  const bool has_bits = arrow.null_count != 0 && arrow.buffers[0] != nullptr;
  if (length != 0 && has_bits && !HasBits(array, 0, end)) return Verdict::kUnseen;
  const int64_t from = static_cast<int64_t>(begin), count = static_cast<int64_t>(length);
  if (type.index != CellType::kNull) return LookAtDictionary(array, type, from, count, end);
  if (type.is_nested()) return LookAtNested(array, type, from, count, end);
  if (arrow.n_children != 0) return Verdict::kRefused;
  if (type.is_text()) {
    Verdict verdict = type.layout == Layout::kView ? LookAtViews(array, from, count, end) : LookAtTexts(array, type, from, count, end);
    for (int64_t i = from; verdict == Verdict::kSound && type.cell == CellType::kUtf8 && i < from + count; ++i) {
      const Cell cell = CellIn(arrow, type, i);
      if (!cell.is_null && !IsUtf8Slowly(cell.bytes)) verdict = Verdict::kRefused;
    }
    return verdict;
  }
  if (arrow.n_buffers != 2 || (length != 0 && arrow.buffers[1] == nullptr)) return Verdict::kRefused;
  if (length == 0) return Verdict::kSound;
  const bool there = type.cell == CellType::kBool ? HasBits(array, 1, end) : HasBytes(array, 1, end, type.width);
  return there ? Verdict::kSound : Verdict::kUnseen;
}

// The struct array of a record. "given" has its columns in the array's order; they are read in the schema's, so that one which
// cannot be seen may come before one that is refused.
inline Verdict LookAtRecord(TestArray* array, const Type& given) {
  const ArrowArray& arrow = *array->get();
  if (arrow.n_children != static_cast<int64_t>(given.children.size()) || arrow.n_buffers != 1) return Verdict::kRefused;
  if (arrow.buffers == nullptr || arrow.children == nullptr) return Verdict::kRefused;
  if (!MayHaveCells(arrow)) return Verdict::kRefused;
  Verdict verdict = Verdict::kSound;
  for (size_t c = 0; c < given.children.size(); ++c) {
    const bool is_there = arrow.children[c] != nullptr;
    verdict = std::max(verdict, is_there ? LookAt(array->child(c), given.children[c].type, arrow.offset, arrow.length) : Verdict::kRefused);
  }
  return verdict;
}

}  // namespace sfkv::fuzz
