# Live objects by number, and what calls hold of them. No RocksDB here, and no rows.
from libc.stdint cimport int64_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from sfkv._cells cimport ArrowArray, string_view


cdef class Fresh:
    """The objects that one call is about to write: each has a number, which is its until the call has ended."""
    cdef object number_of(self, object value)


cdef class Held:
    """The objects of rows that one call has read, which are these whatever becomes of the rows.

    They are taken inside the call, which runs nobody's code, and decoded behind it.
    """
    cdef list values           # as they were taken; None for none
    cdef bint is_ready         # whether all of them can be given out as they are
    cdef int take(self, string_view number) except -1
    cdef int take_none(self) except -1
    cdef int take_cells(self, const ArrowArray* numbers) except -1
    cdef object object_at(self, size_t i)
    cdef object bytes_at(self, size_t i)


cdef class Live:
    """The live objects of a table, whose rows hold their numbers; see `_memory`."""
    cdef Fresh fresh(self)
    cdef Held held(self)
    cdef object object_of(self, string_view number)


cdef class Stored:
    cdef bytes row
    cdef object value          # what was made of them: to be found by who holds this, when the number has that instead
    cdef object serializer     # by which


cdef class Objects:
    cdef list objects
    cdef list serializers         # of each object: that of the state through which it came
    cdef vector[int64_t] counts
    cdef vector[uint64_t] born    # the epoch in which each was given its number (row_heap.h)
    cdef vector[uint64_t] free
    cdef vector[uint64_t] ended   # that calls held which have ended, and not been counted yet
    cdef vector[uint64_t] released  # that a view may still see
    cdef uint64_t add(self, object value, object serializer, uint64_t epoch) except? 0
    cdef int check(self, uint64_t number) except -1
    cdef int settle(self, vector[uint64_t]& adopted, vector[uint64_t]& released, cbool is_seen, list dead) except -1
    cdef int let_go(self, vector[uint64_t]* numbers, list dead) except -1


cdef bytes row_of(object value, object serializer)
cdef uint64_t number_in(string_view number) except? 0
