# Cells: how one column's values lie in memory and in Python.
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef extern from "<string_view>" namespace "std" nogil:
    cdef cppclass string_view:
        string_view()
        string_view(const char* data, size_t size)
        const char* data()
        size_t size()


cdef extern from "sfkv/column.h" namespace "sfkv" nogil:
    cdef enum class CellType(uint8_t):
        kBool
        kInt8
        kInt16
        kInt32
        kInt64
        kFloat32
        kFloat64
        kUtf8
        kBinary

    size_t CellBytes(CellType type)


cdef class Cell:
    """How one column's cells become Python objects, and the other way round."""
    cdef CellType type
    cdef size_t width          # bytes, 0 where each cell has its own length
    cdef bint nullable
    cdef int kind              # plain, timestamp or date
    cdef int64_t ticks         # of the timestamp's unit, in a second
    cdef object zone
    cdef object epoch
    cdef int store(self, object value, char* cell) except -1
    cdef int store_time(self, object since_epoch, char* cell) except -1
    cdef int view(self, object value, string_view* text) except -1
    cdef object load(self, const char* cell)
    cdef object load_date(self, int64_t day)
    cdef object load_time(self, int64_t ticks)
    cdef object load_text(self, const char* text, size_t bytes)
