// Values as compact rows.
//
//   plain value   a record (record_codec.h) of one column: 8 bytes for an int64, the text for a utf8
//   record        [schema version u8] · record
//
// A schema that gains columns gets a new version, and rows keep the one that they were written by: what they lack is read as the
// column's default, or as null. FORMAT.md section 4. Not thread-safe; no state but the schema.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "sfkv/finish.h"

namespace sfkv {

class ValueCodec {
 public:
  using Schema = std::vector<Column>;
  // What is read where a row lacks a column: the bytes of a cell, or null.
  using Defaults = std::vector<std::optional<std::string>>;

  ValueCodec() = default;
  // "older": the columns of the versions before, from version 0; each by its name one of "columns". REQUIRES: a record, if there are any.
  ValueCodec(Schema columns, bool is_record, const std::vector<Schema>& older = {}, Defaults defaults = {})
      : columns_(std::move(columns)), is_record_(is_record), defaults_(std::move(defaults)) {
    defaults_.resize(columns_.size());
    for (const Schema& version : older) AddVersion(version);
    AddVersion(columns_);
  }

  const Schema& columns() const { return columns_; }
  bool is_record() const { return is_record_; }
  // No row is shorter, of whatever version.
  size_t least_bytes() const { return least_bytes_; }
  // Whether all rows of a version have one length, and that of the longest of them.
  bool has_fixed_rows() const { return has_fixed_rows_; }
  size_t most_bytes() const { return most_bytes_; }
  bool has_one_length() const { return has_fixed_rows_ && least_bytes_ == most_bytes_; }
  // How rows are written: by the version of today.
  const RecordCodec& record() const { return versions_.back().record; }

  // --- Writing.

  size_t RowBytes(const Columns& columns, int64_t i) const { return record().RowBytes(columns, i); }

  // Writes the rows of the numbers "rows" to where "at" says. REQUIRES: RowBytes() bytes at each, and no null where the schema has
  // none.
  void EncodeRows(const Columns& columns, const int64_t* rows, char* const* at, size_t count) const {
    record().EncodeRows(columns, rows, at, count);
    for (size_t r = 0; is_record_ && r < count; ++r) at[r][0] = CurrentVersion();
  }
  void EncodeRow(const Columns& columns, int64_t i, char* at) const { EncodeRows(columns, &i, &at, 1); }

  // The head of a row that is written cell by cell, as RecordCodec says. REQUIRES: record().head_bytes() bytes at "row".
  void BeginRow(char* row) const {
    record().BeginRow(row);
    if (is_record_) row[0] = CurrentVersion();
  }

  // --- Reading.

  // Whether the bytes are a row of this schema, of any version.
  bool IsRow(std::string_view row) const {
    const size_t version = VersionOf(row);
    return version < versions_.size() && versions_[version].record.IsRow(row);
  }

  // Looks for a cell of one row: false if it is null. REQUIRES: IsRow(row).
  bool FindCell(std::string_view row, size_t column, std::string_view* cell) const {
    const Version& version = versions_[VersionOf(row)];
    const int stored = version.stored[column];
    if (stored >= 0) return version.record.FindCell(row, static_cast<size_t>(stored), cell);
    if (defaults_[column]) *cell = *defaults_[column];
    return defaults_[column].has_value();
  }

  // Reads rows into the rows "positions" of "builders", one for each column, of which some may not be wanted. Returns how many were read:
  // fewer than "count" if the next one is no row of this schema.
  size_t ParseRows(const std::string_view* rows, const int64_t* positions, size_t count, Builders* builders) const {
    size_t sound = 0;
    while (sound < count && IsRow(rows[sound])) ++sound;
    for (size_t begin = 0, end = 0; begin < sound; begin = end) {
      const size_t version = VersionOf(rows[begin]);
      while (end < sound && VersionOf(rows[end]) == version) ++end;
      ParseVersion(versions_[version], rows + begin, positions + begin, end - begin, builders);
    }
    return sound;
  }
  bool ParseRow(std::string_view row, int64_t i, Builders* builders) const { return ParseRows(&row, &i, 1, builders) == 1; }

 private:
  struct Version {
    RecordCodec record;
    std::vector<int> stored;  // for each column of today its number in this version; -1 if it came later
  };

  void AddVersion(const Schema& schema) {
    Version version{RecordCodec(schema, is_record_ ? 1 : 0), {}};
    for (const Column& column : columns_) {
      int stored = static_cast<int>(schema.size()) - 1;
      while (stored >= 0 && schema[static_cast<size_t>(stored)].name != column.name) --stored;
      version.stored.push_back(stored);
    }
    least_bytes_ = std::min(least_bytes_, version.record.head_bytes());
    most_bytes_ = std::max(most_bytes_, version.record.head_bytes());
    has_fixed_rows_ &= version.record.is_fixed();
    versions_.push_back(std::move(version));
  }

  char CurrentVersion() const { return static_cast<char>(versions_.size() - 1); }
  // A number that is no version's for bytes that name none.
  size_t VersionOf(std::string_view row) const {
    if (!is_record_) return 0;
    return row.empty() ? versions_.size() : static_cast<uint8_t>(row[0]);
  }

  void ParseVersion(const Version& version, const std::string_view* rows, const int64_t* positions, size_t count, Builders* builders) const {
    for (size_t c = 0; c < columns_.size(); ++c) {
      ColumnBuilder* builder = &(*builders)[c];
      if (!builder->is_wanted()) continue;
      if (version.stored[c] >= 0) {
        version.record.ParseColumn(static_cast<size_t>(version.stored[c]), rows, positions, count, builder);
      } else if (defaults_[c]) {
        for (size_t r = 0; r < count; ++r) builder->Set(positions[r], *defaults_[c]);
      }
    }
  }

  Schema columns_;
  bool is_record_ = false;
  Defaults defaults_;
  size_t least_bytes_ = std::numeric_limits<size_t>::max();
  size_t most_bytes_ = 0;
  bool has_fixed_rows_ = true;
  std::vector<Version> versions_;
};

// Exports the columns of plain values as they are, those of records as a struct array.
inline Status FinishValues(const ValueCodec& codec, Builders* builders, int64_t length, const ValidityBuilder* present, ArrowArray* out) {
  return codec.is_record() ? FinishRecord(builders, length, present, out) : FinishColumn(&(*builders)[0], length, present, out);
}

// The same for the columns "wanted" of records.
inline Status FinishValues(const ValueCodec& codec, Builders* builders, const std::vector<int>& wanted, int64_t length,
                           const ValidityBuilder* present, ArrowArray* out) {
  return codec.is_record() ? FinishRecordOf(builders, wanted, length, present, out) : FinishColumn(&(*builders)[0], length, present, out);
}

// Refuses nulls where the schema has none, and values that are too long; rows that "absent" says are null are passed over.
inline Status CheckValues(const ValueCodec& codec, const Columns& values, const ColumnView* absent) {
  SFKV_RETURN_IF_ERROR(CheckNulls(values, codec.columns(), absent));
  if (codec.record().is_fixed() && codec.record().head_bytes() <= kMaxValueBytes) return Status::OK();
  for (int64_t i = 0; i < values[0].length(); ++i) {
    if (absent != nullptr && absent->IsNull(i)) continue;
    const size_t bytes = codec.RowBytes(values, i);
    if (bytes > kMaxValueBytes) return ValueTooLong(bytes, i);
  }
  return Status::OK();
}

}  // namespace sfkv
