"""The peers that store bytes, behind one small interface for BytesSystem (peers.py). Each class says how it is used.

Caches have the slot's size, and memtables what sfkv's may hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from systems import memtable_bytes, slot_bytes
from workload import Workload

CHUNK_KEYS = 64  # of a sorted batch; more at once was slower
LMDB_BYTES = 64 << 30  # of address space


def cache_bytes(workload: Workload) -> int:
    return slot_bytes(workload) * 5 // 6


def buffer_bytes(workload: Workload) -> int:
    return memtable_bytes(workload) if workload.settings.state == "memtable" else min(32 << 20, slot_bytes(workload) // 6)


class RocksDict:
    """rocksdict in raw mode, no WAL, no compression, a bloom filter; get() of sorted lists, write batches, one cursor.

    Its indexes and filters lie beside the cache, so that it may take more memory than sfkv does.
    """

    key_dtype = ">i8"

    def __init__(self, folder: Path, workload: Workload) -> None:
        import rocksdict

        self._rocksdict = rocksdict
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(cache_bytes(workload)))
        table.set_bloom_filter(10, False)
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(table)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        options.set_write_buffer_size(buffer_bytes(workload))
        self._no_wal = rocksdict.WriteOptions()
        self._no_wal.disable_wal = True
        self._db = rocksdict.Rdict(str(folder), options)
        self._db.set_write_options(self._no_wal)
        self.get = self._db.get
        self.put = self._db.put

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for begin in range(0, len(keys), CHUNK_KEYS):
            found += self._db.get(keys[begin : begin + CHUNK_KEYS])
        return found

    def put_many(self, keys: list[bytes], values: list[bytes]) -> None:
        batch = self._rocksdict.WriteBatch(raw_mode=True)
        put = batch.put
        for key, value in zip(keys, values, strict=True):
            put(key, value)
        self._db.write(batch, self._no_wal)

    def entries(self, prefixes: list[bytes]) -> tuple[list[bytes], list[bytes], list[int]]:
        iterator = self._db.iter()
        seek, valid, next_, key_of, value_of = iterator.seek, iterator.valid, iterator.next, iterator.key, iterator.value
        keys: list[bytes] = []
        values: list[bytes] = []
        lengths = []
        for prefix in prefixes:
            before = len(keys)
            seek(prefix)
            while valid():
                key = key_of()
                if not key.startswith(prefix):
                    break
                keys.append(key)
                values.append(value_of())
                next_()
            lengths.append(len(keys) - before)
        return keys, values, lengths

    def settle(self) -> None:
        self._db.flush()
        self._db.compact_range(None, None)

    def end_round(self) -> None:
        pass

    def close(self) -> None:
        self._db.close()


class Plyvel:
    """plyvel (LevelDB), its compression as it comes, with a bloom filter; it has no batch get; write_batch, one iterator."""

    key_dtype = ">i8"

    def __init__(self, folder: Path, workload: Workload) -> None:
        import plyvel

        self._db = plyvel.DB(
            str(folder),
            create_if_missing=True,
            lru_cache_size=cache_bytes(workload),
            bloom_filter_bits=10,
            write_buffer_size=buffer_bytes(workload),
        )
        self.get = self._db.get
        self.put = self._db.put

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return list(map(self._db.get, keys))

    def put_many(self, keys: list[bytes], values: list[bytes]) -> None:
        with self._db.write_batch() as batch:
            put = batch.put
            for key, value in zip(keys, values, strict=True):
                put(key, value)

    def entries(self, prefixes: list[bytes]) -> tuple[list[bytes], list[bytes], list[int]]:
        with self._db.iterator() as iterator:
            return walk(prefixes, iterator.seek, iterator)

    def settle(self) -> None:
        self._db.compact_range()

    def end_round(self) -> None:
        pass

    def close(self) -> None:
        self._db.close()


class Lmdb:
    """lmdb with writemap and without syncs; native integer keys but for maps; get() in sorted order, putmulti, one cursor.

    One write transaction is open all the time, which is fastest; a batch commits it, and so does the end of a round.
    """

    def __init__(self, folder: Path, workload: Workload) -> None:
        import lmdb

        composite = workload.operation.kind == "map"
        self.key_dtype = ">i8" if composite else "<i8"
        self._env = lmdb.open(
            str(folder), map_size=LMDB_BYTES, writemap=True, metasync=False, sync=False, map_async=True, lock=False, max_dbs=1
        )
        self._rows = self._env.open_db(b"rows", integerkey=not composite)
        self._begin()

    def _begin(self) -> None:
        self._transaction = self._env.begin(db=self._rows, write=True)
        self.get = self._transaction.get
        self._put = self._transaction.put

    def put(self, key: bytes, value: bytes) -> None:
        self._put(key, value)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return list(map(self.get, keys))

    def put_many(self, keys: list[bytes], values: list[bytes]) -> None:
        with self._transaction.cursor() as cursor:
            cursor.putmulti(zip(keys, values, strict=True))
        self.end_round()

    def entries(self, prefixes: list[bytes]) -> tuple[list[bytes], list[bytes], list[int]]:
        with self._transaction.cursor() as cursor:
            return walk(prefixes, cursor.set_range, cursor)

    def settle(self) -> None:
        pass

    def end_round(self) -> None:
        self._transaction.commit()
        self._begin()

    def close(self) -> None:
        self._transaction.abort()
        self._env.close()


def walk(prefixes: list[bytes], seek: Any, iterator: Any) -> tuple[list[bytes], list[bytes], list[int]]:
    """All rows that begin with each prefix, by an iterator of pairs: keys, values, and how many rows each prefix has."""
    keys: list[bytes] = []
    values: list[bytes] = []
    lengths = []
    for prefix in prefixes:
        before = len(keys)
        seek(prefix)
        for key, value in iterator:
            if not key.startswith(prefix):
                break
            keys.append(key)
            values.append(value)
        lengths.append(len(keys) - before)
    return keys, values, lengths


ENGINES: dict[str, Any] = {"rocksdict": RocksDict, "plyvel": Plyvel, "lmdb": Lmdb}
