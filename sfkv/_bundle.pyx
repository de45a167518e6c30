# cython: language_level=3
# distutils: language = c++
"""A batch's rows as a Python dict: decoded once, and encoded again where they changed."""

cimport cython
from libc.string cimport memcmp
from libcpp.vector cimport vector

from sfkv._table cimport Table
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
    cdef list keys             # the distinct keys, in the batch's order
    cdef list originals        # the values that were read for them; None where these can be changed in place
    cdef list live_rows        # the bytes of live objects as they were read; None where values are no such

    def __cinit__(self, Table table not None, keys):
        self.table = table
        table.read_sorted_keys(keys, &self.batch, "bundle")
        table.read_rows(self.batch, &self.stored, "bundle")
        self.decode()

    cdef int decode(self) except -1:
        """Fills the dict, in the order in which the keys first appear in the batch."""
        cdef size_t distinct
        cdef string_view key
        self.keys = [None] * self.batch.distinct_count()
        self.originals = [None] * self.batch.distinct_count()
        self.live_rows = [None] * self.batch.distinct_count() if self.table.values.is_live else None
        self.rows = {}
        for distinct in self.batch.DistinctByAppearance():
            key = self.batch.DistinctKey(distinct)
            self.keys[distinct] = self.table.keys.decode(string_view(key.data() + kKeyHeaderBytes, key.size() - kKeyHeaderBytes))
            if self.stored.Has(distinct):
                self.originals[distinct] = self.value_of(distinct)
            self.rows[self.keys[distinct]] = self.originals[distinct]
        if <size_t>len(self.rows) != self.batch.distinct_count():
            cause = "two of the keys are one to Python, such as moments an hour apart where a clock was set back: use get_many and put_many"
            raise failure(_errors.SchemaError, cause, self.table.context, "bundle")
        if self.table.values.is_record or self.table.values.loads is not None:
            self.originals = None  # the user may change them in place: their rows are compared instead
        return 0

    cdef object value_of(self, size_t distinct):
        """The value that is stored for a key. A live object is copied, as what is done to it in a block that fails must not be seen."""
        cdef string_view row = self.stored.Get(distinct)
        if self.live_rows is None:
            return self.table.values.decode(row)
        serializer = self.table.values.schema.serializer
        self.live_rows[distinct] = serializer.dumped(row.data()[:row.size()])
        return serializer.load(self.live_rows[distinct])

    cdef bint is_as_it_was(self, size_t distinct, object value):
        """Whether a live object is what was read."""
        return self.live_rows[distinct] is not None and self.table.values.schema.serializer.dump(value) == self.live_rows[distinct]

    def write(self, bytes offset=None):
        """Writes what changed in the dict: all of it is encoded before the first byte is written."""
        cdef vector[CWriteBatch] pieces
        cdef size_t distinct
        cdef size_t held = 0
        cdef CByteBuffer row
        cdef string_view stored
        cdef Context context = self.table.context
        pieces.resize(1)
        for distinct in range(self.batch.distinct_count()):
            value = self.rows.get(self.keys[distinct], self)  # itself: a default that is no value
            held += value is not self
            if self.originals is not None and value is self.originals[distinct]:
                continue
            if value is None or value is self:
                if self.stored.Has(distinct):
                    pieces.back().Delete(self.batch.DistinctKey(distinct))
                continue
            if self.live_rows is not None and self.is_as_it_was(distinct, value):
                continue
            row.Clear()
            self.table.values.encode(value, &row, context, "bundle")
            if self.stored.Has(distinct):
                stored = self.stored.Get(distinct)
                if stored.size() == row.size() and memcmp(stored.data(), row.data(), row.size()) == 0:
                    continue
            pieces.back().Put(self.batch.DistinctKey(distinct), string_view(row.data(), row.size()))
            if offset is None and pieces.back().bytes() >= self.table.store.write_batch_bytes:
                pieces.resize(pieces.size() + 1)
        if held != <size_t>len(self.rows):
            strange = next(key for key in self.rows if key not in self.keys)
            raise KeyError(f"{strange!r} is not among the keys that the bundle was opened with [state {context.state!r}]")
        if offset is not None:
            pieces.back().Put(view(OFFSET_ROW), view(offset))
        self.table.write_pieces(&pieces, "bundle")
