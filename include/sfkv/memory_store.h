// A store in memory: the rows of all states of one keyed backend.
//
// The same Rows as of a database, and the same bytes in them, so that all states work on it and either store's rows can be given to
// the other. Nothing here does I/O or waits. One thread at a time, by the callers' Call scopes (lifetime.h); Close() and the end of
// scans may come from any thread.
#pragma once

#include "sfkv/memory_batches.h"
#include "sfkv/memory_scan.h"

namespace sfkv {

class MemoryStore : public Rows, private Counted<MemoryStore> {
 public:
  // "limit_bytes": what the rows may take; 0 for no limit.
  explicit MemoryStore(size_t limit_bytes) : tables_(std::make_unique<MemoryTables>(limit_bytes)) {}
  ~MemoryStore() override {
    bool begun = false;
    if (lifetime_.InChild()) {
      static_cast<void>(tables_.release());  // to free it may need a lock that a thread of the parent held
    } else if (lifetime_.BeginClose(&begun).ok() && begun) {
      FinishClose(true);
    }
  }
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;
  using Counted<MemoryStore>::live;

  // Starts to close: when "*begun" is true, no call enters any more, and of a batch that was open nothing is seen. See Lifetime. If there
  // is no memory to take that batch back, the store is open as before.
  Status BeginClose(bool* begun) {
    *begun = false;
    if (lifetime_.InChild()) return Status::OK();
    SFKV_RETURN_IF_ERROR(lifetime_.BeginClose(begun));
    if (!*begun) return Status::OK();
    try {
      tables_->SuspendBatch();
    } catch (...) {
      *begun = false;
      lifetime_.FinishClose(false);
      throw;
    }
    return Status::OK();
  }
  // Ends the children and gives the memory back; or, if "closed" is false, goes on as if nothing had been.
  void FinishClose(bool closed) {
    if (closed) {
      scans_->EndAll();
      tables_->Clear();
    } else {
      tables_->ResumeBatch();
    }
    lifetime_.FinishClose(closed);
  }

  Lifetime* lifetime() { return &lifetime_; }
  size_t open_scans() const { return scans_->count(); }

  // What tells how much is used and kept, and which epoch is seen, may be asked by any thread; all else needs a Call scope.
  MemoryTables* tables() { return tables_.get(); }

  // REQUIRES for all that follow: a Call scope.

  bool Declare(const TableShape& shape) override {
    Whole()->Declare(shape);
    return shape.is_ordered;
  }

  std::shared_ptr<Cursor> NewScan(const ScanOptions& options, const KeyCodec& keys, const KeyCodec& user_keys, const ValueCodec& values) override {
    return std::make_shared<MemoryScan>(Whole()->table(options.table), Whole()->heap(), scans_, ScanBatch(options, keys, user_keys, values));
  }

  bool InBatch() const override { return tables_->in_batch(); }
  Status BeginBatch() override {
    if (InBatch()) return Status(Code::kUsage, "a batch is open already: end it first");
    Whole()->BeginBatch();
    return Status::OK();
  }
  Status CommitBatch() override {
    if (!InBatch()) return Status(Code::kUsage, "no batch is open");
    Whole()->CommitBatch();
    return Status::OK();
  }
  void DropBatch() override { tables_->DropBatch(); }

  Status ReadRange(std::string_view first, std::string_view bound, std::vector<std::string>* keys, std::vector<std::string>* values) override {
    const auto add = [&](std::string_view key, std::string_view value) {
      if (key < first || key >= bound) return;
      keys->emplace_back(key);
      values->emplace_back(value);
    };
    const KeyGroupRange owned = Whole()->range();
    const int begin = first.size() < kKeyHeaderBytes ? owned.first : std::max(owned.first, GroupOf(first));
    const int end = bound.size() < kKeyHeaderBytes ? owned.last : std::min(owned.last, GroupOf(bound));
    const RowRange all;
    for (int group = begin; group <= end; ++group) {
      for (int id = 0; id < 256; ++id) {
        const MemoryTable* table = tables_->table(static_cast<uint8_t>(id));
        if (table == nullptr) continue;
        const std::string header = MemoryTables::Encoded(group, static_cast<uint8_t>(id), {});
        if (header >= bound || PrefixBound(header) <= first) continue;
        const FrozenTable frozen = table->Freeze({group, group}, all);
        if (frozen.groups.empty()) continue;
        for (FrozenRows rows(frozen, frozen.groups[0], all, /*reverse=*/false); rows.Next();) {
          add(MemoryTables::Encoded(group, static_cast<uint8_t>(id), rows.key()), rows.value());
        }
      }
    }
    for (const auto& [key, value] : tables_->reserved()) add(key, value);
    return Status::OK();
  }

