// Rows on their way into files that either store can be made from, and back: blocks of rows of one key group, in the order of their keys.
//
//   block := { bytes of the key varint · [table u8][key row][suffix] · bytes of the value varint · value }
//
// FORMAT.md section 7. Not thread-safe; no state.
#pragma once

#include "sfkv/rows.h"

namespace sfkv {

// More than a row ever holds: lists may be a little longer than values.
constexpr size_t kMaxStoredBytes = 2 * kMaxValueBytes;

// Appends a row. "key" is without the key group.
inline void AppendBlockRow(uint8_t table, std::string_view key, std::string_view value, ByteBuffer* block) {
  const size_t key_bytes = 1 + key.size();
  char* at = block->Extend(VarintBytes(key_bytes) + key_bytes + VarintBytes(value.size()) + value.size());
  at = AppendVarint(at, key_bytes);
  *at++ = static_cast<char>(table);
  if (!key.empty()) std::memcpy(at, key.data(), key.size());
  at = AppendVarint(at + key.size(), value.size());
  if (!value.empty()) std::memcpy(at, value.data(), value.size());
}

// Writes the rows of a block to a store. REQUIRES: the key group is one of the store's, or that of its own rows.
inline Status LoadBlock(Rows* rows, int key_group, std::string_view block) {
  WriteBatch batch(block.size() + block.size() / 2);
  std::string key(kKeyHeaderBytes, '\0');  // whose table, and what follows it, is each row's
  EncodeKeyHeader(key.data(), key_group, 0);
  const Status damaged(Code::kCorruption, "Corruption: a block of rows does not have the form of one: restore another snapshot");
  for (std::string_view rest = block; !rest.empty();) {
    std::string_view row, value;
    if (!TakeElement(&rest, &row) || row.empty() || row.size() > 1 + kMaxKeyRowBytes) return damaged;
    if (!TakeElement(&rest, &value) || value.size() > kMaxStoredBytes) return damaged;
    batch.Put(key.replace(kKeyHeaderBytes - 1, std::string::npos, row), value);
  }
  return rows->WriteRows(&batch);
}

}  // namespace sfkv
