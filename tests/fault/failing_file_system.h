// The file system itself: rocksdb::FileSystemWrapper over a real one, with the faults and the forgetting of failing_files.h.
#pragma once

#include "failing_files.h"

namespace sfkv_test {

class FailingFileSystem : public rocksdb::FileSystemWrapper {
 public:
  FailingFileSystem(const std::shared_ptr<rocksdb::FileSystem>& target, std::shared_ptr<Shared> shared)
      : FileSystemWrapper(target), shared_(std::move(shared)) {}

  const char* Name() const override { return "sfkv.FailingFileSystem"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options, std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    return Named("NewWritableFile", path, [&] {
      const IOStatus status = FileSystemWrapper::NewWritableFile(path, options, file, debug);
      if (!status.ok()) return status;
      shared_->unsynced.Created(path, /*is_file=*/true);
      *file = std::make_unique<FailingWritableFile>(std::move(*file), path, shared_);
      return status;
    });
  }
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options, std::unique_ptr<rocksdb::FSWritableFile>* file,
                              IODebugContext* debug) override {
    return Named("ReopenWritableFile", path, [&] {
      const bool is_new = !FileSystemWrapper::FileExists(path, IOOptions(), debug).ok();
      const IOStatus status = FileSystemWrapper::ReopenWritableFile(path, options, file, debug);
      if (!status.ok()) return status;
      if (is_new) shared_->unsynced.Created(path, /*is_file=*/true);
      *file = std::make_unique<FailingWritableFile>(std::move(*file), path, shared_);
      return status;
    });
  }
  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options, std::unique_ptr<rocksdb::FSSequentialFile>* file,
                             IODebugContext* debug) override {
    return Looked("NewSequentialFile", path, [&] {
      const IOStatus status = FileSystemWrapper::NewSequentialFile(path, options, file, debug);
      if (status.ok()) *file = std::make_unique<FailingSequentialFile>(std::move(*file), path, shared_);
      return status;
    });
  }
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options, std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               IODebugContext* debug) override {
    return Looked("NewRandomAccessFile", path, [&] {
      const IOStatus status = FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
      if (status.ok()) *file = std::make_unique<FailingRandomAccessFile>(std::move(*file), path, shared_);
      return status;
    });
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions& options, std::unique_ptr<rocksdb::FSDirectory>* directory,
                        IODebugContext* debug) override {
    return Looked("NewDirectory", path, [&] {
      const IOStatus status = FileSystemWrapper::NewDirectory(path, options, directory, debug);
      if (status.ok()) *directory = std::make_unique<FailingDirectory>(std::move(*directory), path, shared_);
      return status;
    });
  }

  // Not the engine's look for archived logs, of which there are none: in 7.8 a wrong assertion would end the process.
  IOStatus FileExists(const std::string& path, const IOOptions& options, IODebugContext* debug) override {
    if (Slice(path).ends_with("/archive")) return FileSystemWrapper::FileExists(path, options, debug);
    return Looked("FileExists", path, [&] { return FileSystemWrapper::FileExists(path, options, debug); });
  }
  IOStatus IsDirectory(const std::string& path, const IOOptions& options, bool* is, IODebugContext* debug) override {
    return Looked("IsDirectory", path, [&] { return FileSystemWrapper::IsDirectory(path, options, is, debug); });
  }
  IOStatus GetChildren(const std::string& path, const IOOptions& options, std::vector<std::string>* names, IODebugContext* debug) override {
    return Looked("GetChildren", path, [&] { return FileSystemWrapper::GetChildren(path, options, names, debug); });
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions& options, uint64_t* bytes, IODebugContext* debug) override {
    return Looked("GetFileSize", path, [&] { return FileSystemWrapper::GetFileSize(path, options, bytes, debug); });
  }
  IOStatus LockFile(const std::string& path, const IOOptions& options, rocksdb::FileLock** lock, IODebugContext* debug) override {
    return Named("LockFile", path, [&] { return FileSystemWrapper::LockFile(path, options, lock, debug); });
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions& options, IODebugContext* debug) override {
    return Looked("DeleteFile", path, [&] {
      const IOStatus status = FileSystemWrapper::DeleteFile(path, options, debug);
      if (status.ok()) shared_->unsynced.Removed(path);
      return status;
    });
  }
  IOStatus CreateDir(const std::string& path, const IOOptions& options, IODebugContext* debug) override {
    return Named("CreateDir", path, [&] {
      const IOStatus status = FileSystemWrapper::CreateDir(path, options, debug);
      if (status.ok()) shared_->unsynced.Created(path, /*is_file=*/false);
      return status;
    });
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options, IODebugContext* debug) override {
    return Named("CreateDirIfMissing", path, [&] {
      const bool is_new = !FileSystemWrapper::FileExists(path, options, debug).ok();
      const IOStatus status = FileSystemWrapper::CreateDirIfMissing(path, options, debug);
      if (status.ok() && is_new) shared_->unsynced.Created(path, /*is_file=*/false);
      return status;
    });
  }
  IOStatus DeleteDir(const std::string& path, const IOOptions& options, IODebugContext* debug) override {
    return Looked("DeleteDir", path, [&] {
      const IOStatus status = FileSystemWrapper::DeleteDir(path, options, debug);
      if (status.ok()) shared_->unsynced.Removed(path);
      return status;
    });
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options, IODebugContext* debug) override {
    return Named("RenameFile", to, [&] {
      std::string before;
      const bool had_target = rocksdb::ReadFileToString(target(), to, &before).ok();
      const IOStatus status = FileSystemWrapper::RenameFile(from, to, options, debug);
      if (status.ok()) shared_->unsynced.Renamed(from, to, had_target, std::move(before));
      return status;
    });
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options, IODebugContext* debug) override {
    return Named("LinkFile", to, [&] {
      const IOStatus status = FileSystemWrapper::LinkFile(from, to, options, debug);
      if (status.ok()) shared_->unsynced.Created(to, /*is_file=*/false);  // its bytes are the other name's
      return status;
    });
  }

 private:
  template <typename Operation>
  IOStatus Named(const char* call, const std::string& path, Operation&& operation) {
    const IOStatus injected = shared_->schedule.Check(call, path, Kind::kName);
    return injected.ok() ? operation() : injected;
  }
  template <typename Operation>
  IOStatus Looked(const char* call, const std::string& path, Operation&& operation) {
    const IOStatus injected = shared_->schedule.Check(call, path, Kind::kRead);
    return injected.ok() ? operation() : injected;
  }

  std::shared_ptr<Shared> shared_;
};

// The one of the process that the tests control.
inline std::shared_ptr<Shared> TheShared() {
  static std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  return shared;
}

inline std::shared_ptr<rocksdb::FileSystem>& TheTarget() {
  static std::shared_ptr<rocksdb::FileSystem> target;
  return target;
}

// What sfkv's core is given: see sfkv::BackgroundEnv::Wrap.
inline void WrapInFailing(std::shared_ptr<rocksdb::FileSystem>* files) {
  TheTarget() = *files;
  *files = std::make_shared<FailingFileSystem>(*files, TheShared());
}

inline void LosePower() { TheShared()->unsynced.Lose(TheTarget().get()); }

// For I/O calls that Python makes itself. Whether this one fails.
inline bool FailsInPython(const char* call, const std::string& path, bool changes) {
  return TheShared()->schedule.Next(call, path, changes ? Kind::kName : Kind::kRead) == Outcome::kFail;
}

}  // namespace sfkv_test
