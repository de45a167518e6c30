// Batches of rows in memory: read, put and folded some at a time, so that what the next ones touch is brought into the cache meanwhile.
//
// Stands on memory_tables.h; what writes needs to be inside its Write(). Keys come in the order of their batch (key_batch.h).
#pragma once

#include "sfkv/memory_tables.h"

namespace sfkv {

constexpr size_t kMemoryChunk = MemoryTable::kMostAtOnce;

// Calls on_chunk(rows, begin, count) for the rows of "batch_count" of a batch's keys, of which key_of(i) gives each.
template <typename KeyOf, typename OnChunk>
Status VisitRowsOfKeys(const MemoryTables& tables, const KeyBatch& batch, size_t batch_count, KeyOf&& key_of, OnChunk&& on_chunk) {
  const MemoryTable* table = tables.TableFor(batch);
  if (table == nullptr) return Status::OK();
  std::string_view keys[kMemoryChunk], rows[kMemoryChunk];
  for (size_t begin = 0; begin < batch_count; begin += kMemoryChunk) {
    const size_t count = std::min(kMemoryChunk, batch_count - begin);
    for (size_t i = 0; i < count; ++i) keys[i] = key_of(begin + i);
    table->FindMany(keys, count, rows);
    SFKV_RETURN_IF_ERROR(on_chunk(rows, begin, count));
  }
  return Status::OK();
}
// The same for all rows of a batch, in its order.
template <typename OnChunk>
Status VisitRowsOf(const MemoryTables& tables, const KeyBatch& keys, OnChunk&& on_chunk) {
  return VisitRowsOfKeys(tables, keys, keys.size(), [&](size_t i) { return keys.Key(keys.PositionAt(i)); }, on_chunk);
}

// Calls visit(number, key) for the distinct keys of a batch.
template <typename Visit>
void VisitDistinct(const MemoryTables& tables, const KeyBatch& batch, Visit&& visit) {
  std::string_view keys[kMemoryChunk];
  for (size_t begin = 0; begin < batch.distinct_count(); begin += kMemoryChunk) {
    const size_t count = std::min(kMemoryChunk, batch.distinct_count() - begin);
    for (size_t i = 0; i < count; ++i) keys[i] = batch.DistinctKey(begin + i);
    tables.PrefetchMany(keys, count);
    for (size_t i = 0; i < count; ++i) visit(begin + i, keys[i]);
  }
}

// What putting a batch takes, but for what "absent" says is null.
inline WriteSize SizeOfRows(const KeyBatch& keys, const ValueCodec& codec, const Columns& values, const ColumnView* absent) {
  WriteSize size{keys.size(), keys.bytes()};
  if (codec.record().is_fixed()) {
    size.bytes += keys.size() * codec.record().head_bytes();
    return size;
  }
  for (int64_t row = 0; row < static_cast<int64_t>(keys.size()); ++row) {
    if (absent == nullptr || !absent->IsNull(row)) size.bytes += codec.RowBytes(values, row);
  }
  return size;
}

// The rows of some keys of a batch on their way into tables, encoded column by column.
class MemoryRowBlock {
 public:
  // "head": bytes before each value, which are left to the caller.
  MemoryRowBlock(const ValueCodec& codec, const Columns& values, size_t head) : codec_(codec), values_(values), head_(head) {}

  void Clear() {
    bytes_.Clear();
    count_ = some_ = 0;
  }
  // Adds row "row" of the values, or only its head; at most kMemoryChunk.
  void Add(int64_t row, bool is_absent, char head) {
    if (head_ != 0) *bytes_.Extend(head_) = head;
    if (!is_absent) {
      rows_[some_] = row;
      begins_[some_++] = bytes_.size();
      bytes_.Extend(codec_.RowBytes(values_, row));
    }
    ends_[count_++] = bytes_.size();
  }
  void Encode() {
    char* at[kMemoryChunk] = {};
    for (size_t r = 0; r < some_; ++r) at[r] = bytes_.data() + begins_[r];
    codec_.EncodeRows(values_, rows_, at, some_);
  }
  std::string_view Get(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return {bytes_.data() + begin, ends_[i] - begin};
  }

