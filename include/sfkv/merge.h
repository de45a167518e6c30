// What RocksDB does with merge operands: those of one key are put one behind the other, in order.
//
// That is what appending to a list means, whose elements carry their own lengths (list_codec.h). It needs no schema, so it is
// right before any state is registered, and it never fails: a failing merge would poison the whole store. An operand of a
// table that is no list, which nothing writes, is kept with the others and left to the reader. The rules of further kinds of
// tables are chosen here, by the key's table byte. Thread-safe: no state.
#pragma once

#include <rocksdb/merge_operator.h>

#include "sfkv/rocksdb_compat.h"

namespace sfkv {

class TableMerge : public rocksdb::MergeOperator {
 public:
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    if (in.existing_value == nullptr && in.operand_list.size() == 1) {
      out->existing_operand = in.operand_list.front();
      return true;
    }
    size_t bytes = in.existing_value == nullptr ? 0 : in.existing_value->size();
    for (const rocksdb::Slice& operand : in.operand_list) bytes += operand.size();
    out->new_value.clear();  // an iterator hands over the string of the row before
    out->new_value.reserve(bytes);
    if (in.existing_value != nullptr) out->new_value.append(in.existing_value->data(), in.existing_value->size());
    for (const rocksdb::Slice& operand : in.operand_list) out->new_value.append(operand.data(), operand.size());
    return true;
  }

  bool PartialMergeMulti(const rocksdb::Slice&, const std::deque<rocksdb::Slice>& operands, std::string* merged,
                         rocksdb::Logger*) const override {
    size_t bytes = 0;
    for (const rocksdb::Slice& operand : operands) bytes += operand.size();
    merged->clear();
    merged->reserve(bytes);
    for (const rocksdb::Slice& operand : operands) merged->append(operand.data(), operand.size());
    return true;
  }

  bool AllowSingleOperand() const override { return true; }
  const char* Name() const override { return "sfkv.TableMerge.1"; }
};

}  // namespace sfkv
