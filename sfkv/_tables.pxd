# The store's interface for states, and what list and map states are made of. No RocksDB here.
from libc.stdint cimport int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from sfkv._cells cimport ArrowArray, CType, string_view
from sfkv._rows cimport (
    CBuilders, CByteBuffer, CColumns, CColumnView, CKeyBatch, CKeyCodec, CRowSet, CValidityBuilder, CValueCodec,
    CWriteBatch, KeyGroupRange,
)
from sfkv._status cimport CStatus


cdef extern from "sfkv/row_codec.h" namespace "sfkv" nogil:
    char* AppendVarint(char* at, size_t value)
    cbool TakeVarint(string_view* bytes, size_t* value)


cdef extern from "sfkv/list_codec.h" namespace "sfkv" nogil:
    size_t ElementBytes(size_t row_bytes)
    cbool TakeElement(string_view* list, string_view* row)
    size_t UniformWidth(const CValueCodec& codec)


cdef extern from "sfkv/map_codec.h" namespace "sfkv" nogil:
    const char kMapValuePresent
    const char kMapValueNone
    cbool ParseMapValue(string_view stored, cbool* is_none, string_view* row)


cdef extern from "sfkv/append_guard.h" namespace "sfkv" nogil:
    cdef cppclass CAppendGuard "sfkv::AppendGuard":
        CAppendGuard()


cdef extern from "sfkv/fold.h" namespace "sfkv" nogil:
    cdef enum class Fold(uint8_t):
        kBroken

    void MergeRows(const vector[string_view]& rows, string* out) except +


cdef extern from "sfkv/fold_codec.h" namespace "sfkv" nogil:
    const size_t kFoldScratchBytes "sfkv::FoldCodec::kScratchBytes"

    cdef cppclass CFoldCodec "sfkv::FoldCodec":
        CFoldCodec()
        CFoldCodec(Fold fold, CValueCodec values, CValueCodec results) except +
        @staticmethod
        bint CanFold(Fold fold, const CType& type)
        size_t row_bytes()
        void AppendOperand(string_view value, CByteBuffer* out) except +
        CStatus Result(string_view row, int64_t position, char* scratch, string_view* result) except +

    CStatus BuildResults(const CColumnView& rows, const CFoldCodec& codec, ArrowArray* out) except +


cdef extern from "sfkv/fold_guard.h" namespace "sfkv" nogil:
    cdef cppclass CFoldGuard "sfkv::FoldGuard":
        CFoldGuard()


cdef extern from "sfkv/rows.h" namespace "sfkv" nogil:
    cdef struct COffsetRow "sfkv::OffsetRow":
        string_view key
        string_view row

    cdef enum class TableKind(uint8_t):
        kValue
        kList
        kMap

    cdef cppclass CRowRange "sfkv::RowRange":
        CRowRange()
        string lower
        string upper

    cdef cppclass CScanOptions "sfkv::ScanOptions":
        CScanOptions()
        uint8_t table
        TableKind kind
        KeyGroupRange range
        string key
        CRowRange rows
        bint reverse
        vector[int] key_columns
        vector[int] value_columns
        int64_t batch_rows
        bint with_values
        bint distinct_keys

    cdef cppclass CCursor "sfkv::Cursor":
        CStatus Next(int64_t* rows, ArrowArray* keys, ArrowArray* user_keys, ArrowArray* values) except +
        CStatus NextEntries(size_t most, CRowSet* user_keys, CRowSet* values) except +

    cdef cppclass CTableShape "sfkv::TableShape":
        CTableShape()
        uint8_t table
        bint is_ordered
        KeyGroupRange range
        size_t key_bytes
        size_t value_bytes
        bint value_is_fixed
        bint holds_objects
        TableKind kind

    cdef cppclass CRows "sfkv::Rows":
        cbool Declare(const CTableShape& shape) except +
        CStatus ReadRange(string_view first, string_view bound, vector[string]* keys, vector[string]* values) except +
        shared_ptr[CCursor] NewScan(const CScanOptions& options, const CKeyCodec& keys, const CKeyCodec& user_keys,
                                    const CValueCodec& values) except +
        bint InBatch()
        CStatus BeginBatch() except +
        CStatus CommitBatch() except +
        void DropBatch() except +
        CStatus ReadRow(string_view key, bint may_wait, CByteBuffer* row, cbool* found) except +
        CStatus PutRow(string_view key, string_view row, bint may_wait) except +
        CStatus DeleteRow(string_view key, bint may_wait) except +
        CStatus ReadColumns(const CKeyBatch& keys, const CValueCodec& codec, CBuilders* builders, CValidityBuilder* present) except +
        CStatus ReadRows(const CKeyBatch& keys, CRowSet* rows) except +
        CStatus HaveRows(const CKeyBatch& keys, CValidityBuilder* present) except +
        CStatus PutColumns(const CKeyBatch& keys, const CValueCodec& codec, const CColumns& values, const CColumnView* clears,
                           COffsetRow offset) except +
        CStatus DeleteRows(const CKeyBatch& keys, COffsetRow offset) except +
        CStatus WriteRows(CWriteBatch* rows) except +
        CStatus WriteRowsThrough(CWriteBatch* rows) except +
        void KeepLeastKeys(uint8_t table, KeyGroupRange range) except +
        CStatus DeleteRange(uint8_t table, KeyGroupRange range, const CRowRange& rows, COffsetRow offset) except +
        CStatus DropTable(uint8_t table, KeyGroupRange range) except +
        CStatus Append(CAppendGuard* guard, string_view key, string_view elements) except +
        CStatus AddToLists(CAppendGuard* guard, const CKeyBatch& keys, const CValueCodec& codec, const CColumns& values,
                           COffsetRow offset) except +
        CStatus UpdateLists(const CKeyBatch& keys, const CValueCodec& codec, const CColumnView& lists, COffsetRow offset) except +
        CStatus ReadLists(const CKeyBatch& keys, const CValueCodec& codec, ArrowArray* out) except +
        CStatus FoldRow(CFoldGuard* guard, string_view key, string_view operand, bint may_wait) except +
        CStatus FoldColumns(CFoldGuard* guard, const CKeyBatch& keys, const CFoldCodec& codec, const CColumns& values,
                            COffsetRow offset) except +
        CStatus PutEntries(const CKeyBatch& entries, const CValueCodec& codec, const CColumns& values, const CColumnView& rows,
                           COffsetRow offset) except +
        CStatus ReadEntries(const CKeyBatch& entries, const CValueCodec& codec, ArrowArray* out) except +
        CStatus ReadMaps(const CKeyBatch& keys, const CKeyCodec& user_codec, const CValueCodec& codec, ArrowArray* out) except +
        CStatus HaveEntries(const CKeyBatch& keys, CValidityBuilder* present) except +
        CStatus HasEntry(string_view key, cbool* found) except +
        CStatus ClearMaps(const CKeyBatch& keys, COffsetRow offset) except +
        CStatus ClearMap(string_view key) except +

    CStatus ReadResults(CRows* rows, const CKeyBatch& keys, const CFoldCodec& codec, ArrowArray* out) except +
    CStatus ReadValues(CRows* rows, const CKeyBatch& keys, const CValueCodec& codec, const vector[int]& wanted, ArrowArray* out) except +
