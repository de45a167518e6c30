// A store's directory: the marker file SFKV beside RocksDB's files, and making files and names durable.
//
// The marker says that the directory is sfkv's, its format, whether it was closed: "new" (never opened to the end), "open" (with
// the process that has it), "clean"; and which kind of store it holds. FORMAT.md section 1. All I/O goes through the file system under the stores
// (background.h). Thread-safe; who changes a directory must hold its lock.
#pragma once

#include <rocksdb/file_system.h>

#include "sfkv/background.h"
#include "sfkv/version.h"

namespace sfkv {

inline rocksdb::FileSystem* Files() { return BackgroundEnv::OfThisProcess()->GetFileSystem().get(); }

inline bool IsMissing(const rocksdb::Status& status) { return status.IsNotFound() || status.IsPathNotFound(); }

// What keeps the rows of a directory's store: a database, or memory, whose rows are in one file while it is closed.
enum class StoreKind { kRocksDB, kMemory };

struct Marker {
  bool found = false;
  int format = 0;
  std::string state;
  long pid = 0;
  StoreKind kind = StoreKind::kRocksDB;
};

inline Status ReadMarker(const std::string& directory, Marker* marker) {
  *marker = Marker();
  std::string text;
  const rocksdb::IOStatus read = rocksdb::ReadFileToString(Files(), directory + "/SFKV", &text);
  if (IsMissing(read)) return Status::OK();
  SFKV_RETURN_IF_ERROR(FromRocksDB(read));
  char state[16] = "";
  const int fields = std::sscanf(text.c_str(), "sfkv store format %d state %15s pid %ld", &marker->format, state, &marker->pid);
  if (fields < 2) return Status(Code::kCorruption, "Corruption: " + directory + "/SFKV is damaged: restore the store from a snapshot");
  marker->found = true;
  marker->state = state;
  if (text.find("\nkind memory\n") != std::string::npos) marker->kind = StoreKind::kMemory;
  return Status::OK();
}

// Makes the names in a directory durable.
inline Status SyncDirectory(const std::string& path) {
  std::unique_ptr<rocksdb::FSDirectory> directory;
  SFKV_RETURN_IF_ERROR(FromRocksDB(Files()->NewDirectory(path, rocksdb::IOOptions(), &directory, nullptr)));
  return FromRocksDB(directory->Fsync(rocksdb::IOOptions(), nullptr));
}

// Replaces the marker at once: a crash leaves the old one or the new one.
inline Status WriteMarker(const std::string& directory, const char* state, StoreKind kind = StoreKind::kRocksDB) {
  const std::string path = directory + "/SFKV";
  const std::string temporary = path + ".new";
  const std::string text = "sfkv store\nformat " + std::to_string(kFormatVersion) + "\nstate " + state + "\npid " +
                           std::to_string(::getpid()) + "\n" + (kind == StoreKind::kMemory ? "kind memory\n" : "");
  rocksdb::IOStatus written = rocksdb::WriteStringToFile(Files(), text, temporary, /*should_sync=*/true);
  if (written.ok()) written = Files()->RenameFile(temporary, path, rocksdb::IOOptions(), nullptr);
  if (!written.ok()) {
    Files()->DeleteFile(temporary, rocksdb::IOOptions(), nullptr).PermitUncheckedError();
    return FromRocksDB(written);
  }
  return SyncDirectory(directory);
}

inline Status IsEmptyDirectory(const std::string& directory, bool* empty) {
  std::vector<std::string> names;
  SFKV_RETURN_IF_ERROR(FromRocksDB(Files()->GetChildren(directory, rocksdb::IOOptions(), &names, nullptr)));
  *empty = std::all_of(names.begin(), names.end(), [](const std::string& name) { return name == "." || name == ".." || name == "SFKV.new"; });
  return Status::OK();
}

// Makes a directory and those above it that are missing, durably.
inline Status MakeDirectories(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string directory = path.substr(0, slash);
    if (!Files()->FileExists(directory, rocksdb::IOOptions(), nullptr).ok()) {
      SFKV_RETURN_IF_ERROR(FromRocksDB(Files()->CreateDirIfMissing(directory, rocksdb::IOOptions(), nullptr)));
      SFKV_RETURN_IF_ERROR(SyncDirectory(directory.substr(0, std::max<size_t>(1, directory.rfind('/')))));
    }
    if (slash == std::string::npos) return Status::OK();
  }
}

