"""Arrow arrays as the decoder's plain values, and arrays of such values, in whatever layout Arrow has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

types = pa.types

_UNSIGNED = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_SIGNED = {32: pa.int32(), 64: pa.int64()}


def storage_of(arrow: pa.DataType) -> pa.DataType:
    """The whole numbers that a type's values are plainly: the bits of floats, the ticks of times."""
    if types.is_floating(arrow):
        return _UNSIGNED[arrow.bit_width]
    return _SIGNED[arrow.bit_width] if types.is_temporal(arrow) else arrow


def is_texty(arrow: pa.DataType) -> bool:
    fixed = types.is_fixed_size_binary(arrow)
    return (
        not fixed
        and not types.is_nested(arrow)
        and str(arrow).replace("large_", "").replace("_view", "") in ("string", "binary")
    )


def plain(array: pa.Array) -> list[Any]:
    """What the decoder says of the array's values."""
    arrow = array.type
    if types.is_dictionary(arrow):
        distinct = plain(array.dictionary)
        return [None if index is None else distinct[index] for index in array.indices.to_pylist()]
    if types.is_struct(arrow):
        fields = [plain(array.field(i)) for i in range(arrow.num_fields)]
        return _present(array, [list(row) for row in zip(*fields, strict=True)])
    if types.is_map(arrow):
        pairs = [list(pair) for pair in zip(plain(array.keys), plain(array.items), strict=True)]
        return _sliced(array, pairs, array.offsets.to_pylist())
    if types.is_fixed_size_list(arrow):
        ends = range(array.offset * arrow.list_size, (array.offset + len(array)) * arrow.list_size + 1, arrow.list_size)
        return _sliced(array, plain(array.values), ends)
    if types.is_list(arrow) or types.is_large_list(arrow):
        return _sliced(array, plain(array.values), array.offsets.to_pylist())
    if types.is_decimal(arrow):
        width = arrow.bit_width // 8
        cells = memoryview(array.buffers()[1])[array.offset * width :]
        numbers = [int.from_bytes(cells[i * width : (i + 1) * width], "little", signed=True) for i in range(len(array))]
        return _present(array, numbers)
    return (array if storage_of(arrow) == arrow else array.view(storage_of(arrow))).to_pylist()


def _present(array: pa.Array, values: Sequence[Any]) -> list[Any]:
    return [value if valid else None for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)]


def _sliced(array: pa.Array, items: list[Any], ends: Sequence[int]) -> list[Any]:
    return _present(array, [items[ends[i] : ends[i + 1]] for i in range(len(array))])


