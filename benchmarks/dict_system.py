"""The peer that is no store: a plain dict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from workload import Operation, Workload, record_columns


class DictSystem:
    """A plain dict of Python's numbers, dicts and lists: what a job without state on disk would use. Batches are lists."""

    name = "dict"

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        self.watermark = 0
        self.of_records = False
        self.value_get = self.rows.get
        self.value_put = self.rows.__setitem__

    def value_get_many(self, keys: list[int]) -> list[int | None]:
        return list(map(self.rows.get, keys))

    def value_put_many(self, keys: list[int], values: list[int]) -> None:
        self.rows.update(zip(keys, values, strict=True))

    def value_bundle(self, keys: list[int]) -> None:
        rows = self.rows
        for key in set(keys):
            rows[key] += 1

    def value_rmw(self, key: int, value: int) -> None:
        self.rows[key] = self.rows.get(key, 0) + value

    def value_rmw_many(self, keys: list[int], values: list[int]) -> None:
        rows = self.rows
        for key, value in zip(keys, values, strict=True):
            rows[key] = rows.get(key, 0) + value

    reducing_add = value_rmw
    reducing_add_many = value_rmw_many
    reducing_get_many = value_get_many

    def aggregating_add_many(self, keys: list[int], values: list[int]) -> None:
        rows = self.rows
        for key, value in zip(keys, values, strict=True):
            total, count = rows.get(key, (0, 0))
            rows[key] = (total + value, count + 1)

    def aggregating_get_many(self, keys: list[int]) -> list[float | None]:
        found = map(self.rows.get, keys)
        return [None if pair is None else float(pair[0]) / pair[1] for pair in found]  # the sum as a float, as sfkv has it

    def map_get(self, key: int, user_key: int) -> int | None:
        entries = self.rows.get(key)
        return None if entries is None else entries.get(user_key)

    def map_put(self, key: int, user_key: int, value: int) -> None:
        entries = self.rows.get(key)
        if entries is None:
            entries = self.rows[key] = {}
        entries[user_key] = value

    def map_items_many(self, keys: list[int]) -> list[dict[int, int]]:
        get = self.rows.get
        return [get(key, {}) for key in keys]

    def map_put_many(self, keys: list[int], user_keys: list[int], values: list[int]) -> None:
        for key, user_key, value in zip(keys, user_keys, values, strict=True):
            self.map_put(key, user_key, value)

    def list_add(self, key: int, value: int) -> None:
        values = self.rows.get(key)
        if values is None:
            self.rows[key] = [value]
        else:
            values.append(value)

    def list_get(self, key: int) -> list[int]:
        return self.rows.get(key, [])

    def list_add_many(self, keys: list[int], values: list[int]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.list_add(key, value)

    def list_get_many(self, keys: list[int]) -> list[list[int]]:
        return [self.rows.get(key, []) for key in keys]

    def table_scan(self, kept: list[tuple[int, ...]] | None = None) -> None:
        found = [(*key, value) for key, value in self.rows.items()]
        if kept is not None:
            kept.extend(found)

    def table_fire(self, kept: list[tuple[int, ...]] | None = None) -> None:
        watermark = self.watermark
        found = [(*key, value) for key, value in self.rows.items() if key[0] < watermark]
        if kept is not None:
            kept.extend(found)

    record_get_many = value_get_many
    record_put_many = value_put_many

    def convert(self, column: np.ndarray) -> list[int]:
        return column.tolist()

    def convert_values(self, values: np.ndarray) -> list[Any]:
        return values.tolist() if not self.of_records else self.records_of(values)

    @staticmethod
    def records_of(values: np.ndarray) -> list[dict[str, Any]]:
        """Records as dicts."""
        return pa.Table.from_pydict(record_columns(values)).to_pylist()

    def plain(self, operation: Operation, answer: Any) -> Any:
        return [record and record["number"] for record in answer] if self.of_records and answer is not None else answer

    def fill(self, workload: Workload) -> None:
        kind = workload.operation.kind
        self.of_records = kind == "record"
        if kind == "table":
            self.watermark = workload.watermark
            for rows in workload.stored():
                keys = zip(rows.user_keys.tolist(), rows.keys.tolist(), strict=True)
                self.rows.update(zip(keys, rows.values.tolist(), strict=True))
            return
        write = getattr(
            self,
            {"map": "map_put_many", "list": "list_add_many", "aggregating": "aggregating_add_many"}.get(kind, "value_put_many"),
        )
        for rows in workload.stored():
            keys, values = rows.keys.tolist(), self.convert_values(rows.values)
            write(keys, rows.user_keys.tolist(), values) if kind == "map" else write(keys, values)

    def settle(self, workload: Workload) -> None:
        pass

    def end_round(self) -> None:
        pass

    def close(self) -> None:
        self.rows.clear()
