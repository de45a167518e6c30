"""One write over several states."""

from __future__ import annotations

import contextlib
import time
from types import TracebackType
from typing import Any

from sfkv import _batch, _store
from sfkv._errors import BusyError, UsageError
from sfkv._offsets import encode_offset


class Batch:
    """``with keyed.batch() as batch:`` makes one write of all that its block writes, to any of the backend's states and cells.

    Reads inside see what was written. When the block ends without an exception, all of it is written at once, or nothing; with
    an exception, nothing. At most 256 MiB are taken: the write that would pass that is a LimitError.

    Attributes:
        offset: where the source stands after the batch, stored in the same write; may be set inside the block.
    """

    def __init__(self, store: _store.Store, offset: Any, owner: object) -> None:
        encode_offset(offset)
        self._store = store
        self._owner = owner  # the backend, which closes the store when it is dropped
        self._begun = False
        self.offset = offset

    def __enter__(self) -> Batch:
        _batch.begin(self._store)
        self._begun = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        begun, self._begun = self._begun, False
        if not begun and not self._store.closed:  # it has no write of its own, and is not to end another's
            raise UsageError(
                "the batch is not open: it is entered by a with statement, and ends with its block", operation="batch"
            )
        if kind is not None:
            self._drop()
            return
        try:
            offset = encode_offset(self.offset)
            if offset is not None:
                _batch.write_rows(self._store, {_store.OFFSET_ROW: offset}, "batch")
            _batch.commit(self._store)
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        """Ends the batch whatever happens: if another thread is inside the backend, when that is out of it."""
        while not self._store.closed:
            with contextlib.suppress(BusyError):
                _batch.drop(self._store)
                return
            time.sleep(0.001)
