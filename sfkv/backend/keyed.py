"""KeyedStateBackend: the states of one operator, over one range of key groups, in one directory or in memory."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import Any

from sfkv import _batch, _store, _table
from sfkv._errors import Error, UsageError
from sfkv._offsets import decode_offset
from sfkv._rows import KeyRows, ValueRows
from sfkv._types import KeySchema, ValueSchema
from sfkv.backend.batch import Batch
from sfkv.backend.cells import Cells
from sfkv.backend.engine import Engine
from sfkv.backend.payloads import Payloads
from sfkv.backend.registry import KINDS, Registry
from sfkv.backend.slot import Slot
from sfkv.checkpoint import local
from sfkv.checkpoint.manifest import Snapshot
from sfkv.checkpoint.metadata import describe_metadata, parse_metadata
from sfkv.state.aggregating import AggregatingState
from sfkv.state.folding import Folding, aggregating, reducing
from sfkv.state.list import ListState
from sfkv.state.map import MapState
from sfkv.state.reducing import ReducingState
from sfkv.state.table import Table
from sfkv.state.value import ValueState


class KeyedStateBackend:
    """The states of one operator. Given by ``sfkv.open``, and by ``open`` and ``restore`` of either backend.

    Lifetime:
        A context manager; ``close()`` writes everything to disk, unless it was opened without a directory. One thread at a
        time may call it or what it gave out: a second one gets BusyError at once. In a forked child every call raises
        ClosedError. Dropped open, it warns and closes; at the interpreter's exit it closes.
    """

    def __init__(self, engine: Engine, key: KeySchema, slot: Slot | None, restored_from: Snapshot | None) -> None:
        self._engine = engine
        self._store = engine.store
        self._slot = slot
        self._key = key
        self._restored_from = restored_from
        self._registry = Registry(engine.store, engine.forget)
        self._finisher: ThreadPoolExecutor | None = None
        self._finisher_threads: set[int] = set()  # one, when it has begun
        self._pending: list[Future[Snapshot]] = []
        _open_backends.add(self)

    # --- States.

    def value_state(self, name: str, type: Any) -> ValueState:
        """One value for each key.

        Args:
            name: of the state, unique in this backend; at most 1,000 bytes.
            type: a pyarrow type (numbers, decimals, dates and times, text, binary, lists, maps and structs of these; the guide
                has all); ``bool``, ``int``, ``float``, ``str``, ``bytes``, ``datetime``, ``date``, ``time``, ``timedelta``; a
                dataclass or ``msgspec.Struct`` of such fields; or ``sfkv.Msgpack(type)``, ``dict``, ``list``, ``object`` for
                objects.

        Returns:
            The state: an equal one if it was registered before, over the same rows. A record that gained columns which may be
            null or have a default is read without rewriting; states that were returned for the old one are closed.

        Raises:
            SchemaError: if the type is not supported, or the name was registered with another that it cannot read; shows both.
            ConfigError: the name is no text of 1 to 1,000 bytes.
            UsageError: the state is being dropped, and that failed half way: call ``drop_state`` again.
            LimitError: beyond 256 states.
        """
        state: ValueState = self._state(ValueState, "value", name, ValueSchema.of(type))
        return state

    def list_state(self, name: str, type: Any) -> ListState:
        """A list of values for each key, which is appended to without reading it.

        Args:
            type: of an element; as for ``value_state``, which also says what is returned and raised.
        """
        state: ListState = self._state(ListState, "list", name, ValueSchema.of(type))
        return state

    def map_state(self, name: str, user_key: Any, value: Any) -> MapState:
        """A map of user keys to values for each key, one row an entry.

        Args:
            user_key: what may be a key: a plain type, or several columns.
            value: as ``type`` for ``value_state``, which also says what is returned and raised.
        """
        state: MapState = self._state(MapState, "map", name, ValueSchema.of(value), KeySchema.of(user_key, "user_key"))
        return state

    def reducing_state(self, name: str, type: Any, reduce: Any) -> ReducingState:
        """One value for each key, which all that is added is folded into.

        Args:
            type: of what is added, and of the result; as for ``value_state``.
            reduce: ``"sum"``, ``"min"``, ``"max"``, ``"first"`` or ``"last"``, which the core folds; or a function of the value
                so far and the one that is added, that returns the new one. It is called with one value after the other, in the
                order of adding.

        Returns:
            The state: an equal one if it was registered before, over the same rows. That a function is the one of the last time
            is not checked.

        Raises:
            ConfigError: ``reduce`` is no built-in name, lists them; or ``name`` is none.
            SchemaError: the built-in does not take the type, says which it takes; or the name was registered with another type
                or fold, shows both.
            UsageError, LimitError: as ``value_state``.
        """
        state: ReducingState = self._fold_state(ReducingState, "reducing", name, reducing(type, reduce))
        return state

    def aggregating_state(
        self, name: str, type: Any, aggregate: Any, *, accumulator: Any = None, result: Any = None
    ) -> AggregatingState:
        """A result for each key, of another type than what is added to it.

        Args:
            type: of what is added; as for ``value_state``.
            aggregate: ``"sum"``, ``"min"``, ``"max"``, ``"count"``, ``"mean"``, ``"variance"``, ``"sample_variance"``,
                ``"first"``, ``"last"``, ``"count_distinct"`` or ``"collect"``, which the core folds; or an object with
                ``create()``, ``add(accumulator, value)``, ``merge(a, b)`` and ``result(accumulator)``, of which the first three
                return an accumulator.
            accumulator: of an object: the type of its accumulators; the default is what msgpack holds.
            result: of an object: the type of its results; the default leaves them as objects, and batches are lists.

        Returns:
            The state: an equal one if it was registered before, over the same rows. That an object is the one of the last time
            is not checked.

        Raises:
            ConfigError: ``aggregate`` is no built-in name, lists them; or a class, or an object without one of the methods; or
                ``name`` is none.
            SchemaError: the built-in does not take the type, says which it takes; or the name was registered with another type
                or fold, shows both.
            UsageError, LimitError: as ``value_state``.
        """
        folding = aggregating(type, aggregate, accumulator, result)
        state: AggregatingState = self._fold_state(AggregatingState, "aggregating", name, folding)
        return state

    def table(self, name: str, key: Any, value: Any, *, group_by: Sequence[str] | str | None = None) -> Table:
        """Rows in the order of a key of their own, for operators: time-ordered windows, timers, indexes.

        Args:
            name: unique among the backend's states.
            key: what a key is: a plain type, or several columns: a pyarrow schema or struct type, dict or dataclass.
            value: as ``type`` for ``value_state``.
            group_by: the names of the key's columns that make the key group, in this order; None for all. Where they are the
                backend's key, in type and value, a row lies in the key group of that key:
                ``key={"window_end": datetime, "user": str}, group_by="user"`` is stored in time order, and sharded by user.

        Returns:
            The table: an equal one if it was registered before, over the same rows.

        Raises:
            SchemaError: a type is not supported; ``group_by`` names other columns than the key's, shows them; or the name was
                registered with another key, group or value, shows both.
            ConfigError, UsageError, LimitError: as ``value_state``.
        """
        schema = KeySchema.of(key, group_by=group_by)
        table: Table = self._state(Table, "table", name, ValueSchema.of(value), key=schema)
        return table

    def get_many(self, reads: Iterable[tuple[ValueState | Table, Any]]) -> list[Any]:
        """The values of several states' batches of keys, read in one call.

        Args:
            reads: pairs of a value state or table and its keys; the keys as for its own ``get_many``.

        Returns:
            What each one's ``get_many`` would answer, in the order of the pairs.

        Raises:
            UsageError: one is no pair, or of another kind of state, which has a ``get_many`` of its own, or another backend's.
            SchemaError, KeyGroupError, ClosedError, BusyError, StorageError: before anything is read, if a key is bad.
        """
        pairs = _pairs_of(reads)
        for state, _ in pairs:
            if not isinstance(state, (ValueState, Table)):
                raise UsageError(f"{state!r} is no value state or table: use its own get_many", operation="get_many")
            if state._table.store is not self._store:
                raise UsageError(f"{state!r} is another backend's", operation="get_many", state=state.name)
        return _table.get_many(self._store, [state._table for state, _ in pairs], [keys for _, keys in pairs])

    def _state(
        self,
        cls: Any,
        kind: str,
        name: str,
        value: ValueSchema,
        user_key: KeySchema | None = None,
        key: KeySchema | None = None,
    ) -> Any:
        """The state of a name: the one that is known, or one over the table that holds it or will."""
        own = {role: schema.describe() for role, schema in (("key", key), ("user_key", user_key)) if schema is not None}
        table = self._registry.register(name, kind, value, **own)
        known = self._registry.states.get(name)
        if known is not None and known._value.make is value.make and known._value.serializer is None:
            return known
        keys = KeyRows(key or self._key, name)
        values = ValueRows(self._engine.values(value, table, kind, keys), name)
        user_keys = None if user_key is None else KeyRows(user_key, name)
        native = _table.Table(self._store, table, keys, values, name, self, KINDS[kind], user_keys)
        state = cls(name, native, key or self._key, *([] if user_key is None else [user_key]), value)
        self._registry.add(name, native, state)
        return state

    def _fold_state(self, cls: Any, kind: str, name: str, folding: Folding) -> Any:
        """The same for a state that folds what is added to it."""
        table = self._registry.register(name, kind, folding.value, **folding.description)
        known = self._registry.states.get(name)
        if known is not None and known._folding.is_like(folding):
            return known
        values = ValueRows(folding.stored, name)
        native = _table.Table(self._store, table, KeyRows(self._key, name), values, name, self, folding.table_kind)
        state = cls(name, native, self._key, folding)
        self._registry.add(name, native, state)
        return state

    @property
    def states(self) -> dict[str, str]:
        """The kind and type of each state that is stored, by name, whether it was registered in this session or not."""
        return self._registry.texts()

    def drop_state(self, name: str) -> None:
        """Removes a state and all its rows, whether it was registered in this session or not. Its name is free afterwards.

        Raises:
            UsageError: there is no such state, or a batch is open.
            ClosedError: from then on, by every call on the dropped state.

        Cost:
            Deletes row by row, or key group by key group where there are many. If it is interrupted by a crash, the rest is
            removed when the backend is opened again.
        """
        self._registry.drop(name)

    # --- More than one state.

    def batch(self, offset: Any = None) -> Batch:
        """One write over several states and cells: ``with keyed.batch(offset=...) as batch:``.

        Args:
            offset: where the source stands after the batch; may also be set inside, as ``batch.offset``.

        Returns:
            A context manager; see ``Batch``.

        Raises:
            UsageError: a batch is open already; or, inside one, a scan, snapshot, flush, compaction or ``drop_state``.
        """
        return Batch(self._store, offset, self)

    @property
    def cells(self) -> Cells:
        """The operator cells, which are named values of the operator as a whole."""
        return Cells(self._store, self)

    @property
    def payloads(self) -> Payloads:
        """Opaque payloads per key group, for operators that keep their own state in memory."""
        table = self._registry.register("", "payloads", ValueSchema.of(bytes))
        return Payloads(self._store, table, self)

    # --- What it is.

    @property
    def path(self) -> str:
        """The directory, as an absolute path; ``"memory"`` where there is none."""
        return self._store.path

    @property
    def slot(self) -> Slot | None:
        """The memory that it was opened in; None for one in memory that was given none."""
        return self._slot

    @property
    def used_bytes(self) -> int | None:
        """What the state takes in memory, with all that holds it; None where it lies on disk, and the slot reports its memory.

        Not counted are the objects of states of objects, and what open scans and unfinished snapshots keep beyond the state.
        """
        return self._engine.used_bytes

    @property
    def key_groups(self) -> tuple[int, int]:
        """The first and the last key group that this backend owns."""
        return self._store.key_groups

    @property
    def max_parallelism(self) -> int:
        """The number of key groups, of all backends of the operator together."""
        return self._store.max_parallelism

    @property
    def offset(self) -> Any:
        """The source offset that was stored with the last write that had one; None if there was none.

        After a crash, opened with ``recover=True``: all writes up to the one with this offset are there, and those behind
        it up to some point.
        """
        return decode_offset(self._store.reserved_rows().get(_store.OFFSET_ROW), self.path)

    @property
    def restored_from(self) -> Snapshot | None:
        """The snapshot that this backend was restored from, with its metadata."""
        return self._restored_from

    # --- Snapshots.

    def snapshot(self, id: int, storage: str | os.PathLike[str], *, metadata: Any = None) -> Future[Snapshot]:
        """Takes a snapshot of all states as they are now.

        Args:
            id: its number, from 0; unique in the storage, among all backends that use it.
            storage: a folder, made if it is missing. On the same file system as the backend, table files are hard-linked.
            metadata: stored with it, as it is now, such as source offsets: anything that msgpack holds.

        Returns:
            A future of the complete Snapshot. When the call returns, the rows are fixed and work may go on; the future is
            done when the manifest is on disk.

        Raises:
            CheckpointError: from the call, or from the future; nothing half-written is left.
            UsageError: a batch is open.
            SchemaError: msgpack cannot hold the metadata.
            ConfigError: ``id`` or ``storage``.
            ClosedError, BusyError

        Cost:
            On RocksDB the call flushes what is not in files yet, and links files. In memory it copies nothing: what is written
            before the snapshot is done copies the pages that it touches. The rest happens in a thread.
        """
        id = local.parse_id(id)
        place = local.parse_storage(storage)
        described = describe_metadata(metadata)
        _batch.refuse(self._store, "snapshot")
        started = time.monotonic()
        folder = local.prepare_folder(place, id)
        try:
            begun = self._describe(id, folder, parse_metadata(described, str(folder)))
            bring_files = self._engine.begin_snapshot(folder)
            begun = dataclasses.replace(begun, sync_ms=(time.monotonic() - started) * 1000)
            if self._finisher is None:
                note = self._finisher_threads.add  # a bound method of the backend would keep it for the thread's life
                self._finisher = ThreadPoolExecutor(1, "sfkv-snapshot", lambda: note(threading.get_ident()))
            future = self._finisher.submit(local.complete, begun, bring_files, started)
        except BaseException as error:
            local.abandon(folder)
            if not isinstance(error, Error) or error.code in ("busy", "closed", "forked"):
                raise
            raise local.failed(id, folder, error) from error
        future.add_done_callback(lambda done: local.abandon(folder) if done.cancelled() else None)
        self._pending = [pending for pending in self._pending if not pending.done()] + [future]
        return future

    def _describe(self, id: int, folder: Path, metadata: Any) -> Snapshot:
        """A snapshot of the states as they are, without its files."""
        return Snapshot(
            id=id,
            path=folder,
            files=(),
            key=self._key.describe(),
            max_parallelism=self.max_parallelism,
            key_groups=self.key_groups,
            tables=tuple({"id": table, **described} for table, described in sorted(self._registry.tables.items())),
            metadata=metadata,
            created_ms=time.time_ns() // 1_000_000,
            layout=self._engine.layout,
        )

    def compact(self) -> None:
        """Rewrites all files, so that each key has one row and nothing is left of cleared ones. Reads are fastest then.

        In memory it gives what cleared rows took back to the system.

        Cost:
            On RocksDB reads and writes everything once. The engine compacts by itself as it goes; this is for quiet hours and
            tests.
        """
        self._engine.compact()

    # --- The end.

    @property
    def closed(self) -> bool:
        """Whether it was closed, or belongs to the parent process."""
        return self._store.closed

    def close(self, *, discard: bool = False) -> None:
        """Waits for running calls and snapshots, writes everything to the directory, if there is one, and marks it as clean.

        Args:
            discard: leave out the writing: for jobs that restore from snapshots. The directory can then only be opened
                with ``recover=True``.

        Raises:
            StorageError: it could not be written. The backend stays open and nothing is lost: mend the cause (free some space)
                and close again, or close with ``discard=True``. If ``closed`` is true, all was written and marked before the
                engine's own end failed.
            SchemaError: state in memory holds an object that msgpack cannot. The backend stays open: clear it, and close again.

        Closing again does nothing. A callback of a snapshot's future may close, too: where later snapshots are not complete,
        the call returns, and the backend is closed when they are.
        """
        if self._store.in_child:
            return
        in_finisher = threading.get_ident() in self._finisher_threads
        unfinished = [future for future in self._pending if not future.done()] if in_finisher else []
        if unfinished:
            # This thread is to complete them, and would wait for itself: it comes back here behind the last, which holds the
            # backend until then. So does one that is collected as garbage in the midst of a snapshot of its own.
            unfinished[-1].add_done_callback(lambda _: self.close(discard=discard))
            return
        wait(self._pending)
        try:
            self._engine.close(discard)
        finally:
            if self._store.closed:
                _open_backends.discard(self)
                finisher, self._finisher = self._finisher, None
                if finisher is not None:
                    finisher.shutdown(wait=not in_finisher)  # a thread cannot join itself, and ends behind this call

    def __enter__(self) -> KeyedStateBackend:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        store = getattr(self, "_store", None)
        if store is None or store.closed:
            return
        try:
            warnings.warn(f"{self!r} was not closed: use it in a with statement", ResourceWarning, stacklevel=2, source=self)
        finally:  # where warnings are errors, too
            self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a backend belongs to one process: pass its path, and open or restore it there")

    def __repr__(self) -> str:
        first, last = self.key_groups
        state = "closed" if self.closed else f"{len(self._registry.tables)} states"
        return f"KeyedStateBackend({self.path!r}, key={self._key}, key_groups={first}-{last}, {state})"


def _pairs_of(reads: Any) -> list[tuple[Any, Any]]:
    """What ``get_many`` is asked for, if it is pairs."""
    is_several = isinstance(reads, Iterable) and not isinstance(reads, (str, bytes, ValueState, Table))
    pairs = list(reads) if is_several else [reads]
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise UsageError(
                f"each read is a pair of a value state or table and its keys, and {pair!r} is none: [(state, keys), ...]",
                operation="get_many",
            )
    return [(state, keys) for state, keys in pairs]


# Backends that are open when the interpreter exits are closed before their threads lose it.
_open_backends: weakref.WeakSet[KeyedStateBackend] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for backend in list(_open_backends):
        try:
            backend.close()
        except Exception:
            traceback.print_exc()  # and on with the others
        finally:
            with contextlib.suppress(Error):
                backend.close(discard=True)
