# cython: language_level=3
# distutils: language = c++
"""The store in memory, what it was at one moment, and the live objects that its rows hold.

Rows hold objects by number. Where a serializer would make bytes of an object, FreshObjects gives it a number, and settle() counts,
after each write, which rows hold it (memory_objects.h). Who reads takes hold of the objects before others can write: HeldObjects.
Files hold the serializers' bytes: blocks are translated on their way.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython.operator cimport dereference as deref
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.optional cimport optional
from libcpp.memory cimport make_shared, make_unique, shared_ptr, unique_ptr
from libcpp.vector cimport vector

from copy import deepcopy

from sfkv import _errors
from sfkv._cells cimport ArrowArray
from sfkv._live cimport Fresh, Held, Live, Objects, Stored, number_in, row_of
from sfkv._rows cimport CByteBuffer, KeyGroupRange, KeyRows, kReservedGroup, string_view, view
from sfkv._status cimport CStatus, Context, check, failure
from sfkv._store cimport CCall, CLifetime, ShareForkCount, Store, fork_count
from sfkv._tables cimport AppendVarint, CRows, ParseMapValue, TakeElement, kMapValuePresent

from sfkv._table import LIST, MAP

ShareForkCount(fork_count())

cdef extern from "<malloc.h>" nogil:
    int malloc_trim(size_t kept)


cdef extern from "sfkv/memory_snapshot.h" namespace "sfkv" nogil:
    cdef cppclass CRowHeap "sfkv::RowHeap":
        size_t used_bytes()
        size_t kept_bytes()
        uint64_t epoch()
        cbool IsSeen(uint64_t born)

    cdef cppclass CObjectNotes "sfkv::ObjectNotes":
        vector[uint64_t] TakeAdopted() except +
        vector[uint64_t] TakeReleased() except +

    cdef cppclass CMemoryTables "sfkv::MemoryTables":
        void Own(KeyGroupRange range)
        CRowHeap* heap()
        CObjectNotes* objects()

    cdef cppclass CMemoryStore "sfkv::MemoryStore"(CRows):
        CMemoryStore(size_t limit_bytes) except +
        CStatus BeginClose(cbool* begun) except +
        void FinishClose(cbool closed) except +
        CLifetime* lifetime()
        CMemoryTables* tables()
        size_t open_scans() except +

    cdef cppclass CMemorySnapshot "sfkv::MemorySnapshot":
        CMemorySnapshot(CMemoryTables* tables) except +
        cbool NextBlock(size_t most_bytes, int* key_group, CByteBuffer* block) except +

    int64_t LiveMemoryStores "sfkv::MemoryStore::live"()
    int64_t LiveMemoryScans "sfkv::MemoryScan::live"()
    int64_t LiveMemorySnapshots "sfkv::MemorySnapshot::live"()
    int64_t LiveViews "sfkv::RowView::live"()


def live_objects():
    """How many native objects there are of each kind: none, when everything was closed and dropped."""
    return {
        "memory stores": LiveMemoryStores(), "memory scans": LiveMemoryScans(), "memory snapshots": LiveMemorySnapshots(),
        "views": LiveViews(),
    }


@cython.final
@cython.no_gc
cdef class FreshObjects(Fresh):
    cdef MemoryStore store
    cdef LiveObjects live         # None while stored rows are read
    cdef Objects objects
    cdef vector[uint64_t] numbers

    def __dealloc__(self):
        if not self.numbers.empty():  # the call has failed, or its write was counted by none
            self.end()
            self.store.settle(None)

    cdef object number_of(self, object value):
        self.live.look_at(value)
        return self.add(value, self.live.serializer)

    def number_of_stored(self, bytes row not None):
        return self.add(Stored(row), None)

    cdef bytes add(self, object value, object serializer):
        cdef uint64_t number = self.objects.add(value, serializer, deref(self.store.c_store).tables().heap().epoch())
        self.numbers.push_back(number)
        return PyBytes_FromStringAndSize(<char*>&number, sizeof(number))

    cdef int end(self) except -1:
        """Gives up the numbers, to be let go of by the next settle(): rows that have them are counted by then."""
        self.objects.ended.insert(self.objects.ended.end(), self.numbers.begin(), self.numbers.end())
        self.numbers.clear()
        return 0


cdef struct Place:
    cbool is_ready
    cbool is_seen                 # by a view
    uint64_t number


@cython.final
cdef class HeldObjects(Held):
    cdef LiveObjects live
    cdef Objects objects
    cdef vector[Place] places     # of the values up to the last one that is not ready
    cdef list serializers         # of these

    cdef int take(self, string_view number) except -1:
        cdef uint64_t c_number = number_in(number)
        self.objects.check(c_number)
        self.values.append(self.objects.objects[c_number])
        other = self.objects.serializers[c_number]
        cdef bint is_seen = self.live.is_seen(self.objects, c_number)
        if is_seen or other is not self.live.serializer:
            self.is_ready = False
            self.places.resize(len(self.values) - 1, Place(True, False, 0))
            self.places.push_back(Place(False, is_seen, c_number))
            while len(self.serializers) < len(self.values) - 1:
                self.serializers.append(None)
            self.serializers.append(other)
        return 0

    cdef int take_none(self) except -1:
        self.values.append(None)
        return 0

    cdef int take_cells(self, const ArrowArray* numbers) except -1:
        cdef const uint8_t* validity = <const uint8_t*>numbers.buffers[0]
        cdef const int32_t* offsets = <const int32_t*>numbers.buffers[1]
        cdef const char* data = <const char*>numbers.buffers[2]
        cdef int64_t i
        for i in range(numbers.offset, numbers.offset + numbers.length):
            if validity != NULL and not validity[i >> 3] >> (i & 7) & 1:
                self.take_none()
            else:
                self.take(string_view(data + offsets[i], offsets[i + 1] - offsets[i]))
        return 0

    cdef object object_at(self, size_t i):
        if i >= self.places.size() or self.places[i].is_ready:
            return self.values[i]
        return self.live.given(self.objects, self.places[i].number, self.values[i], self.serializers[i], self.places[i].is_seen)

    cdef object bytes_at(self, size_t i):
        value = self.values[i]
        if value is None:
            return None
        return row_of(value, self.live.serializer if i >= self.places.size() or self.places[i].is_ready else self.serializers[i])


@cython.final
cdef class LiveObjects(Live):
    """The live objects of a table, and what makes bytes of them."""
    cdef MemoryStore store
    cdef readonly object name
    cdef readonly bint is_live
    cdef object serializer     # None where the state is not registered yet
    cdef set seen              # classes of which an object was looked at

    def __cinit__(self, MemoryStore store not None, serializer):
        self.store = store
        self.serializer = serializer
        self.name = None if serializer is None else serializer.name
        self.is_live = True
        self.seen = set()

    def dumps(self, value):
        return self.serializer.dumps(value)

    def loads(self, bytes row not None):
        return self.serializer.loads(row)

    cdef Fresh fresh(self):
        return self.store.fresh(self)

    cdef Held held(self):
        cdef HeldObjects held = HeldObjects.__new__(HeldObjects)
        held.live = self
        held.objects = self.store.objects
        held.values = []
        held.serializers = []
        held.is_ready = True
        return held

    cdef int look_at(self, object value) except -1:
        """Refuses what the serializer does not take, as far as that can be seen from what is cheap to look at."""
        if type(value) not in self.seen:
            self.serializer.dumps(value)
            if not isinstance(value, (int, float, str, bytes)):  # of which each is looked at
                self.seen.add(type(value))
        return 0

    cdef object object_of(self, string_view number):
        cdef Objects objects = self.store.objects
        cdef uint64_t c_number = number_in(number)
        objects.check(c_number)
        return self.given(objects, c_number, objects.objects[c_number], objects.serializers[c_number], self.is_seen(objects, c_number))

    cdef bint is_seen(self, Objects objects, uint64_t number):
        return deref(self.store.c_store).tables().heap().IsSeen(objects.born[number])

    cdef object given(self, Objects objects, uint64_t number, object value, object other, bint is_seen):
        """What is given out of an object that was found under a number, with its serializer: a copy where a view sees it."""
        if type(value) is Stored or (other is not self.serializer and other.type != self.serializer.type):
            value = self.decoded(objects, number, value, other)
        return self.copy_of(value) if is_seen else value

    cdef object decoded(self, Objects objects, uint64_t number, object value, object other):
        """The object of this serializer's, in the place of that; or what another call made of it while this one was to."""
        cdef Stored stored = <Stored>value if type(value) is Stored else None
        made = None if self.is_made(stored) else self.serializer.loads(row_of(value, other))
        if self.is_made(stored):
            return stored.value
        if objects.objects[number] is value and objects.serializers[number] is other:  # the number has not become another's
            objects.objects[number] = made
            objects.serializers[number] = self.serializer
        if stored is not None:
            stored.value, stored.serializer = made, self.serializer
        return made

    cdef bint is_made(self, Stored stored) except -1:
        """Whether stored bytes have become an object that this serializer would have made."""
        if stored is None or stored.serializer is None:
            return False
        return stored.serializer is self.serializer or stored.serializer.type == self.serializer.type

    cdef object copy_of(self, object value):
        try:
            return deepcopy(value)
        except MemoryError:
            raise
        except Exception as error:
            cause = error
        try:
            return self.serializer.loads(self.serializer.dumps(value))
        except (_errors.SchemaError, RecursionError) as error:
            raise _errors.SchemaError(
                f"an open scan or snapshot sees the object, and it cannot be copied: {error} (deepcopy: {cause}); end that first") from cause


