// The keys of one batch: encoded once into one arena, then sorted and deduplicated once, for reads and for writes.
//
// The key groups are checked against the backend's range while they are encoded, so that a bad key is found before the
// first byte of a call is written. Sorting is a stable radix sort of 16-byte entries, each an 8-byte word of the key that
// starts where the batch's keys begin to differ (about 10 ns a key); keys that are equal in the word are compared in full.
// A batch knows the codec and not the store. It belongs to one thread.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include "sfkv/key_codec.h"
#include "sfkv/radix_sort.h"

namespace sfkv {

class KeyBatch {
 public:
  // Encodes a key for each row of "columns". An error names the row, and leaves the batch empty.
  Status Encode(const KeyCodec& codec, const Columns& columns, uint8_t table, int max_parallelism, KeyGroupRange range) {
    return EncodeWith(codec, columns, nullptr, nullptr, table, max_parallelism, range);
  }

  // The same with a user key behind each key. REQUIRES: as many rows of "user_columns" as of "columns".
  Status EncodePairs(const KeyCodec& codec, const Columns& columns, const KeyCodec& user_codec, const Columns& user_columns,
                     uint8_t table, int max_parallelism, KeyGroupRange range) {
    return EncodeWith(codec, columns, &user_codec, &user_columns, table, max_parallelism, range);
  }

  // Brings the keys into order. Until the next Encode(), distinct_count() keys can be asked for.
  void Sort() {
    MakeEntries();
    if (size_ < kRadixThreshold) {
      std::sort(entries_.get(), entries_.get() + size_, [](const Entry& a, const Entry& b) {
        return a.word != b.word ? a.word < b.word : a.position < b.position;
      });
    } else {
      std::unique_ptr<Entry[]> scratch(new Entry[size_]);  // not cleared: all are written
      if (RadixSort(entries_.get(), scratch.get(), size_) == scratch.get()) entries_.swap(scratch);
    }
    FindDistinct();
    if (key_bytes_ != 0) PackDistinct();
  }

  size_t size() const { return size_; }
  bool is_sorted() const { return entries_ != nullptr; }
  // Of all keys together.
  size_t bytes() const { return arena_.size(); }
  std::string_view Key(size_t position) const {
    if (key_bytes_ != 0) return {arena_.data() + position * key_bytes_, key_bytes_};
    const size_t begin = position == 0 ? 0 : ends_[position - 1];
    return {arena_.data() + begin, ends_[position] - begin};
  }

  // The rows' numbers in the order in which the keys are worked on: sorted, after Sort(); those of one key always as they came.
  size_t PositionAt(size_t i) const { return entries_ == nullptr ? i : entries_[i].position; }

  // The distinct keys, in order. REQUIRES for all of these: Sort() was called.
  size_t distinct_count() const { return firsts_.size() - 1; }
  std::string_view DistinctKey(size_t distinct) const {
    if (key_bytes_ != 0) return {sorted_.data() + distinct * key_bytes_, key_bytes_};
    return Key(entries_[firsts_[distinct]].position);
  }
  // Calls visit(position) for each row of the batch that holds this key, from first to last.
  template <typename Visit>
  void VisitPositions(size_t distinct, Visit&& visit) const {
    for (size_t e = firsts_[distinct]; e < firsts_[distinct + 1]; ++e) visit(static_cast<int64_t>(entries_[e].position));
  }
  int64_t FirstPosition(size_t distinct) const { return entries_[firsts_[distinct]].position; }
  int64_t LastPosition(size_t distinct) const { return entries_[firsts_[distinct + 1] - 1].position; }

  // The number of the distinct key of each row of the batch.
  std::vector<uint32_t> DistinctOfPositions() const {
    std::vector<uint32_t> distinct_of(size());
    for (size_t distinct = 0; distinct < distinct_count(); ++distinct) {
      VisitPositions(distinct, [&](int64_t position) { distinct_of[static_cast<size_t>(position)] = static_cast<uint32_t>(distinct); });
    }
    return distinct_of;
  }

  // The numbers of the distinct keys, in the order in which the keys first appear in the batch.
  std::vector<size_t> DistinctByAppearance() const {
    std::vector<size_t> at_position(size(), distinct_count());
    for (size_t distinct = 0; distinct < distinct_count(); ++distinct) at_position[static_cast<size_t>(FirstPosition(distinct))] = distinct;
    at_position.erase(std::remove(at_position.begin(), at_position.end(), distinct_count()), at_position.end());
    return at_position;
  }

