# The row codecs of the core, and the classes over them. No RocksDB here.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.optional cimport optional
from libcpp.string cimport string
from libcpp.vector cimport vector

from sfkv._cells cimport ArrowArray, ArrowSchema, CColumn, CType, Cell, CellType, string_view
from sfkv._live cimport Fresh, Held, Live
from sfkv._status cimport CStatus, Context


cdef extern from "sfkv/buffer.h" namespace "sfkv" nogil:
    cdef cppclass CByteBuffer "sfkv::ByteBuffer":
        CByteBuffer()
        char* data()
        size_t size()
        char* Extend(size_t n) except +
        void Append(const void* bytes, size_t n) except +
        void Truncate(size_t size)
        void Clear()


cdef extern from "sfkv/arrow.h" namespace "sfkv" nogil:
    cdef cppclass COwnedArray "sfkv::OwnedArray":
        COwnedArray()
        ArrowArray* get()
        void MoveTo(ArrowArray* out)


cdef extern from "sfkv/column_view.h" namespace "sfkv" nogil:
    cdef cppclass CColumnView "sfkv::ColumnView":
        CColumnView()
        int64_t length()
        bint IsNull(int64_t i)

    int64_t FirstNull(const CColumnView& column)


cdef extern from "sfkv/column_builder.h" namespace "sfkv" nogil:
    cdef cppclass CValidityBuilder "sfkv::ValidityBuilder":
        CValidityBuilder()
        void Begin(int64_t length) except +

    cdef cppclass CBuilders "sfkv::Builders":
        CBuilders()

    CBuilders MakeBuilders(const vector[CColumn]& columns, int64_t length) except +
    CBuilders MakeBuildersOf(const vector[CColumn]& columns, const vector[int]& wanted, int64_t length) except +
    void FinishPresence(CValidityBuilder* present, ArrowArray* out) except +


cdef extern from "sfkv/row_codec.h" namespace "sfkv" nogil:
    const size_t kMaxKeyRowBytes
    const size_t kMaxValueBytes

    ctypedef vector[CColumnView] CColumns "sfkv::Columns"
    CStatus ReadArrow(const ArrowArray& array, const CType& given, const vector[CColumn]& schema, bint is_record, CColumns* columns,
                      CColumnView* rows) except +
    bint CanReadAs(const CType& given, const vector[CColumn]& schema, bint is_record)
    CStatus CheckNulls(const CColumns& columns, const vector[CColumn]& schema, const CColumnView* absent) except +
    vector[string] EncodeRows[Codec](const Codec& codec, const CColumns& columns) except +


cdef extern from "sfkv/finish.h" namespace "sfkv" nogil:
    CStatus FinishRecord(CBuilders* builders, int64_t length, const CValidityBuilder* present, ArrowArray* out) except +


cdef extern from "sfkv/key_group.h" namespace "sfkv" nogil:
    cdef enum class HashKind(uint8_t):
        kJava
        kMurmur

    cdef struct KeyGroupRange "sfkv::KeyGroupRange":
        int first
        int last

    const int kReservedGroup
    int KeyGroupOf(int32_t hash, int max_parallelism)
    int32_t JavaHashInt32 "sfkv::JavaHash"(int32_t value)
    int32_t JavaHashInt64 "sfkv::JavaHash"(int64_t value)
    int32_t JavaHashText "sfkv::JavaHash"(const char* utf8, size_t bytes)
    int32_t MurmurHash(const char* bytes, size_t n)
    KeyGroupRange RangeOf(int index, int parallelism, int max_parallelism)


cdef extern from "sfkv/key_codec.h" namespace "sfkv" nogil:
    const size_t kKeyHeaderBytes
    void EncodeKeyHeader(char* at, int key_group, uint8_t table)
    void EncodeOrderedCell(const CType& type, const char* cell, char* at)
    char* EncodeOrderedText "sfkv::EncodeOrdered"(char* at, string_view text)
    size_t OrderedBytes(string_view text)
    void DecodeOrdered(const CType& type, const char* from_, char* cell)
    bint IsOrdered(const CType& type, const char* from_)
    bint ParseOrdered(const char** at, const char* end, string* text) except +

    cdef cppclass CKeyCodec "sfkv::KeyCodec":
        CKeyCodec()
        CKeyCodec(vector[CColumn] columns, bint is_record, HashKind hash, vector[size_t] group_columns) except +
        const vector[CColumn]& columns()
        size_t RowBytes(const CColumns& columns, int64_t i)
        void EncodeRow(const CColumns& columns, int64_t i, char* at)
        int32_t Hash(const CColumns& columns, int64_t i, const char* row, size_t bytes)
        HashKind hash_kind()
        bint Parse(string_view row, CBuilders* builders) except +
        bint has_group()
        optional[size_t] FrontBytes(string_view row) except +
        bint is_fixed()
        size_t fixed_bytes()
        int32_t HashRow(string_view row) except +


cdef extern from "sfkv/record_codec.h" namespace "sfkv" nogil:
    cdef cppclass CRecordCodec "sfkv::RecordCodec":
        size_t head_bytes()
        void MarkNull(char* row, size_t column)
        char* FixedCell(char* row, size_t column)
        void MarkEnd(char* row, size_t column, const char* end)


