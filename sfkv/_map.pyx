# cython: language_level=3
# distutils: language = c++
"""Maps: one entry, one key, and batches of either."""

cimport cython
from libcpp cimport bool as cbool
from libcpp.utility cimport move
from libcpp.vector cimport vector

import pyarrow as pa

from sfkv import _errors
from sfkv._cells cimport string_view
from sfkv._table cimport Table, offset_of
from sfkv._store cimport CCall
from sfkv._live cimport Fresh, Held
from sfkv._rows cimport ArrowResult, CByteBuffer, CKeyBatch, CRowSet, CValidityBuilder, CWriteBatch, Columns, FinishPresence, check_lengths, view
from sfkv._scan cimport Scan
from sfkv._status cimport CStatus, check, failure
from sfkv._tables cimport COffsetRow, CRows, ParseMapValue, kMapValueNone, kMapValuePresent

cdef enum:
    CHUNK = 1024  # entries that are read at a time


@cython.final
cdef class MapTable:
    """The rows of a map state."""
    cdef readonly Table table

    def __cinit__(self, Table table not None):
        self.table = table

    # --- One entry.

    def get(self, key, user_key, default=None):
        cdef CByteBuffer encoded
        cdef CByteBuffer stored
        self.table.encode_pair(key, user_key, &encoded, "get")
        if not self.table.read_row(string_view(encoded.data(), encoded.size()), &stored, "get"):
            return default
        return self.decode(string_view(stored.data(), stored.size()), key, "get")

    cdef object decode(self, string_view stored, object key, str operation):
        """The value of a stored entry of a key; a live one was read just now."""
        cdef cbool is_none = False
        cdef string_view row
        if not ParseMapValue(stored, &is_none, &row):
            raise failure(_errors.CorruptionError, "Corruption: a stored entry does not have the form of one", self.table.context, operation)
        if is_none:
            return None
        return self.table.values.decode(row) if self.table.values.live is None else self.table.object_of(row, key, operation)

    cdef int encode(self, object value, CByteBuffer* out, str operation, Fresh fresh) except -1:
        out.Extend(1)[0] = kMapValueNone if value is None else kMapValuePresent
        if value is not None:
            self.table.values.encode(value, out, self.table.context, operation, fresh)
        return 0

    def contains(self, key, user_key):
        cdef CByteBuffer encoded
        self.table.encode_pair(key, user_key, &encoded, "contains")
        return self.table.read_row(string_view(encoded.data(), encoded.size()), NULL, "contains")

    def put(self, key, user_key, value):
        cdef CByteBuffer encoded
        cdef CByteBuffer stored
        cdef Fresh fresh = self.table.values.fresh()
        self.table.encode_pair(key, user_key, &encoded, "put")
        self.encode(value, &stored, "put", fresh)
        self.table.write_row(&encoded, &stored, "put", fresh)

    def delete(self, key, user_key):
        cdef CByteBuffer encoded
        self.table.encode_pair(key, user_key, &encoded, "delete")
        self.table.write_row(&encoded, NULL, "delete")

    # --- One key.

    def put_all(self, key, mapping):
        """All of it is encoded before the first byte is written."""
        cdef vector[CWriteBatch] pieces
        cdef CByteBuffer encoded
        cdef CByteBuffer stored
        cdef Fresh fresh = self.table.values.fresh()
        pieces.resize(1)
        for user_key, value in list(mapping.items()):
            encoded.Clear()
            stored.Clear()
            self.table.encode_pair(key, user_key, &encoded, "put_all")
            self.encode(value, &stored, "put_all", fresh)
            pieces.back().Put(string_view(encoded.data(), encoded.size()), string_view(stored.data(), stored.size()))
            if pieces.back().bytes() >= self.table.store.write_batch_bytes:
                pieces.resize(pieces.size() + 1)
        self.table.write_pieces(&pieces, "put_all", fresh)

    def is_empty(self, key):
        cdef CByteBuffer encoded
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        cdef cbool found = False
        self.table.encode_key(key, &encoded, "is_empty")
        self.table.enter(&call, "is_empty")
        with nogil:
            status = rows.HasEntry(string_view(encoded.data(), encoded.size()), &found)
            call.Leave()
        check(status, self.table.context, "is_empty")
        return not found

    def clear(self, key):
        cdef CByteBuffer encoded
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        self.table.encode_key(key, &encoded, "clear")
        self.table.enter(&call, "clear")
        with nogil:
            status = rows.ClearMap(string_view(encoded.data(), encoded.size()))
            call.Leave()
        self.table.store.settle(None)
        check(status, self.table.context, "clear")

    def entries(self, key, bint with_values=True):
        """An iterator over a key's user keys, or (user key, value) pairs, as they are now."""
        cdef CByteBuffer encoded
        self.table.encode_key(key, &encoded, "iterate")
        return Entries(self, encoded.data()[:encoded.size()], with_values)

    # --- Batches.

    def get_many(self, keys, user_keys):
        cdef CKeyBatch batch
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        cdef ArrowResult result = ArrowResult(self.table.values.schema.arrow)
        cdef Held held = self.table.values.held()
        self.table.read_pairs(keys, user_keys, &batch, "get_many")
        self.table.enter(&call, "get_many")
        with nogil:
            status = rows.ReadEntries(batch, self.table.values.codec, result.array.get())
            if held is None:
                call.Leave()
        if held is not None and status.ok():
            held.take_cells(result.array.get())
        call.Leave()
        check(status, self.table.context, "get_many", "value")
        return self.table.answer(result, held, &batch)

    def contains_many(self, keys, user_keys=None):
        """Which keys have an entry; with user keys, which entries there are."""
        cdef CKeyBatch batch
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        cdef CValidityBuilder present
        cdef ArrowResult result = ArrowResult(pa.bool_())
        if user_keys is not None:
            self.table.read_pairs(keys, user_keys, &batch, "contains_many")
            return self.table.contains_batch(&batch, "contains_many")
        self.table.read_keys(keys, &batch, "contains_many")
        self.table.enter(&call, "contains_many")
        with nogil:
            present.Begin(batch.size())
            status = rows.HaveEntries(batch, &present)
            if status.ok():
                FinishPresence(&present, result.array.get())
            call.Leave()
        check(status, self.table.context, "contains_many")
        return pa.array(result)

    def put_many(self, keys, user_keys, values, bytes offset=None):
        cdef CKeyBatch batch
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        cdef COffsetRow row = offset_of(offset)
        self.table.read_pairs(keys, user_keys, &batch, "put_many")
        cdef Fresh fresh = self.table.values.fresh()
        cdef Columns columns = self.table.values.read(values, fresh)
        check_lengths(batch.size(), columns.rows.length(), "value", self.table.context, "put_many")
        self.table.enter(&call, "put_many")
        with nogil:
            status = rows.PutEntries(batch, self.table.values.codec, columns.views, columns.rows, row)
            call.Leave()
        self.table.store.settle(fresh)
        check(status, self.table.context, "put_many", "value")

    def delete_many(self, keys, user_keys, bytes offset=None):
        cdef CKeyBatch batch
        self.table.read_pairs(keys, user_keys, &batch, "delete_many")
        self.table.delete_batch(&batch, offset, "delete_many")

    def items_many(self, keys):
        cdef CKeyBatch batch
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        cdef ArrowResult result = ArrowResult(pa.map_(self.table.user_keys.schema.arrow, self.table.values.schema.arrow))
        cdef Held held = self.table.values.held()
        cdef size_t i, at
        cdef list found, ends, maps
        cdef dict made
        self.table.read_keys(keys, &batch, "items_many")
        self.table.enter(&call, "items_many")
        with nogil:
            status = rows.ReadMaps(batch, self.table.user_keys.codec, self.table.values.codec, result.array.get())
            if held is None:
                call.Leave()
        if held is not None and status.ok():
            held.take_cells(result.array.get().children[0].children[1])
        call.Leave()
        check(status, self.table.context, "items_many", "value")
        array = pa.array(result)
        loads = self.table.values.loads
        if loads is None:
            return array
        key_of = (lambda key: tuple(key.values())) if self.table.user_keys.is_record else (lambda key: key)
        if held is None:
            return [{key_of(key): None if value is None else loads(value) for key, value in entries} for entries in array.to_pylist()]
        found = array.keys.to_pylist()
        ends = array.offsets.to_numpy().tolist()
        maps = []
        for i in range(batch.size()):
            made = {}
            for at in range(ends[i], ends[i + 1]):
                live = held.values[at] if held.is_ready else self.table.batch_object(held, at, &batch, i, "items_many")
                made[key_of(found[at])] = live
            maps.append(made)
        return maps

    def clear_many(self, keys, bytes offset=None):
        cdef CKeyBatch batch
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        cdef COffsetRow row = offset_of(offset)
        self.table.read_keys(keys, &batch, "clear_many")
        self.table.enter(&call, "clear_many")
        with nogil:
            status = rows.ClearMaps(batch, row)
            call.Leave()
        self.table.store.settle(None)
        check(status, self.table.context, "clear_many")


