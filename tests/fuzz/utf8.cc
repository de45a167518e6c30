// UTF-8 (utf8.h): any bytes, at any place.
//
//   Bytes are UTF-8 just when RFC 3629's grammar says so. SkipAscii() passes over ASCII alone, and leaves fewer than eight bytes of
//   text that is nothing else.
#include "input.h"
#include "sfkv/utf8.h"

namespace sfkv::fuzz {
namespace {

// Code points of every length and the bounds between them, and what is near to them and none.
constexpr std::string_view kPieces[] = {
    "a",        "abcdefgh", "\x7f",         "\xc2\x80",         "\xdf\xbf",         "\xe0\xa0\x80", "\xed\x9f\xbf",     "\xee\x80\x80",
    "\xef\xbf", "\xbf",     "\xf0\x90\x80", "\xf4\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xed\xa0\x80", "\xe0\x9f\xbf",     "\xc1\xbf",
    "\xc3",     "\xe2\x82", "\xf0\x9f\x98", "\x80",             "\xff",             "\xf0\x8f\x80", "\xe2\x82\xac",     "\xf5\x80\x80\x80",
};

void Check(std::string_view text) {
  FUZZ_EXPECT(IsUtf8(text) == IsUtf8Slowly(text));
  bool ascii = true;
  for (const char c : text) ascii = ascii && static_cast<uint8_t>(c) < 128;
  FUZZ_EXPECT(IsAscii(text) == ascii);
  const size_t skipped = SkipAscii(text);
  FUZZ_EXPECT(skipped <= text.size() && IsAscii(text.substr(0, skipped)));
  FUZZ_EXPECT(!ascii || text.size() - skipped < 8);
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  const uint8_t chosen = input.Byte();
  std::string text;
  if (chosen % 2 == 0) text = input.Rest();
  while (!input.empty()) {
    const uint8_t piece = input.Byte();
    text += piece < 192 ? std::string(kPieces[piece % std::size(kPieces)]) : std::string(1, static_cast<char>(piece));
  }
  Check(ExactBytes(text, chosen / 2 % 8).view());
  return 0;
}
