// What rows were before they were written, so that a write which may not stand can be taken back: a batch that is dropped, or a call
// that would pass the memory limit. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sfkv {

class UndoLog {
 public:
  // Remembers a row as it is now; nothing where there is none.
  void Remember(std::string_view key, std::optional<std::string_view> row) {
    entries_.push_back({std::string(key), row ? std::optional<std::string>(*row) : std::nullopt, 0});
  }
  // Remembers how long a row is that is about to be appended to.
  void RememberLength(std::string_view key, size_t bytes) { entries_.push_back({std::string(key), std::string(), bytes}); }

  size_t size() const { return entries_.size(); }

  // Calls visit(key, row) for the rows that are remembered.
  template <typename Visit>
  void VisitRows(Visit&& visit) const {
    for (const Entry& entry : entries_) {
      if (entry.row && entry.length == 0) visit(entry.key, *entry.row);
    }
  }

  // Forgets all but the first "size" entries, the last first. Calls put(key, row), remove(key) or truncate(key, bytes) for each; if one
  // fails, its entry is there to be tried again.
  template <typename Put, typename Remove, typename Truncate>
  void UndoTo(size_t size, Put&& put, Remove&& remove, Truncate&& truncate) {
    while (entries_.size() > size) {
      const Entry& entry = entries_.back();
      if (entry.length != 0) {
        truncate(entry.key, entry.length);
      } else if (entry.row) {
        put(entry.key, *entry.row);
      } else {
        remove(entry.key);
      }
      entries_.pop_back();
    }
  }

 private:
  struct Entry {
    std::string key;
    std::optional<std::string> row;
    size_t length;  // of a row that was appended to; else 0
  };
  std::vector<Entry> entries_;
};

}  // namespace sfkv
