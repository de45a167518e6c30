"""RuntimeContext: the states of a backend in Flink's manner, by descriptors and a current key."""

from __future__ import annotations

from typing import Any

from sfkv._errors import ConfigError, UsageError
from sfkv.backend.keyed import KeyedStateBackend
from sfkv.flink.adapters import AggregateAdapter, check_plain, reducer_of
from sfkv.flink.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from sfkv.flink.states import AggregatingState, CurrentKey, ListState, MapCodec, MapState, ReducingState, ValueState
from sfkv.flink.types import decoder_of, encoder_of, key_decoder_of, key_encoder_of, naming, state_type


class RuntimeContext:
    """The states of a backend, which work on the current key.

    ::

        context = RuntimeContext(keyed)
        count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        for user in stream:
            context.set_current_key(user)
            count.update((count.value() or 0) + 1)

    Args:
        keyed: what ``open`` and ``restore`` return. Its own states are the same ones, by the same names.

    Raises:
        UsageError: it is no KeyedStateBackend.

    Lifetime:
        Has nothing to close: it ends with the backend, and is used by the same thread. Several contexts of one backend have a
        current key each.
    """

    def __init__(self, keyed: KeyedStateBackend) -> None:
        if not isinstance(keyed, KeyedStateBackend):
            raise UsageError(f"{keyed!r} is no KeyedStateBackend: pass what a backend's open or restore returns")
        self._keyed = keyed
        self._current = CurrentKey()

    # --- The current key.

    def set_current_key(self, key: Any) -> None:
        """Makes the states of this context work on a key.

        Args:
            key: of the backend's key type; a tuple where that has several columns. Whether it fits is said by the first use.

        Raises:
            UsageError: it is None.
        """
        if key is None:
            raise UsageError("a key cannot be None: leave such a record out, or give it a key", operation="set_current_key")
        self._current.key = key

    def get_current_key(self) -> Any:
        """The key that was set last.

        Raises:
            UsageError: none was set.
        """
        return self._current.key

    # --- States.

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState:
        """The value state of a descriptor: made, or the one that is stored.

        Raises:
            UsageError: it is another kind of descriptor.
            ConfigError: it has a time to live, which this version of sfkv does not have yet.
            SchemaError: the name is stored with another type or kind; shows both.
        """
        name, info = self._check(state_descriptor, ValueStateDescriptor, "get_state")
        state = self._keyed.value_state(name, state_type(info))
        return ValueState(self._current, state, naming(encoder_of(info), name), decoder_of(info))

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState:
        """The list state of a descriptor. Raises as ``get_state``."""
        name, info = self._check(state_descriptor, ListStateDescriptor, "get_list_state")
        state = self._keyed.list_state(name, state_type(info))
        return ListState(self._current, state, naming(encoder_of(info), name), decoder_of(info))

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState:
        """The map state of a descriptor. Raises as ``get_state``."""
        name, info = self._check(state_descriptor, MapStateDescriptor, "get_map_state")
        key_info = state_descriptor.key_type_info
        keys = naming(key_encoder_of(key_info), name), key_decoder_of(key_info)
        codec = MapCodec(keys, (naming(encoder_of(info), name), decoder_of(info)))
        return MapState(self._current, self._keyed.map_state(name, state_type(key_info), state_type(info)), codec)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState:
        """The reducing state of a descriptor. Raises as ``get_state``."""
        name, info = self._check(state_descriptor, ReducingStateDescriptor, "get_reducing_state")
        state = self._keyed.reducing_state(name, state_type(info), reducer_of(state_descriptor.get_reduce_function(), info))
        return ReducingState(self._current, state, naming(encoder_of(info), name), decoder_of(info))

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState:
        """The aggregating state of a descriptor. Raises as ``get_state``."""
        name, info = self._check(state_descriptor, AggregatingStateDescriptor, "get_aggregating_state")
        in_info = state_descriptor.in_type_info
        aggregate = AggregateAdapter(state_descriptor.get_agg_function(), info, in_info)
        added = object if in_info is None else state_type(in_info)
        state = self._keyed.aggregating_state(name, added, aggregate, accumulator=state_type(info))
        encode = check_plain if in_info is None else encoder_of(in_info)
        return AggregatingState(self._current, state, naming(encode, name), None)

    def _check(self, descriptor: StateDescriptor, wanted: type[StateDescriptor], operation: str) -> tuple[str, Any]:
        """The name and type of a descriptor of the right kind."""
        if not isinstance(descriptor, wanted):
            raise UsageError(f"{operation} takes a {wanted.__name__}, and {descriptor!r} is none", operation=operation)
        ttl = descriptor.ttl_config
        if ttl is not None and ttl.is_enabled():
            raise ConfigError(
                f"state {descriptor.name!r} has a time to live of {ttl.get_ttl()}, and this version of sfkv does not expire "
                "state yet: leave out enable_time_to_live, and clear values yourself",
                operation=operation,
                state=descriptor.name,
                code="not_yet",
            )
        return descriptor.name, descriptor.type_info

    def __repr__(self) -> str:
        return f"RuntimeContext({self._keyed!r})"
