// How single writes and batches go to the engine: when they may, when they must wait for a flush, and how they go on after one that failed
// (flush_watch.h). With may_wait false nothing blocks, but for the moment in which the engine stops: what would have to wait answers
// kIncomplete.
// One thread at a time.
#pragma once

#include <rocksdb/experimental.h>

#include <algorithm>
#include <memory>

#include "sfkv/flush_watch.h"
#include "sfkv/options.h"

namespace sfkv {

inline Status MustWait() { return Status(Code::kIncomplete, "this may have to wait"); }

class Writer {
 public:
  // "flushes" is among the database's listeners.
  Writer(rocksdb::DB* db, std::shared_ptr<FlushWatch> flushes) : db_(db), flushes_(std::move(flushes)), write_(MakeWriteOptions()) {
    const rocksdb::Options engine = db->GetOptions();
    write_buffers_ = engine.write_buffer_manager;
    const size_t block = engine.arena_block_size;
    memtable_bytes_ = engine.write_buffer_size - std::min(engine.write_buffer_size, block + block / 2);
    write_at_once_ = write_;
    write_at_once_.no_slowdown = true;
  }

  Status Put(std::string_view key, std::string_view value, bool may_wait) {
    const auto put = [&](const rocksdb::WriteOptions& options) { return db_->Put(options, AsSlice(key), AsSlice(value)); };
    return Write(key.size() + value.size(), may_wait, put);
  }
  Status Merge(std::string_view key, std::string_view operand, bool may_wait) {
    const auto merge = [&](const rocksdb::WriteOptions& options) { return db_->Merge(options, AsSlice(key), AsSlice(operand)); };
    return Write(key.size() + operand.size(), may_wait, merge);
  }
  Status Delete(std::string_view key, bool may_wait) {
    return Write(key.size(), may_wait, [&](const rocksdb::WriteOptions& options) { return db_->Delete(options, AsSlice(key)); });
  }
  Status Write(rocksdb::WriteBatch* batch) {
    return Write(batch->GetDataSize(), /*may_wait=*/true, [&](const rocksdb::WriteOptions& options) { return db_->Write(options, batch); });
  }

  // Writes all that is in memory to files.
  Status Flush() {
    rocksdb::FlushOptions options;
    options.wait = true;
    options.allow_write_stall = true;  // nobody else writes, so a stall costs no one
    SFKV_RETURN_IF_ERROR(Resume());
    // An engine that has been resumed does not wait, and it may tell of a compaction that failed: what counts is what is left in memory.
    const Status asked = FromRocksDB(db_->Flush(options));
    SFKV_RETURN_IF_ERROR(flushes_->Wait());
    if (Count(rocksdb::DB::Properties::kNumImmutableMemTable) == 0 && Count(rocksdb::DB::Properties::kNumEntriesActiveMemTable) == 0) {
      return Status::OK();
    }
    SFKV_RETURN_IF_ERROR(flushes_->Failure());
    return asked.ok() ? Status(Code::kStorage, "IO error: the engine ended a flush before it was done: call again") : asked;
  }

 private:
  // Lets the engine go on after a failure; does nothing unless one has stopped it.
  Status Resume() {
    SFKV_RETURN_IF_ERROR(flushes_->Wait());
    if (flushes_->Failure().ok()) return Status::OK();
    flushes_->BeginResume();
    rocksdb::Status resumed = db_->Resume();
    // Of what the new flush met, the engine tells a severity that it did not let FlushWatch lower.
    if (resumed.IsIOError()) resumed = rocksdb::Status(resumed, rocksdb::Status::Severity::kHardError);
    flushes_->EndResume(resumed);
    if (!resumed.ok()) return FromRocksDB(resumed);
    // A compaction that failed is forgotten until a file is added, and a write may have to wait for it. This looks again what is needed,
    // and asks for nothing more: no file has rows beyond those that the store keeps for itself (FORMAT.md 5).
    const rocksdb::Slice beyond_all_rows("\xff\xff\xff");
    return FromRocksDB(rocksdb::experimental::SuggestCompactRange(db_, &beyond_all_rows, &beyond_all_rows));
  }

  // A count that the engine keeps; not 0 if it does not tell.
  uint64_t Count(const std::string& property) const {
    uint64_t count = 0;
    return db_->GetIntProperty(property, &count) ? count : 1;
  }

  // Whether a write of so many bytes cannot fill a memtable while another one is being flushed.
  bool HasRoom(size_t bytes) {
    if (!flushes_->busy()) {
      room_bytes_ = 0;
      return true;
    }
    if (flushes_->failing()) return false;
    const size_t most = 3 * bytes + 256;  // in a memtable, whose rows have heads and links
    if (room_bytes_ < most) room_bytes_ = LookForRoom();
    if (room_bytes_ < most) return false;
    room_bytes_ -= most;
    return true;
  }
  size_t LookForRoom() const {
    uint64_t used = 0;
    if (write_buffers_->ShouldFlush() || !db_->GetIntProperty(rocksdb::DB::Properties::kCurSizeActiveMemTable, &used)) return 0;
    return memtable_bytes_ - std::min<size_t>(memtable_bytes_, used);
  }

  // Runs a write of so many bytes. After a failed flush, or a compaction that a write waits for, the engine refuses writes until it is
  // told to go on: so a call that may wait and is refused tells it, once; what fails otherwise is tried again by such a call.
  template <typename Operation>
  Status Write(size_t bytes, bool may_wait, Operation&& operation) {
    if (!may_wait) {
      if (!HasRoom(bytes)) return MustWait();
      const rocksdb::Status status = operation(write_at_once_);
      return status.ok() ? Status::OK() : Status(Code::kIncomplete, status.ToString());
    }
    if (!HasRoom(bytes)) {
      SFKV_RETURN_IF_ERROR(flushes_->Wait());
      room_bytes_ = 0;
    }
    const Status status = FromRocksDB(operation(write_));
    const bool may_have_passed = status.code() == Code::kDiskFull || status.code() == Code::kStorage || status.code() == Code::kMissing;
    if (!may_have_passed) return status;
    const Status resumed = Resume();
    if (resumed.ok()) return FromRocksDB(operation(write_));
    return resumed.code() == Code::kFailedStore ? resumed : status;
  }

  rocksdb::DB* db_ = nullptr;
  std::shared_ptr<FlushWatch> flushes_;
  std::shared_ptr<rocksdb::WriteBufferManager> write_buffers_;
  size_t memtable_bytes_ = 0;  // that may be used before the engine thinks of a flush
  size_t room_bytes_ = 0;      // what is left of them, while a flush is under way
  rocksdb::WriteOptions write_;
  rocksdb::WriteOptions write_at_once_;
};

}  // namespace sfkv