  static Status KeyTooLong(size_t row_bytes, int64_t row) {
    return Status(Code::kLimit, "the key takes " + std::to_string(row_bytes) + " bytes, and a key may take at most " +
                                    std::to_string(kMaxKeyRowBytes), row);
  }
  static Status OutsideRange(int key_group, KeyGroupRange range, int64_t row) {
    return Status(Code::kKeyGroup, "the key belongs to key group " + std::to_string(key_group) + ", and this backend owns " +
                                       std::to_string(range.first) + " to " + std::to_string(range.last) +
                                       ": the router and the backend disagree on the hash or on the max parallelism (see sfkv.key_groups)",
                  row);
  }

 private:
  struct Entry {
    uint64_t word;
    uint32_t position;
  };
  static constexpr size_t kRadixThreshold = 64;

  Status EncodeWith(const KeyCodec& codec, const Columns& columns, const KeyCodec* user_codec, const Columns* user_columns,
                    uint8_t table, int max_parallelism, KeyGroupRange range) {
    Clear();
    const int64_t count = columns[0].length();
    if (count > std::numeric_limits<int32_t>::max()) return Status(Code::kLimit, "a batch holds at most 2^31 - 1 keys: pass fewer per call");
    SFKV_RETURN_IF_ERROR(CheckNulls(columns, codec.columns()));
    if (user_codec != nullptr) SFKV_RETURN_IF_ERROR(CheckNulls(*user_columns, user_codec->columns()));
    const auto rows = static_cast<size_t>(count);
    if (codec.is_fixed() && (user_codec == nullptr || user_codec->is_fixed())) {
      key_bytes_ = kKeyHeaderBytes + codec.fixed_bytes() + (user_codec == nullptr ? 0 : user_codec->fixed_bytes());
      arena_.Reserve(rows * key_bytes_);
    } else {
      ends_.reserve(rows);
    }
    if (user_codec == nullptr && codec.is_java_int64()) return EncodeInt64(columns[0], table, max_parallelism, range);
    for (int64_t i = 0; i < count; ++i) {
      const size_t row_bytes = codec.RowBytes(columns, i);
      const size_t user_bytes = user_codec == nullptr ? 0 : user_codec->RowBytes(*user_columns, i);
      if (row_bytes + user_bytes > kMaxKeyRowBytes) return Refuse(KeyTooLong(row_bytes + user_bytes, i));
      char* at = arena_.Extend(kKeyHeaderBytes + row_bytes + user_bytes);
      char* row = at + kKeyHeaderBytes;
      codec.EncodeRow(columns, i, row);
      if (user_codec != nullptr) user_codec->EncodeRow(*user_columns, i, row + row_bytes);
      const int key_group = KeyGroupOf(codec.Hash(columns, i, row, row_bytes), max_parallelism);
      if (!range.Contains(key_group)) return Refuse(OutsideRange(key_group, range, i));
      EncodeKeyHeader(at, key_group, table);
      if (key_bytes_ == 0) ends_.push_back(arena_.size());
    }
    size_ = rows;
    return Status::OK();
  }

  // The same for the most common keys, in one loop.
  Status EncodeInt64(const ColumnView& column, uint8_t table, int max_parallelism, KeyGroupRange range) {
    size_ = static_cast<size_t>(column.length());
    char* at = arena_.Extend(size_ * key_bytes_);
    for (int64_t i = 0; i < column.length(); ++i, at += key_bytes_) {
      const auto key = column.Value<int64_t>(i);
      const int key_group = KeyGroupOf(JavaHash(key), max_parallelism);
      if (!range.Contains(key_group)) return Refuse(OutsideRange(key_group, range, i));
      EncodeKeyHeader(at, key_group, table);
      StoreBig(at + kKeyHeaderBytes, static_cast<uint64_t>(key) ^ SignOf<uint64_t>());
    }
    return Status::OK();
  }

  void Clear() {
    arena_.Clear();
    ends_.clear();
    size_ = key_bytes_ = 0;
    entries_ = nullptr;
    firsts_.assign(1, 0);
    sorted_.Clear();
  }

  Status Refuse(Status status) {
    Clear();
    return status;
  }

  // How many bytes behind the header all keys of the batch share.
  size_t CommonBytes() const {
    const std::string_view first = Key(0).substr(kKeyHeaderBytes);
    size_t common = first.size();
    for (size_t i = 1; i < size() && common > 0; ++i) {
      const std::string_view key = Key(i).substr(kKeyHeaderBytes);
      common = std::min(common, key.size());
      if (std::memcmp(first.data(), key.data(), common) == 0) continue;
      size_t same = 0;
      while (first[same] == key[same]) ++same;
      common = same;
    }
    return common;
  }

