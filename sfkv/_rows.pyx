# cython: language_level=3
# distutils: language = c++
"""Keys and values as rows: single Python objects, and whole Arrow columns, over the core's codecs.

Single objects of the exact Python type of a column go straight into bytes. Everything else (NumPy scalars, subclasses,
objects that do not fit) goes the way of a batch of one, so that single calls and batches accept the same and refuse the same.
"""

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import pyarrow as pa

from sfkv import _errors
from sfkv._columns import ColumnReader
from sfkv._cells cimport Cell
from sfkv._status cimport check, failure

cdef str NO_KEY = "Corruption: a stored key does not have the form of its schema: restore the store from a snapshot"


cdef string_view view(bytes data):
    """Looks at bytes; at nothing if there are none. They must outlive the view."""
    if data is None:
        return string_view()
    return string_view(data, len(data))


cdef int check_lengths(size_t keys, int64_t others, str what, Context context, str operation) except -1:
    """Refuses a batch of keys with another number of values, or what else goes with them."""
    if keys != <size_t>others:
        cause = f"there are {keys} keys and {others} {what}s: pass one {what} for each key"
        raise failure(_errors.SchemaError, cause, context, operation)
    return 0


cdef vector[CColumn] make_columns(tuple cells):
    cdef vector[CColumn] columns
    cdef CColumn column
    for cell in cells:
        column.type = (<Cell>cell).type
        column.nullable = (<Cell>cell).nullable
        columns.push_back(column)
    return columns


cdef Columns read_array(object array, const vector[CColumn]& schema, bint is_record):
    cdef Columns columns = Columns()
    columns.capsules = array.__arrow_c_array__()
    cdef ArrowArray* c_array = <ArrowArray*>PyCapsule_GetPointer(columns.capsules[1], "arrow_array")
    check(ReadArrow(c_array[0], schema, is_record, &columns.views, &columns.rows), Context(), "read")
    return columns


@cython.final
cdef class Columns:
    def __len__(self):
        return self.rows.length()


