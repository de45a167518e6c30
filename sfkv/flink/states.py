"""States that work on the current key. Each call is one of sfkv's state, with the key put before its arguments.

Where values are other objects than Arrow gives, what converts them is put around the state's functions when the state is made:
where they are not, nothing stands between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sfkv._errors import SchemaError, UsageError
from sfkv.flink.types import Convert
from sfkv.state import folded
from sfkv.state import list as lists
from sfkv.state import map as maps
from sfkv.state import value as single

Items = Iterable[tuple[Any, Any]]


class CurrentKey:
    """The key that the states of a context work on. Its one slot is empty until there is one."""

    __slots__ = ("key",)
    key: Any

    def __getattr__(self, name: str) -> Any:
        # Python comes here for what is missing only: so reading the key costs no check that there is one.
        if name != "key":
            raise AttributeError(name)
        raise UsageError(
            "there is no current key: call set_current_key(key) of the context before a state is used",
            operation="current_key",
            code="no_current_key",
        )


class ValueState:
    """One value for the current key. Given by ``RuntimeContext.get_state``."""

    __slots__ = ("_clear", "_current", "_get", "_put", "_state")

    def __init__(self, current: CurrentKey, state: single.ValueState, encode: Convert | None, decode: Convert | None) -> None:
        self._current = current
        self._state = state
        self._get = _decoding(state.get, decode)
        self._put = _encoding(state.put, encode)
        self._clear = state.clear

    def value(self) -> Any:
        """The value, or None."""
        return self._get(self._current.key)

    def update(self, value: Any) -> None:
        """Sets the value; None clears it.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError, StorageError: nothing was written.
        """
        self._put(self._current.key, value)

    def clear(self) -> None:
        """Removes the value, if there is one."""
        self._clear(self._current.key)

    def __repr__(self) -> str:
        return f"flink.{self._state!r}"


class ListState:
    """A list for the current key. Given by ``RuntimeContext.get_list_state``."""

    __slots__ = ("_current", "_decode", "_encode", "_state")

    def __init__(self, current: CurrentKey, state: lists.ListState, encode: Convert | None, decode: Convert | None) -> None:
        self._current = current
        self._state = state
        self._encode = encode
        self._decode = decode

    def get(self) -> list[Any]:
        """The elements in the order of adding, in a new list; empty if there are none."""
        values = self._state.get(self._current.key)
        return values if self._decode is None else list(map(self._decode, values))

    def add(self, value: Any) -> None:
        """Appends an element, without reading the list.

        Raises:
            SchemaError: it does not fit, or is None.
            LimitError: the list would take more than 256 MiB.
        """
        self._state.add(self._current.key, value if self._encode is None or value is None else self._encode(value))

    def add_all(self, values: Iterable[Any]) -> None:
        """Appends several elements by one write; none at all does nothing. Raises as ``add``, and for None."""
        self._state.add_all(self._current.key, self._encoded(values))

    def update(self, values: Iterable[Any]) -> None:
        """Replaces the list; an empty one clears. Raises as ``add``, and for None: ``clear`` is another method."""
        self._state.update(self._current.key, self._encoded(values))

    def clear(self) -> None:
        """Removes the list, if there is one."""
        self._state.clear(self._current.key)

    def _encoded(self, values: Iterable[Any]) -> Iterable[Any]:
        if values is None:
            name = self._state.name
            raise SchemaError(
                f"a list of values is expected, and None is none: clear() empties it [state {name!r}]", state=name
            )
        if self._encode is None or isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            return values  # which the state refuses, if it is no list
        encode = self._encode
        return [None if value is None else encode(value) for value in values]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def __repr__(self) -> str:
        return f"flink.{self._state!r}"


class MapCodec:
    """What converts a map's keys and values, each None where nothing differs."""

    __slots__ = ("decode", "decode_key", "encode", "encode_key")

    def __init__(self, keys: tuple[Convert | None, Convert | None], values: tuple[Convert | None, Convert | None]) -> None:
        self.encode_key, self.decode_key = keys
        self.encode, self.decode = values