@cython.final
cdef class Entries:
    """The entries of one key, in the order of their user keys, as of the start; read in chunks."""
    cdef MapTable map
    cdef Scan scan
    cdef bytes key             # encoded
    cdef bint with_values
    cdef CRowSet user_keys
    cdef CRowSet values
    cdef Held held             # the values, where these are live objects
    cdef list objects          # the same, decoded: of a batch, behind which no scan sees them
    cdef size_t at

    def __cinit__(self, MapTable map not None, bytes key not None, bint with_values):
        self.map = map
        self.key = key
        self.with_values = with_values
        self.scan = Scan(map.table, CHUNK, with_values, key)
        if map.table.store.rows().InBatch():  # whose further writes such an iterator must not meet: all is read now
            self.read(<size_t>-1)
            if self.held is not None:
                self.objects = [self.value_at(i) for i in range(len(self.held.values))]
            self.scan = None

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.user_keys.size():
            if self.scan is None:
                raise StopIteration
            self.user_keys.Clear()  # if the next ones cannot be had, the last ones are not given again
            self.at = 0
            self.read(CHUNK)
            if self.user_keys.size() == 0:
                self.scan = None
                raise StopIteration
        user_key = self.map.table.user_keys.decode(self.user_keys.Get(self.at))
        value = None
        if self.objects is not None:
            value = self.objects[self.at]
        elif self.with_values:
            value = self.value_at(self.at)
        self.at += 1
        return (user_key, value) if self.with_values else user_key

    cdef int read(self, size_t most) except -1:
        """Reads the next entries. They come into place when the call is over: another thread may ask meanwhile, and is refused."""
        cdef Scan scan = self.scan
        cdef CRowSet user_keys
        cdef CRowSet values
        cdef Held held = self.map.table.values.held() if self.with_values else None
        scan.next_entries(most, &user_keys, &values, held)
        self.user_keys = move(user_keys)
        self.values = move(values)
        self.held = held
        return 0

    cdef object value_at(self, size_t i):
        cdef Table table = self.map.table
        cdef Held held = self.held  # whose objects may run code that has this read on
        if held is None:
            return self.map.decode(self.values.Get(i), None, "iterate")
        try:
            return held.object_at(i)
        except _errors.SchemaError as error:
            raise table.not_given(error, table.key_in(view(self.key)), "iterate", None) from error
