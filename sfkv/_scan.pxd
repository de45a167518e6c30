# Passes over a table.
from libcpp.memory cimport shared_ptr

from sfkv._table cimport Table
from sfkv._live cimport Held
from sfkv._rows cimport CRowSet
from sfkv._tables cimport CCursor


cdef class Scan:
    cdef Table table
    cdef shared_ptr[CCursor] c_scan
    cdef object key_type       # of the key columns that are asked for, as structs
    cdef object value_type
    cdef bint with_values
    cdef bint with_user_keys
    cdef shared_ptr[CCursor] running(self) except *
    cdef int next_entries(self, size_t most, CRowSet* user_keys, CRowSet* values, Held held) except -1
