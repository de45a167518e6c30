// The floor: the same rows, in the same engine with the same options, by its fastest calls in one C++ loop. Rows are encoded,
// sorted and deduplicated beforehand, values are touched. What sfkv's operations are compared with.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sfkv/store.h"

namespace sfkv {

class Floor {
 public:
  explicit Floor(size_t memory_bytes) : slot_(memory_bytes, 0.5, 0.1) {}

  // Opens a database with sfkv's options, changed by "changes" in the engine's text form.
  Status Open(const std::string& path, const std::string& changes) {
    rocksdb::Options options = MakeOptions(slot_);
    SFKV_RETURN_IF_ERROR(ChangeOptions(changes, &options));
    rocksdb::DB* db = nullptr;
    SFKV_RETURN_IF_ERROR(FromRocksDB(rocksdb::DB::Open(options, path, &db)));
    db_.reset(db);
    return Status::OK();
  }

  // Encodes batches of rows as sfkv does; "user_keys" may be null. In each batch rows are sorted and of several for one key the
  // last counts, of a list all. A batch of 0 keeps single rows as they come. "records" are the values, if there are any, encoded already.
  Status Prepare(TableKind kind, const int64_t* keys, const int64_t* user_keys, const int64_t* values,
                 const std::vector<std::string>& records, size_t count, size_t batch) {
    value_head_ = kind == TableKind::kValue ? 0 : 1;
    are_folds_ = !records.empty() && IsFold(records[0]);
    batches_.clear();
    const bool as_they_come = batch == 0;
    if (as_they_come) batch = count;
    for (size_t begin = 0; begin < count; begin += batch) {
      std::vector<Row> rows;
      for (size_t i = begin; i < std::min(count, begin + batch); ++i) {
        const int64_t* user_key = user_keys == nullptr ? nullptr : user_keys + i;
        const bool of_table = kind == TableKind::kValue && user_key != nullptr;
        rows.push_back({of_table ? EncodeTableKey(*user_key, keys[i]) : EncodeKey(keys[i], user_key),
                        records.empty() ? EncodeValue(kind, values[i]) : records[i]});
      }
      if (!as_they_come) SortRows(kind, &rows);
      batches_.emplace_back(std::move(rows));
    }
    return Status::OK();
  }

  Status GetMany(uint64_t* sum) {
    constexpr size_t chunk = 64;
    rocksdb::PinnableSlice values[chunk];
    rocksdb::Status statuses[chunk];
    for (const Batch& batch : batches_) {
      for (size_t begin = 0; begin < batch.keys.size(); begin += chunk) {
        const size_t count = std::min(chunk, batch.keys.size() - begin);
        db_->MultiGet(read_, db_->DefaultColumnFamily(), count, &batch.keys[begin], values, statuses, /*sorted_input=*/true);
        for (size_t i = 0; i < count; ++i) {
          if (statuses[i].ok()) Touch(values[i], sum);
          values[i].Reset();
        }
      }
    }
    return Status::OK();
  }

  // The same by one iterator a batch: up to "steps" steps from one key to the next, and a seek where that is not enough.
  Status SeekMany(size_t steps, uint64_t* sum) {
    for (const Batch& batch : batches_) {
      const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(read_));
      for (const rocksdb::Slice& key : batch.keys) {
        size_t left = iterator->Valid() ? steps : 0;
        while (left > 0 && iterator->Valid() && iterator->key().compare(key) < 0) {
          iterator->Next();
          --left;
        }
        if (left == 0) iterator->Seek(key);
        if (iterator->Valid() && iterator->key() == key) Touch(iterator->value(), sum);
      }
      SFKV_RETURN_IF_ERROR(FromRocksDB(iterator->status()));
    }
    return Status::OK();
  }

  Status PutMany() {
    return WriteMany([](rocksdb::WriteBatch* writes, const rocksdb::Slice& key, const rocksdb::Slice& value) { writes->Put(key, value); });
  }
  Status MergeMany() {
    return WriteMany([](rocksdb::WriteBatch* writes, const rocksdb::Slice& key, const rocksdb::Slice& value) { writes->Merge(key, value); });
  }

