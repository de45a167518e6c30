// Reads sorted keys by stepping an iterator from one to the next: for batches that ask for most of the rows that lie there, which
// then costs a fraction of looking each one up. Where they turn out to lie far apart, it is given up: docs/decisions/0015.
// One thread.
#pragma once

#include <memory>

#include "sfkv/rocksdb_compat.h"

namespace sfkv {

class StepReader {
 public:
  explicit StepReader(std::unique_ptr<rocksdb::Iterator> iterator) : iterator_(std::move(iterator)) {}

  // As MultiGet: each status is OK, or NotFound, or what went wrong. The values are copies.
  void Read(const rocksdb::Slice* keys, size_t count, rocksdb::PinnableSlice* values, rocksdb::Status* statuses) {
    for (size_t i = 0; i < count; ++i) {
      GoTo(keys[i]);
      if (iterator_->Valid() && iterator_->key() == keys[i]) {
        values[i].PinSelf(iterator_->value());
        statuses[i] = rocksdb::Status::OK();
      } else {
        statuses[i] = iterator_->status().ok() ? rocksdb::Status::NotFound() : iterator_->status();
      }
    }
    keys_ += count;
  }

  // Whether the keys that were read lay close enough together.
  bool IsWorthIt() const { return steps_ <= kMostSteps * keys_; }

 private:
  static constexpr size_t kMostSteps = 3;           // on average, from one key to the next
  static constexpr size_t kStepsBeforeSeek = 16;

  // Goes to the first row that is not less than "key". What lies between is stepped over, unless it is much.
  void GoTo(const rocksdb::Slice& key) {
    size_t left = iterator_->Valid() ? kStepsBeforeSeek : 0;
    while (left > 0 && iterator_->Valid() && iterator_->key().compare(key) < 0) {
      iterator_->Next();
      --left;
      ++steps_;
    }
    if (left > 0 || (iterator_->Valid() && iterator_->key().compare(key) >= 0)) return;
    iterator_->Seek(key);
    steps_ += kStepsBeforeSeek;  // about what it costs
  }

  std::unique_ptr<rocksdb::Iterator> iterator_;
  size_t steps_ = 0;
  size_t keys_ = 0;
};

}  // namespace sfkv
