// The states of a store, and the one guard that every call passes.
//
//   open ──Close()──> closing ──FinishClose(true)──> closed
//    ^                   └──FinishClose(false)──> open again: what could not be flushed is still there
//    └── in a forked child: dead, and nothing native is freed
//
// A store belongs to one thread at a time: a second call that enters while one runs is told so, it does not wait. Close()
// waits for the running call. Everything here is callable from any thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <thread>

#include "sfkv/status.h"

namespace sfkv {

namespace internal {
inline std::atomic<uint64_t> own_fork_count{0};
inline std::atomic<uint64_t>* fork_count = &own_fork_count;
inline std::shared_mutex fork_gate;
// A lock of the engine's that its own threads take, whatever sfkv does; null if there is none. Set once, when a store is opened.
inline std::atomic<pthread_mutex_t*> engine_lock{nullptr};

inline void LockForFork() {
  fork_gate.lock();
  if (pthread_mutex_t* lock = engine_lock.load()) pthread_mutex_lock(lock);
}
inline void UnlockEngine() {
  if (pthread_mutex_t* lock = engine_lock.load()) pthread_mutex_unlock(lock);
}
inline void UnlockInParent() {
  UnlockEngine();
  fork_gate.unlock();
}
inline void UnlockInChild() {
  UnlockEngine();
  new (&fork_gate) std::shared_mutex;  // the child's thread has another id: it could not unlock
  fork_count->fetch_add(1, std::memory_order_relaxed);
}
inline const int fork_hook = pthread_atfork(LockForFork, UnlockInParent, UnlockInChild);
}  // namespace internal

// While one lives, forks wait: for work that holds locks of the engine's own, which a child would inherit for ever.
class HoldForks {
 private:
  std::shared_lock<std::shared_mutex> lock_{internal::fork_gate};
};

// Each shared library counts forks for itself from when it was loaded. Those that pass objects to each other take one's count, before
// they make any.
inline std::atomic<uint64_t>* ForkCount() { return internal::fork_count; }
inline void ShareForkCount(std::atomic<uint64_t>* count) { internal::fork_count = count; }

// Whether the process that made an object is another than this one. REQUIRES: made and asked in libraries that share a count.
class ForkGuard {
 public:
  bool InChild() const { return made_in_ != internal::fork_count->load(std::memory_order_relaxed); }

 private:
  uint64_t made_in_ = (static_cast<void>(internal::fork_hook), internal::fork_count->load(std::memory_order_relaxed));
};

class Lifetime {
 public:
  bool InChild() const { return fork_.InChild(); }
  bool IsClosed() const { return state_.load(std::memory_order_acquire) == kClosed; }

  // Starts to close: when "*begun" is true, no call enters any more and the running one has ended. It is false if the store is
  // closed already, maybe by another thread just now. An error if this very thread is inside a call, which could never end.
  Status BeginClose(bool* begun) {
    while (true) {
      int state = kIdle;
      *begun = state_.compare_exchange_strong(state, kClosing, std::memory_order_acq_rel);
      if (*begun || state == kClosed) return Status::OK();
      if (state == kRunning && pthread_equal(owner_.load(std::memory_order_relaxed), pthread_self())) {
        return Status(Code::kBusy, "close() was called from inside one of the backend's own calls: call it when that has returned");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  void FinishClose(bool closed) { state_.store(closed ? kClosed : kIdle, std::memory_order_release); }

 private:
  friend class Call;
  enum State : int { kIdle, kRunning, kClosing, kClosed };

  Status Enter() {
    if (InChild()) return Status(Code::kForked, "this store was opened by the parent process: open it, or another, in the child");
    int state = kIdle;
    if (state_.compare_exchange_strong(state, kRunning, std::memory_order_acquire)) {
      owner_.store(pthread_self(), std::memory_order_relaxed);
      return Status::OK();
    }
    if (state == kRunning) {
      return Status(Code::kBusy, "another thread is inside this backend: use a backend from one thread at a time, or open one for each");
    }
    return Status(Code::kClosed, "the backend is closed");
  }
  void Leave() { state_.store(kIdle, std::memory_order_release); }

  ForkGuard fork_;
  std::atomic<int> state_{kIdle};
  std::atomic<pthread_t> owner_{};  // the thread of the running call
};

// One call inside a store, from Enter() to Leave() or the end of the scope.
class Call {
 public:
  Call() = default;
  ~Call() { Leave(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Status Enter(Lifetime* lifetime) {
    Status status = lifetime->Enter();
    if (status.ok()) lifetime_ = lifetime;
    return status;
  }

  // Ends the call before the scope does, so that what follows may call into the store again.
  void Leave() {
    if (lifetime_ != nullptr) lifetime_->Leave();
    lifetime_ = nullptr;
  }

 private:
  Lifetime* lifetime_ = nullptr;
};

// A store's close, from Begin() to the end of the scope: unless it came to an end by then, also by an exception, the store is open again.
class Closing {
 public:
  Closing() = default;
  ~Closing() {
    if (lifetime_ != nullptr) lifetime_->FinishClose(closed_);
  }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

  // See Lifetime::BeginClose.
  Status Begin(Lifetime* lifetime, bool* begun) {
    Status status = lifetime->BeginClose(begun);
    if (*begun) lifetime_ = lifetime;
    return status;
  }
  // Nothing that follows leaves the store open.
  void End() { closed_ = true; }

 private:
  Lifetime* lifetime_ = nullptr;
  bool closed_ = false;
};

}  // namespace sfkv
