// Arrow arrays of the model's values, in every layout, with memory of exactly the size that they may be read to.
#pragma once

#include <algorithm>

#include "cells.h"

namespace sfkv::fuzz {

// An array with its memory. It never moves: the array points into it.
class TestArray {
 public:
  TestArray() = default;
  TestArray(const TestArray&) = delete;
  TestArray& operator=(const TestArray&) = delete;

  ArrowArray* get() { return &array_; }
  size_t child_count() const { return children_.size(); }
  TestArray* child(size_t i) { return children_[i].get(); }
  TestArray* dictionary() { return dictionary_.get(); }
  size_t buffer_count() const { return memory_.size(); }
  // The memory of a buffer, null if there never was one.
  ExactBytes* memory(size_t i) { return memory_[i].get(); }
  size_t buffer_bytes(size_t i) const { return memory_[i] == nullptr ? 0 : memory_[i]->size(); }

  void Begin(int64_t length, int64_t null_count, int64_t offset) {
    array_ = ArrowArray{length, null_count, offset, 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr};
  }
  void AddBuffer(std::string_view bytes, size_t shift) { AddMemory(std::make_unique<ExactBytes>(bytes, shift)); }
  void AddNoBuffer() { AddMemory(nullptr); }
  TestArray* AddChild() {
    children_.push_back(std::make_unique<TestArray>());
    child_pointers_.push_back(children_.back()->get());
    array_.n_children = static_cast<int64_t>(child_pointers_.size());
    array_.children = child_pointers_.data();
    return children_.back().get();
  }
  TestArray* SetDictionary() {
    dictionary_ = std::make_unique<TestArray>();
    array_.dictionary = dictionary_->get();
    return dictionary_.get();
  }

  void DropBuffer(size_t i) { buffers_[i] = nullptr; }
  void DropChild(size_t i) { child_pointers_[i] = nullptr; }

 private:
  void AddMemory(std::unique_ptr<ExactBytes> memory) {
    buffers_.push_back(memory == nullptr ? nullptr : memory->data());
    memory_.push_back(std::move(memory));
    array_.n_buffers = static_cast<int64_t>(buffers_.size());
    array_.buffers = buffers_.data();
  }

  ArrowArray array_{};
  std::vector<const void*> buffers_;
  std::vector<std::unique_ptr<ExactBytes>> memory_;
  std::vector<std::unique_ptr<TestArray>> children_;
  std::vector<ArrowArray*> child_pointers_;
  std::unique_ptr<TestArray> dictionary_;
};

// A cell that stands where nobody looks: before an array's offset, or below a null.
inline Cell FillerCell(const Type& type) {
  if (type.cell == CellType::kNull) return NullCell();
  Cell cell;
  if (type.is_text()) cell.bytes = "abc";
  if (!type.is_variable()) cell.bytes.assign(type.width, '\1');
  const size_t items = type.cell == CellType::kFixedList ? static_cast<size_t>(type.list_size) : 1;
  for (const Column& child : type.children) {
    for (size_t i = 0; type.cell != CellType::kList && i < items; ++i) cell.children.push_back(FillerCell(child.type));
  }
  return cell;
}

// Makes arrays in the ways that an input chooses.
class ArrayMaker {
 public:
  explicit ArrayMaker(Input* input) : input_(input) {}

  // Makes "array" one of "cells".
  void Fill(const std::vector<Cell>& cells, const Type& type, TestArray* array) {
    const uint8_t chosen = input_->Byte();
    const size_t offset = chosen % 4;
    std::vector<Cell> all(offset, FillerCell(type));
    all.insert(all.end(), cells.begin(), cells.end());
    const size_t shift = chosen / 4 % 4 == 3 ? 1 : 0;
    FillAll(all, type, shift, array);
    array->get()->offset = static_cast<int64_t>(offset);
    array->get()->length = static_cast<int64_t>(cells.size());
    if (chosen / 16 % 4 == 3) array->get()->null_count = -1;  // not counted
  }

 private:
  static void Set(std::string* bits, size_t i) { SetBit(reinterpret_cast<uint8_t*>(bits->data()), static_cast<int64_t>(i)); }

