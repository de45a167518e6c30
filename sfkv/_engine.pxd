# The part of the core that owns RocksDB's objects. Nothing is included here but the classes' names: _core.pyx, which is
# compiled with RocksDB, includes the headers; modules that only pass these objects on do without them.
from libc.stdint cimport int64_t, uint64_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from sfkv._rows cimport CByteBuffer, string_view
from sfkv._status cimport CStatus
from sfkv._store cimport CLifetime
from sfkv._tables cimport CRows


cdef extern from "sfkv/forward.h" namespace "sfkv" nogil:
    cdef cppclass CEngineInfo "sfkv::EngineInfo":
        string version
        string crc32c
        bint assertions
        vector[string] compressions

    CEngineInfo DescribeEngine() except +

    cdef cppclass CSlot "sfkv::Slot":
        CSlot(size_t memory_bytes, double write_buffer_ratio, double high_priority_ratio) except +
        size_t memory_bytes()
        size_t cache_bytes()
        size_t write_buffer_bytes()
        size_t cache_usage_bytes()
        size_t pinned_bytes()
        size_t row_cache_bytes() except +

    cdef cppclass CStoreOptions "sfkv::StoreOptions":
        string path
        bint create
        bint recover
        size_t write_batch_bytes
        size_t read_chunk_keys
        bint row_cache
        string engine_options

    cdef cppclass CRowCache "sfkv::RowCache":
        size_t bytes()
        size_t rows()
        uint64_t found()

    cdef cppclass CTable "sfkv::Table":
        const CRowCache& row_cache()
        size_t held_rows()
        CStatus Flush() except +
        CStatus Compact() except +

    cdef cppclass CStore "sfkv::Store"(CRows):
        @staticmethod
        CStatus Open(const CStoreOptions& options, shared_ptr[CSlot] slot, shared_ptr[CStore]* store) except +
        CStatus Close(bint discard) except +
        CLifetime* lifetime()
        bint was_unclean()
        CTable* table()
        size_t open_scans() except +
        uint64_t scan_seeks()

    cdef cppclass CSnapshotFile "sfkv::SnapshotFile":
        string name
        uint64_t bytes
        string crc32c

    CStatus TakeSnapshot(CStore* store, const string& directory, vector[CSnapshotFile]* files) except +
    CStatus ChecksumFile(const string& path, uint64_t* bytes, string* crc32c) except +
    CStatus WriteMarker(const string& directory, const char* state) except +
    CStatus ReadBlock(const CTable& table, size_t most_bytes, string_view bound, string* from_, int* key_group, CByteBuffer* block) except +
    cdef enum class StoreKind:
        kRocksDB
        kMemory
    cdef cppclass CHeldDirectory "sfkv::HeldDirectory":
        CHeldDirectory()
        CStatus Open(const string& path, bint create, bint recover, StoreKind kind) except +
        const string& found_state()
        CStatus Mark(const char* state) except +
        void Release() except +
    CStatus MakeDirectories(const string& path) except +
    CStatus SyncDirectory(const string& directory) except +
    ctypedef void (*WrapFileSystem "sfkv::BackgroundEnv::WrapFileSystem")(void*)
    void ReplaceFileSystem "sfkv::BackgroundEnv::Wrap"(WrapFileSystem wrap) except +
    int64_t LiveStores "sfkv::Counted<sfkv::Store>::live"()
    int64_t LiveSlots "sfkv::Counted<sfkv::Slot>::live"()
    int64_t LiveScans "sfkv::Counted<sfkv::Scan>::live"()
    int64_t LiveBatches "sfkv::Counted<sfkv::PendingBatch>::live"()
