// A file system for tests: it fails the n-th I/O call, and it can lose power.
//
// It also lets calls wait, so that a test can choose what happens meanwhile.
//
// Every call on files and names is counted, whatever thread makes it. What fails is chosen by Arm(). Behind that it keeps what
// a real disk may forget: the bytes of a file since its last sync, and the names made in a directory since its last sync.
// LosePower() forgets them. Names that are removed are gone at once. Thread-safe.
#pragma once

#include <rocksdb/file_system.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace sfkv_test {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

enum class Fault {
  kNone,      // count only
  kOnce,      // one call fails
  kForGood,   // it and all that follow
  kNoSpace,   // as kForGood, for want of space; reads and removals go on
  kTorn,      // one write puts down half of its bytes, and fails
  kLostSync,  // from that sync on, syncs do nothing and say that they did
};

// Calls that wait until they are told to go on.
class Gates {
 public:
  // Lets the next call of that name wait, on a path that begins and ends so. Returns the gate's number.
  size_t Hold(const std::string& call, const std::string& begin, const std::string& end) {
    std::lock_guard<std::mutex> guard(mutex_);
    gates_.push_back({call, begin, end});
    return gates_.size() - 1;
  }
  bool Reached(size_t gate, double seconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return gates_[gate].reached; });
  }
  void Release(size_t gate, bool fails) {
    std::lock_guard<std::mutex> guard(mutex_);
    gates_[gate].released = true;
    gates_[gate].fails = fails;
    changed_.notify_all();
  }

  // Whether the call is to fail, after it has waited.
  bool Pass(const std::string& call, const std::string& path) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (size_t i = 0; i < gates_.size(); ++i) {
      if (gates_[i].reached || gates_[i].released || call != gates_[i].call) continue;
      if (!Slice(path).starts_with(gates_[i].begin) || !Slice(path).ends_with(gates_[i].end)) continue;
      gates_[i].reached = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return gates_[i].released; });
      return gates_[i].fails;
    }
    return false;
  }

 private:
  struct Gate {
    std::string call;
    std::string begin;
    std::string end;
    bool reached = false;
    bool released = false;
    bool fails = false;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Gate> gates_;
};

// Which call fails, and what has been seen.
class Schedule {
 public:
  Gates gates;

  void Arm(Fault fault, long call) {
    std::lock_guard<std::mutex> guard(mutex_);
    fault_ = fault;
    left_ = call;
    count_ = 0;
    failed_.clear();
  }
  long count() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return count_;
  }
  // The first call that failed, empty if none did.
  std::string failed() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return failed_;
  }

  enum class Kind { kRead, kWrite, kSync, kName };
  enum class Outcome { kGoOn, kFail, kHalf, kPretend };

  Outcome Next(const char* call, const std::string& path, Kind kind) {
    if (gates.Pass(call, path)) return Outcome::kFail;
    std::lock_guard<std::mutex> guard(mutex_);
    const bool concerned = fault_ == Fault::kTorn       ? kind == Kind::kWrite
                           : fault_ == Fault::kLostSync ? kind == Kind::kSync
                           : fault_ == Fault::kNoSpace  ? kind == Kind::kWrite || kind == Kind::kName
                                                        : true;
    if (!concerned) return Outcome::kGoOn;
    ++count_;
    const bool goes_on = fault_ == Fault::kForGood || fault_ == Fault::kNoSpace || fault_ == Fault::kLostSync;
    if (fault_ == Fault::kNone || (goes_on ? left_-- > 0 : left_-- != 0)) return Outcome::kGoOn;
    if (failed_.empty()) failed_ = std::string(call) + " " + path;
    return fault_ == Fault::kTorn ? Outcome::kHalf : fault_ == Fault::kLostSync ? Outcome::kPretend : Outcome::kFail;
  }

  // The error of a call that fails, or OK.
  IOStatus Check(const char* call, const std::string& path, Kind kind) {
    return Next(call, path, kind) == Outcome::kFail ? Error(call, path) : IOStatus::OK();
  }
  IOStatus Error(const char* call, const std::string& path) const {
    const std::string context = std::string("injected failure of ") + call + ": " + path;
    return fault_ == Fault::kNoSpace ? IOStatus::NoSpace(context) : IOStatus::IOError(context);
  }

 private:
  mutable std::mutex mutex_;
  Fault fault_ = Fault::kNone;
  long left_ = 0;
  long count_ = 0;
  std::string failed_;
};

