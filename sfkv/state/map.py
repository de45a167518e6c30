"""MapState: a map of user keys to values for each key."""

from __future__ import annotations

import operator
from collections.abc import Iterator, KeysView, Mapping, MutableMapping
from typing import Any, NoReturn

import pyarrow as pa

from sfkv import _map, _table
from sfkv._errors import BusyError, ClosedError, SchemaError
from sfkv._offsets import encode_offset
from sfkv._types import KeySchema, ValueSchema
from sfkv.state.scan import Scan, ScanColumns, not_iterable


class MapState:
    """A map of user keys to values for each key. Made by ``keyed.map_state(name, user_key, value)``.

    Each entry is a row of its own: reading or writing one costs that one, however large the map is. The entries of a key lie
    in the order of their user keys. A value may be None, which is not the same as absent. An empty map is absent.
    """

    def __init__(self, name: str, table: _table.Table, key: KeySchema, user_key: KeySchema, value: ValueSchema) -> None:
        self._name = name
        self._table = table
        self._maps = _map.MapTable(table)
        self._key = key
        self._user_key = user_key
        self._value = value
        self.get = self._maps.get  # type: ignore[method-assign]  # as in ValueState
        self.put = self._maps.put  # type: ignore[method-assign]

    @property
    def name(self) -> str:
        """What it was registered as."""
        return self._name

    @property
    def type(self) -> pa.DataType:
        """What a key's map is in Arrow."""
        return pa.map_(self._user_key.arrow, self._value.arrow)

    # --- One entry, and one key.

    def get(self, key: Any, user_key: Any, default: Any = None) -> Any:
        """The value of an entry, or ``default`` where there is none; None where None is stored.

        Raises:
            SchemaError, KeyGroupError, ClosedError, BusyError, StorageError
        """
        return self._maps.get(key, user_key, default)

    def put(self, key: Any, user_key: Any, value: Any) -> None:
        """Sets an entry; None is stored as a value.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError, StorageError: nothing was written.
        """
        self._maps.put(key, user_key, value)

    def delete(self, key: Any, user_key: Any) -> None:
        """Removes an entry, if it is there. Raises as ``put``."""
        self._maps.delete(key, user_key)

    def put_all(self, key: Any, mapping: Mapping[Any, Any]) -> None:
        """Sets several entries of a key; an empty mapping does nothing.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError: nothing was written.
            StorageError: pieces of ``write_batch_bytes`` may have been written, in order; in ``keyed.batch()`` all or none is.
        """
        if not isinstance(mapping, Mapping):
            raise SchemaError(f"a mapping is expected, and {mapping!r} is none [state {self._name!r}]", state=self._name)
        self._maps.put_all(key, mapping)

    def is_empty(self, key: Any) -> bool:
        """Whether a key has no entry. One seek, however large the map is."""
        return self._maps.is_empty(key)

    def clear(self, key: Any) -> None:
        """Removes all entries of a key: one by one up to 1,000 of them, else by a range. Raises as ``put``."""
        self._maps.clear(key)

    def __contains__(self, key: Any) -> bool:
        """Whether a key has an entry."""
        return not self._maps.is_empty(key)

    def __getitem__(self, key: Any) -> MapView:
        """The map of a key as a MutableMapping, which works on the state; empty if there is none."""
        return MapView(self._maps, key)

    def __iter__(self) -> NoReturn:
        """UsageError: a state is scanned."""
        raise not_iterable(self._name)

    # --- Batches.

    def get_many(self, keys: Any, user_keys: Any) -> Any:
        """The values of a batch of entries.

        Args:
            keys: as for every batch; see ``ValueState.get_many``.
            user_keys: likewise, as many as keys: the two name one entry each.

        Returns:
            An Arrow array, aligned with the entries, null where there is none and where it is None (``contains_many`` tells
            them apart); a list of objects where a serializer made them.

        Raises:
            SchemaError, KeyGroupError, ClosedError, BusyError, StorageError
            LimitError: the answer has more than 2^31 - 1 bytes in one column.
        """
        return self._maps.get_many(keys, user_keys)

    def put_many(self, keys: Any, user_keys: Any, values: Any, *, offset: Any = None) -> None:
        """Sets a batch of entries; a null is stored as None. Of several for one entry the last counts.

        Args:
            keys: as for ``get_many``.
            user_keys: as for ``get_many``.
            values: as many as keys; as for ``ValueState.put_many``.
            offset: stored in the same write; see ``ValueState.put_many``.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError: nothing was written.
            StorageError: without an offset, pieces of ``write_batch_bytes`` may have been written, in order.
        """
        self._maps.put_many(keys, user_keys, values, encode_offset(offset))

    def delete_many(self, keys: Any, user_keys: Any, *, offset: Any = None) -> None:
        """Removes a batch of entries. Arguments and errors as of ``put_many``."""
        self._maps.delete_many(keys, user_keys, encode_offset(offset))

    def items_many(self, keys: Any) -> Any:
        """The maps of a batch of keys.

        Returns:
            An Arrow map array, aligned with the keys, the entries of each in the order of their user keys; empty where there
            are none. A list of dicts of objects where a serializer made the values.

        Raises:
            SchemaError, KeyGroupError, ClosedError, BusyError, StorageError
            LimitError: the answer has more than 2^31 - 1 entries, or bytes in one column.
        """
        return self._maps.items_many(keys)

    def contains_many(self, keys: Any, user_keys: Any = None) -> pa.Array:
        """Which keys have an entry; with ``user_keys``, which entries there are.

        Args:
            keys: as for ``get_many``.
            user_keys: as many as keys; None to ask for keys.

        Returns:
            A boolean array, aligned with the keys.

        Raises:
            SchemaError, KeyGroupError, ClosedError, BusyError, StorageError
        """
        return self._maps.contains_many(keys, user_keys)

    def clear_many(self, keys: Any, *, offset: Any = None) -> None:
        """Removes all entries of a batch of keys. ``offset`` and errors as for ``put_many``."""
        self._maps.clear_many(keys, encode_offset(offset))

    # --- All keys.

    def scan(self, *, batch_rows: int = 65536) -> Scan:
        """All entries, one a row, as record batches of up to ``batch_rows`` rows, as of now.

        Raises:
            UsageError: a batch is open.
            ConfigError: ``batch_rows``.
            ClosedError, BusyError, StorageError
        """
        return Scan(self._table, batch_rows, ScanColumns(self._key, self._value.record_arrow, user_key=self._user_key))

    def scan_keys(self, *, batch_rows: int = 65536) -> Scan:
        """All keys that have an entry, each once. Raises as ``scan``."""
        return Scan(self._table, batch_rows, ScanColumns(self._key, None))

    def __repr__(self) -> str:
        return f"MapState({self._name!r}, {self._user_key}, {self._value})"


