// Values of a map's entries, which may be None, and the ranges in which a key's entries lie.
//
//   value := 00 · row of the value codec   |   01 for a None, which is a value here
//
// FORMAT.md section 4. No state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sfkv {

constexpr char kMapValuePresent = 0;
constexpr char kMapValueNone = 1;

// The least string that is greater than all that begin with "prefix". Its first byte is below 0xff, so there is one.
inline std::string PrefixBound(std::string_view prefix) {
  std::string bound(prefix);
  while (static_cast<uint8_t>(bound.back()) == 0xFF) bound.pop_back();
  bound.back() = static_cast<char>(static_cast<uint8_t>(bound.back()) + 1);
  return bound;
}

// Whether a stored value is well-formed, and what it holds: a row, or None.
inline bool ParseMapValue(std::string_view stored, bool* is_none, std::string_view* row) {
  if (stored.empty()) return false;
  *is_none = stored[0] == kMapValueNone;
  *row = stored.substr(1);
  return *is_none ? row->empty() : stored[0] == kMapValuePresent;
}

}  // namespace sfkv
