// Lists as rows: element after element, each with its length before it, so that appending is concatenation and nobody has to
// know the elements' type to walk over them.
//
//   element := length varint32 · row of the value codec
//
// FORMAT.md section 4. Not thread-safe; no state.
#pragma once

#include <limits>
#include <memory>

#include "sfkv/value_codec.h"

namespace sfkv {

inline size_t ElementBytes(size_t row_bytes) { return VarintBytes(row_bytes) + row_bytes; }

// Writes row "i" as an element, and returns where it ends. REQUIRES: ElementBytes(codec.RowBytes(columns, i)) bytes at "at".
inline char* EncodeElement(const ValueCodec& codec, const Columns& columns, int64_t i, char* at) {
  const size_t row_bytes = codec.RowBytes(columns, i);
  at = AppendVarint(at, row_bytes);
  codec.EncodeRow(columns, i, at);
  return at + row_bytes;
}

// The elements of an array of lists, as the columns of the elements' schema.
inline Columns ElementsOf(const ValueCodec& codec, const ColumnView& lists) {
  return codec.is_record() ? lists.children()[0].children() : lists.children();
}
// How long each list's row will be; 0 for one that is empty or null. An error if one is too long.
inline Status MeasureLists(const ValueCodec& codec, const ColumnView& lists, std::vector<size_t>* list_bytes) {
  const Columns elements = ElementsOf(codec, lists);
  list_bytes->assign(static_cast<size_t>(lists.length()), 0);
  for (int64_t i = 0; i < lists.length(); ++i) {
    if (lists.IsNull(i)) continue;
    size_t& bytes = (*list_bytes)[static_cast<size_t>(i)];
    for (int64_t e = lists.FirstItem(i); e < lists.ItemBound(i); ++e) bytes += ElementBytes(codec.RowBytes(elements, e));
    if (bytes > kMaxValueBytes) return ValueTooLong(bytes, i);
  }
  return Status::OK();
}
// Writes list number "i". REQUIRES: as many bytes at "at" as were measured.
inline void EncodeList(const ValueCodec& codec, const ColumnView& lists, const Columns& elements, int64_t i, char* at) {
  for (int64_t e = lists.FirstItem(i); e < lists.ItemBound(i); ++e) at = EncodeElement(codec, elements, e, at);
}

// Takes the next element's row off the front of a list. False at the end, and where the bytes are no element; then "*list" is not empty.
inline bool TakeElement(std::string_view* list, std::string_view* row) {
  std::string_view rest = *list;
  size_t bytes = 0;
  if (!TakeVarint(&rest, &bytes) || rest.size() < bytes) return false;
  *row = rest.substr(0, bytes);
  list->remove_prefix(list->size() - rest.size() + bytes);
  return true;
}

// How many elements a list has; -1 if its bytes are no list.
inline int64_t CountElements(std::string_view list) {
  int64_t count = 0;
  std::string_view row;
  while (TakeElement(&list, &row)) ++count;
  return list.empty() ? count : -1;
}

// The width of all elements if they are cells of one, so that a list is a run of them, each behind the same head.
inline size_t UniformWidth(const ValueCodec& codec) {
  const Column& column = codec.columns()[0];
  const size_t width = column.type.width;
  const bool uniform = !codec.is_record() && !column.nullable && column.type.cell != CellType::kBool && width <= 16;
  return uniform && (width & (width - 1)) == 0 ? width : 0;
}

// Copies the cells of a list of such. False if it is none.
template <size_t kWidth>
bool CopyCells(std::string_view list, char* cells) {
  bool right = list.size() % (1 + kWidth) == 0;
  for (size_t at = 0; right && at < list.size(); at += 1 + kWidth, cells += kWidth) {
    right = list[at] == static_cast<char>(kWidth);
    std::memcpy(cells, list.data() + at + 1, kWidth);
  }
  return right;
}
inline bool CopyCells(size_t width, std::string_view list, char* cells) {
  return width == 8 ? CopyCells<8>(list, cells) : width == 16 ? CopyCells<16>(list, cells) : width == 4 ? CopyCells<4>(list, cells)
         : width == 2 ? CopyCells<2>(list, cells) : CopyCells<1>(list, cells);
}

// Builds an array of such lists. False if one of them is none; then "out" is as it was.
template <typename ListOf>
bool BuildUniformLists(int64_t count, const ValueCodec& codec, size_t width, ListOf&& list_of, ArrowArray* out) {
  int64_t elements = 0;
  for (int64_t i = 0; i < count; ++i) elements += static_cast<int64_t>(list_of(i).size() / (1 + width));
  if (elements == 0 || !ListOffsets::CheckCount(elements, Layout::kPlain).ok()) return false;
  Builders builders = MakeBuilders(codec.columns(), elements);
  ListOffsets lists(count, Layout::kPlain);
  char* cells = builders[0].cells();
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const std::string_view list = list_of(i);
    if (!CopyCells(width, list, cells + width * static_cast<size_t>(at))) return false;
    at += static_cast<int64_t>(list.size() / (1 + width));
    lists.EndList(at);
  }
  OwnedArray child;
  if (!builders[0].Finish(elements, nullptr, child.get()).ok()) return false;
  lists.Finish(count, std::move(child), out);
  return true;
}

// Makes an array of "count" lists; list_of(i) is the i-th one's row, empty for a key without one.
template <typename ListOf>
Status BuildLists(int64_t count, const ValueCodec& codec, ListOf&& list_of, ArrowArray* out) {
  const size_t width = UniformWidth(codec);
  if (width != 0 && BuildUniformLists(count, codec, width, list_of, out)) return Status::OK();
  int64_t elements = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t more = CountElements(list_of(i));
    // Elements that are too short for rows are found before room is made for those.
    const bool can_be = more >= 0 && static_cast<size_t>(more) * codec.least_bytes() <= list_of(i).size();
    if (!can_be) return Status(Code::kCorruption, "Corruption: a stored list does not have the form of one: restore the store from a snapshot", i);
    elements += more;
  }
  SFKV_RETURN_IF_ERROR(ListOffsets::CheckCount(elements, Layout::kPlain));
  Builders builders = MakeBuilders(codec.columns(), elements);
  ListOffsets lists(count, Layout::kPlain);
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::string_view list = list_of(i), row;
    while (TakeElement(&list, &row)) {
      if (!codec.ParseRow(row, at++, &builders)) {
        return Status(Code::kCorruption, "Corruption: a stored element does not have the form of its schema: restore the store from a snapshot", i);
      }
    }
    lists.EndList(at);
  }
  OwnedArray child;
  SFKV_RETURN_IF_ERROR(FinishValues(codec, &builders, elements, nullptr, child.get()));
  lists.Finish(count, std::move(child), out);
  return Status::OK();
}

}  // namespace sfkv
