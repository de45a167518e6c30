"""Other stores that Python has, each doing the same jobs in the fastest way that its documentation shows.

Stores of bytes (engines.py) are driven by BytesSystem: keys are encoded from the batch's NumPy column at once (as 8 bytes
each, 15 ns), sorted, which quickens all of them, and what is found is decoded at once into an int64 column. Entries of maps
have keys of 16 bytes and are found by iterating from their prefix; a list is one value that is read, appended to and written.
"""

from __future__ import annotations

import importlib
import struct
from pathlib import Path
from typing import Any

import numpy as np

import dict_system
import engines
from workload import Operation, Workload

PEERS = ("rocksdict", "plyvel", "lmdb", "dict")

pack_entry = struct.Struct(">qq").pack
pack_value = struct.Struct("<q").pack
unpack_value = struct.Struct("<q").unpack


def installed(name: str) -> bool:
    try:
        importlib.import_module("builtins" if name == "dict" else name)
    except ImportError:
        return False
    return True


def offers(name: str, operation: Operation) -> bool:
    """Whether a system has an operation: tables and records are not written anew for each store of bytes."""
    return operation.kind not in ("table", "record") or name not in engines.ENGINES


def make_peer(name: str, folder: Path, workload: Workload) -> Any:
    if name == "dict":
        return dict_system.DictSystem()
    return BytesSystem(name, engines.ENGINES[name](folder, workload))


def cells(column: np.ndarray, dtype: str) -> list[bytes]:
    """Each number of a column as 8 bytes, each row of several columns as one string of them."""
    encoded = np.ascontiguousarray(column, dtype)
    return encoded.view(f"V{encoded.itemsize * (encoded.shape[1] if encoded.ndim > 1 else 1)}").ravel().tolist()


class Lists:
    """Lists of a batch as columns: those of row i are ``column[starts[i]:ends[i]]`` of each column."""

    def __init__(self, order: np.ndarray, lengths: np.ndarray, *columns: np.ndarray) -> None:
        """Of lists that lie in the order in which the batch was sorted."""
        ends = np.cumsum(lengths)
        self.ends = np.empty(len(order), "i8")
        self.ends[order] = ends
        self.starts = np.empty(len(order), "i8")
        self.starts[order] = ends - lengths
        self.columns = columns

    def to_pylist(self) -> list[list[Any]]:
        """Of each row, the list of each column."""
        bounds = list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))
        return [[column[begin:end].tolist() for column in self.columns] for begin, end in bounds]