// Makes or finds a directory, and sees that it is a store of this format or empty; an empty one is marked as new.
inline Status PrepareDirectory(const std::string& path, bool create, StoreKind kind) {
  const rocksdb::IOStatus exists = Files()->FileExists(path, rocksdb::IOOptions(), nullptr);
  if (!exists.ok()) {
    if (!IsMissing(exists)) return FromRocksDB(exists);
    if (!create) return Status(Code::kMissing, "there is no directory " + path);
    SFKV_RETURN_IF_ERROR(MakeDirectories(path));
  }
  bool is_directory = false;
  SFKV_RETURN_IF_ERROR(FromRocksDB(Files()->IsDirectory(path, rocksdb::IOOptions(), &is_directory, nullptr)));
  if (!is_directory) return Status(Code::kNotAStore, path + " is a file, and a store is a directory: choose another path");
  Marker marker;
  SFKV_RETURN_IF_ERROR(ReadMarker(path, &marker));
  if (!marker.found) {
    bool empty = false;
    SFKV_RETURN_IF_ERROR(IsEmptyDirectory(path, &empty));
    if (!empty) return Status(Code::kNotAStore, path + " is not empty and holds no sfkv store: choose another path");
    if (!create) return Status(Code::kMissing, "there is no store in " + path);
    return WriteMarker(path, "new", kind);
  }
  if (marker.format < kOldestFormatVersion || marker.format > kFormatVersion) {
    return Status(Code::kFormat, path + " has format version " + std::to_string(marker.format) + ", and this sfkv reads versions " +
                                     std::to_string(kOldestFormatVersion) + " to " + std::to_string(kFormatVersion) +
                                     ": open it with the sfkv that wrote it");
  }
  if (marker.kind != kind) {
    const std::string held = marker.kind == StoreKind::kMemory ? "HashMapStateBackend" : "EmbeddedRocksDBStateBackend";
    return Status(Code::kFormat, path + " is a store of " + held + ": open it with that, or restore a snapshot of it into another directory");
  }
  return Status::OK();
}

// What to say of a directory whose lock another store holds.
inline Status Held(const std::string& path) {
  Marker marker;
  ReadMarker(path, &marker);
  const std::string holder = marker.pid == ::getpid() ? "this very process (" + std::to_string(marker.pid) + ")"
                             : marker.pid > 0         ? "process " + std::to_string(marker.pid)
                                                      : "another process";
  return Status(Code::kLocked, "IO error: " + path + " is held by " + holder + ": close it there, or wait until that has ended");
}

// A directory that is held by a store: nobody else opens it until this ends.
class HeldDirectory {
 public:
  HeldDirectory() = default;
  ~HeldDirectory() { Release(); }
  HeldDirectory(const HeldDirectory&) = delete;
  HeldDirectory& operator=(const HeldDirectory&) = delete;

  // Takes the lock, which RocksDB takes too (process_locks.h), first, so that what is refused stays untouched; then marks the
  // directory as open, unless it is new. One that was not closed is refused without "recover".
  Status Open(const std::string& path, bool create, bool recover, StoreKind kind) {
    path_ = path;
    kind_ = kind;
    SFKV_RETURN_IF_ERROR(PrepareDirectory(path, create, kind));
    env_ = BackgroundEnv::OfThisProcess();
    const rocksdb::Status locked = env_->LockFile(path + "/LOCK", &lock_);
    if (!locked.ok()) return locked.IsBusy() ? Held(path) : FromRocksDB(locked);
    Status status = ReadMarker(path, &marker_);
    if (status.ok() && marker_.state == "open" && !recover) status = Unclean(path);
    if (status.ok() && marker_.state != "new") {
      status = Mark("open");
      if (!status.ok()) Mark(marker_.state.c_str());
    }
    if (!status.ok()) Release();
    return status;
  }
  // What the marker said before.
  const std::string& found_state() const { return marker_.state; }

  Status Mark(const char* state) { return WriteMarker(path_, state, kind_); }

  // Gives the lock back, which a forked child never had.
  void Release() {
    if (lock_ != nullptr && !fork_.InChild()) env_->UnlockFile(lock_);
    lock_ = nullptr;
  }

 private:
  static Status Unclean(const std::string& path) {
    return Status(Code::kUnclean, path + " was not closed: restore the last snapshot into another directory, or open it with recover=True, "
                                         "which keeps the writes up to some moment before the end");
  }

  ForkGuard fork_;
  rocksdb::Env* env_ = nullptr;
  std::string path_;
  StoreKind kind_ = StoreKind::kRocksDB;
  Marker marker_;
  rocksdb::FileLock* lock_ = nullptr;
};

}  // namespace sfkv
