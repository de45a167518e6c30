// All tables of a store in memory, and the store's own rows: what is read and written by single keys, by ranges, and undone.
//
// Every write happens inside Write(), which holds the memory limit: while there is room beyond doubt nothing is checked; near the
// limit, and in a batch over several states, what was there is remembered (undo_log.h) and put back if the write may not stand.
// To put it back takes memory where a view has begun since. As long as there is none, the rest is left to be put back before the next
// call, which fails instead if it cannot be.
// Owns the heap and the tables. One thread.
#pragma once

#include <array>
#include <map>

#include "sfkv/memory_table.h"
#include "sfkv/object_holds.h"
#include "sfkv/undo_log.h"

namespace sfkv {

// What a write will take at the least, as far as that is known before.
struct WriteSize {
  size_t rows = 0;
  size_t bytes = 0;
};

// What calls end with while there are changes that could not be taken back yet.
struct NotTakenBack : std::bad_alloc {
  const char* what() const noexcept override {
    return "there is not enough memory to take back what a call or a batch had changed that failed: free some, and try again";
  }
};

class MemoryTables {
 public:
  explicit MemoryTables(size_t limit_bytes) : limit_bytes_(limit_bytes), held_bytes_(limit_bytes - SpareOf(limit_bytes)), heap_(held_bytes_) {}

  // Which key groups there are. To be called before there are rows.
  void Own(KeyGroupRange range) { range_ = range; }
  KeyGroupRange range() const { return range_; }
  RowHeap* heap() { return &heap_; }
  ObjectNotes* objects() { return &objects_; }

  // Makes a table, or gives one another shape, for which its rows are moved.
  void Declare(const TableShape& shape) {
    std::unique_ptr<MemoryTable>& table = tables_[shape.table];
    if (table == nullptr || table->rows() == 0) {
      table = MakeTable(shape, &heap_);
    } else if (!IsSame(table->shape(), shape)) {
      Reshape(&table, shape);
    }
  }

  const MemoryTable* table(uint8_t id) const { return tables_[id].get(); }
  // That of the keys of a batch; null if there is none yet, or no key.
  const MemoryTable* TableFor(const KeyBatch& keys) const { return keys.size() == 0 ? nullptr : tables_[TableOf(keys.Key(0))].get(); }

  // Of the objects that rows held nobody is told: who keeps them lets go of all.
  void Clear() {
    for (std::unique_ptr<MemoryTable>& table : tables_) table = nullptr;
    objects_ = ObjectNotes();
    for (const auto& [key, row] : reserved_) heap_.Count(ReservedBytes(key, row), 0);
    reserved_.clear();
    write_ = batch_ = suspended_ = UndoLog();
    left_ = {};
    undo_ = nullptr;
    in_batch_ = is_suspended_ = false;
  }

  // To be called before anything is read or written, but DropBatch() and Clear(): takes back what could not be for want of memory, or
  // throws NotTakenBack, and the tables are not as they should be.
  void RequireTakenBack() {
    if (left_.log == nullptr) return;
    try {
      TakeBackRest();
    } catch (const std::bad_alloc&) {
      throw NotTakenBack();
    }
  }

  // --- Rows by their encoded keys.

  // No data if there is none. Valid until the next write.
  std::string_view Find(std::string_view key) const {
    if (IsReserved(key)) {
      const auto found = reserved_.find(key);
      return found == reserved_.end() ? std::string_view() : std::string_view(found->second);
    }
    const MemoryTable* table = tables_[TableOf(key)].get();
    return table == nullptr ? std::string_view() : table->Find(key);
  }

  const std::map<std::string, std::string, std::less<>>& reserved() const { return reserved_; }

  // Brings what a write of several rows will touch into the cache. REQUIRES: count <= MemoryTable::kMostAtOnce.
  void PrefetchMany(const std::string_view* keys, size_t count) const {
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
      const uint8_t id = TableOf(keys[begin]);
      while (end < count && TableOf(keys[end]) == id && !IsReserved(keys[end])) ++end;
      if (end == begin) {
        ++end;
      } else if (tables_[id] != nullptr) {
        tables_[id]->PrefetchMany(keys + begin, end - begin);
      }
    }
  }

