"""One write over several states."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from sfkv import _batch, _core
from sfkv.checkpoint.metadata import encode_offset


class Batch:
    """``with keyed.batch() as batch:`` makes one write of all that its block writes, to any of the backend's states and cells.

    Reads inside see what was written. When the block ends without an exception, all of it is written at once, or nothing; with
    an exception, nothing. At most 256 MiB are taken: the write that would pass that is a LimitError.

    Attributes:
        offset: where the source stands after the batch, stored in the same write; may be set inside the block.
    """

    def __init__(self, store: _core.Store, offset: Any) -> None:
        encode_offset(offset)
        self._store = store
        self.offset = offset

    def __enter__(self) -> Batch:
        _batch.begin(self._store)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            if not self._store.closed:
                _batch.drop(self._store)
            return
        try:
            offset = encode_offset(self.offset)
            if offset is not None:
                _batch.write_rows(self._store, {_core.OFFSET_ROW: offset}, "batch")
        except BaseException:
            _batch.drop(self._store)
            raise
        _batch.commit(self._store)
