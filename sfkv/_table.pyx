# cython: language_level=3
# distutils: language = c++
"""The rows of one state: single keys and batches of them. Value states need no more; lists and maps are built on it.

Every call converts its arguments first, which may run the user's code, then enters the store (a Call: one thread at a time,
never after close), works without the GIL, leaves, and converts the answer.
"""

cimport cython
from cython.operator cimport dereference as deref
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.optional cimport optional
from libcpp.vector cimport vector

import pyarrow as pa

from sfkv import _errors
from sfkv._store cimport CCall
from sfkv._cells cimport ArrowArray
from sfkv._live cimport Fresh, Held
from sfkv._rows cimport (
    ArrowResult, CByteBuffer, CKeyBatch, CRowSet, CValidityBuilder, CValueCodec, CWriteBatch, Columns, EncodeKeyHeader,
    FinishPresence, FirstNull, KeyGroupOf, KeyGroupRange, KeyRows, ValueRows, check_lengths, kKeyHeaderBytes, kMaxKeyRowBytes,
    string_view, view,
)
from sfkv._status cimport CStatus, Code, Context, check, failure
from sfkv._tables cimport COffsetRow, CRowRange, CRows, CTableShape, ParseMapValue, ReadValues, TakeElement, TableKind

from sfkv._store import OFFSET_ROW

# The kinds of tables; the rows of the last lie in the order of their keys, to be passed over by ranges.
VALUE, LIST, MAP, TABLE = range(4)

cdef bytes offset_row = OFFSET_ROW


