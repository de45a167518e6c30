// Where sfkv meets RocksDB's types, and the differences between the versions it is tested with: 7.8 (Debian 12), 9.10 (Debian 13).
#pragma once

#include <rocksdb/cache.h>
#if __has_include(<rocksdb/advanced_cache.h>)
#include <rocksdb/advanced_cache.h>  // where newer engines keep the class Cache
#endif
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_checksum.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>
#include <rocksdb/write_buffer_manager.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "sfkv/status.h"

// Functions of the engine that its headers do not declare. Weak: an engine without them answers "unknown" or "no".
extern "C" void* sfkv_engine_timer() __asm__("_ZN7rocksdb21PeriodicTaskScheduler7DefaultEv") __attribute__((weak));
extern "C" void sfkv_engine_sync_point() __asm__("_ZN7rocksdb9SyncPoint11GetInstanceEv") __attribute__((weak));
namespace ROCKSDB_NAMESPACE::crc32c {
__attribute__((weak)) std::string IsFastCrc32Supported();
}

namespace sfkv {

inline rocksdb::Slice AsSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
inline std::string_view AsView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

inline Code CodeOf(const rocksdb::Status& status) {
  if (status.ok()) return Code::kOk;
  if (status.IsNoSpace() || status.ToString().find(std::strerror(EDQUOT)) != std::string::npos) return Code::kDiskFull;
  if (status.severity() >= rocksdb::Status::kFatalError) return Code::kFailedStore;
  if (status.IsCorruption()) return Code::kCorruption;
  if (status.IsPathNotFound()) return Code::kMissing;
  if (status.IsIncomplete()) return Code::kIncomplete;
  return Code::kStorage;
}

// RocksDB's text comes first, so that programs that look for it find it.
inline Status FromRocksDB(const rocksdb::Status& status) {
  return status.ok() ? Status::OK() : Status(CodeOf(status), status.ToString());
}

// An error of FromRocksDB() on its way back to it, for what hands on statuses of the engine only.
inline rocksdb::Status ToRocksDB(const Status& status) {
  std::string text = status.message();
  const auto strip = [&text](const std::string& prefix) {
    const bool has_prefix = text.compare(0, prefix.size(), prefix) == 0;
    if (has_prefix) text.erase(0, prefix.size());
    return has_prefix;
  };
  if (strip("IO error: No space left on device: ")) return rocksdb::Status::NoSpace(text);
  if (status.code() == Code::kCorruption && strip("Corruption: ")) return rocksdb::Status::Corruption(text);
  strip("IO error: ");
  if (status.code() == Code::kMissing) return rocksdb::Status::PathNotFound(text);
  const rocksdb::Status error = rocksdb::Status::IOError(text);
  return status.code() == Code::kFailedStore ? rocksdb::Status(error, rocksdb::Status::Severity::kFatalError) : error;
}

struct EngineInfo {
  std::string version = rocksdb::GetRocksVersionAsString();
  std::string crc32c;
  bool assertions = sfkv_engine_sync_point != nullptr;  // only builds with assertions have sync points
  std::vector<std::string> compressions;
};

inline EngineInfo DescribeEngine() {
  EngineInfo info;
  info.crc32c = rocksdb::crc32c::IsFastCrc32Supported == nullptr ? "unknown" : rocksdb::crc32c::IsFastCrc32Supported();
  for (rocksdb::CompressionType type : rocksdb::GetSupportedCompressions()) {
    std::string name;
    if (rocksdb::GetStringFromCompressionType(&name, type).ok()) info.compressions.push_back(name);
  }
  return info;
}

inline bool HasCompression(rocksdb::CompressionType wanted) {
  for (rocksdb::CompressionType type : rocksdb::GetSupportedCompressions()) {
    if (type == wanted) return true;
  }
  return false;
}

}  // namespace sfkv
