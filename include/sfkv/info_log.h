// The engine's log, the file LOG in a store's directory: what the engine warns of. When it is full it becomes LOG.old.
//
// What cannot be written is left out, and nothing else fails by it: the engine's own log ends the process, in a build with
// assertions, at the second line that a full disk has no room for. Thread-safe.
#pragma once

#include <rocksdb/env.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "sfkv/background.h"

namespace sfkv {

class InfoLog : public rocksdb::Logger {
 public:
  explicit InfoLog(std::string directory)
      : Logger(rocksdb::WARN_LEVEL), files_(BackgroundEnv::OfThisProcess()->GetFileSystem()), path_(std::move(directory) + "/LOG") {}

  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[kMostLineBytes];
    struct timeval now;
    struct tm date;
    ::gettimeofday(&now, nullptr);
    ::localtime_r(&now.tv_sec, &date);
    size_t bytes = std::strftime(line, sizeof(line), "%Y/%m/%d-%H:%M:%S", &date);
    bytes += static_cast<size_t>(std::snprintf(line + bytes, sizeof(line) - bytes, ".%06ld ", static_cast<long>(now.tv_usec)));
    const int written = std::vsnprintf(line + bytes, sizeof(line) - bytes, format, arguments);
    if (written < 0) return;
    bytes = std::min(bytes + static_cast<size_t>(written), sizeof(line) - 1);
    if (line[bytes - 1] != '\n') line[bytes++] = '\n';
    try {
      Append(rocksdb::Slice(line, bytes));
    } catch (const std::bad_alloc&) {  // this may be a thread of the engine's
    }
  }

 private:
  static constexpr size_t kMostLineBytes = 4096;
  static constexpr uint64_t kMostFileBytes = uint64_t{1} << 20;

  void Append(const rocksdb::Slice& line) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const rocksdb::IOOptions io;
    if (file_ == nullptr && !Open()) return;
    if (bytes_ >= kMostFileBytes) {
      file_.reset();
      files_->RenameFile(path_, path_ + ".old", io, nullptr).PermitUncheckedError();
      if (!Open()) return;
    }
    if (file_->Append(line, io, nullptr).ok()) bytes_ += line.size();
  }
  // Opens the file to go on with it, or makes it: there is none before the first line.
  bool Open() {
    if (!files_->GetFileSize(path_, rocksdb::IOOptions(), &bytes_, nullptr).ok()) bytes_ = 0;
    return files_->ReopenWritableFile(path_, rocksdb::FileOptions(), &file_, nullptr).ok();
  }

  const std::shared_ptr<rocksdb::FileSystem> files_;
  const std::string path_;
  std::mutex mutex_;
  std::unique_ptr<rocksdb::FSWritableFile> file_;
  uint64_t bytes_ = 0;  // of the file
};

}  // namespace sfkv
