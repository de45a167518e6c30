# The store and its slot, for further modules of sfkv to cimport.
from libcpp.memory cimport shared_ptr

from sfkv._engine cimport CCall, CSlot, CStore
from sfkv._rows cimport KeyGroupRange
from sfkv._status cimport Context
from sfkv._tables cimport CRows


cdef class Slot:
    cdef shared_ptr[CSlot] c_slot


cdef class Store:
    cdef shared_ptr[CStore] c_store
    cdef readonly str path
    cdef readonly size_t write_batch_bytes
    cdef readonly int max_parallelism
    cdef KeyGroupRange range
    cdef Context context
    cdef CRows* rows(self)
    cdef int enter(self, CCall* call, Context context, str operation) except -1