class MapState:
    """A map for the current key, one row an entry. Given by ``RuntimeContext.get_map_state``.

    Entries come in the order of their keys. A pass over them sees the map as of its start; entries may be set and removed
    meanwhile. What ``items()``, ``keys()`` and ``values()`` give stays with the key that was current then.
    """

    __slots__ = ("_codec", "_current", "_delete", "_get", "_put", "_state")

    def __init__(self, current: CurrentKey, state: maps.MapState, codec: MapCodec) -> None:
        self._current = current
        self._state = state
        self._codec = codec
        self._get = _of_user_key(_decoding(state.get, codec.decode), codec.encode_key)
        self._put = _of_user_key(_encoding(state.put, codec.encode), codec.encode_key)
        self._delete = _of_user_key(state.delete, codec.encode_key)

    def get(self, key: Any) -> Any:
        """The value of an entry; None where there is none, and where None is stored (``contains`` tells them apart)."""
        return self._get(self._current.key, key)

    def put(self, key: Any, value: Any) -> None:
        """Sets an entry; None is stored as a value.

        Raises:
            SchemaError, LimitError, KeyGroupError, ClosedError, BusyError, StorageError: nothing was written.
        """
        self._put(self._current.key, key, value)

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Sets several entries; an empty dict does nothing. Raises as ``put``, and if it is no mapping.

        After a StorageError pieces of ``write_batch_bytes`` may have been written; in ``keyed.batch()`` all or none is.
        """
        self._state.put_all(self._current.key, self._encoded(dict_value))

    def remove(self, key: Any) -> None:
        """Removes an entry, if it is there. Reads nothing."""
        self._delete(self._current.key, key)

    def contains(self, key: Any) -> bool:
        """Whether there is an entry."""
        encode = self._codec.encode_key
        return bool((key if encode is None else encode(key)) in self._state[self._current.key])

    def items(self) -> Items:
        """The entries; each pass over them reads the map once."""
        decode = self._pairs()
        items = self._state[self._current.key].items()
        return items if decode is None else Decoded(items, decode)

    def keys(self) -> Iterable[Any]:
        """The keys of the entries, whose values are not decoded."""
        decode = self._codec.decode_key
        keys = self._state[self._current.key].keys()
        return keys if decode is None else Decoded(keys, decode)

    def values(self) -> Iterable[Any]:
        """The values of the entries, in the order of their keys."""
        decode = self._codec.decode
        values = self._state[self._current.key].values()
        return values if decode is None else Decoded(values, _unless_none(decode))

    def is_empty(self) -> bool:
        """Whether there is no entry. One seek, however large the map is."""
        return self._state.is_empty(self._current.key)

    def clear(self) -> None:
        """Removes all entries."""
        self._state.clear(self._current.key)

    def _pairs(self) -> Convert | None:
        codec = self._codec
        if codec.decode_key is None and codec.decode is None:
            return None
        decode_key, decode = _unless_none(codec.decode_key), _unless_none(codec.decode)
        return lambda item: (decode_key(item[0]), decode(item[1]))

    def _encoded(self, entries: Mapping[Any, Any]) -> Mapping[Any, Any]:
        codec = self._codec
        if (codec.encode_key is None and codec.encode is None) or not isinstance(entries, Mapping):
            return entries  # which the state refuses, if it is no mapping
        encode_key, encode = _unless_none(codec.encode_key), _unless_none(codec.encode)
        return {encode_key(key): encode(value) for key, value in entries.items()}

    def __getitem__(self, key: Any) -> Any:
        """As ``get``: None, and no error, where there is no entry."""
        return self.get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        """As ``remove``: no error where there is no entry."""
        self.remove(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __repr__(self) -> str:
        return f"flink.{self._state!r}"


class FoldedState:
    """What was added, folded for the current key."""

    __slots__ = ("_add", "_clear", "_current", "_get", "_state")

    def __init__(self, current: CurrentKey, state: folded.FoldedState, encode: Convert | None, decode: Convert | None) -> None:
        self._current = current
        self._state = state
        self._get = _decoding(state.get, decode)
        self._add = _encoding(state.add, encode)
        self._clear = state.clear

    def get(self) -> Any:
        """What it was folded into, or None if nothing was added.

        Raises:
            UsageError: the function's ``get_result`` raised.
        """
        return self._get(self._current.key)

    def add(self, value: Any) -> None:
        """Folds a value into what is there.

        Raises:
            SchemaError: it is None, does not fit its type, or needs one (``in_type_info``); the state is as it was.
            UsageError: the function raised; the state is as it was.
        """
        self._add(self._current.key, value)

    def clear(self) -> None:
        """Forgets what was added, if anything was."""
        self._clear(self._current.key)

    def __repr__(self) -> str:
        return f"flink.{self._state!r}"


class ReducingState(FoldedState):
    """What was added, combined into one value for the current key. Given by ``RuntimeContext.get_reducing_state``."""

    __slots__ = ()


class AggregatingState(FoldedState):
    """What was added, folded into an accumulator for the current key. Given by ``RuntimeContext.get_aggregating_state``."""

    __slots__ = ()


class Decoded:
    """Entries, keys or values, each converted when it is reached. Each pass begins anew."""

    def __init__(self, parts: Iterable[Any], decode: Convert) -> None:
        self._parts = parts
        self._decode = decode

    def __iter__(self) -> Iterator[Any]:
        return map(self._decode, self._parts)


def _unless_none(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _decoding(get: Callable[..., Any], decode: Convert | None) -> Callable[..., Any]:
    """``get``, whose answers are decoded."""
    if decode is None:
        return get

    def decoded(*where: Any) -> Any:
        stored = get(*where)
        return None if stored is None else decode(stored)

    return decoded


def _encoding(put: Callable[..., Any], encode: Convert | None) -> Callable[..., Any]:
    """``put``, whose last argument is encoded. What None means is the state's to say."""
    if encode is None:
        return put

    def encoded(*arguments: Any) -> None:
        *where, value = arguments
        put(*where, None if value is None else encode(value))

    return encoded


def _of_user_key(call: Callable[..., Any], encode_key: Convert | None) -> Callable[..., Any]:
    """``call``, whose second argument is a user key that is encoded."""
    if encode_key is None:
        return call
    return lambda key, user_key, *rest: call(key, encode_key(user_key), *rest)
