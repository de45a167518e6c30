# cython: language_level=3
# distutils: language = c++
"""The store in memory, and what it was at one moment."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython.operator cimport dereference as deref
from libc.stdint cimport int64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport make_shared, make_unique, shared_ptr, unique_ptr

from sfkv import _errors
from sfkv._rows cimport CByteBuffer, KeyGroupRange
from sfkv._status cimport CStatus, Context, check, failure
from sfkv._store cimport CCall, CLifetime, Store
from sfkv._tables cimport CRows


cdef extern from "<malloc.h>" nogil:
    int malloc_trim(size_t kept)


cdef extern from "sfkv/memory_snapshot.h" namespace "sfkv" nogil:
    cdef cppclass CRowHeap "sfkv::RowHeap":
        size_t used_bytes()
        size_t kept_bytes()

    cdef cppclass CMemoryTables "sfkv::MemoryTables":
        void Own(KeyGroupRange range)
        CRowHeap* heap()

    cdef cppclass CMemoryStore "sfkv::MemoryStore"(CRows):
        CMemoryStore(size_t limit_bytes) except +
        CStatus BeginClose(cbool* begun) except +
        void FinishClose(cbool closed) except +
        CLifetime* lifetime()
        CMemoryTables* tables()
        size_t open_scans() except +

    cdef cppclass CMemorySnapshot "sfkv::MemorySnapshot":
        CMemorySnapshot(CMemoryTables* tables) except +
        cbool NextBlock(size_t most_bytes, int* key_group, CByteBuffer* block) except +

    int64_t LiveMemoryStores "sfkv::MemoryStore::live"()
    int64_t LiveMemoryScans "sfkv::MemoryScan::live"()
    int64_t LiveMemorySnapshots "sfkv::MemorySnapshot::live"()
    int64_t LiveViews "sfkv::RowView::live"()


def live_objects():
    """How many native objects there are of each kind: none, when everything was closed and dropped."""
    return {
        "memory stores": LiveMemoryStores(), "memory scans": LiveMemoryScans(), "memory snapshots": LiveMemorySnapshots(),
        "views": LiveViews(),
    }


@cython.final
cdef class MemoryStore(Store):
    """Tables in memory."""
    cdef shared_ptr[CMemoryStore] c_store

    def __cinit__(self, str path not None, *, size_t limit_bytes, size_t write_batch_bytes):
        self.path = path
        self.max_parallelism = 1  # until own() says more
        self.write_batch_bytes = write_batch_bytes
        self.context = Context(path=path)
        self.c_store = make_shared[CMemoryStore](limit_bytes)
        self.c_rows = <CRows*>self.c_store.get()
        self.c_lifetime = deref(self.c_store).lifetime()

    def own(self, int max_parallelism, int first, int last):
        Store.own(self, max_parallelism, first, last)
        deref(self.c_store).tables().Own(self.range)

    def flush(self):
        """Does nothing, as there are no files, but what every call does."""
        cdef CCall call
        self.enter(&call, self.context, "flush")
        self.refuse_in_batch("flush")

    def compact(self):
        """Gives the memory that removed rows have left back to the system."""
        cdef CCall call
        self.enter(&call, self.context, "compact")
        self.refuse_in_batch("compact")
        with nogil:
            malloc_trim(0)

    cdef int refuse_in_batch(self, str operation) except -1:
        if self.c_rows.InBatch():
            raise failure(_errors.UsageError, f"{operation} does not work inside a batch: end it first", self.context, operation)
        return 0

    def begin_close(self):
        """Waits for the running call, and lets no other in. False if the store is closed already."""
        cdef CStatus status
        cdef cbool begun = False
        with nogil:
            status = deref(self.c_store).BeginClose(&begun)
        check(status, self.context, "close")
        return begun

    def finish_close(self, bint closed):
        """Gives the memory back; or, if the store is not to be closed, lets calls in again. REQUIRES: begin_close() was true."""
        with nogil:
            deref(self.c_store).FinishClose(closed)
            if closed:
                malloc_trim(0)

    def close(self):
        if self.begin_close():
            self.finish_close(True)

    @property
    def open_scans(self):
        return deref(self.c_store).open_scans()

    @property
    def used_bytes(self):
        """What the rows take, with all that holds them."""
        return deref(self.c_store).tables().heap().used_bytes()

    @property
    def kept_bytes(self):
        """What only scans and snapshots still see."""
        return deref(self.c_store).tables().heap().kept_bytes()

    def freeze(self):
        """The rows as they are now. REQUIRES: no batch is open."""
        cdef CCall call
        self.enter(&call, self.context, "snapshot")
        return Snapshot(self)

    def freeze_closing(self):
        """The same between begin_close() and finish_close()."""
        return Snapshot(self)


@cython.final
cdef class Snapshot:
    """The rows of a store as they were. It may be read by any one thread, while the store goes on."""
    cdef unique_ptr[CMemorySnapshot] c_snapshot

    def __cinit__(self, MemoryStore store not None):
        self.c_snapshot = make_unique[CMemorySnapshot](deref(store.c_store).tables())

    def next_block(self, size_t most_bytes):
        """The key group of the next rows, and these as a block (row_blocks.h); None at the end."""
        cdef CByteBuffer block
        cdef int key_group = 0
        cdef cbool found
        with nogil:
            found = deref(self.c_snapshot).NextBlock(most_bytes, &key_group, &block)
        return (key_group, PyBytes_FromStringAndSize(block.data(), block.size())) if found else None
