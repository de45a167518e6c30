# cython: language_level=3
# distutils: language = c++
"""Folds: reducing and aggregating states, one key at a time and by the batch: by the core if it knows how, else by Python."""

cimport cython
from libc.stdint cimport int64_t, uint32_t
from libcpp.string cimport string
from libcpp.vector cimport vector

import pyarrow as pa

from sfkv import _errors
from sfkv._cells cimport Cell, string_view
from sfkv._columns import ColumnReader
from sfkv._rows cimport (
    ArrowResult, CByteBuffer, CheckValues, CKeyBatch, Columns, CRowSet, CWriteBatch, FirstNull, ValueRows, check_lengths, kKeyHeaderBytes, view,
)
from sfkv._status cimport CStatus, Code, Context, check, failure
from sfkv._store cimport CCall, Store
from sfkv._table cimport Table, offset_of
from sfkv._tables cimport (
    BuildResults, CFoldCodec, CFoldGuard, COffsetRow, CRows, Fold, MergeRows, ReadResults, kFoldScratchBytes,
)

from sfkv._store import OFFSET_ROW

cdef str NO_NONE = "None cannot be added"


def can_fold(int fold, column):
    """Whether the core has this fold (fold.h) for plain values of a column's type."""
    return CFoldCodec.CanFold(<Fold>fold, (<Cell>Cell(column)).type)


def merge_rows(list rows not None):
    """What stored rows and operands of one key become (fold.h), in order."""
    cdef vector[string_view] views
    cdef string merged
    for row in rows:
        views.push_back(view(row))
    MergeRows(views, &merged)
    return <bytes>merged


def merge_operand(Store store not None, bytes key not None, bytes operand not None):
    """Merges any bytes into the row of an encoded key, as a state's operands are: for tests."""
    cdef CFoldGuard guard
    cdef CCall call
    cdef CStatus status
    store.enter(&call, store.context, "merge")
    status = store.rows().FoldRow(&guard, view(key), view(operand), True)
    check(status, store.context, "merge")


cdef Columns read_values(Table table, ValueRows rows, object values, size_t count, str operation):
    """The values that go with a batch of so many keys; none of them is null."""
    cdef Columns columns = rows.read(values)
    check_lengths(count, columns.rows.length(), "value", table.context, operation)
    cdef int64_t absent = FirstNull(columns.rows)
    if absent >= 0:
        raise failure(_errors.SchemaError, NO_NONE, table.context, operation, absent)
    return columns


@cython.final
cdef class FoldTable:
    """The rows of a state that the core folds. `fold`: which (fold.h). The table's own values are the rows' bytes."""
    cdef Table table
    cdef ValueRows values
    cdef ValueRows results
    cdef CFoldCodec codec
    cdef CFoldGuard guard

    def __cinit__(self, Table table not None, int fold, ValueRows values not None, ValueRows results not None):
        self.table = table
        self.values = values
        self.results = results
        self.codec = CFoldCodec(<Fold>fold, values.codec, results.codec)
        if self.codec.row_bytes() != 0:
            table.declare_values(self.codec.row_bytes())

    def get(self, key, default=None):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        cdef char[kFoldScratchBytes] scratch
        cdef string_view result
        self.table.encode_key(key, &encoded, "get")
        if not self.table.read_row(string_view(encoded.data(), encoded.size()), &row, "get"):
            return default
        check(self.codec.Result(string_view(row.data(), row.size()), -1, scratch, &result), self.table.context, "get")
        return self.results.decode(result)

    def add(self, key, value):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        cdef CByteBuffer operand
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        self.table.encode_key(key, &encoded, "add")
        if value is None:
            raise failure(_errors.SchemaError, NO_NONE, self.table.context, "add")
        self.values.encode(value, &row, self.table.context, "add")
        self.codec.AppendOperand(string_view(row.data(), row.size()), &operand)
        cdef string_view k = string_view(encoded.data(), encoded.size())
        cdef string_view added = string_view(operand.data(), operand.size())
        self.table.enter(&call, "add")
        status = rows.FoldRow(&self.guard, k, added, False)
        if status.code() == Code.kIncomplete:
            with nogil:
                status = rows.FoldRow(&self.guard, k, added, True)
        check(status, self.table.context, "add")

    def get_many(self, keys):
        cdef CRows* rows = self.table.store.rows()
        cdef CKeyBatch batch
        cdef CCall call
        cdef CStatus status
        cdef ArrowResult result = ArrowResult(self.results.schema.arrow)
        self.table.read_sorted_keys(keys, &batch, "get_many")
        self.table.enter(&call, "get_many")
        with nogil:
            status = ReadResults(rows, batch, self.codec, result.array.get())
            call.Leave()
        check(status, self.table.context, "get_many", "value")
        return self.results.to_python(pa.array(result))

    def add_many(self, keys, values, bytes offset=None):
        cdef CRows* rows = self.table.store.rows()
        cdef CKeyBatch batch
        cdef CCall call
        cdef CStatus status
        cdef COffsetRow row = offset_of(offset)
        if self.codec.row_bytes() != 0:
            self.table.read_keys(keys, &batch, "add_many")
        else:
            self.table.read_sorted_keys(keys, &batch, "add_many")
        cdef Columns columns = read_values(self.table, self.values, values, batch.size(), "add_many")
        self.table.enter(&call, "add_many")
        with nogil:
            status = rows.FoldColumns(&self.guard, batch, self.codec, columns.views, row)
            call.Leave()
        check(status, self.table.context, "add_many", "value")

    def results_of(self, stored):
        """The results of stored rows, a binary array: an Arrow array of the results' type."""
        cdef Columns columns = self.table.values.read(stored)
        cdef ArrowResult result = ArrowResult(self.results.schema.arrow)
        cdef CStatus status
        with nogil:
            status = BuildResults(columns.views[0], self.codec, result.array.get())
        check(status, self.table.context, "scan", "value")
        return pa.array(result)


