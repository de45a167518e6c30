"""Keys that are likely to be lost or confused, of every type, with a strategy to draw them and the order that they sort in."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import sfkv
from sfkv._rows import KeyRows
from sfkv._types import KeySchema

NAN = float("nan")  # the one that dicts find again, because they look at identity first
UTC = dt.timezone.utc

# Around the widths of words, one-byte lengths, pages and the longest key row, of 65,535 bytes.
LENGTHS = [7, 8, 9, 15, 16, 17, 126, 127, 128, 129, 254, 255, 256, 257, 4095, 4096, 4097, 65_000]
INTS = [0, 1, -1, 127, 128, -128, 255, 256, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63 - 1), -(2**63)]
FLOATS = [
    *(0.0, 1.0, -1.0, 0.1, 5e-324, -5e-324, 2.2250738585072014e-308, math.nextafter(1.0, 2.0), 2.0**53, 2.0**53 + 2),
    *(1.7976931348623157e308, -1.7976931348623157e308, math.inf, -math.inf, NAN),
]
DATES = [dt.date.min, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(1970, 1, 2), dt.date(2024, 2, 29), dt.date.max]
TIMES = [
    *(dt.datetime.min, dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1), dt.datetime.max),
    *(dt.datetime(1970, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 10, 27, 2, 30), dt.datetime(2024, 10, 27, 2, 30, 0, 1)),
]
CANDIDATES = 200_000  # of so many keys, about five pairs share a 32-bit hash, and six keys one of 32,768 key groups


@dataclasses.dataclass(frozen=True)
class Kind:
    """A type of key.

    Attributes:
        type: what ``open`` takes.
        pool: the nasty keys, each once.
        map_keys: those of the pool that leave room for a user key behind them.
        user_keys: those of the pool that fit there.
        more: draws others.
    """

    type: Any
    pool: list[Any]
    map_keys: list[Any]
    user_keys: list[Any]
    more: st.SearchStrategy[Any]

    @property
    def keys(self) -> st.SearchStrategy[Any]:
        return st.sampled_from(self.pool) | self.more

    @property
    def entries(self) -> st.SearchStrategy[tuple[Any, Any]]:
        """Keys with user keys, of which both are nasty."""
        return st.tuples(st.sampled_from(self.map_keys) | self.more, st.sampled_from(self.user_keys) | self.more)

    @property
    def rows(self) -> KeyRows:
        return KeyRows(KeySchema.of(self.type))

    def array(self, keys: list[Any]) -> pa.Array:
        schema = KeySchema.of(self.type)
        if schema.is_record:
            keys = [dict(zip([column.name for column in schema.columns], key, strict=True)) for key in keys]
        return pa.array(keys, schema.arrow)

    def groups(self, keys: list[Any], max_parallelism: int) -> list[int]:
        return sfkv.key_groups(self.array(keys), max_parallelism, key=self.type).to_pylist()

    def key_of_cells(self, cells: tuple[Any, ...]) -> Any:
        """The key whose columns' values these are."""
        return canonical(cells if KeySchema.of(self.type).is_record else cells[0])

    def batch(self, keys: list[Any], shape: str) -> Any:
        """The same keys as another kind of batch."""
        if shape == "arrow":
            return self.array(keys)
        if shape == "numpy" and self.type in (int, float):
            return np.array(keys, "i8" if self.type is int else "f8")
        schema = KeySchema.of(self.type)
        if shape == "columns" and schema.is_record:
            return {column.name: [key[i] for key in keys] for i, column in enumerate(schema.columns)}
        return keys


def canonical(key: Any) -> Any:
    """The key as dicts can find it: every NaN is the same."""
    if isinstance(key, tuple):
        return tuple(map(canonical, key))
    return NAN if isinstance(key, float) and math.isnan(key) else key


def order(key: Any) -> Any:
    """Sorts keys as sfkv promises, without looking at their bytes: None first, NaN last."""
    parts = key if isinstance(key, tuple) else (key,)
    return [(0, 0) if part is None else (2, 0) if canonical(part) is NAN else (1, part) for part in parts]


# --- Keys that collide, found once by looking at many.


