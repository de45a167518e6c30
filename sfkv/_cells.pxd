# Cells: how one column's values lie in memory and in Python.
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.string cimport string


cdef extern from "<string_view>" namespace "std" nogil:
    cdef cppclass string_view:
        string_view()
        string_view(const char* data, size_t size)
        const char* data()
        size_t size()


cdef extern from "sfkv/arrow.h" namespace "sfkv" nogil:
    cdef struct ArrowSchema "ArrowSchema":
        int64_t n_children
        ArrowSchema** children

    cdef struct ArrowArray "ArrowArray":
        int64_t length
        int64_t offset
        const void** buffers
        ArrowArray** children
        void (*release)(ArrowArray*) noexcept


cdef extern from "sfkv/type.h" namespace "sfkv" nogil:
    cdef enum class CellType(uint8_t):
        kBool
        kInt8
        kInt16
        kInt32
        kInt64
        kUInt8
        kUInt16
        kUInt32
        kUInt64
        kFloat32
        kFloat64
        kFixedBinary
        kUtf8
        kBinary

    cdef cppclass CType "sfkv::Type":
        CType()
        CellType cell
        size_t width
        bint is_variable()

    cdef cppclass CColumn "sfkv::Column":
        CColumn()
        string name
        CType type
        bint nullable

    bint ParseType(const ArrowSchema& schema, CType* type, int depth) except +
    bint CanRead(const CType& given, const CType& wanted)


cdef class Cell:
    """How one column's cells become Python objects, and the other way round."""
    cdef CType type
    cdef size_t width          # bytes
    cdef bint variable         # each cell has its own length
    cdef bint nullable
    cdef int kind              # plain, timestamp, date, duration, or one that goes by way of an Arrow array
    cdef int64_t ticks         # of the timestamp's or duration's unit, in a second
    cdef object zone
    cdef object epoch
    cdef bint by_array(self)
    cdef bint is_double(self)
    cdef object exact_type(self)
    cdef int store(self, object value, char* cell) except -1
    cdef int store_number(self, object value, char* cell) except -1
    cdef int store_time(self, object since_epoch, char* cell) except -1
    cdef int view(self, object value, string_view* text) except -1
    cdef object load(self, const char* cell)
    cdef object load_date(self, int64_t day)
    cdef object load_time(self, int64_t ticks)
    cdef object load_text(self, const char* text, size_t bytes)


cdef ArrowSchema* schema_of(object capsule) except NULL
