// Reducing and aggregating states: one fold row a key, added to by merge operands, so that adding needs no read; and by a read and a put
// where operands would pile up (fold_guard.h). Single operands are held back for a moment, if they can be (held_folds.h).
// docs/decisions/0017 has the figures.
// Stands on table.h; the functions need what its methods need. Rows: fold.h.
#pragma once

#include "sfkv/fold_codec.h"
#include "sfkv/fold_guard.h"
#include "sfkv/list_table.h"

namespace sfkv {

// The row that a key has after an operand. With may_wait false a read that would have to wait answers kIncomplete.
inline Status FoldIntoStored(const Table& table, std::string_view key, std::string_view operand, bool may_wait, std::string* row) {
  rocksdb::PinnableSlice stored;
  bool found = false;
  SFKV_RETURN_IF_ERROR(table.Get(key, may_wait, &stored, &found));
  row->clear();
  if (found) {
    MergeRows({AsView(stored), operand}, row);
  } else {
    row->assign(operand);
  }
  return Status::OK();
}

// Folds an operand, a fold row, into the row of one key.
inline Status FoldOperand(Table* table, FoldGuard* guard, std::string_view key, std::string_view operand, bool may_wait) {
  if (Grows(operand)) {
    if (!may_wait) return Status(Code::kIncomplete, "the row may have to be read");
    SFKV_RETURN_IF_ERROR(CheckAppend(*table, guard->sizes(), key, operand.size(), -1));
  }
  bool is_held = false;
  SFKV_RETURN_IF_ERROR(table->Hold(key, operand, may_wait, &is_held));
  if (is_held) return Status::OK();
  if (!guard->MustSettle(key)) return table->Merge(key, operand, may_wait);
  std::string row;
  SFKV_RETURN_IF_ERROR(FoldIntoStored(*table, key, operand, may_wait, &row));
  SFKV_RETURN_IF_ERROR(table->Put(key, row, may_wait));
  guard->IsSettled(key);
  return Status::OK();
}

// What a batch adds to each of its distinct keys, on its way to the store.
class FoldWriter {
 public:
  FoldWriter(Table* table, FoldGuard* guard, OffsetRow offset) : table_(table), guard_(guard), offset_(offset), batch_(table->write_batch_bytes()) {}

  Status Add(std::string_view key, std::string_view operand) {
    if (guard_->MustSettle(key)) {
      SFKV_RETURN_IF_ERROR(FoldIntoStored(*table_, key, operand, /*may_wait=*/true, &row_));
      batch_.Put(key, row_);
      guard_->IsSettled(key);
    } else {
      std::memcpy(batch_.BeginMerge(key, operand.size()), operand.data(), operand.size());
    }
    return table_->WriteIfFull(&batch_, offset_);
  }
  Status Finish() { return table_->WriteRest(&batch_, offset_); }

 private:
  Table* table_;
  FoldGuard* guard_;
  OffsetRow offset_;
  WriteBatch batch_;
  std::string row_;
};

// Folds the values of a batch's rows into the rows of their keys, those of one key first among themselves, in the rows' order.
// Bad values are found first.
inline Status FoldColumns(Table* table, FoldGuard* guard, const KeyBatch& keys, const FoldCodec& codec, const Columns& values, OffsetRow offset) {
  SFKV_RETURN_IF_ERROR(CheckValues(codec.values(), values, nullptr));
  FoldWriter writer(table, guard, offset);
  if (!codec.grows()) {
    SFKV_RETURN_IF_ERROR(FoldBatch(keys, codec, values, [&](size_t distinct, std::string_view row) {
      return writer.Add(keys.DistinctKey(distinct), row);
    }));
    return writer.Finish();
  }
  RowList operands;
  SFKV_RETURN_IF_ERROR(FoldBatch(keys, codec, values, [&](size_t distinct, std::string_view row) {
    operands.Add(row);
    return CheckAppend(*table, guard->sizes(), keys.DistinctKey(distinct), row.size(), keys.FirstPosition(distinct));
  }));
  for (size_t distinct = 0; distinct < operands.size(); ++distinct) {
    SFKV_RETURN_IF_ERROR(writer.Add(keys.DistinctKey(distinct), operands.Get(distinct)));
  }
  return writer.Finish();
}

}  // namespace sfkv
