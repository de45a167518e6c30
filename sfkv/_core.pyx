# cython: language_level=3
# distutils: language = c++
"""The store and its tables: the only module that includes RocksDB.

Every call converts its arguments first, which may run the user's code, then enters the store (a Call: one thread at a time,
never after close), works without the GIL, leaves, and converts the answer. Native objects are held by value and smart pointers.
"""

cimport cython
from cython.operator cimport dereference as deref
from libc.stdint cimport int32_t, int64_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport make_shared, shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

import os

import pyarrow as pa

from sfkv import _errors
from sfkv._engine cimport (
    CCall, CEngineInfo, CPinnableSlice, CSlot, CSnapshotFile, CStore, CStoreOptions, CTable, ChecksumFile,
    DescribeEngine, SyncDirectory, TakeSnapshot, WriteMarker,
)
from sfkv._rows cimport (
    ArrowResult, CByteBuffer, CColumnBuilder, CKeyBatch, CRowSet, CValidityBuilder, CWriteBatch, Columns, EncodeKeyHeader,
    FinishPresence, FinishRecord, FirstNull, KeyGroupOf, KeyRows, MakeBuilders, ValueRows, kKeyHeaderBytes, kMaxKeyRowBytes,
    check_lengths, string_view, view,
)
from sfkv._status cimport CStatus, Code, Context, check, failure
from sfkv._tables cimport COffsetRow, CRows

cdef extern from "sfkv/snapshot.h":
    pass

cdef extern from *:
    """
    #ifndef SFKV_ENGINE
    #define SFKV_ENGINE "system"
    #define SFKV_ENGINE_FLAGS ""
    #endif
    #define SFKV_COMPILER "GCC-compatible " __VERSION__
    """
    const char* SFKV_ENGINE
    const char* SFKV_ENGINE_FLAGS
    const char* SFKV_COMPILER

# The reserved rows: FORMAT.md section 5.
STORE_ROW = b"\xff\xff\x00"
TABLE_ROWS = b"\xff\xff\x01"
CELL_ROWS = b"\xff\xff\x02"
OFFSET_ROW = b"\xff\xff\x03"
RESERVED_BOUND = b"\xff\xff\x04"
cdef bytes offset_row = OFFSET_ROW

# The kinds of tables.
VALUE, LIST, MAP = range(3)


cdef COffsetRow offset_of(bytes offset):
    """The row of a source offset, or none. The bytes must outlive it."""
    cdef COffsetRow row
    if offset is not None:
        row.key = view(offset_row)
        row.row = view(offset)
    return row


def build_info():
    """See `sfkv.build_info`."""
    cdef CEngineInfo engine = DescribeEngine()
    return {
        "engine": SFKV_ENGINE.decode(),
        "engine_flags": SFKV_ENGINE_FLAGS.decode(),
        "rocksdb": engine.version.decode(),
        "assertions": bool(engine.assertions),
        "crc32c": engine.crc32c.decode(),
        "compressions": [name.decode() for name in engine.compressions],
        "compiler": SFKV_COMPILER.decode(),
    }


def checksum_file(path):
    """The size and CRC32C (eight hexadecimal digits) of a file."""
    cdef string name = os.fsencode(path)
    cdef uint64_t size = 0
    cdef string crc32c
    cdef CStatus status
    with nogil:
        status = ChecksumFile(name, &size, &crc32c)
    check(status, Context(path=str(path)), "checksum")
    return size, crc32c.decode()


def sync_directory(path):
    """Makes the names in a directory durable."""
    check(SyncDirectory(os.fsencode(path)), Context(path=str(path)), "sync")


def mark_clean(path):
    """Makes a directory of RocksDB's files a closed store."""
    check(WriteMarker(os.fsencode(path), b"clean"), Context(path=str(path)), "restore")


@cython.final
cdef class Slot:
    """The native part of `sfkv.Slot`."""

    def __cinit__(self, size_t memory_bytes, double write_buffer_ratio, double high_priority_ratio):
        self.c_slot = make_shared[CSlot](memory_bytes, write_buffer_ratio, high_priority_ratio)

    @property
    def memory_bytes(self):
        return deref(self.c_slot).memory_bytes()

    @property
    def cache_bytes(self):
        return deref(self.c_slot).cache_bytes()

    @property
    def write_buffer_bytes(self):
        return deref(self.c_slot).write_buffer_bytes()

    @property
    def cache_usage_bytes(self):
        return deref(self.c_slot).cache_usage_bytes()

    @property
    def pinned_bytes(self):
        return deref(self.c_slot).pinned_bytes()

    @property
    def holders(self):
        """This object, and every open store."""
        return self.c_slot.use_count()


