// Folds of a schema: fold rows of values on their way in, and results on their way out. Folding itself needs none: fold.h.
//
// A batch is folded key by key before it reaches a store, so that each distinct key is touched once. What a result is, in Arrow and
// as a row, a value codec of its own says. Not thread-safe; no state but the schema.
#pragma once

#include "sfkv/fold.h"
#include "sfkv/key_batch.h"

namespace sfkv {

namespace internal {

// --- What cells count as.

template <typename T>
void MakeWholeSum(const char* cell, char* sum) { StoreAs(sum, static_cast<__int128>(LoadAs<T>(cell))); }
template <size_t kFrom, size_t kTo>
void MakeDecimalSum(const char* cell, char* sum) {
  std::memcpy(sum, cell, kFrom);
  std::memset(sum + kFrom, static_cast<signed char>(cell[kFrom - 1]) < 0 ? 0xFF : 0, kTo - kFrom);
}

template <typename T>
double ReadNumber(const char* cell) { return static_cast<double>(LoadAs<T>(cell)); }
inline double ReadFloat16(const char* cell) { return FromFloat16(LoadAs<uint16_t>(cell)); }
template <size_t kBytes>
double ReadUnits(const char* cell) { return Wide::FromBytes(cell, kBytes).ToDouble(); }

template <double (*kRead)(const char*)>
void MakeFloatSum(const char* cell, char* sum) {
  StoreAs(sum, kRead(cell));
  StoreAs(sum + 8, 0.0);
}
template <double (*kRead)(const char*)>
void MakeVariance(const char* cell, char* variance) {
  StoreAs(variance, uint64_t{1});
  StoreAs(variance + 8, kRead(cell));
  StoreAs(variance + 16, 0.0);
}
template <size_t kBytes>
void CopyCell(const char* cell, char* accumulator) { std::memcpy(accumulator, cell, kBytes); }
inline void MakeCount(const char*, char* count) { StoreAs(count, uint64_t{1}); }

using MakeAccumulator = void (*)(const char* cell, char* accumulator);

// What makes accumulators of one type's cells; null for what there is not.
struct Makers {
  FoldType type = FoldType::kAny;
  FoldType sum_type = FoldType::kAny;
  MakeAccumulator sum = nullptr;
  MakeAccumulator variance = nullptr;
  MakeAccumulator extreme = nullptr;
};

template <typename T>
Makers MakersOfWhole(FoldType type) {
  return {type, FoldType::kInt64, MakeWholeSum<T>, MakeVariance<ReadNumber<T>>, CopyCell<sizeof(T)>};
}
template <double (*kRead)(const char*), size_t kBytes>
Makers MakersOfFloat(FoldType type) {
  return {type, FoldType::kFloat64, MakeFloatSum<kRead>, MakeVariance<kRead>, CopyCell<kBytes>};
}
template <size_t kBytes, size_t kSumBytes>
Makers MakersOfDecimal(FoldType type) {
  return {type, type, MakeDecimalSum<kBytes, kSumBytes>, MakeVariance<ReadUnits<kBytes>>, CopyCell<kBytes>};
}

inline Makers MakersOf(const Type& type) {
  switch (type.cell) {
    case CellType::kBool:
    case CellType::kUInt8: return MakersOfWhole<uint8_t>(FoldType::kUInt8);
    case CellType::kUInt16: return MakersOfWhole<uint16_t>(FoldType::kUInt16);
    case CellType::kUInt32: return MakersOfWhole<uint32_t>(FoldType::kUInt32);
    case CellType::kUInt64: return MakersOfWhole<uint64_t>(FoldType::kUInt64);
    case CellType::kInt8: return MakersOfWhole<int8_t>(FoldType::kInt8);
    case CellType::kInt16: return MakersOfWhole<int16_t>(FoldType::kInt16);
    case CellType::kInt32: return MakersOfWhole<int32_t>(FoldType::kInt32);
    case CellType::kInt64: return MakersOfWhole<int64_t>(FoldType::kInt64);
    case CellType::kFloat16: return MakersOfFloat<ReadFloat16, 2>(FoldType::kFloat16);
    case CellType::kFloat32: return MakersOfFloat<ReadNumber<float>, 4>(FoldType::kFloat32);
    case CellType::kFloat64: return MakersOfFloat<ReadNumber<double>, 8>(FoldType::kFloat64);
    case CellType::kDecimal:
      return type.width == 16 ? MakersOfDecimal<16, 24>(FoldType::kDecimal128) : MakersOfDecimal<32, 40>(FoldType::kDecimal256);
    case CellType::kFixedBinary:
    case CellType::kUtf8:
    case CellType::kBinary: return {FoldType::kBytes};
    default: return {};
  }
}

// Precision and scale of a decimal's format; zeros for what is none.
inline std::pair<int, int> DigitsOf(const Type& type) {
  if (type.cell != CellType::kDecimal) return {0, 0};
  std::string_view format(type.meaning);
  format.remove_prefix(2);
  const auto precision = static_cast<int>(TakeNumber(&format));
  format.remove_prefix(1);
  const bool negative = format.substr(0, 1) == "-";
  if (negative) format.remove_prefix(1);
  const auto scale = static_cast<int>(TakeNumber(&format));
  return {precision, negative ? -scale : scale};
}

}  // namespace internal

class FoldCodec {
 public:
  FoldCodec() = default;
  // "values" are what is added, "results" what is answered. REQUIRES: CanFold(); results that fit the fold: a float64 for means and
  // variances (means of decimals and int64s may be decimals and int64s), an int64 for counts, else numbers of the values' class, or
  // the values themselves.
  FoldCodec(Fold fold, ValueCodec values, ValueCodec results) : fold_(fold), values_(std::move(values)), results_(std::move(results)) {
    const internal::Makers makers = internal::MakersOf(values_.columns()[0].type);
    switch (fold_) {
      case Fold::kSum:
      case Fold::kMean:
        type_ = makers.sum_type;
        make_ = makers.sum;
        break;
      case Fold::kVariance:
      case Fold::kSampleVariance:
        type_ = FoldType::kFloat64;
        make_ = makers.variance;
        break;
      case Fold::kMin:
      case Fold::kMax:
        type_ = makers.type;
        make_ = makers.extreme;
        break;
      case Fold::kDistinct: type_ = FoldType::kBytes; break;
      case Fold::kCount: make_ = internal::MakeCount; break;
      default: break;
    }
    rule_ = RuleOf(fold_, type_);
    EncodeFoldHead(fold_, type_, head_);
    FindLimits();
  }

