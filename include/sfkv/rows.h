// What a store does for states, scans and batches, as an interface: modules that use it need no engine, and another kind of
// store can stand behind it. One thread at a time; every call needs a Call scope of the store (lifetime.h). The GIL is not needed.
#pragma once

#include "sfkv/append_guard.h"
#include "sfkv/fold_codec.h"
#include "sfkv/fold_guard.h"
#include "sfkv/key_batch.h"
#include "sfkv/list_codec.h"
#include "sfkv/map_rows.h"
#include "sfkv/row_set.h"
#include "sfkv/write_batch.h"

namespace sfkv {

// The row that is written with the last piece of a write, which then is not split; an empty key for none.
struct OffsetRow {
  std::string_view key;
  std::string_view row;
};

enum class TableKind : uint8_t { kValue, kList, kMap };

// What is known of a table before it holds rows.
struct TableShape {
  static constexpr size_t kAnyBytes = static_cast<size_t>(-1);

  uint8_t table = 0;
  bool is_ordered = true;  // it is passed over by ranges of its keys, rather than only looked into
  KeyGroupRange range;
  size_t key_bytes = kAnyBytes;    // of every key row, user key included
  size_t value_bytes = kAnyBytes;  // of the longest value
  bool value_is_fixed = false;     // no value is shorter
  bool holds_objects = false;      // its values are numbers of objects, which somebody counts (memory_objects.h)
  TableKind kind = TableKind::kValue;
};

// Key rows from "lower", up to but without "upper"; an empty bound is none. Also what such a part of a table is named by.
struct RowRange {
  std::string lower;
  std::string upper;
};

struct ScanOptions {
  uint8_t table = 0;
  TableKind kind = TableKind::kValue;
  KeyGroupRange range;
  std::string key;  // an encoded key: only its rows; empty for all keys
  RowRange rows;    // of each key group
  bool reverse = false;          // from the last key group's last row to the first's first; not for maps
  std::vector<int> key_columns;    // the numbers of those that are wanted
  std::vector<int> value_columns;
  int64_t batch_rows = 65536;
  bool with_values = true;
  bool distinct_keys = false;  // one row a key, where a key has several
};

// A pass over a table, as of its start. It may be dropped by any thread, and ends with its store.
class Cursor {
 public:
  virtual ~Cursor() = default;

  // Reads up to batch_rows rows into struct arrays of the keys' columns, of the user keys' (maps only) and, unless they were
  // not asked for, of the values'. "*rows" is how many; 0 means that the pass is over.
  virtual Status Next(int64_t* rows, ArrowArray* keys, ArrowArray* user_keys, ArrowArray* values) = 0;

  // Reads up to "most" entries of the one key: user-key rows, and stored values if they were asked for. REQUIRES: options.key was given.
  virtual Status NextEntries(size_t most, RowSet* user_keys, RowSet* values) = 0;
};

class Rows {
 public:
  virtual ~Rows() = default;

  // To be called before a table is read or written, and again when its shape has changed. Whether its batches of keys are to be sorted.
  virtual bool Declare(const TableShape& shape) = 0;

  // "user_keys" is asked only of maps.
  virtual std::shared_ptr<Cursor> NewScan(const ScanOptions& options, const KeyCodec& keys, const KeyCodec& user_keys,
                                          const ValueCodec& values) = 0;

  // A batch over several states: until it is committed or dropped, all writes go into it, and all reads see it.
  virtual bool InBatch() const = 0;
  virtual Status BeginBatch() = 0;
  virtual Status CommitBatch() = 0;
  virtual void DropBatch() = 0;

  // The rows from "first", up to but without "bound", by their encoded keys. For few: they are copied.
  virtual Status ReadRange(std::string_view first, std::string_view bound, std::vector<std::string>* keys, std::vector<std::string>* values) = 0;
  // Writes rows by their encoded keys, all or none; the second past an open batch.
  virtual Status WriteRows(WriteBatch* rows) = 0;
  virtual Status WriteRowsThrough(WriteBatch* rows) = 0;
  // Remembers from now on the least keys of a table (least_keys.h), until it is dropped. PutRow and PutColumns tell them of their keys.
  virtual void KeepLeastKeys(uint8_t table, KeyGroupRange range) = 0;
  // Removes some rows of each key group, or all of them. Not at once, unless an offset goes with it: a crash may leave some.
  virtual Status DeleteRange(uint8_t table, KeyGroupRange range, const RowRange& rows, OffsetRow offset) = 0;
  // Removes all rows of a table.
  virtual Status DropTable(uint8_t table, KeyGroupRange range) = 0;

  // Single rows. With may_wait false nothing blocks: a call that would have to do I/O or wait answers kIncomplete. "row" takes
  // the row's bytes, unless it is null.
  virtual Status ReadRow(std::string_view key, bool may_wait, ByteBuffer* row, bool* found) = 0;
  virtual Status PutRow(std::string_view key, std::string_view row, bool may_wait) = 0;
  virtual Status DeleteRow(std::string_view key, bool may_wait) = 0;

