# cython: language_level=3
# distutils: language = c++
"""Python's view of the floor (floor.h). Built by `make bench`, and no part of sfkv."""

from cython.operator cimport dereference as deref
from libc.stdint cimport int64_t, uint64_t
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

import os


cdef extern from "floor.h" namespace "sfkv" nogil:
    cdef cppclass CStatus "sfkv::Status":
        CStatus()
        bint ok()
        const string& message()

    cdef enum class CTableKind "sfkv::TableKind":
        kValue
        kList
        kMap

    cdef cppclass CFloor "sfkv::Floor":
        CFloor(size_t memory_bytes) except +
        CStatus Open(const string& path, const string& changes) except +
        CStatus Prepare(CTableKind kind, const int64_t* keys, const int64_t* user_keys, const int64_t* values,
                        const vector[string]& records, size_t count, size_t batch) except +
        CStatus GetMany(uint64_t* sum) except +
        CStatus SeekMany(size_t steps, uint64_t* sum) except +
        CStatus PutMany() except +
        CStatus MergeMany() except +
        CStatus ItemsMany(uint64_t* sum) except +
        CStatus Scan(uint64_t* sum) except +
        CStatus ScanBelow(int64_t moment, uint64_t* sum) except +
        CStatus Get(uint64_t* sum) except +
        CStatus Put() except +
        CStatus Merge() except +
        CStatus Flush() except +
        CStatus Settle() except +


cdef extern from "codec.h" namespace "sfkv" nogil:
    cdef struct CCodecTimes "sfkv::CodecTimes":
        double encode_ns
        double decode_ns

    CCodecTimes MeasureCodec(const vector[string]& formats, int64_t rows, int rounds) except +


def codec_ns(list formats, int64_t rows, int rounds):
    """Nanoseconds of CPU per cell, to encode and to decode records of such columns."""
    cdef CCodecTimes times = MeasureCodec([format.encode() for format in formats], rows, rounds)
    return times.encode_ns, times.decode_ns


cdef class Floor:
    cdef unique_ptr[CFloor] c_floor
    cdef uint64_t c_sum

    def __init__(self, path, size_t memory_bytes, str changes):
        self.c_floor.reset(new CFloor(memory_bytes))
        self.done(deref(self.c_floor).Open(os.fsencode(path), changes.encode()))

    @property
    def sum(self):
        """Of all numbers that were read."""
        return self.c_sum

    cdef int done(self, const CStatus& status) except -1:
        if not status.ok():
            raise OSError(status.message().decode())
        return 0

    def prepare(self, str kind, const int64_t[::1] keys, const int64_t[::1] user_keys, const int64_t[::1] values, size_t batch,
                list records=None):
        """The rows that the calls below work on: columns of keys, user keys (moments of tables; else None) and values."""
        kinds = {"value": CTableKind.kValue, "record": CTableKind.kValue, "table": CTableKind.kValue, "reducing": CTableKind.kValue,
                 "aggregating": CTableKind.kValue, "list": CTableKind.kList, "map": CTableKind.kMap}
        cdef const int64_t* first_user_key = NULL
        cdef vector[string] rows = records or []
        if user_keys is not None:
            first_user_key = &user_keys[0]
        self.done(deref(self.c_floor).Prepare(kinds[kind], &keys[0], first_user_key, &values[0], rows, keys.shape[0], batch))

    def get_many(self):
        self.done(deref(self.c_floor).GetMany(&self.c_sum))

    def seek_many(self, size_t steps):
        self.done(deref(self.c_floor).SeekMany(steps, &self.c_sum))

    def put_many(self):
        self.done(deref(self.c_floor).PutMany())

    def merge_many(self):
        self.done(deref(self.c_floor).MergeMany())

    def items_many(self):
        self.done(deref(self.c_floor).ItemsMany(&self.c_sum))

    def scan(self):
        self.done(deref(self.c_floor).Scan(&self.c_sum))

    def scan_below(self, int64_t moment):
        self.done(deref(self.c_floor).ScanBelow(moment, &self.c_sum))

    def get(self):
        self.done(deref(self.c_floor).Get(&self.c_sum))

    def put(self):
        self.done(deref(self.c_floor).Put())

    def merge(self):
        self.done(deref(self.c_floor).Merge())

    def flush(self):
        self.done(deref(self.c_floor).Flush())

    def settle(self):
        self.done(deref(self.c_floor).Settle())
