// Value rows (value_codec.h, record_codec.h, finish.h): any bytes, as any schema with any older versions reads them, and rows made
// of values.
//
//   A row is accepted just when FORMAT.md's grammar accepts it, and its cells are what the grammar says; every cell lies in the row
//   or is a default. Columns made of it tell the same as reading cell by cell, for all columns and for some; if a nested cell
//   does not have the form of its type, they are Corruption. What was read, written again, is a row of the same values.
//   What is written is FORMAT.md's bytes, by the column and cell by cell, and is read back as what it was.
#include "arrays.h"
#include "model.h"
#include "sfkv/value_codec.h"

namespace sfkv::fuzz {
namespace {

// A schema with the versions before it.
struct Versions {
  Schema schema;
  std::vector<std::vector<Column>> older;
  ValueCodec::Defaults defaults;

  ValueCodec MakeCodec() const { return ValueCodec(schema.columns, schema.is_record, older, defaults); }
  size_t count() const { return older.size() + 1; }
  const std::vector<Column>& columns(size_t version) const { return version < older.size() ? older[version] : schema.columns; }
};

// Older versions have some of the columns, the first one always; mostly there are few versions, at times as many as there can be.
Versions TakeVersions(Input* input) {
  Versions versions{TakeSchema(input), {}, {}};
  const std::vector<Column>& columns = versions.schema.columns;
  versions.defaults.resize(columns.size());
  if (!versions.schema.is_record) return versions;
  const uint8_t chosen = input->Byte();
  for (size_t older = chosen < 250 ? chosen % 4 : 255; older > 0; --older) {
    const uint16_t has = input->Number<uint16_t>();
    versions.older.push_back({columns[0]});
    for (size_t c = 1; c < columns.size(); ++c) {
      if ((has >> (c % 16) & 1) != 0) versions.older.back().push_back(columns[c]);
    }
  }
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].nullable && input->Bool()) continue;
    Column present = columns[c];
    present.nullable = false;
    if (present.type.cell == CellType::kNull) continue;
    versions.defaults[c] = StoredCell(TakeCell(input, present), present.type);
  }
  return versions;
}

// The stored cells of all columns of today; false if the bytes are no row.
bool SplitRow(std::string_view bytes, const Versions& versions, std::vector<Stored>* stored) {
  std::string version;
  if (!versions.schema.is_record) return SplitRecord(bytes, versions.schema.columns, stored);
  if (!TakeFront(&bytes, 1, &version) || static_cast<uint8_t>(version[0]) >= versions.count()) return false;
  const std::vector<Column>& columns = versions.columns(static_cast<uint8_t>(version[0]));
  std::vector<Stored> found;
  if (!SplitRecord(bytes, columns, &found)) return false;
  *stored = versions.defaults;
  for (size_t c = 0; c < stored->size(); ++c) {
    for (size_t f = 0; f < columns.size(); ++f) {
      if (columns[f].name == versions.schema.columns[c].name) (*stored)[c] = found[f];
    }
  }
  return true;
}

void CheckCells(const ValueCodec& codec, std::string_view bytes, const Versions& versions, const std::vector<Stored>& expected) {
  for (size_t c = 0; c < expected.size(); ++c) {
    std::string_view cell;
    FUZZ_EXPECT(codec.FindCell(bytes, c, &cell) == expected[c].has_value());
    if (!expected[c]) continue;
    FUZZ_EXPECT(cell == *expected[c]);
    const bool in_row = cell.data() >= bytes.data() && cell.data() + cell.size() <= bytes.data() + bytes.size();
    FUZZ_EXPECT(in_row || (versions.defaults[c] && cell == *versions.defaults[c]));
  }
}

constexpr int64_t kRows = 3;

// The row as it comes out of columns, of three rows at "at" and where it is repeated; the others must be null.
Status ReadColumns(const ValueCodec& codec, std::string_view bytes, int64_t at, bool repeat, Row* row) {
  Builders builders = MakeBuilders(codec.columns(), kRows);
  ValidityBuilder present(kRows);
  present.Set(at);
  FUZZ_EXPECT(codec.ParseRow(bytes, at, &builders));
  const int64_t other = repeat ? (at + 1) % kRows : at;
  if (repeat) {
    present.Set(other);
    for (ColumnBuilder& builder : builders) builder.Repeat({{other, at}});
  }
  OwnedArray array;
  SFKV_RETURN_IF_ERROR(FinishValues(codec, &builders, kRows, &present, array.get()));
  const std::vector<Row> rows = RowsOf(*array.get(), codec.columns(), codec.is_record());
  for (int64_t i = 0; i < kRows; ++i) {
    if (i == at || i == other) FUZZ_EXPECT(rows[static_cast<size_t>(i)] == rows[static_cast<size_t>(at)]);
    else for (const Cell& cell : rows[static_cast<size_t>(i)]) FUZZ_EXPECT(cell.is_null);
  }
  *row = rows[static_cast<size_t>(at)];
  return Status::OK();
}

// The same for one of the columns, in an array whose only row it is.
Status ReadColumn(const ValueCodec& codec, std::string_view bytes, int c, Cell* cell) {
  const std::vector<int> wanted{c};
  Builders builders = MakeBuildersOf(codec.columns(), wanted, 1);
  FUZZ_EXPECT(codec.ParseRow(bytes, 0, &builders));
  OwnedArray array;
  SFKV_RETURN_IF_ERROR(FinishValues(codec, &builders, wanted, 1, nullptr, array.get()));
  *cell = RowsOf(*array.get(), {codec.columns()[static_cast<size_t>(c)]}, codec.is_record())[0][0];
  return Status::OK();
}

