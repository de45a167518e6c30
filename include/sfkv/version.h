// Versions: of sfkv, and of the bytes that it writes (FORMAT.md).
#pragma once

namespace sfkv {

constexpr char kVersion[] = "0.1.0";

// Raised when a byte on disk changes its meaning, together with FORMAT.md and a golden file.
constexpr int kFormatVersion = 2;
// The oldest one that is read.
constexpr int kOldestFormatVersion = 1;

}  // namespace sfkv
