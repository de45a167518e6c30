# The database and its slot.
from libcpp.memory cimport shared_ptr

from sfkv._engine cimport CSlot, CStore
from sfkv._store cimport Store


cdef class Slot:
    cdef shared_ptr[CSlot] c_slot


cdef class RocksDBStore(Store):
    cdef shared_ptr[CStore] c_store