cdef bytes translated(bytes block, dict tables, object translate):
    """A block in which the values of some tables are others: translate(bytes of an object) of each object in them."""
    cdef string_view rest = view(block)
    cdef string_view c_key, row
    cdef list parts = []
    cdef cbool is_none = False
    while rest.size() != 0:
        if not TakeElement(&rest, &c_key) or c_key.size() == 0 or not TakeElement(&rest, &row):
            raise damaged("block of rows")
        key, value = bytes_of(c_key), bytes_of(row)
        kind, keys = tables.get(key[0], (None, None))
        try:
            if kind == LIST:
                value = b"".join([sized(translate(element)) for element in elements_of(row)])
            elif kind == MAP:
                if not ParseMapValue(row, &is_none, &row):
                    raise damaged("stored entry")
                value = value if is_none else bytes([kMapValuePresent]) + translate(bytes_of(row))
            elif kind is not None:
                value = translate(value)
        except _errors.SchemaError as error:
            raise unstorable(error, keys, key[1:]) from error
        parts.append(sized(key))
        parts.append(sized(value))
    return b"".join(parts)


cdef object unstorable(object error, KeyRows keys, bytes row):
    """What to say of an object that its serializer does not take, which only shows when it is stored."""
    cdef optional[size_t] size = keys.codec.FrontBytes(view(row))
    key = keys.key_of(row[:size.value()])
    state = keys.context.state
    return _errors.SchemaError(f"{error}: put another object under the key {key!r}, or clear it [state {state!r}]", state=state)