// What a loss of power takes away.
class Unsynced {
 public:
  void Created(const std::string& path, bool is_file) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (is_file) files_[path] = {};
    names_.push_back({path, "", false, ""});
  }
  void Grown(const std::string& path, uint64_t bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    files_[path].bytes += bytes;
  }
  void Synced(const std::string& path) {
    std::lock_guard<std::mutex> guard(mutex_);
    files_[path].durable = files_[path].bytes;
  }
  void DirectorySynced(const std::string& directory) {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<Name> kept;
    for (Name& name : names_) {
      if (DirectoryOf(name.path) != directory) kept.push_back(std::move(name));
    }
    names_ = std::move(kept);
  }
  void Removed(const std::string& path) {
    std::lock_guard<std::mutex> guard(mutex_);
    files_.erase(path);
    std::vector<Name> kept;
    for (Name& name : names_) {
      if (name.path != path) kept.push_back(std::move(name));
    }
    names_ = std::move(kept);
  }
  // "before" is what the target held, if it was a file.
  void Renamed(const std::string& from, const std::string& to, bool had_target, std::string before) {
    std::lock_guard<std::mutex> guard(mutex_);
    std::map<std::string, File> files;
    for (const auto& [path, file] : files_) {
      if (path != to) files[Moved(path, from, to)] = file;
    }
    files_ = std::move(files);
    for (Name& name : names_) {
      if (name.path != from) name.path = Moved(name.path, from, to);
    }
    names_.push_back({to, from, had_target, std::move(before)});
  }

  // Takes away what was not durable, the newest name first.
  void Lose(rocksdb::FileSystem* files);

 private:
  struct File {
    uint64_t bytes = 0;
    uint64_t durable = 0;
  };
  struct Name {
    std::string path;
    std::string from;  // where it was renamed from; empty if it was made
    bool had_target;
    std::string before;
  };

  static std::string DirectoryOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static std::string Moved(const std::string& path, const std::string& from, const std::string& to) {
    if (path == from) return to;
    return path.compare(0, from.size() + 1, from + "/") == 0 ? to + path.substr(from.size()) : path;
  }

  std::mutex mutex_;
  std::map<std::string, File> files_;
  std::vector<Name> names_;
};

inline void RemoveTree(rocksdb::FileSystem* files, const std::string& path) {
  std::vector<std::string> names;
  bool is_directory = false;
  if (files->IsDirectory(path, IOOptions(), &is_directory, nullptr).ok() && is_directory) {
    files->GetChildren(path, IOOptions(), &names, nullptr).PermitUncheckedError();
    for (const std::string& name : names) {
      if (name != "." && name != "..") RemoveTree(files, path + "/" + name);
    }
    files->DeleteDir(path, IOOptions(), nullptr).PermitUncheckedError();
  } else {
    files->DeleteFile(path, IOOptions(), nullptr).PermitUncheckedError();
  }
}

inline void Unsynced::Lose(rocksdb::FileSystem* files) {
  std::lock_guard<std::mutex> guard(mutex_);
  for (const auto& [path, file] : files_) {
    uint64_t bytes = 0;
    if (file.durable < file.bytes && files->GetFileSize(path, IOOptions(), &bytes, nullptr).ok() && bytes > file.durable) {
      files->Truncate(path, file.durable, IOOptions(), nullptr).PermitUncheckedError();
    }
  }
  for (auto name = names_.rbegin(); name != names_.rend(); ++name) {
    if (name->from.empty()) {
      RemoveTree(files, name->path);
      continue;
    }
    files->RenameFile(name->path, name->from, IOOptions(), nullptr).PermitUncheckedError();
    if (name->had_target) rocksdb::WriteStringToFile(files, name->before, name->path).PermitUncheckedError();
  }
  files_.clear();
  names_.clear();
}

using Kind = Schedule::Kind;
using Outcome = Schedule::Outcome;

// What files share with the file system that made them.
struct Shared {
  Schedule schedule;
  Unsynced unsynced;
};

class FailingWritableFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FailingWritableFile(std::unique_ptr<rocksdb::FSWritableFile> target, std::string path, std::shared_ptr<Shared> shared)
      : FSWritableFileOwnerWrapper(std::move(target)), path_(std::move(path)), shared_(std::move(shared)) {}

  IOStatus Append(const Slice& bytes, const IOOptions& options, IODebugContext* debug) override {
    const Outcome outcome = shared_->schedule.Next("Append", path_, Kind::kWrite);
    if (outcome == Outcome::kFail) return shared_->schedule.Error("Append", path_);
    const Slice written(bytes.data(), outcome == Outcome::kHalf ? bytes.size() / 2 : bytes.size());
    const IOStatus status = FSWritableFileOwnerWrapper::Append(written, options, debug);
    if (status.ok()) shared_->unsynced.Grown(path_, written.size());
    return outcome == Outcome::kHalf ? shared_->schedule.Error("Append", path_) : status;
  }
  IOStatus Append(const Slice& bytes, const IOOptions& options, const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(bytes, options, debug);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return Synced("Sync", [&] { return FSWritableFileOwnerWrapper::Sync(options, debug); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Synced("Fsync", [&] { return FSWritableFileOwnerWrapper::Fsync(options, debug); });
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
    return Checked("Flush", [&] { return FSWritableFileOwnerWrapper::Flush(options, debug); });
  }
  IOStatus RangeSync(uint64_t offset, uint64_t bytes, const IOOptions& options, IODebugContext* debug) override {
    return Checked("RangeSync", [&] { return FSWritableFileOwnerWrapper::RangeSync(offset, bytes, options, debug); });
  }
  IOStatus Allocate(uint64_t offset, uint64_t bytes, const IOOptions& options, IODebugContext* debug) override {
    return Checked("Allocate", [&] { return FSWritableFileOwnerWrapper::Allocate(offset, bytes, options, debug); });
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    const IOStatus status = FSWritableFileOwnerWrapper::Close(options, debug);  // also where it fails, as close() does
    const IOStatus injected = shared_->schedule.Check("Close", path_, Kind::kWrite);
    return injected.ok() ? status : injected;
  }

 private:
  template <typename Operation>
  IOStatus Checked(const char* call, Operation&& operation) {
    const IOStatus injected = shared_->schedule.Check(call, path_, Kind::kWrite);
    return injected.ok() ? operation() : injected;
  }
  template <typename Operation>
  IOStatus Synced(const char* call, Operation&& operation) {
    const Outcome outcome = shared_->schedule.Next(call, path_, Kind::kSync);
    if (outcome == Outcome::kPretend) return IOStatus::OK();
    if (outcome != Outcome::kGoOn) return shared_->schedule.Error(call, path_);
    const IOStatus status = operation();
    if (status.ok()) shared_->unsynced.Synced(path_);
    return status;
  }

  std::string path_;
  std::shared_ptr<Shared> shared_;
};

class FailingSequentialFile : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  FailingSequentialFile(std::unique_ptr<rocksdb::FSSequentialFile> target, std::string path, std::shared_ptr<Shared> shared)
      : FSSequentialFileOwnerWrapper(std::move(target)), path_(std::move(path)), shared_(std::move(shared)) {}

  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* debug) override {
    const IOStatus injected = shared_->schedule.Check("Read", path_, Kind::kRead);
    return injected.ok() ? FSSequentialFileOwnerWrapper::Read(n, options, result, scratch, debug) : injected;
  }

 private:
  std::string path_;
  std::shared_ptr<Shared> shared_;
};

class FailingRandomAccessFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  FailingRandomAccessFile(std::unique_ptr<rocksdb::FSRandomAccessFile> target, std::string path, std::shared_ptr<Shared> shared)
      : FSRandomAccessFileOwnerWrapper(std::move(target)), path_(std::move(path)), shared_(std::move(shared)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* debug) const override {
    const IOStatus injected = shared_->schedule.Check("Read", path_, Kind::kRead);
    return injected.ok() ? FSRandomAccessFileOwnerWrapper::Read(offset, n, options, result, scratch, debug) : injected;
  }
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options, IODebugContext* debug) override {
    const IOStatus injected = shared_->schedule.Check("MultiRead", path_, Kind::kRead);
    if (injected.ok()) return FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, debug);
    for (size_t i = 0; i < count; ++i) requests[i].status = injected;
    return injected;
  }
  IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions& options, IODebugContext* debug) override {
    const IOStatus injected = shared_->schedule.Check("Prefetch", path_, Kind::kRead);
    return injected.ok() ? FSRandomAccessFileOwnerWrapper::Prefetch(offset, n, options, debug) : injected;
  }

 private:
  std::string path_;
  std::shared_ptr<Shared> shared_;
};

class FailingDirectory : public rocksdb::FSDirectoryWrapper {
 public:
  FailingDirectory(std::unique_ptr<rocksdb::FSDirectory> target, std::string path, std::shared_ptr<Shared> shared)
      : FSDirectoryWrapper(std::move(target)), path_(std::move(path)), shared_(std::move(shared)) {}

  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Synced([&] { return FSDirectoryWrapper::Fsync(options, debug); });
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug, const rocksdb::DirFsyncOptions& what) override {
    return Synced([&] { return FSDirectoryWrapper::FsyncWithDirOptions(options, debug, what); });
  }

 private:
  template <typename Operation>
  IOStatus Synced(Operation&& operation) {
    const Outcome outcome = shared_->schedule.Next("Fsync of the directory", path_, Kind::kSync);
    if (outcome == Outcome::kPretend) return IOStatus::OK();
    if (outcome != Outcome::kGoOn) return shared_->schedule.Error("Fsync of the directory", path_);
    const IOStatus status = operation();
    if (status.ok()) shared_->unsynced.DirectorySynced(path_);
    return status;
  }

  std::string path_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace sfkv_test
