// The memory of rows that live in memory, counted, and kept as it was for who still looks at it.
//
// Pages and rows carry the epoch in which they were made. A view (a scan, a snapshot) sees all that was there in the epoch of
// its start, and begins a new one: what a later write would change is copied first, once, and the old is kept until the last view
// that sees it has gone, whatever others there are. So a view copies nothing, and costs its writers only what they touch.
// The heap belongs to one thread; views may be dropped by any, and how much is used and kept, and the epoch, may be asked by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "sfkv/debug.h"
#include "sfkv/lifetime.h"

namespace sfkv {

namespace internal {

// What views and the heap share. Thread-safe.
class Epochs {
 public:
  ~Epochs() {
    for (const auto& [epoch, kept] : views_) FreeAll(kept);
  }

  void Begin(uint64_t epoch) {
    std::lock_guard<std::mutex> guard(mutex_);
    views_.try_emplace(epoch);
    newest_seen_.store(views_.rbegin()->first, std::memory_order_release);
  }
  void End(uint64_t epoch) {
    FreeAll(TakeEnded(epoch));  // when the mutex is free again, for which writers would wait
  }
  // Keeps what was made in the epoch "born" until no view is left that sees it. False if there is none. Never fails: where there is no
  // memory to note a piece, it stays, and is lost.
  bool Keep(void* memory, size_t bytes, uint64_t born) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (views_.empty() || views_.rbegin()->first < born) return false;
    try {
      views_.rbegin()->second.push_back({memory, bytes, born});
      bytes_.fetch_add(bytes, std::memory_order_relaxed);
    } catch (const std::bad_alloc&) {
    }
    return true;
  }

  // The newest epoch that is seen by a view; 0 if there is none.
  uint64_t newest_seen() const { return newest_seen_.load(std::memory_order_acquire); }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Piece {
    void* memory;
    size_t bytes;
    uint64_t born;
  };
  using Kept = std::list<Piece>;

  // Ends a view, and gives what no other sees.
  Kept TakeEnded(uint64_t epoch) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto ended = views_.find(epoch);
    Kept kept = std::move(ended->second);
    const auto next = views_.erase(ended);
    newest_seen_.store(views_.empty() ? 0 : views_.rbegin()->first, std::memory_order_release);
    if (next != views_.begin()) {  // what the view before it sees too is that one's from now on
      auto& [older, its] = *std::prev(next);
      for (auto at = kept.begin(); at != kept.end();) {
        const auto one = at++;
        if (one->born <= older) its.splice(its.end(), kept, one);
      }
    }
    return kept;
  }
  void FreeAll(const Kept& kept) {
    for (const Piece& piece : kept) {
      std::free(piece.memory);
      bytes_.fetch_sub(piece.bytes, std::memory_order_relaxed);
    }
  }

  std::mutex mutex_;
  std::map<uint64_t, Kept> views_;  // by epoch, with what it is the newest one to see
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

// What ends a write that would take more memory than it may.
struct LimitPassed {};

class RowHeap {
 public:
  // "grow_to_bytes": up to which use rows are given more room than they need, so that they can grow; 0 for any. How much a write may
  // take is said by HoldTo().
  explicit RowHeap(size_t grow_to_bytes = 0) : grow_to_(grow_to_bytes == 0 ? std::numeric_limits<size_t>::max() / 2 : grow_to_bytes) {}
  RowHeap(const RowHeap&) = delete;
  RowHeap& operator=(const RowHeap&) = delete;

  void* Allocate(size_t bytes) {
    void* memory = std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    Count(0, bytes);
    return memory;
  }
  // Frees what was made in the epoch "born", or keeps it for the views that see it.
  void Free(void* memory, size_t bytes, uint64_t born) {
    Count(bytes, 0);
    if (IsSeen(born) && epochs_->Keep(memory, bytes, born)) return;
    std::free(memory);
  }
  // How much the write that is going on may come to use, until another is said; by default there is no limit.
  void HoldTo(size_t bytes) { held_to_ = bytes; }
  size_t held_to() const { return held_to_; }
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();
  // To be asked between the changes of a write, and before what stays when a row is taken back: throws LimitPassed if there is
  // no room for so many bytes more.
  void Require(size_t more) const {
    const size_t used = used_bytes();
    if (used > held_to_ || more > held_to_ - used) throw LimitPassed();
  }

  // Counts memory that is held by other means, such as vectors.
  void Count(size_t before, size_t after) { used_.store(used_bytes() - before + after, std::memory_order_relaxed); }

  // What is made now carries this number.
  uint64_t epoch() const { return epoch_.load(std::memory_order_relaxed); }
  // Whether a view sees what was made in the epoch "born": then it must not be changed.
  bool IsSeen(uint64_t born) const { return epochs_->newest_seen() >= born; }

  // From here on nothing changes for who looks at what is there now, while the view lives.
  std::shared_ptr<RowView> NewView() { return std::make_shared<RowView>(epochs_, epoch_.fetch_add(1, std::memory_order_relaxed)); }

  // Bytes of what is stored now; and of what only views still see.
  size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  // How many may be given to rows as room to grow.
  size_t BytesToGrow() const { return used_bytes() < grow_to_ ? grow_to_ - used_bytes() : 0; }
  size_t kept_bytes() const { return epochs_->bytes(); }

 private:
  std::shared_ptr<internal::Epochs> epochs_ = std::make_shared<internal::Epochs>();
  std::atomic<uint64_t> epoch_{1};  // this and the next are written by one thread
  std::atomic<size_t> used_{0};
  size_t held_to_ = kNoLimit;
  const size_t grow_to_;
};

}  // namespace sfkv
