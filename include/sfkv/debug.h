// What finds mistakes of our own: checks of preconditions, which only debug builds pay for (make build DEBUG=1; public edges check
// again and raise), and counts of living objects, by which tests see that none is left over.
#pragma once

#include <atomic>
#include <cstdint>

namespace sfkv {

// A base class that counts the living objects of T. Thread-safe.
template <typename T>
class Counted {
 public:
  static int64_t live() { return live_.load(std::memory_order_relaxed); }

 protected:
  Counted() { live_.fetch_add(1, std::memory_order_relaxed); }
  ~Counted() { live_.fetch_sub(1, std::memory_order_relaxed); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  static inline std::atomic<int64_t> live_{0};
};

}  // namespace sfkv

#ifdef SFKV_DEBUG
#include <cstdio>
#include <cstdlib>
#define SFKV_REQUIRES(condition)                                                              \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      std::fprintf(stderr, "sfkv: %s:%d: REQUIRES: %s\n", __FILE__, __LINE__, #condition);    \
      std::abort();                                                                           \
    }                                                                                         \
  } while (false)
#else
#define SFKV_REQUIRES(condition) static_cast<void>(0)
#endif
