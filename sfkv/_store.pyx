# cython: language_level=3
# distutils: language = c++
"""What all stores have in common: which keys they take, the guard that every call passes, and their own rows.

Every call enters the store (a Call: one thread at a time, never after close), works without the GIL, and leaves.
"""

from libcpp.string cimport string
from libcpp.vector cimport vector

from sfkv._rows cimport kReservedGroup, view
from sfkv._status cimport check

# The key group of the reserved rows, and these: FORMAT.md section 5.
RESERVED_GROUP = kReservedGroup
STORE_ROW = b"\xff\xff\x00"
TABLE_ROWS = b"\xff\xff\x01"
CELL_ROWS = b"\xff\xff\x02"
OFFSET_ROW = b"\xff\xff\x03"
RESERVED_BOUND = b"\xff\xff\x04"


cdef CForkCount* fork_count():
    """How often the process was forked: for modules that make stores, which this one asks whether they were made before."""
    return ForkCount()


cdef class Store:
    """A store; `_core` and `_memory` have the kinds of them."""

    def own(self, int max_parallelism, int first, int last):
        """Sets which keys the store takes. Once, before there are tables."""
        self.max_parallelism = max_parallelism
        self.range.first = first
        self.range.last = last

    @property
    def key_groups(self):
        return self.range.first, self.range.last

    cdef CRows* rows(self):
        return self.c_rows

    cdef int enter(self, CCall* call, Context context, str operation) except -1:
        return check(call.Enter(self.c_lifetime), context, operation)

    cdef int settle(self, Fresh fresh) except -1:
        """To be called after a write: keeps the objects that rows hold now, and lets go of others. See `_memory`.

        `fresh` is what the write was given, if it was objects; it ends.
        """
        return 0

    @property
    def closed(self):
        return self.c_lifetime.IsClosed() or self.c_lifetime.InChild()

    @property
    def in_child(self):
        return self.c_lifetime.InChild()

    def read_range(self, bytes first not None, bytes bound not None):
        """The rows whose encoded keys lie between two, the second left out, as a dict of bytes. For few rows: all are copied."""
        cdef CCall call
        cdef vector[string] keys
        cdef vector[string] values
        cdef CStatus status
        cdef string_view c_first = view(first)
        cdef string_view c_bound = view(bound)
        self.enter(&call, self.context, "read_range")
        with nogil:
            status = self.c_rows.ReadRange(c_first, c_bound, &keys, &values)
            call.Leave()  # before objects are made, which may begin a collection, and that the user's own calls
        check(status, self.context, "read_range")
        return dict(zip(keys, values))

    def reserved_rows(self):
        """The store's own rows."""
        return self.read_range(STORE_ROW, RESERVED_BOUND)

    def load_block(self, int key_group, bytes block not None):
        """Writes the rows of a block (row_blocks.h)."""
        cdef CCall call
        cdef CStatus status
        cdef string_view c_block = view(block)
        self.enter(&call, self.context, "restore")
        with nogil:
            status = LoadBlock(self.c_rows, key_group, c_block)
            call.Leave()
        check(status, self.context, "restore")
