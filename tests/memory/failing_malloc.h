// An allocator that fails when it is told to. The linker is told that malloc is this (test_native_tables.py).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace {
int64_t allowed_allocations = -1;  // before one fails; -1 for all
bool fails_for_good = false;       // not only one fails, but all behind it
bool new_may_fail = true;          // and not only malloc

bool MayAllocate() {
  if (allowed_allocations < 0) return true;
  if (allowed_allocations > 0) {
    --allowed_allocations;
    return true;
  }
  if (!fails_for_good) allowed_allocations = -1;
  return false;
}

// Runs a call with all allocations but the first "allowed" failing, or only the next one. Whether it ended with std::bad_alloc.
template <typename Run>
bool RunsOutOfMemory(int64_t allowed, bool for_good, Run&& run) {
  struct Restore {
    ~Restore() {
      allowed_allocations = -1;
      fails_for_good = false;
    }
  } restore;
  allowed_allocations = allowed;
  fails_for_good = for_good;
  try {
    run();
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}
}  // namespace

extern "C" void* __real_malloc(size_t bytes);
extern "C" void* __wrap_malloc(size_t bytes) { return MayAllocate() ? __real_malloc(bytes) : nullptr; }
// Not inlined, because GCC takes free() for the wrong end of what is new.
__attribute__((noinline)) void* operator new(size_t bytes) {
  void* memory = !new_may_fail || MayAllocate() ? __real_malloc(bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }
