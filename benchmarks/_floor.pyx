# cython: language_level=3
# distutils: language = c++
"""Python's view of the floor (floor.h). Built by `make bench`, and no part of sfkv."""

from cython.operator cimport dereference as deref
from libc.stdint cimport int64_t, uint64_t
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string

import os


cdef extern from "floor.h" namespace "sfkv" nogil:
    cdef cppclass CStatus "sfkv::Status":
        CStatus()
        bint ok()
        const string& message()

    cdef cppclass CFloor "sfkv::Floor":
        CFloor(size_t memory_bytes) except +
        CStatus Open(const string& path) except +
        CStatus Prepare(const int64_t* keys, size_t count, size_t batch) except +
        CStatus GetMany(uint64_t* sum) except +
        CStatus PutMany(uint64_t value) except +
        CStatus Get(uint64_t* sum) except +
        CStatus Put(uint64_t value) except +
        CStatus Settle() except +


cdef class Floor:
    cdef unique_ptr[CFloor] c_floor
    cdef readonly uint64_t sum

    def __init__(self, path, size_t memory_bytes):
        self.c_floor.reset(new CFloor(memory_bytes))
        self.done(deref(self.c_floor).Open(os.fsencode(path)))

    cdef int done(self, const CStatus& status) except -1:
        if not status.ok():
            raise OSError(status.message().decode())
        return 0

    def prepare(self, const int64_t[::1] keys, size_t batch):
        self.done(deref(self.c_floor).Prepare(&keys[0], keys.shape[0], batch))

    def get_many(self):
        self.done(deref(self.c_floor).GetMany(&self.sum))

    def put_many(self, uint64_t value):
        self.done(deref(self.c_floor).PutMany(value))

    def get(self):
        self.done(deref(self.c_floor).Get(&self.sum))

    def put(self, uint64_t value):
        self.done(deref(self.c_floor).Put(value))

    def settle(self):
        self.done(deref(self.c_floor).Settle())
