// The memory of rows that live in memory, counted, and kept as it was for who still looks at it.
//
// Pages and cells carry the epoch in which they were made. A view (a scan, a snapshot) sees all that was there in the epoch of
// its start, and begins a new one: what a later write would change is copied first, once, and the old is kept until the last view
// that sees it has gone. So a view copies nothing, and costs its writers only what they touch.
// The heap belongs to one thread; views may be dropped by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <set>

#include "sfkv/debug.h"
#include "sfkv/lifetime.h"

namespace sfkv {

namespace internal {

// What views and the heap share. Thread-safe.
class Epochs {
 public:
  ~Epochs() {
    for (const Kept& kept : kept_) std::free(kept.memory);
  }

  void Begin(uint64_t epoch) {
    std::lock_guard<std::mutex> guard(mutex_);
    seen_.insert(epoch);
    newest_seen_.store(*seen_.rbegin(), std::memory_order_release);
  }
  void End(uint64_t epoch) {
    std::lock_guard<std::mutex> guard(mutex_);
    seen_.erase(seen_.find(epoch));
    newest_seen_.store(seen_.empty() ? 0 : *seen_.rbegin(), std::memory_order_release);
    const uint64_t oldest = seen_.empty() ? std::numeric_limits<uint64_t>::max() : *seen_.begin();
    while (!kept_.empty() && kept_.front().until <= oldest) {
      std::free(kept_.front().memory);
      bytes_.fetch_sub(kept_.front().bytes, std::memory_order_relaxed);
      kept_.pop_front();
    }
  }
  // Keeps memory until no view from before the epoch "until" is left. False if there is none.
  bool Keep(void* memory, size_t bytes, uint64_t until) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (seen_.empty()) return false;
    kept_.push_back({memory, bytes, until});
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }

  // The newest epoch that is seen by a view; 0 if there is none.
  uint64_t newest_seen() const { return newest_seen_.load(std::memory_order_acquire); }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Kept {
    void* memory;
    size_t bytes;
    uint64_t until;
  };
  std::mutex mutex_;
  std::multiset<uint64_t> seen_;
  std::deque<Kept> kept_;  // in the order of "until"
  std::atomic<uint64_t> newest_seen_{0};
  std::atomic<size_t> bytes_{0};
};

}  // namespace internal

// What keeps the rows of one epoch as they were, while it lives. In a forked child it ends nothing: a thread of the parent may
// have held the mutex.
class RowView : private Counted<RowView> {
 public:
  RowView(std::shared_ptr<internal::Epochs> epochs, uint64_t epoch) : epochs_(std::move(epochs)), epoch_(epoch) { epochs_->Begin(epoch_); }
  ~RowView() {
    if (!fork_.InChild()) epochs_->End(epoch_);
  }
  RowView(const RowView&) = delete;
  RowView& operator=(const RowView&) = delete;
  using Counted<RowView>::live;

 private:
  ForkGuard fork_;
  std::shared_ptr<internal::Epochs> epochs_;
  uint64_t epoch_;
};

class RowHeap {
 public:
  // "limit_bytes": what rows should take at the most; 0 for no limit. Whoever writes keeps to it (memory_tables.h).
  explicit RowHeap(size_t limit_bytes = 0) : limit_(limit_bytes == 0 ? std::numeric_limits<size_t>::max() / 2 : limit_bytes) {}
  RowHeap(const RowHeap&) = delete;
  RowHeap& operator=(const RowHeap&) = delete;

  void* Allocate(size_t bytes) {
    void* memory = std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    used_ += bytes;
    return memory;
  }
  // Frees what was made in the epoch "born", or keeps it for the views that see it.
  void Free(void* memory, size_t bytes, uint64_t born) {
    used_ -= bytes;
    if (IsSeen(born) && epochs_->Keep(memory, bytes, epoch_)) return;
    std::free(memory);
  }
  // Counts memory that is held by other means, such as vectors.
  void Count(size_t before, size_t after) { used_ = used_ - before + after; }

  // What is made now carries this number.
  uint64_t epoch() const { return epoch_; }
  // Whether a view sees what was made in the epoch "born": then it must not be changed.
  bool IsSeen(uint64_t born) const { return epochs_->newest_seen() >= born; }

  // From here on nothing changes for who looks at what is there now, while the view lives.
  std::shared_ptr<RowView> NewView() { return std::make_shared<RowView>(epochs_, epoch_++); }

  // Bytes of what is stored now; and of what only views still see.
  size_t used_bytes() const { return used_; }
  size_t left_bytes() const { return used_ < limit_ ? limit_ - used_ : 0; }
  size_t kept_bytes() const { return epochs_->bytes(); }

 private:
  std::shared_ptr<internal::Epochs> epochs_ = std::make_shared<internal::Epochs>();
  uint64_t epoch_ = 1;
  size_t used_ = 0;
  const size_t limit_;
};

}  // namespace sfkv
