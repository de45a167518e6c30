// Folds (fold.h, fold_codec.h): any bytes as fold rows, alone and merged, and rows made of values.
//
//   Merging never fails. Rows of one fold, each of its form, become a row of that fold and of its form, whatever their content; in
//   place and by copy, at once and in two groups, the same one, but for floats. All else is kept behind the head of what is broken.
//   A result is read from a row just when the row has the codec's head and its form; else it is Corruption. Nothing is read past the
//   end of a row. A fold of values is the merge of their rows.
#include "arrays.h"
#include "model.h"
#include "sfkv/fold_codec.h"

namespace sfkv::fuzz {
namespace {

constexpr size_t kFolds = 10, kTypes = 15;

bool IsKnown(Fold fold, FoldType type) {
  if (RuleOf(fold, type).bytes != 0 || (fold == Fold::kFirst && type == FoldType::kAny)) return true;
  return type == FoldType::kBytes && (fold == Fold::kMin || fold == Fold::kMax || fold == Fold::kDistinct);
}
bool IsExact(Fold fold, FoldType type) {
  return type != FoldType::kFloat64 || fold == Fold::kMin || fold == Fold::kMax;
}

// Whether bytes have the form of a fold's rows, by FORMAT.md.
bool HasForm(std::string_view row, Fold fold, FoldType type) {
  if (row.size() < 4 || row.substr(0, 2) != std::string_view("\x80\0", 2)) return false;
  if (static_cast<Fold>(row[2]) != fold || static_cast<FoldType>(row[3]) != type || !IsKnown(fold, type)) return false;
  if (RuleOf(fold, type).bytes != 0) return row.size() == 4 + RuleOf(fold, type).bytes;
  if (fold != Fold::kDistinct) return true;
  std::vector<std::string> values;
  if (!ReadList(row.substr(4), &values)) return false;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i - 1] >= values[i]) return false;
  }
  return true;
}

std::string TakeFoldRow(Input* input, Fold fold, FoldType type) {
  std::string row(4, '\0');
  EncodeFoldHead(fold, type, row.data());
  const size_t bytes = RuleOf(fold, type).bytes;
  if (bytes != 0) {
    row += input->Bytes(bytes);
    row.resize(4 + bytes);
  } else if (fold == Fold::kDistinct) {
    std::vector<std::string> values;
    for (size_t more = input->Below(5); more > 0; --more) values.push_back(input->Bytes(input->Below(5)));
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (const std::string& value : values) row += ElementOf(value);
  } else {
    row += input->Bytes(input->Below(20));
  }
  return row;
}

std::string MergeExactly(const std::vector<std::string>& rows) {
  std::vector<ExactBytes> exact;
  std::vector<std::string_view> views;
  for (const std::string& row : rows) exact.emplace_back(row);
  for (const ExactBytes& row : exact) views.push_back(row.view());
  std::string merged;
  MergeRows(views, &merged);
  return merged;
}

void MergeAlike(Input* input) {
  const auto fold = static_cast<Fold>(input->Below(kFolds));
  const auto type = static_cast<FoldType>(input->Below(kTypes));
  if (!IsKnown(fold, type)) return;
  std::vector<std::string> rows;
  for (size_t more = 1 + input->Below(5); more > 0; --more) rows.push_back(TakeFoldRow(input, fold, type));
  const std::string merged = MergeExactly(rows);
  FUZZ_EXPECT(HasForm(merged, fold, type));
  if (RuleOf(fold, type).bytes != 0) {
    ExactBytes into(rows[0]);
    for (size_t i = 1; i < rows.size(); ++i) FUZZ_EXPECT(FoldInPlace(into.data(), into.size(), ExactBytes(rows[i]).view()));
    FUZZ_EXPECT(into.view() == merged);
  }
  const size_t split = input->Below(rows.size());
  if (split == 0 || !IsExact(fold, type)) return;
  const std::string front = MergeExactly({rows.begin(), rows.begin() + static_cast<ptrdiff_t>(split)});
  const std::string back = MergeExactly({rows.begin() + static_cast<ptrdiff_t>(split), rows.end()});
  FUZZ_EXPECT(MergeExactly({front, back}) == merged);
}