// Writes a row as Python's single calls do.
std::string WriteCells(const ValueCodec& codec, const Row& row) {
  const RecordCodec& record = codec.record();
  std::string bytes(record.head_bytes(), '\x55');
  codec.BeginRow(bytes.data());
  for (size_t c = 0; c < row.size(); ++c) {
    const Type& type = codec.columns()[c].type;
    if (row[c].is_null) record.MarkNull(bytes.data(), c);
    if (type.is_variable()) {
      if (!row[c].is_null) bytes += StoredCell(row[c], type);
      record.MarkEnd(bytes.data(), c, bytes.data() + bytes.size());
    } else if (!row[c].is_null) {
      std::memcpy(record.FixedCell(bytes.data(), c), row[c].bytes.data(), row[c].bytes.size());
    }
  }
  return bytes;
}

void CheckRow(Input* input, const Versions& versions, const ValueCodec& codec, const ExactBytes& bytes) {
  std::vector<Stored> stored;
  Row expected, row;
  const bool is_row = SplitRow(bytes.view(), versions, &stored);
  FUZZ_EXPECT(codec.IsRow(bytes.view()) == is_row);
  if (!is_row) {
    Builders builders = MakeBuilders(codec.columns(), 1);
    FUZZ_EXPECT(!codec.ParseRow(bytes.view(), 0, &builders));
    return;
  }
  CheckCells(codec, bytes.view(), versions, stored);
  const bool sound = ReadCells(stored, codec.columns(), &expected);
  const uint8_t chosen = input->Byte();
  const Status status = ReadColumns(codec, bytes.view(), chosen % kRows, chosen >= 128, &row);
  FUZZ_EXPECT(status.ok() == sound && (sound || status.code() == Code::kCorruption));
  const int c = chosen / 4 % static_cast<int>(stored.size());
  const Column& column = codec.columns()[static_cast<size_t>(c)];
  Cell cell, expected_cell;
  const bool sound_cell = ReadCell(stored[static_cast<size_t>(c)], column.type, &expected_cell);
  FUZZ_EXPECT(ReadColumn(codec, bytes.view(), c, &cell).ok() == sound_cell);
  FUZZ_EXPECT(!sound_cell || cell == expected_cell);
  if (!sound) return;
  FUZZ_EXPECT(row == expected);

  const Schema binary = AsBinary(versions.schema);  // of a text that is not UTF-8 no column is accepted
  const ValueCodec again(binary.columns, binary.is_record);
  const std::string written = EncodeExactly(again, TestColumns({row}, binary).get())[0];
  FUZZ_EXPECT(written == ValueRowOf(expected, binary));
  FUZZ_EXPECT(ReadColumns(again, written, 0, false, &row).ok() && row == expected);
}

// Bytes that are anything, or a row of which a few are changed, so that nested cells are reached.
void ReadAnything(Input* input, const Versions& versions, const ValueCodec& codec) {
  std::string bytes;
  const size_t changes = input->Below(8);
  if (changes < 6) {
    const size_t version = input->Below(versions.count());
    const std::vector<Column>& columns = versions.columns(version);
    bytes = ValueRowOf(TakeRow(input, columns, Texts::kAny), {columns, versions.schema.is_record}, version);
    for (size_t i = 0; i < changes && !bytes.empty(); ++i) {
      const size_t at = input->Below(bytes.size());
      const uint8_t change = input->Byte();
      if (change < 240) bytes[at] = static_cast<char>(change < 16 ? bytes[at] + change - 8 : input->Byte());
      else if (change < 248) bytes.erase(at, 1);
      else bytes.insert(at, 1, static_cast<char>(input->Byte()));
    }
  } else {
    bytes = input->Bytes(input->Below(200));
  }
  CheckRow(input, versions, codec, ExactBytes(bytes));
}

void WriteAndRead(Input* input, const Versions& versions, const ValueCodec& codec) {
  const Schema& schema = versions.schema;
  const std::vector<Row> rows = TakeRows(input, schema.columns, 20);
  if (rows.empty()) return;
  const TestColumns columns(rows, schema, input);
  FUZZ_EXPECT(CheckValues(codec, columns.get(), nullptr).ok());
  const std::vector<std::string> encoded = EncodeExactly(codec, columns.get());
  std::vector<std::string_view> views;
  std::vector<int64_t> positions;
  for (size_t i = 0; i < rows.size(); ++i) {
    FUZZ_EXPECT(encoded[i] == ValueRowOf(rows[i], schema, versions.count() - 1));
    FUZZ_EXPECT(WriteCells(codec, rows[i]) == encoded[i]);
    FUZZ_EXPECT(codec.IsRow(encoded[i]));
    const size_t head = codec.record().head_bytes();
    FUZZ_EXPECT(head == 0 || !codec.IsRow(encoded[i].substr(0, head - 1)));
    views.push_back(encoded[i]);
    positions.push_back(static_cast<int64_t>(i));
  }
  if (input->Bool()) std::reverse(positions.begin(), positions.end());
  Builders builders = MakeBuilders(codec.columns(), static_cast<int64_t>(rows.size()));
  FUZZ_EXPECT(codec.ParseRows(views.data(), positions.data(), views.size(), &builders) == views.size());
  OwnedArray array;
  FUZZ_EXPECT(FinishValues(codec, &builders, static_cast<int64_t>(rows.size()), nullptr, array.get()).ok());
  const std::vector<Row> found = RowsOf(*array.get(), schema.columns, schema.is_record);
  for (size_t i = 0; i < rows.size(); ++i) FUZZ_EXPECT(found[static_cast<size_t>(positions[i])] == rows[i]);
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  const bool writes = input.Bool();
  const Versions versions = TakeVersions(&input);
  const sfkv::ValueCodec codec = versions.MakeCodec();
  writes ? WriteAndRead(&input, versions, codec) : ReadAnything(&input, versions, codec);
  return 0;
}
