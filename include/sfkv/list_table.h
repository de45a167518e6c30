// List states: one row a key, appended to by merge operands, so that adding needs no read.
// Stands on table.h; the functions need what its methods need. Rows: list_codec.h.
#pragma once

#include "sfkv/append_guard.h"
#include "sfkv/list_codec.h"
#include "sfkv/table.h"

namespace sfkv {

// An error if appending "bytes" would make the list too long. Reads it where the guard cannot know.
inline Status CheckAppend(const Table& table, AppendGuard* guard, std::string_view key, size_t bytes, int64_t row) {
  if (bytes > kMaxValueBytes) return ValueTooLong(bytes, row);
  if (!guard->MustCheck(key, bytes)) return Status::OK();
  rocksdb::PinnableSlice list;
  bool found = false;
  SFKV_RETURN_IF_ERROR(table.Get(key, /*may_wait=*/true, &list, &found));
  if (found && list.size() + bytes > kMaxValueBytes) return ValueTooLong(list.size() + bytes, row);
  guard->Checked(key);
  return Status::OK();
}

// Appends elements, already encoded, to the list of one key.
inline Status AppendToList(Table* table, AppendGuard* guard, std::string_view key, std::string_view elements) {
  SFKV_RETURN_IF_ERROR(CheckAppend(*table, guard, key, elements.size(), -1));
  WriteBatch batch;
  std::memcpy(batch.BeginMerge(key, elements.size()), elements.data(), elements.size());
  return table->Write(&batch);
}

// Appends a value for each row of the batch, those of one key in the rows' order and as one operand.
inline Status AddToLists(Table* table, AppendGuard* guard, const KeyBatch& keys, const ValueCodec& codec, const Columns& values,
                         OffsetRow offset) {
  SFKV_RETURN_IF_ERROR(CheckValues(codec, values, nullptr));
  std::vector<size_t> operand_bytes(keys.distinct_count());
  for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
    keys.VisitPositions(distinct, [&](int64_t i) { operand_bytes[distinct] += ElementBytes(codec.RowBytes(values, i)); });
    SFKV_RETURN_IF_ERROR(CheckAppend(*table, guard, keys.DistinctKey(distinct), operand_bytes[distinct], keys.FirstPosition(distinct)));
  }
  WriteBatch batch(table->write_batch_bytes());
  for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
    char* at = batch.BeginMerge(keys.DistinctKey(distinct), operand_bytes[distinct]);
    keys.VisitPositions(distinct, [&](int64_t i) {
      at = EncodeElement(codec, values, i, at);
    });
    SFKV_RETURN_IF_ERROR(table->WriteIfFull(&batch, offset));
  }
  return table->WriteRest(&batch, offset);
}

// Replaces the list of each key, of several for one key the last one's; an empty or missing list clears. "lists" is a view of
// lists whose items are the elements. REQUIRES: no null among them.
inline Status UpdateLists(Table* table, const KeyBatch& keys, const ValueCodec& codec, const ColumnView& lists, OffsetRow offset) {
  std::vector<size_t> list_bytes;
  SFKV_RETURN_IF_ERROR(MeasureLists(codec, lists, &list_bytes));
  const Columns elements = ElementsOf(codec, lists);
  WriteBatch batch(table->write_batch_bytes());
  for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
    const int64_t i = keys.LastPosition(distinct);
    if (list_bytes[static_cast<size_t>(i)] == 0) {
      batch.Delete(keys.DistinctKey(distinct));
    } else {
      EncodeList(codec, lists, elements, i, batch.BeginPut(keys.DistinctKey(distinct), list_bytes[static_cast<size_t>(i)]));
    }
    SFKV_RETURN_IF_ERROR(table->WriteIfFull(&batch, offset));
  }
  return table->WriteRest(&batch, offset);
}

// The lists of a batch's keys as an Arrow array, by position; empty where there is none.
inline Status ReadLists(const Table& table, const KeyBatch& keys, const ValueCodec& codec, ArrowArray* out) {
  RowSet rows;
  SFKV_RETURN_IF_ERROR(table.ReadRows(keys, &rows));
  const std::vector<uint32_t> distinct_of = keys.DistinctOfPositions();
  return BuildLists(static_cast<int64_t>(keys.size()), codec, [&](int64_t i) { return rows.Get(distinct_of[static_cast<size_t>(i)]); }, out);
}

}  // namespace sfkv
