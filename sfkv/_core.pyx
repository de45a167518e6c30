# cython: language_level=3
# distutils: language = c++
"""The store and its slot: the only module that includes RocksDB.

Every call enters the store (a Call: one thread at a time, never after close), works without the GIL, and leaves. Native
objects are held by value and smart pointers.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer
from cython.operator cimport dereference as deref
from libc.stdint cimport uint64_t
from libcpp.memory cimport make_shared, shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

import os

from sfkv._engine cimport (
    CEngineInfo, CHeldDirectory, CRowCache, CSlot, CSnapshotFile, CStore, CStoreOptions, ChecksumFile, DescribeEngine, LiveBatches, LiveScans,
    LiveSlots, LiveStores, MakeDirectories, ReadBlock, ReplaceFileSystem, StoreKind, SyncDirectory, TakeSnapshot, WrapFileSystem, WriteMarker,
)
from sfkv._rows cimport CByteBuffer, string_view, view
from sfkv._status cimport CStatus, Context, check
from sfkv._store cimport CCall, ShareForkCount, Store, fork_count
from sfkv._tables cimport CRows

cdef extern from "sfkv/snapshot.h":
    pass

cdef extern from *:
    """
    #ifndef SFKV_ENGINE
    #define SFKV_ENGINE "system"
    #define SFKV_ENGINE_FLAGS ""
    #endif
    #define SFKV_COMPILER "GCC-compatible " __VERSION__
    """
    const char* SFKV_ENGINE
    const char* SFKV_ENGINE_FLAGS
    const char* SFKV_COMPILER


ShareForkCount(fork_count())


def build_info():
    """See `sfkv.build_info`."""
    cdef CEngineInfo engine = DescribeEngine()
    return {
        "engine": SFKV_ENGINE.decode(),
        "engine_flags": SFKV_ENGINE_FLAGS.decode(),
        "rocksdb": engine.version.decode(),
        "assertions": bool(engine.assertions),
        "crc32c": engine.crc32c.decode(),
        "compressions": [name.decode() for name in engine.compressions],
        "compiler": SFKV_COMPILER.decode(),
    }


def checksum_file(path):
    """The size and CRC32C (eight hexadecimal digits) of a file."""
    cdef string name = os.fsencode(path)
    cdef uint64_t size = 0
    cdef string crc32c
    cdef CStatus status
    with nogil:
        status = ChecksumFile(name, &size, &crc32c)
    check(status, Context(path=str(path)), "checksum")
    return size, crc32c.decode()


def sync_directory(path):
    """Makes the names in a directory durable."""
    check(SyncDirectory(os.fsencode(path)), Context(path=str(path)), "sync")


def make_directories(path):
    """Makes a directory and those above it that are missing, durably."""
    check(MakeDirectories(os.fsencode(path)), Context(path=str(path)), "make")


def mark_clean(path):
    """Makes a directory of RocksDB's files a closed store."""
    check(WriteMarker(os.fsencode(path), b"clean"), Context(path=str(path)), "restore")


def live_objects():
    """How many native objects there are of each kind: none, when everything was closed and dropped."""
    return {"stores": LiveStores(), "slots": LiveSlots(), "scans": LiveScans(), "batches": LiveBatches()}


def wrap_file_system(capsule):
    """Puts another file system over the one under all stores that are opened from now on: for tests that make I/O fail.

    `capsule` is named "sfkv.wrap_file_system" and holds a `BackgroundEnv::WrapFileSystem` of the same engine.
    """
    ReplaceFileSystem(<WrapFileSystem>PyCapsule_GetPointer(capsule, "sfkv.wrap_file_system"))


@cython.final
cdef class Slot:
    """The native part of `sfkv.Slot`."""

    def __cinit__(self, size_t memory_bytes, double write_buffer_ratio, double high_priority_ratio):
        self.c_slot = make_shared[CSlot](memory_bytes, write_buffer_ratio, high_priority_ratio)

    @property
    def memory_bytes(self):
        return deref(self.c_slot).memory_bytes()

    @property
    def cache_bytes(self):
        return deref(self.c_slot).cache_bytes()

    @property
    def write_buffer_bytes(self):
        return deref(self.c_slot).write_buffer_bytes()

    @property
    def cache_usage_bytes(self):
        return deref(self.c_slot).cache_usage_bytes()

    @property
    def row_cache_bytes(self):
        return deref(self.c_slot).row_cache_bytes()

    @property
    def pinned_bytes(self):
        return deref(self.c_slot).pinned_bytes()

    @property
    def holders(self):
        """This object, and every open store."""
        return self.c_slot.use_count()


