// Columns on their way in and out (column_view.h, column_builder.h, finish.h, row_codec.h, list_codec.h): Arrow arrays that are not what they
// should be, of every type and layout, and builders.
//
//   An array whose lengths, offsets, indices, views, buffers or children do not fit is refused, and a text that is not UTF-8; the
//   error names row, column and path. One that is accepted is read within its buffers, and becomes rows of what was put into it. What
//   the C data interface cannot tell, how large a buffer is, is left as it must be.
//   CheckNulls() finds the first null of a column that may have none, nested ones included, in rows that are not absent.
//   A builder that is filled in any order gives the column that was put into it.
#include <numeric>

#include "check.h"
#include "model.h"
#include "sfkv/key_codec.h"
#include "sfkv/list_codec.h"

namespace sfkv::fuzz {
namespace {

// All arrays of a tree.
void Gather(TestArray* array, std::vector<TestArray*>* all) {
  all->push_back(array);
  for (size_t c = 0; c < array->child_count(); ++c) Gather(array->child(c), all);
  if (array->dictionary() != nullptr) Gather(array->dictionary(), all);
}

// Writes a number that does not belong there into a buffer.
void SpoilBuffer(Input* input, ExactBytes* memory) {
  const uint8_t chosen = input->Byte();
  const int64_t number = chosen % 2 == 0 ? input->Hostile() : input->Byte() % 32;
  const size_t width = size_t{1} << (chosen / 2 % 4);
  if (memory == nullptr || memory->size() < width) return;
  const size_t at = input->Below(memory->size() / width) * width;
  std::memcpy(memory->data() + at, &number, width);
}

// Changes what one array of a tree says of itself.
void Spoil(Input* input, TestArray* root) {
  std::vector<TestArray*> all;
  Gather(root, &all);
  TestArray* array = all[input->Below(all.size())];
  ArrowArray* arrow = array->get();
  const size_t buffer = array->buffer_count() == 0 ? 0 : input->Below(array->buffer_count());
  switch (input->Below(12)) {
    case 0: arrow->length = input->Hostile(); break;
    case 1: arrow->offset = input->Hostile(); break;
    case 2: arrow->null_count = input->Hostile(); break;
    case 3: arrow->n_buffers = input->Hostile(); break;
    case 4: arrow->n_children = input->Hostile(); break;
    case 5:
      if (array->buffer_count() != 0) array->DropBuffer(buffer);
      break;
    case 6:
      if (array->child_count() != 0) array->DropChild(input->Below(array->child_count()));
      break;
    case 7:
      switch (input->Below(4)) {
        case 0: arrow->buffers = nullptr; break;
        case 1: arrow->children = nullptr; break;
        default: arrow->dictionary = nullptr; break;
      }
      break;
    default:
      if (array->buffer_count() != 0) SpoilBuffer(input, array->memory(buffer));
      break;
  }
}

// Where a cell that is not null holds a null that may not be there, as an error's path; false if it holds none.
bool FindStrayNull(const Cell& cell, const Type& type, std::string* path) {
  if (cell.is_null) return false;
  const size_t kinds = type.children.size();
  for (size_t c = 0; c < kinds; ++c) {
    const Column& child = type.children[c];
    for (size_t i = 0; i < cell.children.size(); ++i) {
      if (type.cell == CellType::kStruct && i != c) continue;
      const bool stray = cell.children[i].is_null && !child.nullable;
      if (!stray && !FindStrayNull(cell.children[i], child.type, path)) continue;
      const std::string here = type.meaning == "+m" ? "" : "." + child.name;  // a map's entries have no name
      *path = here + (stray ? "" : *path);
      return true;
    }
  }
  return false;
}

// What CheckNulls() must say of the rows, of which "absent" are passed over.
Status ExpectNulls(const std::vector<Row>& rows, const std::vector<Column>& columns, const std::vector<bool>& absent) {
  for (size_t c = 0; c < columns.size(); ++c) {
    for (size_t i = 0; i < rows.size(); ++i) {
      std::string path;
      if (absent[i]) continue;
      const bool stray = rows[i][c].is_null && !columns[c].nullable;
      if (!stray && !FindStrayNull(rows[i][c], columns[c].type, &path)) continue;
      return Status(Code::kSchema, "", static_cast<int64_t>(i), static_cast<int>(c), path);
    }
  }
  return Status::OK();
}

bool MayBeKey(const std::vector<Column>& columns) {
  for (const Column& column : columns) {
    if (column.type.is_nested() || column.type.cell == CellType::kNull) return false;
  }
  return true;
}

// Returns whether there are no nulls but where they may be.
bool CheckStrayNulls(Input* input, const std::vector<Row>& rows, const Schema& schema, const Columns& columns) {
  std::vector<bool> absent(rows.size());
  std::string present((rows.size() + 7) / 8, '\0');
  for (size_t i = 0; i < rows.size(); ++i) {
    absent[i] = input->Bool();
    if (!absent[i]) SetBit(reinterpret_cast<uint8_t*>(present.data()), static_cast<int64_t>(i));
  }
  TestArray array;
  array.Begin(static_cast<int64_t>(rows.size()), -1, 0);
  array.AddBuffer(present, 0);
  const ColumnView view = ColumnView::OfValidity(*array.get());
  const auto check = [&](const Status& expected, const Status& status) {
    FUZZ_EXPECT(status.code() == expected.code() && status.column() == expected.column());
    FUZZ_EXPECT(status.row() == expected.row() && status.path() == expected.path());
    return status.ok();
  };
  check(ExpectNulls(rows, schema.columns, absent), CheckNulls(columns, schema.columns, &view));
  return check(ExpectNulls(rows, schema.columns, std::vector<bool>(rows.size())), CheckNulls(columns, schema.columns));
}

void ReadAll(Input* input, const std::vector<Row>& rows, const Schema& schema, const Columns& columns) {
  for (size_t c = 0; c < columns.size(); ++c) {
    FUZZ_EXPECT(columns[c].length() == static_cast<int64_t>(rows.size()));
    int64_t first_null = -1;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i][c].is_null && first_null < 0) first_null = static_cast<int64_t>(i);
      FUZZ_EXPECT(columns[c].IsNull(static_cast<int64_t>(i)) == rows[i][c].is_null);
    }
    FUZZ_EXPECT(FirstNull(columns[c]) == first_null);
  }
  if (!CheckStrayNulls(input, rows, schema, columns)) return;
  const ValueCodec values(schema.columns, schema.is_record);
  const std::vector<std::string> value_rows = EncodeExactly(values, columns);
  for (size_t i = 0; i < rows.size(); ++i) FUZZ_EXPECT(value_rows[i] == ValueRowOf(rows[i], schema));
  if (!MayBeKey(schema.columns)) return;
  const KeyCodec keys(schema.columns, schema.is_record, HashKind::kMurmur);
  const std::vector<std::string> key_rows = EncodeExactly(keys, columns);
  for (size_t i = 0; i < rows.size(); ++i) FUZZ_EXPECT(key_rows[i] == KeyRowOf(KeyOf(rows[i], schema.columns), schema.columns));
}