  // Runs a write, which makes the changes below. If it would pass the limit, or fails in an open batch or near the limit, nothing of it
  // stays. Where there is room beyond doubt nothing is remembered: of a write that fails, for want of the machine's memory, the changes
  // that it had made stay, and each row is as it was or as it was to be.
  template <typename Change>
  Status Write(WriteSize size, Change&& change) {
    SFKV_REQUIRES(left_.log == nullptr);
    if (in_batch_ && batch_bytes_ + size.bytes > kMaxBatchBytes) return BatchTooLarge();
    if (!in_batch_ && HasRoomBeyondDoubt(size)) {
      change();
      return Status::OK();
    }
    if (!in_batch_) undo_ = &write_;
    const size_t mark = undo_->size();
    if (limit_bytes_ != 0) heap_.HoldTo(std::max(held_bytes_, heap_.used_bytes()));
    try {
      change();
      heap_.Require(0);
    } catch (const LimitPassed&) {
      UndoWrite(mark);
      return PastLimit();
    } catch (...) {
      UndoWrite(mark);
      throw;
    }
    EndWrite();
    if (in_batch_) {
      batch_bytes_ += size.bytes;
    } else {
      Forget(&write_);
    }
    return Status::OK();
  }

  // --- Changes, each whole or not at all. REQUIRES: inside Write().

  void Put(std::string_view key, std::string_view row) {
    Remember(key);
    if (IsReserved(key)) {
      PutReserved(key, row);
    } else if (const TableShape* shape = ShapeWithObjects(key)) {
      PutObjects(*shape, key, row);
    } else {
      char* at = Place(key, row.size(), 0);
      if (!row.empty()) std::memcpy(at, row.data(), row.size());
    }
    heap_.Require(0);
  }
  void Erase(std::string_view key) {
    Remember(key);
    if (IsReserved(key)) {
      const auto found = reserved_.find(key);
      if (found == reserved_.end()) return;
      heap_.Count(ReservedBytes(key, found->second), 0);
      reserved_.erase(found);
    } else if (const TableShape* shape = ShapeWithObjects(key)) {
      const std::string old(Find(key));
      tables_[TableOf(key)]->Erase(key);
      ReleaseObjects(&objects_, *shape, old);
    } else if (tables_[TableOf(key)] != nullptr) {
      tables_[TableOf(key)]->Erase(key);
    }
  }
  // Makes a row longer by what write(where) then writes, "bytes" of it; a row that is not there yet begins with it.
  template <typename Write>
  void Extend(std::string_view key, size_t bytes, Write&& write) {
    const size_t length = Find(key).size();
    if (undo_ != nullptr && length != 0) {
      undo_->RememberLength(key, length);
    } else {
      Remember(key);
    }
    if (const TableShape* shape = ShapeWithObjects(key)) {
      std::string more(bytes, '\0');
      write(more.data());
      AdoptObjects adopting(&objects_, *shape, more);
      std::memcpy(Place(key, length + bytes, length) + length, more.data(), bytes);
      adopting.Done();
    } else {
      write(Place(key, length + bytes, length) + length);
    }
    heap_.Require(0);
  }
  // Folds a fold row (fold.h) into that of a key, where it lies if it can.
  void Fold(std::string_view key, std::string_view operand) {
    const MemoryTable* table = tables_[TableOf(key)].get();
    const bool lies_still = table != nullptr && table->shape().value_is_fixed && table->shape().value_bytes == operand.size();
    if (lies_still) {
      Remember(key);
      const size_t rows = table->rows();
      char* at = Place(key, operand.size(), operand.size());
      if (tables_[TableOf(key)]->rows() != rows) {  // Place() may have made another table
        std::memcpy(at, operand.data(), operand.size());
        return heap_.Require(0);
      }
      if (FoldInPlace(at, operand.size(), operand)) return;
    }
    const std::string_view stored = Find(key);
    if (stored.data() == nullptr) return Put(key, operand);
    std::string row;
    MergeRows({stored, operand}, &row);
    Put(key, row);
  }
  void EraseRange(uint8_t id, int key_group, const RowRange& rows) {
    MemoryTable* table = tables_[id].get();
    if (table == nullptr) return;
    RowList released;
    if (undo_ != nullptr || table->shape().holds_objects) {
      table->VisitRange(key_group, rows, [&](std::string_view key, std::string_view row) {
        if (undo_ != nullptr) RememberRow(&table->shape(), Encoded(key_group, id, key), row);
        if (table->shape().holds_objects) released.Add(row);
        return true;
      });
    }
    table->EraseRange(key_group, rows);
    for (size_t i = 0; i < released.size(); ++i) ReleaseObjects(&objects_, table->shape(), released.Get(i));
  }
  void ClearTable(uint8_t id) {
    // With its shape: the next state of this number may be one that declares none.
    const std::unique_ptr<MemoryTable> cleared = std::move(tables_[id]);
    if (cleared != nullptr) ReleaseAll(*cleared);
  }