@cython.final
cdef class Directory:
    """The directory of a store in memory, held until close()."""
    cdef CHeldDirectory c_directory
    cdef Context context

    def __cinit__(self, str path not None, *, bint create, bint recover):
        cdef string c_path = os.fsencode(path)
        cdef CStatus status
        self.context = Context(path=path)
        with nogil:
            status = self.c_directory.Open(c_path, create, recover, StoreKind.kMemory)
        check(status, self.context, "open")

    @property
    def found_state(self):
        """What the marker said when it was opened: "new", "open" or "clean"."""
        return self.c_directory.found_state().decode()

    def mark(self, bytes state not None):
        """Replaces the marker, durably."""
        cdef const char* c_state = state
        cdef CStatus status
        with nogil:
            status = self.c_directory.Mark(c_state)
        check(status, self.context, "close")

    def close(self):
        self.c_directory.Release()


@cython.final
cdef class RocksDBStore(Store):
    """One database in one directory."""

    def __cinit__(self, str path not None, Slot slot not None, *, bint create=True, bint recover=False,
                 size_t write_batch_bytes, size_t read_chunk_keys, bint row_cache=True, str engine_options=""):
        cdef CStoreOptions options
        cdef CStatus status
        options.path = os.fsencode(path)
        options.create = create
        options.recover = recover
        options.write_batch_bytes = write_batch_bytes
        options.read_chunk_keys = read_chunk_keys
        options.row_cache = row_cache
        options.engine_options = engine_options.encode()
        self.path = path
        self.max_parallelism = 1  # until own() says more
        self.write_batch_bytes = write_batch_bytes
        self.context = Context(path=path)
        cdef shared_ptr[CSlot] c_slot = slot.c_slot
        with nogil:
            status = CStore.Open(options, c_slot, &self.c_store)
        check(status, self.context, "open")
        self.c_rows = <CRows*>self.c_store.get()
        self.c_lifetime = deref(self.c_store).lifetime()

    def close(self, bint discard=False):
        cdef CStatus status
        with nogil:
            status = deref(self.c_store).Close(discard)
        check(status, self.context, "close")

    @property
    def was_unclean(self):
        return deref(self.c_store).was_unclean()

    @property
    def open_scans(self):
        return deref(self.c_store).open_scans()

    @property
    def scan_seeks(self):
        """How often scans have asked the engine for an iterator or sought with one: for tests."""
        return deref(self.c_store).scan_seeks()

    @property
    def row_cache(self):
        """The rows and bytes of the row cache, and how many rows were ever found in it: for tests."""
        cdef CCall call
        self.enter(&call, self.context, "look at")
        cdef const CRowCache* cache = &deref(deref(self.c_store).table()).row_cache()
        return {"rows": cache.rows(), "bytes": cache.bytes(), "found": cache.found()}

    @property
    def held_rows(self):
        """How many folds of single calls are held back: for tests."""
        cdef CCall call
        self.enter(&call, self.context, "look at")
        return deref(deref(self.c_store).table()).held_rows()

    def flush(self):
        """Puts all writes into files."""
        cdef CCall call
        cdef CStatus status
        self.enter(&call, self.context, "flush")
        with nogil:
            status = deref(self.c_store).table().Flush()
            call.Leave()
        check(status, self.context, "flush")

    def compact(self):
        """Rewrites all files."""
        cdef CCall call
        cdef CStatus status
        self.enter(&call, self.context, "compact")
        with nogil:
            status = deref(self.c_store).table().Compact()
            call.Leave()
        check(status, self.context, "compact")

    def snapshot(self, directory):
        """Links all files into `directory`, after a flush; returns their (name, bytes, CRC32C or '')."""
        cdef CCall call
        cdef vector[CSnapshotFile] files
        cdef string path = os.fsencode(directory)
        cdef CStatus status
        self.enter(&call, self.context, "snapshot")
        with nogil:
            status = TakeSnapshot(self.c_store.get(), path, &files)
            call.Leave()
        check(status, self.context, "snapshot")
        return [(os.fsdecode(file.name), file.bytes, file.crc32c.decode()) for file in files]

    def read_block(self, bytes first not None, bytes bound not None, size_t most_bytes):
        """The first rows whose encoded keys lie between two, the second left out, as (key group, block (row_blocks.h), the key to go on from).

        The block is empty at the end.
        """
        cdef CCall call
        cdef CByteBuffer block
        cdef string at = first
        cdef int key_group = 0
        cdef CStatus status
        cdef string_view c_bound = view(bound)
        self.enter(&call, self.context, "restore")
        with nogil:
            status = ReadBlock(deref(deref(self.c_store).table()), most_bytes, c_bound, &at, &key_group, &block)
            call.Leave()
        check(status, self.context, "restore")
        return key_group, PyBytes_FromStringAndSize(block.data(), block.size()), at
