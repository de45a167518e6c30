// RocksDB's background threads, in pools that are ours rather than the process-wide default, and the file system under all stores.
//
// The default pools live in a static object whose destructor joins its threads. In a forked child these threads do not
// exist, though the pools believe so: flushes would wait for ever, and so would the exit. Here each process makes its
// pools when it first opens a store, and never destroys them; idle threads do not hinder an exit. Thread-safe.
#pragma once

#include <rocksdb/system_clock.h>
#include <rocksdb/threadpool.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "sfkv/lifetime.h"
#include "sfkv/process_locks.h"

namespace sfkv {

// Engines before 9 have one more static object with a thread, a timer, which sfkv cannot replace: its destructor waits for
// ever in a forked child. To be called when a database is open: what is registered then runs before that destructor, and
// lets such a child end as multiprocessing's children do, without the destructors of static objects.
inline void LetForkedChildrenExit() {
#if ROCKSDB_MAJOR < 9 && defined(__GLIBC__)
  static const int registered = on_exit(
      [](int status, void* parent) {
        if (::getpid() == static_cast<pid_t>(reinterpret_cast<intptr_t>(parent))) return;
        std::fflush(nullptr);
        ::_exit(status);
      },
      reinterpret_cast<void*>(static_cast<intptr_t>(::getpid())));
  static_cast<void>(registered);
#endif
}

// Lets forks wait until that timer's thread does not hold its lock, which a child would find locked for ever. The timer is no part of
// the engine's interface: what it begins with is a pointer to its clock, and then its lock. To be called before a database is opened.
inline void HoldTimerInForks() {
#if ROCKSDB_MAJOR < 9
  if (&sfkv_engine_timer == nullptr || internal::engine_lock.load() != nullptr) return;
  internal::engine_lock.store(reinterpret_cast<pthread_mutex_t*>(static_cast<char*>(sfkv_engine_timer()) + sizeof(void*)));
#endif
}

// Who waits for the engine to take notice of a failure that it tells listeners of first.
class FailureWaiter {
 public:
  virtual ~FailureWaiter() = default;
  virtual void Noticed() = 0;
};

namespace internal {

// The job that runs in this thread, and the failure that it told of.
struct RunningJob {
  void EndFailure() {
    if (waiter != nullptr) std::exchange(waiter, nullptr)->Noticed();
  }
  bool is_running = false;
  bool then_sleep = false;
  std::shared_ptr<FailureWaiter> waiter;
};
inline thread_local RunningJob running_job;

}  // namespace internal

// To be called from within a job that fails. False if it has told before, or if this is no job, but a caller's thread.
inline bool TellWhenNoticed(std::shared_ptr<FailureWaiter> waiter, bool then_sleep) {
  internal::RunningJob& job = internal::running_job;
  if (!job.is_running || job.waiter != nullptr) return false;
  job.waiter = std::move(waiter);
  job.then_sleep = then_sleep;
  return true;
}

// The clock of the jobs. One that has failed sleeps for a second, as soon as the engine has taken notice; where nothing would be tried
// again before sfkv says so, it need not.
class JobClock : public rocksdb::SystemClockWrapper {
 public:
  JobClock() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
  const char* Name() const override { return "sfkv.JobClock"; }
  void SleepForMicroseconds(int microseconds) override {
    internal::RunningJob& job = internal::running_job;
    const bool sleeps = job.waiter == nullptr || job.then_sleep;
    job.EndFailure();
    if (sleeps) SystemClockWrapper::SleepForMicroseconds(microseconds);
  }
};

class BackgroundEnv : public rocksdb::EnvWrapper {
 public:
  // The one of this process. Not freed: databases use it until the process ends.
  static BackgroundEnv* OfThisProcess() {
    BackgroundEnv* env = current_.load(std::memory_order_acquire);
    while (env == nullptr || env->fork_.InChild()) {
      auto files = std::make_shared<ProcessLocks>(rocksdb::Env::Default()->GetFileSystem());
      auto made = std::unique_ptr<BackgroundEnv>(new BackgroundEnv(std::move(files)));
      if (current_.compare_exchange_strong(env, made.get(), std::memory_order_acq_rel)) env = made.release();
    }
    return env;
  }