cdef extern from "sfkv/value_codec.h" namespace "sfkv" nogil:
    cdef cppclass CValueCodec "sfkv::ValueCodec":
        CValueCodec()
        CValueCodec(vector[CColumn] columns, bint is_record, const vector[vector[CColumn]]& older, vector[optional[string]] defaults) except +
        const vector[CColumn]& columns()
        const CRecordCodec& record()
        bint has_fixed_rows()
        size_t most_bytes()
        bint has_one_length()
        size_t RowBytes(const CColumns& columns, int64_t i)
        void EncodeRow(const CColumns& columns, int64_t i, char* row)
        void BeginRow(char* row)
        bint IsRow(string_view row)
        bint FindCell(string_view row, size_t column, string_view* cell)
        bint ParseRow(string_view row, int64_t i, CBuilders* builders) except +

    CStatus CheckValues(const CValueCodec& codec, const CColumns& values, const CColumnView* absent) except +
    CStatus FinishValues(const CValueCodec& codec, CBuilders* builders, const vector[int]& wanted, int64_t length,
                         const CValidityBuilder* present, ArrowArray* out) except +


cdef extern from "sfkv/key_batch.h" namespace "sfkv" nogil:
    cdef cppclass CKeyBatch "sfkv::KeyBatch":
        CKeyBatch()
        CStatus Encode(const CKeyCodec& codec, const CColumns& columns, uint8_t table, int max_parallelism, KeyGroupRange range) except +
        CStatus EncodePairs(const CKeyCodec& codec, const CColumns& columns, const CKeyCodec& user_codec, const CColumns& user_columns,
                            uint8_t table, int max_parallelism, KeyGroupRange range) except +
        void Sort() except +
        size_t size()
        bint is_sorted()
        string_view Key(size_t position)
        size_t distinct_count()
        string_view DistinctKey(size_t distinct)
        int64_t FirstPosition(size_t distinct)
        vector[uint32_t] DistinctOfPositions() except +
        vector[size_t] DistinctByAppearance() except +
        @staticmethod
        CStatus KeyTooLong(size_t row_bytes, int64_t row) except +
        @staticmethod
        CStatus OutsideRange(int key_group, KeyGroupRange range, int64_t row) except +

    CStatus ComputeKeyGroups(const CKeyCodec& codec, const CColumns& columns, int max_parallelism, ArrowArray* out) except +


cdef extern from "sfkv/row_set.h" namespace "sfkv" nogil:
    cdef cppclass CRowSet "sfkv::RowSet":
        CRowSet()
        void Clear()
        size_t size()
        bint Has(size_t i)
        string_view Get(size_t i)


cdef extern from "sfkv/write_batch.h" namespace "sfkv" nogil:
    cdef cppclass CWriteBatch "sfkv::WriteBatch":
        CWriteBatch()
        void Put(string_view key, string_view value) except +
        void Delete(string_view key) except +
        void Append(const CWriteBatch& other) except +
        size_t bytes()


cdef class Columns:
    """An Arrow array, read: the columns of a batch, valid as long as this lives."""
    cdef object capsules       # keep the array's memory
    cdef CColumns views
    cdef CColumnView rows      # which rows are null as a whole


cdef class ArrowResult:
    """An Arrow array made by the core, on its way to pyarrow."""
    cdef COwnedArray array
    cdef object type


cdef class KeyRows:
    """Keys of one schema as ordered rows, one at a time and by the column."""
    cdef CKeyCodec codec
    cdef readonly object schema
    cdef object reader
    cdef tuple cells           # a Cell for each column
    cdef bint is_record
    cdef bint by_array         # single keys go by way of an Arrow array of one
    cdef bint is_equal_in_python  # keys are equal to Python where their rows are, and nowhere else
    cdef type exact_type       # of a key of one such column
    cdef Context context
    cdef list objects_of(self, object batch)
    cdef int encode(self, object key, CByteBuffer* out, int32_t* hash, Context context, str operation) except -1
    cdef int encode_exact(self, object key, CByteBuffer* out, int32_t* hash) except -1
    cdef object decode(self, string_view row)
    cdef object decode_array(self, string_view row)
    cdef Columns read(self, object batch)


cdef class ValueRows:
    """Values of one schema as compact rows, one at a time and by the column."""
    cdef CValueCodec codec
    cdef readonly object schema
    cdef object reader
    cdef tuple cells
    cdef list names
    cdef bint is_record
    cdef bint by_array
    cdef Context context
    cdef object dumps
    cdef object loads
    cdef Live live             # whose numbers are the rows; None where the serializer's bytes are, and where there is none
    cdef Fresh fresh(self)
    cdef Held held(self)
    cdef object make
    cdef int encode(self, object value, CByteBuffer* out, Context context, str operation, Fresh fresh=*) except -1
    cdef int encode_plain(self, object value, CByteBuffer* out) except -1
    cdef int encode_record(self, object value, CByteBuffer* out) except -1
    cdef object decode(self, string_view row)
    cdef object decode_array(self, string_view row)
    cdef Columns read(self, object batch, Fresh fresh=*)
    cdef object stored_object(self, object value, Fresh fresh, object row, Context context=*, str operation=*)
    cdef vector[int] numbers_of(self, object columns, Context context, str operation) except *
    cdef object arrow_of(self, object columns)
    cdef object to_python(self, object array)
    cdef object serialized(self, object structs, Held held)


cdef string_view view(bytes data)
cdef int check_lengths(size_t keys, int64_t others, str what, Context context, str operation) except -1
