# cython: language_level=3
# distutils: language = c++
"""A batch's rows as a Python dict: decoded once, and encoded again where they changed."""

cimport cython
from cpython.dict cimport PyDict_Next, PyDict_SetDefault
from cpython.list cimport PyList_GET_ITEM
from cpython.ref cimport PyObject
from libc.string cimport memcmp
from libcpp.vector cimport vector

from sfkv._table cimport Table
from sfkv._live cimport Fresh, Held
from sfkv._rows cimport CByteBuffer, CKeyBatch, CRowSet, CWriteBatch, kKeyHeaderBytes, string_view, view
from sfkv._status cimport Context, failure

from sfkv import _errors
from sfkv._store import OFFSET_ROW


@cython.final
cdef class BundleRows:
    """The rows of a batch of keys: `rows` is the dict, the rest what they were when they were read."""
    cdef Table table
    cdef CKeyBatch batch
    cdef CRowSet stored
    cdef readonly dict rows
    cdef list keys               # the distinct keys, in the order in which they are written: the sorted batch's, or as they came
    cdef list originals          # the values that were read for them; None where these can be changed in place
    cdef vector[size_t] places   # where each of them is in the batch, and its row in `stored`
    cdef Held held               # live objects, until they are decoded
    cdef dict live_rows          # by place, the bytes of live objects as they were read; None where values are no such

    def __cinit__(self, Table table not None, keys):
        self.table = table
        self.rows = {}
        self.keys = []
        self.originals = []
        self.held = table.values.held()
        self.live_rows = None if self.held is None else {}
        if table.sorts or not table.keys.is_equal_in_python:
            table.read_sorted_keys(keys, &self.batch, "bundle")
            table.read_rows(self.batch, &self.stored, "bundle", self.held)
            self.decode_sorted()
        else:
            given = table.keys.objects_of(keys)
            table.read_keys(keys if given is None else given, &self.batch, "bundle")
            table.read_rows(self.batch, &self.stored, "bundle", self.held)
            self.decode_as_they_come(given)
        self.held = None
        if table.values.is_record or table.values.loads is not None:
            self.originals = None  # the user may change them in place: their rows are compared instead

    cdef object decode_key(self, string_view key):
        return self.table.keys.decode(string_view(key.data() + kKeyHeaderBytes, key.size() - kKeyHeaderBytes))

    cdef object decode_value(self, size_t place):
        """What is stored. A live object is copied, as what is done to it in a block that fails must not be seen."""
        if not self.stored.Has(place):
            return None
        if self.live_rows is None:
            return self.table.values.decode(self.stored.Get(place))
        self.live_rows[place] = self.held.bytes_at(place)
        return self.table.values.loads(self.live_rows[place])

    cdef bint is_as_it_was(self, size_t place, object value):
        """Whether a live object is what was read."""
        return place in self.live_rows and self.table.values.dumps(value) == self.live_rows[place]

    cdef int decode_sorted(self) except -1:
        """Fills the dict from the sorted batch: what the rows say are different keys."""
        cdef size_t distinct
        self.places = range(self.batch.distinct_count())
        self.keys = [None] * self.batch.distinct_count()
        self.originals = [None] * self.batch.distinct_count()
        for distinct in self.batch.DistinctByAppearance():
            self.keys[distinct] = self.decode_key(self.batch.DistinctKey(distinct))
            self.originals[distinct] = self.decode_value(distinct)
            self.rows[self.keys[distinct]] = self.originals[distinct]
        if <size_t>len(self.rows) != self.batch.distinct_count():
            cause = "two of the keys are one to Python, such as moments an hour apart where a clock was set back: use get_many and put_many"
            raise failure(_errors.SchemaError, cause, self.table.context, "bundle")
        return 0

    cdef int decode_as_they_come(self, list given) except -1:
        """The same from one that is not: what Python says are different keys, which are `given`, unless it is None."""
        cdef size_t place
        cdef Py_ssize_t count = 0
        cdef bint by_user = self.table.values.is_record or self.table.values.loads is not None
        self.places.reserve(self.batch.size())
        for place in range(self.batch.size()):
            key = self.decode_key(self.batch.Key(place)) if given is None else <object>PyList_GET_ITEM(given, place)
            if by_user and key in self.rows:
                continue  # the value may be large
            value = self.decode_value(place)
            PyDict_SetDefault(self.rows, key, value)
            if len(self.rows) == count:
                continue
            count += 1
            self.keys.append(key)
            self.originals.append(value)
            self.places.push_back(place)
        return 0

    cdef string_view key_at(self, size_t place):
        return self.batch.DistinctKey(place) if self.batch.is_sorted() else self.batch.Key(place)

    def write(self, bytes offset=None):
        """Writes what changed in the dict: all of it is encoded before the first byte is written."""
        cdef vector[CWriteBatch] pieces
        cdef size_t i, place
        cdef size_t held = 0
        cdef CByteBuffer row
        cdef string_view stored
        cdef Context context = self.table.context
        cdef Fresh fresh = self.table.values.fresh()
        cdef Py_ssize_t at = 0
        cdef PyObject* key = NULL
        cdef PyObject* found = NULL
        cdef bint in_order = not self.batch.is_sorted()  # the dict has the keys as they were put into it: none is looked up
        pieces.resize(1)
        for i in range(self.places.size()):
            place = self.places[i]
            in_order = in_order and PyDict_Next(self.rows, &at, &key, &found) and key == <PyObject*>PyList_GET_ITEM(self.keys, i)
            if in_order and self.originals is not None and found == <PyObject*>PyList_GET_ITEM(self.originals, i):
                held += 1
                continue
            value = <object>found if in_order else self.rows.get(self.keys[i], self)  # itself: a default that is no value
            held += value is not self
            if self.originals is not None and value is self.originals[i]:
                continue
            if value is None or value is self:
                if self.stored.Has(place):
                    pieces.back().Delete(self.key_at(place))
                continue
            if self.live_rows is not None and self.is_as_it_was(place, value):
                continue
            row.Clear()
            self.table.values.encode(value, &row, context, "bundle", fresh)
            if self.live_rows is None and self.stored.Has(place):  # where they are no numbers, which may have been given out again
                stored = self.stored.Get(place)
                if stored.size() == row.size() and memcmp(stored.data(), row.data(), row.size()) == 0:
                    continue
            pieces.back().Put(self.key_at(place), string_view(row.data(), row.size()))
            if offset is None and pieces.back().bytes() >= self.table.store.write_batch_bytes:
                pieces.resize(pieces.size() + 1)
        if held != <size_t>len(self.rows):
            known = set(self.keys)
            strange = next(key for key in self.rows if key not in known)
            raise KeyError(f"{strange!r} is not among the keys that the bundle was opened with [state {context.state!r}]")
        if offset is not None:
            pieces.back().Put(view(OFFSET_ROW), view(offset))
        self.table.write_pieces(&pieces, "bundle", fresh)
