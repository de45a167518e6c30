// What the engine's background work tells a store: how far a flush is, and which failures may pass.
//
// A flush that is asked for is lost if the engine stops before it has begun: nothing will run it, and a later one waits for ever
// (decision 9). So one is asked for at a time: the store waits with a write that would fill another memtable, as the engine would a
// moment later. A failure that stops the engine waits until that flush has begun, and who would ask for one waits until the engine has
// stopped. Thread-safe: the engine calls from its own threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "sfkv/background.h"
#include "sfkv/rocksdb_compat.h"

namespace sfkv {

class FlushWatch : public rocksdb::EventListener, public FailureWaiter, public std::enable_shared_from_this<FlushWatch> {
 public:
  // REQUIRES: called when the database is open, and again with nullptr before its background work is ended.
  void Watch(rocksdb::DB* db) {
    std::lock_guard<std::mutex> guard(mutex_);
    db_ = db;
    Changed();
  }

  // Whether a flush is under way, or a failure whose effect is still to come.
  bool busy() const { return busy_.load(std::memory_order_acquire); }
  // Only the second: then nothing may be written, however small.
  bool failing() const { return failing_.load(std::memory_order_acquire) != 0; }

  // Waits until neither is. An error if the flush will never begin.
  Status Wait() {
    if (!busy()) return Status::OK();
    std::unique_lock<std::mutex> lock(mutex_);
    while (busy()) {
      if (stage_ == kSealed && !failing()) {
        if (fatal_ || lost_) {
          return Status(Code::kFailedStore, "IO error: the engine cannot go on after a failure in the background: close the store with "
                                            "discard=True, and open it with recover=True or restore it from a snapshot");
        }
        if (failed_) {  // asked for when the engine had stopped: Resume() will run it
          stage_ = kIdle;
          break;
        }
      }
      changed_.wait_for(lock, std::chrono::milliseconds(50));
      Look();
    }
    Changed();
    return Status::OK();
  }

  // What has stopped the engine, or OK.
  Status Failure() {
    std::lock_guard<std::mutex> guard(mutex_);
    return failed_ ? FromRocksDB(error_) : Status::OK();
  }

  // Around DB::Resume(), whose own flush tells of its failure by the result. Waits for the compactions: one that failed meanwhile
  // would end Resume() before that flush has begun. REQUIRES: the engine has stopped, so that no other one begins.
  void BeginResume() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (Property(rocksdb::DB::Properties::kNumRunningCompactions) != 0) changed_.wait_for(lock, std::chrono::milliseconds(5));
    failed_ = false;
  }
  void EndResume(const rocksdb::Status& resumed) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (resumed.ok()) return;
    failed_ = true;
    error_ = resumed;
    lost_ = stage_ == kSealed;
  }

  // --- From the engine.

  // In the thread that writes, before the flush is asked for.
  void OnMemTableSealed(const rocksdb::MemTableInfo&) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !failing(); });
    Become(kSealed);
  }
  void OnFlushBegin(rocksdb::DB*, const rocksdb::FlushJobInfo&) override {
    std::lock_guard<std::mutex> guard(mutex_);
    flush_thread_ = std::this_thread::get_id();
    lost_ = false;
    Become(kRunning);
  }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override {
    std::lock_guard<std::mutex> guard(mutex_);
    if (stage_ == kRunning) Become(kIdle);
  }

  // The engine would look for free space every five seconds, in a thread of its own, and refuse all writes until then; sfkv
  // tries again with the next write or flush (Writer::Resume).
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* auto_recovery) override { *auto_recovery = false; }

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    const bool is_compaction = reason == rocksdb::BackgroundErrorReason::kCompaction;
    std::unique_lock<std::mutex> lock(mutex_);
    if (error->IsIOError()) {
      // The engine tries a compaction again, in new files; what it was to rewrite is still there. But a write that waits must not wait
      // for ever.
      if (is_compaction && (db_ == nullptr || Property(rocksdb::DB::Properties::kIsWriteStopped) == 0)) {
        *error = rocksdb::Status::OK();
        return;
      }
      // The engine calls that fatal, but the rows are still in memory and in files, and a new attempt writes new files.
      if (error->severity() != kNotDecided) *error = rocksdb::Status(*error, kStops);
    }
    const bool in_flush = flush_thread_ == std::this_thread::get_id();
    if (in_flush && stage_ == kRunning) stage_ = kIdle;
    if (error->severity() >= kStops || (error->severity() == kNotDecided && !is_compaction)) {
      if (db_ != nullptr && TellWhenNoticed(shared_from_this(), /*then_sleep=*/!in_flush)) {
        failing_.fetch_add(1, std::memory_order_acq_rel);
        Changed();
        changed_.wait(lock, [&] { return stage_ != kSealed || in_flush || failed_ || db_ == nullptr; });
      }
      failed_ = true;
      if (!fatal_) error_ = *error;
      fatal_ = fatal_ || error->severity() > kStops;
    }
    Changed();
  }

  void Noticed() override {
    std::lock_guard<std::mutex> guard(mutex_);
    failing_.fetch_sub(1, std::memory_order_acq_rel);
    Changed();
  }

 private:
  enum Stage : int { kIdle, kSealed, kRunning };

  static constexpr rocksdb::Status::Severity kNotDecided = rocksdb::Status::Severity::kNoError;  // where a file system says "retryable"
  static constexpr rocksdb::Status::Severity kStops = rocksdb::Status::Severity::kHardError;     // until Resume(); more is for good

  // REQUIRES for all that follow: the mutex is held.

  void Become(Stage stage) {
    stage_ = stage;
    Changed();
  }

  // Looks for flushes that end without a word.
  void Look() {
    const bool is_over = Property(rocksdb::DB::Properties::kNumImmutableMemTable) == 0 || (failed_ && stage_ == kRunning);
    if (!failing() && is_over && Property(rocksdb::DB::Properties::kNumRunningFlushes) == 0) stage_ = kIdle;
    Changed();
  }

  uint64_t Property(const std::string& name) const {
    uint64_t value = 0;
    db_->GetIntProperty(name, &value);
    return value;
  }

  void Changed() {
    busy_.store(stage_ != kIdle || failing(), std::memory_order_release);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  rocksdb::DB* db_ = nullptr;
  std::atomic<bool> busy_{false};
  std::atomic<int> failing_{0};  // jobs that told of a failure which the engine has still to take notice of
  Stage stage_ = kIdle;
  bool failed_ = false;  // the engine has stopped, until Resume(), by
  rocksdb::Status error_;
  bool fatal_ = false;  // it has stopped for good
  bool lost_ = false;   // Resume() ended before the flush that it asked for had begun
  std::thread::id flush_thread_;  // of the last flush; it runs no compactions
};

}  // namespace sfkv
