# cython: language_level=3
# distutils: language = c++
"""Writes to a store as a whole: batches over several states, the store's own rows, and the end of a state."""

from libc.stdint cimport uint8_t

from sfkv import _errors
from sfkv._store cimport Store
from sfkv._store cimport CCall
from sfkv._rows cimport CWriteBatch, view
from sfkv._status cimport CStatus, check, failure
from sfkv._tables cimport CRows


def begin(Store store not None):
    """From here on all writes go into a batch, and all reads see it."""
    cdef CCall call
    cdef CRows* rows = store.rows()
    cdef CStatus status
    store.enter(&call, store.context, "batch")
    with nogil:
        status = rows.BeginBatch()
        call.Leave()
    check(status, store.context, "batch")


def commit(Store store not None):
    """Writes the batch at once; if that fails, it is dropped."""
    cdef CCall call
    cdef CRows* rows = store.rows()
    cdef CStatus status
    store.enter(&call, store.context, "batch")
    with nogil:
        status = rows.CommitBatch()
        call.Leave()
    store.settle(None)
    check(status, store.context, "batch")


def drop(Store store not None):
    """Forgets the batch, if one is open."""
    cdef CCall call
    store.enter(&call, store.context, "batch")
    store.rows().DropBatch()
    call.Leave()
    store.settle(None)


def refuse(Store store not None, str operation not None):
    """Raises if a batch is open."""
    cdef CCall call
    store.enter(&call, store.context, operation)
    cdef bint in_batch = store.rows().InBatch()
    call.Leave()
    if in_batch:
        raise failure(_errors.UsageError, f"{operation} does not work inside a batch: end it first", store.context, operation)


def write_rows(Store store not None, dict new not None, str operation not None, *, bint through=False):
    """Writes rows by their encoded keys, all or none; None deletes. `through` writes past an open batch."""
    cdef CCall call
    cdef CRows* rows = store.rows()
    cdef CWriteBatch batch
    cdef CStatus status
    for key, row in new.items():
        if row is None:
            batch.Delete(view(key))
        else:
            batch.Put(view(key), view(row))
    store.enter(&call, store.context, operation)
    with nogil:
        status = rows.WriteRowsThrough(&batch) if through else rows.WriteRows(&batch)
        call.Leave()
    store.settle(None)
    check(status, store.context, operation)


def drop_table(Store store not None, int table):
    """Removes all rows of a table."""
    cdef CCall call
    cdef CRows* rows = store.rows()
    cdef CStatus status
    store.enter(&call, store.context, "drop_state")
    with nogil:
        status = rows.DropTable(<uint8_t>table, store.range)
        call.Leave()
    store.settle(None)
    check(status, store.context, "drop_state")
