"""The rows of one state: single keys and batches of them."""

from collections.abc import Sequence
from typing import Any, final

import pyarrow as pa
from typing_extensions import Self

from sfkv._core import Store
from sfkv._rows import KeyRows, ValueRows

VALUE: int
LIST: int
MAP: int

@final
class Table:
    def __new__(
        cls,
        store: Store,
        id: int,
        keys: KeyRows,
        values: ValueRows,
        state: str,
        owner: object,
        kind: int = 0,
        user_keys: KeyRows | None = None,
    ) -> Self: ...
    @property
    def store(self) -> Store: ...
    @property
    def id(self) -> int: ...
    def drop(self, why: str) -> None: ...
    def get(self, key: Any, default: Any = None) -> Any: ...
    def contains(self, key: Any) -> bool: ...
    def put(self, key: Any, value: Any) -> None: ...
    def clear(self, key: Any) -> None: ...
    def get_many(self, keys: Any, columns: Sequence[str] | None = None) -> Any: ...
    def contains_many(self, keys: Any) -> pa.Array: ...
    def put_many(self, keys: Any, values: Any, offset: bytes | None = None) -> None: ...
    def clear_many(self, keys: Any, offset: bytes | None = None) -> None: ...
