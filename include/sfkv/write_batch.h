// Puts, deletes and merges on their way to the store, encoded straight into the bytes that RocksDB takes.
//
// rocksdb::WriteBatch has a public constructor from its serialised form, which is also what its log holds:
//   sequence u64 (0 here) · count u32 · records;  record = tag u8 · varint32 key length · key [· varint32 length · value, merge operand or bound of a range]
// Writing that form ourselves lets a value be encoded in place. Whoever fills the batch splits it, at write_batch_bytes.
// A batch belongs to one thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "sfkv/row_codec.h"

namespace sfkv {

// A batch over several states lies in memory as a whole, so more is refused.
constexpr size_t kMaxBatchBytes = size_t{256} << 20;

inline Status BatchTooLarge() {
  return Status(Code::kLimit, "the batch would take more than " + std::to_string(kMaxBatchBytes) +
                                  " bytes, and is written as a whole: make it of fewer rows");
}

// The kind of a write, which is its tag.
enum class WriteKind : char { kDelete = 0, kPut = 1, kMerge = 2, kDeleteRange = 15 };

constexpr size_t kBatchHeadBytes = 12;

// Calls visit(kind, key, value) for the writes of a serialised batch, in order; the value of a merge is its operand, that of a range
// delete its bound. False if there are others, behind those that were visited.
template <typename Visit>
bool ForEachWrite(std::string_view serialized, Visit&& visit) {
  std::string_view rest = serialized.substr(kBatchHeadBytes);
  const auto take = [&rest] {
    size_t bytes = 0;
    TakeVarint(&rest, &bytes);
    const std::string_view taken = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
    return taken;
  };
  while (!rest.empty()) {
    const auto kind = static_cast<WriteKind>(rest[0]);
    rest.remove_prefix(1);
    const bool has_value = kind == WriteKind::kPut || kind == WriteKind::kMerge || kind == WriteKind::kDeleteRange;
    if (!has_value && kind != WriteKind::kDelete) return false;
    const std::string_view key = take();
    visit(kind, key, has_value ? take() : std::string_view());
  }
  return true;
}

class WriteBatch {
 public:
  explicit WriteBatch(size_t reserved_bytes = 0) {
    bytes_.reserve(reserved_bytes);
    Clear();
  }

  // Appends a put and returns where its value of "value_bytes" is to be written, before the next call.
  char* BeginPut(std::string_view key, size_t value_bytes) { return Begin(WriteKind::kPut, key, value_bytes); }

  // The same for a merge operand.
  char* BeginMerge(std::string_view key, size_t operand_bytes) { return Begin(WriteKind::kMerge, key, operand_bytes); }

  // Deletes the rows from "first", up to but without "bound". Rare: each costs all later reads of the memtable.
  void DeleteRange(std::string_view first, std::string_view bound) {
    char* at = Begin(WriteKind::kDeleteRange, first, bound.size());
    std::memcpy(at, bound.data(), bound.size());
  }

  void Put(std::string_view key, std::string_view value) {
    char* at = BeginPut(key, value.size());
    if (!value.empty()) std::memcpy(at, value.data(), value.size());
  }

  void Delete(std::string_view key) {
    char* at = Extend(1 + VarintBytes(key.size()) + key.size());
    *at++ = static_cast<char>(WriteKind::kDelete);
    std::memcpy(AppendVarint(at, key.size()), key.data(), key.size());
  }

  // Where byte number "at" is: what BeginPut() returns is moved by the next call.
  char* At(size_t at) { return &bytes_[at]; }

  uint32_t count() const { return count_; }
  size_t bytes() const { return bytes_.size(); }

  // As ForEachWrite().
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    ForEachWrite(bytes_, visit);
  }

  // Appends the writes of another one.
  void Append(const WriteBatch& other) {
    bytes_.append(other.bytes_, kBatchHeadBytes, std::string::npos);
    count_ += other.count_;
  }

  // Gives away the serialised batch; this one is empty afterwards.
  std::string Take() {
    std::memcpy(&bytes_[8], &count_, 4);
    std::string taken;
    taken.swap(bytes_);
    Clear();
    return taken;
  }

 private:
  char* Begin(WriteKind kind, std::string_view key, size_t value_bytes) {
    const size_t head = 1 + VarintBytes(key.size()) + key.size() + VarintBytes(value_bytes);
    char* at = Extend(head + value_bytes);
    *at++ = static_cast<char>(kind);
    at = AppendVarint(at, key.size());
    std::memcpy(at, key.data(), key.size());
    return AppendVarint(at + key.size(), value_bytes);
  }

  void Clear() {
    bytes_.assign(kBatchHeadBytes, '\0');
    count_ = 0;
  }
  char* Extend(size_t n) {
    const size_t at = bytes_.size();
    bytes_.resize(at + n);
    ++count_;
    return &bytes_[at];
  }

  std::string bytes_;
  uint32_t count_ = 0;
};

}  // namespace sfkv