  Status WriteRows(WriteBatch* rows) override {
    const Status status = Whole()->Write({rows->count(), rows->bytes()}, [&] { ApplyWrites(tables_.get(), *rows); });
    rows->Take();
    return status;
  }
  Status WriteRowsThrough(WriteBatch* rows) override {
    Whole()->WriteThrough([&] { ApplyWrites(tables_.get(), *rows); });
    rows->Take();
    return Status::OK();
  }
  void KeepLeastKeys(uint8_t, KeyGroupRange) override {}  // ordered tables know theirs
  Status DeleteRange(uint8_t id, KeyGroupRange range, const RowRange& rows, OffsetRow offset) override {
    return Write({1, 0}, offset, [&] {
      for (int group = range.first; group <= range.last; ++group) tables_->EraseRange(id, group, rows);
    });
  }
  Status DropTable(uint8_t id, KeyGroupRange) override {
    if (InBatch()) return Status(Code::kUsage, "dropping a state does not work inside a batch: end it first");
    Whole()->ClearTable(id);
    return Status::OK();
  }

  // --- Single rows.

  Status ReadRow(std::string_view key, bool, ByteBuffer* row, bool* found) override {
    const std::string_view stored = Whole()->Find(key);
    *found = stored.data() != nullptr;
    if (*found && row != nullptr) row->Append(stored.data(), stored.size());
    return Status::OK();
  }
  Status PutRow(std::string_view key, std::string_view row, bool) override {
    return Whole()->Write({1, key.size() + row.size()}, [&] { tables_->Put(key, row); });
  }
  Status DeleteRow(std::string_view key, bool) override {
    return Whole()->Write({0, key.size()}, [&] { tables_->Erase(key); });
  }

  // --- Batches of rows.

  Status ReadColumns(const KeyBatch& keys, const ValueCodec& codec, Builders* builders, ValidityBuilder* present) override {
    std::string_view rows[kMemoryChunk];
    int64_t positions[kMemoryChunk];
    return VisitRowsOf(*Whole(), keys, [&](const std::string_view* found, size_t begin, size_t count) {
      size_t some = 0;
      for (size_t i = 0; i < count; ++i) {
        if (found[i].data() == nullptr) continue;
        rows[some] = found[i];
        positions[some] = static_cast<int64_t>(keys.PositionAt(begin + i));
        present->Set(positions[some++]);
      }
      const size_t read = codec.ParseRows(rows, positions, some, builders);
      return read == some ? Status::OK() : UnreadableRow(positions[read]);
    });
  }
  Status ReadRows(const KeyBatch& keys, RowSet* rows) override {
    const auto read = [&](size_t count, auto&& key_of) {
      rows->Begin(count);
      return VisitRowsOfKeys(*Whole(), keys, count, key_of, [&](const std::string_view* found, size_t begin, size_t some) {
        for (size_t i = 0; i < some; ++i) {
          if (found[i].data() != nullptr) rows->Set(begin + i, found[i]);
        }
        return Status::OK();
      });
    };
    if (!keys.is_sorted()) return read(keys.size(), [&](size_t i) { return keys.Key(i); });
    return read(keys.distinct_count(), [&](size_t i) { return keys.DistinctKey(i); });
  }
  Status HaveRows(const KeyBatch& keys, ValidityBuilder* present) override {
    return VisitRowsOf(*Whole(), keys, [&](const std::string_view* found, size_t begin, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        if (found[i].data() != nullptr) present->Set(static_cast<int64_t>(keys.PositionAt(begin + i)));
      }
      return Status::OK();
    });
  }
  Status PutColumns(const KeyBatch& keys, const ValueCodec& codec, const Columns& values, const ColumnView* clears, OffsetRow offset) override {
    SFKV_RETURN_IF_ERROR(CheckValues(codec, values, clears));
    return Write(SizeOfRows(keys, codec, values, clears), offset, [&] { PutRows(tables_.get(), keys, codec, values, clears); });
  }
  Status DeleteRows(const KeyBatch& keys, OffsetRow offset) override {
    return Write({0, keys.bytes()}, offset, [&] { EraseRows(tables_.get(), keys); });
  }

  // --- Lists. REQUIRES: the keys are sorted.

