// A store: one RocksDB database in one directory, opened in a slot; the rows of all states of one keyed backend.
//
// The store alone owns the database. Beside RocksDB's files lies SFKV, which says that the directory is sfkv's, its format,
// and whether it was closed: "new" (never opened to the end), "open" (with the process that has it), "clean".
// One thread at a time, by the callers' Call scopes (lifetime.h); Close() and the end of scans may come from any thread.
// Scans, lists and maps are worked on through its base, Rows. FORMAT.md sections 1 and 5.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "sfkv/scan.h"
#include "sfkv/version.h"

namespace sfkv {

// --- The file SFKV: lines of a name and a value.

struct Marker {
  bool found = false;
  int format = 0;
  std::string state;
  long pid = 0;
};

inline Status SystemError(const std::string& what, const std::string& path) {
  const int error = errno;
  return Status(error == ENOSPC || error == EDQUOT ? Code::kDiskFull : error == ENOENT ? Code::kMissing : Code::kStorage,
                "IO error: " + what + " " + path + ": " + std::strerror(error));
}

inline Status ReadMarker(const std::string& directory, Marker* marker) {
  *marker = Marker();
  std::FILE* file = std::fopen((directory + "/SFKV").c_str(), "r");
  if (file == nullptr) return errno == ENOENT ? Status::OK() : SystemError("open", directory + "/SFKV");
  char state[16] = "";
  const int fields = std::fscanf(file, "sfkv store format %d state %15s pid %ld", &marker->format, state, &marker->pid);
  std::fclose(file);
  if (fields < 2) return Status(Code::kCorruption, "Corruption: " + directory + "/SFKV is damaged: restore the store from a snapshot");
  marker->found = true;
  marker->state = state;
  return Status::OK();
}

// Makes the names in a directory durable.
inline Status SyncDirectory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", directory);
  const int result = ::fsync(fd);
  Status status = result == 0 ? Status::OK() : SystemError("fsync", directory);
  ::close(fd);
  return status;
}

// Replaces the marker at once: a crash leaves the old one or the new one.
inline Status WriteMarker(const std::string& directory, const char* state) {
  const std::string path = directory + "/SFKV";
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return SystemError("open", temporary);
  const std::string text = "sfkv store\nformat " + std::to_string(kFormatVersion) + "\nstate " + state + "\npid " +
                           std::to_string(::getpid()) + "\n";
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  Status status = written ? Status::OK() : SystemError("write", temporary);
  ::close(fd);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) status = SystemError("rename", temporary);
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return SyncDirectory(directory);
}

inline bool IsEmptyDirectory(const std::string& directory) {
  DIR* entries = ::opendir(directory.c_str());
  if (entries == nullptr) return false;
  bool empty = true;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name = entry->d_name;
    empty &= name == "." || name == ".." || name == "SFKV.new";
  }
  ::closedir(entries);
  return empty;
}

class Store : public Rows {
 public:
  static Status Open(const StoreOptions& options, std::shared_ptr<Slot> slot, std::shared_ptr<Store>* store) {
    const std::string& path = options.path;
    SFKV_RETURN_IF_ERROR(PrepareDirectory(options));
    rocksdb::Env* env = rocksdb::Env::Default();
    // RocksDB's own lock, taken first for the look at the marker, so that a directory that is refused stays untouched.
    rocksdb::FileLock* lock = nullptr;
    rocksdb::Status locked = env->LockFile(path + "/LOCK", &lock);
    if (!locked.ok()) return IsHeld(locked) ? Held(path) : FromRocksDB(locked);
    Marker marker;
    Status status = ReadMarker(path, &marker);
    if (status.ok() && marker.state == "open" && !options.recover) status = Unclean(path);
    if (status.ok() && marker.state != "new") status = WriteMarker(path, "open");
    env->UnlockFile(lock);
    SFKV_RETURN_IF_ERROR(status);

    rocksdb::DB* db = nullptr;
    const rocksdb::Status result = rocksdb::DB::Open(MakeOptions(*slot), path, &db);
    if (!result.ok()) {
      if (IsHeld(result)) return Held(path);
      // What could not be opened was not written to: the marker goes back to what it said.
      if (marker.state == "clean") WriteMarker(path, "clean");
      return FromRocksDB(result);
    }
    LetForkedChildrenExit();
    store->reset(new Store(options, std::move(slot), db, marker.state == "open"));
    return marker.state == "new" ? WriteMarker(path, "open") : Status::OK();
  }