class Builder:
    """Makes arrays of plain values.

    Args:
        spare: gives a plain value of a type, which is put where nobody may look: under nulls, before and behind slices.
        padding: how many such rows there are, before and behind the array's own, at each level; called for each.
        layout: picks one of the layouts that a text, binary or list may have; called with them.
    """

    def __init__(self, spare: Any, padding: Any, layout: Any) -> None:
        self._spare = spare
        self._padding = padding
        self._layout = layout

    def array(self, values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
        """The values as an array of the type, in some layout."""
        before, behind = self._padding(), self._padding()
        filled = [self._spare(arrow) for _ in range(before)] + list(values) + [self._spare(arrow) for _ in range(behind)]
        return self._whole(filled, arrow).slice(before, len(values))

    def _whole(self, values: list[Any], arrow: pa.DataType) -> pa.Array:
        mask = pa.array([value is None for value in values], pa.bool_()) if None in values else None
        if types.is_null(arrow):
            return pa.nulls(len(values))
        full = [self._spare(arrow) if value is None else value for value in values]
        if types.is_struct(arrow):
            return self._structs(full, arrow, mask)
        if types.is_map(arrow) or types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
            return self._lists(full, arrow, mask)
        if is_texty(arrow):
            return self._texts(full, values, arrow)
        return with_nulls(_numbers(full, arrow), mask)

    def _structs(self, values: list[Any], arrow: pa.DataType, mask: pa.Array | None) -> pa.Array:
        children = [self.array([value[i] for value in values], field.type) for i, field in enumerate(arrow)]
        fields = [field.with_type(child.type) for field, child in zip(arrow, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)

    def _lists(self, values: list[Any], arrow: pa.DataType, mask: pa.Array | None) -> pa.Array:
        items = [item for value in values for item in value]
        if types.is_fixed_size_list(arrow):
            child = self.array(items, arrow.value_type)
            whole = pa.list_(arrow.value_field.with_type(child.type), arrow.list_size)
            return pa.FixedSizeListArray.from_arrays(child, type=whole, mask=mask)
        ends = [0]
        for value in values:
            ends.append(ends[-1] + len(value))
        if types.is_map(arrow):
            keys, entries = ([pair[i] for pair in items] for i in (0, 1))
            key, item = self.array(keys, arrow.key_type), self.array(entries, arrow.item_type)
            whole = pa.map_(arrow.key_field.with_type(key.type), arrow.item_field.with_type(item.type), arrow.keys_sorted)
            return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), key, item, type=whole, mask=mask)
        child = self.array(items, arrow.value_type)
        large = self._layout([types.is_large_list(arrow), True, False])
        field = arrow.value_field.with_type(child.type)
        made, whole, offset = (
            (pa.LargeListArray, pa.large_list(field), pa.int64()) if large else (pa.ListArray, pa.list_(field), pa.int32())
        )
        return made.from_arrays(pa.array(ends, offset), child, type=whole, mask=mask)

    def _texts(self, full: list[Any], values: list[Any], arrow: pa.DataType) -> pa.Array:
        is_text = isinstance(full[0], str) if full else "string" in str(arrow)
        layouts = (
            [pa.utf8(), pa.large_utf8(), pa.string_view()] if is_text else [pa.binary(), pa.large_binary(), pa.binary_view()]
        )
        layout = self._layout([arrow, *layouts, pa.dictionary(pa.int8(), arrow)])
        mask = pa.array([value is None for value in values], pa.bool_()) if None in values else None
        if not types.is_dictionary(layout):
            return with_nulls(pa.array(full, layout), mask)
        distinct = list(dict.fromkeys(full))
        index = self._layout([pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()])
        indices = pa.array([distinct.index(value) for value in full], index)
        return pa.DictionaryArray.from_arrays(with_nulls(indices, mask), pa.array(distinct, arrow))


def with_nulls(array: pa.Array, mask: pa.Array | None) -> pa.Array:
    """The array without the rows of the mask, whose bytes stay where they are."""
    if mask is None:
        return array
    validity = pa.array([not absent for absent in mask.to_pylist()], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(array.type, len(array), [validity, *array.buffers()[1:]])


def _numbers(values: list[Any], arrow: pa.DataType) -> pa.Array:
    """What is no list, struct or text; none is null."""
    if types.is_decimal(arrow):
        cells = b"".join(value.to_bytes(arrow.bit_width // 8, "little", signed=True) for value in values)
        return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(cells)])
    array = pa.array(values, storage_of(arrow))
    return array if array.type == arrow else array.view(arrow)


def simplest(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """The values as an array of exactly this type."""

    def spare(arrow: pa.DataType) -> Any:
        return zero(arrow)

    return Builder(spare, lambda: 0, lambda layouts: layouts[0]).array(values, arrow)


def zero(arrow: pa.DataType) -> Any:
    """A plain value of a type."""
    if types.is_struct(arrow):
        return [None if field.nullable else zero(field.type) for field in arrow]
    if types.is_fixed_size_list(arrow):
        return [None if arrow.value_field.nullable else zero(arrow.value_type)] * arrow.list_size
    if types.is_map(arrow) or types.is_list(arrow) or types.is_large_list(arrow):
        return []
    if types.is_fixed_size_binary(arrow) and not types.is_decimal(arrow):
        return bytes(arrow.byte_width)
    if is_texty(arrow):
        return "" if "string" in str(arrow) else b""
    return None if types.is_null(arrow) else 0 if not types.is_boolean(arrow) else False