 private:
  const ValueCodec& codec_;
  const Columns& values_;
  const size_t head_;
  ByteBuffer bytes_;
  int64_t rows_[kMemoryChunk];
  size_t begins_[kMemoryChunk], ends_[kMemoryChunk];
  size_t count_ = 0, some_ = 0;
};

// Brings the next keys of a batch, in its order, into "names" and what they touch into the cache. Returns how many.
inline size_t TakeNames(const MemoryTables& tables, const KeyBatch& keys, size_t begin, std::string_view* names) {
  const size_t count = std::min(kMemoryChunk, keys.size() - begin);
  for (size_t i = 0; i < count; ++i) names[i] = keys.Key(keys.PositionAt(begin + i));
  tables.PrefetchMany(names, count);
  return count;
}

// Puts a row for each key of a batch; one that "absent" says is null is cleared.
inline void PutRows(MemoryTables* tables, const KeyBatch& keys, const ValueCodec& codec, const Columns& values, const ColumnView* absent) {
  MemoryRowBlock block(codec, values, 0);
  std::string_view names[kMemoryChunk];
  for (size_t begin = 0; begin < keys.size(); begin += kMemoryChunk) {
    const size_t count = TakeNames(*tables, keys, begin, names);
    const auto is_absent = [&](size_t i) { return absent != nullptr && absent->IsNull(static_cast<int64_t>(keys.PositionAt(begin + i))); };
    block.Clear();
    for (size_t i = 0; i < count; ++i) block.Add(static_cast<int64_t>(keys.PositionAt(begin + i)), is_absent(i), 0);
    block.Encode();
    for (size_t i = 0; i < count; ++i) {
      if (is_absent(i)) {
        tables->Erase(names[i]);
      } else {
        tables->Put(names[i], block.Get(i));
      }
    }
  }
}

// The same for the entries of maps, where a null is None.
inline void PutEntryRows(MemoryTables* tables, const KeyBatch& entries, const ValueCodec& codec, const Columns& values, const ColumnView& rows) {
  MemoryRowBlock block(codec, values, 1);
  std::string_view names[kMemoryChunk];
  for (size_t begin = 0; begin < entries.size(); begin += kMemoryChunk) {
    const size_t count = TakeNames(*tables, entries, begin, names);
    block.Clear();
    for (size_t i = 0; i < count; ++i) {
      const auto row = static_cast<int64_t>(entries.PositionAt(begin + i));
      block.Add(row, rows.IsNull(row), rows.IsNull(row) ? kMapValueNone : kMapValuePresent);
    }
    block.Encode();
    for (size_t i = 0; i < count; ++i) tables->Put(names[i], block.Get(i));
  }
}

// Folds value by value, without a look at which keys are the same. REQUIRES: codec.row_bytes() != 0.
inline void FoldFixedRows(MemoryTables* tables, const KeyBatch& keys, const FoldCodec& codec, const Columns& values) {
  std::string_view names[kMemoryChunk];
  char operand[kMaxFixedFoldBytes];
  codec.EncodeHead(operand);
  for (size_t begin = 0; begin < keys.size(); begin += kMemoryChunk) {
    const size_t count = TakeNames(*tables, keys, begin, names);
    for (size_t i = 0; i < count; ++i) {
      codec.EncodeAccumulator(values, static_cast<int64_t>(keys.PositionAt(begin + i)), operand + kFoldHeadBytes);
      tables->Fold(names[i], {operand, codec.row_bytes()});
    }
  }
}

// Erases the row of each key of a batch.
inline void EraseRows(MemoryTables* tables, const KeyBatch& keys) {
  std::string_view names[kMemoryChunk];
  for (size_t begin = 0; begin < keys.size(); begin += kMemoryChunk) {
    const size_t count = TakeNames(*tables, keys, begin, names);
    for (size_t i = 0; i < count; ++i) tables->Erase(names[i]);
  }
}

// Makes the writes of a serialised batch.
class WriteApplier {
 public:
  explicit WriteApplier(MemoryTables* tables) : tables_(tables) {}

  // REQUIRES: only puts and deletes among them.
  void Apply(const WriteBatch& writes) {
    writes.ForEach([&](WriteKind kind, std::string_view key, std::string_view row) {
      SFKV_REQUIRES(kind == WriteKind::kPut || kind == WriteKind::kDelete);
      keys_[count_] = key;
      rows_[count_] = row;
      is_put_[count_++] = kind == WriteKind::kPut;
      if (count_ == kMemoryChunk) Flush();
    });
    Flush();
  }

 private:
  void Flush() {
    tables_->PrefetchMany(keys_, count_);
    for (size_t i = 0; i < count_; ++i) {
      if (is_put_[i]) {
        tables_->Put(keys_[i], rows_[i]);
      } else {
        tables_->Erase(keys_[i]);
      }
    }
    count_ = 0;
  }

  MemoryTables* tables_;
  std::string_view keys_[kMemoryChunk], rows_[kMemoryChunk];
  bool is_put_[kMemoryChunk];
  size_t count_ = 0;
};

inline void ApplyWrites(MemoryTables* tables, const WriteBatch& writes) { WriteApplier(tables).Apply(writes); }

}  // namespace sfkv