  // Walks over all rows that begin with each key, with one iterator a batch.
  Status ItemsMany(uint64_t* sum) {
    for (const Batch& batch : batches_) {
      rocksdb::Slice bound;
      rocksdb::ReadOptions read;
      read.iterate_upper_bound = &bound;
      const std::vector<std::string>& bounds = batch.bounds;
      bound = bounds.front();
      const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(read));
      for (size_t i = 0; i < batch.keys.size(); ++i) {
        bound = bounds[i];
        for (iterator->Seek(batch.keys[i]); iterator->Valid(); iterator->Next()) {
          int64_t user_key;
          DecodeOrdered(Type(), iterator->key().data() + batch.keys[i].size(), reinterpret_cast<char*>(&user_key));
          *sum += static_cast<uint64_t>(user_key);
          Touch(iterator->value(), sum);
        }
        SFKV_RETURN_IF_ERROR(FromRocksDB(iterator->status()));
      }
    }
    return Status::OK();
  }

  // Walks over all rows of a table, key group by key group; and over those that come before a moment.
  Status Scan(uint64_t* sum) { return ScanGroups("", sum); }
  Status ScanBelow(int64_t moment, uint64_t* sum) {
    std::string upper(8, '\0');
    EncodeNumber(moment, upper.data());
    return ScanGroups(upper, sum);
  }

  Status Get(uint64_t* sum) {
    rocksdb::PinnableSlice value;
    for (const Batch& batch : batches_) {
      for (const rocksdb::Slice& key : batch.keys) {
        if (db_->Get(read_, db_->DefaultColumnFamily(), key, &value).ok()) Touch(value, sum);
        value.Reset();
      }
    }
    return Status::OK();
  }

  Status Put() {
    return WriteEach([this](const rocksdb::Slice& key, const rocksdb::Slice& value) { return db_->Put(write_, key, value); });
  }
  Status Merge() {
    return WriteEach([this](const rocksdb::Slice& key, const rocksdb::Slice& value) { return db_->Merge(write_, key, value); });
  }

  Status Flush() { return FromRocksDB(db_->Flush(rocksdb::FlushOptions())); }

  // Brings everything into one level of files.
  Status Settle() {
    SFKV_RETURN_IF_ERROR(FromRocksDB(db_->Flush(rocksdb::FlushOptions())));
    rocksdb::CompactRangeOptions options;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
    return FromRocksDB(db_->CompactRange(options, nullptr, nullptr));
  }

 private:
  using Row = std::pair<std::string, std::string>;  // key and value

  // Rows behind one another in one piece of memory, as a caller that encodes in place would have them.
  struct Batch {
    explicit Batch(const std::vector<Row>& rows) {
      size_t bytes = 0;
      for (const Row& row : rows) bytes += row.first.size() + row.second.size();
      arena.reserve(bytes);
      for (const Row& row : rows) {
        keys.emplace_back(Append(row.first));
        values.emplace_back(Append(row.second));
        bounds.push_back(PrefixBound(row.first));
      }
    }
    rocksdb::Slice Append(const std::string& part) {
      arena += part;  // does not move: the room was reserved
      return {arena.data() + arena.size() - part.size(), part.size()};
    }
    Batch(Batch&&) = default;  // the string is too long to lie in the object

    std::string arena;
    std::vector<rocksdb::Slice> keys;
    std::vector<rocksdb::Slice> values;
    std::vector<std::string> bounds;
  };

  static void EncodeNumber(int64_t number, char* at) { EncodeOrderedCell(Type(), reinterpret_cast<const char*>(&number), at); }

  static std::string EncodeKey(int64_t key, const int64_t* user_key) {
    std::string encoded(kKeyHeaderBytes + 8 + (user_key == nullptr ? 0 : 8), '\0');
    EncodeKeyHeader(encoded.data(), KeyGroupOf(JavaHash(key), 128), 0);
    EncodeNumber(key, encoded.data() + kKeyHeaderBytes);
    if (user_key != nullptr) EncodeNumber(*user_key, encoded.data() + kKeyHeaderBytes + 8);
    return encoded;
  }

  // The key of a table's row: in the order of the moments, grouped by the key.
  static std::string EncodeTableKey(int64_t moment, int64_t key) {
    std::string encoded(kKeyHeaderBytes + 16, '\0');
    EncodeKeyHeader(encoded.data(), KeyGroupOf(JavaHash(key), 128), 0);
    EncodeNumber(moment, encoded.data() + kKeyHeaderBytes);
    EncodeNumber(key, encoded.data() + kKeyHeaderBytes + 8);
    return encoded;
  }

  Status ScanGroups(const std::string& upper, uint64_t* sum) {
    rocksdb::Slice bound("\xff\xff", 2);
    rocksdb::ReadOptions read;
    read.iterate_upper_bound = &bound;
    read.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(read));
    for (int group = 0; group < 128; ++group) {
      std::string header(kKeyHeaderBytes, '\0');
      EncodeKeyHeader(header.data(), group, 0);
      const std::string last = upper.empty() ? PrefixBound(header) : header + upper;
      bound = last;
      for (iterator->Seek(header); iterator->Valid(); iterator->Next()) {
        const char* row = iterator->key().data() + kKeyHeaderBytes;
        int64_t cells[2];
        DecodeOrdered(Type(), row, reinterpret_cast<char*>(&cells[0]));
        DecodeOrdered(Type(), row + 8, reinterpret_cast<char*>(&cells[1]));
        *sum += static_cast<uint64_t>(cells[0]) + static_cast<uint64_t>(cells[1]);
        Touch(iterator->value(), sum);
      }
      SFKV_RETURN_IF_ERROR(FromRocksDB(iterator->status()));
    }
    return Status::OK();
  }

  static std::string EncodeValue(TableKind kind, int64_t value) {
    std::string encoded;
    if (kind == TableKind::kMap) encoded.push_back(kMapValuePresent);
    if (kind == TableKind::kList) encoded.push_back(8);  // the element's length
    encoded.append(reinterpret_cast<const char*>(&value), 8);
    return encoded;
  }

  static void SortRows(TableKind kind, std::vector<Row>* rows) {
    std::stable_sort(rows->begin(), rows->end(), [](const Row& a, const Row& b) { return a.first < b.first; });
    std::vector<Row> distinct;
    for (Row& row : *rows) {
      if (distinct.empty() || distinct.back().first != row.first) {
        distinct.push_back(std::move(row));
      } else if (kind == TableKind::kList) {
        distinct.back().second += row.second;
      } else {
        distinct.back().second = std::move(row.second);
      }
    }
    rows->swap(distinct);
  }

  // Adds up the numbers of a value, each of which has a head of as many bytes; of a fold the lower half of its sum.
  void Touch(const rocksdb::Slice& value, uint64_t* sum) const {
    if (are_folds_) {
      *sum += LoadAs<uint64_t>(value.data() + kFoldHeadBytes);
      return;
    }
    for (size_t at = value_head_; at + 8 <= value.size(); at += value_head_ + 8) *sum += LoadAs<uint64_t>(value.data() + at);
  }

  template <typename Add>
  Status WriteMany(Add&& add) {
    for (const Batch& batch : batches_) {
      rocksdb::WriteBatch writes(batch.arena.size() + 4 * batch.keys.size() + 64);
      for (size_t i = 0; i < batch.keys.size(); ++i) add(&writes, batch.keys[i], batch.values[i]);
      SFKV_RETURN_IF_ERROR(FromRocksDB(db_->Write(write_, &writes)));
    }
    return Status::OK();
  }

  template <typename Write>
  Status WriteEach(Write&& write) {
    for (const Batch& batch : batches_) {
      for (size_t i = 0; i < batch.keys.size(); ++i) SFKV_RETURN_IF_ERROR(FromRocksDB(write(batch.keys[i], batch.values[i])));
    }
    return Status::OK();
  }

  Slot slot_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<Batch> batches_;
  size_t value_head_ = 0;
  bool are_folds_ = false;
  rocksdb::ReadOptions read_;
  rocksdb::WriteOptions write_ = MakeWriteOptions();
};

}  // namespace sfkv
