"""Hypothesis strategies: types that sfkv has, plain values of them, as decoder.py has them, and arrays in every layout."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sfkv._types import MAX_TYPE_DEPTH
from tests.format.arrays import Builder, is_texty, storage_of, zero

types = pa.types

UNITS = ("s", "ms", "us", "ns")
ZONES = (None, "UTC", "Europe/Berlin", "+05:30", "America/St_Johns")
TEXTS = (
    "",
    "a",
    "\0",
    "a\0",
    "\0\0",
    "a\0b",
    "ab",
    "\x7f",
    "ü",
    "u\u0308",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
)
_FLOATS = {
    # 0.0, -0.0, 1.0, -1.0, infinities, the quiet NaN, NaNs of other bits, the least and the largest numbers
    16: (0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 1, 0x8001, 0x7BFF),
    32: (
        0,
        1 << 31,
        0x3F800000,
        0xBF800000,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0xFFC00001,
        0x7F800001,
        1,
        0x80000001,
        0x7F7FFFFF,
    ),
    64: (
        *(0, 1 << 63, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF8 << 48 | 1, 0x7FF << 52 | 1),
        *(1, 1 << 63 | 1, (0x7FF << 52) - 1),
    ),
}

# --- Types.


@st.composite
def decimals(draw: st.DrawFn) -> pa.DataType:
    wide = draw(st.booleans())
    most = 76 if wide else 38
    precision = draw(st.sampled_from((1, 2, 18, 19, most - 1, most)))
    scale = draw(st.sampled_from((0, 1, precision, -1, -5, most + 3)))
    return (pa.decimal256 if wide else pa.decimal128)(precision, scale)


PLAIN = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.utf8(), pa.large_utf8(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1), pa.binary(3), pa.binary(16), pa.binary(40)),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), *map(pa.duration, UNITS)),
    *(pa.timestamp(unit, tz=zone) for unit in UNITS for zone in ZONES),
)
scalar_types = st.sampled_from(PLAIN) | st.sampled_from(PLAIN[:26]) | decimals()


def fields(name: str, of: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    return st.builds(pa.field, st.just(name), of, nullable=st.booleans()) | st.just(pa.field(name, pa.null()))


HOLDERS = ("struct", "list", "large_list", "fixed_size_list", "map")


@st.composite
def nested_types(draw: st.DrawFn, depth: int = 4) -> pa.DataType:
    if depth == 1 or draw(st.integers(0, 2)) == 0:
        return draw(scalar_types)
    inner = nested_types(depth=depth - 1)
    holder = draw(st.sampled_from(HOLDERS))
    if holder == "struct":
        return draw(structs(inner))
    return _holding(draw, holder, draw(fields("item", inner)), draw(inner) if holder == "map" else None)


def _holding(draw: st.DrawFn, holder: str, item: pa.Field, key: pa.DataType | None) -> pa.DataType:
    """A list of the items, or a map of the keys to them."""
    if holder == "map":
        return pa.map_(key, item.with_name("value"), keys_sorted=draw(st.booleans()))
    if holder == "fixed_size_list":
        return pa.list_(item, draw(st.integers(1, 4)))
    return pa.list_(item) if holder == "list" else pa.large_list(item)


@st.composite
def structs(draw: st.DrawFn, of: st.SearchStrategy[pa.DataType]) -> pa.DataType:
    return pa.struct([draw(fields(name, of)) for name in "abcdef"[: draw(st.integers(1, 6))]])


@st.composite
def deep_types(draw: st.DrawFn, depth: int = MAX_TYPE_DEPTH) -> pa.DataType:
    """Types that are nested so deep, each level in one other, beside what is not."""
    arrow = draw(scalar_types)
    while depth_of(arrow) < depth:
        item = pa.field("item", arrow, nullable=draw(st.booleans()))
        holder = draw(st.sampled_from(HOLDERS))
        if holder == "struct" or (depth_of(arrow) == depth - 1 and holder == "map"):
            arrow = pa.struct([item, pa.field("b", draw(scalar_types))])
        elif holder == "map" and draw(st.booleans()):
            arrow = pa.map_(arrow, pa.field("value", draw(scalar_types)))
        else:
            arrow = _holding(draw, holder, item, draw(scalar_types))
    return arrow


def depth_of(arrow: pa.DataType) -> int:
    """How deep a type nests, itself counted. A map's entries are structs, which count too."""
    return 1 + (max(depth_of(arrow.field(i).type) for i in range(arrow.num_fields)) if types.is_nested(arrow) else 0)


value_types = nested_types()
records = structs(nested_types(depth=3))


