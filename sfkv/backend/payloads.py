"""Opaque payloads per key group, for operators that keep their state in memory and store it at each snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sfkv import _batch, _store
from sfkv._errors import KeyGroupError, LimitError, SchemaError
from sfkv.config._options import whole_number

_MAX_BYTES = 256 << 20


class Payloads:
    """One payload for each key group of the backend: ``keyed.payloads``. Part of batches and snapshots as rows are.

    ``set`` and ``replace`` are all or nothing: after a crash the payloads are those of one call.
    """

    def __init__(self, store: _store.Store, table: int, owner: object) -> None:
        self._store = store
        self._owner = owner  # the backend, which closes the store when it is dropped
        self._table = table

    def get(self, key_group: int) -> bytes | None:
        """The payload of a key group; None where there is none.

        Raises:
            KeyGroupError: a key group outside the backend's range.
            ClosedError, BusyError, StorageError
        """
        row = self._row(key_group)
        return self._store.read_range(row, row + b"\0").get(row)

    def set(self, key_group: int, payload: bytes | None) -> None:
        """Sets the payload of a key group; None removes it.

        Raises:
            KeyGroupError: a key group outside the backend's range.
            SchemaError: the payload is not bytes.
            LimitError: it takes more than 256 MiB; or, of a batch or of state in memory.
            ClosedError, BusyError, StorageError
        """
        _batch.write_rows(self._store, {self._row(key_group): self._check(payload)}, "payloads.set")

    def replace(self, payloads: Mapping[int, bytes]) -> None:
        """Makes these the payloads: those of other key groups are removed. One write; at most 256 MiB in all.

        Raises:
            KeyGroupError: a key group outside the backend's range.
            SchemaError: a payload is not bytes.
            LimitError: they take more than 256 MiB; or, of a batch or of state in memory.
            ClosedError, BusyError, StorageError
        """
        if not isinstance(payloads, Mapping):
            raise SchemaError(f"a mapping of key groups to payloads is expected, and {payloads!r} is none")
        absent = next((key_group for key_group, payload in payloads.items() if payload is None), None)
        if absent is not None:
            raise SchemaError(f"the payload of key group {absent} is None: leave it out, and it is removed")
        new = {self._row(key_group): self._check(payload) for key_group, payload in payloads.items()}
        size = sum(map(len, payloads.values()))
        if size > _MAX_BYTES:
            raise LimitError(f"the payloads take {size} bytes, and may take {_MAX_BYTES} in one write: set them one by one")
        rows: dict[bytes, bytes | None] = dict.fromkeys(map(self._row, self._groups()))
        _batch.write_rows(self._store, rows | new, "payloads.replace")

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """The key groups that have a payload, in order, with their payloads; read one at a time."""
        for key_group in self._groups():
            payload = self.get(key_group)
            if payload is not None:
                yield key_group, payload

    def _groups(self) -> range:
        first, last = self._store.key_groups
        return range(first, last + 1)

    def _row(self, key_group: int) -> bytes:
        first, last = self._store.key_groups
        number = whole_number(key_group)
        if number is None or not first <= number <= last:
            raise KeyGroupError(f"key group {key_group!r} is none of this backend's, which owns {first} to {last}")
        return number.to_bytes(2, "big") + bytes([self._table])

    def _check(self, payload: bytes | None) -> bytes | None:
        if payload is not None and not isinstance(payload, bytes):
            raise SchemaError(f"a payload is bytes, not {type(payload).__name__}")
        if payload is not None and len(payload) > _MAX_BYTES:
            raise LimitError(f"the payload takes {len(payload)} bytes, and may take {_MAX_BYTES}")
        return payload