cdef COffsetRow offset_of(bytes offset):
    """The row of a source offset, or none. The bytes must outlive it."""
    cdef COffsetRow row
    if offset is not None:
        row.key = view(offset_row)
        row.row = view(offset)
    return row


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
        self.user_context = Context(store.path, state, [column.name for column in self.user_keys.schema.columns])
        self.declare()

    cdef int declare(self) except -1:
        """Tells the store what it will hold."""
        cdef CCall call
        cdef CTableShape shape = self.shape()
        self.store.enter(&call, self.context, "register")
        self.sorts = self.store.rows().Declare(shape) or self.kind == LIST
        if self.kind == TABLE:
            self.store.rows().KeepLeastKeys(self.id, self.store.range)
        return 0

    cdef int declare_values(self, size_t value_bytes) except -1:
        """The same where all values have one length that their schema does not show."""
        cdef CCall call
        cdef CTableShape shape = self.shape()
        shape.value_bytes = value_bytes
        shape.value_is_fixed = True
        self.store.enter(&call, self.context, "register")
        self.store.rows().Declare(shape)
        return 0

    cdef CTableShape shape(self):
        cdef CTableShape shape
        cdef bint fixed_keys = self.keys.codec.is_fixed() and (self.kind != MAP or self.user_keys.codec.is_fixed())
        shape.table = self.id
        shape.range = self.store.range
        shape.is_ordered = self.kind >= MAP
        if fixed_keys:
            shape.key_bytes = self.keys.codec.fixed_bytes() + (self.user_keys.codec.fixed_bytes() if self.kind == MAP else 0)
        shape.kind = TableKind.kValue if self.kind == TABLE else <TableKind>self.kind
        shape.holds_objects = self.values.live is not None
        if self.kind != LIST and (self.values.live is not None or self.values.codec.has_fixed_rows()):
            shape.value_bytes = 8 if self.values.live is not None else self.values.codec.most_bytes()
            shape.value_is_fixed = self.values.live is not None or self.values.codec.has_one_length()
        if self.kind == MAP and shape.value_is_fixed:
            shape.value_bytes += 1
            shape.value_is_fixed = False  # a None is short
        return shape

    # --- One key.

    def drop(self, str why not None):
        """Ends the table, for the reason that errors give from now on."""
        self.dropped = why

    cdef int refuse_dropped(self, str operation) except -1:
        if self.dropped is not None:
            raise failure(_errors.ClosedError, self.dropped, self.context, operation)
        return 0

    cdef int enter(self, CCall* call, str operation) except -1:
        """Enters the store, unless the table was dropped: by the code that converted the arguments, maybe, or another thread."""
        self.store.enter(call, self.context, operation)
        if self.dropped is not None:
            call.Leave()
            self.refuse_dropped(operation)
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
        self.encode_key(key, out, operation)
        self.user_keys.encode(user_key, out, &unused, self.user_context, operation)
        if out.size() - kKeyHeaderBytes > kMaxKeyRowBytes:
            check(CKeyBatch.KeyTooLong(out.size() - kKeyHeaderBytes, -1), self.context, operation, "key")
        return 0

    def get(self, key, default=None):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        self.encode_key(key, &encoded, "get")
        if not self.read_row(string_view(encoded.data(), encoded.size()), &row, "get"):
            return default
        if self.values.live is not None:
            return self.object_of(string_view(row.data(), row.size()), key, "get")
        return self.values.decode(string_view(row.data(), row.size()))

    cdef object object_of(self, string_view number, object key, str operation):
        """The live object of a key's row, which was read just now (see Live)."""
        try:
            return self.values.live.object_of(number)
        except _errors.SchemaError as error:
            raise self.not_given(error, key, operation, None) from error

    cdef object batch_object(self, Held held, size_t i, CKeyBatch* batch, size_t position, str operation):
        """A live object that was read for a batch."""
        try:
            return held.object_at(i)
        except _errors.SchemaError as error:
            raise self.not_given(error, self.key_in(batch.Key(position)), operation, position) from error

    cdef object not_given(self, object error, object key, str operation, object position):
        return failure(_errors.SchemaError, f"{error}; it lies under the key {key!r}", self.context, operation, position)

    cdef object key_in(self, string_view encoded):
        """The key of an encoded one, behind which there may be a user key."""
        cdef string_view row = string_view(encoded.data() + kKeyHeaderBytes, encoded.size() - kKeyHeaderBytes)
        cdef optional[size_t] size = self.keys.codec.FrontBytes(row)
        return self.keys.decode(string_view(row.data(), size.value()))

    cdef int take(self, Held held, string_view row, str operation) except -1:
        """Takes the live objects of a row, inside the call that has read it."""
        cdef string_view element
        cdef cbool is_none = False
        if self.kind == LIST:
            while TakeElement(&row, &element):
                held.take(element)
            if row.size() != 0:
                raise failure(_errors.CorruptionError, "Corruption: a stored list does not have the form of one", self.context, operation)
            return 0
        if self.kind == MAP and not ParseMapValue(row, &is_none, &row):
            raise failure(_errors.CorruptionError, "Corruption: a stored entry does not have the form of one", self.context, operation)
        return held.take_none() if is_none else held.take(row)

    cdef bint read_row(self, string_view key, CByteBuffer* row, str operation, Held held=None) except -1:
        """Copies the row of a key, first from what is in memory, then without the GIL from the files. False if there is none."""
        cdef CCall call
        cdef CRows* rows = self.store.rows()
        cdef cbool found = False
        cdef CStatus status
        self.enter(&call, operation)
        status = rows.ReadRow(key, False, row, &found)
        if status.code() == Code.kIncomplete:
            with nogil:
                status = rows.ReadRow(key, True, row, &found)
        if held is not None and found:
            self.take(held, string_view(row.data(), row.size()), operation)
        call.Leave()
        check(status, self.context, operation)
        return found

    def contains(self, key):
        cdef CByteBuffer encoded
        self.encode_key(key, &encoded, "contains")
        return self.read_row(string_view(encoded.data(), encoded.size()), NULL, "contains")

    def put(self, key, value):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        cdef Fresh fresh = self.values.fresh()
        self.encode_key(key, &encoded, "put")
        if value is None:
            self.write_row(&encoded, NULL, "put")
            return
        self.values.encode(value, &row, self.context, "put", fresh)
        self.write_row(&encoded, &row, "put", fresh)

    def clear(self, key, str operation not None="clear"):
        cdef CByteBuffer encoded
        self.encode_key(key, &encoded, operation)
        self.write_row(&encoded, NULL, operation)

    cdef int write_row(self, CByteBuffer* key, CByteBuffer* row, str operation, Fresh fresh=None) except -1:
        """Puts a row, or deletes it if `row` is NULL: at once if nothing has to be waited for, else without the GIL."""
        cdef CCall call
        cdef CRows* rows = self.store.rows()
        cdef CStatus status
        cdef string_view k = string_view(key.data(), key.size())
        cdef string_view v
        if row != NULL:
            v = string_view(row.data(), row.size())
        self.enter(&call, operation)
        status = rows.PutRow(k, v, False) if row != NULL else rows.DeleteRow(k, False)
        if status.code() == Code.kIncomplete:
            with nogil:
                status = rows.PutRow(k, v, True) if row != NULL else rows.DeleteRow(k, True)
        call.Leave()
        self.store.settle(fresh)
        return check(status, self.context, operation)

    # --- Batches.

    cdef int read_keys(self, object keys, CKeyBatch* batch, str operation) except -1:
        """Encodes a batch's keys, and sorts them where the store wants that."""
        self.encode_keys(keys, batch, operation)
        if self.sorts:
            with nogil:
                batch.Sort()
        return 0

    cdef int read_sorted_keys(self, object keys, CKeyBatch* batch, str operation) except -1:
        """Encodes and sorts a batch's keys."""
        self.encode_keys(keys, batch, operation)
        with nogil:
            batch.Sort()
        return 0

    cdef int encode_keys(self, object keys, CKeyBatch* batch, str operation) except -1:
        self.refuse_dropped(operation)
        cdef Columns columns = self.keys.read(keys)
        cdef int64_t absent = FirstNull(columns.rows)
        cdef CStatus status
        if absent >= 0:
            raise failure(_errors.SchemaError, "a key cannot be None", self.context, operation, absent)
        with nogil:
            status = batch.Encode(self.keys.codec, columns.views, self.id, self.store.max_parallelism, self.store.range)
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

    def get_many(self, keys, columns=None):
        """`columns`: names of the value's columns, to be read in that order; all of them if it is None."""
        cdef CRows* rows = self.store.rows()
        cdef CKeyBatch batch
        cdef CCall call
        cdef CStatus status
        cdef vector[int] wanted = self.values.numbers_of(columns, self.context, "get_many")
        cdef ArrowResult result = ArrowResult(self.values.arrow_of(columns))
        cdef Held held = self.values.held()
        self.read_keys(keys, &batch, "get_many")
        self.enter(&call, "get_many")
        with nogil:
            status = ReadValues(rows, batch, self.values.codec, wanted, result.array.get())
            if held is None:
                call.Leave()
        if held is not None and status.ok():
            held.take_cells(result.array.get())
        call.Leave()
        check(status, self.context, "get_many", "value")
        return self.answer(result, held, &batch)

    cdef object answer(self, ArrowResult result, Held held, CKeyBatch* batch):
        """What get_many() gives for the values of a batch, or the live objects that `held` has taken."""
        cdef size_t i
        if held is None:
            return self.values.to_python(pa.array(result))
        if held.is_ready:
            return held.values
        return [self.batch_object(held, i, batch, i, "get_many") for i in range(batch.size())]

    def contains_many(self, keys):
        cdef CKeyBatch batch
        self.read_keys(keys, &batch, "contains_many")
        return self.contains_batch(&batch, "contains_many")

    cdef object contains_batch(self, CKeyBatch* batch, str operation):
        """Which rows of a batch there are: a boolean array."""
        cdef CRows* rows = self.store.rows()
        cdef CCall call
        cdef CValidityBuilder present
        cdef CStatus status
        cdef ArrowResult result = ArrowResult(pa.bool_())
        self.enter(&call, operation)
        with nogil:
            present.Begin(batch.size())
            status = rows.HaveRows(deref(batch), &present)
            if status.ok():
                FinishPresence(&present, result.array.get())
            call.Leave()
        check(status, self.context, operation)
        return pa.array(result)

    def put_many(self, keys, values, bytes offset=None):
        cdef CRows* rows = self.store.rows()
        cdef CKeyBatch batch
        cdef CCall call
        cdef CStatus status
        cdef COffsetRow row = offset_of(offset)
        cdef Fresh fresh = self.values.fresh()
        self.read_keys(keys, &batch, "put_many")
        cdef Columns columns = self.values.read(values, fresh)
        check_lengths(batch.size(), columns.rows.length(), "value", self.context, "put_many")
        self.enter(&call, "put_many")
        with nogil:
            status = rows.PutColumns(batch, self.values.codec, columns.views, &columns.rows, row)
            call.Leave()
        self.store.settle(fresh)
        check(status, self.context, "put_many", "value")

    def clear_many(self, keys, bytes offset=None, str operation not None="clear_many"):
        cdef CKeyBatch batch
        self.read_keys(keys, &batch, operation)
        self.delete_batch(&batch, offset, operation)

    cdef int delete_batch(self, CKeyBatch* batch, bytes offset, str operation) except -1:
        """Deletes the rows of a batch."""
        cdef CRows* rows = self.store.rows()
        cdef CCall call
        cdef CStatus status
        cdef COffsetRow row = offset_of(offset)
        self.enter(&call, operation)
        with nogil:
            status = rows.DeleteRows(deref(batch), row)
            call.Leave()
        self.store.settle(None)
        return check(status, self.context, operation)

    cdef int read_rows(self, const CKeyBatch& batch, CRowSet* rows, str operation, Held held=None) except -1:
        """Copies the rows of a batch's distinct keys. `held` takes their live objects, none where there is no row."""
        cdef CRows* store = self.store.rows()
        cdef CCall call
        cdef CStatus status
        cdef size_t i
        self.enter(&call, operation)
        with nogil:
            status = store.ReadRows(batch, rows)
            if held is None:
                call.Leave()
        if held is not None and status.ok():
            for i in range(rows.size()):
                self.take(held, rows.Get(i), operation) if rows.Has(i) else held.take_none()
        call.Leave()
        return check(status, self.context, operation)

    cdef int write_pieces(self, vector[CWriteBatch]* pieces, str operation, Fresh fresh=None) except -1:
        """Writes batches one after the other, up to one that fails; in an open batch as one. `fresh` has their live objects."""
        cdef CRows* rows = self.store.rows()
        cdef CCall call
        cdef CStatus status
        cdef size_t i
        self.enter(&call, operation)
        with nogil:
            if rows.InBatch():
                for i in range(1, pieces.size()):
                    deref(pieces)[0].Append(deref(pieces)[i])
                pieces.resize(1)
            for i in range(pieces.size()):
                status = rows.WriteRows(&deref(pieces)[i])
                if not status.ok():
                    break
            call.Leave()
        self.store.settle(fresh)
        return check(status, self.context, operation)

    # --- Ranges of rows: tables only.

    def encode_prefix(self, KeyRows rows not None, prefix, str operation not None):
        """The row of the leading columns of a key, by the codec of these."""
        cdef CByteBuffer row
        cdef int32_t hash = 0
        rows.encode(prefix, &row, &hash, self.context, operation)
        return row.data()[:row.size()]

    def group_of_prefix(self, bytes row not None, str operation not None):
        """The key group of a key row, or of the beginning of one that has all columns that make the key group."""
        cdef int group = KeyGroupOf(self.keys.codec.HashRow(view(row)), self.store.max_parallelism)
        if not self.store.range.first <= group <= self.store.range.last:
            check(CKeyBatch.OutsideRange(group, self.store.range, -1), self.context, operation, "key")
        return group

    def delete_range(self, rows, bytes offset=None):
        """Deletes the rows of a range (state/scan.py)."""
        cdef CRows* store = self.store.rows()
        cdef CCall call
        cdef CStatus status
        cdef CRowRange range
        cdef KeyGroupRange groups = self.store.range
        cdef COffsetRow row = offset_of(offset)
        range.lower = rows.lower
        range.upper = rows.upper
        if rows.key_groups is not None:
            groups.first, groups.last = rows.key_groups
        self.enter(&call, "delete_range")
        with nogil:
            status = store.DeleteRange(self.id, groups, range, row)
            call.Leave()
        self.store.settle(None)
        check(status, self.context, "delete_range")


