// What all fuzz targets share: an input as a run of choices, memory of exactly a size, and the check that a property holds.
//
// An input that has run out gives zeros, so every input means something, and a short one stays meaningful when it is cut. Buffers
// that the code under test reads are allocated with exactly the size they may be read to, for AddressSanitizer to guard.
// types.h takes types out of an input, cells.h values, arrays.h makes Arrow arrays of them, and model.h says what rows they become.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// A property of the code under test. Unlike assert(), it is there in every build.
#define FUZZ_EXPECT(condition)                                                                \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);     \
      std::abort();                                                                           \
    }                                                                                         \
  } while (false)

namespace sfkv::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  bool empty() const { return at_ == end_; }
  uint8_t Byte() { return at_ == end_ ? 0 : *at_++; }
  bool Bool() { return (Byte() & 1) != 0; }

  // A number below "bound". REQUIRES: bound > 0.
  size_t Below(size_t bound) { return (bound <= 256 ? Byte() : Number<uint16_t>()) % bound; }

  template <typename T>
  T Number() {
    T number{};
    const std::string bytes = Bytes(sizeof(T));
    std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }

  // A number that is no length, or of no use as one.
  int64_t Hostile() {
    static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    static constexpr int64_t kEdges[] = {0, 1, 2, -1, kMost, kMost - 1, -kMost - 1, -kMost};
    const uint8_t chosen = Byte();
    return chosen < 8 ? kEdges[chosen] : chosen < 128 ? chosen % 16 : Number<int64_t>();
  }

  // The next "n" bytes, or as many as there are.
  std::string Bytes(size_t n) {
    const size_t left = static_cast<size_t>(end_ - at_);
    const std::string bytes(reinterpret_cast<const char*>(at_), n < left ? n : left);
    at_ += bytes.size();
    return bytes;
  }
  std::string Rest() { return Bytes(static_cast<size_t>(end_ - at_)); }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

// Bytes in memory of exactly their size: to read one more is seen. "shift" bytes before them make their place one that no
// number has.
class ExactBytes {
 public:
  explicit ExactBytes(std::string_view bytes, size_t shift = 0)
      : size_(bytes.size()), shift_(shift), data_(new char[bytes.size() + shift]) {
    if (size_ != 0) std::memcpy(data(), bytes.data(), size_);
  }
  char* data() { return data_.get() + shift_; }
  size_t size() const { return size_; }
  std::string_view view() const { return {data_.get() + shift_, size_}; }

 private:
  size_t size_;
  size_t shift_;
  std::unique_ptr<char[]> data_;
};

inline bool IsUtf8Slowly(std::string_view text) {
  // RFC 3629, section 4, line by line: the bounds of each byte.
  static constexpr uint8_t kForms[][9] = {
      {1, 0x00, 0x7F},
      {2, 0xC2, 0xDF, 0x80, 0xBF},
      {3, 0xE0, 0xE0, 0xA0, 0xBF, 0x80, 0xBF},
      {3, 0xE1, 0xEC, 0x80, 0xBF, 0x80, 0xBF},
      {3, 0xED, 0xED, 0x80, 0x9F, 0x80, 0xBF},
      {3, 0xEE, 0xEF, 0x80, 0xBF, 0x80, 0xBF},
      {4, 0xF0, 0xF0, 0x90, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
      {4, 0xF1, 0xF3, 0x80, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
      {4, 0xF4, 0xF4, 0x80, 0x8F, 0x80, 0xBF, 0x80, 0xBF},
  };
  while (!text.empty()) {
    size_t taken = 0;
    for (const auto& form : kForms) {
      bool fits = text.size() >= form[0];
      for (size_t i = 0; fits && i < form[0]; ++i) {
        const uint8_t byte = static_cast<uint8_t>(text[i]);
        fits = byte >= form[1 + 2 * i] && byte <= form[2 + 2 * i];
      }
      if (fits) taken = form[0];
    }
    if (taken == 0) return false;
    text.remove_prefix(taken);
  }
  return true;
}

}  // namespace sfkv::fuzz