  // Puts another file system over the one under the stores that this process opens from now on: for tests that make I/O fail.
  using WrapFileSystem = void (*)(std::shared_ptr<rocksdb::FileSystem>* files);
  static void Wrap(WrapFileSystem wrap) {
    std::shared_ptr<rocksdb::FileSystem> files = OfThisProcess()->GetFileSystem();
    wrap(&files);
    current_.store(new BackgroundEnv(std::move(files)), std::memory_order_release);
  }

  void Schedule(void (*function)(void*), void* argument, Priority priority, void* tag, void (*unschedule)(void*)) override {
    Pool& pool = pools_[priority];
    {
      std::lock_guard<std::mutex> guard(pool.mutex);
      pool.jobs.push_back({function, argument, tag, unschedule});
    }
    pool.threads->SubmitJob([&pool] { RunNext(&pool); });
  }

  // Takes back the jobs of "tag" that have not begun.
  int UnSchedule(void* tag, Priority priority) override {
    Pool& pool = pools_[priority];
    std::deque<Job> taken;
    {
      std::lock_guard<std::mutex> guard(pool.mutex);
      std::deque<Job> kept;
      for (const Job& job : pool.jobs) (job.tag == tag ? taken : kept).push_back(job);
      pool.jobs.swap(kept);
    }
    for (const Job& job : taken) {
      if (job.unschedule != nullptr) job.unschedule(job.argument);
    }
    return static_cast<int>(taken.size());
  }

  unsigned int GetThreadPoolQueueLen(Priority priority) const override {
    const Pool& pool = pools_[priority];
    std::lock_guard<std::mutex> guard(pool.mutex);
    return static_cast<unsigned int>(pool.jobs.size());
  }

  void SetBackgroundThreads(int count, Priority priority) override { pools_[priority].threads->SetBackgroundThreads(count); }
  int GetBackgroundThreads(Priority priority) override { return pools_[priority].threads->GetBackgroundThreads(); }
  void IncBackgroundThreadsIfNeeded(int count, Priority priority) override {
    std::lock_guard<std::mutex> guard(pools_[priority].mutex);
    if (GetBackgroundThreads(priority) < count) SetBackgroundThreads(count, priority);
  }
  int ReserveThreads(int count, Priority priority) override { return pools_[priority].threads->ReserveThreads(count); }
  int ReleaseThreads(int count, Priority priority) override { return pools_[priority].threads->ReleaseThreads(count); }
  void LowerThreadPoolIOPriority(Priority) override {}
  void LowerThreadPoolCPUPriority(Priority) override {}
  rocksdb::Status LowerThreadPoolCPUPriority(Priority, rocksdb::CpuPriority) override { return rocksdb::Status::NotSupported(); }

 private:
  struct Job {
    void (*function)(void*);
    void* argument;
    void* tag;
    void (*unschedule)(void*);
  };
  struct Pool {
    mutable std::mutex mutex;
    std::deque<Job> jobs;
    std::unique_ptr<rocksdb::ThreadPool> threads{rocksdb::NewThreadPool(0)};
  };

  // File system and clock are set as they are: the base class would reach them through two layers of adapters.
  explicit BackgroundEnv(std::shared_ptr<rocksdb::FileSystem> files) : EnvWrapper(rocksdb::NewCompositeEnv(files)) {
    file_system_ = std::move(files);
    system_clock_ = std::make_shared<JobClock>();
  }

  // A pool's threads are sent once for each job; one that was taken back leaves nothing to do.
  static void RunNext(Pool* pool) {
    Job job;
    {
      std::lock_guard<std::mutex> guard(pool->mutex);
      if (pool->jobs.empty()) return;
      job = pool->jobs.front();
      pool->jobs.pop_front();
    }
    internal::running_job.is_running = true;
    job.function(job.argument);
    internal::running_job.EndFailure();
    internal::running_job.is_running = false;
  }

  static inline std::atomic<BackgroundEnv*> current_{nullptr};

  ForkGuard fork_;
  std::array<Pool, rocksdb::Env::Priority::TOTAL> pools_;
};

}  // namespace sfkv
