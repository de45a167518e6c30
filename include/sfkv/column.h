// Columns on their way in and out: views over Arrow's C data interface, and builders of new Arrow arrays.
//
// A ColumnView borrows; the array that it was made from must outlive it. A ColumnBuilder is filled by position, in any
// order, and gives its memory to the array that it exports. Source: "The Arrow C data interface".
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sfkv/buffer.h"
#include "sfkv/debug.h"
#include "sfkv/status.h"

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
}
#endif

namespace sfkv {

// How a column's cells lie in memory. Several Arrow types share one: a timestamp is an int64, a date32 an int32.
enum class CellType : uint8_t { kBool = 0, kInt8, kInt16, kInt32, kInt64, kFloat32, kFloat64, kUtf8, kBinary };

// Bytes of a cell in a row; 0 where each cell has its own length.
inline size_t CellBytes(CellType type) {
  switch (type) {
    case CellType::kBool:
    case CellType::kInt8: return 1;
    case CellType::kInt16: return 2;
    case CellType::kInt32:
    case CellType::kFloat32: return 4;
    case CellType::kInt64:
    case CellType::kFloat64: return 8;
    case CellType::kUtf8:
    case CellType::kBinary: return 0;
  }
  return 0;
}

inline bool GetBit(const uint8_t* bits, int64_t i) { return (bits[i >> 3] >> (i & 7)) & 1; }
inline void SetBit(uint8_t* bits, int64_t i) { bits[i >> 3] = static_cast<uint8_t>(bits[i >> 3] | (1u << (i & 7))); }

// Whether an array's offset and length can be those of any cells.
inline bool HasCells(const ArrowArray& array) {
  return array.offset >= 0 && array.length >= 0 && array.offset <= std::numeric_limits<int64_t>::max() - array.length;
}

class ColumnView {
 public:
  // A view of "array", which the caller says to be of "type"; what can be checked of that is.
  static Status Make(const ArrowArray& array, CellType type, ColumnView* view) {
    return MakeChild(array, type, 0, array.length, view);
  }

  // A view of the "length" cells from "begin" of a struct array's child.
  static Status MakeChild(const ArrowArray& array, CellType type, int64_t begin, int64_t length, ColumnView* view) {
    const bool variable = CellBytes(type) == 0;
    if (array.n_buffers != (variable ? 3 : 2) || array.n_children != 0 || !HasCells(array)) {
      return Status(Code::kSchema, "the Arrow array does not have the buffers of its type");
    }
    if (begin < 0 || length < 0 || begin > array.length || length > array.length - begin) {
      return Status(Code::kSchema, "the Arrow array's columns differ in length");
    }
    view->type_ = type;
    view->length_ = length;
    view->offset_ = array.offset + begin;
    view->validity_ = array.null_count == 0 ? nullptr : static_cast<const uint8_t*>(array.buffers[0]);
    view->values_ = static_cast<const char*>(array.buffers[variable ? 2 : 1]);
    view->offsets_ = variable ? static_cast<const int32_t*>(array.buffers[1]) : nullptr;
    if (length == 0) return Status::OK();
    if (variable) {
      if (view->offsets_ == nullptr) return Status(Code::kSchema, "the Arrow array lacks its offsets");
      const int32_t* offsets = view->offsets_ + view->offset_;
      bool rising = offsets[0] >= 0;
      for (int64_t i = 0; i < length; ++i) rising &= offsets[i] <= offsets[i + 1];
      if (!rising) return Status(Code::kSchema, "the Arrow array's offsets do not rise");
      if (offsets[length] == 0) return Status::OK();
    }
    if (view->values_ == nullptr) return Status(Code::kSchema, "the Arrow array lacks its values");
    return Status::OK();
  }

  // A view that tells which rows of a struct array are null, and nothing else.
  static ColumnView OfValidity(const ArrowArray& array) {
    ColumnView view;
    view.length_ = array.length;
    view.offset_ = array.offset;
    view.validity_ = array.null_count == 0 ? nullptr : static_cast<const uint8_t*>(array.buffers[0]);
    return view;
  }

  CellType type() const { return type_; }
  int64_t length() const { return length_; }
  bool MayHaveNulls() const { return validity_ != nullptr; }
  bool IsNull(int64_t i) const { return validity_ != nullptr && !GetBit(validity_, offset_ + i); }
  bool Bool(int64_t i) const { return GetBit(reinterpret_cast<const uint8_t*>(values_), offset_ + i); }

