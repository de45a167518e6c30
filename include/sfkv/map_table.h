// Map states: one row an entry, the user key behind the key, so that a key's entries lie together in the user keys' order.
//
// Stands on table.h; the functions need what its methods need. Values: map_codec.h.
#pragma once

#include "sfkv/least_keys.h"
#include "sfkv/map_rows.h"
#include "sfkv/row_blocks.h"
#include "sfkv/table.h"

namespace sfkv {

// Up to this many entries of one key are cleared one by one: a range delete costs every later read of the memtable.
constexpr size_t kPointDeletes = 1000;
// And this many range deletes may lie in a memtable before it is flushed.
constexpr size_t kRangeDeletesPerMemtable = 32;

// Iterates over the entries of one key after another with one iterator, whose upper bound moves with them.
class EntryCursor {
 public:
  // Over the table with number "id", or, without it, over all.
  EntryCursor(const Table& table, std::optional<uint8_t> id) {
    read_.iterate_upper_bound = &bound_slice_;
    iterator_ = table.NewIterator(read_, id);
  }
  // Over that of a batch's keys.
  EntryCursor(const Table& table, const KeyBatch& keys) : EntryCursor(table, keys.size() == 0 ? std::nullopt : std::optional(TableOf(keys.Key(0)))) {}
  EntryCursor(const EntryCursor&) = delete;
  EntryCursor& operator=(const EntryCursor&) = delete;

  // Goes to the first entry of a key. "key" is the encoded one, and must live as long as the cursor stays at it.
  void Seek(std::string_view key) { SeekRange(key, PrefixBound(key)); }
  // Goes to the first row from "first" on, up to but without "bound".
  void SeekRange(std::string_view first, std::string bound) {
    key_ = first;
    bound_ = std::move(bound);
    bound_slice_ = bound_;
    iterator_->Seek(AsSlice(first));
  }
  // The bound is compared too: inside a batch the engine heeds it for what is stored, not for what the batch holds.
  bool Valid() const { return iterator_->Valid() && iterator_->key().compare(bound_slice_) < 0; }
  void Next() { iterator_->Next(); }
  std::string_view user_key() const { return AsView(iterator_->key()).substr(key_.size()); }
  std::string_view encoded_key() const { return AsView(iterator_->key()); }
  std::string_view value() const { return AsView(iterator_->value()); }
  std::string_view first() const { return key_; }
  const std::string& bound() const { return bound_; }
  Status status() const { return FromRocksDB(iterator_->status()); }

 private:
  std::string_view key_;
  std::string bound_{"\xff\xff\xff"};
  rocksdb::Slice bound_slice_{bound_};
  rocksdb::ReadOptions read_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

// Puts an entry for each row; null values are None. Of several for one entry the last counts.
inline Status PutEntries(Table* table, const KeyBatch& entries, const ValueCodec& codec, const Columns& values, const ColumnView& rows,
                         OffsetRow offset) {
  SFKV_RETURN_IF_ERROR(CheckValues(codec, values, &rows));
  WriteBatch batch(table->write_batch_bytes());
  for (size_t distinct = 0; distinct < entries.distinct_count(); ++distinct) {
    const int64_t i = entries.LastPosition(distinct);
    if (rows.IsNull(i)) {
      *batch.BeginPut(entries.DistinctKey(distinct), 1) = kMapValueNone;
    } else {
      char* at = batch.BeginPut(entries.DistinctKey(distinct), 1 + codec.RowBytes(values, i));
      *at = kMapValuePresent;
      codec.EncodeRow(values, i, at + 1);
    }
    SFKV_RETURN_IF_ERROR(table->WriteIfFull(&batch, offset));
  }
  return table->WriteRest(&batch, offset);
}

// The values of a batch of entries as an Arrow array, by position; null where there is none, or None.
inline Status ReadEntryValues(const Table& table, const KeyBatch& entries, const ValueCodec& codec, ArrowArray* out) {
  const int64_t count = static_cast<int64_t>(entries.size());
  Builders builders = MakeBuilders(codec.columns(), count);
  ValidityBuilder present(count);
  SFKV_RETURN_IF_ERROR(table.Read(entries, [&](size_t distinct, std::string_view stored) {
    bool is_none = false;
    std::string_view row;
    if (!ParseMapValue(stored, &is_none, &row)) return false;
    if (is_none) return true;
    bool parsed = true;
    entries.VisitPositions(distinct, [&](int64_t position) {
      parsed &= codec.ParseRow(row, position, &builders);
      present.Set(position);
    });
    return parsed;
  }));
  return FinishValues(codec, &builders, count, &present, out);
}

// The entries of a batch's keys as an Arrow map array, by position, each in the order of its user keys.
inline Status ReadMaps(const Table& table, const KeyBatch& keys, const KeyCodec& user_codec, const ValueCodec& codec, ArrowArray* out) {
  RowList user_keys, values;
  std::vector<size_t> firsts(1, 0);
  EntryCursor cursor(table, keys);
  for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
    for (cursor.Seek(keys.DistinctKey(distinct)); cursor.Valid(); cursor.Next()) {
      user_keys.Add(cursor.user_key());
      values.Add(cursor.value());
    }
    SFKV_RETURN_IF_ERROR(cursor.status());
    firsts.push_back(user_keys.size());
  }
  return BuildMaps(keys, user_keys, values, firsts, {user_codec, codec}, out);
}

// Which keys have an entry.
inline Status HaveEntries(const Table& table, const KeyBatch& keys, ValidityBuilder* present) {
  EntryCursor cursor(table, keys);
  for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
    cursor.Seek(keys.DistinctKey(distinct));
    SFKV_RETURN_IF_ERROR(cursor.status());
    if (cursor.Valid()) keys.VisitPositions(distinct, [&](int64_t position) { present->Set(position); });
  }
  return Status::OK();
}

