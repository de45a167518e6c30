// A sort of many entries by a 64-bit word. No state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace sfkv {

// Sorts by Entry::word, stably, least significant byte first, leaving out the bytes that are equal in all. "entries" and "scratch" are
// two buffers of "count"; returns the one that the sorted entries are in.
template <typename Entry>
Entry* RadixSort(Entry* entries, Entry* scratch, size_t count) {
  uint64_t differing = 0;
  for (size_t e = 0; e < count; ++e) differing |= entries[e].word ^ entries[0].word;
  for (int shift = 0; shift < 64; shift += 8) {
    if (((differing >> shift) & 0xFF) == 0) continue;
    size_t starts[257] = {0};
    for (size_t e = 0; e < count; ++e) ++starts[((entries[e].word >> shift) & 0xFF) + 1];
    for (int b = 0; b < 256; ++b) starts[b + 1] += starts[b];
    for (size_t e = 0; e < count; ++e) scratch[starts[(entries[e].word >> shift) & 0xFF]++] = entries[e];
    std::swap(entries, scratch);
  }
  return entries;
}

}  // namespace sfkv
