"""What turns PyFlink's functions into those that sfkv's reducing and aggregating states call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfkv.flink.functions import AggregateFunction, ReduceFunction
from sfkv.flink.types import decoder_of, encoder_of


def _same(value: Any) -> Any:
    return value


def reducer_of(function: Any, type_info: Any) -> Callable[[Any, Any], Any]:
    """The function of two stored values that a ReduceFunction, or a plain function of two values, stands for."""
    reduce: Callable[[Any, Any], Any] = function.reduce if isinstance(function, ReduceFunction) else function
    encode, decode = encoder_of(type_info), decoder_of(type_info)
    if encode is None and decode is None:
        return reduce
    encode, decode = encode or _same, decode or _same
    return lambda first, second: encode(reduce(decode(first), decode(second)))


class AggregateAdapter:
    """An AggregateFunction as sfkv's aggregates are: create, add, merge, result, over accumulators as they are stored."""

    def __init__(self, function: AggregateFunction, type_info: Any) -> None:
        self._function = function
        self._encode = encoder_of(type_info) or _same
        self._decode = decoder_of(type_info) or _same

    def create(self) -> Any:
        return self._encode(self._function.create_accumulator())

    def add(self, accumulator: Any, value: Any) -> Any:
        return self._encode(self._function.add(value, self._decode(accumulator)))

    def merge(self, first: Any, second: Any) -> Any:
        return self._encode(self._function.merge(self._decode(first), self._decode(second)))

    def result(self, accumulator: Any) -> Any:
        return self._function.get_result(self._decode(accumulator))