  // Ends the children and closes the database: after a flush, and marked clean; or, with discard, as it is, so that it
  // can only be opened with recover. If the flush or the mark fails, the store stays open and nothing is lost.
  Status Close(bool discard) {
    if (lifetime_.InChild()) return Status::OK();
    bool begun = false;
    SFKV_RETURN_IF_ERROR(lifetime_.BeginClose(&begun));
    if (!begun) return Status::OK();
    table_.DropBatch();
    Status status;
    if (!discard) {
      status = table_.Flush();
      if (status.ok()) status = WriteMarker(options_.path, "clean");
      if (!status.ok()) {
        lifetime_.FinishClose(false);
        return status;
      }
    } else {
      rocksdb::CancelAllBackgroundWork(db_.get(), /*wait=*/true);
    }
    scans_->EndAll();
    table_ = Table();
    status = FromRocksDB(db_->Close());
    db_.reset();
    slot_.reset();
    lifetime_.FinishClose(true);
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
  Table* table() { return &table_; }
  rocksdb::DB* db() { return db_.get(); }

  // The rows from "first", up to but without "bound". Few: they are copied.
  Status ReadRange(std::string_view first, std::string_view bound, std::vector<std::string>* keys, std::vector<std::string>* values) {
    const rocksdb::Slice upper = AsSlice(bound);
    rocksdb::ReadOptions read;
    read.iterate_upper_bound = &upper;
    const std::unique_ptr<rocksdb::Iterator> iterator = table_.NewIterator(read);
    for (iterator->Seek(AsSlice(first)); iterator->Valid() && iterator->key().compare(upper) < 0; iterator->Next()) {
      keys->push_back(iterator->key().ToString());
      values->push_back(iterator->value().ToString());
    }
    return FromRocksDB(iterator->status());
  }

  // REQUIRES: no batch is open, unless only one key's entries are to be seen, and at once.
  std::shared_ptr<Cursor> NewScan(const ScanOptions& options, const KeyCodec& keys, const KeyCodec& user_keys, const ValueCodec& values) override {
    return std::make_shared<Scan>(table_, scans_, options, keys, user_keys, values);
  }
  bool InBatch() const override { return table_.InBatch(); }
  Status BeginBatch() override { return table_.BeginBatch(); }
  Status CommitBatch() override { return table_.CommitBatch(); }
  void DropBatch() override { table_.DropBatch(); }
  Status WriteRows(WriteBatch* rows) override { return table_.Write(rows); }
  Status WriteRowsThrough(WriteBatch* rows) override { return table_.WriteThrough(rows); }
  Status DropTable(uint8_t id, KeyGroupRange range) override { return DropRows(&table_, id, range); }
  size_t open_scans() const { return scans_->count(); }

  Status Append(AppendGuard* guard, std::string_view key, std::string_view elements) override {
    return AppendToList(&table_, guard, key, elements);
  }
  Status AddToLists(AppendGuard* guard, const KeyBatch& keys, const ValueCodec& codec, const Columns& values, OffsetRow offset) override {
    return sfkv::AddToLists(&table_, guard, keys, codec, values, offset);
  }
  Status UpdateLists(const KeyBatch& keys, const ValueCodec& codec, const ListView& lists, const Columns& elements, OffsetRow offset) override {
    return sfkv::UpdateLists(&table_, keys, codec, lists, elements, offset);
  }
  Status ReadLists(const KeyBatch& keys, const ValueCodec& codec, ArrowArray* out) override {
    return sfkv::ReadLists(table_, keys, codec, out);
  }
  Status PutEntries(const KeyBatch& entries, const ValueCodec& codec, const Columns& values, const ColumnView& rows, OffsetRow offset) override {
    return sfkv::PutEntries(&table_, entries, codec, values, rows, offset);
  }
  Status ReadEntries(const KeyBatch& entries, const ValueCodec& codec, ArrowArray* out) override {
    return ReadEntryValues(table_, entries, codec, out);
  }
  Status ReadMaps(const KeyBatch& keys, const KeyCodec& user_codec, const ValueCodec& codec, ArrowArray* out) override {
    return sfkv::ReadMaps(table_, keys, user_codec, codec, out);
  }
  Status HaveEntries(const KeyBatch& keys, ValidityBuilder* present) override { return sfkv::HaveEntries(table_, keys, present); }
  Status HasEntry(std::string_view key, bool* found) override {
    EntryCursor cursor(table_);
    cursor.Seek(key);
    *found = cursor.Valid();
    return cursor.status();
  }
  Status ClearMaps(const KeyBatch& keys, OffsetRow offset) override { return sfkv::ClearMaps(&table_, keys, offset); }
  Status ClearMap(std::string_view key) override { return sfkv::ClearMap(&table_, key); }

 private:
  Store(const StoreOptions& options, std::shared_ptr<Slot> slot, rocksdb::DB* db, bool was_unclean)
      : options_(options), slot_(std::move(slot)), db_(db), table_(db, options), was_unclean_(was_unclean) {}

  // Makes or finds the directory, and sees that it is a store of this format or empty.
  static Status PrepareDirectory(const StoreOptions& options) {
    struct stat found;
    if (::stat(options.path.c_str(), &found) != 0) {
      if (errno != ENOENT) return SystemError("stat", options.path);
      if (!options.create) return Status(Code::kMissing, "there is no directory " + options.path);
      const rocksdb::Status made = MakeDirectories(options.path);
      if (!made.ok()) return FromRocksDB(made);
    } else if (!S_ISDIR(found.st_mode)) {
      return Status(Code::kNotAStore, options.path + " is a file, and a store is a directory: choose another path");
    }
    Marker marker;
    SFKV_RETURN_IF_ERROR(ReadMarker(options.path, &marker));
    if (!marker.found) {
      if (!IsEmptyDirectory(options.path)) {
        return Status(Code::kNotAStore, options.path + " is not empty and holds no sfkv store: choose another path");
      }
      if (!options.create) return Status(Code::kMissing, "there is no store in " + options.path);
      return WriteMarker(options.path, "new");
    }
    if (marker.format != kFormatVersion) {
      return Status(Code::kFormat, options.path + " has format version " + std::to_string(marker.format) + ", and this sfkv reads version " +
                                       std::to_string(kFormatVersion) + ": open it with the sfkv that wrote it");
    }
    return Status::OK();
  }

  static rocksdb::Status MakeDirectories(const std::string& path) {
    rocksdb::Env* env = rocksdb::Env::Default();
    for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      const rocksdb::Status status = env->CreateDirIfMissing(path.substr(0, slash));
      if (!status.ok()) return status;
    }
    return env->CreateDirIfMissing(path);
  }