  // Batches of rows. What is read of one is by position; bad values are found before the first is written.

  // Reads into "builders", one per column of the value; "present" tells which keys were there.
  virtual Status ReadColumns(const KeyBatch& keys, const ValueCodec& codec, Builders* builders, ValidityBuilder* present) = 0;
  // Copies the rows of the distinct keys of a batch that was sorted; else, where batches need not be, that of each of its keys.
  virtual Status ReadRows(const KeyBatch& keys, RowSet* rows) = 0;
  // Sets bit i of "present" for each position whose key is there.
  virtual Status HaveRows(const KeyBatch& keys, ValidityBuilder* present) = 0;
  // Puts a row for each key, of several for one key the last; a row that "clears" says is absent deletes instead.
  virtual Status PutColumns(const KeyBatch& keys, const ValueCodec& codec, const Columns& values, const ColumnView* clears,
                            OffsetRow offset) = 0;
  virtual Status DeleteRows(const KeyBatch& keys, OffsetRow offset) = 0;

  // Lists. REQUIRES for these: the keys are sorted. The guard is the table's own (append_guard.h).

  // Appends elements, already encoded, to the list of one key.
  virtual Status Append(AppendGuard* guard, std::string_view key, std::string_view elements) = 0;
  // Appends a value for each row of the batch, those of one key in the rows' order.
  virtual Status AddToLists(AppendGuard* guard, const KeyBatch& keys, const ValueCodec& codec, const Columns& values, OffsetRow offset) = 0;
  // Replaces the list of each key, of several for one key the last one's; an empty or missing list clears. "lists" is a view of lists
  // whose items are the elements. REQUIRES: no null among them.
  virtual Status UpdateLists(const KeyBatch& keys, const ValueCodec& codec, const ColumnView& lists, OffsetRow offset) = 0;
  // The lists as an Arrow array; empty where there is none.
  virtual Status ReadLists(const KeyBatch& keys, const ValueCodec& codec, ArrowArray* out) = 0;

  // Folds; results are read by ReadResults(). The guard is the table's own (fold_guard.h).

  // Folds an operand, a fold row (fold.h), into the row of one key.
  virtual Status FoldRow(FoldGuard* guard, std::string_view key, std::string_view operand, bool may_wait) = 0;
  // Folds the values of a batch's rows into the rows of their keys, in the rows' order. REQUIRES: the keys are sorted, unless
  // codec.row_bytes() != 0.
  virtual Status FoldColumns(FoldGuard* guard, const KeyBatch& keys, const FoldCodec& codec, const Columns& values, OffsetRow offset) = 0;

  // Maps. REQUIRES for these: the keys, of entries or of whole maps, are sorted.

  // Puts an entry for each row; null values are None. Of several for one entry the last counts.
  virtual Status PutEntries(const KeyBatch& entries, const ValueCodec& codec, const Columns& values, const ColumnView& rows,
                            OffsetRow offset) = 0;
  // The values of a batch of entries as an Arrow array; null where there is none, or None.
  virtual Status ReadEntries(const KeyBatch& entries, const ValueCodec& codec, ArrowArray* out) = 0;
  // The entries of a batch's keys as an Arrow map array, each in the order of its user keys.
  virtual Status ReadMaps(const KeyBatch& keys, const KeyCodec& user_codec, const ValueCodec& codec, ArrowArray* out) = 0;
  // Which keys have an entry.
  virtual Status HaveEntries(const KeyBatch& keys, ValidityBuilder* present) = 0;
  virtual Status HasEntry(std::string_view key, bool* found) = 0;
  // Removes all entries of keys.
  virtual Status ClearMaps(const KeyBatch& keys, OffsetRow offset) = 0;
  virtual Status ClearMap(std::string_view key) = 0;
};

// Reads a batch of rows as an Arrow array, by position, null where there is none: the columns "wanted" of each.
inline Status ReadValues(Rows* rows, const KeyBatch& keys, const ValueCodec& codec, const std::vector<int>& wanted, ArrowArray* out) {
  const int64_t count = static_cast<int64_t>(keys.size());
  Builders builders = MakeBuildersOf(codec.columns(), wanted, count);
  ValidityBuilder present(count);
  SFKV_RETURN_IF_ERROR(rows->ReadColumns(keys, codec, &builders, &present));
  return FinishValues(codec, &builders, wanted, count, &present, out);
}

// Reads the results of a batch's fold rows as an Arrow array, by position, null where there is no row.
inline Status ReadResults(Rows* rows, const KeyBatch& keys, const FoldCodec& codec, ArrowArray* out) {
  RowSet found;
  SFKV_RETURN_IF_ERROR(rows->ReadRows(keys, &found));
  const std::vector<uint32_t> distinct_of = keys.DistinctOfPositions();
  const auto find = [&](int64_t i, std::string_view* row) {
    const size_t distinct = distinct_of[static_cast<size_t>(i)];
    if (found.Has(distinct)) *row = found.Get(distinct);
    return found.Has(distinct);
  };
  return BuildResults(static_cast<int64_t>(keys.size()), codec, find, out);
}

}  // namespace sfkv
