"""Descriptors: the name and type of a state, from which a context makes it."""

from __future__ import annotations

from typing import Any

from sfkv._errors import ConfigError
from sfkv._folds import REDUCES, check_name
from sfkv._types import KeySchema, ValueSchema
from sfkv.flink.functions import AggregateFunction, ReduceFunction
from sfkv.flink.ttl import StateTtlConfig
from sfkv.flink.types import state_type


class StateDescriptor:
    """What all descriptors have. It may be pickled, and used in any number of backends.

    Attributes:
        name: of the state, unique in a backend.
        type_info: of its values, elements or accumulators.
        ttl_config: how long values live; None for ever.
    """

    def __init__(self, name: str, type_info: Any) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"a state's name is {name!r}: pass a text")
        ValueSchema.of(state_type(type_info))  # refuses what cannot be stored, where the mistake is
        self.name = name
        self.type_info = type_info
        self.ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """The name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Values expire.

        This version of sfkv does not expire state yet: a context that is asked for such a state raises ConfigError, unless the
        update type is ``Disabled``.

        Raises:
            ConfigError: it is no StateTtlConfig.
        """
        if not isinstance(ttl_config, StateTtlConfig):
            raise ConfigError(f"{ttl_config!r} is no StateTtlConfig: build one by StateTtlConfig.new_builder(...).build()")
        self.ttl_config = ttl_config

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info})"


class ValueStateDescriptor(StateDescriptor):
    """Describes a state of one value for each key.

    Args:
        name: of the state.
        value_type_info: of ``Types``, or as ``type`` for ``KeyedStateBackend.value_state``.

    Raises:
        ConfigError, SchemaError: the name is no text, or the type cannot be stored.
    """

    def __init__(self, name: str, value_type_info: Any) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a state of a list for each key.

    Args:
        name: of the state.
        elem_type_info: what an element is; as for ``ValueStateDescriptor``.
    """

    def __init__(self, name: str, elem_type_info: Any) -> None:
        super().__init__(name, elem_type_info)


class MapStateDescriptor(StateDescriptor):
    """Describes a state of a map for each key.

    Args:
        name: of the state.
        key_type_info: of the map's keys: a plain type, or a tuple or row of plain types.
        value_type_info: of its values; as for ``ValueStateDescriptor``.
    """

    def __init__(self, name: str, key_type_info: Any, value_type_info: Any) -> None:
        super().__init__(name, value_type_info)
        KeySchema.of(state_type(key_type_info), "user_key")
        self.key_type_info = key_type_info

    def __repr__(self) -> str:
        return f"MapStateDescriptor({self.name!r}, {self.key_type_info}, {self.type_info})"


class ReducingStateDescriptor(StateDescriptor):
    """Describes a state that combines what is added into one value for each key.

    Args:
        name: of the state.
        reduce_function: a ReduceFunction; a function of two values that combines them; or the name of a fold that sfkv has,
            such as ``"sum"``, which adds without reading (``KeyedStateBackend.reducing_state`` lists them).
        type_info: of the values; as for ``ValueStateDescriptor``.
    """

    def __init__(self, name: str, reduce_function: Any, type_info: Any) -> None:
        super().__init__(name, type_info)
        if isinstance(reduce_function, str):
            check_name(reduce_function, REDUCES, "reduce")
        elif isinstance(reduce_function, type) and issubclass(reduce_function, ReduceFunction):
            raise ConfigError(f"{reduce_function!r} is a class, and does not reduce: pass an object of it")
        elif not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise ConfigError(f"{reduce_function!r} does not reduce: pass a ReduceFunction, or a function of two values")
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        """What it was made with."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes a state that folds what is added into an accumulator for each key.

    Args:
        name: of the state.
        agg_function: what folds.
        state_type_info: of the accumulators; as for ``ValueStateDescriptor``.
        in_type_info: of what is added; the default takes what msgpack gives back as it was: numbers, text, bytes, lists and
            dicts of them.
    """

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: Any, in_type_info: Any = None) -> None:
        super().__init__(name, state_type_info)
        ValueSchema.of(object if in_type_info is None else state_type(in_type_info))
        self.in_type_info = in_type_info
        if not isinstance(agg_function, AggregateFunction):
            raise ConfigError(f"{agg_function!r} does not aggregate: pass an AggregateFunction")
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """What it was made with."""
        return self._agg_function