@cython.final
cdef class Store:
    """One database in one directory."""

    def __cinit__(self, str path not None, Slot slot not None, *, bint create=True, bint recover=False,
                 size_t write_batch_bytes, size_t read_chunk_keys):
        cdef CStoreOptions options
        cdef CStatus status
        options.path = os.fsencode(path)
        options.create = create
        options.recover = recover
        options.write_batch_bytes = write_batch_bytes
        options.read_chunk_keys = read_chunk_keys
        self.path = path
        self.max_parallelism = 1  # until own() says more
        self.write_batch_bytes = write_batch_bytes
        self.context = Context(path=path)
        cdef shared_ptr[CSlot] c_slot = slot.c_slot
        with nogil:
            status = CStore.Open(options, c_slot, &self.c_store)
        check(status, self.context, "open")

    def own(self, int max_parallelism, int first, int last):
        """Sets which keys the store takes. Once, before there are tables."""
        self.max_parallelism = max_parallelism
        self.range.first = first
        self.range.last = last

    @property
    def key_groups(self):
        return self.range.first, self.range.last

    cdef CRows* rows(self):
        return <CRows*>self.c_store.get()

    cdef int enter(self, CCall* call, Context context, str operation) except -1:
        return check(call.Enter(deref(self.c_store).lifetime()), context, operation)

    def close(self, bint discard=False):
        cdef CStatus status
        with nogil:
            status = deref(self.c_store).Close(discard)
        check(status, self.context, "close")

    @property
    def closed(self):
        return deref(self.c_store).lifetime().IsClosed() or deref(self.c_store).lifetime().InChild()

    @property
    def in_child(self):
        return deref(self.c_store).lifetime().InChild()

    @property
    def was_unclean(self):
        return deref(self.c_store).was_unclean()

    @property
    def open_scans(self):
        return deref(self.c_store).open_scans()

    def flush(self):
        """Puts all writes into files."""
        cdef CCall call
        cdef CStatus status
        self.enter(&call, self.context, "flush")
        with nogil:
            status = deref(self.c_store).table().Flush()
        check(status, self.context, "flush")

    def compact(self):
        """Rewrites all files."""
        cdef CCall call
        cdef CStatus status
        self.enter(&call, self.context, "compact")
        with nogil:
            status = deref(self.c_store).table().Compact()
        check(status, self.context, "compact")

    def read_range(self, bytes first not None, bytes bound not None):
        """The rows whose encoded keys lie between two, the second left out, as a dict of bytes. For few rows: all are copied."""
        cdef CCall call
        cdef vector[string] keys
        cdef vector[string] values
        cdef CStatus status
        cdef string_view c_first = view(first)
        cdef string_view c_bound = view(bound)
        self.enter(&call, self.context, "read_range")
        with nogil:
            status = deref(self.c_store).ReadRange(c_first, c_bound, &keys, &values)
        check(status, self.context, "read_range")
        return dict(zip(keys, values))

    def reserved_rows(self):
        """The store's own rows."""
        return self.read_range(STORE_ROW, RESERVED_BOUND)

    def snapshot(self, directory):
        """Links all files into `directory`, after a flush; returns their (name, bytes, CRC32C or '')."""
        cdef CCall call
        cdef vector[CSnapshotFile] files
        cdef string path = os.fsencode(directory)
        cdef CStatus status
        self.enter(&call, self.context, "snapshot")
        with nogil:
            status = TakeSnapshot(self.c_store.get(), path, &files)
        check(status, self.context, "snapshot")
        return [(os.fsdecode(file.name), file.bytes, file.crc32c.decode()) for file in files]