  template <typename T>
  static void Append(std::string* bytes, T number) {
    bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  static void AppendOffset(std::string* offsets, Layout layout, size_t end) {
    layout == Layout::kLarge ? Append(offsets, static_cast<int64_t>(end)) : Append(offsets, static_cast<int32_t>(end));
  }

  void FillAll(const std::vector<Cell>& cells, const Type& type, size_t shift, TestArray* array) {
    int64_t nulls = 0;
    std::string bits((cells.size() + 7) / 8, '\0');
    const bool nulls_by_dictionary = type.index != CellType::kNull && input_->Bool();
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].is_null && !nulls_by_dictionary) ++nulls;
      else Set(&bits, i);
    }
    array->Begin(0, type.cell == CellType::kNull ? static_cast<int64_t>(cells.size()) : nulls, 0);
    if (type.cell == CellType::kNull) return;
    nulls == 0 ? array->AddNoBuffer() : array->AddBuffer(bits, shift);
    if (type.index != CellType::kNull) return FillDictionary(cells, type, shift, array);
    switch (type.cell) {
      case CellType::kUtf8:
      case CellType::kBinary: return type.layout == Layout::kView ? FillViews(cells, shift, array) : FillTexts(cells, type, shift, array);
      case CellType::kStruct: return FillStruct(cells, type, array);
      case CellType::kList: return FillLists(cells, type, shift, array);
      case CellType::kFixedList: return FillFixedLists(cells, type, array);
      default: return FillFixed(cells, type, shift, array);
    }
  }

  void FillFixed(const std::vector<Cell>& cells, const Type& type, size_t shift, TestArray* array) {
    std::string values;
    if (type.cell == CellType::kBool) {
      values.assign((cells.size() + 7) / 8, '\0');
      for (size_t i = 0; i < cells.size(); ++i) {
        if (cells[i].is_null || cells[i].bytes[0] != 0) Set(&values, i);
      }
    } else {
      for (const Cell& cell : cells) values += cell.is_null ? std::string(type.width, '\x7f') : cell.bytes;
    }
    array->AddBuffer(values, shift);
  }

  void FillTexts(const std::vector<Cell>& cells, const Type& type, size_t shift, TestArray* array) {
    std::string values(input_->Below(2), '\xff'), offsets;
    for (const Cell& cell : cells) {
      AppendOffset(&offsets, type.layout, values.size());
      values += cell.is_null ? "\xff" : cell.bytes;
    }
    AppendOffset(&offsets, type.layout, values.size());
    array->AddBuffer(offsets, shift);
    array->AddBuffer(values, shift);
  }

  void FillViews(const std::vector<Cell>& cells, size_t shift, TestArray* array) {
    std::vector<std::string> buffers(input_->Below(3) + 1);
    std::string views, sizes;
    for (const Cell& cell : cells) {
      if (cell.is_null) {
        views.append(16, '\x5a');
        continue;
      }
      Append(&views, static_cast<int32_t>(cell.bytes.size()));
      if (cell.bytes.size() <= 12) {
        views += cell.bytes + std::string(12 - cell.bytes.size(), '\0');
        continue;
      }
      const size_t b = views.size() % buffers.size();
      views += cell.bytes.substr(0, 4);
      Append(&views, static_cast<int32_t>(b));
      Append(&views, static_cast<int32_t>(buffers[b].size()));
      buffers[b] += cell.bytes;
    }
    array->AddBuffer(views, shift);
    for (const std::string& buffer : buffers) {
      array->AddBuffer(buffer, shift);
      Append(&sizes, static_cast<int64_t>(buffer.size()));
    }
    array->AddBuffer(sizes, shift);
  }

  // Dictionaries hold values several times, too, and values that nobody has. REQUIRES: few enough cells for the index.
  void FillDictionary(const std::vector<Cell>& cells, const Type& type, size_t shift, TestArray* array) {
    std::vector<Cell> values{FillerCell(type), NullCell()};
    std::string indices;
    const size_t width = IndexBytes(type.index);
    const bool has_bits = array->get()->buffers[0] != nullptr;
    for (const Cell& cell : cells) {
      size_t index = values.size();
      for (size_t v = 1; v < values.size() && cell.bytes.size() % 2 == 0; ++v) {
        if (values[v] == cell) index = v;
      }
      if (cell.is_null) index = has_bits ? 99 : 1;  // what stands below a null may lie outside
      if (index == values.size()) values.push_back(cell);
      const uint64_t number = index;
      FUZZ_EXPECT(width > 1 || index < 128);
      indices.append(reinterpret_cast<const char*>(&number), width);
    }
    array->AddBuffer(indices, shift);
    if (input_->Below(8) == 7) values.resize(std::max<size_t>(values.size(), 300), FillerCell(type));
    Fill(values, WithoutIndex(type), array->SetDictionary());
  }

  // What stands below a null: cells, or nulls even where the schema has none.
  Cell BelowNull(const Type& type, bool as_nulls) { return as_nulls ? NullCell() : FillerCell(type); }

  void FillStruct(const std::vector<Cell>& cells, const Type& type, TestArray* array) {
    const bool as_nulls = input_->Bool();
    for (size_t c = 0; c < type.children.size(); ++c) {
      std::vector<Cell> fields;
      for (const Cell& cell : cells) fields.push_back(cell.is_null ? BelowNull(type.children[c].type, as_nulls) : cell.children[c]);
      Fill(fields, type.children[c].type, array->AddChild());
    }
  }

  void FillLists(const std::vector<Cell>& cells, const Type& type, size_t shift, TestArray* array) {
    const uint8_t chosen = input_->Byte();
    const Type& item = type.children[0].type;
    std::vector<Cell> items(chosen % 4, FillerCell(item));
    std::string offsets;
    for (const Cell& cell : cells) {
      AppendOffset(&offsets, type.layout, items.size());
      if (cell.is_null) items.insert(items.end(), chosen / 4 % 3, BelowNull(item, (chosen & 16) != 0));
      items.insert(items.end(), cell.children.begin(), cell.children.end());
    }
    AppendOffset(&offsets, type.layout, items.size());
    array->AddBuffer(offsets, shift);
    items.insert(items.end(), chosen / 64, FillerCell(item));
    Fill(items, item, array->AddChild());
  }

  void FillFixedLists(const std::vector<Cell>& cells, const Type& type, TestArray* array) {
    const bool as_nulls = input_->Bool();
    const Type& item = type.children[0].type;
    std::vector<Cell> items;
    for (const Cell& cell : cells) {
      if (cell.is_null) items.insert(items.end(), static_cast<size_t>(type.list_size), BelowNull(item, as_nulls));
      items.insert(items.end(), cell.children.begin(), cell.children.end());
    }
    Fill(items, item, array->AddChild());
  }

  Input* input_;
};

