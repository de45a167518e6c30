# cython: language_level=3
# distutils: language = c++
"""The one place where the core's statuses become exceptions."""

cimport cython
import errno

from sfkv import _errors


@cython.final
cdef class Context:
    def __cinit__(self, path=None, state=None, key_columns=(), value_columns=()):
        self.path = path
        self.state = state
        self.key_columns = list(key_columns)
        self.value_columns = list(value_columns)


cdef tuple class_of(Code code):
    """The exception class, and its attribute `code`."""
    if code == Code.kUsage: return _errors.UsageError, "usage"
    if code == Code.kSchema: return _errors.SchemaError, "schema"
    if code == Code.kLimit: return _errors.LimitError, "limit"
    if code == Code.kKeyGroup: return _errors.KeyGroupError, "key_group"
    if code == Code.kClosed: return _errors.ClosedError, "closed"
    if code == Code.kForked: return _errors.ClosedError, "forked"
    if code == Code.kBusy: return _errors.BusyError, "busy"
    if code == Code.kLocked: return _errors.BusyError, "locked"
    if code == Code.kMissing: return _errors.StorageError, "missing"
    if code == Code.kNotAStore: return _errors.FormatError, "not_ours"
    if code == Code.kUnclean: return _errors.UncleanError, "unclean"
    if code == Code.kFormat: return _errors.FormatError, "format"
    if code == Code.kDiskFull: return _errors.DiskFullError, "disk_full"
    if code == Code.kCorruption: return _errors.CorruptionError, "corruption"
    if code == Code.kFailedStore: return _errors.FailedStoreError, "failed_store"
    return _errors.StorageError, "storage"


cdef int check(const CStatus& status, Context context, str operation, str role=None, bint single=False) except -1:
    """Raises what the status says, if it is not OK.

    `role` tells whether the row and column of the status are a "key"'s or a "value"'s; `single` that there is no batch with rows.
    """
    if status.ok():
        return 0
    cls, code = class_of(status.code())
    cdef str cause = status.message().decode("utf-8", "replace")
    row = status.row() if status.row() >= 0 and not single else None
    column = None
    if status.column() >= 0:
        names = context.key_columns if role == "key" else context.value_columns
        column = names[status.column()] + status.path().decode("utf-8", "replace") if status.column() < len(names) else None
    if cause.startswith("is null"):
        cause = f"the {role or 'value'} {cause}" if column is None else f"column {column!r} of the {role or 'value'} {cause}"
    error = failure(cls, cause, context, operation, row, column)
    error.code = code
    if status.code() == Code.kMissing:
        error.errno = errno.ENOENT
    raise error


cdef object failure(object cls, str cause, Context context, str operation, object row=None, object column=None):
    """An exception that says the cause first, so that RocksDB's own text is found at the start; then where it was."""
    where = [f"state {context.state!r}"] if context.state is not None else []
    where.append(operation)
    if row is not None:
        where.append(f"row {row}")
    return cls(
        f"{cause} [{', '.join(where)}]",
        operation=operation, path=context.path, state=context.state, row=row, column=column,
    )