class BytesSystem:
    """Any store of byte keys and byte values. Keys are not negative here: their big-endian bytes sort as they do."""

    def __init__(self, name: str, engine: Any) -> None:
        self.name = name
        self.engine = engine
        self.key_dtype = engine.key_dtype
        self.pack_key = struct.Struct(f"{engine.key_dtype[0]}q").pack

    # --- Values.

    def value_get(self, key: int) -> int | None:
        found = self.engine.get(self.pack_key(key))
        return None if found is None else unpack_value(found)[0]

    def value_put(self, key: int, value: int) -> None:
        self.engine.put(self.pack_key(key), pack_value(value))

    def value_get_many(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The values, and which of them are there if not all are."""
        order = np.argsort(keys, kind="stable")
        found = self.engine.get_many(cells(keys[order], self.key_dtype))
        values = np.empty(len(keys), "i8")
        try:
            values[order] = np.frombuffer(b"".join(found), "<i8")
        except TypeError:  # a None: some are absent
            is_there = np.fromiter((value is not None for value in found), bool, len(found))
            present = np.empty(len(keys), bool)
            present[order] = is_there
            values[order[is_there]] = np.frombuffer(b"".join(filter(None, found)), "<i8")
            return values, present
        return values, None

    def value_put_many(self, keys: np.ndarray, values: np.ndarray) -> None:
        order = np.argsort(keys, kind="stable")
        self.engine.put_many(cells(keys[order], self.key_dtype), cells(values[order], "<i8"))

    def value_bundle(self, keys: np.ndarray) -> None:
        rows = dict(zip(keys.tolist(), self.value_get_many(keys)[0].tolist(), strict=True))
        for key in rows:
            rows[key] += 1
        self.value_put_many(np.fromiter(rows.keys(), "i8", len(rows)), np.fromiter(rows.values(), "i8", len(rows)))

    # --- Maps.

    def map_get(self, key: int, user_key: int) -> int | None:
        found = self.engine.get(pack_entry(key, user_key))
        return None if found is None else unpack_value(found)[0]

    def map_put(self, key: int, user_key: int, value: int) -> None:
        self.engine.put(pack_entry(key, user_key), pack_value(value))

    def map_put_many(self, keys: np.ndarray, user_keys: np.ndarray, values: np.ndarray) -> None:
        order = np.lexsort((user_keys, keys))
        entries = np.stack([keys[order], user_keys[order]], axis=1)
        self.engine.put_many(cells(entries, ">i8"), cells(values[order], "<i8"))

    def map_items_many(self, keys: np.ndarray) -> Lists:
        order = np.argsort(keys, kind="stable")
        found, values, lengths = self.engine.entries(cells(keys[order], ">i8"))
        user_keys = np.frombuffer(b"".join(found), ">i8")[1::2].astype("i8")
        return Lists(order, np.array(lengths, "i8"), user_keys, np.frombuffer(b"".join(values), "<i8"))

    # --- Lists.

    def list_get(self, key: int) -> list[int]:
        found = self.engine.get(self.pack_key(key))
        return [] if found is None else np.frombuffer(found, "<i8").tolist()

    def list_add(self, key: int, value: int) -> None:
        encoded = self.pack_key(key)
        self.engine.put(encoded, (self.engine.get(encoded) or b"") + pack_value(value))

    def list_get_many(self, keys: np.ndarray) -> Lists:
        order = np.argsort(keys, kind="stable")
        found = [value or b"" for value in self.engine.get_many(cells(keys[order], self.key_dtype))]
        lengths = np.fromiter(map(len, found), "i8", len(found)) >> 3
        return Lists(order, lengths, np.frombuffer(b"".join(found), "<i8"))

    def list_add_many(self, keys: np.ndarray, values: np.ndarray) -> None:
        order = np.argsort(keys, kind="stable")
        distinct, first = np.unique(keys[order], return_index=True)
        encoded = cells(distinct, self.key_dtype)
        added = values[order].astype("<i8").tobytes()
        begins, ends = (8 * first).tolist(), (8 * np.append(first[1:], len(keys))).tolist()
        found = self.engine.get_many(encoded)
        self.engine.put_many(
            encoded,
            [(old or b"") + added[begin:end] for old, begin, end in zip(found, begins, ends, strict=True)],
        )

    # --- What all systems have.

    def convert_values(self, values: np.ndarray) -> np.ndarray:
        return values

    def convert(self, column: np.ndarray) -> np.ndarray:
        return column

    def plain(self, operation: Operation, answer: Any) -> Any:
        if isinstance(answer, Lists):
            if operation.kind == "map":
                return [dict(zip(user_keys, values, strict=True)) for user_keys, values in answer.to_pylist()]
            return [values for (values,) in answer.to_pylist()]
        if isinstance(answer, tuple):
            values, present = answer
            here = [True] * len(values) if present is None else present.tolist()
            return [value if there else None for value, there in zip(values.tolist(), here, strict=True)]
        return answer

    def fill(self, workload: Workload) -> None:
        for rows in workload.stored():
            if workload.operation.kind == "map":
                self.map_put_many(rows.keys, rows.user_keys, rows.values)
            elif workload.operation.kind == "list":
                self.list_add_many(rows.keys, rows.values)
            else:
                self.value_put_many(rows.keys, rows.values)

    def settle(self, workload: Workload) -> None:
        if workload.settings.state == "files":
            self.engine.settle()

    def end_round(self) -> None:
        self.engine.end_round()

    def close(self) -> None:
        self.engine.close()
