// Columns on their way out: builders of new Arrow arrays. A builder is filled by position, in any order, and gives its memory to
// the array that it exports. Nested cells are kept as the bytes that they are in rows; record_codec.h makes arrays of them.
#pragma once

#include <string_view>
#include <utility>

#include "sfkv/debug.h"
#include "sfkv/type.h"

namespace sfkv {

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
  void Set(int64_t i) { SetBit(bits(), i); }
  bool IsSet(int64_t i) const { return GetBit(reinterpret_cast<const uint8_t*>(bits_.data()), i); }

  int64_t CountNulls(int64_t length) const {
    int64_t present = 0, i = 0;
    uint64_t word;
    for (; i + 64 <= length; i += 64) {
      std::memcpy(&word, bits_.data() + i / 8, sizeof(word));
      present += __builtin_popcountll(word);
    }
    for (; i < length; ++i) present += IsSet(i);
    return length - present;
  }
  ByteBuffer Copy() const {
    ByteBuffer copy;
    copy.Append(bits_.data(), bits_.size());
    return copy;
  }
  ByteBuffer Take() { return std::move(bits_); }
  int64_t length() const { return length_; }

 private:
  uint8_t* bits() { return reinterpret_cast<uint8_t*>(bits_.data()); }

  int64_t length_ = 0;
  ByteBuffer bits_;
};

// Which of "length" rows an array has, as its first buffer: those of "own"; without it those of "present"; without that all.
inline int64_t AddValidity(ValidityBuilder* own, const ValidityBuilder* present, int64_t length, ArrayExport* made) {
  const ValidityBuilder* validity = own != nullptr ? own : present;
  const int64_t null_count = validity == nullptr ? 0 : validity->CountNulls(length);
  if (null_count == 0) {
    made->AddNoBuffer();
  } else {
    made->AddBuffer(own != nullptr ? own->Take() : present->Copy());
  }
  return null_count;
}

// Builds a column of a known number of rows. In a nullable one a row that is never set is null; in others it is absent as a whole.
class ColumnBuilder {
 public:
  // Builds nothing: for a column that was not asked for.
  ColumnBuilder() = default;
  // "column" must live as long as this.
  ColumnBuilder(const Column& column, int64_t length)
      : type_(&column.type), width_(column.type.width), nullable_(column.nullable), length_(length) {
    if (nullable_) validity_.Begin(length);
    if (type_->is_variable()) {
      spans_.resize(static_cast<size_t>(length));
    } else {
      cells_.AppendZeros(is_bool() ? static_cast<size_t>((length + 7) / 8) : width_ * static_cast<size_t>(length));
    }
  }

  bool is_wanted() const { return type_ != nullptr; }
  const Type& type() const { return *type_; }
  bool is_bool() const { return type_->cell == CellType::kBool; }
  int64_t length() const { return length_; }
  // Its own, if the column is nullable.
  ValidityBuilder* validity() { return nullable_ ? &validity_ : nullptr; }
  // All cells of a column with a width that is not kBool, to be written; where it is nullable, SetPresent() too.
  char* cells() { return cells_.data(); }
  void SetPresent(int64_t i) {
    if (nullable_) validity_.Set(i);
  }

  // "cell" holds the type's width, in this machine's order. REQUIRES: the type is not variable.
  void SetFixed(int64_t i, const char* cell) {
    SetPresent(i);
    if (is_bool()) {
      if (*cell != 0) SetBit(reinterpret_cast<uint8_t*>(cells_.data()), i);
    } else {
      std::memcpy(cells_.data() + static_cast<size_t>(i) * width_, cell, width_);
    }
  }

  // REQUIRES: the type is variable. Nested cells are given as they are in rows.
  void SetBytes(int64_t i, std::string_view bytes) {
    SetPresent(i);
    spans_[static_cast<size_t>(i)] = {cells_.size(), bytes.size()};
    in_order_ &= i >= next_;
    next_ = i + 1;
    cells_.Append(bytes.data(), bytes.size());
  }
  std::string_view BytesAt(int64_t i) const {
    const Span& span = spans_[static_cast<size_t>(i)];
    return {cells_.data() + span.begin, span.bytes};
  }

  void Set(int64_t i, std::string_view cell) {
    if (type_->is_variable()) {
      SetBytes(i, cell);
    } else {
      SetFixed(i, cell.data());
    }
  }

  // Gives rows what other rows have, without a second copy of their bytes: pairs of a row and the one that it is to be like.
  void Repeat(const std::vector<std::pair<int64_t, int64_t>>& rows) {
    if (nullable_) {
      for (const auto& [i, from] : rows) {
        if (validity_.IsSet(from)) validity_.Set(i);
      }
    }
    if (type_->is_variable()) {
      for (const auto& [i, from] : rows) spans_[static_cast<size_t>(i)] = spans_[static_cast<size_t>(from)];
      in_order_ &= rows.empty();
    } else if (is_bool()) {
      auto* bits = reinterpret_cast<uint8_t*>(cells_.data());
      for (const auto& [i, from] : rows) {
        if (GetBit(bits, from)) SetBit(bits, i);
      }
    } else if (width_ == 8) {
      CopyCells<8>(rows);
    } else {
      CopyCells<0>(rows);
    }
  }

