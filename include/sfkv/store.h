// A store: one RocksDB database in one directory, opened in a slot; the rows of all states of one keyed backend.
//
// The store alone owns the database. One thread at a time, by the callers' Call scopes (lifetime.h); Close() and the end of
// scans may come from any thread. States work on it through its base, Rows. FORMAT.md sections 1 and 5.
#pragma once

#include <array>
#include <optional>

#include "sfkv/directory.h"
#include "sfkv/fold_table.h"
#include "sfkv/info_log.h"
#include "sfkv/scan.h"

namespace sfkv {

class Store : public Rows, private Counted<Store> {
 public:
  static Status Open(const StoreOptions& options, std::shared_ptr<Slot> slot, std::shared_ptr<Store>* store) {
    const std::string& path = options.path;
    if (slot->InChild()) return Status(Code::kForked, "this slot was made by the parent process: make one in the child");
    const HoldForks hold_forks;
    HoldTimerInForks();
    rocksdb::Options engine = MakeOptions(*slot);
    SFKV_RETURN_IF_ERROR(ChangeOptions(options.engine_options, &engine));
    auto flushes = std::make_shared<FlushWatch>();
    engine.listeners.push_back(flushes);
    engine.info_log = std::make_shared<InfoLog>(path);
    HeldDirectory directory;
    SFKV_RETURN_IF_ERROR(directory.Open(path, options.create, options.recover, StoreKind::kRocksDB));
    const std::string state = directory.found_state();
    directory.Release();

    rocksdb::DB* db = nullptr;
    const rocksdb::Status result = rocksdb::DB::Open(engine, path, &db);
    if (!result.ok()) {
      if (result.IsBusy()) return Held(path);
      // What could not be opened was not written to: the marker goes back to what it said.
      if (state == "clean") WriteMarker(path, "clean");
      return FromRocksDB(result);
    }
    LetForkedChildrenExit();
    store->reset(new Store(options, std::move(slot), db, std::move(flushes), state == "open"));
    return state == "new" ? WriteMarker(path, "open") : Status::OK();
  }

  // Ends the children and closes the database: after a flush, and marked clean; or, with discard, as it is, so that it
  // can only be opened with recover. If the flush or the mark fails, the store stays open and nothing is lost.
  Status Close(bool discard) {
    if (lifetime_.InChild()) return Status::OK();
    Closing closing;
    bool begun = false;
    SFKV_RETURN_IF_ERROR(closing.Begin(&lifetime_, &begun));
    if (!begun) return Status::OK();
    if (!discard) {
      SFKV_RETURN_IF_ERROR(table_->FlushAll());
      const Status marked = WriteMarker(options_.path, "clean");
      if (!marked.ok()) {
        WriteMarker(options_.path, "open");  // the mark may be there, though not durable
        return marked;
      }
    }
    flushes_->Watch(nullptr);
    if (discard) rocksdb::CancelAllBackgroundWork(db_.get(), /*wait=*/true);
    closing.End();
    scans_->EndAll();
    const HoldForks hold_forks;
    table_.reset();
    const Status status = FromRocksDB(db_->Close());
    db_.reset();
    slot_.reset();
    return discard ? Status::OK() : status;  // what is discarded may have been past keeping
  }

  ~Store() override {
    if (lifetime_.InChild()) {
      static_cast<void>(db_.release());  // its threads are the parent's: closing would wait for them for ever
      new std::shared_ptr<Slot>(slot_);
    } else {
      Close(/*discard=*/true);
    }
  }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  Lifetime* lifetime() { return &lifetime_; }
  // It was opened by recover, from a directory that had not been closed.
  bool was_unclean() const { return was_unclean_; }

  // REQUIRES for all that follow: a Call scope.
  Table* table() { return &*table_; }
  rocksdb::DB* db() { return db_.get(); }

