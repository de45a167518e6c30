"""Key groups, so that any router can agree with a backend."""

from __future__ import annotations

import operator
from typing import Any

import pyarrow as pa

from sfkv import _rows
from sfkv._errors import ConfigError, SchemaError
from sfkv._types import KeySchema
from sfkv.config._options import whole_number

MAX_PARALLELISM = 32768


def parse_parallelism(max_parallelism: Any) -> int:
    count = whole_number(max_parallelism)
    if count is None or not 1 <= count <= MAX_PARALLELISM:
        raise ConfigError(f"max_parallelism is {max_parallelism!r}: use a whole number from 1 to {MAX_PARALLELISM}")
    return count


def key_groups(keys: Any, max_parallelism: int = 128, *, key: Any = None) -> pa.Array:
    """The key group of each key of a batch: ``murmur(hash) mod max_parallelism``, as Apache Flink computes it.

    Single int32, int64 and utf8 keys get Java's hash, so that an operator agrees with a Flink shuffle; all others
    MurmurHash3 over the bytes of the key.

    Args:
        keys: as every batch of keys: an Arrow or NumPy array, a list, or several columns.
        max_parallelism: 1 to 32768; the same as the backend's.
        key: the key's schema, as the backend's. Without it, the type of the keys counts.

    Returns:
        An int32 array, aligned with the keys.

    Raises:
        SchemaError: keys do not fit ``key``, or do not tell their type without it; names the row.
        ConfigError: ``max_parallelism``.

    Source:
        FORMAT.md section 2.
    """
    max_parallelism = parse_parallelism(max_parallelism)
    if key is None:
        key = _type_of(keys)
    return _rows.key_groups(KeySchema.of(key), keys, max_parallelism)


def _type_of(keys: Any) -> Any:
    """What keys are that come without a schema."""
    if isinstance(keys, (pa.RecordBatch, pa.Table)):
        return keys.schema
    try:
        return pa.array(keys).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"the keys do not tell their type: pass key=, such as key=str ({error})") from error


def key_group_range(index: int, parallelism: int, max_parallelism: int = 128) -> tuple[int, int]:
    """The key groups, first and last, that worker ``index`` of ``parallelism`` owns, by Flink's formula.

    Raises:
        ConfigError: unless ``0 <= index < parallelism <= max_parallelism <= 32768``.
    """
    max_parallelism = parse_parallelism(max_parallelism)
    try:
        index, parallelism = operator.index(index), operator.index(parallelism)
        is_worker = 0 <= index < parallelism <= max_parallelism
    except TypeError:
        is_worker = False
    if not is_worker:
        raise ConfigError(
            f"worker {index!r} of {parallelism!r} with max_parallelism={max_parallelism}: use 0 <= index < parallelism <= it"
        )
    return _rows.range_of(index, parallelism, max_parallelism)
