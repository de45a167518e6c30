// Locks of directories that belong to this process alone, as a layer of the file system under all stores (background.h).
//
// The engine's own list of them is static: a forked child would take the parent's entries for its own (decision 12). Thread-safe.
#pragma once

#include <fcntl.h>
#include <rocksdb/file_system.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "sfkv/rocksdb_compat.h"

namespace sfkv {

class ProcessLocks : public rocksdb::FileSystemWrapper {
 public:
  explicit ProcessLocks(const std::shared_ptr<rocksdb::FileSystem>& target) : FileSystemWrapper(target) {}
  const char* Name() const override { return "sfkv.ProcessLocks"; }

  // IsBusy() if another process, or another store of this one, holds the lock.
  rocksdb::IOStatus LockFile(const std::string& path, const rocksdb::IOOptions&, rocksdb::FileLock** lock, rocksdb::IODebugContext*) override {
    std::lock_guard<std::mutex> guard(mutex_);
    struct stat file;
    // A file that is held must not even be opened: closing it again would let go of it.
    if (::stat(path.c_str(), &file) == 0 && held_.count({file.st_dev, file.st_ino}) != 0) return rocksdb::IOStatus::Busy(path);
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return Failed("open", path);
    struct flock range = {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    if (::fcntl(fd, F_SETLK, &range) != 0 || ::fstat(fd, &file) != 0) {
      const bool busy = errno == EACCES || errno == EAGAIN;
      const rocksdb::IOStatus failed = busy ? rocksdb::IOStatus::Busy(path) : Failed("lock", path);
      ::close(fd);
      return failed;
    }
    held_.insert({file.st_dev, file.st_ino});
    *lock = new Held{fd, {file.st_dev, file.st_ino}};
    return rocksdb::IOStatus::OK();
  }

  rocksdb::IOStatus UnlockFile(rocksdb::FileLock* lock, const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    const std::unique_ptr<Held> held(static_cast<Held*>(lock));
    std::lock_guard<std::mutex> guard(mutex_);
    held_.erase(held->file);
    ::close(held->fd);
    return rocksdb::IOStatus::OK();
  }

 private:
  using File = std::pair<dev_t, ino_t>;
  struct Held : rocksdb::FileLock {
    Held(int descriptor, File locked) : fd(descriptor), file(locked) {}
    int fd;
    File file;
  };

  static rocksdb::IOStatus Failed(const char* what, const std::string& path) {
    return rocksdb::IOStatus::IOError(std::string("While ") + what + " " + path, std::strerror(errno));
  }

  std::mutex mutex_;
  std::set<File> held_;
};

}  // namespace sfkv
