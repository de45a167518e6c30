// Columns on their way in: views over Arrow's C data interface.
//
// A view borrows; the array that it was made from must outlive it. Offsets, indices and views are checked when it is made, and
// text is checked to be UTF-8, so that what is accepted is read within its buffers. What the interface cannot tell is how long
// a buffer is.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "sfkv/type.h"
#include "sfkv/utf8.h"

namespace sfkv {

class ColumnView {
 public:
  // A view of all cells of "array", which its schema says to be of "type".
  static Status Make(const ArrowArray& array, const Type& type, ColumnView* view) { return MakePart(array, type, 0, array.length, view); }

  // A view of the "length" cells from "begin" of an array.
  static Status MakePart(const ArrowArray& array, const Type& type, int64_t begin, int64_t length, ColumnView* view);

  // A view that tells which rows of an array are null, and nothing else.
  static ColumnView OfValidity(const ArrowArray& array) {
    ColumnView view;
    view.length_ = array.length;
    view.offset_ = array.offset;
    const bool has_nulls = array.null_count != 0 && array.n_buffers > 0 && array.buffers != nullptr;
    view.validity_ = has_nulls ? static_cast<const uint8_t*>(array.buffers[0]) : nullptr;
    return view;
  }

  int64_t length() const { return length_; }
  bool MayHaveNulls() const { return validity_ != nullptr || all_null_; }
  bool IsNull(int64_t i) const { return validity_ != nullptr ? !GetBit(validity_, offset_ + i) : all_null_; }
  bool Bool(int64_t i) const { return GetBit(reinterpret_cast<const uint8_t*>(values_), offset_ + i); }

