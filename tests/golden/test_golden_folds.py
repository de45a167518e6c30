"""Fold rows, as FORMAT.md section 4 has them, and what becomes of several; see test_golden.py. One JSON object a line."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa

import sfkv
from sfkv._fold import merge_rows
from tests.golden.test_golden import compare
from tests.state.aggregates import Mean

SINGLE: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False, True]),
    (pa.int8(), [-128, 127]),
    (pa.int16(), [-2, 258]),
    (pa.int32(), [2**31 - 1, -1, 2**31 - 1]),
    (pa.int64(), [2**63 - 1, 2**63 - 1, -1]),
    (pa.uint8(), [255, 1]),
    (pa.uint16(), [65535, 2]),
    (pa.uint32(), [2**32 - 1, 3]),
    (pa.uint64(), [2**64 - 1, 2**64 - 1]),
    (pa.float16(), [1.5, -0.0, 0.0]),
    (pa.float32(), [1.5, -0.0, float("nan")]),
    (pa.float64(), [0.1, 1e17, -0.1, -0.0, 0.0]),
    (pa.decimal128(5, 2), [Decimal("1.10"), Decimal("-999.99")]),
    (pa.decimal256(40, 0), [Decimal(10**39), Decimal(-1)]),
    (pa.duration("s"), [dt.timedelta(seconds=-1), dt.timedelta(days=1)]),
    (pa.date32(), [dt.date(2013, 1, 1), dt.date(1969, 12, 31)]),
    (pa.utf8(), ["b", "", "ü", "b"]),
    (pa.binary(2), [b"b\0", b"a\xff"]),
]
NESTED = (pa.list_(pa.int8()), [[1, None], []])
ROWS_OF_FOLDS = ("sum", "mean", "variance", "sample_variance", "min", "max", "count", "first", "count_distinct")


def one_by_one(keyed, name, arrow, values):
    """The row of each value by itself."""
    state = keyed.aggregating_state(f"{name} {arrow}", arrow, name)
    rows = []
    for value in values:
        state.add("k", value)
        (row,) = keyed._store.read_range(b"", b"\xff\xff").values()
        rows.append(row)
        state.clear("k")
    return rows


def folds(keyed):
    for name in ROWS_OF_FOLDS:
        for arrow, values in [*SINGLE, NESTED]:
            try:
                rows = one_by_one(keyed, name, arrow, values)
            except sfkv.SchemaError:
                continue
            shown = {"fold": name, "type": str(arrow), "rows": [row.hex() for row in rows], "folded": merge_rows(rows).hex()}
            yield json.dumps(shown)


def test_folds_are_as_they_were(tmp_path):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        compare("folds.txt", folds(keyed))


def test_folds_by_hand(tmp_path):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        assert one_by_one(keyed, "sum", pa.int64(), [-1]) == [bytes.fromhex("80 00 01 04") + b"\xff" * 16]
        assert one_by_one(keyed, "count", pa.utf8(), ["x"]) == [bytes.fromhex("80 00 04 00 01 00 00 00 00 00 00 00")]
        assert one_by_one(keyed, "min", pa.utf8(), ["x"]) == [bytes.fromhex("80 00 02 0e 78")]
        assert one_by_one(keyed, "max", pa.int8(), [-2]) == [bytes.fromhex("80 00 03 01 fe")]
        assert one_by_one(keyed, "first", pa.utf8(), ["x"]) == [bytes.fromhex("80 00 08 00 78")]
        assert one_by_one(keyed, "count_distinct", pa.utf8(), ["xy"]) == [bytes.fromhex("80 00 09 0e 02 78 79")]
        assert one_by_one(keyed, "last", pa.utf8(), ["x"]) == [b"x"]
        assert one_by_one(keyed, "collect", pa.utf8(), ["x"]) == [b"\1x"]


def test_what_the_registry_has_of_folds(tmp_path):
    value: dict[str, Any] = {
        "columns": [{"name": "value", "type": "int64", "nullable": False}],
        "record": False,
        "serializer": None,
    }
    accumulator = {**value, "columns": [{**value["columns"][0], "type": "binary"}], "serializer": "msgpack"}
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        keyed.reducing_state("total", int, "sum")
        keyed.reducing_state("odd", int, lambda a, b: a ^ b)
        keyed.aggregating_state("share", int, Mean())
        rows = [json.loads(row) for key, row in sorted(keyed._store.reserved_rows().items()) if key.startswith(b"\xff\xff\1")]
    assert rows == [
        {"name": "total", "kind": "reducing", "value": value, "ttl": None, "aggregate": "sum"},
        {"name": "odd", "kind": "reducing", "value": value, "ttl": None, "aggregate": None},
        {"name": "share", "kind": "aggregating", "value": value, "ttl": None, "aggregate": None, "accumulator": accumulator},
    ]