// Adds to "batch" what removes all rows of a cursor that was just placed: one by one where they are few, else by a range.
inline Status ClearRows(Table* table, EntryCursor* cursor, WriteBatch* batch) {
  const size_t most = table->InBatch() ? std::numeric_limits<size_t>::max() : kPointDeletes;  // ranges are not for batches
  std::vector<std::string> found;
  for (; cursor->Valid() && found.size() <= most; cursor->Next()) found.emplace_back(cursor->encoded_key());
  SFKV_RETURN_IF_ERROR(cursor->status());
  if (found.size() <= most) {
    for (const std::string& entry : found) batch->Delete(entry);
    return Status::OK();
  }
  SFKV_RETURN_IF_ERROR(table->MakeRoomForRangeDelete(kRangeDeletesPerMemtable));
  batch->DeleteRange(cursor->first(), cursor->bound());
  return Status::OK();
}

inline Status ClearMaps(Table* table, const KeyBatch& keys, OffsetRow offset) {
  WriteBatch batch;
  EntryCursor cursor(*table, keys);
  for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
    cursor.Seek(keys.DistinctKey(distinct));
    SFKV_RETURN_IF_ERROR(ClearRows(table, &cursor, &batch));
    SFKV_RETURN_IF_ERROR(table->WriteIfFull(&batch, offset));
  }
  return table->WriteRest(&batch, offset);
}

inline Status ClearMap(Table* table, std::string_view key) {
  WriteBatch batch;
  EntryCursor cursor(*table, TableOf(key));
  cursor.Seek(key);
  SFKV_RETURN_IF_ERROR(ClearRows(table, &cursor, &batch));
  return table->Write(&batch);
}

// Removes some rows of each key group; "least", if given, tells which have none, and learns what is gone.
inline Status DeleteRange(Table* table, LeastKeys* least, uint8_t id, KeyGroupRange range, const RowRange& rows, OffsetRow offset) {
  WriteBatch batch;
  EntryCursor cursor(*table, id);
  std::string first;  // lives as long as the cursor stays at it
  for (int group = range.first; group <= range.last; ++group) {
    if (least != nullptr && least->HasNoneBelow(group, rows.upper)) continue;
    std::string header(kKeyHeaderBytes, '\0');
    EncodeKeyHeader(header.data(), group, id);
    first = header + (least == nullptr ? rows.lower : std::max(rows.lower, least->least(group)));
    cursor.SeekRange(first, rows.upper.empty() ? PrefixBound(header) : header + rows.upper);
    SFKV_RETURN_IF_ERROR(ClearRows(table, &cursor, &batch));
    SFKV_RETURN_IF_ERROR(table->WriteIfFull(&batch, offset));
  }
  SFKV_RETURN_IF_ERROR(table->WriteRest(&batch, offset));
  if (least == nullptr || table->InBatch()) return Status::OK();  // a batch may be dropped
  for (int group = range.first; group <= range.last; ++group) {
    if (least->HasNoneBelow(group, rows.upper) || least->least(group) < rows.lower) continue;
    least->Raise(group, rows.upper.empty() ? std::nullopt : std::optional<std::string_view>(rows.upper));
  }
  return Status::OK();
}

// Appends rows of one key group to a block (row_blocks.h), up to about "most_bytes" of them: those from the encoded key "*from" on, which
// moves behind them, up to but without "bound". Empty at the end.
inline Status ReadBlock(const Table& table, size_t most_bytes, std::string_view bound, std::string* from, int* key_group, ByteBuffer* block) {
  EntryCursor cursor(table, std::nullopt);
  const std::string first = *from;
  for (cursor.SeekRange(first, std::string(bound)); cursor.Valid(); cursor.Next()) {
    const std::string_view key = cursor.encoded_key();
    const int group = GroupOf(key);
    if (block->size() >= most_bytes || (block->size() != 0 && group != *key_group)) {
      from->assign(key);
      return cursor.status();
    }
    *key_group = group;
    AppendBlockRow(TableOf(key), key.substr(kKeyHeaderBytes), cursor.value(), block);
  }
  from->assign(bound);
  return cursor.status();
}

// Removes all rows of a table, key group by key group. Not at once: a crash leaves some of them.
inline Status DropRows(Table* table, uint8_t id, KeyGroupRange range) {
  SFKV_RETURN_IF_ERROR(table->RefuseInBatch("dropping a state"));
  for (int group = range.first; group <= range.last; ++group) {
    char prefix[kKeyHeaderBytes];
    EncodeKeyHeader(prefix, group, id);
    SFKV_RETURN_IF_ERROR(ClearMap(table, {prefix, kKeyHeaderBytes}));
  }
  return Status::OK();
}

}  // namespace sfkv
