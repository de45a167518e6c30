"""What a store says of itself (its keys, its key groups) against what it is asked for as."""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sfkv import _batch, _store
from sfkv._descriptions import UNREADABLE, read_operator
from sfkv._errors import ConfigError, CorruptionError, FormatError, KeyGroupError, SchemaError, StorageError
from sfkv._types import KeySchema
from sfkv.backend.routing import MAX_PARALLELISM, parse_parallelism
from sfkv.checkpoint.manifest import Snapshot
from sfkv.config._options import parse_path

_DEFAULT_MAX_PARALLELISM = 128


def parse_range(path: Path | None, max_parallelism: Any, key_groups: Any) -> tuple[int | None, tuple[int, int] | None]:
    """The two as they are asked for, before anything is made: a new store has the default of the first."""
    count = None if max_parallelism is None else parse_parallelism(max_parallelism)
    if key_groups is None:
        return count, None
    is_new = path is None or not os.path.exists(path / "SFKV")
    return count, _check_range(key_groups, count or (_DEFAULT_MAX_PARALLELISM if is_new else MAX_PARALLELISM))


def parse_directory(path: Any) -> Path:
    """The directory of a store, as an absolute path whose last part is its name."""
    directory = parse_path(path, "path", "state on disk needs a directory; HashMapStateBackend takes None").absolute()
    return directory.resolve() if ".." in directory.parts else directory


@contextlib.contextmanager
def asking_for_a_key(path: Path, key: KeySchema | None, create: bool) -> Iterator[None]:
    """Opens a directory. If that fails because there is no store in it, and none can be made without a key, says so."""
    try:
        yield
    except StorageError as error:
        if create and key is None and not os.path.exists(path / "SFKV"):
            raise ConfigError(f"{path} holds no store yet: pass key=, such as key=str, to make one") from error
        raise


def agree(
    store: _store.Store, key: KeySchema | None, max_parallelism: int | None, key_groups: tuple[int, int] | None
) -> KeySchema:
    """Compares what the store says of itself with what was asked for; a new store is told."""
    row = store.reserved_rows().get(_store.STORE_ROW)
    if row is None:
        if key is None:
            raise ConfigError(
                f"{store.path} does not know its keys, because who made it ended at once: pass key=, such as key=str"
            )
        max_parallelism = max_parallelism or _DEFAULT_MAX_PARALLELISM
        first, last = _check_range((0, max_parallelism - 1) if key_groups is None else key_groups, max_parallelism)
        description = {"key": key.describe(), "max_parallelism": max_parallelism, "key_groups": [first, last]}
        _batch.write_rows(store, {_store.STORE_ROW: msgspec.json.encode(description)}, "open")
        store.own(max_parallelism, first, last)
        return key
    try:
        stored = read_operator(row)
    except UNREADABLE as error:
        raise CorruptionError(f"Corruption: {store.path} does not describe itself: {error}", path=store.path) from error
    if key is not None:
        _compare_keys(stored.key_schema, key, store.path)
    if max_parallelism not in (None, stored.max_parallelism):
        raise FormatError(
            f"{store.path} has max_parallelism={stored.max_parallelism}, and was asked for with {max_parallelism}: "
            "it can never change",
            path=store.path,
            code="max_parallelism",
        )
    if key_groups is not None:
        _compare_ranges(stored.key_groups, _check_range(key_groups, stored.max_parallelism), store.path)
    store.own(stored.max_parallelism, *stored.key_groups)
    return stored.key_schema


def agree_with(snapshot: Snapshot, key: Any, key_groups: tuple[int, int] | None) -> KeySchema:
    """Compares a snapshot with what it is to be restored as, as far as that is given; returns its keys."""
    schema = KeySchema.parse(snapshot.key)
    if key is not None:
        _compare_keys(schema, KeySchema.of(key), str(snapshot.path))
    if key_groups is not None:
        _compare_ranges(snapshot.key_groups, _check_range(key_groups, snapshot.max_parallelism), str(snapshot.path))
    return schema


def _check_range(key_groups: tuple[int, int], max_parallelism: int) -> tuple[int, int]:
    try:
        first, last = map(operator.index, key_groups)
        if 0 <= first <= last < max_parallelism:
            return first, last
    except (TypeError, ValueError):
        pass
    raise ConfigError(
        f"key_groups is {key_groups!r}: pass (first, last), with 0 <= first <= last < max_parallelism={max_parallelism}"
    )


def _compare_keys(stored: KeySchema, wanted: KeySchema, path: str) -> None:
    if stored.describe() != wanted.describe():
        raise SchemaError(
            f"{path} has keys of {stored}, and was asked for with {wanted}: rows lie by their keys, which cannot change: "
            "open it with the stored type, or write its rows into a new store",
            path=path,
        )


def _compare_ranges(stored: tuple[int, int], wanted: tuple[int, int], path: str) -> None:
    if tuple(stored) != tuple(wanted):
        raise KeyGroupError(
            f"{path} has the key groups {stored[0]} to {stored[1]}, and was asked for with {wanted[0]} to {wanted[1]}: "
            "a range is fixed when a store is made",
            path=path,
        )