  bool Declare(const TableShape&) override { return true; }
  Status ReadRange(std::string_view first, std::string_view bound, std::vector<std::string>* keys, std::vector<std::string>* values) override {
    const rocksdb::Slice upper = AsSlice(bound);
    rocksdb::ReadOptions read;
    read.iterate_upper_bound = &upper;
    const std::unique_ptr<rocksdb::Iterator> iterator = table_->NewIterator(read, std::nullopt);
    for (iterator->Seek(AsSlice(first)); iterator->Valid() && iterator->key().compare(upper) < 0; iterator->Next()) {
      keys->push_back(iterator->key().ToString());
      values->push_back(iterator->value().ToString());
    }
    return FromRocksDB(iterator->status());
  }

  // REQUIRES: no batch is open, unless only one key's entries are to be seen, and at once.
  std::shared_ptr<Cursor> NewScan(const ScanOptions& options, const KeyCodec& keys, const KeyCodec& user_keys, const ValueCodec& values) override {
    return std::make_shared<Scan>(*table_, scans_, least_[options.table], options, keys, user_keys, values);
  }
  bool InBatch() const override { return table_->InBatch(); }
  Status BeginBatch() override { return table_->BeginBatch(); }
  Status CommitBatch() override { return table_->CommitBatch(); }
  void DropBatch() override { table_->DropBatch(); }
  Status ReadRow(std::string_view key, bool may_wait, ByteBuffer* row, bool* found) override {
    rocksdb::PinnableSlice value;
    SFKV_RETURN_IF_ERROR(table_->Get(key, may_wait, &value, found));
    if (*found && row != nullptr) row->Append(value.data(), value.size());
    return Status::OK();
  }
  Status PutRow(std::string_view key, std::string_view row, bool may_wait) override {
    LowerLeast(key);
    return table_->Put(key, row, may_wait);
  }
  Status DeleteRow(std::string_view key, bool may_wait) override { return table_->Delete(key, may_wait); }
  Status ReadColumns(const KeyBatch& keys, const ValueCodec& codec, Builders* builders, ValidityBuilder* present) override {
    return table_->ReadColumns(keys, codec, builders, present);
  }
  Status ReadRows(const KeyBatch& keys, RowSet* rows) override { return table_->ReadRows(keys, rows); }
  Status HaveRows(const KeyBatch& keys, ValidityBuilder* present) override { return table_->Contains(keys, present); }
  Status PutColumns(const KeyBatch& keys, const ValueCodec& codec, const Columns& values, const ColumnView* clears, OffsetRow offset) override {
    if (keys.size() != 0 && least_[TableOf(keys.Key(0))] != nullptr) LowerLeast(keys, clears);
    return table_->PutColumns(keys, codec, values, clears, offset);
  }
  Status DeleteRows(const KeyBatch& keys, OffsetRow offset) override { return table_->DeleteAll(keys, offset); }
  Status WriteRows(WriteBatch* rows) override { return table_->Write(rows); }
  Status WriteRowsThrough(WriteBatch* rows) override { return table_->WriteThrough(rows); }
  void KeepLeastKeys(uint8_t id, KeyGroupRange range) override {
    if (least_[id] == nullptr) least_[id] = std::make_shared<LeastKeys>(range);
  }
  Status DeleteRange(uint8_t id, KeyGroupRange range, const RowRange& rows, OffsetRow offset) override {
    return sfkv::DeleteRange(&*table_, least_[id].get(), id, range, rows, offset);
  }
  Status DropTable(uint8_t id, KeyGroupRange range) override {
    least_[id] = nullptr;
    return DropRows(&*table_, id, range);
  }
  size_t open_scans() const { return scans_->count(); }
  // How often scans have made an iterator or sought with one.
  uint64_t scan_seeks() const { return scans_->seeks(); }

