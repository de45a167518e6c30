# cython: language_level=3
# distutils: language = c++
"""Lists: one key at a time and by the batch."""

cimport cython
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import pyarrow as pa

from sfkv import _errors
from sfkv._stored_types import Column
from sfkv._types import ValueSchema
from sfkv._cells cimport Cell, string_view
from sfkv._table cimport Table, offset_of
from sfkv._store cimport CCall
from sfkv._live cimport Fresh, Held
from sfkv._rows cimport (
    ArrowResult, CByteBuffer, CheckNulls, CKeyBatch, Columns, FirstNull, ValueRows, check_lengths, kMaxValueBytes,
)
from sfkv._status cimport CStatus, check, failure
from sfkv._tables cimport AppendVarint, CAppendGuard, COffsetRow, CRows, ElementBytes, TakeElement, UniformWidth


@cython.final
cdef class ListTable:
    """The rows of a list state."""
    cdef Table table
    cdef CAppendGuard guard
    cdef size_t width          # of the elements, if they are cells of one width; else 0
    cdef ValueRows lists       # whole lists, as one column of them

    def __cinit__(self, Table table not None):
        self.table = table
        column = Column("value", pa.list_(table.values.schema.item), False)
        self.lists = ValueRows(ValueSchema([column], False), table.context.state)
        # Elements that are made by way of an array have no cells that can be loaded alone.
        self.width = UniformWidth(table.values.codec) if table.values.loads is None and not table.values.by_array else 0

    # --- One key.

    def get(self, key):
        cdef CByteBuffer encoded
        cdef CByteBuffer row
        cdef string_view rest
        cdef string_view element
        self.table.encode_key(key, &encoded, "get")
        cdef Held held = self.table.values.held()
        if not self.table.read_row(string_view(encoded.data(), encoded.size()), &row, "get", held):
            return []
        if held is not None:
            return held.values if held.is_ready else self.objects_of(held, key)
        if self.width != 0:
            values = self.decode_cells(&row)
            if values is not None:
                return values
        rest = string_view(row.data(), row.size())
        values = []
        while TakeElement(&rest, &element):
            values.append(self.table.values.decode(element))
        if rest.size() != 0:
            raise failure(_errors.CorruptionError, "Corruption: a stored list does not have the form of one", self.table.context, "get")
        return values

    cdef list objects_of(self, Held held, object key):
        """The live objects of one list."""
        try:
            return [held.object_at(i) for i in range(len(held.values))]
        except _errors.SchemaError as error:
            raise self.table.not_given(error, key, "get", None) from error

    cdef list decode_cells(self, CByteBuffer* row):
        """The elements of a list of cells, each behind its width; None if it is not that."""
        cdef size_t step = 1 + self.width
        cdef const char* at = row.data()
        cdef Cell cell = <Cell>self.table.values.cells[0]
        cdef Py_ssize_t count = row.size() // step
        cdef Py_ssize_t i
        cdef list values = [None] * count
        if row.size() % step != 0:
            return None
        for i in range(count):
            if <size_t>at[0] != self.width:
                return None
            values[i] = cell.load(at + 1)
            at += step
        return values

    cdef int encode(self, object values, CByteBuffer* out, str operation, Fresh fresh) except -1:
        """Appends elements to `out`; `fresh` holds them where they are live."""
        cdef CByteBuffer row
        cdef char* at
        for value in values:
            if value is None:
                raise failure(_errors.SchemaError, "a list holds no None", self.table.context, operation)
            row.Clear()
            self.table.values.encode(value, &row, self.table.context, operation, fresh)
            at = AppendVarint(out.Extend(ElementBytes(row.size())), row.size())
            memcpy(at, row.data(), row.size())
        return 0

    def add_all(self, key, values, str operation="add_all"):
        cdef CByteBuffer encoded
        cdef CByteBuffer elements
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        self.table.encode_key(key, &encoded, operation)
        cdef Fresh fresh = self.table.values.fresh()
        self.encode(values, &elements, operation, fresh)
        if elements.size() == 0:
            return
        self.table.enter(&call, operation)
        with nogil:
            status = rows.Append(
                &self.guard, string_view(encoded.data(), encoded.size()), string_view(elements.data(), elements.size()))
            call.Leave()
        self.table.store.settle(fresh)
        check(status, self.table.context, operation)

    def update(self, key, values):
        cdef CByteBuffer encoded
        cdef CByteBuffer elements
        cdef Fresh fresh = self.table.values.fresh()
        self.table.encode_key(key, &encoded, "update")
        if values is not None:
            self.encode(values, &elements, "update", fresh)
        if elements.size() > kMaxValueBytes:
            cause = f"the list takes {elements.size()} bytes, and a value may take at most {kMaxValueBytes}: split it over several keys"
            raise failure(_errors.LimitError, cause, self.table.context, "update")
        self.table.write_row(&encoded, &elements if elements.size() != 0 else NULL, "update", fresh)

    # --- Batches.

    def get_many(self, keys):
        cdef CKeyBatch batch
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        cdef ArrowResult result = ArrowResult(pa.list_(self.table.values.schema.item))
        cdef Held held = self.table.values.held()
        cdef size_t i
        self.table.read_keys(keys, &batch, "get_many")
        self.table.enter(&call, "get_many")
        with nogil:
            status = rows.ReadLists(batch, self.table.values.codec, result.array.get())
            if held is None:
                call.Leave()
        if held is not None and status.ok():
            held.take_cells(result.array.get().children[0])
        call.Leave()
        check(status, self.table.context, "get_many", "value")
        array = pa.array(result)
        if self.table.values.loads is None:
            return array
        if held is None:
            return [[self.table.values.loads(value) for value in values] for values in array.to_pylist()]
        ends = array.offsets.to_numpy().tolist()
        lists = []
        for i in range(batch.size()):
            first, end = ends[i], ends[i + 1]
            if held.is_ready:
                lists.append(held.values[first:end])
            else:
                lists.append([self.table.batch_object(held, at, &batch, i, "get_many") for at in range(first, end)])
        return lists

    def add_many(self, keys, values, bytes offset=None):
        cdef CKeyBatch batch
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        cdef COffsetRow row = offset_of(offset)
        self.table.read_keys(keys, &batch, "add_many")
        cdef Fresh fresh = self.table.values.fresh()
        cdef Columns columns = self.table.values.read(values, fresh)
        check_lengths(batch.size(), columns.rows.length(), "value", self.table.context, "add_many")
        self.refuse_null(columns, "add_many")
        self.table.enter(&call, "add_many")
        with nogil:
            status = rows.AddToLists(&self.guard, batch, self.table.values.codec, columns.views, row)
            call.Leave()
        self.table.store.settle(fresh)
        check(status, self.table.context, "add_many", "value")

    cdef int refuse_null(self, Columns columns, str operation) except -1:
        cdef int64_t absent = FirstNull(columns.rows)
        if absent >= 0:
            raise failure(_errors.SchemaError, "a list holds no None", self.table.context, operation, absent)
        return 0

    def update_many(self, keys, lists, bytes offset=None):
        cdef CKeyBatch batch
        cdef CCall call
        cdef CRows* rows = self.table.store.rows()
        cdef CStatus status
        cdef COffsetRow row = offset_of(offset)
        self.table.read_keys(keys, &batch, "update_many")
        cdef Fresh fresh = self.table.values.fresh()
        cdef Columns columns = self.lists.read(self.dump(lists, fresh))
        check_lengths(batch.size(), columns.rows.length(), "list", self.table.context, "update_many")
        status = CheckNulls(columns.views, self.lists.codec.columns(), &columns.rows)
        if status.path() == b".item":
            raise failure(_errors.SchemaError, "a list holds no None", self.table.context, "update_many", status.row())
        check(status, self.table.context, "update_many", "value")
        self.table.enter(&call, "update_many")
        with nogil:
            status = rows.UpdateLists(batch, self.table.values.codec, columns.views[0], row)
            call.Leave()
        self.table.store.settle(fresh)
        check(status, self.table.context, "update_many", "value")

    cdef object dump(self, object lists, Fresh fresh):
        """Lists of objects as lists of bytes, if there is a serializer: of numbers where they are live."""
        dumps = self.table.values.dumps
        if dumps is None:
            return lists
        if isinstance(lists, (str, bytes)):
            raise failure(_errors.SchemaError, f"a sequence of lists is expected, and {lists!r} is none", self.table.context, "update_many")
        if fresh is None:
            return [None if values is None else [None if value is None else dumps(value) for value in values] for values in lists]
        return [None if values is None else [None if value is None else fresh.number_of(value) for value in values] for values in lists]