cdef object damaged(str what):
    return _errors.CorruptionError(f"Corruption: a {what} does not have the form of one: restore another snapshot")


cdef list elements_of(string_view stored):
    cdef string_view element
    cdef list elements = []
    while TakeElement(&stored, &element):
        elements.append(bytes_of(element))
    if stored.size() != 0:
        raise damaged("stored list")
    return elements


cdef bytes bytes_of(string_view view):
    return PyBytes_FromStringAndSize(view.data(), view.size())


cdef bytes sized(bytes value):
    """Bytes behind their length."""
    cdef char length[10]
    return PyBytes_FromStringAndSize(length, AppendVarint(length, len(value)) - length) + value


@cython.final
cdef class MemoryStore(Store):
    """Tables in memory."""
    cdef shared_ptr[CMemoryStore] c_store
    cdef Objects objects
    cdef readonly dict live_tables  # those that hold objects, by number: their kinds and keys

    def __cinit__(self, str path not None, *, size_t limit_bytes, size_t write_batch_bytes):
        self.path = path
        self.max_parallelism = 1  # until own() says more
        self.write_batch_bytes = write_batch_bytes
        self.context = Context(path=path)
        self.c_store = make_shared[CMemoryStore](limit_bytes)
        self.c_rows = <CRows*>self.c_store.get()
        self.c_lifetime = deref(self.c_store).lifetime()
        self.objects = Objects()
        self.live_tables = {}

    def own(self, int max_parallelism, int first, int last):
        Store.own(self, max_parallelism, first, last)
        deref(self.c_store).tables().Own(self.range)

    def live(self, int table, int kind, serializer, KeyRows keys not None):
        """What takes the serializer's place for the values of a table that holds live objects; None for one that is not known yet."""
        self.live_tables[table] = (kind, keys)
        return LiveObjects(self, serializer)

    cdef FreshObjects fresh(self, LiveObjects live):
        cdef FreshObjects fresh = FreshObjects.__new__(FreshObjects)
        fresh.store = self
        fresh.live = live
        fresh.objects = self.objects
        return fresh

    cdef int settle(self, Fresh fresh) except -1:
        cdef CCall call
        cdef vector[uint64_t] adopted
        cdef vector[uint64_t] released
        cdef CMemoryTables* tables = deref(self.c_store).tables()
        cdef cbool is_seen
        cdef list dead
        if fresh is not None:
            (<FreshObjects>fresh).end()
        if not self.objects.objects:
            return 0
        dead = []  # may collect garbage, which may run code that comes here: so it is made before there is anything to count
        if not call.Enter(self.c_lifetime).ok():
            if self.c_lifetime.IsClosed():
                self.objects = Objects()
            return 0  # else another thread is inside: what is to be counted stays noted
        adopted = tables.objects().TakeAdopted()
        released = tables.objects().TakeReleased()
        is_seen = tables.heap().IsSeen(1)
        call.Leave()
        self.objects.settle(adopted, released, is_seen, dead)
        return 0  # and what is dead ends here, when everything is in order: it may run code of its own

    def load_block(self, int key_group, bytes block not None):
        cdef FreshObjects fresh = self.fresh(None)
        if self.live_tables and key_group != kReservedGroup:
            block = translated(block, self.live_tables, fresh.number_of_stored)
        Store.load_block(self, key_group, block)
        self.settle(fresh)

    def row_of_number(self, bytes number not None):
        """The object of a row that a view sees, as bytes."""
        cdef uint64_t c_number = number_in(view(number))
        self.objects.check(c_number)
        return row_of(self.objects.objects[c_number], self.objects.serializers[c_number])

    def flush(self):
        """Does nothing, as there are no files, but what every call does."""
        cdef CCall call
        self.enter(&call, self.context, "flush")
        self.refuse_in_batch(&call, "flush")

    def compact(self):
        """Gives the memory that removed rows have left back to the system."""
        cdef CCall call
        self.enter(&call, self.context, "compact")
        self.refuse_in_batch(&call, "compact")
        with nogil:
            malloc_trim(0)

    cdef int refuse_in_batch(self, CCall* call, str operation) except -1:
        if self.c_rows.InBatch():
            call.Leave()
            raise failure(_errors.UsageError, f"{operation} does not work inside a batch: end it first", self.context, operation)
        return 0

    def begin_close(self):
        """Waits for the running call, and lets no other in. False if the store is closed already."""
        cdef CStatus status
        cdef cbool begun = False
        with nogil:
            status = deref(self.c_store).BeginClose(&begun)
        check(status, self.context, "close")
        return begun

    def finish_close(self, bint closed):
        """Gives the memory back; or, if the store is not to be closed, lets calls in again. REQUIRES: begin_close() was true."""
        with nogil:
            deref(self.c_store).FinishClose(closed)
            if closed:
                malloc_trim(0)
        if closed:
            self.objects = Objects()

    def close(self):
        if self.begin_close():
            self.finish_close(True)

    @property
    def open_scans(self):
        return deref(self.c_store).open_scans()

    @property
    def used_bytes(self):
        """What the rows take, with all that holds them."""
        return deref(self.c_store).tables().heap().used_bytes()

    @property
    def kept_bytes(self):
        """What only scans and snapshots still see."""
        return deref(self.c_store).tables().heap().kept_bytes()

    def freeze(self):
        """The rows as they are now."""
        cdef CCall call
        self.enter(&call, self.context, "snapshot")
        self.refuse_in_batch(&call, "snapshot")
        return Snapshot(self)

    def freeze_closing(self):
        """The same between begin_close() and finish_close()."""
        return Snapshot(self)


@cython.final
cdef class Snapshot:
    """The rows of a store as they were. It may be read by any one thread, while the store goes on."""
    cdef unique_ptr[CMemorySnapshot] c_snapshot
    cdef MemoryStore store
    cdef dict live_tables

    def __cinit__(self, MemoryStore store not None):
        self.store = store
        self.live_tables = dict(store.live_tables)
        self.c_snapshot = make_unique[CMemorySnapshot](deref(store.c_store).tables())

    def next_block(self, size_t most_bytes):
        """The key group of the next rows, and these as a block (row_blocks.h); None at the end."""
        cdef CByteBuffer block
        cdef int key_group = 0
        cdef cbool found
        with nogil:
            found = deref(self.c_snapshot).NextBlock(most_bytes, &key_group, &block)
        if not found:
            return None
        rows = PyBytes_FromStringAndSize(block.data(), block.size())
        if self.live_tables and key_group != kReservedGroup:
            rows = translated(rows, self.live_tables, self.store.row_of_number)
        return key_group, rows
