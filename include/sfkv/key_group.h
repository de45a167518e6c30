// Which key group a key belongs to, and which worker owns a key group: Apache Flink's rules, bit for bit.
//
// A key group is murmur(hash) mod max parallelism. The hash is Java's for a single int32, int64 or utf8 key, so that an
// operator agrees with a Flink shuffle, and MurmurHash3 over the encoded key otherwise. All arithmetic wraps at 32 bits.
// FORMAT.md section 2 has golden vectors.
#pragma once

#include <cstdint>
#include <cstring>

namespace sfkv {

constexpr int kMaxParallelism = 32768;  // Flink's upper bound
constexpr int kReservedGroup = 0xFFFF;  // that of the store's own rows, and never a key's

enum class HashKind : uint8_t { kJava = 0, kMurmur = 1 };

struct KeyGroupRange {
  int first = 0;
  int last = 0;  // inclusive
  bool Contains(int key_group) const { return first <= key_group && key_group <= last; }
};

inline uint32_t RotateLeft(uint32_t value, int bits) { return (value << bits) | (value >> (32 - bits)); }

inline uint32_t MurmurMixBlock(uint32_t hash, uint32_t block) {
  block *= 0xcc9e2d51u;
  block = RotateLeft(block, 15);
  block *= 0x1b873593u;
  return RotateLeft(hash ^ block, 13) * 5 + 0xe6546b64u;
}

inline uint32_t MurmurFinish(uint32_t hash) {
  hash ^= hash >> 16;
  hash *= 0x85ebca6bu;
  hash ^= hash >> 13;
  hash *= 0xc2b2ae35u;
  return hash ^ (hash >> 16);
}

// Flink's mix of a 32-bit hash code: never negative.
inline int32_t FlinkMix(int32_t code) {
  const uint32_t mixed = MurmurFinish(MurmurMixBlock(0, static_cast<uint32_t>(code)) ^ 4u);
  const int32_t result = static_cast<int32_t>(mixed);
  if (result >= 0) return result;
  return mixed == 0x80000000u ? 0 : -result;
}

inline int KeyGroupOf(int32_t hash, int max_parallelism) { return FlinkMix(hash) % max_parallelism; }

inline int32_t JavaHash(int32_t value) { return value; }

inline int32_t JavaHash(int64_t value) {
  const uint64_t bits = static_cast<uint64_t>(value);
  return static_cast<int32_t>(static_cast<uint32_t>(bits ^ (bits >> 32)));
}

// Java's String.hashCode: the UTF-16 units of the text, each time multiplied by 31. Bytes that are no UTF-8 hash to something
// that depends on nothing but them.
inline int32_t JavaHash(const char* utf8, size_t bytes) {
  const auto* at = reinterpret_cast<const uint8_t*>(utf8);
  const uint8_t* end = at + bytes;
  uint32_t hash = 0;
  while (at < end) {
    uint32_t point = *at++;
    int more = point < 0xC0 ? 0 : point < 0xE0 ? 1 : point < 0xF0 ? 2 : 3;
    if (more != 0) point &= 0x3Fu >> more;
    for (; more > 0 && at < end; --more) point = (point << 6) | (*at++ & 0x3Fu);
    if (point >= 0x10000u) {  // a surrogate pair
      point -= 0x10000u;
      hash = hash * 31 + (0xD800u + (point >> 10));
      point = 0xDC00u + (point & 0x3FFu);
    }
    hash = hash * 31 + point;
  }
  return static_cast<int32_t>(hash);
}

// MurmurHash3, 32 bits for x86, seed 42, blocks read as little-endian.
inline int32_t MurmurHash(const char* bytes, size_t n) {
  uint32_t hash = 42;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    uint32_t block;
    std::memcpy(&block, bytes + i, 4);
    hash = MurmurMixBlock(hash, block);
  }
  uint32_t tail = 0;
  for (size_t j = n; j > i; --j) tail = (tail << 8) | static_cast<uint8_t>(bytes[j - 1]);
  if (i < n) {
    tail *= 0xcc9e2d51u;
    tail = RotateLeft(tail, 15);
    hash ^= tail * 0x1b873593u;
  }
  return static_cast<int32_t>(MurmurFinish(hash ^ static_cast<uint32_t>(n)));
}

// The key groups of worker "index" of "parallelism". REQUIRES: 0 <= index < parallelism <= max_parallelism.
inline KeyGroupRange RangeOf(int index, int parallelism, int max_parallelism) {
  return {(index * max_parallelism + parallelism - 1) / parallelism, ((index + 1) * max_parallelism - 1) / parallelism};
}

}  // namespace sfkv
