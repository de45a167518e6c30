# cython: language_level=3
# distutils: language = c++
"""Python's view of the floor of state in memory (memory_floor.h). Built by `make bench`, and no part of sfkv."""

from libc.stdint cimport int64_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector


cdef extern from "memory_floor.h" namespace "sfkv" nogil:
    cdef enum class CKind "sfkv::MemoryFloor::Kind":
        kValue
        kRecord
        kList
        kMap
        kFold
        kTable

    cdef cppclass CMemoryFloor "sfkv::MemoryFloor":
        CMemoryFloor() except +
        cbool Prepare(CKind kind, const int64_t* keys, const int64_t* user_keys, const int64_t* values, const vector[string]& records,
                      size_t count, size_t batch) except +
        void GetMany(uint64_t* sum) except +
        void PutMany() except +
        void MergeMany() except +
        void Get(uint64_t* sum) except +
        void Put() except +
        void Merge() except +
        void ItemsMany(uint64_t* sum) except +
        void Scan(uint64_t* sum) except +
        void ScanBelow(int64_t moment, uint64_t* sum) except +


cdef class MemoryFloor:
    """As `Floor` (_floor.pyx), over a table in memory."""
    cdef CMemoryFloor c_floor
    cdef uint64_t c_sum

    @property
    def sum(self):
        """Of all numbers that were read."""
        return self.c_sum

    def prepare(self, str kind, const int64_t[::1] keys, const int64_t[::1] user_keys, const int64_t[::1] values, size_t batch,
                list records=None):
        """The rows that the calls below work on: columns of keys, user keys (moments of tables; else None) and values."""
        kinds = {
            "value": CKind.kValue, "record": CKind.kRecord, "table": CKind.kTable, "list": CKind.kList, "map": CKind.kMap,
            "reducing": CKind.kFold, "aggregating": CKind.kFold,
        }
        cdef const int64_t* first_user_key = NULL
        cdef vector[string] rows = records or []
        if user_keys is not None:
            first_user_key = &user_keys[0]
        if not self.c_floor.Prepare(kinds[kind], &keys[0], first_user_key, &values[0], rows, keys.shape[0], batch):
            raise ValueError("a record is longer than the floor has room for")

    def get_many(self):
        self.c_floor.GetMany(&self.c_sum)

    def put_many(self):
        self.c_floor.PutMany()

    def merge_many(self):
        self.c_floor.MergeMany()

    def items_many(self):
        self.c_floor.ItemsMany(&self.c_sum)

    def scan(self):
        self.c_floor.Scan(&self.c_sum)

    def scan_below(self, int64_t moment):
        self.c_floor.ScanBelow(moment, &self.c_sum)

    def get(self):
        self.c_floor.Get(&self.c_sum)

    def put(self):
        self.c_floor.Put()

    def merge(self):
        self.c_floor.Merge()
