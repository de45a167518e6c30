"""What sfkv raises. Classes say what the caller can do; the attributes are API, the text is not.

Error
├─ UsageError (ValueError)      the caller's code must change
│   ├─ ConfigError              an option or a combination of options is wrong
│   ├─ SchemaError              a value, type or schema does not fit
│   ├─ KeyGroupError            a key outside the backend's key-group range
│   ├─ LimitError               a memory or size limit would be passed
│   └─ ClosedError              used after close, or in a forked child
├─ BusyError (OSError)          another thread or process has it: wait, and try again
├─ StorageError (OSError)       the engine or the disk failed
│   ├─ DiskFullError            ... for want of space
│   ├─ CorruptionError          ... because of damaged bytes
│   ├─ FailedStoreError         ... and the store accepts no more writes: close it and restore
│   └─ UncleanError             the directory was not closed: restore, or open it with recover=True
├─ CheckpointError              a snapshot was not taken, not stored, or not found; nothing half-written is left
└─ FormatError                  another format version, max parallelism or serializer; or a directory that is not sfkv's
"""

from __future__ import annotations

import errno as _errno
from typing import Any


class Error(Exception):
    """The base of everything that sfkv raises.

    Attributes:
        operation: what was called, such as ``"put_many"``.
        path: the directory or file concerned.
        code: a short, stable word for the cause, such as ``"locked"``.
        retryable: whether the same call may succeed later.
        state: the name of the state concerned.
        row: the position in the batch, from 0.
        column: the name of the column concerned.
    """

    code = "error"
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        operation: str | None = None,
        path: str | None = None,
        code: str | None = None,
        state: str | None = None,
        row: int | None = None,
        column: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message)
        self.operation = operation
        self.path = path
        self.state = state
        self.row = row
        self.column = column
        if code is not None:
            self.code = code
        for name, fact in facts.items():
            setattr(self, name, fact)

    def __str__(self) -> str:
        return str(self.args[0])


class UsageError(Error, ValueError):
    """The caller's code must change."""

    code = "usage"


class ConfigError(UsageError):
    """An option, or a combination of options, is wrong."""

    code = "config"


class SchemaError(UsageError):
    """A value, type or schema does not fit; nothing was written."""

    code = "schema"


class KeyGroupError(UsageError):
    """A key lies outside the backend's key-group range; nothing was written."""

    code = "key_group"


class LimitError(UsageError):
    """A memory or size limit would be passed; nothing was written."""

    code = "limit"


class ClosedError(UsageError):
    """Something was used after it was closed, or in a forked child."""

    code = "closed"


class BusyError(Error, OSError):
    """Another thread is inside the same backend, or another store has the directory open."""

    code = "busy"
    retryable = True


class StorageError(Error, OSError):
    """The engine or the disk failed. What was stored before is as it was."""

    code = "storage"


class DiskFullError(StorageError):
    """There is no space left. Free some, and call again."""

    code = "disk_full"
    retryable = True

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.errno = _errno.ENOSPC


class CorruptionError(StorageError):
    """Bytes on disk are damaged. Restore from a snapshot."""

    code = "corruption"


class FailedStoreError(StorageError):
    """The store accepts no more writes. Close it with ``discard=True`` and restore from a snapshot."""

    code = "failed_store"


class UncleanError(StorageError):
    """The directory was not closed by its last user. Restore from a snapshot, or open it with ``recover=True``."""

    code = "unclean"


class CheckpointError(Error):
    """A snapshot was not taken, not stored, or not found. Nothing half-written is left."""

    code = "checkpoint"


class FormatError(Error):
    """Another format version, max parallelism or serializer; or a directory that is not sfkv's."""

    code = "format"


def of_system(error: OSError, operation: str, path: str) -> StorageError:
    """What a failed call of the operating system is raised as."""
    if isinstance(error, StorageError):
        return error
    full = error.errno in (_errno.ENOSPC, _errno.EDQUOT, _errno.EFBIG)
    failure = (DiskFullError if full else StorageError)(f"IO error: {error}", operation=operation, path=path)
    failure.errno = error.errno
    return failure
