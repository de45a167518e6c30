# The rows of one state, for the modules of its kinds to cimport.
from libc.stdint cimport uint8_t
from libcpp.vector cimport vector

from sfkv._store cimport CCall, Store
from sfkv._live cimport Fresh, Held
from sfkv._rows cimport ArrowResult, CByteBuffer, CKeyBatch, CRowSet, CWriteBatch, KeyRows, ValueRows, string_view
from sfkv._status cimport Context
from sfkv._tables cimport COffsetRow, CTableShape


cdef class Table:
    cdef readonly Store store
    cdef object owner          # the backend, which closes the store when it is dropped
    cdef readonly uint8_t id
    cdef int kind
    cdef str dropped           # why it can be used no more
    cdef object __weakref__
    cdef KeyRows keys
    cdef KeyRows user_keys     # of maps; else the keys, which are not looked at
    cdef ValueRows values
    cdef Context context
    cdef Context user_context  # the same for a user key
    cdef int refuse_dropped(self, str operation) except -1
    cdef int enter(self, CCall* call, str operation) except -1
    cdef int encode_key(self, object key, CByteBuffer* out, str operation) except -1
    cdef bint read_row(self, string_view key, CByteBuffer* row, str operation, Held held=*) except -1
    cdef int take(self, Held held, string_view row, str operation) except -1
    cdef object object_of(self, string_view number, object key, str operation)
    cdef object batch_object(self, Held held, size_t i, CKeyBatch* batch, size_t position, str operation)
    cdef object not_given(self, object error, object key, str operation, object position)
    cdef object answer(self, ArrowResult result, Held held, CKeyBatch* batch)
    cdef object key_in(self, string_view encoded)
    cdef int write_row(self, CByteBuffer* key, CByteBuffer* row, str operation, Fresh fresh=*) except -1
    cdef bint sorts            # batches of its keys
    cdef int declare(self) except -1
    cdef int declare_values(self, size_t value_bytes) except -1
    cdef CTableShape shape(self)
    cdef int encode_keys(self, object keys, CKeyBatch* batch, str operation) except -1
    cdef int read_sorted_keys(self, object keys, CKeyBatch* batch, str operation) except -1
    cdef int read_keys(self, object keys, CKeyBatch* batch, str operation) except -1
    cdef int encode_pair(self, object key, object user_key, CByteBuffer* out, str operation) except -1
    cdef int read_pairs(self, object keys, object user_keys, CKeyBatch* batch, str operation) except -1
    cdef object contains_batch(self, CKeyBatch* batch, str operation)
    cdef int delete_batch(self, CKeyBatch* batch, bytes offset, str operation) except -1
    cdef int read_rows(self, const CKeyBatch& batch, CRowSet* rows, str operation, Held held=*) except -1
    cdef int write_pieces(self, vector[CWriteBatch]* pieces, str operation, Fresh fresh=*) except -1


cdef COffsetRow offset_of(bytes offset)
