"""ReduceFunction and AggregateFunction, as PyFlink spells them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class ReduceFunction(ABC):
    """Combines two values into one of the same type. A plain function of two arguments does as well."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """The values combined: ``value1`` is what the state holds, ``value2`` what is added."""


class AggregateFunction(ABC):
    """Folds values into an accumulator, of which a result is made when it is asked for."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """An accumulator of no values."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with the value added to it: a new one, or the same one changed."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result of an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """The accumulator of the values of both."""