  // --- A batch over several states.

  bool in_batch() const { return in_batch_; }
  void BeginBatch() {
    in_batch_ = true;
    batch_bytes_ = 0;
    undo_ = &batch_;
  }
  void CommitBatch() {
    in_batch_ = false;
    undo_ = nullptr;
    Forget(&batch_);
  }
  // Never fails: what cannot be taken back now is before the next call.
  void DropBatch() {
    if (!in_batch_) return;
    in_batch_ = false;
    undo_ = nullptr;
    Forget(&suspended_);  // what of the batch was not there again yet
    TakeBack({&batch_, 0, nullptr});
  }
  // Takes back what an open batch has written, until ResumeBatch(). If it fails, the batch is open as before.
  void SuspendBatch() {
    RequireTakenBack();
    if (!in_batch_) return;
    in_batch_ = false;
    is_suspended_ = true;
    undo_ = nullptr;
    TakeBack({&batch_, 0, &suspended_});
    if (left_.log == nullptr) return;
    ResumeBatch();
    throw std::bad_alloc();
  }
  // Never fails, as DropBatch().
  void ResumeBatch() {
    if (!is_suspended_) return;
    is_suspended_ = false;
    in_batch_ = true;
    undo_ = &batch_;
    TakeBack({&suspended_, 0, &batch_});
  }
  // Runs a change that stays whether the batch that is open does or not.
  template <typename Change>
  void WriteThrough(Change&& change) {
    const RememberIn nothing(this, nullptr);
    change();
  }

  static bool IsReserved(std::string_view key) { return GroupOf(key) == kReservedGroup; }
  static std::string Encoded(int key_group, uint8_t table, std::string_view row) {
    std::string key(kKeyHeaderBytes, '\0');
    EncodeKeyHeader(key.data(), key_group, table);
    return key.append(row);
  }

 private:
  Status PastLimit() const {
    return Status(Code::kLimit, "the state would take more than memory_limit=" + std::to_string(limit_bytes_) +
                                    " bytes: open it with a larger one, or keep it on disk, in EmbeddedRocksDBStateBackend");
  }
  static bool IsSame(const TableShape& a, const TableShape& b) {
    return a.is_ordered == b.is_ordered && a.key_bytes == b.key_bytes && a.value_bytes == b.value_bytes && a.value_is_fixed == b.value_is_fixed &&
           a.holds_objects == b.holds_objects && a.kind == b.kind;
  }

  // Where changes are remembered while it lives, if anywhere.
  class RememberIn {
   public:
    RememberIn(MemoryTables* tables, UndoLog* log) : tables_(tables), before_(std::exchange(tables->undo_, log)) {}
    ~RememberIn() { tables_->undo_ = before_; }
    RememberIn(const RememberIn&) = delete;
    RememberIn& operator=(const RememberIn&) = delete;

   private:
    MemoryTables* tables_;
    UndoLog* before_;
  };

  void PutObjects(const TableShape& shape, std::string_view key, std::string_view row) {
    const std::string old(Find(key));
    AdoptObjects adopting(&objects_, shape, row);
    char* at = Place(key, row.size(), 0);
    if (!row.empty()) std::memcpy(at, row.data(), row.size());
    adopting.Done();
    ReleaseObjects(&objects_, *ShapeWithObjects(key), old);
  }
  void Truncate(std::string_view key, size_t bytes) {
    if (const TableShape* shape = ShapeWithObjects(key)) {
      const std::string cut(Find(key).substr(bytes));
      Place(key, bytes, bytes);
      ReleaseObjects(&objects_, *shape, cut);
    } else {
      Place(key, bytes, bytes);
    }
  }

