// Numbers on their way through a fold: whole ones of several words, which no sum makes too small, and floats of 16 bits.
//
// A wide number is two's complement, its lowest word first, as decimals and sums lie in rows. Not thread-safe; no state.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "sfkv/row_codec.h"

namespace sfkv {

// Adds one wide number to another where it lies.
template <size_t kWords>
inline void AddWords(char* into, const char* from) {
  unsigned carry = 0;
  for (size_t w = 0; w < kWords; ++w) {
    const auto sum = static_cast<unsigned __int128>(LoadAs<uint64_t>(into + 8 * w)) + LoadAs<uint64_t>(from + 8 * w) + carry;
    StoreAs(into + 8 * w, static_cast<uint64_t>(sum));
    carry = static_cast<unsigned>(sum >> 64);
  }
}

// A whole number as a sign and a magnitude of 320 bits: 2^64 times the largest decimal.
class Wide {
 public:
  static constexpr size_t kWords = 5;

  // Reads two's complement of "bytes" bytes, at most those of kWords.
  static Wide FromBytes(const char* at, size_t bytes) {
    Wide number;
    const bool negative = static_cast<signed char>(at[bytes - 1]) < 0;
    std::memset(number.words_, negative ? 0xFF : 0, sizeof(number.words_));
    std::memcpy(number.words_, at, bytes);
    if (negative) number.Complement();
    number.negative_ = negative;
    return number;
  }
  static Wide FromUnsigned(uint64_t value) {
    Wide number;
    number.words_[0] = value;
    return number;
  }

  // REQUIRES for all of these: the product stays below 2^320.
  void Multiply(uint64_t factor) {
    uint64_t carry = 0;
    for (uint64_t& word : words_) {
      const auto product = static_cast<unsigned __int128>(word) * factor + carry;
      word = static_cast<uint64_t>(product);
      carry = static_cast<uint64_t>(product >> 64);
    }
  }
  static Wide PowerOfTen(int exponent) {
    Wide power = FromUnsigned(1);
    for (int i = 0; i < exponent; ++i) power.Multiply(10);
    return power;
  }

  static Wide PowerOfTwo(size_t exponent) {
    Wide power;
    power.words_[exponent / 64] = uint64_t{1} << (exponent % 64);
    return power;
  }
  // The magnitude that comes next.
  Wide Next() const {
    Wide next = *this;
    next.AddToMagnitude(1);
    return next;
  }

  // Divides the magnitude and returns what is left. REQUIRES: the divisor is not 0.
  uint64_t Divide(uint64_t divisor) {
    uint64_t rest = 0;
    for (size_t w = kWords; w-- > 0;) {
      const auto part = (static_cast<unsigned __int128>(rest) << 64) | words_[w];
      words_[w] = static_cast<uint64_t>(part / divisor);
      rest = static_cast<uint64_t>(part % divisor);
    }
    return rest;
  }
  // The same, with halves away from zero.
  void DivideRounding(uint64_t divisor) {
    const uint64_t rest = Divide(divisor);
    if (rest >= divisor - rest) AddToMagnitude(1);
  }

  bool MagnitudeIsBelow(const Wide& bound) const {
    for (size_t w = kWords; w-- > 0;) {
      if (words_[w] != bound.words_[w]) return words_[w] < bound.words_[w];
    }
    return false;
  }
  bool IsNegative() const { return negative_; }

  // Writes the lowest "bytes" bytes as two's complement.
  void Store(char* at, size_t bytes) const {
    Wide number = *this;
    if (negative_) number.Complement();
    std::memcpy(at, number.words_, bytes);
  }

  double ToDouble() const {
    double value = 0;
    for (size_t w = kWords; w-- > 0;) value = value * 18446744073709551616.0 + static_cast<double>(words_[w]);
    return negative_ ? -value : value;
  }

  std::string ToText() const {
    constexpr uint64_t ten_digits = 10000000000;
    Wide rest = *this;
    std::string text;
    for (size_t part = 0; part < 10; ++part) {
      std::string digits = std::to_string(rest.Divide(ten_digits));
      text = std::string(10 - digits.size(), '0') + digits + text;
    }
    text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
    return (negative_ ? "-" : "") + text;
  }

 private:
  void AddToMagnitude(uint64_t value) {
    for (size_t w = 0; w < kWords && value != 0; ++w) {
      words_[w] += value;
      value = words_[w] < value ? 1 : 0;
    }
  }
  void Complement() {
    for (uint64_t& word : words_) word = ~word;
    AddToMagnitude(1);
  }

  uint64_t words_[kWords] = {};
  bool negative_ = false;
};

// The float of 16 bits that IEEE 754 calls binary16.
inline double FromFloat16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = (bits & 1023) / 1024.0;
  const double magnitude = exponent == 31  ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                           : exponent == 0 ? std::ldexp(fraction, -14)
                                           : std::ldexp(1 + fraction, exponent - 15);
  return (bits >> 15) != 0 ? -magnitude : magnitude;
}

// The nearest one, of two the even one; infinite where none is large enough.
inline uint16_t ToFloat16(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00;
  if (magnitude >= 65520) return sign | 0x7C00;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);                       // magnitude = f * 2^exponent, f from 0.5 to 1
  const int step = std::max(exponent - 11, -24);          // what the last bit of the fraction is worth: 2^step
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -step)));
  return sign | static_cast<uint16_t>(units + (step > -24 ? (step + 24) << 10 : 0));
}

}  // namespace sfkv