  // RocksDB has no code for it. Its texts are those for another process and for this one.
  static bool IsHeld(const rocksdb::Status& status) {
    const std::string text = status.ToString();
    return text.find("While lock file") != std::string::npos || text.find("lock hold by current process") != std::string::npos;
  }
  static Status Held(const std::string& path) {
    Marker marker;
    ReadMarker(path, &marker);
    const std::string holder = marker.pid == ::getpid() ? "this very process (" + std::to_string(marker.pid) + ")"
                               : marker.pid > 0         ? "process " + std::to_string(marker.pid)
                                                        : "another process";
    return Status(Code::kLocked, "IO error: " + path + " is held by " + holder + ": close it there, or wait until that has ended");
  }
  static Status Unclean(const std::string& path) {
    return Status(Code::kUnclean, path + " was not closed: restore the last snapshot into another directory, or open it with recover=True, "
                                         "which keeps the writes up to some moment before the end");
  }

  Lifetime lifetime_;
  StoreOptions options_;
  std::shared_ptr<Slot> slot_;  // before db_: the cache must outlive the database
  std::unique_ptr<rocksdb::DB> db_;
  Table table_;
  bool was_unclean_;
  std::shared_ptr<OpenScans> scans_ = std::make_shared<OpenScans>();
};

}  // namespace sfkv