  // Whether there is such a fold of plain values of a type; of all values there are kCount and kFirst.
  static bool CanFold(Fold fold, const Type& type) {
    const internal::Makers makers = internal::MakersOf(type);
    switch (fold) {
      case Fold::kSum:
      case Fold::kMean: return makers.sum != nullptr;
      case Fold::kVariance:
      case Fold::kSampleVariance: return makers.variance != nullptr;
      case Fold::kMin:
      case Fold::kMax:
      case Fold::kDistinct: return makers.type != FoldType::kAny;
      case Fold::kCount:
      case Fold::kFirst: return true;
      default: return false;
    }
  }

  Fold fold() const { return fold_; }
  const ValueCodec& values() const { return values_; }
  const ValueCodec& results() const { return results_; }
  // How rows are folded in place; without bytes if they have lengths of their own.
  const FoldRule& rule() const { return rule_; }
  // Bytes of every row; 0 if they have lengths of their own.
  size_t row_bytes() const { return rule_.bytes == 0 ? 0 : kFoldHeadBytes + rule_.bytes; }
  // Whether rows grow with what is added, so that their size has to be watched.
  bool grows() const { return fold_ == Fold::kDistinct; }

  // --- Writing.

  void EncodeHead(char* at) const { std::memcpy(at, head_, kFoldHeadBytes); }
  // Writes the accumulator of row "i". REQUIRES: rule().bytes != 0, and as many bytes at "accumulator".
  void EncodeAccumulator(const Columns& values, int64_t i, char* accumulator) const {
    char flag;
    Make(fold_ == Fold::kCount ? nullptr : Cell(values[0], i, &flag).data(), accumulator);
  }
  // Appends the fold row of one value, given as a row of values().
  void AppendOperand(std::string_view value, ByteBuffer* out) const {
    out->Append(head_, kFoldHeadBytes);
    if (rule_.bytes != 0) return Make(value.data(), out->Extend(rule_.bytes));
    char canonical[8];
    if (fold_ == Fold::kDistinct) {
      value = Canonical(value, canonical);
      AppendVarint(out->Extend(VarintBytes(value.size())), value.size());
    }
    out->Append(value.data(), value.size());
  }