cdef void release_capsule(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


@cython.final
cdef class ArrowResult:
    def __cinit__(self, type):
        self.type = type

    def __arrow_c_array__(self, requested_schema=None):
        """Gives the array away: this can be called once."""
        cdef ArrowArray* moved = <ArrowArray*>malloc(sizeof(ArrowArray))
        if moved == NULL:
            raise MemoryError()
        self.array.MoveTo(moved)
        return self.type.__arrow_c_schema__(), PyCapsule_New(moved, "arrow_array", release_capsule)


@cython.final
cdef class KeyRows:
    def __cinit__(self, schema, state=None):
        self.schema = schema
        self.cells = tuple(Cell(column) for column in schema.columns)
        self.is_record = schema.is_record
        self.reader = ColumnReader(schema.columns, schema.is_record, "key", state)
        cdef HashKind hash = HashKind.kJava if schema.hash == "java" else HashKind.kMurmur
        self.codec = CKeyCodec(make_columns(self.cells), schema.is_record, hash, schema.group_indices)

    def row_of(self, key):
        """The key row of one key, as bytes."""
        cdef CByteBuffer row
        cdef int32_t hash = 0
        self.encode(key, &row, &hash, Context(key_columns=[column.name for column in self.schema.columns]), "encode")
        return row.data()[:row.size()]

    def rows_of(self, keys):
        """The key rows of a batch of keys, as a list of bytes."""
        cdef Columns columns = self.read(keys)
        return EncodeRows(self.codec, columns.views)

    def key_of(self, bytes row not None):
        """The key that a key row stands for."""
        return self.decode(string_view(row, len(row)))

    cdef Columns read(self, object batch):
        return read_array(self.reader.read(batch), self.codec.columns(), self.is_record)

    cdef int encode(self, object key, CByteBuffer* out, int32_t* hash, Context context, str operation) except -1:
        """Appends the key's row to `out`, and tells its hash."""
        cdef size_t begin = out.size()
        cdef Columns columns
        if not self.encode_exact(key, out, hash):
            if key is None:
                raise failure(_errors.SchemaError, "a key cannot be None", context, operation)
            out.Truncate(begin)
            columns = self.read([key])
            check_nulls(columns, self.cells, context, operation)
            self.codec.EncodeRow(columns.views, 0, out.Extend(self.codec.RowBytes(columns.views, 0)))
            hash[0] = self.codec.Hash(columns.views, 0, out.data() + begin, out.size() - begin)
        if out.size() - begin > kMaxKeyRowBytes:
            check(CKeyBatch.KeyTooLong(out.size() - begin, -1), context, operation, "key")
        return 0

    cdef int encode_exact(self, object key, CByteBuffer* out, int32_t* hash) except -1:
        cdef size_t begin = out.size()
        cdef char native[8]
        cdef string_view text
        cdef Cell cell
        if self.is_record and (type(key) is not tuple or len(<tuple>key) != len(self.cells)):
            return 0
        for i in range(len(self.cells)):
            cell = <Cell>self.cells[i]
            value = (<tuple>key)[i] if self.is_record else key
            if cell.nullable:
                out.Extend(1)[0] = 0 if value is None else 1
                if value is None:
                    continue
            if cell.width != 0:
                if not cell.store(value, native):
                    return 0
                EncodeOrderedCell(cell.type, native, out.Extend(cell.width))
            else:
                if not cell.view(value, &text):
                    return 0
                EncodeOrderedText(out.Extend(OrderedBytes(text)), text)
        if self.codec.has_group():
            hash[0] = self.codec.HashRow(string_view(out.data() + begin, out.size() - begin))
        elif self.codec.hash_kind() == HashKind.kMurmur:
            hash[0] = MurmurHash(out.data() + begin, out.size() - begin)
        elif (<Cell>self.cells[0]).type == CellType.kUtf8:
            hash[0] = JavaHashText(text.data(), text.size())
        elif (<Cell>self.cells[0]).type == CellType.kInt32:
            hash[0] = JavaHashInt32((<int32_t*>native)[0])
        else:
            hash[0] = JavaHashInt64((<int64_t*>native)[0])
        return 1

    cdef object decode(self, string_view row):
        """The key that a key row stands for: a plain object, or a tuple."""
        cdef const char* at = row.data()
        cdef const char* end = at + row.size()
        cdef char native[8]
        cdef string text
        cdef Cell cell
        cdef list values = []
        for i in range(len(self.cells)):
            cell = <Cell>self.cells[i]
            if cell.nullable:
                if at == end or <unsigned char>at[0] > 1:
                    raise _errors.CorruptionError(NO_KEY)
                at += 1
                if at[-1] == 0:
                    values.append(None)
                    continue
            if cell.width != 0 and <size_t>(end - at) >= cell.width and IsOrdered(cell.type, at):
                DecodeOrdered(cell.type, at, native)
                values.append(cell.load(native))
                at += cell.width
            elif cell.width == 0 and at < end and ParseOrdered(&at, end, &text):
                values.append(cell.load_text(text.data(), text.size()))
            else:
                raise _errors.CorruptionError(NO_KEY)
        if at != end:
            raise _errors.CorruptionError(NO_KEY)
        return tuple(values) if self.is_record else values[0]


cdef int check_nulls(Columns columns, tuple cells, Context context, str operation) except -1:
    """Refuses nulls of a batch of one key where the schema has none."""
    for i in range(len(cells)):
        if not (<Cell>cells[i]).nullable and columns.views[i].IsNull(0):
            name = context.key_columns[i]
            raise failure(_errors.SchemaError, f"column {name!r} of the key is null, and may not be", context, operation, None, name)
    return 0


@cython.final
cdef class ValueRows:
    def __cinit__(self, schema, state=None):
        self.schema = schema
        self.cells = tuple(Cell(column) for column in schema.columns)
        self.names = [column.name for column in schema.columns]
        self.is_record = schema.is_record
        self.reader = ColumnReader(schema.columns, schema.is_record, "value", state)
        self.codec = CValueCodec(make_columns(self.cells), schema.is_record)
        if schema.serializer is not None:
            self.dumps = schema.serializer.dumps
            self.loads = schema.serializer.loads
        self.make = schema.make

    def row_of(self, value):
        """The row of one value, as bytes."""
        cdef CByteBuffer row
        self.encode(value, &row, Context(value_columns=self.names), "encode")
        return row.data()[:row.size()]

    def rows_of(self, values):
        """The rows of a batch of values, as a list of bytes."""
        cdef Columns columns = self.read(values)
        return EncodeRows(self.codec, columns.views)

    def value_of(self, bytes row not None):
        """The value that a row stands for."""
        return self.decode(string_view(row, len(row)))

    cdef Columns read(self, object batch):
        if self.dumps is not None:
            batch = pa.array([None if value is None else self.dumps(value) for value in batch], pa.binary())
        else:
            batch = self.reader.read(batch)
        return read_array(batch, self.codec.columns(), self.is_record)

    cdef object to_python(self, object array):
        """What users get for a batch: the array itself, or a list of objects where a serializer made it."""
        if self.loads is None:
            return array
        return [None if value is None else self.loads(value) for value in array.to_pylist()]

    cdef int encode(self, object value, CByteBuffer* out, Context context, str operation) except -1:
        """Appends the row of a value that is not None to `out`."""
        cdef size_t begin = out.size()
        cdef Columns columns
        if self.dumps is not None:
            value = self.dumps(value)
        if not (self.encode_record(value, out) if self.is_record else self.encode_plain(value, out)):
            out.Truncate(begin)
            columns = self.read([value])
            for i in range(len(self.cells)):
                if not (<Cell>self.cells[i]).nullable and columns.views[i].IsNull(0):
                    cause = f"column {self.names[i]!r} of the value is null, and may not be"
                    raise failure(_errors.SchemaError, cause, context, operation, None, self.names[i])
            self.codec.EncodeRow(columns.views, 0, out.Extend(self.codec.RowBytes(columns.views, 0)))
        if out.size() - begin > kMaxValueBytes:
            cause = f"the value takes {out.size() - begin} bytes, and a value may take at most {kMaxValueBytes}: split it over several keys"
            raise failure(_errors.LimitError, cause, context, operation)
        return 0

    cdef int encode_plain(self, object value, CByteBuffer* out) except -1:
        cdef Cell cell = <Cell>self.cells[0]
        cdef string_view text
        if cell.width != 0:
            return cell.store(value, out.Extend(cell.width))
        if not cell.view(value, &text):
            return 0
        out.Append(text.data(), text.size())
        return 1

    cdef int encode_record(self, object value, CByteBuffer* out) except -1:
        cdef size_t begin = out.size()
        cdef size_t variable = 0
        cdef Cell cell
        cdef string_view text
        cdef char native[8]
        cdef bint is_dict = type(value) is dict
        if is_dict:
            if len(<dict>value) != len(self.cells):
                return 0
        elif self.make is None or type(value) is not self.make:
            return 0
        self.codec.BeginRow(out.Extend(self.codec.head_bytes()))
        for i in range(len(self.cells)):
            cell = <Cell>self.cells[i]
            if is_dict:
                if self.names[i] not in <dict>value:
                    return 0
                part = (<dict>value)[self.names[i]]
            else:
                part = getattr(value, self.names[i])
            if part is None:
                if not cell.nullable:
                    return 0
                self.codec.MarkNull(out.data() + begin, i)
            elif cell.width != 0:
                if not cell.store(part, native):
                    return 0
                memcpy(self.codec.Cell(out.data() + begin, i), native, cell.width)
            else:
                if not cell.view(part, &text):
                    return 0
                out.Append(text.data(), text.size())
            if cell.width == 0:
                self.codec.MarkEnd(out.data() + begin, variable, out.data() + out.size())
                variable += 1
        return 1

    cdef object decode(self, string_view row):
        """The value that a row stands for. Calls the user's code only when the row has been read."""
        cdef size_t variable = 0
        cdef string_view text
        cdef Cell cell
        cdef dict record
        if not self.codec.IsRow(row):
            raise _errors.CorruptionError("Corruption: a stored value does not have the form of its schema: restore from a snapshot")
        if not self.is_record:
            cell = <Cell>self.cells[0]
            if cell.width != 0:
                return cell.load(row.data())
            value = cell.load_text(row.data(), row.size())
            return value if self.loads is None else self.loads(value)
        record = {}
        for i in range(len(self.cells)):
            cell = <Cell>self.cells[i]
            if self.codec.IsNull(row, i):
                record[self.names[i]] = None
            elif cell.width != 0:
                record[self.names[i]] = cell.load(self.codec.FixedCell(row, i))
            else:
                text = self.codec.VariableCell(row, variable)
                record[self.names[i]] = cell.load_text(text.data(), text.size())
            if cell.width == 0:
                variable += 1
        return record if self.make is None else self.make(**record)


def key_groups(schema, keys, int max_parallelism):
    """The key group of each key of a batch. See `sfkv.key_groups`."""
    cdef KeyRows rows = KeyRows(schema)
    cdef Columns columns = rows.read(keys)
    cdef Context context = Context(key_columns=[column.name for column in schema.columns])
    cdef ArrowResult result = ArrowResult(pa.int32())
    check(ComputeKeyGroups(rows.codec, columns.views, max_parallelism, result.array.get()), context, "key_groups", "key")
    return pa.array(result)


def range_of(int index, int parallelism, int max_parallelism):
    cdef KeyGroupRange owned = RangeOf(index, parallelism, max_parallelism)
    return owned.first, owned.last
