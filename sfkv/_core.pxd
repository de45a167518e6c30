# The store, its slot and its tables: what further modules of sfkv cimport.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from sfkv._rows cimport (
    ArrowArray, CByteBuffer, CColumnBuilder, CColumns, CColumnView, CKeyBatch, CKeyCodec, CValidityBuilder, CValueCodec,
    KeyGroupRange, KeyRows, ValueRows, string_view,
)
from sfkv._status cimport CStatus, Context


cdef extern from "sfkv/rocksdb_compat.h" namespace "sfkv" nogil:
    cdef cppclass CEngineInfo "sfkv::EngineInfo":
        string version
        string crc32c
        bint assertions
        vector[string] compressions

    CEngineInfo DescribeEngine() except +

    cdef cppclass CPinnableSlice "rocksdb::PinnableSlice":
        CPinnableSlice()
        const char* data()
        size_t size()


cdef extern from "sfkv/lifetime.h" namespace "sfkv" nogil:
    cdef cppclass CLifetime "sfkv::Lifetime":
        bint InChild()
        bint IsClosed()

    cdef cppclass CCall "sfkv::Call":
        CCall()
        CStatus Enter(CLifetime* lifetime) except +
        void Leave()


cdef extern from "sfkv/write_batch.h" namespace "sfkv" nogil:
    cdef cppclass CWriteBatch "sfkv::WriteBatch":
        CWriteBatch()
        void Put(string_view key, string_view value) except +
        void Delete(string_view key) except +
        size_t bytes()


cdef extern from "sfkv/slot.h" namespace "sfkv" nogil:
    cdef cppclass CSlot "sfkv::Slot":
        CSlot(size_t memory_bytes, double write_buffer_ratio, double high_priority_ratio) except +
        size_t memory_bytes()
        size_t cache_bytes()
        size_t write_buffer_bytes()
        size_t cache_usage_bytes()
        size_t pinned_bytes()
        size_t write_buffer_usage_bytes()


cdef extern from "sfkv/options.h" namespace "sfkv" nogil:
    cdef cppclass CStoreOptions "sfkv::StoreOptions":
        string path
        bint create
        bint recover
        size_t write_batch_bytes
        size_t read_chunk_keys


cdef extern from "sfkv/table.h" namespace "sfkv" nogil:
    cdef cppclass CRowSet "sfkv::RowSet":
        CRowSet()
        bint Has(size_t i)
        string_view Get(size_t i)

    cdef cppclass CTable "sfkv::Table":
        CStatus Get(string_view key, bint may_wait, CPinnableSlice* value, cbool* found) except +
        CStatus Put(string_view key, string_view value, bint may_wait) except +
        CStatus Delete(string_view key, bint may_wait) except +
        CStatus ReadColumns(const CKeyBatch& keys, const CValueCodec& codec, vector[CColumnBuilder]* builders, CValidityBuilder* present) except +
        CStatus ReadRows(const CKeyBatch& keys, CRowSet* rows) except +
        CStatus Contains(const CKeyBatch& keys, CValidityBuilder* present) except +
        CStatus PutColumns(const CKeyBatch& keys, const CValueCodec& codec, const CColumns& values, const CColumnView* clears,
                           string_view offset_key, string_view offset_row) except +
        CStatus DeleteAll(const CKeyBatch& keys, string_view offset_key, string_view offset_row) except +
        CStatus Write(CWriteBatch* batch) except +


cdef extern from "sfkv/scan.h" namespace "sfkv" nogil:
    cdef cppclass CScanOptions "sfkv::ScanOptions":
        CScanOptions()
        uint8_t table
        KeyGroupRange range
        int64_t batch_rows
        bint with_values

    cdef cppclass CScan "sfkv::Scan":
        CStatus Next(int64_t* rows, ArrowArray* keys, ArrowArray* values) except +


cdef extern from "sfkv/store.h" namespace "sfkv" nogil:
    cdef cppclass CStore "sfkv::Store":
        @staticmethod
        CStatus Open(const CStoreOptions& options, shared_ptr[CSlot] slot, shared_ptr[CStore]* store) except +
        CStatus Close(bint discard) except +
        CLifetime* lifetime()
        bint was_unclean()
        CTable* table()
        CStatus Flush() except +
        CStatus ReadRange(string_view first, string_view bound, vector[string]* keys, vector[string]* values) except +
        shared_ptr[CScan] NewScan(const CScanOptions& options, const CKeyCodec& keys, const CValueCodec& values) except +
        size_t open_scans() except +


cdef extern from "sfkv/snapshot.h" namespace "sfkv" nogil:
    cdef cppclass CSnapshotFile "sfkv::SnapshotFile":
        string name
        uint64_t bytes
        string crc32c

    CStatus TakeSnapshot(CStore* store, const string& directory, vector[CSnapshotFile]* files) except +
    CStatus ChecksumFile(const string& path, uint64_t* bytes, string* crc32c) except +
    CStatus WriteMarker(const string& directory, const char* state) except +
    CStatus SyncDirectory(const string& directory) except +


cdef class Slot:
    cdef shared_ptr[CSlot] c_slot


cdef class Store:
    cdef shared_ptr[CStore] c_store
    cdef readonly str path
    cdef readonly size_t write_batch_bytes
    cdef readonly int max_parallelism
    cdef KeyGroupRange range
    cdef Context context
    cdef int enter(self, CCall* call, Context context, str operation) except -1


cdef class Table:
    cdef readonly Store store
    cdef uint8_t id
    cdef KeyRows keys
    cdef ValueRows values
    cdef Context context
    cdef int encode_key(self, object key, CByteBuffer* out, str operation) except -1
    cdef bint read_row(self, string_view key, CByteBuffer* row, str operation) except -1
    cdef int write_row(self, CByteBuffer* key, CByteBuffer* row, str operation) except -1
    cdef int read_keys(self, object keys, CKeyBatch* batch, str operation) except -1


cdef class BundleRows:
    """A batch's rows as a dict, and what they were when they were read."""
    cdef Table table
    cdef CKeyBatch batch
    cdef CRowSet stored
    cdef readonly dict rows
    cdef list keys             # the distinct keys, in the batch's order
    cdef list originals        # the values that were read for them; None where these can be changed in place
    cdef int decode(self) except -1


cdef class Scan:
    cdef Table table
    cdef shared_ptr[CScan] c_scan
    cdef bint with_values
