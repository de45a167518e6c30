# cython: language_level=3
# distutils: language = c++
"""Single cells: Python objects into a column's bytes, and back."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.math cimport isinf
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from cython.operator cimport dereference as deref

import datetime as dt
import functools

import pyarrow as pa

from sfkv import _errors

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    PLAIN
    TIMESTAMP
    DATE
    DURATION
    BY_ARRAY

cdef object EPOCH = dt.datetime(1970, 1, 1)
cdef object EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
cdef int EPOCH_DAY = EPOCH.toordinal()
cdef object datetime_type = dt.datetime
cdef object date_type = dt.date
cdef object timedelta_type = dt.timedelta
cdef dict TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


cdef ArrowSchema* schema_of(object capsule) except NULL:
    return <ArrowSchema*>PyCapsule_GetPointer(capsule, "arrow_schema")


cdef CType type_of(object arrow) except *:
    """The type as the core has it. sfkv must have it."""
    cdef CType type
    capsule = arrow.__arrow_c_schema__()
    if not ParseType(deref(schema_of(capsule)), &type, 1):
        raise _errors.SchemaError(f"type {arrow} is not supported")
    return type


@functools.lru_cache(maxsize=1024)
def can_read(given, wanted):
    """Whether arrays of the type `given` can be read as `wanted` as they are: they differ in layout at most."""
    cdef CType given_type
    capsule = given.__arrow_c_schema__()
    return ParseType(deref(schema_of(capsule)), &given_type, 1) and CanRead(given_type, type_of(wanted))


@cython.final
cdef class Cell:
    def __cinit__(self, column):
        self.type = type_of(column.type)
        self.width = self.type.width
        self.variable = self.type.is_variable()
        self.nullable = column.nullable
        self.kind = PLAIN
        self.epoch = EPOCH
        types = pa.types
        if types.is_timestamp(column.type):
            self.kind = TIMESTAMP
            self.ticks = TICKS[column.type.unit]
            if column.type.tz is not None:
                self.zone = pa.lib.string_to_tzinfo(column.type.tz)
                self.epoch = EPOCH_UTC
        elif types.is_duration(column.type):
            self.kind = DURATION
            self.ticks = TICKS[column.type.unit]
        elif types.is_date32(column.type):
            self.kind = DATE
        elif (types.is_nested(column.type) or types.is_null(column.type) or types.is_decimal(column.type)
              or types.is_time(column.type) or types.is_date64(column.type) or types.is_float16(column.type)):
            self.kind = BY_ARRAY

    cdef bint by_array(self):
        """Whether the type is one whose single values go by way of an Arrow array of one."""
        return self.kind == BY_ARRAY

    cdef object exact_type(self):
        """The Python type of such cells, where values of it are equal if and only if their bytes are; None of others."""
        if self.kind != PLAIN or self.type.cell == CellType.kFloat32 or self.type.cell == CellType.kFloat64:
            return None
        if self.type.cell == CellType.kBool:
            return bool
        if self.type.cell == CellType.kUtf8:
            return str
        if self.type.cell == CellType.kBinary or self.type.cell == CellType.kFixedBinary:
            return bytes
        return int

    cdef bint is_double(self):
        """Whether such cells are Python's floats as they are."""
        return self.kind == PLAIN and self.type.cell == CellType.kFloat64

    cdef int store(self, object value, char* cell) except -1:
        """Writes a value of the column's exact Python type as a cell with a width. 0 if it is none, or does not fit."""
        cdef float single
        cdef double real
        if self.kind == TIMESTAMP:
            if type(value) is not datetime_type or (value.tzinfo is not None) != (self.zone is not None):
                return 0
            return self.store_time(value - self.epoch, cell)
        if self.kind == DURATION:
            return self.store_time(value, cell) if type(value) is timedelta_type else 0
        if self.kind == DATE:
            if type(value) is not date_type:
                return 0
            (<int32_t*>cell)[0] = <int32_t>(value.toordinal() - EPOCH_DAY)
            return 1
        if self.kind == BY_ARRAY:
            return 0
        if self.type.cell == CellType.kBool:
            if value is not True and value is not False:
                return 0
            cell[0] = 1 if value is True else 0
            return 1
        if self.type.cell == CellType.kFloat64 or self.type.cell == CellType.kFloat32:
            if type(value) is not float:
                return 0
            real = value
            if self.type.cell == CellType.kFloat64:
                (<double*>cell)[0] = real
                return 1
            single = <float>real
            (<float*>cell)[0] = single
            return not isinf(single) or isinf(real)
        if self.type.cell == CellType.kFixedBinary:
            if type(value) is not bytes or <size_t>len(<bytes>value) != self.width:
                return 0
            memcpy(cell, PyBytes_AS_STRING(value), self.width)
            return 1
        return self.store_number(value, cell) if type(value) is int else 0

    cdef int store_number(self, object value, char* cell) except -1:
        cdef long long number
        cdef int overflow = 0
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow != 0:
            if overflow < 0 or self.type.cell != CellType.kUInt64 or value >> 64:
                return 0
            (<uint64_t*>cell)[0] = value
            return 1
        if self.type.cell == CellType.kInt64:
            (<int64_t*>cell)[0] = number
            return 1
        if self.type.cell == CellType.kInt32:
            (<int32_t*>cell)[0] = <int32_t>number
            return (<int32_t*>cell)[0] == number
        if self.type.cell == CellType.kUInt64:
            (<uint64_t*>cell)[0] = <uint64_t>number
            return number >= 0
        if self.type.cell == CellType.kUInt32:
            (<uint32_t*>cell)[0] = <uint32_t>number
            return (<uint32_t*>cell)[0] == number
        if self.type.cell == CellType.kInt16:
            (<int16_t*>cell)[0] = <int16_t>number
            return (<int16_t*>cell)[0] == number
        if self.type.cell == CellType.kUInt16:
            (<uint16_t*>cell)[0] = <uint16_t>number
            return (<uint16_t*>cell)[0] == number
        if self.type.cell == CellType.kUInt8:
            (<uint8_t*>cell)[0] = <uint8_t>number
            return (<uint8_t*>cell)[0] == number
        (<int8_t*>cell)[0] = <int8_t>number
        return (<int8_t*>cell)[0] == number

    cdef int store_time(self, object since_epoch, char* cell) except -1:
        cdef int64_t seconds = <int64_t>since_epoch.days * 86400 + <int64_t>since_epoch.seconds
        cdef int64_t microseconds = since_epoch.microseconds
        if self.ticks < 1_000_000 and microseconds % (1_000_000 // self.ticks) != 0:
            return 0  # the column's unit is too coarse for it
        if self.ticks == 1_000_000_000 and not -9_223_372_036 < seconds < 9_223_372_036:
            return 0
        (<int64_t*>cell)[0] = seconds * self.ticks + microseconds * self.ticks // 1_000_000
        return 1

    cdef int view(self, object value, string_view* text) except -1:
        """Looks at the bytes of a value of the column's exact Python type. 0 if it is none."""
        cdef Py_ssize_t size = 0
        cdef const char* data
        if self.type.cell == CellType.kUtf8:
            if type(value) is not str:
                return 0
            try:
                data = PyUnicode_AsUTF8AndSize(value, &size)
            except UnicodeEncodeError:
                return 0
            text[0] = string_view(data, size)
            return 1
        if type(value) is not bytes:
            return 0
        text[0] = string_view(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
        return 1

    cdef object load(self, const char* cell):
        if self.kind == DATE:
            return self.load_date((<int32_t*>cell)[0])
        if self.kind == TIMESTAMP or self.kind == DURATION:
            return self.load_time((<int64_t*>cell)[0])
        if self.type.cell == CellType.kInt64:
            return (<int64_t*>cell)[0]
        if self.type.cell == CellType.kFloat64:
            return (<double*>cell)[0]
        if self.type.cell == CellType.kInt32:
            return (<int32_t*>cell)[0]
        if self.type.cell == CellType.kBool:
            return cell[0] != 0
        if self.type.cell == CellType.kFloat32:
            return (<float*>cell)[0]
        if self.type.cell == CellType.kFixedBinary:
            return PyBytes_FromStringAndSize(cell, self.width)
        if self.type.cell == CellType.kInt16:
            return (<int16_t*>cell)[0]
        if self.type.cell == CellType.kInt8:
            return (<int8_t*>cell)[0]
        if self.type.cell == CellType.kUInt64:
            return (<uint64_t*>cell)[0]
        if self.type.cell == CellType.kUInt32:
            return (<uint32_t*>cell)[0]
        if self.type.cell == CellType.kUInt16:
            return (<uint16_t*>cell)[0]
        return (<uint8_t*>cell)[0]

    cdef object load_date(self, int64_t day):
        try:
            return date_type.fromordinal(day + EPOCH_DAY)
        except (ValueError, OverflowError) as error:
            raise out_of_years("date") from error

    cdef object load_time(self, int64_t ticks):
        whole, rest = divmod(ticks, self.ticks)
        if self.ticks == 1_000_000_000 and rest % 1000 != 0:
            raise _errors.SchemaError(
                "the time has nanoseconds, which Python's datetime cannot hold: read it by get_many", code="nanoseconds"
            )
        try:
            passed = timedelta_type(seconds=whole, microseconds=rest * 1_000_000 // self.ticks)
            if self.kind == DURATION:
                return passed
            moment = self.epoch + passed
            return moment if self.zone is None else moment.astimezone(self.zone)
        except OverflowError as error:
            if self.kind == DURATION:
                raise _errors.SchemaError("the duration is longer than Python's timedelta holds: read it by get_many", code="too_long") from error
            raise out_of_years("time") from error

    cdef object load_text(self, const char* text, size_t size):
        if self.type.cell != CellType.kUtf8:
            return PyBytes_FromStringAndSize(text, size)
        try:
            return PyUnicode_DecodeUTF8(text, size, NULL)
        except UnicodeDecodeError as error:
            raise _errors.SchemaError("the text is not UTF-8: read it by get_many, as binary", code="not_utf8") from error


cdef object out_of_years(str what):
    return _errors.SchemaError(
        f"the {what} is outside the years 1 to 9999 that Python's {what}s hold: read it by get_many", code="out_of_years"
    )
