// The floor: the same rows, in the same engine with the same options, by its fastest calls in one C++ loop. Keys are encoded,
// sorted and deduplicated beforehand, values are touched. What sfkv's operations are compared with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sfkv/store.h"

namespace sfkv {

class Floor {
 public:
  explicit Floor(size_t memory_bytes) : slot_(memory_bytes, 0.5, 0.1) {}

  Status Open(const std::string& path) {
    rocksdb::DB* db = nullptr;
    SFKV_RETURN_IF_ERROR(FromRocksDB(rocksdb::DB::Open(MakeOptions(slot_), path, &db)));
    db_.reset(db);
    return Status::OK();
  }

  // Encodes batches of int64 keys as sfkv does, in each batch sorted and without duplicates. A batch of 0 keeps them as they come.
  Status Prepare(const int64_t* keys, size_t count, size_t batch) {
    arena_.clear();
    batches_.clear();
    const bool as_they_come = batch == 0;
    if (as_they_come) batch = count;
    for (size_t begin = 0; begin < count; begin += batch) {
      std::vector<std::string> encoded;
      for (size_t i = begin; i < std::min(count, begin + batch); ++i) {
        char key[kKeyHeaderBytes + 8];
        EncodeKeyHeader(key, KeyGroupOf(JavaHash(keys[i]), 128), 0);
        EncodeOrdered(key + kKeyHeaderBytes, keys[i]);
        encoded.emplace_back(key, sizeof(key));
      }
      if (!as_they_come) {
        std::sort(encoded.begin(), encoded.end());
        encoded.erase(std::unique(encoded.begin(), encoded.end()), encoded.end());
      }
      batches_.emplace_back();
      for (std::string& key : encoded) {
        arena_.push_back(std::make_unique<std::string>(std::move(key)));
        batches_.back().push_back(*arena_.back());
      }
    }
    return Status::OK();
  }

  Status GetMany(uint64_t* sum) {
    constexpr size_t chunk = 64;
    rocksdb::PinnableSlice values[chunk];
    rocksdb::Status statuses[chunk];
    for (const std::vector<rocksdb::Slice>& batch : batches_) {
      for (size_t begin = 0; begin < batch.size(); begin += chunk) {
        const size_t count = std::min(chunk, batch.size() - begin);
        db_->MultiGet(read_, db_->DefaultColumnFamily(), count, &batch[begin], values, statuses, /*sorted_input=*/true);
        for (size_t i = 0; i < count; ++i) {
          if (statuses[i].ok()) *sum += LoadAs<uint64_t>(values[i].data());
          values[i].Reset();
        }
      }
    }
    return Status::OK();
  }

  Status PutMany(uint64_t value) {
    for (const std::vector<rocksdb::Slice>& batch : batches_) {
      rocksdb::WriteBatch writes;
      for (const rocksdb::Slice& key : batch) writes.Put(key, {reinterpret_cast<const char*>(&value), 8});
      SFKV_RETURN_IF_ERROR(FromRocksDB(db_->Write(write_, &writes)));
    }
    return Status::OK();
  }

  Status Get(uint64_t* sum) {
    rocksdb::PinnableSlice value;
    for (const std::vector<rocksdb::Slice>& batch : batches_) {
      for (const rocksdb::Slice& key : batch) {
        if (db_->Get(read_, db_->DefaultColumnFamily(), key, &value).ok()) *sum += LoadAs<uint64_t>(value.data());
        value.Reset();
      }
    }
    return Status::OK();
  }

  Status Put(uint64_t value) {
    for (const std::vector<rocksdb::Slice>& batch : batches_) {
      for (const rocksdb::Slice& key : batch) {
        SFKV_RETURN_IF_ERROR(FromRocksDB(db_->Put(write_, key, {reinterpret_cast<const char*>(&value), 8})));
      }
    }
    return Status::OK();
  }

  // Brings everything into one level of files.
  Status Settle() {
    SFKV_RETURN_IF_ERROR(FromRocksDB(db_->Flush(rocksdb::FlushOptions())));
    return FromRocksDB(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  }

 private:
  Slot slot_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<std::unique_ptr<std::string>> arena_;
  std::vector<std::vector<rocksdb::Slice>> batches_;
  rocksdb::ReadOptions read_;
  rocksdb::WriteOptions write_ = MakeWriteOptions();
};

}  // namespace sfkv
