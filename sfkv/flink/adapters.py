"""What turns PyFlink's functions into those that sfkv's reducing and aggregating states call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfkv._errors import SchemaError
from sfkv.flink.functions import AggregateFunction, ReduceFunction
from sfkv.flink.types import decoder_of, encoder_of

# What msgpack gives back as it was.
_PLAIN = (type(None), bool, int, float, str, bytes)


def _same(value: Any) -> Any:
    return value


def check_plain(value: Any) -> Any:
    """The value itself, if it can be added without its type being known.

    Raises:
        SchemaError: msgpack would make another object of it, which the function is not to meet.
    """
    if type(value) is list:
        for element in value:
            check_plain(element)
    elif type(value) is dict:
        for key, element in value.items():
            check_plain(key)
            check_plain(element)
    elif type(value) not in _PLAIN:
        raise SchemaError(
            f"{value!r} is a {type(value).__name__}, and the type of what is added is not known: give the descriptor an "
            "in_type_info, such as Types.TUPLE([...]) or Types.BIG_DEC()"
        )
    return value


def reducer_of(function: Any, type_info: Any) -> Any:
    """The function of two stored values that a ReduceFunction or plain function of two values stands for; a name as it is."""
    if isinstance(function, str):
        return function
    reduce: Callable[[Any, Any], Any] = function.reduce if isinstance(function, ReduceFunction) else function
    encode, decode = encoder_of(type_info), decoder_of(type_info)
    if encode is None and decode is None:
        return reduce
    encode, decode = encode or _same, decode or _same
    return lambda first, second: encode(reduce(decode(first), decode(second)))


class AggregateAdapter:
    """An AggregateFunction as sfkv's aggregates are: create, add, merge, result, over accumulators as they are stored."""

    def __init__(self, function: AggregateFunction, type_info: Any, in_type_info: Any = None) -> None:
        self._function = function
        self._decode_value = decoder_of(in_type_info) or _same
        self._encode = encoder_of(type_info) or _same
        self._decode = decoder_of(type_info) or _same

    def create(self) -> Any:
        return self._encode(self._function.create_accumulator())

    def add(self, accumulator: Any, value: Any) -> Any:
        return self._encode(self._function.add(self._decode_value(value), self._decode(accumulator)))

    def merge(self, first: Any, second: Any) -> Any:
        return self._encode(self._function.merge(self._decode(first), self._decode(second)))

    def result(self, accumulator: Any) -> Any:
        return self._function.get_result(self._decode(accumulator))
