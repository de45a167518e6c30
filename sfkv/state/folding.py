"""How a reducing or aggregating state folds: by a built-in of the core, a Python function, or an object's methods."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfkv import _fold, _list, _table
from sfkv._errors import ConfigError
from sfkv._folds import BUILT_INS, REDUCES, aggregated, check_name, reduced
from sfkv._rows import ValueRows
from sfkv._stored_types import Column
from sfkv._types import KeySchema, Msgpack, ValueSchema
from sfkv.state.scan import ScanColumns

# Rows that are not read as values: accumulators.
_ROWS = ValueSchema([Column("value", pa.binary(), nullable=False)], is_record=False)
_METHODS = ("create", "add", "merge", "result")


@dataclasses.dataclass(frozen=True)
class Folding:
    """What is folded, by what.

    Attributes:
        aggregate: the name of a built-in fold; None for Python's.
        value: what is added.
        stored: what the table's values are.
        result: what is read; None for objects of whatever type.
        accumulator: what an object's accumulators are; None for all other folds.
        functions: what begins an accumulator, adds to one, and makes a result of one; None for built-in folds.
        given: the function or object that the user gave.
    """

    aggregate: str | None
    value: ValueSchema
    stored: ValueSchema
    result: ValueSchema | None
    accumulator: ValueSchema | None = None
    functions: tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any] | None] | None = None
    given: Any = None

    @property
    def table_kind(self) -> int:
        """What the table's rows are to the store."""
        return _table.LIST if self.aggregate == "collect" else _table.VALUE

    @property
    def description(self) -> dict[str, Any]:
        """What the registry has of it, beside the values. FORMAT.md section 5."""
        described: dict[str, Any] = {"aggregate": self.aggregate}
        return described if self.accumulator is None else {**described, "accumulator": self.accumulator.describe()}

    @property
    def arrow(self) -> pa.DataType:
        """What a result is in Arrow; binary where a serializer makes the bytes."""
        if self.aggregate == "collect":
            return pa.list_(self.value.item)
        return pa.binary() if self.result is None else self.result.arrow

    def is_like(self, other: Folding) -> bool:
        """Whether states of both are the same to their users, given that the same is stored of them."""
        schemas = (self.value, other.value, self.accumulator, other.accumulator, self.result, other.result)
        if any(schema is not None and schema.serializer is not None for schema in schemas):
            return False
        return self.given is other.given and self.value.make is other.value.make and self.arrow == other.arrow

    def open(self, table: _table.Table, name: str) -> Any:
        """What gets and adds."""
        if self.functions is not None:
            accumulators = ValueRows(self.accumulator or self.value, name)
            result = None if self.result is None or self.result.serializer is not None else self.result
            return _fold.FunctionTable(table, ValueRows(self.value, name), accumulators, self.functions, result)
        if self.aggregate == "last":
            return _fold.LastTable(table)
        if self.aggregate == "collect":
            return Collected(table)
        fold = BUILT_INS[str(self.aggregate)].fold
        return _fold.FoldTable(table, fold or 0, ValueRows(self.value, name), ValueRows(self.result or self.value, name))

    def scan_columns(self, key: KeySchema) -> ScanColumns:
        """Which columns a scan gives."""
        if self.stored is not _ROWS:
            return ScanColumns(key, self.stored.scan_arrow(of_lists=self.aggregate == "collect"))
        given = pa.struct([pa.field("value", self.arrow)]) if self.result is None else self.result.record_arrow
        if self.functions is not None:  # which may make None
            given = pa.struct([field.with_nullable(True) for field in given])
        return ScanColumns(key, given, stored=_ROWS.record_arrow)

    def conversion(self, opened: Any) -> Callable[[pa.StructArray], pa.StructArray] | None:
        """What makes the values that a scan gives of those that it reads; None if they are the same."""
        if self.stored is not _ROWS:
            return None

        def convert(stored: pa.StructArray) -> pa.StructArray:
            results = opened.results_of(stored.field(0))
            if isinstance(results, list):
                serializer = Msgpack()
                results = pa.array([None if value is None else serializer.dumps(value) for value in results], pa.binary())
            is_record = self.result is not None and self.result.is_record
            return results if is_record else pa.StructArray.from_arrays([results], names=["value"])

        return convert

    def __str__(self) -> str:
        return f"{self.value}, {self.aggregate or 'Python'}"


class Collected:
    """The lists of a state that collects values: a list state's, but that an absent one is None."""

    def __init__(self, table: _table.Table) -> None:
        self._lists = _list.ListTable(table)

    def get(self, key: Any, default: Any = None) -> Any:
        return self._lists.get(key) or default

    def add(self, key: Any, value: Any) -> None:
        self._lists.add_all(key, (value,), "add")

    def get_many(self, keys: Any) -> Any:
        lists = self._lists.get_many(keys)
        if isinstance(lists, list):
            return [values or None for values in lists]
        present = pc.greater(pc.list_value_length(lists), 0)
        buffers = [present.buffers()[1], lists.buffers()[1]]
        return pa.Array.from_buffers(lists.type, len(lists), buffers, children=[lists.values])

    def add_many(self, keys: Any, values: Any, offset: bytes | None = None) -> None:
        self._lists.add_many(keys, values, offset)


def reducing(type: Any, reduce: Any) -> Folding:
    """The folding of a reducing state. See ``KeyedStateBackend.reducing_state``."""
    value = ValueSchema.of(type)
    if callable(reduce):
        return Folding(None, value, value, value, functions=(_itself, reduce, None), given=reduce)
    check_name(reduce, REDUCES, "reduce")
    result = reduced(reduce, value)
    return Folding(reduce, value, value if reduce == "last" else _ROWS, result)


def aggregating(type: Any, aggregate: Any, accumulator: Any, result: Any) -> Folding:
    """The folding of an aggregating state. See ``KeyedStateBackend.aggregating_state``."""
    value = ValueSchema.of(type)
    if isinstance(aggregate, str):
        check_name(aggregate, BUILT_INS, "aggregate")
        if accumulator is not None or result is not None:
            raise ConfigError(f"accumulator= and result= are for objects: {aggregate!r} has its own", operation="register")
        made = aggregated(aggregate, value)
        return Folding(aggregate, value, value if aggregate in ("last", "collect") else _ROWS, made)
    if inspect.isclass(aggregate):
        raise ConfigError(f"aggregate is the class {aggregate.__name__}: pass an object of it", operation="register")
    missing = [method for method in _METHODS if not callable(getattr(aggregate, method, None))]
    if missing:
        raise ConfigError(
            f"aggregate is {aggregate!r}, which has no method {missing[0]}: use one of {', '.join(BUILT_INS)}, "
            f"or an object with {', '.join(_METHODS)}",
            operation="register",
        )
    made_of = ValueSchema.of(object if accumulator is None else accumulator)
    schema = None if result is None else ValueSchema.of(result)

    def begin(value: Any) -> Any:
        return aggregate.add(aggregate.create(), value)

    functions = (begin, aggregate.add, aggregate.result)
    return Folding(None, value, _ROWS, schema, accumulator=made_of, functions=functions, given=aggregate)


def _itself(value: Any) -> Any:
    return value