  template <typename T>
  T Value(int64_t i) const {
    T value;
    std::memcpy(&value, values_ + (offset_ + i) * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }

  // REQUIRES: CellBytes(type()) == 0.
  std::string_view Bytes(int64_t i) const {
    const int32_t begin = offsets_[offset_ + i];
    return {values_ + begin, static_cast<size_t>(offsets_[offset_ + i + 1] - begin)};
  }

 private:
  CellType type_ = CellType::kBool;
  int64_t length_ = 0;
  int64_t offset_ = 0;
  const uint8_t* validity_ = nullptr;
  const char* values_ = nullptr;
  const int32_t* offsets_ = nullptr;
};

// The first null, or -1.
inline int64_t FirstNull(const ColumnView& column) {
  for (int64_t i = 0; column.MayHaveNulls() && i < column.length(); ++i) {
    if (column.IsNull(i)) return i;
  }
  return -1;
}

namespace internal {

// What an exported array owns: its buffers, and the children that its consumer has not taken.
struct ExportedArray {
  const void* buffers[3] = {nullptr, nullptr, nullptr};
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> child_pointers;

  static void Release(ArrowArray* array) {
    auto* exported = static_cast<ExportedArray*>(array->private_data);
    for (const void* buffer : exported->buffers) std::free(const_cast<void*>(buffer));
    for (ArrowArray& child : exported->children) {
      if (child.release != nullptr) child.release(&child);
    }
    delete exported;
    array->release = nullptr;
  }

  void Export(int64_t length, int64_t null_count, int64_t buffer_count, ArrowArray* out) {
    for (ArrowArray& child : children) child_pointers.push_back(&child);
    *out = ArrowArray{length, null_count, 0, buffer_count, static_cast<int64_t>(children.size()), buffers,
                      children.empty() ? nullptr : child_pointers.data(), nullptr, &Release, this};
  }
};

}  // namespace internal

// An Arrow array that is released with this, unless it is taken.
class OwnedArray {
 public:
  OwnedArray() { array_.release = nullptr; }
  ~OwnedArray() {
    if (array_.release != nullptr) array_.release(&array_);
  }
  OwnedArray(const OwnedArray&) = delete;
  OwnedArray& operator=(const OwnedArray&) = delete;

  ArrowArray* get() { return &array_; }
  void MoveTo(ArrowArray* out) {
    *out = array_;
    array_.release = nullptr;
  }

 private:
  ArrowArray array_{};
};

// One bit a row that says whether there is a value.
class ValidityBuilder {
 public:
  ValidityBuilder() = default;
  explicit ValidityBuilder(int64_t length) { Begin(length); }

  // Makes "length" rows, all absent. REQUIRES: a new builder.
  void Begin(int64_t length) {
    length_ = length;
    bits_.AppendZeros(static_cast<size_t>((length + 7) / 8));
  }
  void Set(int64_t i) { SetBit(reinterpret_cast<uint8_t*>(bits_.data()), i); }
  void SetAll() { std::memset(bits_.data(), 0xFF, bits_.size()); }

  int64_t CountNulls(int64_t length) const {
    int64_t present = 0;
    for (int64_t i = 0; i < length; ++i) present += GetBit(reinterpret_cast<const uint8_t*>(bits_.data()), i);
    return length - present;
  }
  char* Release() { return bits_.Release(); }
  int64_t length() const { return length_; }

 private:
  int64_t length_ = 0;
  ByteBuffer bits_;
};

// Builds a column of a known number of rows. A row that is never set is null.
class ColumnBuilder {
 public:
  ColumnBuilder(CellType type, int64_t length) : type_(type), width_(CellBytes(type)), validity_(length) {
    if (type == CellType::kBool) {
      cells_.AppendZeros(static_cast<size_t>((length + 7) / 8));
    } else if (width_ != 0) {
      cells_.AppendZeros(width_ * static_cast<size_t>(length));
    } else {
      spans_.resize(static_cast<size_t>(length));
    }
  }

  CellType type() const { return type_; }

  // "cell" holds CellBytes(type()) bytes, in this machine's order. REQUIRES: the type has a width.
  void SetFixed(int64_t i, const char* cell) {
    validity_.Set(i);
    if (type_ == CellType::kBool) {
      if (*cell != 0) SetBit(reinterpret_cast<uint8_t*>(cells_.data()), i);
    } else {
      std::memcpy(cells_.data() + static_cast<size_t>(i) * width_, cell, width_);
    }
  }

  // Makes every row present, and gives their cells to be written. REQUIRES: the type has a width, and is not kBool.
  char* SetAllFixed() {
    validity_.SetAll();
    return cells_.data();
  }

  // REQUIRES: the type has no width.
  void SetBytes(int64_t i, std::string_view bytes) {
    validity_.Set(i);
    spans_[static_cast<size_t>(i)] = {cells_.size(), bytes.size()};
    in_order_ &= i >= next_;
    next_ = i + 1;
    cells_.Append(bytes.data(), bytes.size());
  }

