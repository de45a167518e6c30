// Columns on their way in and out (column.h, row_codec.h, list_codec.h): Arrow arrays that are not what they should be, and builders.
//
//   An array whose lengths, offsets, buffer counts or children do not fit is refused; one that is accepted is read within its
//   buffers, and says what was put into it. What the C data interface cannot tell, how large a buffer is, is left as it must be.
//   CheckNulls() finds the first null of a column that may have none.
//   A builder that is filled in any order gives the column that was put into it.
#include <limits>
#include <numeric>

#include "model.h"
#include "sfkv/key_codec.h"
#include "sfkv/list_codec.h"

namespace sfkv::fuzz {
namespace {

using Wide = __int128;  // in which no sum of two lengths overflows

int64_t TakeHostile(Input* input) {
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kEdges[] = {0, 1, 2, -1, kMost, kMost - 1, -kMost - 1, -kMost};
  const uint8_t chosen = input->Byte();
  return chosen < 8 ? kEdges[chosen] : chosen < 128 ? chosen % 16 : input->Number<int64_t>();
}

// One column as an array, and what is known of its memory.
struct HostileColumn {
  Column column;
  size_t cells = 0;  // that the buffers have room for
  std::string offsets;
  size_t value_bytes = 0;
  bool has_offsets = true;
  bool has_values = true;
  bool may_be_read = true;  // false for lies that cannot be seen
};

// Whether the "length" cells from "begin" of the array must be accepted; and whether they may be read.
bool Fits(const ArrowArray& array, HostileColumn* column, Wide begin, Wide length) {
  const bool variable = CellBytes(column->column.type) == 0;
  if (array.n_buffers != (variable ? 3 : 2) || array.n_children != 0 || array.offset < 0 || array.length < 0) return false;
  if (begin < 0 || length < 0 || begin + length > array.length) return false;
  if (Wide{array.offset} + array.length > std::numeric_limits<int64_t>::max()) return false;
  if (length == 0) return true;
  if (!(variable ? column->has_offsets : column->has_values)) return false;
  if (array.offset + begin + length > static_cast<Wide>(column->cells)) column->may_be_read = false;
  if (!variable || !column->may_be_read) return true;
  int32_t before = 0, last = 0;
  for (Wide i = 0; i <= length; ++i) {
    std::memcpy(&last, column->offsets.data() + static_cast<size_t>(array.offset + begin + i) * sizeof(last), sizeof(last));
    if (last < before) return false;
    before = last;
  }
  if (!column->has_values) return last == 0;
  if (static_cast<size_t>(last) > column->value_bytes) column->may_be_read = false;
  return true;
}

// Makes a column of "rows" and then changes what it says of itself.
HostileColumn MakeHostile(Input* input, const std::vector<Row>& rows, size_t c, Column column, TestArray* array) {
  const size_t offset = input->Below(3);
  array->FillColumn(rows, c, column, offset);
  HostileColumn hostile{column, rows.size() + offset, {}, 0, true, true, true};
  const bool variable = CellBytes(column.type) == 0;
  if (variable) {
    const auto* offsets = static_cast<const int32_t*>(array->get()->buffers[1]);
    hostile.offsets.assign(reinterpret_cast<const char*>(offsets), (hostile.cells + 1) * sizeof(int32_t));
    hostile.value_bytes = static_cast<size_t>(offsets[hostile.cells]);
  }
  for (size_t changes = input->Below(3); changes > 0; --changes) {
    switch (input->Below(8)) {
      case 0: array->get()->length = TakeHostile(input); break;
      case 1: array->get()->offset = TakeHostile(input); break;
      case 2: array->get()->null_count = array->get()->buffers[0] == nullptr ? -1 : TakeHostile(input); break;
      case 3: array->get()->n_buffers = TakeHostile(input); break;
      case 4: array->get()->n_children = TakeHostile(input); break;
      case 5:
        array->DropBuffer(1);
        (variable ? hostile.has_offsets : hostile.has_values) = false;
        break;
      case 6:
        if (variable) array->DropBuffer(2);
        hostile.has_values = hostile.has_values && !variable;
        break;
      case 7:
        if (!variable || !hostile.has_offsets) break;
        for (size_t i = input->Below(hostile.cells + 1); i <= hostile.cells; ++i) {
          const int32_t lie = input->Bool() ? static_cast<int32_t>(input->Byte() % 32) : input->Number<int32_t>();
          std::memcpy(&hostile.offsets[i * sizeof(lie)], &lie, sizeof(lie));
        }
        array->SetBuffer(1, hostile.offsets);
        break;
    }
  }
  return hostile;
}

bool IsNullIn(const ArrowArray& array, int64_t at) {
  return array.null_count != 0 && array.buffers[0] != nullptr && !GetBit(static_cast<const uint8_t*>(array.buffers[0]), at);
}

// Reads every cell, by hand and by both codecs.
void ReadAll(const ArrowArray& array, const Schema& schema, const Columns& columns) {
  for (size_t c = 0; c < columns.size(); ++c) {
    const ArrowArray& child = schema.is_record ? *array.children[c] : array;
    const int64_t begin = schema.is_record ? array.offset : 0;
    FUZZ_EXPECT(columns[c].length() == array.length && columns[c].type() == schema.columns[c].type);
    int64_t first_null = -1;
    for (int64_t i = 0; i < array.length; ++i) {
      const bool is_null = IsNullIn(child, child.offset + begin + i);
      if (is_null && first_null < 0) first_null = i;
      FUZZ_EXPECT(CellOf(columns[c], schema.columns[c].type, i).is_null == is_null);
    }
    FUZZ_EXPECT(FirstNull(columns[c]) == first_null);
  }
  const Status status = CheckNulls(columns, schema.columns);
  size_t c = 0;
  while (c < columns.size() && (schema.columns[c].nullable || FirstNull(columns[c]) < 0)) ++c;
  FUZZ_EXPECT(status.ok() == (c == columns.size()));
  if (!status.ok()) {
    FUZZ_EXPECT(status.code() == Code::kSchema && status.column() == static_cast<int>(c) && status.row() == FirstNull(columns[c]));
    return;
  }
  const KeyCodec keys(schema.columns, schema.is_record, HashKind::kMurmur);
  const ValueCodec values(schema.columns, schema.is_record);
  for (const std::string& row : EncodeRows(keys, columns)) {
    std::vector<ColumnBuilder> parsed = MakeBuilders(keys.columns(), 1);
    const auto rest = keys.ParseFront(row, 0, &parsed);
    FUZZ_EXPECT(rest && rest->empty());
  }
  for (const std::string& row : EncodeRows(values, columns)) FUZZ_EXPECT(values.IsRow(row));
}

void ReadHostile(Input* input) {
  const Schema schema = TakeSchema(input);
  Schema nullable = schema;  // the arrays have nulls where the schema allows none, too
  for (Column& column : nullable.columns) column.nullable = true;
  const std::vector<Row> rows = TakeRows(input, nullable.columns, input->Below(20));
  TestArray array;
  std::vector<HostileColumn> hostile;
  bool fits = true;
  if (schema.is_record) {
    array.Begin(static_cast<int64_t>(rows.size()), 0, 0, 1);
    for (size_t c = 0; c < schema.columns.size(); ++c) hostile.push_back(MakeHostile(input, rows, c, schema.columns[c], array.AddChild()));
    if (input->Bool()) array.get()->offset = TakeHostile(input);
    if (input->Bool()) array.get()->length = TakeHostile(input);
    if (input->Below(16) == 0) array.get()->n_buffers = TakeHostile(input);
    if (input->Below(16) == 0) array.get()->n_children = TakeHostile(input);
    const bool right = array.get()->n_buffers == 1 && array.get()->n_children == static_cast<int64_t>(schema.columns.size());
    fits = right && array.get()->offset >= 0 && array.get()->length >= 0;
    for (size_t c = 0; fits && c < hostile.size(); ++c) {
      fits = Fits(*array.get()->children[c], &hostile[c], array.get()->offset, array.get()->length);
      if (!hostile[c].may_be_read) return;
    }
  } else {
    hostile.push_back(MakeHostile(input, rows, 0, schema.columns[0], &array));
    fits = Fits(*array.get(), &hostile[0], 0, array.get()->length);
    if (!hostile[0].may_be_read) return;
  }
  Columns columns;
  ColumnView whole;
  const Status status = ReadArrow(*array.get(), schema.columns, schema.is_record, &columns, &whole);
  FUZZ_EXPECT(status.ok() == fits);
  FUZZ_EXPECT(status.ok() || status.code() == Code::kSchema);
  if (!fits) return;
  FUZZ_EXPECT(whole.length() == array.get()->length);
  ReadAll(*array.get(), schema, columns);
}

void ReadHostileLists(Input* input) {
  const size_t cells = input->Below(20);
  std::string offsets;
  int32_t end = 0;
  for (size_t i = 0; i <= cells; ++i) {
    end = input->Byte() < 250 ? static_cast<int32_t>(static_cast<uint32_t>(end) + input->Below(4)) : input->Number<int32_t>();
    offsets.append(reinterpret_cast<const char*>(&end), sizeof(end));
  }
  const int64_t offset = TakeHostile(input), length = input->Bool() ? TakeHostile(input) : static_cast<int64_t>(cells);
  TestArray array;
  array.Begin(length, 0, offset, input->Below(8) == 0 ? TakeHostile(input) : 2);
  array.AddChild()->Begin(TakeHostile(input), 0, 0, 2);
  const bool has_offsets = input->Below(8) != 0;
  if (has_offsets) array.SetBuffer(1, offsets);
  std::string bits(cells / 8 + 1, static_cast<char>(input->Byte()));
  if (input->Bool()) {
    array.SetBuffer(0, bits);
    array.get()->null_count = -1;
  }

  bool fits = array.get()->n_buffers == 2 && offset >= 0 && length >= 0 && Wide{offset} + length <= std::numeric_limits<int64_t>::max();
  fits = fits && (length == 0 || has_offsets);
  if (fits && length > 0) {
    if (Wide{offset} + length > static_cast<Wide>(cells)) return;  // a lie that cannot be seen
    const auto* at = reinterpret_cast<const int32_t*>(offsets.data()) + offset;
    for (int64_t i = 0; i < length; ++i) fits = fits && at[i] >= 0 && at[i] <= at[i + 1] && at[i + 1] <= array.get()->children[0]->length;
  }
  ListView view;
  const Status status = ListView::Make(*array.get(), &view);
  FUZZ_EXPECT(status.ok() == fits);
  if (!fits) return;
  FUZZ_EXPECT(view.length() == length);
  for (int64_t i = 0; i < length; ++i) {
    const auto* at = reinterpret_cast<const int32_t*>(offsets.data()) + offset + i;
    const bool is_null = IsNullIn(*array.get(), offset + i);
    FUZZ_EXPECT(view.IsNull(i) == is_null && view.First(i) == at[0] && view.Bound(i) == (is_null ? at[0] : at[1]));
  }
}

void Build(Input* input) {
  const Column column = TakeColumn(input, false);
  const size_t length = input->Below(30);
  ColumnBuilder builder(column.type, static_cast<int64_t>(length));
  Row expected(length, Cell{true, {}});
  std::vector<size_t> order(length), set;
  std::iota(order.begin(), order.end(), size_t{0});
  const bool in_order = input->Bool();
  for (size_t i = length; i > 1 && !in_order; --i) std::swap(order[i - 1], order[input->Below(i)]);
  for (const size_t i : order) {
    const uint8_t chosen = input->Byte();
    if (chosen % 8 == 0) continue;
    if (chosen % 8 == 1 && !set.empty()) {
      const size_t from = set[(chosen / 8) % set.size()];
      builder.SetSame(static_cast<int64_t>(i), static_cast<int64_t>(from));
      expected[i] = expected[from];
    } else {
      expected[i] = TakeCell(input, column);
      const ExactBytes cell(expected[i].bytes);
      if (CellBytes(column.type) == 0) builder.SetBytes(static_cast<int64_t>(i), cell.view());
      else builder.SetFixed(static_cast<int64_t>(i), cell.view().data());
    }
    set.push_back(i);
  }
  const size_t taken = input->Below(4) == 0 ? input->Below(length + 1) : length;
  OwnedArray array;
  FUZZ_EXPECT(builder.Finish(static_cast<int64_t>(taken), array.get()).ok());
  const std::vector<Row> found = RowsOf(*array.get(), {column}, false);
  FUZZ_EXPECT(found.size() == taken);
  int64_t nulls = 0;
  for (size_t i = 0; i < taken; ++i) {
    FUZZ_EXPECT(found[i][0] == expected[i]);
    nulls += expected[i].is_null;
  }
  FUZZ_EXPECT(array.get()->null_count == nulls);
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  const size_t mode = input.Below(4);
  if (mode <= 1) ReadHostile(&input);
  if (mode == 2) ReadHostileLists(&input);
  if (mode == 3) Build(&input);
  return 0;
}
