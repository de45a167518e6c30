// Rows of the database: read, write. All tables of a store lie in one database and are told apart by the keys' table byte.
//
// A batch is read by MultiGet, sorted and without duplicates, in chunks, and every value is decoded from its pinned slice;
// a chunk's pins are freed before the next is read. Rows that are read again and again are kept in front of it (row_cache.h).
// Writes are encoded into WriteBatches and split at write_batch_bytes. Owns those rows, and the batch over several states that may
// be open. What single calls add to folds is held back (held_folds.h) until anything else is written or its table is read.
// One thread at a time (lifetime.h); the GIL is not needed.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "sfkv/fold.h"
#include "sfkv/fold_guard.h"
#include "sfkv/held_folds.h"
#include "sfkv/key_batch.h"
#include "sfkv/pending.h"
#include "sfkv/row_block.h"
#include "sfkv/row_cache.h"
#include "sfkv/rows.h"
#include "sfkv/step_reader.h"
#include "sfkv/value_codec.h"
#include "sfkv/write_batch.h"
#include "sfkv/writer.h"

namespace sfkv {

class Table {
 public:
  // "flushes" is among the database's listeners; the slot outlives it.
  Table(rocksdb::DB* db, const StoreOptions& options, std::shared_ptr<FlushWatch> flushes, Slot* slot)
      : db_(db),
        writer_(std::make_unique<Writer>(db, std::move(flushes))),
        cache_(std::make_unique<RowCache>(options.row_cache ? slot : nullptr)),
        chunk_keys_(std::max<size_t>(1, options.read_chunk_keys)),
        write_batch_bytes_(options.write_batch_bytes) {
    all_files_open_ = db->GetOptions().max_open_files == -1;
    cached_only_.read_tier = rocksdb::kBlockCacheTier;
  }

  // --- Single rows. With may_wait false nothing blocks: a call that would have to do I/O or wait answers kIncomplete.

  Status Get(std::string_view key, bool may_wait, rocksdb::PinnableSlice* value, bool* found) const {
    SFKV_RETURN_IF_ERROR(WriteHeldOf(TableOf(key), may_wait));
    const bool looks = LooksInCache(key, 1);
    uint64_t hash = 0;
    const std::string_view row = looks ? cache_->Find(key, &hash) : std::string_view();
    *found = row.data() != nullptr;
    if (*found) {
      value->PinSelf(AsSlice(row));
      return Status::OK();
    }
    if (!may_wait && !all_files_open_) return MustWait();
    const rocksdb::ReadOptions& options = may_wait ? read_ : cached_only_;
    const rocksdb::Status status = pending_ == nullptr ? db_->Get(options, db_->DefaultColumnFamily(), AsSlice(key), value)
                                                       : pending_->Get(db_, options, key, value);
    *found = status.ok();
    if (looks && *found) OfferToCache(key, hash, AsView(*value));
    return status.IsNotFound() ? Status::OK() : FromRocksDB(status);
  }

  Status Put(std::string_view key, std::string_view value, bool may_wait) {
    if (pending_ != nullptr) return pending_->Put(key, value);
    SFKV_RETURN_IF_ERROR(WriteHeld(may_wait));
    const Status status = writer_->Put(key, value, may_wait);
    status.ok() ? cache_->Put(key, value) : cache_->Erase(key);
    return status;
  }

  Status Merge(std::string_view key, std::string_view operand, bool may_wait) {
    if (pending_ != nullptr) return pending_->Merge(key, operand);
    SFKV_RETURN_IF_ERROR(WriteHeld(may_wait));
    cache_->Erase(key);
    return writer_->Merge(key, operand, may_wait);
  }

  // Folds an operand into a key's row, a little later, if such operands can be held; else "*is_held" is false.
  Status Hold(std::string_view key, std::string_view operand, bool may_wait, bool* is_held) {
    *is_held = pending_ == nullptr && held_->Takes(operand);
    if (!*is_held) return Status::OK();
    if (!held_->is_full() && held_->Add(key, operand)) return Status::OK();
    SFKV_RETURN_IF_ERROR(WriteHeld(may_wait));
    held_->Add(key, operand);
    return Status::OK();
  }