  // As MemoryTable's. A row that does not fit the table's shape, which may come from a file, gets it one that takes all.
  char* Place(std::string_view key, size_t value_bytes, size_t kept) {
    std::unique_ptr<MemoryTable>& table = tables_[TableOf(key)];
    TableShape any;
    any.table = TableOf(key);
    any.range = range_;
    if (table == nullptr) table = MakeTable(any, &heap_);
    char* at = table->Place(key, value_bytes, kept);
    if (at != nullptr) return at;
    any.is_ordered = table->shape().is_ordered;
    any.holds_objects = table->shape().holds_objects;
    any.kind = table->shape().kind;
    Reshape(&table, any);
    return table->Place(key, value_bytes, kept);
  }
  void PutReserved(std::string_view key, std::string_view row) {
    const auto found = reserved_.find(key);
    const size_t before = found == reserved_.end() ? 0 : ReservedBytes(key, found->second);
    const size_t after = ReservedBytes(key, row);
    heap_.Require(after > before ? after - before : 0);
    reserved_.insert_or_assign(std::string(key), std::string(row));
    heap_.Count(before, after);
  }
  static size_t ReservedBytes(std::string_view key, std::string_view row) { return kMapNodeBytes + key.size() + row.size(); }

  // Moves a table's rows into one of another shape; where some do not fit, into one that takes all.
  void Reshape(std::unique_ptr<MemoryTable>* table, TableShape shape) {
    const FrozenTable rows = (*table)->Freeze(range_, {});
    const SlotForm form = FormOf(shape);
    const RowRange all;
    VisitRows(rows, all, [&](int, std::string_view key, std::string_view row) {
      if (form.Fits(key.size(), row.size())) return;
      shape.key_bytes = shape.value_bytes = TableShape::kAnyBytes;
      shape.value_is_fixed = false;
    });
    const size_t held_to = heap_.held_to();
    heap_.HoldTo(RowHeap::kNoLimit);  // for a while the rows are there twice
    std::unique_ptr<MemoryTable> made = MakeTable(shape, &heap_);
    VisitRows(rows, all, [&](int key_group, std::string_view key, std::string_view row) {
      char* at = made->Place(Encoded(key_group, shape.table, key), row.size(), 0);
      if (!row.empty()) std::memcpy(at, row.data(), row.size());
    });
    *table = std::move(made);
    heap_.HoldTo(held_to);
  }
  template <typename Visit>
  static void VisitRows(const FrozenTable& table, const RowRange& range, Visit&& visit) {
    for (const FrozenGroup& group : table.groups) {
      for (FrozenRows rows(table, group, range, /*reverse=*/false); rows.Next();) visit(group.key_group, rows.key(), rows.value());
    }
  }

  // No write makes more than a page for a row, nor more than as many pages as there are.
  bool HasRoomBeyondDoubt(WriteSize size) const {
    if (limit_bytes_ == 0) return true;
    const size_t used = heap_.used_bytes();
    return used + std::min(size.rows * kMostPageBytes, used) + size.rows * kMostRowBytes + 2 * size.bytes <= held_bytes_;
  }

  void Remember(std::string_view key) {
    if (undo_ != nullptr) RememberRow(ShapeWithObjects(key), key, Find(key));
  }
  // "shape": the table's, if that holds objects, which the log holds too.
  void RememberRow(const TableShape* shape, std::string_view key, std::string_view row) {
    const auto stored = row.data() == nullptr ? std::nullopt : std::optional<std::string_view>(row);
    if (shape == nullptr || !stored) return undo_->Remember(key, stored);
    AdoptObjects adopting(&objects_, *shape, row);
    undo_->Remember(key, stored);
    adopting.Done();
  }

