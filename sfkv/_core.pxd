# The store, its slot and its tables, for further modules of sfkv to cimport.
from libc.stdint cimport uint8_t
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from sfkv._engine cimport CCall, CScan, CSlot, CStore
from sfkv._rows cimport CByteBuffer, CKeyBatch, CRowSet, CWriteBatch, KeyGroupRange, KeyRows, ValueRows, string_view
from sfkv._status cimport Context


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
    cdef object owner          # the backend, which closes the store when it is dropped
    cdef uint8_t id
    cdef KeyRows keys
    cdef ValueRows values
    cdef Context context
    cdef int encode_key(self, object key, CByteBuffer* out, str operation) except -1
    cdef bint read_row(self, string_view key, CByteBuffer* row, str operation) except -1
    cdef int write_row(self, CByteBuffer* key, CByteBuffer* row, str operation) except -1
    cdef int read_keys(self, object keys, CKeyBatch* batch, str operation) except -1
    cdef int read_rows(self, const CKeyBatch& batch, CRowSet* rows, str operation) except -1
    cdef int write_pieces(self, vector[CWriteBatch]* pieces, str operation) except -1


cdef class Scan:
    cdef Table table
    cdef shared_ptr[CScan] c_scan
    cdef bint with_values
