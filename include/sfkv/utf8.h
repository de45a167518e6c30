// Whether bytes are UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing beyond U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sfkv {

// How many bytes at the beginning of "text" are ASCII; up to 7 at its end are not looked at.
inline size_t SkipAscii(std::string_view text) {
  size_t at = 0;
  uint64_t word;
  for (; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & 0x8080808080808080ull) != 0) break;
  }
  return at;
}

inline bool IsAscii(std::string_view text) {
  uint8_t all = 0;
  for (char c : text) all = static_cast<uint8_t>(all | static_cast<uint8_t>(c));
  return all < 0x80;
}

inline bool IsUtf8(std::string_view text) {
  const auto* at = reinterpret_cast<const uint8_t*>(text.data()) + SkipAscii(text);
  const auto* end = reinterpret_cast<const uint8_t*>(text.data()) + text.size();
  while (at < end) {
    const uint8_t first = *at++;
    if (first < 0x80) continue;
    const int more = first >= 0xC2 && first <= 0xDF ? 1 : (first & 0xF0) == 0xE0 ? 2 : first >= 0xF0 && first <= 0xF4 ? 3 : 0;
    if (more == 0 || end - at < more) return false;
    // The second byte has the tighter bounds.
    const uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (at[0] < least || at[0] > most) return false;
    for (int i = 1; i < more; ++i) {
      if ((at[i] & 0xC0) != 0x80) return false;
    }
    at += more;
  }
  return true;
}

}  // namespace sfkv