  Status Delete(std::string_view key, bool may_wait) {
    if (pending_ != nullptr) return pending_->Delete(key);
    SFKV_RETURN_IF_ERROR(WriteHeld(may_wait));
    cache_->Erase(key);
    return writer_->Delete(key, may_wait);
  }

  // --- Batches.

  // Calls on_chunk(first distinct, rows, count) for the distinct keys of "keys", in order, some at a time; a row that is not there has
  // no data. REQUIRES: keys.Sort() was called.
  template <typename OnChunk>
  Status ReadChunks(const KeyBatch& keys, OnChunk&& on_chunk) const {
    if (keys.size() == 0) return Status::OK();
    SFKV_RETURN_IF_ERROR(WriteHeldOf(TableOf(keys.Key(0)), /*may_wait=*/true));
    std::unique_ptr<StepReader> steps;
    if (MayBeDense(keys)) steps = std::make_unique<StepReader>(NewIterator(read_, TableOf(keys.Key(0))));
    bool looks = steps == nullptr && LooksInCache(keys.Key(0), keys.distinct_count());
    ReadBuffers buffers(chunk_keys_, keys.distinct_count());
    for (size_t begin = 0; begin < keys.distinct_count(); begin += buffers.count) {
      const bool looked = looks;
      GatherChunk(keys, begin, looked, &buffers);
      rocksdb::PinnableSlice* values = buffers.values.data();
      rocksdb::Status* statuses = buffers.statuses.data();
      if (steps != nullptr) {
        steps->Read(buffers.slices.data(), buffers.missed, values, statuses);
        if (!steps->IsWorthIt()) {
          steps.reset();
          looks = LooksInCache(keys.Key(0), keys.distinct_count() - begin - buffers.count);
        }
      } else if (buffers.missed == 0) {  // all were found
      } else if (pending_ == nullptr) {
        db_->MultiGet(read_, db_->DefaultColumnFamily(), buffers.missed, buffers.slices.data(), values, statuses, /*sorted_input=*/true);
      } else {
        pending_->MultiGet(db_, read_, buffers.missed, buffers.slices.data(), values, statuses);
      }
      for (size_t m = 0; m < buffers.missed; ++m) {
        if (!statuses[m].ok() && !statuses[m].IsNotFound()) return FromRocksDB(statuses[m]);
        if (statuses[m].ok()) buffers.rows[buffers.places[m]] = AsView(values[m]);
      }
      SFKV_RETURN_IF_ERROR(on_chunk(begin, buffers.rows.data(), buffers.count));
      for (size_t m = 0; m < buffers.missed; ++m) {
        if (looked && statuses[m].ok()) OfferToCache(AsView(buffers.slices[m]), buffers.hashes[buffers.places[m]], AsView(values[m]));
        values[m].Reset();
      }
    }
    return Status::OK();
  }

  // Calls on_row(distinct, row) for each distinct key of "keys" that is there, in order; it returns false for a row that it
  // cannot read. REQUIRES: keys.Sort() was called.
  template <typename OnRow>
  Status Read(const KeyBatch& keys, OnRow&& on_row) const {
    return ReadChunks(keys, [&](size_t begin, const std::string_view* rows, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        if (rows[i].data() != nullptr && !on_row(begin + i, rows[i])) return UnreadableRow(keys.FirstPosition(begin + i));
      }
      return Status::OK();
    });
  }

  // Reads into "builders", one per column of the value, by position; "present" tells which keys were there. Rows are decoded a chunk
  // at a time, column by column; what is asked for again is copied at the end.
  Status ReadColumns(const KeyBatch& keys, const ValueCodec& codec, Builders* builders, ValidityBuilder* present) const {
    std::vector<std::string_view> found(ReadBuffers::MostKeys(chunk_keys_, keys.distinct_count()));
    std::vector<int64_t> positions(found.size());
    SFKV_RETURN_IF_ERROR(ReadChunks(keys, [&](size_t begin, const std::string_view* rows, size_t count) {
      size_t present_count = 0;
      for (size_t i = 0; i < count; ++i) {
        if (rows[i].data() == nullptr) continue;
        found[present_count] = rows[i];
        positions[present_count] = keys.FirstPosition(begin + i);
        present->Set(positions[present_count++]);
      }
      const size_t read = codec.ParseRows(found.data(), positions.data(), present_count, builders);
      return read == present_count ? Status::OK() : UnreadableRow(positions[read]);
    }));
    RepeatAnswers(keys, builders, present);
    return Status::OK();
  }