void ReadHostile(Input* input) {
  const Schema schema = TakeSchema(input);
  // The arrays have nulls where the schema allows none, and text that is none.
  const size_t most = 1 + input->Below(12);
  const Texts texts = input->Below(8) == 7 ? Texts::kAny : Texts::kUtf8;
  const std::vector<Row> taken = TakeRows(input, AsNullable(schema.columns), most, texts);
  std::vector<size_t> numbers{0};
  const Type given = schema.is_record ? TakeGivenRecord(input, schema.columns, &numbers) : TakeGivenType(input, schema.columns[0].type);
  FUZZ_EXPECT(CanReadAs(given, schema.columns, schema.is_record));
  TestArray array;
  ArrayMaker maker(input);
  if (schema.is_record) {
    array.Begin(static_cast<int64_t>(taken.size()), 0, 0);
    array.AddNoBuffer();
    for (size_t c = 0; c < numbers.size(); ++c) maker.Fill(ColumnOf(taken, numbers[c]), given.children[c].type, array.AddChild());
  } else {
    maker.Fill(ColumnOf(taken, 0), given, &array);
  }
  for (size_t changes = input->Below(4); changes > 0; --changes) Spoil(input, &array);

  const Verdict verdict = schema.is_record ? LookAtRecord(&array, given) : LookAt(&array, given, 0, array.get()->length);
  if (verdict == Verdict::kUnseen) return;
  Columns columns;
  ColumnView whole;
  const Status status = ReadArrow(*array.get(), given, schema.columns, schema.is_record, &columns, &whole);
  FUZZ_EXPECT(status.ok() == (verdict == Verdict::kSound));
  if (!status.ok()) {
    FUZZ_EXPECT(status.code() == Code::kSchema && status.row() < std::max<int64_t>(array.get()->length, 1));
    return;
  }
  FUZZ_EXPECT(whole.length() == array.get()->length);
  std::vector<Row> rows(static_cast<size_t>(array.get()->length), Row(schema.columns.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t c = 0; c < numbers.size(); ++c) {
      const auto row = static_cast<int64_t>(i);
      rows[i][numbers[c]] = schema.is_record ? CellIn(*array.get()->children[c], given.children[c].type, array.get()->offset + row)
                                             : CellIn(*array.get(), given, row);
    }
  }
  ReadAll(input, rows, schema, columns);
}

void Build(Input* input) {
  const Column column = TakeColumn(input, "value", true, false);
  const size_t length = input->Below(30);
  const auto count = static_cast<int64_t>(length);
  ColumnBuilder builder(column, count);
  ValidityBuilder present(count);
  Row expected(length, NullCell());
  std::vector<size_t> order(length);
  std::vector<int64_t> set;
  std::vector<std::pair<int64_t, int64_t>> repeated;
  std::iota(order.begin(), order.end(), size_t{0});
  const bool in_order = input->Bool();
  for (size_t i = length; i > 1 && !in_order; --i) std::swap(order[i - 1], order[input->Below(i)]);
  for (const size_t i : order) {
    const auto row = static_cast<int64_t>(i);
    const uint8_t chosen = input->Byte();
    if (chosen % 8 == 0) continue;
    present.Set(row);
    if (chosen % 8 == 1 && !set.empty()) {
      repeated.emplace_back(row, set[(chosen / 8) % set.size()]);
      continue;
    }
    expected[i] = TakeCell(input, column, Texts::kAny);
    set.push_back(row);
    if (!expected[i].is_null) builder.Set(row, ExactBytes(StoredCell(expected[i], column.type)).view());
  }
  if (!repeated.empty()) builder.Repeat(repeated);
  for (const auto& [i, from] : repeated) expected[static_cast<size_t>(i)] = expected[static_cast<size_t>(from)];
  const size_t taken = input->Below(4) == 0 ? input->Below(length + 1) : length;
  OwnedArray array;
  FUZZ_EXPECT(FinishColumn(&builder, static_cast<int64_t>(taken), &present, array.get()).ok());
  const std::vector<Row> found = RowsOf(*array.get(), {column}, false);
  FUZZ_EXPECT(found.size() == taken);
  for (size_t i = 0; i < taken; ++i) FUZZ_EXPECT(found[i][0] == expected[i]);
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  input.Byte() % 4 == 3 ? Build(&input) : ReadHostile(&input);
  return 0;
}
