// The arrays that columns end as, nested ones included: the bytes that a builder has gathered for them are read here, in the order
// of the rows, so that the children need not be moved.
#pragma once

#include "sfkv/record_codec.h"

namespace sfkv {

inline Status FinishColumn(ColumnBuilder* builder, int64_t length, const ValidityBuilder* present, ArrowArray* out);

inline Status AddChild(ColumnBuilder* builder, int64_t length, const ValidityBuilder* present, ArrayExport* made) {
  OwnedArray child;
  SFKV_RETURN_IF_ERROR(FinishColumn(builder, length, present, child.get()));
  made->AddChild(std::move(child));
  return Status::OK();
}

// Exports columns as the children of a struct array of "length" rows; "present", if given, says which rows there are.
inline Status FinishRecord(Builders* builders, int64_t length, const ValidityBuilder* present, ArrowArray* out) {
  auto made = std::make_unique<ArrayExport>();
  const int64_t null_count = AddValidity(nullptr, present, length, made.get());
  for (ColumnBuilder& builder : *builders) SFKV_RETURN_IF_ERROR(AddChild(&builder, length, present, made.get()));
  ArrayExport::Export(std::move(made), length, null_count, out);
  return Status::OK();
}

// The same for some of the columns, in the order of their numbers in "wanted".
inline Status FinishRecordOf(Builders* builders, const std::vector<int>& wanted, int64_t length, const ValidityBuilder* present, ArrowArray* out) {
  auto made = std::make_unique<ArrayExport>();
  const int64_t null_count = AddValidity(nullptr, present, length, made.get());
  for (int c : wanted) SFKV_RETURN_IF_ERROR(AddChild(&(*builders)[static_cast<size_t>(c)], length, present, made.get()));
  ArrayExport::Export(std::move(made), length, null_count, out);
  return Status::OK();
}

// Takes arrays as the children of a struct array of "length" rows.
inline void FinishStruct(OwnedArray* children, size_t count, int64_t length, ArrowArray* out) {
  auto made = std::make_unique<ArrayExport>();
  made->AddNoBuffer();
  for (size_t i = 0; i < count; ++i) made->AddChild(std::move(children[i]));
  ArrayExport::Export(std::move(made), length, 0, out);
}

// The offsets of an array of lists, which are added one after the other.
class ListOffsets {
 public:
  ListOffsets(int64_t length, Layout layout) : layout_(layout) {
    offsets_.Reserve(static_cast<size_t>(length + 1) * (layout == Layout::kLarge ? 8 : 4));
    EndList(0);
  }
  // Says where the next list ends, counted in items.
  void EndList(int64_t end) {
    const int32_t narrow = static_cast<int32_t>(end);
    if (layout_ == Layout::kLarge) {
      offsets_.Append(&end, sizeof(end));
    } else {
      offsets_.Append(&narrow, sizeof(narrow));
    }
  }
  ByteBuffer Take() { return std::move(offsets_); }

  static Status CheckCount(int64_t items, Layout layout) {
    if (layout == Layout::kLarge || items <= std::numeric_limits<int32_t>::max()) return Status::OK();
    return Status(Code::kLimit, "the answer holds " + std::to_string(items) +
                                    " elements, and an Arrow array of lists at most 2^31 - 1: read fewer keys per call");
  }
  // Takes the child that holds all items, and exports an array of lists of which none is null.
  void Finish(int64_t length, OwnedArray child, ArrowArray* out) {
    auto made = std::make_unique<ArrayExport>();
    made->AddNoBuffer();
    made->AddBuffer(Take());
    made->AddChild(std::move(child));
    ArrayExport::Export(std::move(made), length, 0, out);
  }

 private:
  Layout layout_;
  ByteBuffer offsets_;
};

namespace internal {

inline Status UnreadableCell() {
  return Status(Code::kCorruption, "Corruption: a stored cell does not have the form of its type: restore the store from a snapshot");
}

// Which rows a nested column has.
class PresentRows {
 public:
  PresentRows(ColumnBuilder* builder, const ValidityBuilder* present) : validity_(builder->validity() != nullptr ? builder->validity() : present) {}
  bool Has(int64_t i) const { return validity_ == nullptr || validity_->IsSet(i); }
  const ValidityBuilder* validity() const { return validity_; }

