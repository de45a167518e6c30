# A store of either kind, for further modules of sfkv to cimport. No RocksDB here.
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from sfkv._live cimport Fresh
from sfkv._rows cimport KeyGroupRange, string_view
from sfkv._status cimport CStatus, Context
from sfkv._tables cimport CRows


cdef extern from "sfkv/lifetime.h" namespace "sfkv" nogil:
    cdef cppclass CForkCount "std::atomic<uint64_t>":
        pass
    CForkCount* ForkCount()
    void ShareForkCount(CForkCount* count)

    cdef cppclass CLifetime "sfkv::Lifetime":
        bint InChild()
        bint IsClosed()

    cdef cppclass CCall "sfkv::Call":
        CCall()
        CStatus Enter(CLifetime* lifetime) except +
        void Leave()


cdef extern from "sfkv/row_blocks.h" namespace "sfkv" nogil:
    CStatus LoadBlock(CRows* rows, int key_group, string_view block) except +


cdef CForkCount* fork_count()


cdef class Store:
    cdef CRows* c_rows         # what the class below this owns, as long as this lives
    cdef CLifetime* c_lifetime
    cdef readonly str path
    cdef readonly size_t write_batch_bytes
    cdef readonly int max_parallelism
    cdef KeyGroupRange range
    cdef Context context
    cdef CRows* rows(self)
    cdef int enter(self, CCall* call, Context context, str operation) except -1
    cdef int settle(self, Fresh fresh) except -1
