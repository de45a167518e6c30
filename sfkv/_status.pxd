# The core's Status, and its one way into Python's exceptions.
from libc.stdint cimport int64_t
from libcpp.string cimport string


cdef extern from "sfkv/status.h" namespace "sfkv" nogil:
    cdef enum class Code(int):
        kOk
        kUsage
        kSchema
        kLimit
        kKeyGroup
        kClosed
        kForked
        kBusy
        kLocked
        kMissing
        kNotAStore
        kUnclean
        kFormat
        kStorage
        kDiskFull
        kCorruption
        kFailedStore
        kIncomplete

    cdef cppclass CStatus "sfkv::Status":
        CStatus()
        bint ok()
        Code code()
        const string& message()
        int64_t row()
        int column()
        const string& path()


cdef class Context:
    """Whose call it is: what an error says beside its cause."""
    cdef readonly str path          # of the store, or None
    cdef readonly str state         # its name, or None
    cdef readonly list key_columns  # names, for errors about a key
    cdef readonly list value_columns


cdef int check(const CStatus& status, Context context, str operation, str role=*, bint single=*) except -1
cdef object failure(object cls, str cause, Context context, str operation, object row=*, object column=*)