  Status Append(AppendGuard* guard, std::string_view key, std::string_view elements) override {
    return AppendToList(&*table_, guard, key, elements);
  }
  Status AddToLists(AppendGuard* guard, const KeyBatch& keys, const ValueCodec& codec, const Columns& values, OffsetRow offset) override {
    return sfkv::AddToLists(&*table_, guard, keys, codec, values, offset);
  }
  Status UpdateLists(const KeyBatch& keys, const ValueCodec& codec, const ColumnView& lists, OffsetRow offset) override {
    return sfkv::UpdateLists(&*table_, keys, codec, lists, offset);
  }
  Status ReadLists(const KeyBatch& keys, const ValueCodec& codec, ArrowArray* out) override {
    return sfkv::ReadLists(*table_, keys, codec, out);
  }
  Status FoldRow(FoldGuard* guard, std::string_view key, std::string_view operand, bool may_wait) override {
    return FoldOperand(&*table_, guard, key, operand, may_wait);
  }
  Status FoldColumns(FoldGuard* guard, const KeyBatch& keys, const FoldCodec& codec, const Columns& values, OffsetRow offset) override {
    return sfkv::FoldColumns(&*table_, guard, keys, codec, values, offset);
  }
  Status PutEntries(const KeyBatch& entries, const ValueCodec& codec, const Columns& values, const ColumnView& rows, OffsetRow offset) override {
    return sfkv::PutEntries(&*table_, entries, codec, values, rows, offset);
  }
  Status ReadEntries(const KeyBatch& entries, const ValueCodec& codec, ArrowArray* out) override {
    return ReadEntryValues(*table_, entries, codec, out);
  }
  Status ReadMaps(const KeyBatch& keys, const KeyCodec& user_codec, const ValueCodec& codec, ArrowArray* out) override {
    return sfkv::ReadMaps(*table_, keys, user_codec, codec, out);
  }
  Status HaveEntries(const KeyBatch& keys, ValidityBuilder* present) override { return sfkv::HaveEntries(*table_, keys, present); }
  Status HasEntry(std::string_view key, bool* found) override {
    EntryCursor cursor(*table_, TableOf(key));
    cursor.Seek(key);
    *found = cursor.Valid();
    return cursor.status();
  }
  Status ClearMaps(const KeyBatch& keys, OffsetRow offset) override { return sfkv::ClearMaps(&*table_, keys, offset); }
  Status ClearMap(std::string_view key) override { return sfkv::ClearMap(&*table_, key); }

 private:
  Store(const StoreOptions& options, std::shared_ptr<Slot> slot, rocksdb::DB* db, std::shared_ptr<FlushWatch> flushes, bool was_unclean)
      : options_(options), slot_(std::move(slot)), db_(db), flushes_(std::move(flushes)), table_(std::in_place, db, options, flushes_, slot_.get()), was_unclean_(was_unclean) {
    flushes_->Watch(db);
  }

  void LowerLeast(std::string_view key) {
    if (least_[TableOf(key)] != nullptr) least_[TableOf(key)]->Lower(key);
  }
  // Tells of the first row of each key group that a batch puts.
  void LowerLeast(const KeyBatch& keys, const ColumnView* clears) {
    std::string_view told;
    for (size_t distinct = 0; distinct < keys.distinct_count(); ++distinct) {
      const std::string_view key = keys.DistinctKey(distinct);
      if (clears != nullptr && clears->IsNull(keys.LastPosition(distinct))) continue;
      if (!told.empty() && key.substr(0, kKeyHeaderBytes) == told.substr(0, kKeyHeaderBytes)) continue;
      LowerLeast(told = key);
    }
  }

  Lifetime lifetime_;
  StoreOptions options_;
  std::shared_ptr<Slot> slot_;  // before db_: the cache must outlive the database
  std::unique_ptr<rocksdb::DB> db_;
  std::shared_ptr<FlushWatch> flushes_;
  std::optional<Table> table_;  // until it is closed
  std::array<std::shared_ptr<LeastKeys>, 256> least_;  // by table, of those for which they are kept
  bool was_unclean_;
  std::shared_ptr<OpenScans> scans_ = std::make_shared<OpenScans>();
};

}  // namespace sfkv