  // Exports the first "length" rows as an Arrow array; "present", if given, says which rows there are. The builder is empty
  // afterwards. REQUIRES: the type is not nested.
  Status Finish(int64_t length, const ValidityBuilder* present, ArrowArray* out) {
    SFKV_REQUIRES(length <= length_ && !type_->is_nested());
    auto made = std::make_unique<ArrayExport>();
    if (type_->cell == CellType::kNull) {
      ArrayExport::Export(std::move(made), length, length, out);
      return Status::OK();
    }
    const int64_t null_count = AddValidity(validity(), present, length, made.get());
    if (!type_->is_variable()) {
      made->AddBuffer(std::move(cells_));
    } else if (type_->layout == Layout::kView) {
      SFKV_RETURN_IF_ERROR(AddViews(length, made.get()));
    } else if (type_->layout == Layout::kLarge) {
      SFKV_RETURN_IF_ERROR(AddOffsets<int64_t>(length, made.get()));
    } else {
      SFKV_RETURN_IF_ERROR(AddOffsets<int32_t>(length, made.get()));
    }
    ArrayExport::Export(std::move(made), length, null_count, out);
    return Status::OK();
  }

 private:
  struct Span {
    size_t begin = 0;
    size_t bytes = 0;
  };

  template <size_t kWidth>
  void CopyCells(const std::vector<std::pair<int64_t, int64_t>>& rows) {
    const size_t width = kWidth != 0 ? kWidth : width_;
    for (const auto& [i, from] : rows) {
      std::memcpy(cells_.data() + static_cast<size_t>(i) * width, cells_.data() + static_cast<size_t>(from) * width, width);
    }
  }

  static Status TooLong(size_t bytes, const char* remedy) {
    return Status(Code::kLimit, "the answer holds " + std::to_string(bytes) +
                                    " bytes in one column, and an Arrow array of this type at most 2^31 - 1: read fewer keys per call" + remedy);
  }

  // Adds the offsets, and the bytes in the rows' order: they are moved where they were set in another.
  template <typename Offset>
  Status AddOffsets(int64_t length, ArrayExport* made) {
    size_t total = 0;
    for (int64_t i = 0; i < length; ++i) total += spans_[static_cast<size_t>(i)].bytes;
    if (total > static_cast<size_t>(std::numeric_limits<Offset>::max())) return TooLong(total, ", or use the large type");
    ByteBuffer offsets;
    auto* at = reinterpret_cast<Offset*>(offsets.Extend(static_cast<size_t>(length + 1) * sizeof(Offset)));
    Offset end = 0;
    at[0] = 0;
    for (int64_t i = 0; i < length; ++i) at[i + 1] = end = static_cast<Offset>(end + static_cast<Offset>(spans_[static_cast<size_t>(i)].bytes));
    made->AddBuffer(std::move(offsets));
    if (in_order_) {
      made->AddBuffer(std::move(cells_));
      return Status::OK();
    }
    ByteBuffer ordered;
    ordered.Reserve(total);
    for (int64_t i = 0; i < length; ++i) ordered.Append(BytesAt(i).data(), BytesAt(i).size());
    made->AddBuffer(std::move(ordered));
    return Status::OK();
  }

  // Adds a view for each row: the bytes stay where they are, in whatever order.
  Status AddViews(int64_t length, ArrayExport* made) {
    if (cells_.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) return TooLong(cells_.size(), "");
    ByteBuffer views;
    views.AppendZeros(static_cast<size_t>(length) * 16);
    for (int64_t i = 0; i < length; ++i) {
      char* view = views.data() + i * 16;
      const std::string_view bytes = BytesAt(i);
      const int32_t place[4] = {static_cast<int32_t>(bytes.size()), 0, 0, static_cast<int32_t>(spans_[static_cast<size_t>(i)].begin)};
      std::memcpy(view, place, bytes.size() <= 12 ? 4 : 16);
      if (!bytes.empty()) std::memcpy(view + 4, bytes.data(), bytes.size() <= 12 ? bytes.size() : 4);
    }
    const int64_t size = static_cast<int64_t>(cells_.size());
    ByteBuffer sizes;
    sizes.Append(&size, sizeof(size));
    made->AddBuffer(std::move(views));
    made->AddBuffer(std::move(cells_));
    made->AddBuffer(std::move(sizes));
    return Status::OK();
  }

  const Type* type_ = nullptr;
  size_t width_ = 0;
  bool nullable_ = false;
  int64_t length_ = 0;
  ValidityBuilder validity_;
  ByteBuffer cells_;
  std::vector<Span> spans_;
  bool in_order_ = true;
  int64_t next_ = 0;
};

using Builders = std::vector<ColumnBuilder>;

inline Builders MakeBuilders(const std::vector<Column>& columns, int64_t length) {
  Builders builders;
  builders.reserve(columns.size());
  for (const Column& column : columns) builders.emplace_back(column, length);
  return builders;
}

// The same for some of the columns: "wanted" are their numbers.
inline Builders MakeBuildersOf(const std::vector<Column>& columns, const std::vector<int>& wanted, int64_t length) {
  Builders builders(columns.size());
  for (int c : wanted) builders[static_cast<size_t>(c)] = ColumnBuilder(columns[static_cast<size_t>(c)], length);
  return builders;
}

// Exports which rows are present as a boolean array without nulls.
inline void FinishPresence(ValidityBuilder* present, ArrowArray* out) {
  auto made = std::make_unique<ArrayExport>();
  made->AddNoBuffer();
  made->AddBuffer(present->Take());
  ArrayExport::Export(std::move(made), present->length(), 0, out);
}

}  // namespace sfkv
