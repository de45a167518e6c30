"""What is measured: the operations, how much state they work on, and which keys they ask for. No system is known here.

Keys are even numbers, so that the odd ones between them are absent and still lie inside every file's range. Values are
scrambled row numbers: no two alike, nothing to compress. All draws have one fixed seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SEED = 20130101
ENTRIES_PER_KEY = 10  # as in flink-benchmarks
VALUES_PER_LIST = 100
ROWS_PER_MOMENT = 100  # of tables, whose rows are due by time
DUE_SHARE = 100  # one row in so many is
FILL_ROWS = 65_536
MANY_ROWS = 500_000  # what a round of batches asks for at most
SINGLE_ROWS = 100_000  # what a round of single calls asks for, or one of batches below
SMALL_BATCH = 256


@dataclass(frozen=True)
class Operation:
    """An operation of the states: what it is called with, and on which kind of state."""

    name: str
    kind: str
    columns: tuple[str, ...]
    writes: bool = False

    @property
    def many(self) -> bool:
        return self.name.endswith(("many", "bundle", "scan", "fire"))

    @property
    def adds(self) -> bool:
        """Whether what it is called with is added to what is stored."""
        return "rmw" in self.name or self.kind in ("reducing", "aggregating")

    @property
    def whole(self) -> bool:
        """Whether a round is one call, without columns, that reads all rows or all that are due."""
        return not self.columns


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("value_get", "value", ("keys",)),
        Operation("value_put", "value", ("keys", "values"), writes=True),
        Operation("value_get_many", "value", ("keys",)),
        Operation("value_put_many", "value", ("keys", "values"), writes=True),
        Operation("value_bundle", "value", ("keys",), writes=True),
        Operation("value_rmw", "value", ("keys", "values"), writes=True),
        Operation("value_rmw_many", "value", ("keys", "values"), writes=True),
        Operation("reducing_add", "reducing", ("keys", "values"), writes=True),
        Operation("reducing_add_many", "reducing", ("keys", "values"), writes=True),
        Operation("reducing_get_many", "reducing", ("keys",)),
        Operation("aggregating_add_many", "aggregating", ("keys", "values"), writes=True),
        Operation("aggregating_get_many", "aggregating", ("keys",)),
        Operation("record_get_many", "record", ("keys",)),
        Operation("record_put_many", "record", ("keys", "values"), writes=True),
        Operation("map_get", "map", ("keys", "user_keys")),
        Operation("map_put", "map", ("keys", "user_keys", "values"), writes=True),
        Operation("map_items_many", "map", ("keys",)),
        Operation("map_put_many", "map", ("keys", "user_keys", "values"), writes=True),
        Operation("list_add", "list", ("keys", "values"), writes=True),
        Operation("list_get", "list", ("keys",)),
        Operation("list_add_many", "list", ("keys", "values"), writes=True),
        Operation("list_get_many", "list", ("keys",)),
        Operation("table_scan", "table", ()),
        Operation("table_fire", "table", ()),
    )
}


@dataclass(frozen=True)
class Settings:
    """The sizes of a run. ``keys`` are rows: a state of maps or lists has fewer keys, so that its rows are about as many."""

    keys: int = 500_000
    batch: int = 16_384
    draw: str = "unique"  # or zipf, missing
    skew: float = 1.1
    state: str = "files"  # or memtable; of the backend in memory: memory
    memory_mb: int = 128
    rounds: int = 5
    backend: str = "rocksdb"  # or memory


@dataclass(frozen=True)
class Rows:
    """Rows of a state as columns; what an operation does not need stands there all the same."""

    keys: np.ndarray
    user_keys: np.ndarray
    values: np.ndarray

    def part(self, begin: int, end: int) -> Rows:
        return Rows(self.keys[begin:end], self.user_keys[begin:end], self.values[begin:end])

    def columns(self, operation: Operation) -> tuple[np.ndarray, ...]:
        return tuple(getattr(self, name) for name in operation.columns)

    def __len__(self) -> int:
        return len(self.keys)


def scramble(numbers: np.ndarray) -> np.ndarray:
    """Distinct numbers of 62 bits for distinct ones (splitmix64's finish), so that adding to them stays in an int64."""
    x = numbers.astype("u8")
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(2)).astype("i8")


def record_columns(values: np.ndarray) -> dict[str, np.ndarray | pa.Array]:
    """The five columns of records, in a row of about 60 bytes, that stand for numbers: the first is the number itself."""
    text = pa.array(values).cast(pa.utf8())
    return {
        "number": values,
        "share": values / 2**62,
        "count": (values & 0x7FFFFFFF).astype("i4"),
        "name": text,
        "code": pc.utf8_slice_codeunits(text, 0, 12),
    }


RECORD = {"number": pa.int64(), "share": pa.float64(), "count": pa.int32(), "name": pa.utf8(), "code": pa.utf8()}


