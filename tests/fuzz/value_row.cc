// Value rows (value_codec.h): any bytes, as any schema reads them, and rows made of values.
//
//   A row is accepted just when FORMAT.md's grammar accepts it, and its cells are what the grammar says; every cell lies in the row.
//   ParseRow() into columns tells the same as reading cell by cell. What was read, written again, is a row of the same values; it
//   is the same bytes, unless those held something where a reader does not look.
//   What is written is FORMAT.md's bytes, by the column and cell by cell, and is read back as what it was.
#include "model.h"
#include "sfkv/value_codec.h"

namespace sfkv::fuzz {
namespace {

Row ReadCells(const ValueCodec& codec, std::string_view bytes) {
  Row row;
  size_t variable = 0;
  for (size_t c = 0; c < codec.columns().size(); ++c) {
    const CellType type = codec.columns()[c].type;
    const bool is_variable = CellBytes(type) == 0;
    const std::string_view cell = is_variable ? codec.VariableCell(bytes, variable++)
                                              : std::string_view(codec.FixedCell(bytes, c), CellBytes(type));
    FUZZ_EXPECT(cell.data() >= bytes.data() && cell.data() + cell.size() <= bytes.data() + bytes.size());
    row.push_back({codec.IsNull(bytes, c), std::string(cell)});
    if (type == CellType::kBool) row.back().bytes[0] = row.back().bytes[0] != 0;
  }
  return row;
}

// The row as it comes out of columns, at one of three positions. False if it is not parsed.
bool ReadColumns(const ValueCodec& codec, std::string_view bytes, int64_t at, Row* row) {
  std::vector<ColumnBuilder> builders = MakeBuilders(codec.columns(), 3);
  if (!codec.ParseRow(bytes, at, &builders)) return false;
  OwnedArray array;
  FUZZ_EXPECT(FinishRecord(&builders, 3, nullptr, array.get()).ok());
  const std::vector<Row> rows = RowsOf(*array.get(), codec.columns(), true);
  for (int64_t i = 0; i < 3; ++i) {
    for (const Cell& cell : rows[static_cast<size_t>(i)]) FUZZ_EXPECT(i == at || cell.is_null);
  }
  *row = rows[static_cast<size_t>(at)];
  return true;
}

// Writes a row as Python's single calls do.
std::string WriteCells(const ValueCodec& codec, const Row& row) {
  std::string bytes(codec.head_bytes(), '\x55');
  codec.BeginRow(bytes.data());
  size_t variable = 0;
  for (size_t c = 0; c < row.size(); ++c) {
    if (row[c].is_null) codec.MarkNull(bytes.data(), c);
    if (CellBytes(codec.columns()[c].type) == 0) {
      if (!row[c].is_null) bytes += row[c].bytes;
      codec.MarkEnd(bytes.data(), variable++, bytes.data() + bytes.size());
    } else if (!row[c].is_null) {
      std::memcpy(codec.Cell(bytes.data(), c), row[c].bytes.data(), row[c].bytes.size());
    }
  }
  return bytes;
}

void ReadAnything(Input* input, const Schema& schema, const ValueCodec& codec) {
  const int64_t at = static_cast<int64_t>(input->Below(3));
  const ExactBytes bytes(input->Rest());
  Row expected, row;
  const bool is_row = ReadValueRow(bytes.view(), schema, &expected);
  FUZZ_EXPECT(codec.IsRow(bytes.view()) == is_row);
  FUZZ_EXPECT(ReadColumns(codec, bytes.view(), at, &row) == is_row);
  if (!is_row) return;
  FUZZ_EXPECT(row == expected);
  FUZZ_EXPECT(ReadCells(codec, bytes.view()) == expected);
  const std::string again = EncodeRows(codec, TestColumns({row}, schema).get())[0];
  FUZZ_EXPECT(codec.IsRow(again));
  FUZZ_EXPECT(ReadCells(codec, again) == expected);
  FUZZ_EXPECT(again == ValueRowOf(expected, schema));
}

void WriteAndRead(Input* input, const Schema& schema, const ValueCodec& codec) {
  const size_t offset = input->Below(10);
  const std::vector<Row> rows = TakeRows(input, schema.columns, 20);
  if (rows.empty()) return;
  const TestColumns columns(rows, schema, offset);
  const std::vector<std::string> encoded = EncodeRows(codec, columns.get());
  for (size_t i = 0; i < rows.size(); ++i) {
    FUZZ_EXPECT(encoded[i] == ValueRowOf(rows[i], schema));
    FUZZ_EXPECT(WriteCells(codec, rows[i]) == encoded[i]);
    FUZZ_EXPECT(codec.IsRow(encoded[i]));
    FUZZ_EXPECT(ReadCells(codec, encoded[i]) == rows[i]);
    FUZZ_EXPECT(codec.head_bytes() == 0 || !codec.IsRow(encoded[i].substr(0, codec.head_bytes() - 1)));
  }
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  const bool writes = input.Bool();
  const Schema schema = TakeSchema(&input);
  const sfkv::ValueCodec codec(schema.columns, schema.is_record);
  writes ? WriteAndRead(&input, schema, codec) : ReadAnything(&input, schema, codec);
  return 0;
}
