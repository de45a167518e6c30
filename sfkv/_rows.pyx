# cython: language_level=3
# distutils: language = c++
"""Keys and values as rows: single Python objects, and whole Arrow columns, over the core's codecs.

Single objects of the exact Python type of a column go straight into bytes. Everything else (NumPy scalars, subclasses,
objects that do not fit) goes the way of a batch of one, so that single calls and batches accept the same and refuse the same.
"""

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdlib cimport free, malloc
from cython.operator cimport dereference as deref
from libcpp.optional cimport nullopt, optional

import pyarrow as pa

from sfkv import _errors
from sfkv._columns import ColumnReader
from sfkv._objects import only_object
from sfkv._cells cimport CType, Cell, ParseType, schema_of
from sfkv._status cimport check, failure

cdef str NO_KEY = "Corruption: a stored key does not have the form of its schema: restore the store from a snapshot"
cdef str NO_VALUE = "Corruption: a stored value does not have the form of its schema: restore the store from a snapshot"


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


cdef vector[CColumn] make_columns(list schema_columns) except *:
    """The columns of a schema as the core has them."""
    cdef vector[CColumn] columns
    cdef CColumn column
    for each in schema_columns:
        column.name = each.name.encode("utf-8", "surrogatepass")
        column.type = Cell(each).type
        column.nullable = each.nullable
        columns.push_back(column)
    return columns


cdef vector[vector[CColumn]] make_versions(list older) except *:
    cdef vector[vector[CColumn]] versions
    for columns in older:
        versions.push_back(make_columns(columns))
    return versions


cdef vector[optional[string]] make_defaults(object schema) except *:
    cdef vector[optional[string]] defaults
    cdef optional[string] cell
    for column in schema.columns:
        cell = nullopt
        if column.name in schema.defaults:
            cell = <string>schema.defaults[column.name]
        defaults.push_back(cell)
    return defaults