void MergeAnything(Input* input) {
  std::vector<std::string> rows;
  std::string all;
  for (size_t more = 1 + input->Below(4); more > 0; --more) {
    std::string row = input->Bool() ? std::string("\x80\0", 2) : std::string();
    rows.push_back(row + input->Bytes(input->Below(60)));
    all += rows.back();
  }
  const std::string merged = MergeExactly(rows);
  if (!IsFold(rows[0])) {
    FUZZ_EXPECT(merged == all);
    return;
  }
  bool alike = true;
  for (const std::string& row : rows) alike &= HasForm(row, static_cast<Fold>(rows[0][2]), static_cast<FoldType>(rows[0][3]));
  FUZZ_EXPECT(alike ? merged.substr(0, 4) == rows[0].substr(0, 4) : merged == std::string("\x80\0\0\0", 4) + all);
  ExactBytes into(rows[0]);
  if (rows.size() > 1 && !FoldInPlace(into.data(), into.size(), ExactBytes(rows[1]).view())) FUZZ_EXPECT(into.view() == rows[0]);
}

// A fold that there is of plain values of a type, with results of the values' type, or float64s and int64s.
bool TakeCodec(Input* input, const Schema& schema, FoldCodec* codec) {
  const auto fold = static_cast<Fold>(1 + input->Below(kFolds - 1));
  const Type& type = schema.columns[0].type;
  if (schema.is_record ? fold != Fold::kFirst && fold != Fold::kCount : schema.columns[0].nullable) return false;
  if (!FoldCodec::CanFold(fold, type)) return false;
  const ValueCodec values(schema.columns, schema.is_record);
  if (fold == Fold::kMin || fold == Fold::kMax || fold == Fold::kFirst || (fold == Fold::kSum && type.cell != CellType::kBool)) {
    *codec = FoldCodec(fold, values, values);
    return true;
  }
  Column result;
  const bool is_float = fold == Fold::kMean || fold == Fold::kVariance || fold == Fold::kSampleVariance;
  result.type.cell = is_float ? CellType::kFloat64 : CellType::kInt64;
  result.type.meaning = is_float ? "g" : "l";
  *codec = FoldCodec(fold, values, ValueCodec({result}, false));
  return true;
}

void ReadAnything(Input* input) {
  const Schema schema = TakeSchema(input);
  FoldCodec codec;
  if (!TakeCodec(input, schema, &codec)) return;
  char head[kFoldHeadBytes];
  codec.EncodeHead(head);
  std::vector<ExactBytes> rows;
  while (!input->empty()) {
    std::string row = input->Below(8) != 0 ? std::string(head, sizeof(head)) : std::string();
    rows.emplace_back(row + input->Bytes(codec.row_bytes() != 0 && input->Bool() ? codec.row_bytes() - 4 : input->Below(64)));
  }
  const auto find = [&](int64_t i, std::string_view* row) {
    *row = rows[static_cast<size_t>(i)].view();
    return true;
  };
  OwnedArray array;
  const Status status = BuildResults(static_cast<int64_t>(rows.size()), codec, find, array.get());
  FUZZ_EXPECT(status.ok() || status.code() == Code::kCorruption || status.code() == Code::kSchema);
  FUZZ_EXPECT(status.ok() == (array.get()->release != nullptr));
  if (!status.ok()) return;
  FUZZ_EXPECT(array.get()->length == static_cast<int64_t>(rows.size()));
  for (const ExactBytes& row : rows) {
    FUZZ_EXPECT(HasForm(row.view(), codec.fold(), static_cast<FoldType>(head[3])));
  }
}

// One key's values, folded at once: what their rows become when they are merged.
void FoldValues(Input* input) {
  const Schema schema = TakeSchema(input);
  FoldCodec codec;
  if (!TakeCodec(input, schema, &codec)) return;
  const std::vector<Row> rows = TakeRows(input, schema.columns, 20);
  if (rows.empty()) return;
  const TestColumns columns(rows, schema, input);
  const Schema one_key{{Column()}, false};
  const std::vector<Row> zeros(rows.size(), Row{Cell{false, std::string(8, '\0'), {}}});
  const TestColumns key_columns(zeros, one_key, input);
  KeyBatch keys;
  FUZZ_EXPECT(keys.Encode(KeyCodec(one_key.columns, false, HashKind::kMurmur), key_columns.get(), 0, 1, {0, 0}).ok());
  keys.Sort();
  std::vector<std::string> operands;
  for (const std::string& row : EncodeExactly(codec.values(), columns.get())) {
    ByteBuffer operand;
    codec.AppendOperand(row, &operand);
    operands.emplace_back(operand.data(), operand.size());
  }
  int calls = 0;
  FUZZ_EXPECT(FoldBatch(keys, codec, columns.get(), [&](size_t, std::string_view row) {
    FUZZ_EXPECT(++calls == 1 && row == MergeExactly(operands));
    return Status::OK();
  }).ok());
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  const size_t mode = input.Below(4);
  if (mode == 0) MergeAlike(&input);
  if (mode == 1) MergeAnything(&input);
  if (mode == 2) ReadAnything(&input);
  if (mode == 3) FoldValues(&input);
  return 0;
}