_ABSENT = object()


class MapView(MutableMapping[Any, Any]):
    """One key's map, as a mapping that reads and writes the state.

    Iterating sees the map as of its start, in the order of the user keys, and reads it in chunks: entries may be set and
    removed meanwhile. ``len()`` counts by iterating.
    """

    def __init__(self, maps: _map.MapTable, key: Any) -> None:
        self._maps = maps
        self._key = key

    def __getitem__(self, user_key: Any) -> Any:
        value = self._maps.get(self._key, user_key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(user_key)
        return value

    def __setitem__(self, user_key: Any, value: Any) -> None:
        self._maps.put(self._key, user_key, value)

    def __delitem__(self, user_key: Any) -> None:
        if not self._maps.contains(self._key, user_key):
            raise KeyError(user_key)
        self._maps.delete(self._key, user_key)

    def __contains__(self, user_key: object) -> bool:
        return self._maps.contains(self._key, user_key)

    def __iter__(self) -> Iterator[Any]:
        return self._maps.entries(self._key, with_values=False)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return not self._maps.is_empty(self._key)

    def items(self) -> Any:
        """The entries, in the order of their user keys; each pass reads the map once."""
        return _Items(self)

    def values(self) -> Any:
        """The values, in the order of their user keys; each pass reads the map once."""
        return _Values(self)

    def clear(self) -> None:
        """Removes all entries."""
        self._maps.clear(self._key)

    def update(self, *others: Any, **named: Any) -> None:
        """Sets several entries, as ``MapState.put_all`` does; arguments are a dict's."""
        self._maps.put_all(self._key, dict(*others, **named))

    def keys(self) -> KeysView[Any]:
        """The user keys, in order; each pass reads the map once."""
        return _Keys(self)

    def __repr__(self) -> str:
        try:
            return f"MapView({dict(self.items())!r})"
        except (ClosedError, BusyError) as error:
            return f"MapView(key={self._key!r}, {error.code})"


class _Keys(KeysView[Any]):
    """What ``keys()`` gives. Its iterators, unlike generators, go on after an error."""

    def __init__(self, view: MapView) -> None:
        super().__init__(view)
        self._view = view

    def __iter__(self) -> Iterator[Any]:
        return iter(self._view)


class _Items:
    """What ``items()`` gives: each pass over it is one pass over the map, keys and values together."""

    def __init__(self, view: MapView) -> None:
        self._view = view

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._view._maps.entries(self._view._key)

    def __len__(self) -> int:
        return len(self._view)

    def __contains__(self, item: Any) -> bool:
        user_key, value = item
        return bool(self._view._maps.get(self._view._key, user_key, _ABSENT) == value)


class _Values:
    """What ``values()`` gives."""

    def __init__(self, view: MapView) -> None:
        self._view = view

    def __iter__(self) -> Iterator[Any]:
        return map(operator.itemgetter(1), self._view.items())

    def __len__(self) -> int:
        return len(self._view)

    def __contains__(self, value: Any) -> bool:
        return any(value == other for other in self)