@cython.final
cdef class Table:
    """The rows of one state."""

    def __cinit__(self, Store store not None, int id, KeyRows keys not None, ValueRows values not None, str state not None, owner,
                  int kind=VALUE, KeyRows user_keys=None):
        self.store = store
        self.owner = owner
        self.kind = kind
        self.user_keys = keys if user_keys is None else user_keys
        self.id = <uint8_t>id
        self.keys = keys
        self.values = values
        self.context = Context(
            path=store.path, state=state,
            key_columns=[column.name for column in keys.schema.columns],
            value_columns=[column.name for column in values.schema.columns],
        )

    # --- One key.

    def drop(self):
        """Ends the table: its state was dropped."""
        self.dropped = True

    cdef int refuse_dropped(self, str operation) except -1:
        if self.dropped:
            raise failure(_errors.ClosedError, "the state was dropped", self.context, operation)
        return 0

    cdef int encode_key(self, object key, CByteBuffer* out, str operation) except -1:
        cdef int32_t hash = 0
        cdef int group
        self.refuse_dropped(operation)
        out.Extend(kKeyHeaderBytes)
        self.keys.encode(key, out, &hash, self.context, operation)
        group = KeyGroupOf(hash, self.store.max_parallelism)
        if not self.store.range.first <= group <= self.store.range.last:
            check(CKeyBatch.OutsideRange(group, self.store.range, -1), self.context, operation, "key")
        EncodeKeyHeader(out.data(), group, self.id)
        return 0

    cdef int encode_pair(self, object key, object user_key, CByteBuffer* out, str operation) except -1:
        """Encodes a key and, behind it, a user key."""
        cdef int32_t unused = 0
        cdef Context context = Context(
            self.context.path, self.context.state, [column.name for column in self.user_keys.schema.columns])
        self.encode_key(key, out, operation)
        self.user_keys.encode(user_key, out, &unused, context, operation)
        if out.size() - kKeyHeaderBytes > kMaxKeyRowBytes:
            check(CKeyBatch.KeyTooLong(out.size() - kKeyHeaderBytes, -1), self.context, operation, "key")
        return 0

    def get(self, key, default=None):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        self.encode_key(key, &encoded, "get")
        if not self.read_row(string_view(encoded.data(), encoded.size()), &row, "get"):
            return default
        return self.values.decode(string_view(row.data(), row.size()))

    cdef bint read_row(self, string_view key, CByteBuffer* row, str operation) except -1:
        """Copies the row of a key, first from what is in memory, then without the GIL from the files. False if there is none."""
        cdef CCall call
        cdef CPinnableSlice value
        cdef cbool found = False
        cdef CTable* table
        cdef CStatus status
        self.store.enter(&call, self.context, operation)
        table = deref(self.store.c_store).table()
        status = table.Get(key, False, &value, &found)
        if status.code() == Code.kIncomplete:
            with nogil:
                status = table.Get(key, True, &value, &found)
        check(status, self.context, operation)
        if found and row != NULL:
            row.Append(value.data(), value.size())
        return found

    def contains(self, key):
        cdef CByteBuffer encoded
        self.encode_key(key, &encoded, "contains")
        return self.read_row(string_view(encoded.data(), encoded.size()), NULL, "contains")

    def put(self, key, value):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        self.encode_key(key, &encoded, "put")
        if value is None:
            self.write_row(&encoded, NULL, "put")
            return
        self.values.encode(value, &row, self.context, "put")
        self.write_row(&encoded, &row, "put")

    def clear(self, key):
        cdef CByteBuffer encoded
        self.encode_key(key, &encoded, "clear")
        self.write_row(&encoded, NULL, "clear")

    cdef int write_row(self, CByteBuffer* key, CByteBuffer* row, str operation) except -1:
        """Puts a row, or deletes it if `row` is NULL: at once if nothing has to be waited for, else without the GIL."""
        cdef CCall call
        cdef CTable* table
        cdef CStatus status
        cdef string_view k = string_view(key.data(), key.size())
        cdef string_view v
        if row != NULL:
            v = string_view(row.data(), row.size())
        self.store.enter(&call, self.context, operation)
        table = deref(self.store.c_store).table()
        status = table.Put(k, v, False) if row != NULL else table.Delete(k, False)
        if status.code() == Code.kIncomplete:
            with nogil:
                status = table.Put(k, v, True) if row != NULL else table.Delete(k, True)
        return check(status, self.context, operation)

    # --- Batches.

    cdef int read_keys(self, object keys, CKeyBatch* batch, str operation) except -1:
        """Encodes and sorts a batch's keys."""
        self.refuse_dropped(operation)
        cdef Columns columns = self.keys.read(keys)
        cdef int64_t absent = FirstNull(columns.rows)
        cdef CStatus status
        if absent >= 0:
            raise failure(_errors.SchemaError, "a key cannot be None", self.context, operation, absent)
        with nogil:
            status = batch.Encode(self.keys.codec, columns.views, self.id, self.store.max_parallelism, self.store.range)
            if status.ok():
                batch.Sort()
        return check(status, self.context, operation, "key")

    cdef int read_pairs(self, object keys, object user_keys, CKeyBatch* batch, str operation) except -1:
        """Encodes and sorts a batch's pairs of key and user key."""
        self.refuse_dropped(operation)
        cdef Columns columns = self.keys.read(keys)
        cdef Columns user_columns = self.user_keys.read(user_keys)
        cdef CStatus status
        check_lengths(columns.rows.length(), user_columns.rows.length(), "user key", self.context, operation)
        for part, name in ((columns, "key"), (user_columns, "user key")):
            absent = FirstNull((<Columns>part).rows)
            if absent >= 0:
                raise failure(_errors.SchemaError, f"a {name} cannot be None", self.context, operation, absent)
        with nogil:
            status = batch.EncodePairs(self.keys.codec, columns.views, self.user_keys.codec, user_columns.views, self.id,
                                       self.store.max_parallelism, self.store.range)
            if status.ok():
                batch.Sort()
        return check(status, self.context, operation, "key")

    def get_many(self, keys):
        cdef CKeyBatch batch
        cdef CCall call
        cdef vector[CColumnBuilder] builders
        cdef CValidityBuilder present
        cdef CStatus status
        cdef ArrowResult result = ArrowResult(self.values.schema.arrow)
        self.read_keys(keys, &batch, "get_many")
        cdef int64_t count = batch.size()
        self.store.enter(&call, self.context, "get_many")
        with nogil:
            present.Begin(count)
            builders = MakeBuilders(self.values.codec.columns(), count)
            status = deref(self.store.c_store).table().ReadColumns(batch, self.values.codec, &builders, &present)
            if status.ok():
                if self.values.is_record:
                    status = FinishRecord(&builders, count, &present, result.array.get())
                else:
                    status = builders[0].Finish(count, result.array.get())
            call.Leave()
        check(status, self.context, "get_many", "value")
        return self.values.to_python(pa.array(result))

    def contains_many(self, keys):
        cdef CKeyBatch batch
        self.read_keys(keys, &batch, "contains_many")
        return self.contains_batch(&batch, "contains_many")

    cdef object contains_batch(self, CKeyBatch* batch, str operation):
        """Which rows of a batch there are: a boolean array."""
        cdef CCall call
        cdef CValidityBuilder present
        cdef CStatus status
        cdef ArrowResult result = ArrowResult(pa.bool_())
        self.store.enter(&call, self.context, operation)
        with nogil:
            present.Begin(batch.size())
            status = deref(self.store.c_store).table().Contains(deref(batch), &present)
            if status.ok():
                FinishPresence(&present, result.array.get())
            call.Leave()
        check(status, self.context, operation)
        return pa.array(result)

    def put_many(self, keys, values, bytes offset=None):
        cdef CKeyBatch batch
        cdef CCall call
        cdef CStatus status
        cdef COffsetRow row = offset_of(offset)
        self.read_keys(keys, &batch, "put_many")
        cdef Columns columns = self.values.read(values)
        check_lengths(batch.size(), columns.rows.length(), "value", self.context, "put_many")
        self.store.enter(&call, self.context, "put_many")
        with nogil:
            status = deref(self.store.c_store).table().PutColumns(
                batch, self.values.codec, columns.views, &columns.rows, row)
            call.Leave()
        check(status, self.context, "put_many", "value")

    def clear_many(self, keys, bytes offset=None):
        cdef CKeyBatch batch
        self.read_keys(keys, &batch, "clear_many")
        self.delete_batch(&batch, offset, "clear_many")

    cdef int delete_batch(self, CKeyBatch* batch, bytes offset, str operation) except -1:
        """Deletes the rows of a batch."""
        cdef CCall call
        cdef CStatus status
        cdef COffsetRow row = offset_of(offset)
        self.store.enter(&call, self.context, operation)
        with nogil:
            status = deref(self.store.c_store).table().DeleteAll(deref(batch), row)
            call.Leave()
        return check(status, self.context, operation)

    cdef int read_rows(self, const CKeyBatch& batch, CRowSet* rows, str operation) except -1:
        """Copies the rows of a batch's distinct keys."""
        cdef CCall call
        cdef CStatus status
        self.store.enter(&call, self.context, operation)
        with nogil:
            status = deref(self.store.c_store).table().ReadRows(batch, rows)
            call.Leave()
        return check(status, self.context, operation)

    cdef int write_pieces(self, vector[CWriteBatch]* pieces, str operation) except -1:
        """Writes batches one after the other, up to one that fails."""
        cdef CCall call
        cdef CStatus status
        cdef size_t i
        self.store.enter(&call, self.context, operation)
        with nogil:
            for i in range(pieces.size()):
                status = deref(self.store.c_store).table().Write(&deref(pieces)[i])
                if not status.ok():
                    break
            call.Leave()
        return check(status, self.context, operation)
