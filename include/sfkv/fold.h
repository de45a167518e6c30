// Folds: accumulators as rows that say themselves how they are folded, so that nobody has to know a schema to do it.
//
//   fold row := 80 00 · fold u8 · type u8 · accumulator
//
// No list begins with 80 00 (list_codec.h): the least form of that length is 00. Accumulators of numbers have a fixed size and are
// folded where they lie; those of text and binary, first values and distinct values have lengths of their own. FORMAT.md section 4.
// What fold_codec.h makes of values is folded here; the engine's merge operator (merge.h) and memory tables do nothing else with it.
//
// Folding never fails. Rows that do not fit together are kept behind a head of their own, which readers refuse. Thread-safe: no state.
#pragma once

#include <algorithm>

#include "sfkv/list_codec.h"
#include "sfkv/wide.h"

namespace sfkv {

enum class Fold : uint8_t {
  kBroken = 0,  // rows that could not be folded, one behind the other
  kSum = 1,
  kMin = 2,
  kMax = 3,
  kCount = 4,
  kMean = 5,
  kVariance = 6,
  kSampleVariance = 7,
  kFirst = 8,
  kDistinct = 9,
};

// What is folded. Sums and means of whole numbers are of kInt64, of floats of kFloat64, whatever their width.
enum class FoldType : uint8_t {
  kAny = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kUInt8 = 5,  // and bool
  kUInt16 = 6,
  kUInt32 = 7,
  kUInt64 = 8,
  kFloat16 = 9,
  kFloat32 = 10,
  kFloat64 = 11,
  kDecimal128 = 12,
  kDecimal256 = 13,
  kBytes = 14,
};

constexpr size_t kFoldHeadBytes = 4;
constexpr size_t kMaxFixedFoldBytes = kFoldHeadBytes + 48;

inline void EncodeFoldHead(Fold fold, FoldType type, char* at) {
  const char head[kFoldHeadBytes] = {static_cast<char>(0x80), 0, static_cast<char>(fold), static_cast<char>(type)};
  std::memcpy(at, head, kFoldHeadBytes);
}
inline bool IsFold(std::string_view row) {
  return row.size() >= kFoldHeadBytes && row[0] == static_cast<char>(0x80) && row[1] == 0;
}

namespace internal {

// --- Numbers in the order in which min and max see them: -0.0 before 0.0, and NaN behind all.

template <typename T>
struct Whole {
  static constexpr size_t kBytes = sizeof(T);
  static T Order(const char* at) { return LoadAs<T>(at); }
};
template <typename Bits, Bits kInfinity>
struct Float {
  static constexpr size_t kBytes = sizeof(Bits);
  static Bits Order(const char* at) {
    constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    const Bits bits = LoadAs<Bits>(at);
    if (static_cast<Bits>(bits & ~sign) > kInfinity) return static_cast<Bits>(~Bits{0});
    return static_cast<Bits>((bits & sign) != 0 ? ~bits : bits | sign);
  }
};
struct Int256 {
  static constexpr size_t kBytes = 32;
  static std::pair<__int128, unsigned __int128> Order(const char* at) { return {LoadAs<__int128>(at + 16), LoadAs<unsigned __int128>(at)}; }
};

template <typename Number>
void MergeLeast(char* into, const char* from) {
  if (Number::Order(from) < Number::Order(into)) std::memcpy(into, from, Number::kBytes);
}
template <typename Number>
void MergeGreatest(char* into, const char* from) {
  if (Number::Order(into) < Number::Order(from)) std::memcpy(into, from, Number::kBytes);
}

// --- Sums. That of floats is what was added up, and what was lost by rounding (Neumaier).

inline void MergeFloatSums(char* into, const char* from) {
  const auto a = LoadAs<double>(into), b = LoadAs<double>(from);
  const double sum = a + b;
  StoreAs(into, sum);
  if (!std::isfinite(sum)) return;  // nothing is lost of what is infinite
  const double lost = std::fabs(a) >= std::fabs(b) ? (a - sum) + b : (b - sum) + a;
  StoreAs(into + 8, LoadAs<double>(into + 8) + LoadAs<double>(from + 8) + lost);
}

// A sum, and of how many.
template <void (*kMergeSums)(char*, const char*), size_t kSumBytes>
void MergeMeans(char* into, const char* from) {
  kMergeSums(into, from);
  AddWords<1>(into + kSumBytes, from + kSumBytes);
}

// How many, their mean, and the sum of the squares of what they differ from it by (Chan, Golub and LeVeque).
inline void MergeVariances(char* into, const char* from) {
  const auto count = LoadAs<uint64_t>(into), more = LoadAs<uint64_t>(from);
  const auto a = static_cast<double>(count), b = static_cast<double>(more);
  const double difference = LoadAs<double>(from + 8) - LoadAs<double>(into + 8);
  StoreAs(into, count + more);
  StoreAs(into + 8, LoadAs<double>(into + 8) + difference * (b / (a + b)));
  StoreAs(into + 16, LoadAs<double>(into + 16) + LoadAs<double>(from + 16) + difference * difference * (a * (b / (a + b))));
}

}  // namespace internal

// How accumulators of a fixed size are folded: "from" comes behind "into".
struct FoldRule {
  size_t bytes = 0;  // of an accumulator; 0 for those with lengths of their own, and for what is no fold
  void (*merge)(char* into, const char* from) = nullptr;
};

namespace internal {

template <typename Number>
FoldRule ExtremeOf(Fold fold) {
  return {Number::kBytes, fold == Fold::kMin ? MergeLeast<Number> : MergeGreatest<Number>};
}

inline FoldRule ExtremeRule(Fold fold, FoldType type) {
  switch (type) {
    case FoldType::kInt8: return ExtremeOf<Whole<int8_t>>(fold);
    case FoldType::kInt16: return ExtremeOf<Whole<int16_t>>(fold);
    case FoldType::kInt32: return ExtremeOf<Whole<int32_t>>(fold);
    case FoldType::kInt64: return ExtremeOf<Whole<int64_t>>(fold);
    case FoldType::kUInt8: return ExtremeOf<Whole<uint8_t>>(fold);
    case FoldType::kUInt16: return ExtremeOf<Whole<uint16_t>>(fold);
    case FoldType::kUInt32: return ExtremeOf<Whole<uint32_t>>(fold);
    case FoldType::kUInt64: return ExtremeOf<Whole<uint64_t>>(fold);
    case FoldType::kFloat16: return ExtremeOf<Float<uint16_t, 0x7C00>>(fold);
    case FoldType::kFloat32: return ExtremeOf<Float<uint32_t, 0x7F800000>>(fold);
    case FoldType::kFloat64: return ExtremeOf<Float<uint64_t, 0x7FF0000000000000>>(fold);
    case FoldType::kDecimal128: return ExtremeOf<Whole<__int128>>(fold);
    case FoldType::kDecimal256: return ExtremeOf<Int256>(fold);
    default: return {};
  }
}

inline FoldRule SumRule(FoldType type) {
  switch (type) {
    case FoldType::kInt64: return {16, AddWords<2>};
    case FoldType::kFloat64: return {16, MergeFloatSums};
    case FoldType::kDecimal128: return {24, AddWords<3>};
    case FoldType::kDecimal256: return {40, AddWords<5>};
    default: return {};
  }
}

inline FoldRule MeanRule(FoldType type) {
  switch (type) {
    case FoldType::kInt64: return {24, MergeMeans<AddWords<2>, 16>};
    case FoldType::kFloat64: return {24, MergeMeans<MergeFloatSums, 16>};
    case FoldType::kDecimal128: return {32, MergeMeans<AddWords<3>, 24>};
    case FoldType::kDecimal256: return {48, MergeMeans<AddWords<5>, 40>};
    default: return {};
  }
}

}  // namespace internal

inline FoldRule RuleOf(Fold fold, FoldType type) {
  switch (fold) {
    case Fold::kSum: return internal::SumRule(type);
    case Fold::kMin:
    case Fold::kMax: return internal::ExtremeRule(fold, type);
    case Fold::kMean: return internal::MeanRule(type);
    case Fold::kCount: return type == FoldType::kAny ? FoldRule{8, AddWords<1>} : FoldRule{};
    case Fold::kVariance:
    case Fold::kSampleVariance: return type == FoldType::kFloat64 ? FoldRule{24, internal::MergeVariances} : FoldRule{};
    default: return {};
  }
}
// REQUIRES: IsFold(row).
inline FoldRule RuleOf(std::string_view row) { return RuleOf(static_cast<Fold>(row[2]), static_cast<FoldType>(row[3])); }

// Folds a row into another where it lies, if both have the same fold and a fixed size. False if they do not; then "into" is as it was.
inline bool FoldInPlace(char* into, size_t into_bytes, std::string_view from) {
  if (!IsFold(from) || from.size() != into_bytes || std::memcmp(into, from.data(), kFoldHeadBytes) != 0) return false;
  const FoldRule rule = RuleOf(from);
  if (rule.bytes == 0 || from.size() != kFoldHeadBytes + rule.bytes) return false;
  rule.merge(into + kFoldHeadBytes, from.data() + kFoldHeadBytes);
  return true;
}

// Whether such a row depends on which of what was added was folded first: then the engine may change it whenever it compacts.
inline bool DependsOnGrouping(std::string_view row) {
  return IsFold(row) && static_cast<FoldType>(row[3]) == FoldType::kFloat64 && RuleOf(row).bytes != 0 && static_cast<Fold>(row[2]) != Fold::kMin &&
         static_cast<Fold>(row[2]) != Fold::kMax;
}

// Whether rows of this fold grow with what is folded into them.
inline bool Grows(std::string_view row) { return IsFold(row) && static_cast<Fold>(row[2]) == Fold::kDistinct; }

namespace internal {

// Takes the rows of a set of distinct values off an accumulator; they rise, each beginning with its length. False if it is none.
inline bool TakeDistinct(std::string_view accumulator, std::vector<std::string_view>* values) {
  std::string_view value;
  const size_t begin = values->size();
  while (TakeElement(&accumulator, &value)) {
    if (values->size() > begin && values->back() >= value) return false;
    values->push_back(value);
  }
  return accumulator.empty();
}

template <typename Bytes>
void AppendDistinct(const std::vector<std::string_view>& values, Bytes* out) {
  char length[5];
  for (const std::string_view& value : values) {
    out->append(length, static_cast<size_t>(AppendVarint(length, value.size()) - length));
    out->append(value.data(), value.size());
  }
}

// The first row's values are many, those of the others few: these are sorted by themselves.
inline bool FoldDistinct(const std::vector<std::string_view>& rows, std::string* out) {
  std::vector<std::string_view> stored, added, all;
  for (const std::string_view& row : rows) {
    if (!TakeDistinct(row.substr(kFoldHeadBytes), stored.empty() ? &stored : &added)) return false;
  }
  std::sort(added.begin(), added.end());
  added.erase(std::unique(added.begin(), added.end()), added.end());
  all.reserve(stored.size() + added.size());
  std::set_union(stored.begin(), stored.end(), added.begin(), added.end(), std::back_inserter(all));
  size_t bytes = kFoldHeadBytes;
  for (const std::string_view& value : all) bytes += ElementBytes(value.size());
  out->reserve(bytes);
  out->append(rows[0].data(), kFoldHeadBytes);
  AppendDistinct(all, out);
  return true;
}

// All rows are folds of one kind. False if they cannot be folded; then "out" is as it was.
inline bool FoldAlike(const std::vector<std::string_view>& rows, std::string* out) {
  const auto fold = static_cast<Fold>(rows[0][2]);
  const auto type = static_cast<FoldType>(rows[0][3]);
  const FoldRule rule = RuleOf(fold, type);
  if (rule.bytes != 0) {
    for (const std::string_view& row : rows) {
      if (row.size() != kFoldHeadBytes + rule.bytes) return false;
    }
    out->append(rows[0]);
    for (size_t i = 1; i < rows.size(); ++i) rule.merge(out->data() + kFoldHeadBytes, rows[i].data() + kFoldHeadBytes);
    return true;
  }
  if (fold == Fold::kFirst && type == FoldType::kAny) {
    out->append(rows[0]);
    return true;
  }
  if (fold == Fold::kDistinct && type == FoldType::kBytes) return FoldDistinct(rows, out);
  if (type != FoldType::kBytes || (fold != Fold::kMin && fold != Fold::kMax)) return false;
  const auto extreme = fold == Fold::kMin ? std::min_element(rows.begin(), rows.end()) : std::max_element(rows.begin(), rows.end());
  out->append(*extreme);
  return true;
}

}  // namespace internal

// Folds the rows of one key, in order, into "*out", which is empty. REQUIRES: at least one row, and IsFold() of the first.
inline void FoldRows(const std::vector<std::string_view>& rows, std::string* out) {
  const auto alike = [&](std::string_view row) { return IsFold(row) && std::memcmp(row.data(), rows[0].data(), kFoldHeadBytes) == 0; };
  if (std::all_of(rows.begin(), rows.end(), alike) && internal::FoldAlike(rows, out)) return;
  out->resize(kFoldHeadBytes);
  EncodeFoldHead(Fold::kBroken, FoldType::kAny, out->data());
  for (const std::string_view& row : rows) out->append(row);
}

// What merging means: folds are folded, all else is put one behind the other, as lists are. As FoldRows().
inline void MergeRows(const std::vector<std::string_view>& rows, std::string* out) {
  if (IsFold(rows[0])) return FoldRows(rows, out);
  for (const std::string_view& row : rows) out->append(row);
}

}  // namespace sfkv