  // The word of a key: its key group, then the first six bytes in which the batch's keys may differ.
  void MakeEntries() {
    entries_.reset(new Entry[size_]);  // not cleared: all are written here
    if (size_ == 0) return;
    word_at_ = kKeyHeaderBytes + CommonBytes();
    for (size_t i = 0; i < size(); ++i) {
      const std::string_view key = Key(i);
      char bytes[8] = {key[0], key[1], 0, 0, 0, 0, 0, 0};
      if (key.size() > word_at_) std::memcpy(bytes + 2, key.data() + word_at_, std::min<size_t>(6, key.size() - word_at_));
      entries_[i] = {ByteSwap(LoadAs<uint64_t>(bytes)), static_cast<uint32_t>(i)};
    }
  }

  // Orders what the word could not tell apart, and notes where each distinct key begins.
  void FindDistinct() {
    firsts_.clear();
    const bool words_are_whole = WordsAreWhole();
    size_t begin = 0;
    while (begin < size_) {
      size_t end = begin + 1;
      while (end < size_ && entries_[end].word == entries_[begin].word) ++end;
      firsts_.push_back(static_cast<uint32_t>(begin));
      if (end - begin > 1 && !words_are_whole && !AreEqual(begin, end)) SplitRun(begin, end);
      begin = end;
    }
    firsts_.push_back(static_cast<uint32_t>(size_));
  }

  // Whether keys of one word are equal: what the word does not show, all keys share.
  bool WordsAreWhole() const {
    return key_bytes_ != 0 && key_bytes_ <= word_at_ + 6;
  }

  bool AreEqual(size_t begin, size_t end) const {
    const std::string_view first = Key(entries_[begin].position);
    for (size_t e = begin + 1; e < end; ++e) {
      if (Key(entries_[e].position) != first) return false;
    }
    return true;
  }

  // Sorts a run of entries of one word by their whole keys. REQUIRES: its first entry was noted.
  void SplitRun(size_t begin, size_t end) {
    std::sort(entries_.get() + begin, entries_.get() + end,
              [this](const Entry& a, const Entry& b) {
                const int order = Key(a.position).compare(Key(b.position));
                return order != 0 ? order < 0 : a.position < b.position;
              });
    for (size_t e = begin + 1; e < end; ++e) {
      if (Key(entries_[e].position) != Key(entries_[e - 1].position)) firsts_.push_back(static_cast<uint32_t>(e));
    }
  }

  // Puts the distinct keys one after the other, for who reads them in order.
  void PackDistinct() {
    char* at = sorted_.Extend(distinct_count() * key_bytes_);
    for (size_t distinct = 0; distinct < distinct_count(); ++distinct, at += key_bytes_) {
      std::memcpy(at, Key(entries_[firsts_[distinct]].position).data(), key_bytes_);
    }
  }

  size_t size_ = 0;
  size_t key_bytes_ = 0;        // if all keys have one length; else 0
  ByteBuffer arena_;
  std::vector<size_t> ends_;    // where each key ends in the arena, if they have lengths of their own
  std::unique_ptr<Entry[]> entries_;  // in the keys' order after Sort()
  ByteBuffer sorted_;           // the distinct keys, if all have one length
  std::vector<uint32_t> firsts_{0};  // the entry at which each distinct key begins, and one past the last
  size_t word_at_ = kKeyHeaderBytes;
};

// The key group of each row of "columns", as an int32 array.
inline Status ComputeKeyGroups(const KeyCodec& codec, const Columns& columns, int max_parallelism, ArrowArray* out) {
  SFKV_RETURN_IF_ERROR(CheckNulls(columns, codec.columns()));
  const int64_t count = columns[0].length();
  Column column;
  column.type.cell = CellType::kInt32;
  column.type.width = sizeof(int32_t);
  ColumnBuilder groups(column, count);
  ByteBuffer row;
  for (int64_t i = 0; i < count; ++i) {
    row.Clear();
    const size_t bytes = codec.RowBytes(columns, i);
    if (codec.hash_kind() == HashKind::kMurmur) codec.EncodeRow(columns, i, row.Extend(bytes));
    const int32_t group = KeyGroupOf(codec.Hash(columns, i, row.data(), bytes), max_parallelism);
    groups.SetFixed(i, reinterpret_cast<const char*>(&group));
  }
  return groups.Finish(count, nullptr, out);
}

}  // namespace sfkv
