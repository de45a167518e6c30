// The Arrow array that whole maps are read as. No state.
#pragma once

#include "sfkv/key_batch.h"
#include "sfkv/map_codec.h"
#include "sfkv/row_set.h"
#include "sfkv/value_codec.h"

namespace sfkv {

struct MapCodecs {
  const KeyCodec& user_keys;
  const ValueCodec& values;
};

// Makes an array of maps, one for each row of "keys". The entries of distinct key number d are those from firsts[d] up to firsts[d + 1].
// REQUIRES: keys.Sort() was called.
inline Status BuildMaps(const KeyBatch& keys, const RowList& user_keys, const RowList& values, const std::vector<size_t>& firsts,
                        const MapCodecs& codecs, ArrowArray* out) {
  const std::vector<uint32_t> distinct_of = keys.DistinctOfPositions();
  int64_t count = 0;
  for (uint32_t distinct : distinct_of) count += static_cast<int64_t>(firsts[distinct + 1] - firsts[distinct]);
  SFKV_RETURN_IF_ERROR(ListOffsets::CheckCount(count, Layout::kPlain));
  Builders key_builders = MakeBuilders(codecs.user_keys.columns(), count);
  Builders value_builders = MakeBuilders(codecs.values.columns(), count);
  ValidityBuilder present(count);
  ListOffsets maps(static_cast<int64_t>(keys.size()), Layout::kPlain);
  int64_t at = 0;
  for (size_t position = 0; position < distinct_of.size(); ++position) {
    for (size_t e = firsts[distinct_of[position]]; e < firsts[distinct_of[position] + 1]; ++e, ++at) {
      bool is_none = false;
      std::string_view row;
      const auto rest = codecs.user_keys.ParseFront(user_keys.Get(e), at, &key_builders);
      const bool is_entry = rest && rest->empty() && ParseMapValue(values.Get(e), &is_none, &row);
      if (!is_entry || !(is_none || codecs.values.ParseRow(row, at, &value_builders))) return UnreadableRow(static_cast<int64_t>(position));
      if (!is_none) present.Set(at);
    }
    maps.EndList(at);
  }
  OwnedArray children[2], entries;
  SFKV_RETURN_IF_ERROR(codecs.user_keys.is_record() ? FinishRecord(&key_builders, count, nullptr, children[0].get())
                                                    : FinishColumn(&key_builders[0], count, nullptr, children[0].get()));
  SFKV_RETURN_IF_ERROR(FinishValues(codecs.values, &value_builders, count, &present, children[1].get()));
  FinishStruct(children, 2, count, entries.get());
  maps.Finish(static_cast<int64_t>(keys.size()), std::move(entries), out);
  return Status::OK();
}

}  // namespace sfkv