@st.composite
def key_columns(draw: st.DrawFn) -> pa.Schema:
    """One to four columns, of types that have an order."""
    names = "abcd"[: draw(st.integers(1, 4))]
    return pa.schema([pa.field(name, draw(scalar_types), nullable=draw(st.booleans())) for name in names])


# --- Plain values.


def numbers(low: int, high: int) -> st.SearchStrategy[int]:
    """Whole numbers, of which many are at the edges."""
    edges = sorted({n for n in (low, low + 1, -1, 0, 1, 127, 128, 255, 256, high - 1, high) if low <= n <= high})
    return st.sampled_from(edges) | st.integers(low, high)


def scalars(arrow: pa.DataType) -> st.SearchStrategy[Any]:
    """Plain values of a type that holds no others."""
    if types.is_boolean(arrow):
        return st.booleans()
    if types.is_floating(arrow):
        return st.sampled_from(_FLOATS[arrow.bit_width]) | st.integers(0, 2**arrow.bit_width - 1)
    if types.is_decimal(arrow):
        return numbers(1 - 10**arrow.precision, 10**arrow.precision - 1)
    if types.is_fixed_size_binary(arrow):
        size = arrow.byte_width
        return st.sampled_from((bytes(size), b"\xff" * size)) | st.binary(min_size=size, max_size=size)
    if is_texty(arrow):
        texts = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
        return texts if "string" in str(arrow) else texts.map(str.encode) | st.binary(max_size=20)
    return _ticks(arrow)


def _ticks(arrow: pa.DataType) -> st.SearchStrategy[int]:
    if types.is_time(arrow):
        return numbers(0, 86_400 * {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[arrow.unit] - 1)
    bits = storage_of(arrow).bit_width
    if types.is_date64(arrow):
        return numbers(-(10**10), 10**10).map(lambda day: day * 86_400_000)  # whole days, as Arrow has it
    return numbers(0, 2**bits - 1) if types.is_unsigned_integer(arrow) else numbers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def values(arrow: pa.DataType, *, nullable: bool) -> st.SearchStrategy[Any]:
    if types.is_null(arrow):
        return st.none()
    made = _present_values(arrow)
    return st.none() | made if nullable else made


def _present_values(arrow: pa.DataType) -> st.SearchStrategy[Any]:
    if types.is_struct(arrow):
        return st.tuples(*(values(field.type, nullable=field.nullable) for field in arrow)).map(list)
    if types.is_map(arrow):
        item = arrow.item_field
        pair = st.tuples(values(arrow.key_type, nullable=False), values(item.type, nullable=item.nullable)).map(list)
        twice = st.builds(lambda pairs: pairs + pairs[:1], st.lists(pair, max_size=2))  # the same key again
        return st.lists(pair, max_size=3) | twice
    if types.is_nested(arrow):
        item = arrow.value_field
        sizes = (
            {"min_size": arrow.list_size, "max_size": arrow.list_size} if types.is_fixed_size_list(arrow) else {"max_size": 3}
        )
        return st.lists(values(item.type, nullable=item.nullable), **sizes)
    return scalars(arrow)


# --- Arrays.


@st.composite
def arrays(draw: st.DrawFn, plain: list[Any], arrow: pa.DataType) -> pa.Array:
    """The plain values in some layout: sliced, with something under the nulls, dictionaries, views, offsets of 64 bits."""
    rng = draw(st.randoms(use_true_random=False))
    is_simple = draw(st.booleans())

    def spare(arrow: pa.DataType) -> Any:
        return zero(arrow) if is_simple or rng.random() < 0.5 else noise(rng, arrow)

    return Builder(
        spare,
        lambda: 0 if is_simple else rng.choice((0, 0, 1, 2, 9)),
        lambda layouts: layouts[0] if is_simple else rng.choice(layouts),
    ).array(plain, arrow)


def noise(rng: Any, arrow: pa.DataType) -> Any:
    """A plain value that is not the zero, if there is one."""
    if types.is_null(arrow):
        return None
    if types.is_struct(arrow):
        return [noise(rng, field.type) for field in arrow]
    if types.is_map(arrow):
        return [[noise(rng, arrow.key_type), noise(rng, arrow.item_type)]]
    if types.is_nested(arrow):
        return [noise(rng, arrow.value_type)] * (arrow.list_size if types.is_fixed_size_list(arrow) else 2)
    if types.is_fixed_size_binary(arrow) and not types.is_decimal(arrow):
        return b"\xfe" * arrow.byte_width
    if is_texty(arrow):
        text = rng.choice(("x", "noise \0", "ü" * 20))
        return text if "string" in str(arrow) else text.encode()
    if types.is_temporal(arrow):
        return 86_400_000 if types.is_date64(arrow) else 7000  # which Python has objects for, in each unit
    return True if types.is_boolean(arrow) else rng.choice((1, 7))