  Status Append(AppendGuard*, std::string_view key, std::string_view elements) override {
    SFKV_RETURN_IF_ERROR(CheckAppend(key, elements.size(), -1));
    return Whole()->Write({1, key.size() + elements.size()}, [&] {
      tables_->Extend(key, elements.size(), [&](char* at) { std::memcpy(at, elements.data(), elements.size()); });
    });
  }
  Status AddToLists(AppendGuard*, const KeyBatch& keys, const ValueCodec& codec, const Columns& values, OffsetRow offset) override {
    SFKV_RETURN_IF_ERROR(CheckValues(codec, values, nullptr));
    std::vector<size_t> more(keys.distinct_count());
    WriteSize size{keys.distinct_count(), keys.bytes()};
    for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
      keys.VisitPositions(distinct, [&](int64_t i) { more[distinct] += ElementBytes(codec.RowBytes(values, i)); });
      size.bytes += more[distinct];
    }
    Status fits;
    VisitDistinct(*Whole(), keys, [&](size_t distinct, std::string_view key) {
      if (fits.ok()) fits = CheckAppend(key, more[distinct], keys.FirstPosition(distinct));
    });
    SFKV_RETURN_IF_ERROR(fits);
    return Write(size, offset, [&] {
      VisitDistinct(*tables_, keys, [&](size_t distinct, std::string_view key) {
        tables_->Extend(key, more[distinct], [&](char* at) {
          keys.VisitPositions(distinct, [&](int64_t i) { at = EncodeElement(codec, values, i, at); });
        });
      });
    });
  }
  Status UpdateLists(const KeyBatch& keys, const ValueCodec& codec, const ColumnView& lists, OffsetRow offset) override {
    std::vector<size_t> list_bytes;
    SFKV_RETURN_IF_ERROR(MeasureLists(codec, lists, &list_bytes));
    const Columns elements = ElementsOf(codec, lists);
    WriteSize size{keys.distinct_count(), keys.bytes()};
    for (size_t bytes : list_bytes) size.bytes += bytes;
    return Write(size, offset, [&] {
      ByteBuffer list;
      VisitDistinct(*tables_, keys, [&](size_t distinct, std::string_view key) {
        const int64_t i = keys.LastPosition(distinct);
        const size_t bytes = list_bytes[static_cast<size_t>(i)];
        if (bytes == 0) return tables_->Erase(key);
        list.Clear();
        EncodeList(codec, lists, elements, i, list.Extend(bytes));
        tables_->Put(key, {list.data(), bytes});
      });
    });
  }
  Status ReadLists(const KeyBatch& keys, const ValueCodec& codec, ArrowArray* out) override {
    std::vector<std::string_view> rows(keys.size());
    SFKV_RETURN_IF_ERROR(VisitRowsOf(*Whole(), keys, [&](const std::string_view* found, size_t begin, size_t count) {
      for (size_t i = 0; i < count; ++i) rows[keys.PositionAt(begin + i)] = found[i];
      return Status::OK();
    }));
    return BuildLists(static_cast<int64_t>(keys.size()), codec, [&](int64_t i) { return rows[static_cast<size_t>(i)]; }, out);
  }

  // --- Folds. REQUIRES: the keys are sorted, unless rows have a fixed size.

  Status FoldRow(FoldGuard*, std::string_view key, std::string_view operand, bool) override {
    if (Grows(operand)) SFKV_RETURN_IF_ERROR(CheckAppend(key, operand.size(), -1));
    return Whole()->Write({1, key.size() + operand.size()}, [&] { tables_->Fold(key, operand); });
  }
  Status FoldColumns(FoldGuard*, const KeyBatch& keys, const FoldCodec& codec, const Columns& values, OffsetRow offset) override {
    SFKV_RETURN_IF_ERROR(CheckValues(codec.values(), values, nullptr));
    if (codec.row_bytes() != 0) {
      return Write({keys.size(), keys.bytes() + keys.size() * codec.row_bytes()}, offset, [&] {
        FoldFixedRows(tables_.get(), keys, codec, values);
      });
    }
    RowList operands;
    SFKV_RETURN_IF_ERROR(FoldBatch(keys, codec, values, [&](size_t distinct, std::string_view row) {
      operands.Add(row);
      return codec.grows() ? CheckAppend(keys.DistinctKey(distinct), row.size(), keys.FirstPosition(distinct)) : Status::OK();
    }));
    return Write({keys.size(), keys.bytes() + operands.bytes().size()}, offset, [&] {
      VisitDistinct(*tables_, keys, [&](size_t distinct, std::string_view key) { tables_->Fold(key, operands.Get(distinct)); });
    });
  }

  // --- Maps. REQUIRES: the keys are sorted.

  Status PutEntries(const KeyBatch& entries, const ValueCodec& codec, const Columns& values, const ColumnView& rows, OffsetRow offset) override {
    SFKV_RETURN_IF_ERROR(CheckValues(codec, values, &rows));
    return Write(SizeOfRows(entries, codec, values, &rows), offset, [&] { PutEntryRows(tables_.get(), entries, codec, values, rows); });
  }
  Status ReadEntries(const KeyBatch& entries, const ValueCodec& codec, ArrowArray* out) override {
    const int64_t count = static_cast<int64_t>(entries.size());
    Builders builders = MakeBuilders(codec.columns(), count);
    ValidityBuilder present(count);
    SFKV_RETURN_IF_ERROR(VisitRowsOf(*Whole(), entries, [&](const std::string_view* found, size_t begin, size_t chunk) {
      for (size_t i = 0; i < chunk; ++i) {
        if (found[i].data() == nullptr) continue;
        const int64_t position = static_cast<int64_t>(entries.PositionAt(begin + i));
        bool is_none = false;
        std::string_view row;
        if (!ParseMapValue(found[i], &is_none, &row)) return UnreadableRow(position);
        if (is_none) continue;
        if (!codec.ParseRow(row, position, &builders)) return UnreadableRow(position);
        present.Set(position);
      }
      return Status::OK();
    }));
    return FinishValues(codec, &builders, count, &present, out);
  }
  Status ReadMaps(const KeyBatch& keys, const KeyCodec& user_codec, const ValueCodec& codec, ArrowArray* out) override {
    RowList user_keys, values;
    std::vector<size_t> firsts(1, 0);
    const MemoryTable* table = Whole()->TableFor(keys);
    for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
      const std::string_view key = keys.DistinctKey(distinct);
      if (table != nullptr) {
        table->VisitRange(GroupOf(key), RangeOfPrefix(key), [&](std::string_view row, std::string_view value) {
          user_keys.Add(row.substr(key.size() - kKeyHeaderBytes));
          values.Add(value);
          return true;
        });
      }
      firsts.push_back(user_keys.size());
    }
    return BuildMaps(keys, user_keys, values, firsts, {user_codec, codec}, out);
  }
  Status HaveEntries(const KeyBatch& keys, ValidityBuilder* present) override {
    for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
      bool found = false;
      SFKV_RETURN_IF_ERROR(HasEntry(keys.DistinctKey(distinct), &found));
      if (found) keys.VisitPositions(distinct, [&](int64_t position) { present->Set(position); });
    }
    return Status::OK();
  }
  Status HasEntry(std::string_view key, bool* found) override {
    *found = false;
    const MemoryTable* table = Whole()->table(TableOf(key));
    if (table == nullptr) return Status::OK();
    table->VisitRange(GroupOf(key), RangeOfPrefix(key), [&](std::string_view, std::string_view) {
      *found = true;
      return false;
    });
    return Status::OK();
  }
  Status ClearMaps(const KeyBatch& keys, OffsetRow offset) override {
    return Write({0, 0}, offset, [&] {
      for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) EraseMap(keys.DistinctKey(distinct));
    });
  }
  Status ClearMap(std::string_view key) override {
    return Write({0, 0}, {}, [&] { EraseMap(key); });
  }

 private:
  // The tables, for every call but those that end a batch or the store: without what is still to be taken back (memory_tables.h).
  MemoryTables* Whole() {
    tables_->RequireTakenBack();
    return tables_.get();
  }

  // A write with its offset.
  template <typename Change>
  Status Write(WriteSize size, OffsetRow offset, Change&& change) {
    if (!offset.key.empty()) {
      ++size.rows;
      size.bytes += offset.key.size() + offset.row.size();
    }
    return Whole()->Write(size, [&] {
      change();
      if (!offset.key.empty()) tables_->Put(offset.key, offset.row);
    });
  }

  Status CheckAppend(std::string_view key, size_t bytes, int64_t row) {
    const size_t length = Whole()->Find(key).size() + bytes;
    return length > kMaxValueBytes ? ValueTooLong(length, row) : Status::OK();
  }

  void EraseMap(std::string_view key) {
    tables_->EraseRange(TableOf(key), GroupOf(key), RangeOfPrefix(key));
  }

  Lifetime lifetime_;
  std::unique_ptr<MemoryTables> tables_;
  std::shared_ptr<OpenMemoryScans> scans_ = std::make_shared<OpenMemoryScans>();
};

}  // namespace sfkv