  template <typename T>
  T Value(int64_t i) const {
    T value;
    std::memcpy(&value, values_ + (offset_ + i) * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }

  // Cells of a width, one after the other. REQUIRES: the type has one, and is not kBool.
  const char* Fixed(int64_t i, size_t width) const { return values_ + static_cast<size_t>(offset_ + i) * width; }

  // REQUIRES: a text or binary.
  std::string_view Bytes(int64_t i) const {
    if (index_bytes_ != 0) return children_[0].Bytes(Index(i));
    if (layout_ == Layout::kPlain) return Between<int32_t>(i);
    return layout_ == Layout::kLarge ? Between<int64_t>(i) : Viewed(i);
  }

  // Of a struct: its fields, whose cells are aligned with its own. Of a list: the one child has all items.
  const std::vector<ColumnView>& children() const { return children_; }
  // Which items of the child a list holds. Those of a null count as well.
  int64_t FirstItem(int64_t i) const { return ItemOffset(i) - ItemOffset(0); }
  int64_t ItemBound(int64_t i) const { return ItemOffset(i + 1) - ItemOffset(0); }

 private:
  // How Arrow stores a text or binary of a view array: up to 12 bytes in itself, or where they are.
  struct View {
    int32_t size;
    char prefix[4];
    int32_t buffer;
    int32_t offset;
  };

  // Other libraries' buffers may lie at odd addresses.
  template <typename Offset>
  Offset OffsetAt(int64_t i) const {
    Offset offset;
    std::memcpy(&offset, static_cast<const char*>(offsets_) + (offset_ + i) * static_cast<int64_t>(sizeof(Offset)), sizeof(Offset));
    return offset;
  }
  template <typename Offset>
  std::string_view Between(int64_t i) const {
    const Offset begin = OffsetAt<Offset>(i);
    return {values_ + begin, static_cast<size_t>(OffsetAt<Offset>(i + 1) - begin)};
  }
  std::string_view Viewed(int64_t i) const {
    const View view = Value<View>(i);
    const char* bytes = view.size <= 12 ? Fixed(i, sizeof(View)) + 4 : static_cast<const char*>(buffers_[2 + view.buffer]) + view.offset;
    return {bytes, static_cast<size_t>(view.size)};
  }
  int64_t Index(int64_t i) const {
    switch (index_bytes_) {
      case 1: return Value<uint8_t>(i);
      case 2: return Value<uint16_t>(i);
      case 4: return Value<uint32_t>(i);
      default: return Value<int64_t>(i);
    }
  }
  int64_t ItemOffset(int64_t i) const {
    if (list_size_ != 0) return (offset_ + i) * list_size_;
    return layout_ == Layout::kLarge ? OffsetAt<int64_t>(i) : OffsetAt<int32_t>(i);
  }

  Status ReadBuffers(const ArrowArray& array, const Type& type);
  Status ReadOffsets(const ArrowArray& array);
  Status ReadViews(const ArrowArray& array);
  Status ReadDictionary(const ArrowArray& array, const Type& type);
  Status ReadChildren(const ArrowArray& array, const Type& type);
  int64_t FirstOfIndex(int64_t index) const;
  Status OfChild(const Status& status, const Type& type, size_t child) const;
  void TakeNullsOfDictionary();
  Status CheckUtf8() const;
  template <typename Offset>
  Status CheckOffsets() const;

  static Status Malformed(const char* what, int64_t row = -1) { return Status(Code::kSchema, std::string("the Arrow array ") + what, row); }

  int64_t length_ = 0;
  int64_t offset_ = 0;
  const uint8_t* validity_ = nullptr;
  std::shared_ptr<std::vector<uint8_t>> own_validity_;  // where a dictionary holds nulls
  bool all_null_ = false;
  Layout layout_ = Layout::kPlain;
  size_t index_bytes_ = 0;  // of a dictionary's indices, which are then the values
  int64_t list_size_ = 0;   // of fixed-size lists
  const char* values_ = nullptr;
  const void* offsets_ = nullptr;
  const void* const* buffers_ = nullptr;  // of views
  std::vector<ColumnView> children_;
};

inline Status ColumnView::MakePart(const ArrowArray& array, const Type& type, int64_t begin, int64_t length, ColumnView* view) {
  if (!HasCells(array)) return Malformed("has no length or offset that can be");
  if (begin < 0 || length < 0 || begin > array.length || length > array.length - begin) return Malformed("has columns that differ in length");
  *view = ColumnView();
  view->length_ = length;
  view->offset_ = array.offset + begin;
  view->layout_ = type.layout;
  if (type.cell == CellType::kNull) {
    view->all_null_ = true;
    return Status::OK();
  }
  if (array.n_buffers < 1 || array.buffers == nullptr) return Malformed("does not have the buffers of its type");
  view->validity_ = array.null_count == 0 ? nullptr : static_cast<const uint8_t*>(array.buffers[0]);
  SFKV_RETURN_IF_ERROR(view->ReadBuffers(array, type));
  return type.cell == CellType::kUtf8 ? view->CheckUtf8() : Status::OK();
}

inline Status ColumnView::ReadBuffers(const ArrowArray& array, const Type& type) {
  if (type.index != CellType::kNull) return ReadDictionary(array, type);
  if (type.is_nested()) return ReadChildren(array, type);
  if (array.n_children != 0) return Malformed("has children, and its type has none");
  if (type.is_text() && layout_ == Layout::kView) return ReadViews(array);
  if (array.n_buffers != (type.is_text() ? 3 : 2)) return Malformed("does not have the buffers of its type");
  values_ = static_cast<const char*>(array.buffers[type.is_text() ? 2 : 1]);
  if (type.is_text()) return ReadOffsets(array);
  return values_ == nullptr && length_ != 0 ? Malformed("lacks its values") : Status::OK();
}

inline Status ColumnView::ReadOffsets(const ArrowArray& array) {
  offsets_ = array.buffers[1];
  if (length_ == 0) return Status::OK();
  if (offsets_ == nullptr) return Malformed("lacks its offsets");
  SFKV_RETURN_IF_ERROR(layout_ == Layout::kLarge ? CheckOffsets<int64_t>() : CheckOffsets<int32_t>());
  const int64_t end = layout_ == Layout::kLarge ? OffsetAt<int64_t>(length_) : OffsetAt<int32_t>(length_);
  return values_ == nullptr && end != 0 ? Malformed("lacks its values") : Status::OK();
}

template <typename Offset>
Status ColumnView::CheckOffsets() const {
  bool rising = OffsetAt<Offset>(0) >= 0;
  for (int64_t i = 0; i < length_; ++i) rising &= OffsetAt<Offset>(i) <= OffsetAt<Offset>(i + 1);
  return rising ? Status::OK() : Malformed("has offsets that do not rise");
}

// The last buffer holds the sizes of those that hold bytes, which come after validity and views.
inline Status ColumnView::ReadViews(const ArrowArray& array) {
  if (array.n_buffers < 3) return Malformed("does not have the buffers of its type");
  buffers_ = array.buffers;
  values_ = static_cast<const char*>(array.buffers[1]);
  if (length_ == 0) return Status::OK();
  if (values_ == nullptr) return Malformed("lacks its values");
  const int64_t buffer_count = array.n_buffers - 3;
  const auto* sizes = static_cast<const char*>(array.buffers[array.n_buffers - 1]);
  for (int64_t i = 0; i < length_; ++i) {
    if (IsNull(i)) continue;
    const View view = Value<View>(i);
    if (view.size < 0) return Malformed("has a view of a negative length", i);
    if (view.size <= 12) continue;
    int64_t size = 0;
    const bool has_buffer = view.buffer >= 0 && view.buffer < buffer_count && sizes != nullptr && buffers_[2 + view.buffer] != nullptr;
    if (has_buffer) std::memcpy(&size, sizes + view.buffer * static_cast<int64_t>(sizeof(size)), sizeof(size));
    if (size < view.size || view.offset < 0 || view.offset > size - view.size) return Malformed("has a view of bytes that are not there", i);
  }
  return Status::OK();
}

inline Status ColumnView::ReadDictionary(const ArrowArray& array, const Type& type) {
  if (array.n_buffers != 2 || array.dictionary == nullptr) return Malformed("does not have the buffers of its type");
  Type values = type;
  values.index = CellType::kNull;
  switch (type.index) {
    case CellType::kInt8:
    case CellType::kUInt8: index_bytes_ = 1; break;
    case CellType::kInt16:
    case CellType::kUInt16: index_bytes_ = 2; break;
    case CellType::kInt32:
    case CellType::kUInt32: index_bytes_ = 4; break;
    default: index_bytes_ = 8; break;
  }
  values_ = static_cast<const char*>(array.buffers[1]);
  if (length_ != 0 && values_ == nullptr) return Malformed("lacks its values");
  children_.resize(1);
  const Status status = Make(*array.dictionary, values, children_.data());
  if (!status.ok()) return Status(status.code(), status.message(), FirstOfIndex(status.row()));
  // A negative index of fewer than 8 bytes is read as a large one, which its type does not have.
  int64_t bound = children_[0].length();
  if (type.index <= CellType::kInt32) bound = std::min(bound, int64_t{1} << (8 * index_bytes_ - 1));
  bool has_nulls = false;
  for (int64_t i = 0; i < length_; ++i) {
    if (IsNull(i)) continue;
    const int64_t index = Index(i);
    if (index < 0 || index >= bound) return Malformed("has an index outside its dictionary", i);
    has_nulls |= children_[0].IsNull(index);
  }
  if (has_nulls) TakeNullsOfDictionary();
  return Status::OK();
}

// The first row that has this index; -1 for none.
inline int64_t ColumnView::FirstOfIndex(int64_t index) const {
  for (int64_t i = 0; i < length_; ++i) {
    if (!IsNull(i) && Index(i) == index) return i;
  }
  return -1;
}

// Makes a cell whose value is null in the dictionary null here.
inline void ColumnView::TakeNullsOfDictionary() {
  auto bits = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>((length_ + 7) / 8));
  for (int64_t i = 0; i < length_; ++i) {
    if (!IsNull(i) && !children_[0].IsNull(Index(i))) SetBit(bits->data(), i);
  }
  values_ += offset_ * static_cast<int64_t>(index_bytes_);  // the bits begin at the first cell
  offset_ = 0;
  validity_ = bits->data();
  own_validity_ = std::move(bits);
}

inline Status ColumnView::ReadChildren(const ArrowArray& array, const Type& type) {
  if (array.n_buffers != (type.cell == CellType::kList ? 2 : 1) || array.n_children != static_cast<int64_t>(type.children.size())) {
    return Malformed("does not have the buffers and children of its type");
  }
  for (size_t i = 0; i < type.children.size(); ++i) {
    if (array.children == nullptr || array.children[i] == nullptr) return Malformed("lacks a child");
  }
  children_.resize(type.children.size());
  int64_t begin = offset_, length = length_;
  if (type.cell == CellType::kFixedList) {
    list_size_ = type.list_size;
    if (offset_ + length_ > std::numeric_limits<int64_t>::max() / list_size_) return Malformed("has more items than can be");
    begin = offset_ * list_size_;
    length = length_ * list_size_;
  } else if (type.cell == CellType::kList) {
    offsets_ = array.buffers[1];
    begin = length = 0;
    if (length_ != 0) {
      if (offsets_ == nullptr) return Malformed("lacks its offsets");
      SFKV_RETURN_IF_ERROR(layout_ == Layout::kLarge ? CheckOffsets<int64_t>() : CheckOffsets<int32_t>());
      begin = ItemOffset(0);
      length = ItemOffset(length_) - begin;
    }
  }
  for (size_t i = 0; i < children_.size(); ++i) {
    const Status status = MakePart(*array.children[i], type.children[i].type, begin, length, &children_[i]);
    if (!status.ok()) return OfChild(status, type, i);
  }
  return Status::OK();
}

// What is wrong with a child, as an error of the row that holds the cell.
inline Status ColumnView::OfChild(const Status& status, const Type& type, size_t child) const {
  int64_t row = status.row();
  if (row >= 0 && type.cell != CellType::kStruct) {
    const int64_t item = row;
    row = 0;
    while (ItemBound(row) <= item) ++row;
  }
  return Status(status.code(), status.message(), row, -1, PathOf(type, child) + status.path());
}

// One look at all bytes is enough where they are ASCII.
inline Status ColumnView::CheckUtf8() const {
  if (length_ == 0 || index_bytes_ != 0) return Status::OK();  // a dictionary was checked by itself
  if (layout_ != Layout::kView) {
    const bool large = layout_ == Layout::kLarge;
    const int64_t begin = large ? OffsetAt<int64_t>(0) : OffsetAt<int32_t>(0);
    const int64_t end = large ? OffsetAt<int64_t>(length_) : OffsetAt<int32_t>(length_);
    const size_t bytes = static_cast<size_t>(end - begin);
    if (bytes == 0) return Status::OK();
    const size_t ascii = SkipAscii({values_ + begin, bytes});
    if (bytes - ascii < 8 && IsAscii({values_ + begin + ascii, bytes - ascii})) return Status::OK();
  }
  for (int64_t i = 0; i < length_; ++i) {
    if (!IsNull(i) && !IsUtf8(Bytes(i))) return Status(Code::kSchema, "the text is not UTF-8: store it as binary, or decode it first", i);
  }
  return Status::OK();
}

// The first null, or -1.
inline int64_t FirstNull(const ColumnView& column) {
  for (int64_t i = 0; column.MayHaveNulls() && i < column.length(); ++i) {
    if (column.IsNull(i)) return i;
  }
  return -1;
}

}  // namespace sfkv