 private:
  const ValidityBuilder* validity_;
};

inline Status AddStructs(ColumnBuilder* builder, int64_t length, const PresentRows& rows, ArrayExport* made) {
  const RecordCodec codec(builder->type().children);
  std::vector<std::string_view> records;
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < length; ++i) {
    if (!rows.Has(i)) continue;
    records.push_back(builder->BytesAt(i));
    positions.push_back(i);
    if (!codec.IsRow(records.back())) return UnreadableCell();  // before room is made
  }
  Builders fields = MakeBuilders(codec.columns(), length);
  for (size_t c = 0; c < fields.size(); ++c) codec.ParseColumn(c, records.data(), positions.data(), records.size(), &fields[c]);
  for (ColumnBuilder& field : fields) SFKV_RETURN_IF_ERROR(AddChild(&field, length, rows.validity(), made));
  return Status::OK();
}

inline Status AddLists(ColumnBuilder* builder, int64_t length, const PresentRows& rows, ArrayExport* made) {
  const Layout layout = builder->type().layout;
  const RecordCodec codec(builder->type().children);
  int64_t count = 0;
  ListOffsets offsets(length, layout);
  for (int64_t i = 0; i < length; ++i) {
    size_t more = 0;
    if (rows.Has(i)) {
      std::string_view list = builder->BytesAt(i);
      if (!TakeVarint(&list, &more) || !codec.CanHoldItems(list.size(), more)) return UnreadableCell();
    }
    count += static_cast<int64_t>(more);
    SFKV_RETURN_IF_ERROR(ListOffsets::CheckCount(count, layout));
    offsets.EndList(count);
  }
  made->AddBuffer(offsets.Take());
  ColumnBuilder items(codec.columns()[0], count);
  int64_t begin = 0;
  for (int64_t i = 0; i < length; ++i) {
    if (!rows.Has(i)) continue;
    std::string_view bytes = builder->BytesAt(i);
    size_t more = 0;
    TakeVarint(&bytes, &more);
    if (!codec.ParseItems(bytes, more, begin, &items)) return UnreadableCell();
    begin += static_cast<int64_t>(more);
  }
  return AddChild(&items, items.length(), nullptr, made);
}

inline Status AddFixedLists(ColumnBuilder* builder, int64_t length, const PresentRows& rows, ArrayExport* made) {
  const int64_t size = builder->type().list_size;
  const RecordCodec codec(builder->type().children);
  for (int64_t i = 0; i < length; ++i) {
    if (rows.Has(i) && !codec.CanHoldItems(builder->BytesAt(i).size(), static_cast<size_t>(size))) return UnreadableCell();
  }
  ColumnBuilder items(codec.columns()[0], length * size);
  for (int64_t i = 0; i < length; ++i) {
    if (rows.Has(i) && !codec.ParseItems(builder->BytesAt(i), static_cast<size_t>(size), i * size, &items)) return UnreadableCell();
  }
  // The items of a list that is null are absent too: no bytes are there to be read.
  ValidityBuilder present;
  const bool some_absent = rows.validity() != nullptr && codec.columns()[0].type.is_nested();
  if (some_absent) {
    present.Begin(items.length());
    for (int64_t item = 0; item < items.length(); ++item) {
      if (rows.Has(item / size)) present.Set(item);
    }
  }
  return AddChild(&items, items.length(), some_absent ? &present : nullptr, made);
}

}  // namespace internal

// Exports the first "length" rows of a column; "present", if given, says which rows there are. The builder is empty afterwards.
inline Status FinishColumn(ColumnBuilder* builder, int64_t length, const ValidityBuilder* present, ArrowArray* out) {
  if (!builder->type().is_nested()) return builder->Finish(length, present, out);
  auto made = std::make_unique<ArrayExport>();
  const internal::PresentRows rows(builder, present);
  // The bits are needed for the children first, so they are copied.
  const int64_t null_count = AddValidity(nullptr, rows.validity(), length, made.get());
  switch (builder->type().cell) {
    case CellType::kStruct: SFKV_RETURN_IF_ERROR(internal::AddStructs(builder, length, rows, made.get())); break;
    case CellType::kList: SFKV_RETURN_IF_ERROR(internal::AddLists(builder, length, rows, made.get())); break;
    default: SFKV_RETURN_IF_ERROR(internal::AddFixedLists(builder, length, rows, made.get())); break;
  }
  ArrayExport::Export(std::move(made), length, null_count, out);
  return Status::OK();
}

}  // namespace sfkv
