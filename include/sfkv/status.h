// What a call of the core returns: nothing, or a code by which the caller can act, a sentence, and where in the batch it was.
//
// The codes are mapped to Python's exceptions in one place (sfkv/_status.pyx). RocksDB's own statuses become one of these in
// rocksdb_compat.h, with RocksDB's text at the start of the message.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace sfkv {

enum class Code : int {
  kOk = 0,
  kUsage,        // a call that is not allowed now
  kSchema,       // a value does not fit the column's type
  kLimit,        // a size limit would be passed
  kKeyGroup,     // a key outside the backend's key-group range
  kClosed,       // used after close
  kForked,       // used in a forked child
  kBusy,         // another thread is inside the same backend
  kLocked,       // another store has the directory open
  kMissing,      // no such directory
  kNotAStore,    // the directory holds something else
  kUnclean,      // the last user of the directory did not close it
  kFormat,       // another format version, or engine options that do not fit
  kStorage,      // the engine or the file system failed
  kDiskFull,     //   ... for want of space
  kCorruption,   //   ... because of damaged bytes
  kFailedStore,  //   ... and the store accepts no more writes
  kIncomplete,   // the answer needs I/O that the call was told not to do; never leaves the core
};

class Status {
 public:
  Status() = default;
  Status(Code code, std::string message, int64_t row = -1, int column = -1, std::string path = {})
      : code_(code), column_(column), row_(row), message_(std::move(message)), path_(std::move(path)) {}

  static Status OK() { return Status(); }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  int64_t row() const { return row_; }    // position in the batch, -1 for none
  int column() const { return column_; }  // index into the schema, -1 for none
  const std::string& path() const { return path_; }  // what within that column, as ".field.item"

 private:
  Code code_ = Code::kOk;
  int column_ = -1;
  int64_t row_ = -1;
  std::string message_;
  std::string path_;
};

}  // namespace sfkv

// Leaves the function with a status that is not OK.
#define SFKV_RETURN_IF_ERROR(expression)       \
  do {                                         \
    ::sfkv::Status sfkv_status = (expression); \
    if (!sfkv_status.ok()) return sfkv_status; \
  } while (false)