  // A cell as it stands in a row; "flag" is for those of kBool, which Arrow has as bits. REQUIRES: plain values.
  std::string_view Cell(const ColumnView& values, int64_t i, char* flag) const {
    const Type& type = values_.columns()[0].type;
    if (type.is_variable()) return values.Bytes(i);
    if (type.cell != CellType::kBool) return {values.Fixed(i, type.width), type.width};
    *flag = values.Bool(i) ? 1 : 0;
    return {flag, 1};
  }
  // Of values that are equal, the one that stands for all in a set: 0.0 for -0.0, and one NaN. "canonical" has room for it.
  std::string_view Canonical(std::string_view cell, char* canonical) const {
    const CellType type = values_.columns()[0].type.cell;
    if (type != CellType::kFloat16 && type != CellType::kFloat32 && type != CellType::kFloat64) return cell;
    uint64_t bits = 0;
    std::memcpy(&bits, cell.data(), cell.size());
    const uint64_t sign = uint64_t{1} << (8 * cell.size() - 1);
    const uint64_t infinity = type == CellType::kFloat16 ? 0x7C00 : type == CellType::kFloat32 ? 0x7F800000 : 0x7FF0000000000000;
    if (bits == sign) bits = 0;
    if ((bits & ~sign) > infinity) bits = infinity + (infinity & -infinity) / 2;  // the quiet NaN without sign, as in keys
    std::memcpy(canonical, &bits, cell.size());
    return {canonical, cell.size()};
  }

  // --- Reading.

  static constexpr size_t kScratchBytes = 32;

  // The result of a fold row, as a row of results(), which lies in the fold row or in "scratch". The position is for errors. Whether the
  // row of a first value is one, who reads it finds.
  Status Result(std::string_view row, int64_t position, char* scratch, std::string_view* result) const {
    if (row.size() < kFoldHeadBytes || std::memcmp(row.data(), head_, kFoldHeadBytes) != 0) return Unreadable(position);
    const std::string_view accumulator = row.substr(kFoldHeadBytes);
    if (rule_.bytes != 0 && accumulator.size() != rule_.bytes) return Unreadable(position);
    *result = {scratch, results_.columns()[0].type.width};
    switch (fold_) {
      case Fold::kCount: return WholeResult(Wide::FromUnsigned(LoadAs<uint64_t>(accumulator.data())), position, scratch);
      case Fold::kDistinct: return CountResult(accumulator, position, scratch);
      case Fold::kSum:
        if (type_ != FoldType::kFloat64) return WholeResult(Wide::FromBytes(accumulator.data(), rule_.bytes), position, scratch);
        return FloatResult(SumOfFloats(accumulator), scratch);
      case Fold::kMean: return MeanResult(accumulator, position, scratch);
      case Fold::kVariance:
      case Fold::kSampleVariance: return VarianceResult(accumulator, position, scratch);
      default: *result = accumulator; return Status::OK();
    }
  }

  static Status Unreadable(int64_t row) {
    return Status(Code::kCorruption, "Corruption: a stored accumulator does not have the form of its fold: restore the store from a snapshot", row);
  }

 private:
  void Make(const char* cell, char* accumulator) const {
    make_(cell, accumulator);
    if (fold_ == Fold::kMean) StoreAs(accumulator + rule_.bytes - 8, uint64_t{1});
  }

  void FindLimits() {
    const Type& type = results_.columns()[0].type;
    const auto [precision, scale] = internal::DigitsOf(type);
    const int value_scale = internal::DigitsOf(values_.columns()[0].type).second;
    unit_ = std::pow(10.0, -value_scale);
    gained_digits_ = scale - value_scale;
    if (precision != 0) {
      limit_ = negative_limit_ = Wide::PowerOfTen(precision);
    } else if (type.cell >= CellType::kUInt8 && type.cell <= CellType::kUInt64) {
      limit_ = Wide::PowerOfTwo(8 * type.width);
    } else if (type.cell >= CellType::kInt8 && type.cell <= CellType::kInt64) {
      limit_ = Wide::PowerOfTwo(8 * type.width - 1);
      negative_limit_ = limit_.Next();
    }
  }

