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
cdef frozenset PLAIN = frozenset((int, float, str, bytes, bool))  # which msgpack reads as it writes them


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
    call.Leave()
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
        call.Leave()
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
@cython.freelist(8)
cdef class Place:
    """Where a call is, for what an error says: the operation, and the key; of a batch the position, and which key is decoded then.

    One of a batch does not outlive it.
    """
    cdef FunctionTable table
    cdef str operation
    cdef object key
    cdef CKeyBatch* batch  # NULL for a single key
    cdef size_t distinct
    cdef size_t at

    cdef object position(self):
        return None if self.batch == NULL else self.at

    cdef str of_key(self):
        key = self.key if self.batch == NULL else self.table.key_of(self.batch, self.distinct)
        return "" if key is None else f" for the key {key!r}"


cdef Place place_of(FunctionTable table, str operation, object key=None, CKeyBatch* batch=NULL):
    cdef Place place = Place.__new__(Place)
    place.table = table
    place.operation = operation
    place.key = key
    place.batch = batch
    return place


@cython.final
cdef class FunctionTable:
    """The rows of a state that Python folds: accumulators, which `accumulators` encodes.

    `begin` makes an accumulator of a first value, `append` one of an accumulator and a value, `finish` a result of one; None if the
    accumulator is it, and then the table's own values are they, else they are the rows' bytes. What these are given is theirs: all of
    it was decoded for the call. Where a batch ends is not to be seen in an answer: each accumulator is what it is when it is read again.
    """
    cdef Table table
    cdef ValueRows values
    cdef ValueRows accumulators
    cdef ValueRows results     # None if they are left as objects
    cdef object begin
    cdef object append
    cdef object finish
    cdef object reader         # makes an Arrow array of results
    cdef set same              # classes of accumulators that are read as they are written
    cdef bint lists            # whether a tuple is read as a list
    cdef Cell exact            # of accumulators whose Python type loses nothing, if they fit; else None

    def __cinit__(self, Table table not None, ValueRows values not None, ValueRows accumulators not None, functions not None, result=None):
        """`functions`: begin, append and finish. `result`: the schema of results; None to leave them as objects."""
        self.table = table
        self.values = values
        self.accumulators = accumulators
        self.begin, self.append, self.finish = functions
        self.same = set()
        cdef Cell cell = <Cell>accumulators.cells[0]
        if not accumulators.is_record and accumulators.loads is None and (cell.exact_type() is not None or cell.is_double()):
            self.exact = cell
        if result is not None:
            self.results = ValueRows(result, table.context.state)
            self.reader = ColumnReader(result.columns, result.is_record, "result", table.context.state)

    def get(self, key, default=None):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        self.table.encode_key(key, &encoded, "get")
        if not self.table.read_row(string_view(encoded.data(), encoded.size()), &row, "get"):
            return default
        cdef Place place = place_of(self, "get", key)
        result = self.result_of(string_view(row.data(), row.size()), place)
        if result is None or self.results is None:
            return result
        row.Clear()
        try:
            self.results.encode(result, &row, self.table.context, "get")
        except (_errors.SchemaError, _errors.LimitError) as error:
            raise self.misfit(error, result, self.results, place) from error
        return self.results.decode(string_view(row.data(), row.size()))

    def add(self, key, value):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        cdef CByteBuffer given
        cdef Context context = self.table.context
        self.table.encode_key(key, &encoded, "add")
        if value is None:
            raise failure(_errors.SchemaError, NO_NONE, context, "add")
        self.values.encode(value, &given, context, "add")
        cdef Place place = place_of(self, "add", key)
        accumulator = None
        if self.table.read_row(string_view(encoded.data(), encoded.size()), &row, "add"):
            accumulator = self.given(self.accumulators, string_view(row.data(), row.size()), place)
        value = self.given(self.values, string_view(given.data(), given.size()), place)
        try:
            accumulator = self.folded(accumulator, value)
        except Exception as error:
            raise self.failed(error, place) from error
        self.encode(accumulator, &row, place)
        if self.accumulators.loads is not None and type(accumulator) not in PLAIN:
            self.again(accumulator, &row, place)
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
        cdef Place place = place_of(self, "get_many", None, &batch)
        results = [None] * batch.distinct_count()
        for distinct in range(batch.distinct_count()):
            if stored.Has(distinct):
                place.distinct, place.at = distinct, batch.FirstPosition(distinct)
                results[distinct] = self.result_of(stored.Get(distinct), place)
        distinct_of = batch.DistinctOfPositions()
        answer = [results[distinct_of[i]] for i in range(batch.size())]
        if self.results is None:
            return answer
        try:
            return self.read_results(answer)
        except _errors.SchemaError as error:
            place.at = error.row or 0
            place.distinct = distinct_of[place.at]
            raise self.misfit(error, answer[place.at], self.results, place) from error

    def add_many(self, keys, values, bytes offset=None):
        cdef CKeyBatch batch
        cdef CRowSet stored
        cdef CByteBuffer row
        cdef size_t i, distinct
        cdef vector[uint32_t] distinct_of
        cdef vector[size_t] last
        self.table.read_sorted_keys(keys, &batch, "add_many")
        cdef Columns columns = read_values(self.table, self.values, values, batch.size(), "add_many")
        check(CheckValues(self.values.codec, columns.views, NULL), self.table.context, "add_many", "value")
        self.table.read_rows(batch, &stored, "add_many")
        distinct_of = batch.DistinctOfPositions()
        cdef Place place = place_of(self, "add_many", None, &batch)
        cdef bint is_kept
        last.resize(batch.distinct_count())
        accumulators = [None] * batch.distinct_count()
        for i in range(batch.size()):
            distinct = distinct_of[i]
            place.distinct, place.at = distinct, i
            accumulator = accumulators[distinct]
            if accumulator is None and stored.Has(distinct):
                accumulator = self.given(self.accumulators, stored.Get(distinct), place)
            row.Clear()
            self.values.codec.EncodeRow(columns.views, i, row.Extend(self.values.codec.RowBytes(columns.views, i)))
            value = self.given(self.values, string_view(row.data(), row.size()), place)
            try:
                accumulator = self.folded(accumulator, value)
            except Exception as error:
                raise self.failed(error, place) from error
            if self.lists and type(accumulator) is tuple:
                accumulator = list(accumulator)
            is_kept = type(accumulator) in self.same if self.accumulators.loads is not None else self.fits(accumulator)
            if not is_kept:
                self.encode(accumulator, &row, place)
                read = self.again(accumulator, &row, place)
                if type(read) is type(accumulator):
                    self.same.add(type(read))
                elif type(accumulator) is tuple and self.accumulators.loads is not None:
                    self.lists = True
                accumulator = read
            accumulators[distinct] = accumulator
            last[distinct] = i
        self.write(accumulators, &batch, last, offset)

    def results_of(self, stored):
        """The results of stored rows, a binary array: an Arrow array where their type is known, else a list."""
        cdef Place place = place_of(self, "scan")
        results = [self.result_of(view(row), place) for row in stored.to_pylist()]
        if self.results is None:
            return results
        try:
            return self.read_results(results)
        except _errors.SchemaError as error:
            raise self.misfit(error, results[error.row or 0], self.results, place) from error

    cdef object read_results(self, list results):
        """An Arrow array of results, of which none has a null that its type does not."""
        answer = self.reader.read(results)
        cdef Columns columns = self.results.read(answer)
        check(CheckValues(self.results.codec, columns.views, &columns.rows), self.results.context, "get_many", "value")
        return answer

    cdef object folded(self, object accumulator, object value):
        folded = self.begin(value) if accumulator is None else self.append(accumulator, value)
        if folded is None:
            raise TypeError("it returned None, which is no accumulator")
        return folded

    cdef int fits(self, object accumulator) except -1:
        """Whether a typed accumulator is of a Python type that loses nothing, and will be read again as it is."""
        cdef char[8] scratch
        cdef string_view text
        if self.exact is None:
            return 0
        if self.exact.variable:
            return self.exact.view(accumulator, &text)
        return self.exact.width <= sizeof(scratch) and self.exact.store(accumulator, scratch)

    cdef object result_of(self, string_view row, Place place):
        accumulator = self.accumulators.decode(row)
        if self.finish is None:
            return accumulator
        try:
            return self.finish(accumulator)
        except Exception as error:
            raise self.failed(error, place) from error

    cdef object failed(self, object error, Place place):
        """What the user's function raised, as an error that names the key. Nothing was written."""
        cause = f"the state's function raised {type(error).__name__}{place.of_key()}: {error}; the state is as it was"
        return failure(_errors.UsageError, cause, self.table.context, place.operation, place.position())

    cdef object given(self, ValueRows rows, string_view row, Place place):
        """What the user's function is given for a row."""
        try:
            return rows.decode(row)
        except _errors.SchemaError as error:
            if rows.loads is not None:
                raise
            cause = (f"Python has no object for the {rows.schema} that the state's function would be given: use a fold by name, or a type "
                     f"that Python's objects hold, such as timestamp('us') ({str(error).partition(': read it by')[0]})")
            made = failure(_errors.SchemaError, cause, self.table.context, place.operation, place.position())
            made.code = error.code
            raise made from error

    cdef int encode(self, object accumulator, CByteBuffer* row, Place place) except -1:
        """Makes `row` that of an accumulator."""
        row.Clear()
        try:
            return self.accumulators.encode(accumulator, row, self.table.context, place.operation)
        except (_errors.SchemaError, _errors.LimitError) as error:
            raise self.misfit(error, accumulator, self.accumulators, place) from error

    cdef object again(self, object accumulator, CByteBuffer* row, Place place):
        """What is read of an accumulator whose row this is. Refuses one of objects that the functions could not take for it."""
        try:
            read = self.accumulators.decode(string_view(row.data(), row.size()))
        except _errors.SchemaError as error:
            raise self.misfit(error, accumulator, self.accumulators, place) from error
        if self.accumulators.loads is not None and not is_read_as(accumulator, read):
            cause = (f"the state's function returned {shown(accumulator)}{place.of_key()}, which is read again as {shown(read)}: name its type by "
                     f"accumulator=, or return what msgpack has; the state is as it was")
            raise failure(_errors.SchemaError, cause, self.table.context, place.operation, place.position())
        return read

    cdef object misfit(self, object error, object returned, ValueRows rows, Place place):
        """What does not fit that the user's function returned, as an error that names it. Nothing was written."""
        why = f"which is no {rows.schema}" + (f": see {error.column!r}" if rows.is_record and error.column is not None else "")
        if rows.loads is not None or type(error) is not _errors.SchemaError:
            why = f"which cannot be stored: {str(error).partition(' [state ')[0]}"
        cause = f"the state's function returned {shown(returned)}{place.of_key()}, {why}; the state is as it was"
        return failure(type(error), cause, self.table.context, place.operation, place.position(), error.column if rows.is_record else None)

    cdef int write(self, list accumulators, CKeyBatch* batch, const vector[size_t]& last, bytes offset) except -1:
        """Writes an accumulator for each distinct key: all of them are encoded before the first byte is written."""
        cdef vector[CWriteBatch] pieces
        cdef CByteBuffer row
        cdef size_t distinct
        cdef Place place = place_of(self, "add_many", None, batch)
        pieces.resize(1)
        for distinct in range(batch.distinct_count()):
            place.distinct, place.at = distinct, last[distinct]
            self.encode(accumulators[distinct], &row, place)
            if self.accumulators.loads is not None and type(accumulators[distinct]) not in PLAIN:
                self.again(accumulators[distinct], &row, place)
            pieces.back().Put(batch.DistinctKey(distinct), string_view(row.data(), row.size()))
            if offset is None and pieces.back().bytes() >= self.table.store.write_batch_bytes:
                pieces.resize(pieces.size() + 1)
        if offset is not None:
            pieces.back().Put(view(OFFSET_ROW), view(offset))
        return self.table.write_pieces(&pieces, "add_many")

    cdef object key_of(self, CKeyBatch* batch, size_t distinct):
        cdef string_view key = batch.DistinctKey(distinct)
        return self.table.keys.decode(string_view(key.data() + kKeyHeaderBytes, key.size() - kKeyHeaderBytes))


cdef str shown(object value):
    return f"{value!r:.100} ({type(value).__name__})"


cdef bint is_read_as(object written, object read) except -1:
    """Whether a function may take what is read for what was written: it is of the same classes, but that a list may have been a tuple."""
    if type(written) is type(read):
        if type(read) is list:
            return read == written or (len(read) == len(written) and all(is_read_as(a, b) for a, b in zip(written, read)))
        if type(read) is dict:
            return read == written or (read.keys() == written.keys() and all(is_read_as(written[name], part) for name, part in read.items()))
        return True
    if type(written) is tuple:
        return type(read) is list and is_read_as(list(written), read)
    return isinstance(written, (int, float, str, bytes)) and read == written
