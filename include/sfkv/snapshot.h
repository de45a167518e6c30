// A snapshot's files: RocksDB's hard-linked checkpoint of the store, and the checksum of every file in it.
// Thread-safe towards RocksDB; TakeSnapshot needs a Call scope of the store, the rest nothing.
#pragma once

#include <map>

#include "sfkv/store.h"

namespace sfkv {

struct SnapshotFile {
  std::string name;
  uint64_t bytes = 0;
  std::string crc32c;  // eight hexadecimal digits; empty where the engine has not kept it
};

// Reads a whole file and gives its size and CRC32C.
inline Status ChecksumFile(const std::string& path, uint64_t* bytes, std::string* crc32c) {
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  SFKV_RETURN_IF_ERROR(FromRocksDB(Files()->NewSequentialFile(path, rocksdb::FileOptions(), &file, nullptr)));
  rocksdb::FileChecksumGenContext context;
  context.file_name = path;
  auto generator = rocksdb::GetFileChecksumGenCrc32cFactory()->CreateFileChecksumGenerator(context);
  std::vector<char> block(size_t{1} << 20);
  rocksdb::Slice read;
  *bytes = 0;
  do {
    SFKV_RETURN_IF_ERROR(FromRocksDB(file->Read(block.size(), rocksdb::IOOptions(), &read, block.data(), nullptr)));
    generator->Update(read.data(), read.size());
    *bytes += read.size();
  } while (!read.empty());
  generator->Finalize();
  *crc32c = rocksdb::Slice(generator->GetChecksum()).ToString(/*hex=*/true);
  return Status::OK();
}

// Links the store's files into "directory", which must not exist, after a flush of all memtables. Table files come with the
// checksums that were taken when they were written; the others are left to the caller, who reads them anyway.
inline Status TakeSnapshot(Store* store, const std::string& directory, std::vector<SnapshotFile>* files) {
  SFKV_RETURN_IF_ERROR(store->table()->Flush());  // CreateCheckpoint does it too, but does not go on after a full disk
  rocksdb::Checkpoint* made = nullptr;
  SFKV_RETURN_IF_ERROR(FromRocksDB(rocksdb::Checkpoint::Create(store->db(), &made)));
  std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  SFKV_RETURN_IF_ERROR(FromRocksDB(checkpoint->CreateCheckpoint(directory, /*log_size_for_flush=*/0)));  // no log: always flush

  std::vector<rocksdb::LiveFileMetaData> live;
  store->db()->GetLiveFilesMetaData(&live);
  std::map<std::string, std::string> known;
  for (const rocksdb::LiveFileMetaData& file : live) {
    if (file.file_checksum_func_name == "FileChecksumCrc32c") known[file.name.substr(1)] = rocksdb::Slice(file.file_checksum).ToString(true);
  }
  std::vector<std::string> names;
  SFKV_RETURN_IF_ERROR(FromRocksDB(Files()->GetChildren(directory, rocksdb::IOOptions(), &names, nullptr)));
  for (const std::string& name : names) {
    if (name == "." || name == "..") continue;
    SnapshotFile file;
    file.name = name;
    SFKV_RETURN_IF_ERROR(FromRocksDB(Files()->GetFileSize(directory + "/" + name, rocksdb::IOOptions(), &file.bytes, nullptr)));
    const auto checksum = known.find(name);
    if (checksum != known.end()) file.crc32c = checksum->second;
    files->push_back(std::move(file));
  }
  return SyncDirectory(directory);
}

}  // namespace sfkv