  Status WholeResult(const Wide& number, int64_t position, char* cell) const {
    if (number.MagnitudeIsBelow(number.IsNegative() ? negative_limit_ : limit_)) {
      number.Store(cell, results_.columns()[0].type.width);
      return Status::OK();
    }
    return Status(Code::kSchema, "the result is " + number.ToText() + (unit_ == 1 ? "" : " units of the last digit") +
                                     ", which its type does not hold: clear the key, or fold into a wider type", position);
  }

  Status FloatResult(double value, char* cell) const {
    switch (results_.columns()[0].type.cell) {
      case CellType::kFloat16: StoreAs(cell, ToFloat16(value)); break;
      case CellType::kFloat32: StoreAs(cell, static_cast<float>(value)); break;
      default: StoreAs(cell, value); break;
    }
    return Status::OK();
  }

  static double SumOfFloats(std::string_view accumulator) {
    const auto sum = LoadAs<double>(accumulator.data());
    return std::isfinite(sum) ? sum + LoadAs<double>(accumulator.data() + 8) : sum;
  }

  Status MeanResult(std::string_view accumulator, int64_t position, char* cell) const {
    const size_t sum_bytes = rule_.bytes - 8;
    const auto count = LoadAs<uint64_t>(accumulator.data() + sum_bytes);
    if (count == 0) return Unreadable(position);
    if (type_ == FoldType::kFloat64) return FloatResult(SumOfFloats(accumulator) / static_cast<double>(count), cell);
    Wide sum = Wide::FromBytes(accumulator.data(), sum_bytes);
    if (results_.columns()[0].type.cell == CellType::kFloat64) return FloatResult(sum.ToDouble() / static_cast<double>(count), cell);
    for (int digit = 0; digit < gained_digits_; ++digit) sum.Multiply(10);
    sum.DivideRounding(count);
    return WholeResult(sum, position, cell);
  }

  Status VarianceResult(std::string_view accumulator, int64_t position, char* cell) const {
    const auto count = LoadAs<uint64_t>(accumulator.data());
    const auto squares = LoadAs<double>(accumulator.data() + 16);
    if (count == 0) return Unreadable(position);
    const uint64_t divisor = fold_ == Fold::kSampleVariance ? count - 1 : count;
    return FloatResult(divisor == 0 ? std::nan("") : squares / static_cast<double>(divisor) * unit_ * unit_, cell);
  }

  Status CountResult(std::string_view accumulator, int64_t position, char* cell) const {
    uint64_t count = 0;
    std::string_view value, before;
    for (; TakeElement(&accumulator, &value); before = value) {
      if (count++ != 0 && before >= value) return Unreadable(position);
    }
    if (!accumulator.empty()) return Unreadable(position);
    return WholeResult(Wide::FromUnsigned(count), position, cell);
  }