  Status ReadRows(const KeyBatch& keys, RowSet* rows) const {
    rows->Begin(keys.distinct_count());
    return Read(keys, [&](size_t distinct, std::string_view row) {
      rows->Set(distinct, row);
      return true;
    });
  }

  // Sets bit i of "present" for each position whose key is there.
  Status Contains(const KeyBatch& keys, ValidityBuilder* present) const {
    return Read(keys, [&](size_t distinct, std::string_view) {
      keys.VisitPositions(distinct, [&](int64_t position) { present->Set(position); });
      return true;
    });
  }

  // Puts a row for each distinct key, of several for one key the last; a row that "clears" says is absent deletes instead.
  // Bad values are found first.
  Status PutColumns(const KeyBatch& keys, const ValueCodec& codec, const Columns& values, const ColumnView* clears,
                    OffsetRow offset) {
    SFKV_RETURN_IF_ERROR(CheckValues(codec, values, clears));
    WriteBatch batch(write_batch_bytes_);
    RowBlock block(codec, values);
    size_t encoded = 0;  // bytes of the batch
    for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
      const int64_t row = keys.LastPosition(distinct);
      const std::string_view key = keys.DistinctKey(distinct);
      if (clears != nullptr && clears->IsNull(row)) {
        batch.Delete(key);
      } else {
        block.Add(key, row, &batch);
      }
      if (!block.is_full() && batch.bytes() < encoded + write_batch_bytes_) continue;
      block.Encode(&batch);
      SFKV_RETURN_IF_ERROR(WriteIfFull(&batch, offset));
      encoded = batch.count() == 0 ? 0 : batch.bytes();
    }
    block.Encode(&batch);
    return WriteRest(&batch, offset);
  }

  Status DeleteAll(const KeyBatch& keys, OffsetRow offset) {
    WriteBatch batch(std::min(write_batch_bytes_, keys.size() * 32));
    for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
      batch.Delete(keys.DistinctKey(distinct));
      SFKV_RETURN_IF_ERROR(WriteIfFull(&batch, offset));
    }
    return WriteRest(&batch, offset);
  }

  // Writes what there is of a call's rows, if it is as much as a piece. What goes with an offset or into an open batch is not split, so that
  // a call that is refused there has written nothing.
  Status WriteIfFull(WriteBatch* batch, const OffsetRow& offset) {
    if (batch->bytes() < write_batch_bytes_) return Status::OK();
    if (pending_ != nullptr) return pending_->CheckRoom(batch->bytes());
    return offset.key.empty() ? Write(batch) : Status::OK();
  }
  // Writes the last piece, and the offset with it.
  Status WriteRest(WriteBatch* batch, const OffsetRow& offset) {
    if (!offset.key.empty()) batch->Put(offset.key, offset.row);
    return Write(batch);
  }

  // Writes the batch as one, and empties it.
  Status Write(WriteBatch* batch) {
    if (batch->count() == 0) return Status::OK();
    if (pending_ != nullptr) return pending_->Apply(batch->Take());
    return WriteThrough(batch);
  }

  // The same past an open batch, which may be dropped: for what must be there whether it is or not.
  Status WriteThrough(WriteBatch* batch) {
    SFKV_RETURN_IF_ERROR(WriteHeld(/*may_wait=*/true));
    rocksdb::WriteBatch taken(batch->Take());
    return WriteNow(&taken);
  }

  // --- A batch over several states: until it is committed or dropped, all writes go into it, and all reads see it.

  bool InBatch() const { return pending_ != nullptr; }

  Status BeginBatch() {
    if (InBatch()) return Status(Code::kUsage, "a batch is open already: end it first");
    SFKV_RETURN_IF_ERROR(WriteHeld(/*may_wait=*/true));
    pending_ = std::make_unique<PendingBatch>();
    return Status::OK();
  }
  // Writes the batch at once. If it cannot be written, it is dropped.
  Status CommitBatch() {
    if (!InBatch()) return Status(Code::kUsage, "no batch is open");
    const std::unique_ptr<PendingBatch> batch = std::move(pending_);
    return WriteNow(batch->writes());
  }
  void DropBatch() { pending_.reset(); }

  // An error inside a batch, for what would not see it.
  Status RefuseInBatch(const char* what) const {
    return InBatch() ? Status(Code::kUsage, std::string(what) + " does not work inside a batch: end it first") : Status::OK();
  }

  // Puts all memtables into files, which makes them durable.
  Status Flush() {
    SFKV_RETURN_IF_ERROR(RefuseInBatch("writing to disk"));
    return FlushAll();
  }
  // The same beside an open batch, which is not written: for a close.
  Status FlushAll() {
    SFKV_RETURN_IF_ERROR(WriteHeld(/*may_wait=*/true));
    return writer_->Flush();
  }

  // Rewrites all files, so that each key has one row and nothing is left of deleted ones.
  Status Compact() {
    rocksdb::CompactRangeOptions options;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;  // also what lies at the bottom
    SFKV_RETURN_IF_ERROR(Flush());
    return FromRocksDB(db_->CompactRange(options, nullptr, nullptr));
  }

  // A new iterator, for rows of one table or, without it, of all. The options must live as long as it does.
  std::unique_ptr<rocksdb::Iterator> NewIterator(const rocksdb::ReadOptions& options, std::optional<uint8_t> table) const {
    if (pending_ != nullptr) return pending_->NewIterator(db_, options);
    const Status written = table ? WriteHeldOf(*table, /*may_wait=*/true) : WriteHeld(/*may_wait=*/true);
    return std::unique_ptr<rocksdb::Iterator>(written.ok() ? db_->NewIterator(options) : rocksdb::NewErrorIterator(ToRocksDB(written)));
  }

  // To be called before a range delete: flushes when the memtable may hold so many already.
  Status MakeRoomForRangeDelete(size_t most) {
    if (++range_deletes_ <= most) return Status::OK();
    range_deletes_ = 1;
    return Flush();
  }

  size_t write_batch_bytes() const { return write_batch_bytes_; }
  const RowCache& row_cache() const { return *cache_; }
  size_t held_rows() const { return held_->size(); }

 private:
  // What a chunk of a batch is read with. Of several keys, those that were found in the cache are not asked for.
  struct ReadBuffers {
    static constexpr size_t kMostFound = 256;
    static size_t MostKeys(size_t chunk_keys, size_t keys) { return std::min(keys, chunk_keys + kMostFound); }

    ReadBuffers(size_t chunk_keys, size_t keys)
        : slices(std::min(chunk_keys, keys)),
          values(slices.size()),
          statuses(slices.size()),
          places(slices.size()),
          rows(MostKeys(chunk_keys, keys)),
          hashes(rows.size()) {}

    size_t count = 0;   // keys of the chunk
    size_t missed = 0;  // of those, the ones that the engine is asked for
    std::vector<rocksdb::Slice> slices;  // of the missed ones
    std::vector<rocksdb::PinnableSlice> values;
    std::vector<rocksdb::Status> statuses;
    std::vector<size_t> places;  // among the keys of the chunk
    std::vector<std::string_view> rows;
    std::vector<uint64_t> hashes;
  };

  // Takes as many keys as fill a MultiGet, but for what the cache has.
  void GatherChunk(const KeyBatch& keys, size_t begin, bool looks, ReadBuffers* buffers) const {
    const size_t step = looks ? std::clamp<size_t>(chunk_keys_ / 2, 1, RowCache::kMostAtOnce) : chunk_keys_;
    const size_t most = std::min(keys.distinct_count() - begin, looks ? buffers->rows.size() : chunk_keys_);
    buffers->count = buffers->missed = 0;
    do {
      const size_t at = buffers->count;
      const size_t count = std::min(step, most - at);
      if (looks) {
        cache_->FindMany(
            count, [&](size_t i) { return keys.DistinctKey(begin + at + i); }, &buffers->hashes[at], &buffers->rows[at]);
      } else {
        std::fill_n(&buffers->rows[at], count, std::string_view());
      }
      for (size_t i = at; i < at + count; ++i) {
        if (buffers->rows[i].data() != nullptr) continue;
        buffers->slices[buffers->missed] = AsSlice(keys.DistinctKey(begin + i));
        buffers->places[buffers->missed++] = i;
      }
      buffers->count += count;
    } while (buffers->count < most && buffers->missed + step <= chunk_keys_);
  }

  // Rows that the engine may change by itself are not kept.
  void OfferToCache(std::string_view key, uint64_t hash, std::string_view row) const {
    if (!DependsOnGrouping(row)) cache_->Offer(key, hash, row);
  }

  // Whether rows of the table of "key" are looked for in the cache, which knows nothing of a batch that is open.
  bool LooksInCache(std::string_view key, size_t keys) const {
    return pending_ == nullptr && cache_->IsWorthIt(TableOf(key), keys);
  }

  // Writes what is held. With may_wait false it answers kIncomplete if there is any.
  Status WriteHeld(bool may_wait) const {
    if (held_->is_empty()) return Status::OK();
    if (!may_wait) return MustWait();
    WriteBatch batch(2 * held_->bytes());
    size_t settled = 0;
    held_->VisitInOrder([&](std::string_view key, std::string_view operand) {
      if (held_guard_->MustSettle(key) && settled < kMostSettled) {
        ++settled;
        if (PutFolded(key, operand, &batch)) return;
      }
      std::memcpy(batch.BeginMerge(key, operand.size()), operand.data(), operand.size());
    });
    rocksdb::WriteBatch taken(batch.Take());
    SFKV_RETURN_IF_ERROR(WriteNow(&taken));
    held_->Clear();
    return Status::OK();
  }
  // The same if rows of a table are held.
  Status WriteHeldOf(uint8_t table, bool may_wait) const { return held_->Has(table) ? WriteHeld(may_wait) : Status::OK(); }
  // Folds an operand into what is stored of its key, where that can be read: else the next read of the key says why not.
  bool PutFolded(std::string_view key, std::string_view operand, WriteBatch* batch) const {
    rocksdb::PinnableSlice stored;
    if (!db_->Get(read_, db_->DefaultColumnFamily(), AsSlice(key), &stored).ok()) return false;
    std::string row;
    MergeRows({AsView(stored), operand}, &row);
    batch->Put(key, row);
    held_guard_->IsSettled(key);
    return true;
  }

  Status WriteNow(rocksdb::WriteBatch* batch) const {
    const Status status = writer_->Write(batch);
    status.ok() ? cache_->Write(batch->Data()) : cache_->Clear();
    return status;
  }

  // Whether a batch may ask for most rows of its table: it does if there are not many more in the store.
  bool MayBeDense(const KeyBatch& keys) const {
    uint64_t rows = 0;
    if (pending_ != nullptr || keys.distinct_count() < kLeastDense) return false;
    return db_->GetIntProperty(rocksdb::DB::Properties::kEstimateNumKeys, &rows) && rows <= kDenseRows * keys.distinct_count();
  }

  // Gives each further row of a batch that holds a key what was read for the first.
  static void RepeatAnswers(const KeyBatch& keys, Builders* builders, ValidityBuilder* present) {
    std::vector<std::pair<int64_t, int64_t>> repeated;  // position, and the first one
    if (keys.distinct_count() == keys.size()) return;
    for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
      const int64_t first = keys.FirstPosition(distinct);
      if (!present->IsSet(first)) continue;
      keys.VisitPositions(distinct, [&](int64_t position) {
        if (position != first) repeated.emplace_back(position, first);
      });
    }
    for (const auto& [position, first] : repeated) present->Set(position);
    for (ColumnBuilder& builder : *builders) {
      if (builder.is_wanted()) builder.Repeat(repeated);
    }
  }

  static constexpr size_t kMostSettled = 256;  // rows that are read for one write of what is held; the others can wait
  static constexpr size_t kLeastDense = 1024;  // keys of a batch for which a look at the store does not count
  static constexpr size_t kDenseRows = 8;      // in the store, of all tables, for each key that is asked for

  rocksdb::DB* db_ = nullptr;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<RowCache> cache_;
  std::unique_ptr<HeldFolds> held_ = std::make_unique<HeldFolds>();
  std::unique_ptr<FoldGuard> held_guard_ = std::make_unique<FoldGuard>();
  std::unique_ptr<PendingBatch> pending_;
  bool all_files_open_ = true;  // else a read without I/O gives an empty row for one in a file that is not open
  size_t range_deletes_ = 0;  // since the last flush that was asked for
  size_t chunk_keys_ = 1;
  size_t write_batch_bytes_ = 0;
  rocksdb::ReadOptions read_;
  rocksdb::ReadOptions cached_only_;
};

}  // namespace sfkv
