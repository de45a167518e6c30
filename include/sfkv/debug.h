// Checks of preconditions that only debug builds pay for (make build DEBUG=1). Public edges check again and raise.
#pragma once

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