// The type that arrays of a schema are given as, with its columns in another order; and for each of these its number in the schema.
inline Type TakeGivenRecord(Input* input, const std::vector<Column>& columns, std::vector<size_t>* numbers) {
  Type given = RecordType(columns);
  numbers->clear();
  for (size_t c = 0; c < columns.size(); ++c) {
    given.children[c].type = TakeGivenType(input, columns[c].type);
    numbers->push_back(c);
  }
  const size_t turn = input->Below(columns.size());
  std::rotate(given.children.begin(), given.children.begin() + static_cast<ptrdiff_t>(turn), given.children.end());
  std::rotate(numbers->begin(), numbers->begin() + static_cast<ptrdiff_t>(turn), numbers->end());
  return given;
}

// Columns read from an array that must be right, laid out as the input says; without one, as their types are.
class TestColumns {
 public:
  TestColumns(const std::vector<Row>& rows, const Schema& schema, Input* input = nullptr) {
    Input none(nullptr, 0);
    const bool is_free = input != nullptr && rows.size() <= 90;  // a dictionary may have an index of 8 bits
    ArrayMaker maker(is_free ? input : &none);
    Type given = schema.columns[0].type;
    if (schema.is_record) {
      std::vector<size_t> numbers(schema.columns.size());
      given = RecordType(schema.columns);
      for (size_t c = 0; c < numbers.size(); ++c) numbers[c] = c;
      if (is_free) given = TakeGivenRecord(input, schema.columns, &numbers);
      array_.Begin(static_cast<int64_t>(rows.size()), 0, 0);
      array_.AddNoBuffer();
      for (size_t c = 0; c < numbers.size(); ++c) maker.Fill(ColumnOf(rows, numbers[c]), given.children[c].type, array_.AddChild());
    } else {
      if (is_free) given = TakeGivenType(input, given);
      maker.Fill(ColumnOf(rows, 0), given, &array_);
    }
    FUZZ_EXPECT(CanReadAs(given, schema.columns, schema.is_record));
    FUZZ_EXPECT(ReadArrow(*array_.get(), given, schema.columns, schema.is_record, &columns_, &rows_).ok());
    FUZZ_EXPECT(CheckNulls(columns_, schema.columns).ok());
  }
  const Columns& get() const { return columns_; }

 private:
  TestArray array_;
  Columns columns_;
  ColumnView rows_;
};

// The rows of all columns, each written into memory of exactly its size.
template <typename Codec>
std::vector<std::string> EncodeExactly(const Codec& codec, const Columns& columns) {
  std::vector<std::string> rows;
  for (int64_t i = 0; i < columns[0].length(); ++i) {
    ExactBytes row(std::string(codec.RowBytes(columns, i), '\x55'));
    codec.EncodeRow(columns, i, row.data());
    rows.emplace_back(row.view());
  }
  return rows;
}

}  // namespace sfkv::fuzz