  // Gives row "i" the value of row "from", without a second copy of its bytes.
  void SetSame(int64_t i, int64_t from) {
    validity_.Set(i);
    if (width_ == 0) {
      spans_[static_cast<size_t>(i)] = spans_[static_cast<size_t>(from)];
      in_order_ = false;
    } else if (type_ == CellType::kBool) {
      if (GetBit(reinterpret_cast<const uint8_t*>(cells_.data()), from)) SetBit(reinterpret_cast<uint8_t*>(cells_.data()), i);
    } else {
      std::memcpy(cells_.data() + static_cast<size_t>(i) * width_, cells_.data() + static_cast<size_t>(from) * width_, width_);
    }
  }

  // Exports the first "length" rows as an Arrow array. The builder is empty afterwards.
  Status Finish(int64_t length, ArrowArray* out) {
    SFKV_REQUIRES(length <= validity_.length());
    const int64_t null_count = validity_.CountNulls(length);
    auto exported = std::make_unique<internal::ExportedArray>();
    if (width_ == 0) {
      ByteBuffer offsets;
      SFKV_RETURN_IF_ERROR(LayOut(length, &offsets));
      exported->buffers[1] = offsets.Release();
      exported->buffers[2] = cells_.Release();
    } else {
      exported->buffers[1] = cells_.Release();
    }
    if (null_count != 0) exported->buffers[0] = validity_.Release();
    exported.release()->Export(length, null_count, width_ == 0 ? 3 : 2, out);
    return Status::OK();
  }

 private:
  struct Span {
    size_t begin = 0;
    size_t bytes = 0;
  };

  // Writes the offsets, and brings the bytes into the rows' order where they were set in another.
  Status LayOut(int64_t length, ByteBuffer* offsets) {
    size_t total = 0;
    for (int64_t i = 0; i < length; ++i) total += spans_[static_cast<size_t>(i)].bytes;
    if (total > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      return Status(Code::kLimit, "the answer holds " + std::to_string(total) +
                                      " bytes in one column, and an Arrow array of this type at most 2^31 - 1: read fewer keys per call");
    }
    auto* at = reinterpret_cast<int32_t*>(offsets->Extend(static_cast<size_t>(length + 1) * sizeof(int32_t)));
    int32_t end = 0;
    at[0] = 0;
    for (int64_t i = 0; i < length; ++i) at[i + 1] = end += static_cast<int32_t>(spans_[static_cast<size_t>(i)].bytes);
    if (in_order_) return Status::OK();
    ByteBuffer ordered;
    ordered.Reserve(total);
    for (int64_t i = 0; i < length; ++i) {
      const Span& span = spans_[static_cast<size_t>(i)];
      ordered.Append(cells_.data() + span.begin, span.bytes);
    }
    cells_ = std::move(ordered);
    return Status::OK();
  }

  CellType type_;
  size_t width_;
  ValidityBuilder validity_;
  ByteBuffer cells_;
  std::vector<Span> spans_;
  bool in_order_ = true;
  int64_t next_ = 0;
};

// Takes arrays as the children of a struct array of "length" rows.
inline void FinishStruct(OwnedArray* children, size_t count, int64_t length, ArrowArray* out) {
  auto exported = std::make_unique<internal::ExportedArray>();
  exported->children.resize(count);
  for (size_t i = 0; i < count; ++i) children[i].MoveTo(&exported->children[i]);
  exported.release()->Export(length, 0, 1, out);
}

// Exports which rows are present as a boolean array without nulls.
inline void FinishPresence(ValidityBuilder* present, ArrowArray* out) {
  auto exported = std::make_unique<internal::ExportedArray>();
  exported->buffers[1] = present->Release();
  exported.release()->Export(present->length(), 0, 2, out);
}

// Exports "columns" as the children of a struct array of "length" rows; "present", if given, says which rows there are.
inline Status FinishRecord(std::vector<ColumnBuilder>* columns, int64_t length, ValidityBuilder* present, ArrowArray* out) {
  auto exported = std::make_unique<internal::ExportedArray>();
  exported->children.resize(columns->size());
  for (ArrowArray& child : exported->children) child.release = nullptr;
  for (size_t c = 0; c < columns->size(); ++c) {
    Status status = (*columns)[c].Finish(length, &exported->children[c]);
    if (status.ok()) continue;
    for (ArrowArray& child : exported->children) {
      if (child.release != nullptr) child.release(&child);
    }
    return status;
  }
  const int64_t null_count = present == nullptr ? 0 : present->CountNulls(length);
  if (null_count != 0) exported->buffers[0] = present->Release();
  exported.release()->Export(length, null_count, 1, out);
  return Status::OK();
}

}  // namespace sfkv
