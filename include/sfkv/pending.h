// A batch over several states that is not written yet: what it holds is seen by the reads that come while it is open, and
// reaches the database in one write, or not at all. RocksDB's WriteBatchWithIndex does the looking; range deletes are not for it.
// One thread, as the table that it belongs to.
#pragma once

#include <rocksdb/utilities/write_batch_with_index.h>

#include <memory>

#include "sfkv/debug.h"
#include "sfkv/rocksdb_compat.h"
#include "sfkv/write_batch.h"

namespace sfkv {

class PendingBatch : private Counted<PendingBatch> {
 public:
  Status Put(std::string_view key, std::string_view value) {
    SFKV_RETURN_IF_ERROR(CheckRoom(key.size() + value.size()));
    return FromRocksDB(writes_.Put(AsSlice(key), AsSlice(value)));
  }
  Status Merge(std::string_view key, std::string_view operand) {
    SFKV_RETURN_IF_ERROR(CheckRoom(key.size() + operand.size()));
    return FromRocksDB(writes_.Merge(AsSlice(key), AsSlice(operand)));
  }
  Status Delete(std::string_view key) {
    SFKV_RETURN_IF_ERROR(CheckRoom(key.size()));
    return FromRocksDB(writes_.Delete(AsSlice(key)));
  }

  // Takes the writes of a serialised batch. REQUIRES: no range deletes among them.
  Status Apply(std::string serialized) {
    SFKV_RETURN_IF_ERROR(CheckRoom(serialized.size()));
    Copier copier(&writes_);
    return FromRocksDB(rocksdb::WriteBatch(std::move(serialized)).Iterate(&copier));
  }

  rocksdb::Status Get(rocksdb::DB* db, const rocksdb::ReadOptions& options, std::string_view key, rocksdb::PinnableSlice* value) {
    return writes_.GetFromBatchAndDB(db, options, AsSlice(key), value);
  }
  void MultiGet(rocksdb::DB* db, const rocksdb::ReadOptions& options, size_t count, const rocksdb::Slice* keys,
                rocksdb::PinnableSlice* values, rocksdb::Status* statuses) {
    writes_.MultiGetFromBatchAndDB(db, options, db->DefaultColumnFamily(), count, keys, values, statuses, /*sorted_input=*/true);
  }
  // An iterator that must not outlive the next write into this batch.
  std::unique_ptr<rocksdb::Iterator> NewIterator(rocksdb::DB* db, const rocksdb::ReadOptions& options) {
    return std::unique_ptr<rocksdb::Iterator>(writes_.NewIteratorWithBase(db->DefaultColumnFamily(), db->NewIterator(options), &options));
  }

  // Whether it takes so many bytes more.
  Status CheckRoom(size_t bytes) {
    return writes()->GetDataSize() + bytes <= kMaxBatchBytes ? Status::OK() : BatchTooLarge();
  }
  rocksdb::WriteBatch* writes() { return writes_.GetWriteBatch(); }

 private:
  struct Copier : rocksdb::WriteBatch::Handler {
    explicit Copier(rocksdb::WriteBatchWithIndex* to) : writes(to) {}
    rocksdb::Status PutCF(uint32_t, const rocksdb::Slice& key, const rocksdb::Slice& value) override { return writes->Put(key, value); }
    rocksdb::Status DeleteCF(uint32_t, const rocksdb::Slice& key) override { return writes->Delete(key); }
    rocksdb::Status MergeCF(uint32_t, const rocksdb::Slice& key, const rocksdb::Slice& value) override { return writes->Merge(key, value); }
    rocksdb::WriteBatchWithIndex* writes;
  };

  rocksdb::WriteBatchWithIndex writes_{rocksdb::BytewiseComparator(), 0, /*overwrite_key=*/true};
};

}  // namespace sfkv
