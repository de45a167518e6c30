// What RocksDB does with merge operands: those of one key are put one behind the other, in order, unless they are folds.
//
// The one is what appending to a list means, whose elements carry their own lengths (list_codec.h); the other what adding to a
// reducing or aggregating state means, whose rows say how they are folded (fold.h). Neither needs a schema, so they are right before
// any state is registered, and they never fail: a failing merge would poison the whole store. An operand that does not fit what it
// is merged with, which nothing writes, is kept with it and left to the reader. Thread-safe: no state.
#pragma once

#include <rocksdb/merge_operator.h>

#include "sfkv/fold.h"
#include "sfkv/rocksdb_compat.h"

namespace sfkv {

class TableMerge : public rocksdb::MergeOperator {
 public:
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    if (in.existing_value == nullptr && in.operand_list.size() == 1) {
      out->existing_operand = in.operand_list.front();
      return true;
    }
    Merge(in.existing_value, in.operand_list, &out->new_value);
    return true;
  }

  bool PartialMergeMulti(const rocksdb::Slice&, const std::deque<rocksdb::Slice>& operands, std::string* merged,
                         rocksdb::Logger*) const override {
    Merge(nullptr, operands, merged);
    return true;
  }

  const char* Name() const override { return "sfkv.TableMerge.1"; }

 private:
  // "first" may be null. An iterator hands over the string of the row before.
  template <typename Operands>
  static void Merge(const rocksdb::Slice* first, const Operands& operands, std::string* merged) {
    const std::string_view front = AsView(first != nullptr ? *first : operands.front());
    const size_t rest = first != nullptr ? 0 : 1;  // where the operands behind "front" begin
    if (IsFold(front)) {
      merged->assign(front);
      bool in_place = true;
      for (size_t i = rest; in_place && i < operands.size(); ++i) in_place = FoldInPlace(merged->data(), merged->size(), AsView(operands[i]));
      if (in_place) return;
      std::vector<std::string_view> rows{front};
      for (size_t i = rest; i < operands.size(); ++i) rows.push_back(AsView(operands[i]));
      merged->clear();
      return FoldRows(rows, merged);
    }
    size_t bytes = front.size();
    for (size_t i = rest; i < operands.size(); ++i) bytes += operands[i].size();
    merged->clear();
    merged->reserve(bytes);
    merged->append(front);
    for (size_t i = rest; i < operands.size(); ++i) merged->append(operands[i].data(), operands[i].size());
  }
};

}  // namespace sfkv
