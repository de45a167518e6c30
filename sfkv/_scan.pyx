# cython: language_level=3
# distutils: language = c++
"""Passes over a table: batch by batch, and entry by entry of one key's map."""

cimport cython
from cython.operator cimport dereference as deref
from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr

import pyarrow as pa

from sfkv import _errors
from sfkv._table cimport Table
from sfkv._cells cimport ArrowArray
from sfkv._store cimport CCall
from sfkv._live cimport Held
from sfkv._rows cimport ArrowResult, CKeyCodec, CRowSet, CValueCodec
from sfkv._status cimport CStatus, check, failure
from sfkv._tables cimport CCursor, CRows, CScanOptions, TableKind

from sfkv._table import LIST, MAP, TABLE


@cython.final
cdef class Scan:
    """A pass over one state. It ends with its last batch, by close(), by being dropped, or with its store."""

    def __cinit__(self, Table table not None, int64_t batch_rows, bint with_values, bytes key=None, layout=None, rows=None):
        """`key`: an encoded key, to see the entries of that one only. `layout`, `rows`: which columns and rows (state/scan.py)."""
        cdef CCall call
        cdef CScanOptions options
        options.table = table.id
        options.kind = TableKind.kValue if table.kind == TABLE else <TableKind>table.kind
        options.range = table.store.range
        options.batch_rows = batch_rows
        options.with_values = with_values
        options.distinct_keys = table.kind == MAP and not with_values and key is None
        if key is not None:
            options.key = key
        if rows is not None:
            options.rows.lower = rows.lower
            options.rows.upper = rows.upper
            options.reverse = rows.reverse
            if rows.key_groups is not None:
                options.range.first, options.range.last = rows.key_groups
        if layout is not None:
            options.key_columns = layout.key_columns
            options.value_columns = layout.value_columns
            self.key_type = layout.key_type
            self.value_type = layout.value_type
        self.table = table
        self.with_values = with_values
        self.with_user_keys = table.kind == MAP and not options.distinct_keys
        table.enter(&call, "scan")
        if key is None and table.store.rows().InBatch():
            call.Leave()
            raise failure(_errors.UsageError, "a scan does not work inside a batch: end it first", table.context, "scan")
        cdef CRows* c_rows = table.store.rows()
        cdef const CKeyCodec* keys = &table.keys.codec
        cdef const CKeyCodec* user_keys = &table.user_keys.codec
        cdef const CValueCodec* values = &table.values.codec
        with nogil:
            self.c_scan = c_rows.NewScan(options, deref(keys), deref(user_keys), deref(values))
            call.Leave()

    cdef shared_ptr[CCursor] running(self) except *:
        """The scan, held while a call runs: close() may be called meanwhile."""
        if self.c_scan.get() == NULL:
            raise failure(_errors.ClosedError, "the scan has ended", self.table.context, "scan")
        return self.c_scan

    def next_batch(self):
        """The keys, user keys (of maps) and values (if asked for) of the next rows, as struct arrays; None at the end.

        REQUIRES: a layout.
        """
        cdef CCall call
        cdef int64_t count = 0
        cdef ArrowArray* column
        cdef CStatus status
        cdef ArrowResult keys = ArrowResult(self.key_type)
        cdef ArrowResult user_keys = ArrowResult(self.table.user_keys.schema.record_arrow)
        cdef ArrowResult values = ArrowResult(self.value_type)
        cdef Held held = self.table.values.held() if self.with_values else None
        cdef shared_ptr[CCursor] c_scan = self.running()
        self.table.store.enter(&call, self.table.context, "scan")
        with nogil:
            status = deref(c_scan).Next(&count, keys.array.get(), user_keys.array.get(), values.array.get())
            if held is None:
                call.Leave()
        if held is not None and status.ok() and count != 0:
            column = values.array.get().children[0]  # the only one
            held.take_cells(column.children[0] if self.table.kind == LIST else column)
        call.Leave()
        check(status, self.table.context, "scan")
        if count == 0:
            self.close()
            return None
        value_part = pa.array(values) if self.with_values else None
        if held is not None:
            value_part = self.table.values.serialized(value_part, held)
        return pa.array(keys), pa.array(user_keys) if self.with_user_keys else None, value_part

    cdef int next_entries(self, size_t most, CRowSet* user_keys, CRowSet* values, Held held) except -1:
        """Copies the next entries of the one key; none at the end. `held` takes their live objects."""
        cdef CCall call
        cdef CStatus status
        cdef size_t i
        cdef shared_ptr[CCursor] c_scan = self.running()
        self.table.store.enter(&call, self.table.context, "scan")
        with nogil:
            status = deref(c_scan).NextEntries(most, user_keys, values)
            if held is None:
                call.Leave()
        if held is not None and status.ok():
            for i in range(values.size()):
                self.table.take(held, values.Get(i), "scan")
        call.Leave()
        return check(status, self.table.context, "scan")

    def close(self):
        self.c_scan.reset()