def murmur3(rows: np.ndarray) -> np.ndarray:
    """MurmurHash3 for x86, 32 bits, seed 42, of each row of a matrix of bytes: written from its description."""

    def rotl(value: np.ndarray, bits: int) -> np.ndarray:
        return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))

    count, size = rows.shape
    padded = np.zeros((count, -(-size // 4) * 4), "u1")
    padded[:, :size] = rows
    blocks = padded.view("<u4") * np.uint32(0xCC9E2D51)
    blocks = rotl(blocks, 15) * np.uint32(0x1B873593)
    hashes = np.full(count, 42, "u4")
    for i in range(size // 4):
        hashes = rotl(hashes ^ blocks[:, i], 13) * np.uint32(5) + np.uint32(0xE6546B64)
    if size % 4:
        hashes ^= blocks[:, -1]
    hashes ^= np.uint32(size)
    hashes = (hashes ^ hashes >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return hashes ^ hashes >> np.uint32(16)


def same_hash(type: Any, candidates: list[Any], pairs: int = 3) -> list[Any]:
    """Some pairs of different keys with one hash. All rows must have one length."""
    rows = KeyRows(KeySchema.of(type)).rows_of(candidates)
    hashes = murmur3(np.frombuffer(b"".join(rows), "u1").reshape(len(rows), -1))
    by_hash = np.argsort(hashes, kind="stable")
    equal = np.flatnonzero(hashes[by_hash][1:] == hashes[by_hash][:-1])[:pairs]
    return [candidates[by_hash[i + more]] for i in equal for more in (0, 1)]


def same_group(type: Any, candidates: list[Any], most: int = 5) -> list[Any]:
    """Keys in the last of 32,768 key groups that any of the candidates has."""
    schema = KeySchema.of(type)
    keys = (
        [dict(zip((c.name for c in schema.columns), key, strict=True)) for key in candidates]
        if schema.is_record
        else candidates
    )
    groups = sfkv.key_groups(pa.array(keys, schema.arrow), 32768, key=type).to_numpy()
    return [candidates[i] for i in np.flatnonzero(groups == groups.max())[:most]]


def _kind(type: Any, pool: list[Any], more: st.SearchStrategy[Any], candidates: list[Any], *, colliding: bool) -> Kind:
    pool = [*pool, *(same_hash(type, candidates) if colliding else []), *same_group(type, candidates)]
    pool = list(dict.fromkeys(map(canonical, pool)))
    lengths = [len(row) for row in KeyRows(KeySchema.of(type)).rows_of(pool)]
    longest_user_key = 300
    map_keys = [key for key, length in zip(pool, lengths, strict=True) if length + longest_user_key <= 65_535]
    user_keys = [key for key, length in zip(pool, lengths, strict=True) if length <= longest_user_key]
    return Kind(type, pool, map_keys, user_keys, more)


# --- The kinds.


def _text() -> Kind:
    pool = [
        "",
        "a",
        "a\0",
        "a\0\0",
        "a\0b",
        "a\1",
        "aa",
        "ab",
        "b",
        "\x7f",
        "\x80",
        "\u07ff",
        "\u0800",
        "ü",
        "u\u0308",
        "\ud7ff",
    ]
    pool += [
        "\ue000",
        "\uffff",
        "\U00010000",
        "\U0001f600",
        "\U0010ffff",
        "\U0010ffff\0",
        "\U0010ffff" * 16,
        "\U0010ffff" * 16_250,
    ]
    pool += ["\0" * n for n in (1, 2, 3, 8, 127, 4096, 32_000)] + ["a" * n for n in LENGTHS] + ["a" * 255 + "b", "\0" * 7 + "a"]
    pool += ["AaAa", "AaBB", "BBAa", "BBBB", "Aa" * 16, "BB" * 16]  # pairs of equal hash in Java
    more = st.text(st.sampled_from("\0\1a\xff\U0010ffff") | st.characters(exclude_categories=["Cs"]), max_size=20)
    return _kind(str, pool, more, [f"{i:06d}" for i in range(CANDIDATES)], colliding=False)


def _binary() -> Kind:
    pool = [
        b"",
        b"a",
        b"a\0",
        b"a\0\xff",
        b"a\0\0",
        b"a\xff",
        b"\0\xff",
        b"\xff\0",
        b"\1",
        b"\0\1",
        b"\xfe",
        b"\xff\xfe",
        b"\x80",
    ]
    pool += [b"\0" * n for n in (1, 2, 3, 7, 8, 9, 127, 128, 4096, 32_766)] + [b"\xff" * n for n in (1, 2, 3, *LENGTHS, 65_533)]
    pool += [
        b"\xff\xff\0",
        b"\xff\xff\1",
        b"\xff\xff\2",
        b"\xff\xff\3",
        b"\0\0\0\0\0\0\0a",
        b"ab" * 2048,
    ]  # as reserved rows begin
    candidates = [b"%06d" % i for i in range(CANDIDATES)]
    return _kind(bytes, pool, st.binary(max_size=20), candidates, colliding=True)


def _int() -> Kind:
    pool = [
        *INTS,
        *range(-3, 4),
        *(i << 32 | i for i in range(1, 4)),
        *(2**i for i in range(8, 63, 9)),
    ]  # (i, i) hash to 0 in Java
    return _kind(int, pool, st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50), list(range(CANDIDATES)), colliding=False)


def _float() -> Kind:
    more = st.floats().map(canonical)
    return _kind(float, FLOATS, more, [i / 7 for i in range(CANDIDATES)], colliding=True)


def _bool() -> Kind:
    return _kind(bool, [False, True], st.booleans(), [False, True], colliding=False)


def _date() -> Kind:
    candidates = [dt.date.fromordinal(i) for i in range(1, CANDIDATES)]  # four bytes: no two have one hash
    return _kind(dt.date, DATES, st.dates(), candidates, colliding=False)


def _timestamp() -> Kind:
    candidates = [dt.datetime(2000, 1, 1) + dt.timedelta(seconds=1009 * i, microseconds=i) for i in range(CANDIDATES)]
    return _kind(dt.datetime, TIMES, st.datetimes(), candidates, colliding=True)


def _zoned() -> Kind:
    """Moments in UTC: where clocks change, Python takes two for one (test_keys.py)."""
    first = dt.datetime(2000, 1, 1, tzinfo=UTC)
    candidates = [first + dt.timedelta(seconds=1009 * i, microseconds=i) for i in range(CANDIDATES)]
    more = st.datetimes(timezones=st.just(UTC))
    return _kind(pa.timestamp("us", "UTC"), [t.replace(tzinfo=UTC) for t in TIMES], more, candidates, colliding=True)


def _narrow() -> Kind:
    pool = [(i, j) for i in (-128, -1, 0, 1, 127, None) for j in (-(2**15), -1, 0, 2**15 - 1)]
    more = st.tuples(st.none() | st.integers(-128, 127), st.integers(-(2**15), 2**15 - 1))
    type = pa.schema([pa.field("a", pa.int8()), pa.field("b", pa.int16(), nullable=False)])
    return _kind(type, pool, more, [(i % 251 - 125, i // 251 - 400) for i in range(CANDIDATES)], colliding=False)


def _composite() -> Kind:
    texts = ["", "\0", "a", "a\0", "ab", "b", "\U0010ffff", "a" * 255]
    pool = [(text, number) for text in texts for number in (None, 0, -1, 1, -(2**63))]
    pool += [("a" * n, None) for n in LENGTHS] + [("\0" * 4096, 2**63 - 1), ("\0\1", 0), ("\0\1\x80", 0)]
    text = st.text(st.sampled_from("\0\1a\xff\U0010ffff"), max_size=6)
    more = st.tuples(text, st.none() | st.integers(-(2**63), 2**63 - 1))
    candidates = [(f"{i:06d}", i) for i in range(CANDIDATES)]
    return _kind({"a": str, "b": int | None}, pool, more, candidates, colliding=True)


def _pair() -> Kind:
    """Two texts, of which many differ only in where the first ends; or two binaries."""
    whole = ["", "a", "ab", "abc", "\0", "\0\0", "a\0", "a\0b", "\U0010ffff"]
    pool = [(one[:i], one[i:]) for one in whole for i in range(len(one) + 1)]
    pool += [(one and one[:i], None) for one in whole for i in range(len(one) + 1)] + [
        (None, None),
        (None, ""),
        ("", None),
        (None, "a"),
    ]
    pool += [("a" * n, "a" * (255 - n)) for n in (0, 1, 127, 254, 255)] + [("\0" * n, "\0" * (8 - n)) for n in range(9)]
    text = st.none() | st.text(st.sampled_from("\0\1ab\xff"), max_size=4)
    candidates = [(f"{i // 400:03d}", f"{i % 400:03d}") for i in range(CANDIDATES)]
    return _kind({"a": str | None, "b": str | None}, pool, st.tuples(text, text), candidates, colliding=True)


def _mixed() -> Kind:
    columns = {"f": float | None, "t": bool | None, "d": dt.date | None, "s": dt.datetime | None, "b": bytes | None}
    base = (1.0, True, dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), b"a")
    others = [(None, *FLOATS), (None, False), (None, *DATES), (None, *TIMES), (None, b"", b"\0", b"\xff" * 255, b"a\0")]
    pool = [base, (None,) * 5, (0.0, False, dt.date.min, dt.datetime.min, b"")]
    pool += [(*base[:i], part, *base[i + 1 :]) for i, parts in enumerate(others) for part in parts]
    pool += [tuple(None if mask >> i & 1 else base[i] for i in range(5)) for mask in range(32)]
    parts = (st.floats().map(canonical), st.booleans(), st.dates(), st.datetimes(), st.binary(max_size=4))
    candidates = [(i / 7, True, dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), b"") for i in range(CANDIDATES)]
    return _kind(columns, pool, st.tuples(*(st.none() | part for part in parts)), candidates, colliding=True)


_MAKERS = {
    "text": _text,
    "bytes": _binary,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "date": _date,
    "timestamp": _timestamp,
    "zoned": _zoned,
    "narrow": _narrow,
    "composite": _composite,
    "pair": _pair,
    "mixed": _mixed,
}
KINDS = sorted(_MAKERS)


@functools.cache
def kind(name: str) -> Kind:
    """A kind by its name; what collides is looked for when it is first asked for."""
    return _MAKERS[name]()


def other_nans() -> list[float]:
    """NaNs that differ in their bits."""
    return [
        struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8 << 48, 0xFFF8 << 48, 0x7FF0 << 48 | 1, 2**64 - 1)
    ]
