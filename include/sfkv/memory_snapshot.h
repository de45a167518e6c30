// The rows of a store in memory as they were at one moment, to be written elsewhere while the store goes on.
//
// Making one copies no row: it takes the tables' pages, under a view (row_heap.h), and the few rows of the store's own. What it gives
// out are blocks (row_blocks.h), key group by key group. It is made inside a Call scope of the store and may then be read by one
// thread, any, and be dropped by any; the store may be closed before.
#pragma once

#include "sfkv/memory_store.h"
#include "sfkv/row_blocks.h"

namespace sfkv {

class MemorySnapshot : private Counted<MemorySnapshot> {
 public:
  // REQUIRES: no batch is open.
  explicit MemorySnapshot(MemoryTables* tables) : view_(tables->heap()->NewView()) {
    tables->RequireTakenBack();
    for (int id = 0; id < 256; ++id) {
      const MemoryTable* table = tables->table(static_cast<uint8_t>(id));
      if (table != nullptr && table->rows() != 0) tables_.push_back({table->Freeze(tables->range(), all_), 0});
    }
    for (const auto& [key, value] : tables->reserved()) {
      AppendBlockRow(TableOf(key), std::string_view(key).substr(kKeyHeaderBytes), value, &reserved_);
    }
  }
  using Counted<MemorySnapshot>::live;

  // Appends the next rows to "block", up to about "most_bytes" of them, all of one key group; the store's own come first. False at the end.
  bool NextBlock(size_t most_bytes, int* key_group, ByteBuffer* block) {
    if (reserved_.size() != 0) {
      *key_group = kReservedGroup;
      *block = std::move(reserved_);
      return true;
    }
    while (block->size() < most_bytes) {
      if (rows_ && rows_->Next()) {
        AppendBlockRow(tables_[table_].frozen.table, rows_->key(), rows_->value(), block);
      } else if (!NextTable() && (block->size() != 0 || !NextGroup())) {
        break;
      }
    }
    *key_group = key_group_;
    return block->size() != 0;
  }

 private:
  struct Part {
    FrozenTable frozen;
    size_t next_group;  // in the table's groups, which lie in order
  };

  // Goes on to the next table that has rows of the key group.
  bool NextTable() {
    rows_.reset();
    if (key_group_ < 0) return false;
    for (++table_; table_ < tables_.size(); ++table_) {
      Part& part = tables_[table_];
      if (part.next_group == part.frozen.groups.size() || part.frozen.groups[part.next_group].key_group != key_group_) continue;
      rows_.emplace(part.frozen, part.frozen.groups[part.next_group++], all_, /*reverse=*/false);
      return true;
    }
    table_ = tables_.size();
    return false;
  }
  // Goes on to the next key group that has rows. False if there is none.
  bool NextGroup() {
    int next = kNoGroup;
    for (const Part& part : tables_) {
      if (part.next_group < part.frozen.groups.size()) next = std::min(next, part.frozen.groups[part.next_group].key_group);
    }
    key_group_ = next == kNoGroup ? -1 : next;
    table_ = static_cast<size_t>(-1);
    return next != kNoGroup;
  }

  static constexpr int kNoGroup = kMaxParallelism;

  std::shared_ptr<RowView> view_;
  const RowRange all_{};
  std::vector<Part> tables_;
  ByteBuffer reserved_;
  int key_group_ = -1;
  size_t table_ = static_cast<size_t>(-1);
  std::optional<FrozenRows> rows_;
};

}  // namespace sfkv