def get_many(Store store not None, list tables not None, list keys not None):
    """The values of several tables' batches of keys, read in one call."""
    cdef vector[CKeyBatch] batches
    cdef vector[const CValueCodec*] codecs
    cdef vector[vector[int]] wanted
    cdef vector[ArrowArray*] answers
    cdef size_t i
    cdef CCall call
    cdef CStatus status
    cdef CRows* rows = store.rows()
    cdef Table table
    cdef list results = []
    cdef list held = []
    cdef bint is_live = False
    batches.resize(len(tables))
    for i in range(batches.size()):
        table = <Table>tables[i]
        table.read_keys(keys[i], &batches[i], "get_many")
        codecs.push_back(&table.values.codec)
        wanted.push_back(table.values.numbers_of(None, table.context, "get_many"))
        results.append(ArrowResult(table.values.schema.arrow))
        answers.push_back((<ArrowResult>results[i]).array.get())
        held.append(table.values.held())
        is_live = is_live or table.values.live is not None
    store.enter(&call, store.context, "get_many")
    for i in range(batches.size()):
        if (<Table>tables[i]).dropped is not None:
            call.Leave()
            (<Table>tables[i]).refuse_dropped("get_many")
    i = 0
    with nogil:
        while i < batches.size() and status.ok():
            status = ReadValues(rows, batches[i], deref(codecs[i]), wanted[i], answers[i])
            i += 1
        if not is_live:
            call.Leave()
    if not status.ok():
        call.Leave()
        check(status, (<Table>tables[i - 1]).context, "get_many", "value")
    for i in range(batches.size()):
        if held[i] is not None:
            (<Held>held[i]).take_cells(answers[i])
    call.Leave()
    return [(<Table>tables[i]).answer(<ArrowResult>results[i], <Held>held[i], &batches[i]) for i in range(len(tables))]