cdef Columns read_array(object batch, const vector[CColumn]& schema, bint is_record, Context context, str role):
    """Reads what is an Arrow array of the schema's types, in whatever layout; None if it is something else."""
    cdef Columns columns = Columns()
    cdef CType given
    cdef ArrowArray* array
    give = getattr(batch, "__arrow_c_array__", None)
    if give is None:
        return None
    columns.capsules = give()
    if not ParseType(deref(schema_of(columns.capsules[0])), &given, 0 if is_record else 1) or not CanReadAs(given, schema, is_record):
        return None
    array = <ArrowArray*>PyCapsule_GetPointer(columns.capsules[1], "arrow_array")
    check(ReadArrow(array[0], given, schema, is_record, &columns.views, &columns.rows), context, "read", role)
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
        self.by_array = any((<Cell>cell).by_array() for cell in self.cells)
        types = [(<Cell>cell).exact_type() for cell in self.cells]
        self.is_equal_in_python = None not in types
        self.exact_type = types[0] if not self.is_record else None
        self.reader = ColumnReader(schema.columns, schema.is_record, "key", state)
        self.context = Context(state=state, key_columns=[column.name for column in schema.columns])
        cdef HashKind hash = HashKind.kJava if schema.hash == "java" else HashKind.kMurmur
        self.codec = CKeyCodec(make_columns(schema.columns), schema.is_record, hash, schema.group_indices)

    def row_of(self, key):
        """The key row of one key, as bytes."""
        cdef CByteBuffer row
        cdef int32_t hash = 0
        self.encode(key, &row, &hash, self.context, "encode")
        return row.data()[:row.size()]

    def rows_of(self, keys):
        """The key rows of a batch of keys, as a list of bytes."""
        cdef Columns columns = self.read(keys)
        return EncodeRows(self.codec, columns.views)

    def key_of(self, bytes row not None):
        """The key that a key row stands for."""
        return self.decode(string_view(row, len(row)))

    cdef Columns read(self, object batch):
        cdef Columns columns = read_array(batch, self.codec.columns(), self.is_record, self.context, "key")
        return read_array(self.reader.read(batch), self.codec.columns(), self.is_record, self.context, "key") if columns is None else columns

    cdef list objects_of(self, object batch):
        """A copy of a batch that is a list of plain keys which all have the column's exact Python type; None of any other."""
        if self.exact_type is None or type(batch) is not list:
            return None
        cdef list keys = list(batch)
        for key in keys:
            if type(key) is not self.exact_type:
                return None
        return keys

    cdef int encode(self, object key, CByteBuffer* out, int32_t* hash, Context context, str operation) except -1:
        """Appends the key's row to `out`, and tells its hash."""
        cdef size_t begin = out.size()
        cdef Columns columns
        if not self.encode_exact(key, out, hash):
            if key is None:
                raise failure(_errors.SchemaError, "a key cannot be None", context, operation)
            out.Truncate(begin)
            columns = self.read([key])
            check(CheckNulls(columns.views, self.codec.columns(), NULL), context, operation, "key", True)
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
        if self.by_array:
            return 0
        if self.is_record and (type(key) is not tuple or len(<tuple>key) != len(self.cells)):
            return 0
        for i in range(len(self.cells)):
            cell = <Cell>self.cells[i]
            value = (<tuple>key)[i] if self.is_record else key
            if cell.nullable:
                out.Extend(1)[0] = 0 if value is None else 1
                if value is None:
                    continue
            if cell.type.cell == CellType.kFixedBinary:
                if not cell.store(value, out.Extend(cell.width)):  # whose bytes have the keys' order as they are
                    return 0
            elif not cell.variable:
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
        elif (<Cell>self.cells[0]).type.cell == CellType.kUtf8:
            hash[0] = JavaHashText(text.data(), text.size())
        elif (<Cell>self.cells[0]).type.cell == CellType.kInt32:
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
        if self.by_array:
            return self.decode_array(row)
        for i in range(len(self.cells)):
            cell = <Cell>self.cells[i]
            if cell.nullable:
                if at == end or <unsigned char>at[0] > 1:
                    raise _errors.CorruptionError(NO_KEY)
                at += 1
                if at[-1] == 0:
                    values.append(None)
                    continue
            if not cell.variable and <size_t>(end - at) >= cell.width and IsOrdered(cell.type, at):
                if cell.type.cell == CellType.kFixedBinary:
                    values.append(cell.load(at))
                else:
                    DecodeOrdered(cell.type, at, native)
                    values.append(cell.load(native))
                at += cell.width
            elif cell.variable and at < end and ParseOrdered(&at, end, &text):
                values.append(cell.load_text(text.data(), text.size()))
            else:
                raise _errors.CorruptionError(NO_KEY)
        if at != end:
            raise _errors.CorruptionError(NO_KEY)
        return tuple(values) if self.is_record else values[0]


    cdef object decode_array(self, string_view row):
        cdef CBuilders builders = MakeBuilders(self.codec.columns(), 1)
        cdef ArrowResult result = ArrowResult(self.schema.record_arrow)
        if not self.codec.Parse(row, &builders):
            raise _errors.CorruptionError(NO_KEY)
        check(FinishRecord(&builders, 1, NULL, result.array.get()), self.context, "decode")
        values = tuple(only_object(pa.array(result)).values())
        return values if self.is_record else values[0]


