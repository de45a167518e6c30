// What the programs here check.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d does not hold: %s\n", __FILE__, __LINE__, #condition);  \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
