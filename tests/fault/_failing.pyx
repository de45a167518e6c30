# cython: language_level=3
# distutils: language = c++
"""The failing file system of failing_file_system.h, for tests in Python. Built by `make test`, and no part of sfkv.

It is compiled with the same engine as sfkv's core, and given to it by `sfkv._core.wrap_file_system(capsule())`.
"""

from cpython.pycapsule cimport PyCapsule_New
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

import os


cdef extern from "failing_file_system.h" namespace "sfkv_test" nogil:
    cdef enum class Fault:
        kNone
        kOnce
        kForGood
        kNoSpace
        kTorn
        kLostSync

    cdef cppclass CGates "sfkv_test::Gates":
        size_t Hold(const string& call, const string& begin, const string& end) except +
        bint Reached(size_t gate, double seconds)
        void Release(size_t gate, bint fails)

    cdef cppclass CSchedule "sfkv_test::Schedule":
        CGates gates
        void Arm(Fault fault, long call)
        long count()
        string failed() except +

    cdef cppclass CShared "sfkv_test::Shared":
        CSchedule schedule

    shared_ptr[CShared] TheShared() except +
    void WrapInFailing(void*)
    void LosePower() except +
    bint FailsInPython(const char* call, const string& path, bint changes) except +

FAULTS = {
    "count": Fault.kNone,
    "once": Fault.kOnce,
    "for good": Fault.kForGood,
    "no space": Fault.kNoSpace,
    "torn": Fault.kTorn,
    "lost sync": Fault.kLostSync,
}


def capsule():
    """The way into sfkv's core."""
    return PyCapsule_New(<void*>&WrapInFailing, "sfkv.wrap_file_system", NULL)


def arm(fault, long call=0):
    """Lets the call of that number, from 0, fail. Counting begins anew."""
    TheShared().get().schedule.Arm(<Fault><int>FAULTS[fault], call)


def disarm():
    """Nothing fails any more. Returns the first call that failed, or ''."""
    failed = TheShared().get().schedule.failed().decode()
    TheShared().get().schedule.Arm(Fault.kNone, 0)
    return failed


def count():
    """How many calls there were since arming."""
    return TheShared().get().schedule.count()


class Gate:
    """Lets the next call of that name, on a path that begins and ends so, wait for ``release``."""

    def __init__(self, call, begin, end=""):
        self._number = TheShared().get().schedule.gates.Hold(call.encode(), os.fsencode(begin), end.encode())

    def reached(self, double seconds=30):
        """Waits until a call has come to it; whether one has."""
        cdef size_t number = self._number
        cdef bint reached
        with nogil:
            reached = TheShared().get().schedule.gates.Reached(number, seconds)
        return reached

    def release(self, bint fails=False):
        """Lets the call go on, or fail."""
        TheShared().get().schedule.gates.Release(self._number, fails)


def lose_power():
    """Takes away what was not synced. No store may be open."""
    with nogil:
        LosePower()


def fails(call, path, bint changes):
    """Counts an I/O call that Python makes; whether it is to fail."""
    return FailsInPython(call.encode(), os.fsencode(path), changes)