@cython.final
cdef class LastTable:
    """The rows of a state that keeps the last value of each key, which needs no fold: the table's values are they."""
    cdef Table table

    def __cinit__(self, Table table not None):
        self.table = table

    def get(self, key, default=None):
        return self.table.get(key, default)

    def get_many(self, keys):
        return self.table.get_many(keys)

    def add(self, key, value):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        self.table.encode_key(key, &encoded, "add")
        if value is None:
            raise failure(_errors.SchemaError, NO_NONE, self.table.context, "add")
        self.table.values.encode(value, &row, self.table.context, "add")
        self.table.write_row(&encoded, &row, "add")

    def add_many(self, keys, values, bytes offset=None):
        cdef CRows* rows = self.table.store.rows()
        cdef CKeyBatch batch
        cdef CCall call
        cdef CStatus status
        cdef COffsetRow row = offset_of(offset)
        self.table.read_keys(keys, &batch, "add_many")
        cdef Columns columns = read_values(self.table, self.table.values, values, batch.size(), "add_many")
        self.table.enter(&call, "add_many")
        with nogil:
            status = rows.PutColumns(batch, self.table.values.codec, columns.views, NULL, row)
            call.Leave()
        check(status, self.table.context, "add_many", "value")


@cython.final
cdef class FunctionTable:
    """The rows of a state that Python folds: accumulators, which `accumulators` encodes.

    `begin` makes an accumulator of a first value, `append` one of an accumulator and a value, `finish` a result of one; None if the
    accumulator is it, and then the table's own values are they, else they are the rows' bytes. What these are given is theirs: all of
    it was decoded for the call.
    """
    cdef Table table
    cdef ValueRows values
    cdef ValueRows accumulators
    cdef object begin
    cdef object append
    cdef object finish
    cdef object reader         # makes an Arrow array of results; None if they are left as objects

    def __cinit__(self, Table table not None, ValueRows values not None, ValueRows accumulators not None, functions not None, result=None):
        """`functions`: begin, append and finish. `result`: the schema of results; None to leave them as objects."""
        self.table = table
        self.values = values
        self.accumulators = accumulators
        self.begin, self.append, self.finish = functions
        self.reader = None if result is None else ColumnReader(result.columns, result.is_record, "result", table.context.state)

    def get(self, key, default=None):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        self.table.encode_key(key, &encoded, "get")
        if not self.table.read_row(string_view(encoded.data(), encoded.size()), &row, "get"):
            return default
        return self.result_of(string_view(row.data(), row.size()), key, "get", None)

    def add(self, key, value):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        cdef CByteBuffer given
        cdef Context context = self.table.context
        self.table.encode_key(key, &encoded, "add")
        if value is None:
            raise failure(_errors.SchemaError, NO_NONE, context, "add")
        self.values.encode(value, &given, context, "add")
        accumulator = None
        if self.table.read_row(string_view(encoded.data(), encoded.size()), &row, "add"):
            accumulator = self.accumulators.decode(string_view(row.data(), row.size()))
        try:
            accumulator = self.folded(accumulator, self.values.decode(string_view(given.data(), given.size())))
        except Exception as error:
            raise self.failed(error, key, "add", None) from error
        row.Clear()
        self.accumulators.encode(accumulator, &row, context, "add")
        self.table.write_row(&encoded, &row, "add")

    def get_many(self, keys):
        """The results: an Arrow array where their type is known, else a list."""
        if self.finish is None:
            return self.table.get_many(keys)
        cdef CKeyBatch batch
        cdef CRowSet stored
        cdef size_t distinct, i
        cdef vector[uint32_t] distinct_of
        self.table.read_sorted_keys(keys, &batch, "get_many")
        self.table.read_rows(batch, &stored, "get_many")
        results = [None] * batch.distinct_count()
        for distinct in range(batch.distinct_count()):
            if stored.Has(distinct):
                key = self.key_of(&batch, distinct)
                results[distinct] = self.result_of(stored.Get(distinct), key, "get_many", batch.FirstPosition(distinct))
        distinct_of = batch.DistinctOfPositions()
        answer = [results[distinct_of[i]] for i in range(batch.size())]
        return answer if self.reader is None else self.reader.read(answer)

    def add_many(self, keys, values, bytes offset=None):
        cdef CKeyBatch batch
        cdef CRowSet stored
        cdef CByteBuffer given
        cdef size_t i, distinct
        cdef vector[uint32_t] distinct_of
        self.table.read_sorted_keys(keys, &batch, "add_many")
        cdef Columns columns = read_values(self.table, self.values, values, batch.size(), "add_many")
        check(CheckValues(self.values.codec, columns.views, NULL), self.table.context, "add_many", "value")
        self.table.read_rows(batch, &stored, "add_many")
        distinct_of = batch.DistinctOfPositions()
        accumulators = [None] * batch.distinct_count()
        for i in range(batch.size()):
            distinct = distinct_of[i]
            accumulator = accumulators[distinct]
            if accumulator is None and stored.Has(distinct):
                accumulator = self.accumulators.decode(stored.Get(distinct))
            given.Clear()
            self.values.codec.EncodeRow(columns.views, i, given.Extend(self.values.codec.RowBytes(columns.views, i)))
            value = self.values.decode(string_view(given.data(), given.size()))
            try:
                accumulators[distinct] = self.folded(accumulator, value)
            except Exception as error:
                raise self.failed(error, self.key_of(&batch, distinct), "add_many", i) from error
        self.write(accumulators, &batch, offset)

    def results_of(self, stored):
        """The results of stored rows, a binary array: an Arrow array where their type is known, else a list."""
        results = [self.result_of(view(row), None, "scan", None) for row in stored.to_pylist()]
        return results if self.reader is None else self.reader.read(results)

    cdef object folded(self, object accumulator, object value):
        folded = self.begin(value) if accumulator is None else self.append(accumulator, value)
        if folded is None:
            raise TypeError("it returned None, which is no accumulator")
        return folded

    cdef object result_of(self, string_view row, object key, str operation, object position):
        accumulator = self.accumulators.decode(row)
        if self.finish is None:
            return accumulator
        try:
            return self.finish(accumulator)
        except Exception as error:
            raise self.failed(error, key, operation, position) from error

    cdef object failed(self, object error, object key, str operation, object position):
        """What the user's function raised, as an error that names the key. Nothing was written."""
        where = "" if key is None else f" for the key {key!r}"
        cause = f"the state's function raised {type(error).__name__}{where}: {error}; the state is as it was"
        return failure(_errors.UsageError, cause, self.table.context, operation, position)

    cdef int write(self, list accumulators, CKeyBatch* batch, bytes offset) except -1:
        """Writes an accumulator for each distinct key: all of them are encoded before the first byte is written."""
        cdef vector[CWriteBatch] pieces
        cdef CByteBuffer row
        cdef size_t distinct
        pieces.resize(1)
        for distinct in range(batch.distinct_count()):
            row.Clear()
            self.accumulators.encode(accumulators[distinct], &row, self.table.context, "add_many")
            pieces.back().Put(batch.DistinctKey(distinct), string_view(row.data(), row.size()))
            if offset is None and pieces.back().bytes() >= self.table.store.write_batch_bytes:
                pieces.resize(pieces.size() + 1)
        if offset is not None:
            pieces.back().Put(view(OFFSET_ROW), view(offset))
        return self.table.write_pieces(&pieces, "add_many")

    cdef object key_of(self, CKeyBatch* batch, size_t distinct):
        cdef string_view key = batch.DistinctKey(distinct)
        return self.table.keys.decode(string_view(key.data() + kKeyHeaderBytes, key.size() - kKeyHeaderBytes))