def draw_numbers(draw: str, limit: int, count: int, skew: float, round: int = 0) -> np.ndarray:
    """``count`` numbers below ``limit`` in a random order: each once before any twice, or by a truncated Zipf law.

    Each round draws anew; by the law, the same ones are the most frequent in all.
    """
    rng = np.random.default_rng([SEED, round])
    if draw == "zipf":
        weights = np.cumsum(1 / np.arange(1, limit + 1) ** skew)
        ranks = np.searchsorted(weights / weights[-1], rng.random(count))
        return np.random.default_rng(SEED).permutation(limit)[np.minimum(ranks, limit - 1)]
    rounds = -(-count // limit)
    return np.concatenate([rng.permutation(limit) for _ in range(rounds)])[:count]


def draw_keys(settings: Settings, limit: int, count: int, round: int = 0) -> np.ndarray:
    """Keys to ask a state of ``limit`` keys for: stored ones, or for the draw "missing" the odd ones between them."""
    numbers = draw_numbers(settings.draw, limit, count, settings.skew, round)
    return (2 * numbers + (settings.draw == "missing")).astype("i8")


class Workload:
    """An operation on a state of some size: the rows that are stored beforehand, and those that it is called with."""

    def __init__(self, operation: Operation, settings: Settings, most_asked: int | None = None) -> None:
        if operation.writes and settings.draw == "missing":
            raise ValueError(f"{operation.name} writes, and what it writes is not missing: draw unique or zipf")
        self.operation = operation
        self.settings = settings
        self.rows_per_key = 1
        if operation.kind == "map":
            self.rows_per_key = ENTRIES_PER_KEY
        elif operation.name.startswith("list_get"):
            self.rows_per_key = VALUES_PER_LIST
        self.key_count = max(1, settings.keys // self.rows_per_key)
        self.row_count = self.key_count * self.rows_per_key
        self.batch = settings.batch if operation.many else 0
        self.most_asked = most_asked or (MANY_ROWS if self.batch >= SMALL_BATCH else SINGLE_ROWS)
        self.asked = self.draw()

    def draw(self, round: int = 0) -> Rows:
        """The rows that a round asks for. Entries of maps are drawn one by one, so that keys repeat as entries do."""
        if self.operation.whole:
            count = self.row_count
            if self.operation.name == "table_fire":  # all rows of some moments
                count = min(count, max(1, count // DUE_SHARE // ROWS_PER_MOMENT) * ROWS_PER_MOMENT)
            keys = 2 * np.arange(count, dtype="i8")
            return Rows(keys, self.moments_of(keys), scramble(keys + (1 << 40)))
        by_entry = "user_keys" in self.operation.columns
        limit = self.row_count if by_entry else self.key_count
        count = min(limit, self.most_asked)
        if not by_entry:
            keys = draw_keys(self.settings, limit, count, round)
            values = scramble(keys + (1 << 40))
            return Rows(keys, np.zeros_like(keys), values >> 16 if self.operation.adds else values)  # sums stay in an int64
        numbers = draw_keys(self.settings, limit, count, round)  # of entries, doubled
        missing = numbers & 1
        numbers = numbers >> 1
        keys = 2 * (numbers // ENTRIES_PER_KEY) + missing
        return Rows(keys, numbers % ENTRIES_PER_KEY, scramble(numbers + (1 << 40)))

    def stored(self, first_key: int = 0) -> Iterator[Rows]:
        """The rows that are stored, by key, in parts; those of one key lie in one part."""
        keys_per_part = max(1, FILL_ROWS // self.rows_per_key)
        for first in range(first_key, self.key_count, keys_per_part):
            keys = np.arange(first, min(first + keys_per_part, self.key_count), dtype="i8")
            yield self.rows_of(2 * keys)

    @staticmethod
    def moments_of(keys: np.ndarray) -> np.ndarray:
        """When the rows of a table are due."""
        return keys // (2 * ROWS_PER_MOMENT)

    @property
    def watermark(self) -> int:
        """The first moment whose rows are not due yet."""
        return int(self.asked.user_keys[-1]) + 1

    def rows_of(self, keys: np.ndarray) -> Rows:
        """The rows that are stored of even keys, in their order."""
        if self.operation.kind == "table":
            return Rows(keys, self.moments_of(keys), scramble(keys >> 1))
        user_keys = np.tile(np.arange(self.rows_per_key, dtype="i8"), len(keys))
        repeated = np.repeat(keys, self.rows_per_key)
        return Rows(repeated, user_keys, scramble((repeated >> 1) * self.rows_per_key + user_keys))

    def in_batches(self, asked: Rows) -> list[Rows]:
        size = self.batch or len(asked)
        return [asked.part(begin, begin + size) for begin in range(0, len(asked), size)]
