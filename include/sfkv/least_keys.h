// The least key that may be stored of a table, for each key group: what lets a scan of the oldest rows pass over all groups that
// have none, without asking the engine, and begin behind the rows that were fired and deleted before.
//
// It is a lower bound: no row that is stored is less. At first nothing is known, which is the bound of no bytes. A write lowers
// the bound before it is written, so that it holds whether the write succeeds or not, and is dropped or not; deleting
// a row leaves it. A scan raises it to the first row that it found, unless a row of the group was put since the scan began, which it does not see.
// In memory only; belongs to the store, one for a table, whoever reads and writes it. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sfkv/key_codec.h"

namespace sfkv {

class LeastKeys {
 public:
  explicit LeastKeys(KeyGroupRange owned) : owned_(owned), groups_(static_cast<size_t>(owned.last - owned.first + 1)) {}

  // To be called before a row is put, with its encoded key.
  void Lower(std::string_view key) {
    Group& group = At(GroupOf(key));
    const std::string_view row = key.substr(kKeyHeaderBytes);
    group.put_at = ++puts_;
    if (!group.is_empty && group.least <= row) return;
    group.is_empty = false;
    group.least.assign(row);
  }

  // A number that tells later whether a row was put since: see IsUntouched().
  uint64_t puts() const { return puts_; }
  bool IsUntouched(int key_group, uint64_t since) const { return At(key_group).put_at <= since; }

  // Whether a key group has no row below "upper", which is none if it is empty.
  bool HasNoneBelow(int key_group, std::string_view upper) const {
    const Group& group = At(key_group);
    return group.is_empty || (!upper.empty() && group.least >= upper);
  }
  // REQUIRES: not HasNoneBelow(key_group, "").
  const std::string& least(int key_group) const { return At(key_group).least; }

  // No row of the group is less than "row", or there is none at all.
  void Raise(int key_group, std::optional<std::string_view> row) {
    Group& group = At(key_group);
    if (!row) group.is_empty = true;
    if (!group.is_empty && group.least < *row) group.least.assign(*row);
  }

 private:
  struct Group {
    std::string least;
    bool is_empty = false;
    uint64_t put_at = 0;
  };

  Group& At(int key_group) { return groups_[static_cast<size_t>(key_group - owned_.first)]; }
  const Group& At(int key_group) const { return groups_[static_cast<size_t>(key_group - owned_.first)]; }

  KeyGroupRange owned_;
  std::vector<Group> groups_;
  uint64_t puts_ = 0;
};

}  // namespace sfkv