@cython.final
cdef class ValueRows:
    def __cinit__(self, schema, state=None):
        self.schema = schema
        self.cells = tuple(Cell(column) for column in schema.columns)
        self.names = [column.name for column in schema.columns]
        self.is_record = schema.is_record
        self.reader = ColumnReader(schema.columns, schema.is_record, "value", state)
        self.by_array = any((<Cell>cell).by_array() for cell in self.cells)
        self.context = Context(state=state, value_columns=self.names)
        self.codec = CValueCodec(make_columns(schema.columns), schema.is_record, make_versions(schema.older), make_defaults(schema))
        if schema.serializer is not None:
            self.dumps = schema.serializer.dumps
            self.loads = schema.serializer.loads
            self.live = schema.serializer if schema.serializer.is_live else None
        self.make = schema.make

    def row_of(self, value):
        """The row of one value, as bytes."""
        cdef CByteBuffer row
        self.encode(value, &row, self.context, "encode")
        return row.data()[:row.size()]

    def rows_of(self, values):
        """The rows of a batch of values, as a list of bytes."""
        cdef Columns columns = self.read(values)
        return EncodeRows(self.codec, columns.views)

    def value_of(self, bytes row not None):
        """The value that a row stands for."""
        return self.decode(string_view(row, len(row)))

    cdef Fresh fresh(self):
        """What holds the objects of a call that writes them, where they are live; else None."""
        return None if self.live is None else self.live.fresh()

    cdef Held held(self):
        """What holds the objects that a call reads, where they are live; else None."""
        return None if self.live is None else self.live.held()

    cdef Columns read(self, object batch, Fresh fresh=None):
        """REQUIRES: `fresh` where values are live."""
        cdef Columns columns
        if self.live is not None or self.dumps is not None:
            batch = pa.array([None if value is None else self.stored_object(value, fresh, i) for i, value in enumerate(batch)], pa.binary())
        columns = read_array(batch, self.codec.columns(), self.is_record, self.context, "value")
        return read_array(self.reader.read(batch), self.codec.columns(), self.is_record, self.context, "value") if columns is None else columns

    cdef object stored_object(self, object value, Fresh fresh, object row, Context context=None, str operation=None):
        """What is stored of an object: its number where it is live, else the serializer's bytes."""
        try:
            return self.dumps(value) if self.live is None else fresh.number_of(value)
        except _errors.SchemaError as error:
            if error.row is not None or error.state is not None or self.context.state is None:
                raise
            where = "" if row is None else f", row {row}"
            raise _errors.SchemaError(
                f"{error} [state {self.context.state!r}{where}]", operation=operation, path=None if context is None else context.path,
                state=self.context.state, row=row, column="value",
            ) from error.__cause__

    cdef vector[int] numbers_of(self, object columns, Context context, str operation) except *:
        """The numbers of the columns of these names; of all if it is None."""
        cdef vector[int] numbers
        if columns is None:
            return range(len(self.cells))
        if not self.is_record:
            raise failure(_errors.SchemaError, "a plain value has no columns to choose from", context, operation)
        if isinstance(columns, str) or len(set(columns)) != len(columns) or not columns:
            raise failure(_errors.SchemaError, f"columns= is a list of different names, not {columns!r}", context, operation)
        for name in columns:
            if name not in self.names:
                raise failure(_errors.SchemaError, f"there is no column {name!r}: the value has {self.names}", context, operation, None, name)
            numbers.push_back(self.names.index(name))
        return numbers

    cdef object arrow_of(self, object columns):
        """What values are in Arrow, if only these columns are read."""
        if columns is None:
            return self.schema.arrow
        return pa.struct([self.schema.columns[self.names.index(name)].field for name in columns])

    cdef object to_python(self, object array):
        """What users get for a batch: the array itself, or a list of objects where a serializer made its bytes."""
        if self.loads is None:
            return array
        return [None if value is None else self.loads(value) for value in array.to_pylist()]

    cdef object serialized(self, object structs, Held held):
        """What a scan gives for the values of live objects, which come as their numbers: the serializer's bytes."""
        cdef size_t at = 0
        (column,) = structs.flatten()
        if column.type == pa.binary():
            values = pa.array([held.bytes_at(i) for i in range(len(column))], pa.binary())
        else:
            lists = []
            for count in column.value_lengths().to_pylist():
                lists.append([held.bytes_at(at + i) for i in range(count)])
                at += count
            values = pa.array(lists, column.type)
        return pa.StructArray.from_arrays([values], fields=list(structs.type))

    cdef int encode(self, object value, CByteBuffer* out, Context context, str operation, Fresh fresh=None) except -1:
        """Appends the row of a value that is not None to `out`. REQUIRES: `fresh` where values are live."""
        cdef size_t begin = out.size()
        cdef Columns columns
        if self.live is not None or self.dumps is not None:
            value = self.stored_object(value, fresh, None, context, operation)
        if not (self.encode_record(value, out) if self.is_record else self.encode_plain(value, out)):
            out.Truncate(begin)
            columns = self.read([value])
            check(CheckValues(self.codec, columns.views, NULL), context, operation, "value", True)
            self.codec.EncodeRow(columns.views, 0, out.Extend(self.codec.RowBytes(columns.views, 0)))
        if out.size() - begin > kMaxValueBytes:
            cause = f"the value takes {out.size() - begin} bytes, and a value may take at most {kMaxValueBytes}: split it over several keys"
            raise failure(_errors.LimitError, cause, context, operation)
        return 0

    cdef int encode_plain(self, object value, CByteBuffer* out) except -1:
        cdef Cell cell = <Cell>self.cells[0]
        cdef string_view text
        if self.by_array:
            return 0
        if not cell.variable:
            return cell.store(value, out.Extend(cell.width))
        if not cell.view(value, &text):
            return 0
        out.Append(text.data(), text.size())
        return 1

    cdef int encode_record(self, object value, CByteBuffer* out) except -1:
        cdef size_t begin = out.size()
        cdef const CRecordCodec* record = &self.codec.record()
        cdef Cell cell
        cdef string_view text
        cdef bint is_dict = type(value) is dict
        if self.by_array:
            return 0
        if is_dict:
            if len(<dict>value) != len(self.cells):
                return 0
        elif self.make is None or type(value) is not self.make:
            return 0
        self.codec.BeginRow(out.Extend(record.head_bytes()))
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
                record.MarkNull(out.data() + begin, i)
            elif not cell.variable:
                if not cell.store(part, record.FixedCell(out.data() + begin, i)):
                    return 0
            else:
                if not cell.view(part, &text):
                    return 0
                out.Append(text.data(), text.size())
            if cell.variable:
                record.MarkEnd(out.data() + begin, i, out.data() + out.size())
        return 1

    cdef object decode(self, string_view row):
        """The value that a row stands for. Calls the user's code only when the row has been read. REQUIRES: values are not live."""
        cdef string_view found
        cdef Cell cell
        cdef dict record
        if not self.codec.IsRow(row):
            raise _errors.CorruptionError(NO_VALUE)
        if self.by_array:
            record = self.decode_array(row)
        elif not self.is_record:
            cell = <Cell>self.cells[0]
            if not cell.variable:
                return cell.load(row.data())
            value = cell.load_text(row.data(), row.size())
            return value if self.loads is None else self.loads(value)
        else:
            record = {}
            for i in range(len(self.cells)):
                cell = <Cell>self.cells[i]
                if not self.codec.FindCell(row, i, &found):
                    record[self.names[i]] = None
                elif not cell.variable:
                    record[self.names[i]] = cell.load(found.data())
                else:
                    record[self.names[i]] = cell.load_text(found.data(), found.size())
        if not self.is_record:
            return record[self.names[0]]
        return record if self.make is None else self.make(**record)

    cdef object decode_array(self, string_view row):
        cdef CBuilders builders = MakeBuilders(self.codec.columns(), 1)
        cdef ArrowResult result = ArrowResult(self.schema.record_arrow)
        self.codec.ParseRow(row, 0, &builders)
        check(FinishRecord(&builders, 1, NULL, result.array.get()), self.context, "decode")
        return only_object(pa.array(result))


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