  Fold fold_ = Fold::kBroken;
  FoldType type_ = FoldType::kAny;
  FoldRule rule_;
  internal::MakeAccumulator make_ = nullptr;
  char head_[kFoldHeadBytes] = {};
  ValueCodec values_;
  ValueCodec results_;
  Wide limit_;           // the least magnitude of a whole result that is too large
  Wide negative_limit_;  // the same below zero
  int gained_digits_ = 0;  // behind the point, of the mean of decimals
  double unit_ = 1;        // what a decimal's last digit is worth
};

namespace internal {

// Values of one key: the one that counts, of text and binary.
inline std::string_view ExtremeCell(const KeyBatch& keys, size_t distinct, const FoldCodec& codec, const ColumnView& values) {
  std::string_view extreme;
  bool begun = false;
  char flag;
  keys.VisitPositions(distinct, [&](int64_t i) {
    const std::string_view cell = codec.Cell(values, i, &flag);
    if (!begun || (codec.fold() == Fold::kMin ? cell < extreme : extreme < cell)) extreme = cell;
    begun = true;
  });
  return extreme;
}

// Values of one key: each once, in order, with its length before it.
inline void AppendDistinctCells(const KeyBatch& keys, size_t distinct, const FoldCodec& codec, const ColumnView& values, std::string* out) {
  std::vector<std::string> cells;
  std::vector<std::string_view> views;
  char canonical[8];
  char flag;
  keys.VisitPositions(distinct, [&](int64_t i) { cells.emplace_back(codec.Canonical(codec.Cell(values, i, &flag), canonical)); });
  std::sort(cells.begin(), cells.end());
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  views.assign(cells.begin(), cells.end());
  AppendDistinct(views, out);
}

}  // namespace internal

// Calls on_row(distinct, row) with the fold row of each distinct key's values, in the order of the keys; the row is valid until the
// next. Stops at an error. REQUIRES: keys.Sort() was called, and CheckValues(codec.values(), values) was right.
template <typename OnRow>
Status FoldBatch(const KeyBatch& keys, const FoldCodec& codec, const Columns& values, OnRow&& on_row) {
  std::string row(std::max(codec.row_bytes(), kFoldHeadBytes), '\0');
  codec.EncodeHead(row.data());
  if (codec.row_bytes() != 0) {
    char more[kMaxFixedFoldBytes];
    for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
      char* accumulator = row.data() + kFoldHeadBytes;
      const int64_t first = keys.FirstPosition(distinct);
      codec.EncodeAccumulator(values, first, accumulator);
      keys.VisitPositions(distinct, [&](int64_t i) {
        if (i == first) return;
        codec.EncodeAccumulator(values, i, more);
        codec.rule().merge(accumulator, more);
      });
      SFKV_RETURN_IF_ERROR(on_row(distinct, std::string_view(row)));
    }
    return Status::OK();
  }
  for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
    row.resize(kFoldHeadBytes);
    if (codec.fold() == Fold::kFirst) {
      const int64_t first = keys.FirstPosition(distinct);
      row.resize(kFoldHeadBytes + codec.values().RowBytes(values, first));
      codec.values().EncodeRow(values, first, row.data() + kFoldHeadBytes);
    } else if (codec.fold() == Fold::kDistinct) {
      internal::AppendDistinctCells(keys, distinct, codec, values[0], &row);
      if (row.size() > kMaxValueBytes) return ValueTooLong(row.size(), keys.FirstPosition(distinct));
    } else {
      row.append(internal::ExtremeCell(keys, distinct, codec, values[0]));
    }
    SFKV_RETURN_IF_ERROR(on_row(distinct, std::string_view(row)));
  }
  return Status::OK();
}

// Makes an array of the results of "count" fold rows: find(i, &row) tells the i-th one; false for a key without one, which is null then.
template <typename Find>
Status BuildResults(int64_t count, const FoldCodec& codec, Find&& find, ArrowArray* out) {
  constexpr int64_t chunk = 64;
  char scratch[chunk][FoldCodec::kScratchBytes];
  std::string_view results[chunk];
  int64_t positions[chunk];
  Builders builders = MakeBuilders(codec.results().columns(), count);
  ValidityBuilder present(count);
  for (int64_t begin = 0; begin < count; begin += chunk) {
    size_t found = 0;
    for (int64_t i = begin; i < std::min(count, begin + chunk); ++i) {
      std::string_view row;
      if (!find(i, &row)) continue;
      SFKV_RETURN_IF_ERROR(codec.Result(row, i, scratch[i - begin], &results[found]));
      present.Set(i);
      positions[found++] = i;
    }
    const size_t read = codec.results().ParseRows(results, positions, found, &builders);
    if (read != found) return FoldCodec::Unreadable(positions[read]);
  }
  return FinishValues(codec.results(), &builders, count, &present, out);
}
inline Status BuildResults(const ColumnView& rows, const FoldCodec& codec, ArrowArray* out) {
  const auto find = [&](int64_t i, std::string_view* row) {
    *row = rows.Bytes(i);
    return true;
  };
  return BuildResults(rows.length(), codec, find, out);
}

}  // namespace sfkv
