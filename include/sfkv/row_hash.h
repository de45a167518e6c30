// A hash of 64 bits for rows' keys in memory. It is seeded, word by word, so that nobody can choose keys that collide.
#pragma once

#include <random>
#include <string_view>

#include "sfkv/row_codec.h"

namespace sfkv {

class RowHash {
 public:
  uint64_t operator()(std::string_view key) const {
    const char* at = key.data();
    size_t left = key.size();
    uint64_t hash = seeds_[0] ^ (left * kOdd[0]);
    if (left == 8) return Mix(LoadAs<uint64_t>(at) ^ seeds_[1], hash);
    for (; left > 16; left -= 16, at += 16) hash = Mix(LoadAs<uint64_t>(at) ^ seeds_[1], LoadAs<uint64_t>(at + 8) ^ hash);
    char rest[16] = {};
    if (left >= 8) {  // the words overlap
      std::memcpy(rest, at, 8);
      std::memcpy(rest + 8, at + left - 8, 8);
    } else if (left != 0) {
      std::memcpy(rest, at, left);
    }
    return Mix(Mix(LoadAs<uint64_t>(rest) ^ seeds_[1], LoadAs<uint64_t>(rest + 8) ^ hash), kOdd[1] ^ key.size());
  }

 private:
  static constexpr uint64_t kOdd[2] = {0x9E3779B97F4A7C15, 0xA0761D6478BD642F};
  static uint64_t Mix(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  static uint64_t Random() {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32) | device();
  }
  uint64_t seeds_[2] = {Random(), Random()};
};

}  // namespace sfkv
