// What the engine's background work tells a store: how far a flush is, and which failures may pass.
//
// The engine must never be asked for a flush while another one is under way: if that one then fails, the request stays queued
// where nothing will run it, and a later flush waits for ever (decision 9). So the store waits with a write that would fill
// another memtable, as the engine would a moment later. Thread-safe: the engine calls from its own threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "sfkv/rocksdb_compat.h"

namespace sfkv {

class FlushWatch : public rocksdb::EventListener {
 public:
  // REQUIRES: called when the database is open, and again with nullptr before it is closed.
  void Watch(rocksdb::DB* db) {
    std::lock_guard<std::mutex> guard(mutex_);
    db_ = db;
  }

  // Whether a flush is under way, or a failure whose effect is still to come.
  bool busy() const { return busy_.load(std::memory_order_acquire); }
  // Only the second: then nothing may be written, however small.
  bool failing() const { return failing_.load(std::memory_order_acquire); }

  // Waits until neither is. An error if the flush will never begin, because something else failed first.
  Status Wait() {
    if (!busy()) return Status::OK();
    std::unique_lock<std::mutex> lock(mutex_);
    for (int looked = 0; busy(); ++looked) {
      if (failed_ && stage_ == kSealed && !failing_) {
        return Status(Code::kFailedStore, "IO error: the engine cannot go on after a failed compaction: close the store with "
                                          "discard=True, and open it with recover=True or restore it from a snapshot");
      }
      changed_.wait_for(lock, std::chrono::milliseconds(failing_ ? 1 : 50));
      Look(looked);
    }
    return Status::OK();
  }

  // Around DB::Resume(), whose own flush tells of its failure by the result.
  void BeginResume() {
    std::lock_guard<std::mutex> guard(mutex_);
    resuming_ = true;
  }
  void EndResume(bool resumed) {
    std::lock_guard<std::mutex> guard(mutex_);
    resuming_ = false;
    if (resumed) failed_ = false;
  }

  // --- From the engine.

  void OnMemTableSealed(const rocksdb::MemTableInfo&) override { Become(kSealed); }
  void OnFlushBegin(rocksdb::DB*, const rocksdb::FlushJobInfo&) override { Become(kRunning); }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override { Become(kIdle); }

  // The engine would look for free space every five seconds, in a thread of its own, and refuse all writes until then; sfkv
  // tries again with the next write or flush (Writer::Resume).
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* auto_recovery) override { *auto_recovery = false; }

  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& job) override {
    std::lock_guard<std::mutex> guard(mutex_);
    if (job.status.ok()) compactions_failed_ = 0;
  }

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    const bool is_compaction = reason == rocksdb::BackgroundErrorReason::kCompaction;
    std::lock_guard<std::mutex> guard(mutex_);
    if (is_compaction && error->IsIOError() && ++compactions_failed_ <= kCompactionsThatMayFail) {
      *error = rocksdb::Status::OK();  // the engine tries it again, in new files; what it was to rewrite is still there
      return;
    }
    if (error->IsIOError() && !is_compaction) {
      // The rows are still in memory, and a new attempt writes new files: the engine calls that fatal, but it is not.
      *error = rocksdb::Status(*error, std::min(error->severity(), rocksdb::Status::Severity::kHardError));
    }
    failed_ = failed_ || error->severity() >= rocksdb::Status::Severity::kHardError;  // less does not stop the engine
    if (stage_ == kRunning && flush_thread_ == std::this_thread::get_id()) stage_ = kIdle;
    if (!resuming_ && db_ != nullptr) {
      errors_before_ = Property(rocksdb::DB::Properties::kBackgroundErrors);
      failing_ = true;
    }
    Changed();
  }

 private:
  enum Stage : int { kIdle, kSealed, kRunning };

  // In a row. Then it is no passing failure, and writes must be refused before the uncompacted files stall them for ever.
  static constexpr int kCompactionsThatMayFail = 10;

  void Become(Stage stage) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (stage == kRunning) flush_thread_ = std::this_thread::get_id();
    stage_ = stage;
    Changed();
  }

  // Looks for what is not told: when the engine itself has taken notice of a failure, and flushes that end without a word.
  void Look(int looked) {
    if (failing_) failing_ = looked < 2000 && Property(rocksdb::DB::Properties::kBackgroundErrors) == errors_before_;
    const bool is_over = Property(rocksdb::DB::Properties::kNumImmutableMemTable) == 0 || (failed_ && stage_ == kRunning);
    if (!failing_ && is_over && Property(rocksdb::DB::Properties::kNumRunningFlushes) == 0) stage_ = kIdle;
    Changed();
  }

  uint64_t Property(const std::string& name) const {
    uint64_t value = 0;
    db_->GetIntProperty(name, &value);
    return value;
  }

  // REQUIRES: the mutex is held.
  void Changed() {
    busy_.store(stage_ != kIdle || failing_, std::memory_order_release);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  rocksdb::DB* db_ = nullptr;
  std::atomic<bool> busy_{false};
  std::atomic<bool> failing_{false};  // told to us, and not yet seen by those who write
  Stage stage_ = kIdle;
  bool failed_ = false;
  bool resuming_ = false;
  uint64_t errors_before_ = 0;
  std::thread::id flush_thread_;
  int compactions_failed_ = 0;
};

}  // namespace sfkv
