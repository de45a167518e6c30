# cython: language_level=3
# distutils: language = c++
"""Live objects by number, and what calls hold of them: those that they are about to write, and those that they have read.

`_memory` has the classes that know the store; tables know only what is here.
"""

cimport cython
from cython.operator cimport dereference as deref
from libc.string cimport memcpy

from sfkv import _errors


cdef class Fresh:
    cdef object number_of(self, object value):
        """The number of an object, as bytes."""
        raise NotImplementedError


cdef class Held:
    cdef int take(self, string_view number) except -1:
        raise NotImplementedError

    cdef int take_none(self) except -1:
        raise NotImplementedError

    cdef int take_cells(self, const ArrowArray* numbers) except -1:
        """Takes those of a binary array; none where it is null."""
        raise NotImplementedError

    cdef object object_at(self, size_t i):
        """What is given out for what was taken at a place; None if it was none."""
        raise NotImplementedError

    cdef object bytes_at(self, size_t i):
        """The same as its serializer's bytes."""
        raise NotImplementedError


cdef class Live:
    cdef Fresh fresh(self):
        raise NotImplementedError

    cdef Held held(self):
        raise NotImplementedError

    cdef object object_of(self, string_view number):
        """The object of one row. REQUIRES: the GIL has been held since the row was read, and nobody's code has run."""
        raise NotImplementedError


@cython.final
cdef class Stored:
    """An object as its serializer's bytes, until it is asked for."""

    def __cinit__(self, bytes row not None):
        self.row = row


@cython.final
cdef class Objects:
    """Live objects by number, with how often each is held: by rows (memory_objects.h), and by calls that are about to write them.

    Everything needs the GIL, and runs nobody's code.
    """

    def __cinit__(self):
        self.objects = []
        self.serializers = []

    cdef uint64_t add(self, object value, object serializer, uint64_t epoch) except? 0:
        """Gives an object a number, which is held until it is put into `ended`."""
        cdef uint64_t number
        if self.free.empty():
            number = len(self.objects)
            self.objects.append(value)
            self.serializers.append(serializer)
            self.counts.push_back(1)
            self.born.push_back(epoch)
        else:
            number = self.free.back()
            self.free.pop_back()
            self.objects[number] = value
            self.serializers[number] = serializer
            self.counts[number] = 1
            self.born[number] = epoch
        return number

    cdef int check(self, uint64_t number) except -1:
        if number >= <uint64_t>len(self.objects):
            raise _errors.CorruptionError("Corruption: a row holds an object that there is not: restore the store from a snapshot")
        return 0

    cdef int settle(self, vector[uint64_t]& adopted, vector[uint64_t]& released, cbool is_seen, list dead) except -1:
        """Counts who holds what, and puts what nobody does into `dead`. With `is_seen`, views may still need what was released."""
        cdef uint64_t number
        for number in adopted:
            self.counts[number] += 1
        self.released.insert(self.released.end(), released.begin(), released.end())
        self.let_go(&self.ended, dead)
        if not is_seen:
            self.let_go(&self.released, dead)
        return 0

    cdef int let_go(self, vector[uint64_t]* numbers, list dead) except -1:
        """One less holds each of these."""
        cdef uint64_t number
        cdef vector[uint64_t] gone
        gone.swap(deref(numbers))
        for number in gone:
            self.counts[number] -= 1
            if self.counts[number] == 0:
                dead.append(self.objects[number])
                dead.append(self.serializers[number])
                self.objects[number] = self.serializers[number] = None
                self.free.push_back(number)
        return 0


cdef bytes row_of(object value, object serializer):
    """An object as bytes: those that it was stored as, or its serializer's."""
    return (<Stored>value).row if type(value) is Stored else serializer.dumps(value)


cdef uint64_t number_in(string_view number) except? 0:
    cdef uint64_t c_number = 0
    if number.size() != sizeof(c_number):
        raise _errors.CorruptionError("Corruption: a row does not hold an object: restore the store from a snapshot")
    memcpy(&c_number, number.data(), sizeof(c_number))
    return c_number