  // The shape of a key's table, if that holds objects.
  const TableShape* ShapeWithObjects(std::string_view key) const {
    if (IsReserved(key)) return nullptr;
    const MemoryTable* table = tables_[TableOf(key)].get();
    return table != nullptr && table->shape().holds_objects ? &table->shape() : nullptr;
  }
  void ReleaseAll(const MemoryTable& table) {
    if (!table.shape().holds_objects) return;
    const RowRange all;
    try {
      VisitRows(table.Freeze(range_, all), all, [&](int, std::string_view, std::string_view row) { objects_.Release(table.shape(), row); });
    } catch (const std::bad_alloc&) {
    }
  }
  // Of a row that a log remembered.
  void ReleaseRemembered(std::string_view key, std::string_view row) {
    if (const TableShape* shape = ShapeWithObjects(key)) ReleaseObjects(&objects_, *shape, row);
  }
  // Ends a log whose changes stay.
  void Forget(UndoLog* log) {
    log->VisitRows([this](std::string_view key, std::string_view row) { ReleaseRemembered(key, row); });
    *log = UndoLog();
  }

  void EndWrite() {
    heap_.HoldTo(RowHeap::kNoLimit);
    undo_ = in_batch_ ? &batch_ : nullptr;
  }
  // Ends a write, and takes back what it changed since "mark".
  void UndoWrite(size_t mark) {
    UndoLog* log = undo_;
    EndWrite();
    TakeBack({log, mark, nullptr});
  }

  // Changes that are to be taken back: those behind the first "mark" entries of a log. Another one, if there is one, remembers what is
  // there before.
  struct ToTakeBack {
    UndoLog* log = nullptr;
    size_t mark = 0;
    UndoLog* into = nullptr;
  };
  // Takes back as much as there is memory for.
  void TakeBack(ToTakeBack changes) {
    left_ = changes;
    try {
      TakeBackRest();
    } catch (const std::bad_alloc&) {
    }
  }
  void TakeBackRest() {
    const RememberIn into(this, left_.into);
    left_.log->UndoTo(
        left_.mark,
        [this](std::string_view key, std::string_view row) {
          if (const std::string_view now = Find(key); now.data() == nullptr || now != row) Put(key, row);
          Trim(key);
          ReleaseRemembered(key, row);
        },
        [this](std::string_view key) {
          if (Find(key).data() != nullptr) Erase(key);
          Trim(key);
        },
        [this](std::string_view key, size_t bytes) {
          if (Find(key).size() != bytes) {
            Remember(key);
            Truncate(key, bytes);
          }
          Trim(key);
        });
    if (left_.mark == 0) *left_.log = UndoLog();
    left_ = {};
  }
  // Near a limit, no more is to be left of what was taken back than there was.
  void Trim(std::string_view key) {
    if (limit_bytes_ != 0 && !IsReserved(key) && tables_[TableOf(key)] != nullptr) tables_[TableOf(key)]->Trim(key);
  }

  static constexpr size_t kMostPageBytes = size_t{32} << 10;
  static constexpr size_t kMostRowBytes = 1024;  // of pages, beside the row itself
  static constexpr size_t kMapNodeBytes = 112;   // of a reserved row

  // A write of many rows that is refused may leave pages split that were split for the first ones, beside rows that it had removed: a share
  // of the limit is kept for that, and of a small one room for a page.
  static size_t SpareOf(size_t limit_bytes) { return std::max(limit_bytes / 64, std::min(size_t{8} << 10, limit_bytes / 4)); }

  const size_t limit_bytes_;
  const size_t held_bytes_;  // what writes are held to
  RowHeap heap_;
  ObjectNotes objects_;
  std::array<std::unique_ptr<MemoryTable>, 256> tables_;
  std::map<std::string, std::string, std::less<>> reserved_;
  KeyGroupRange range_;
  UndoLog write_;  // near the limit
  UndoLog batch_;
  UndoLog suspended_;  // what the open batch had changed when it was taken back for a while
  bool is_suspended_ = false;
  UndoLog* undo_ = nullptr;  // the one of them that is written
  ToTakeBack left_;          // for the next call; no log if there is nothing
  bool in_batch_ = false;
  size_t batch_bytes_ = 0;
};

}  // namespace sfkv
