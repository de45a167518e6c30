"""Passes over a table: batch by batch, and entry by entry of one key's map."""

from typing import Any, final

import pyarrow as pa
from typing_extensions import Self

from sfkv._table import Table

@final
class Scan:
    def __new__(
        cls, table: Table, batch_rows: int, with_values: bool, key: bytes | None = None, layout: Any = None, rows: Any = None
    ) -> Self: ...
    def next_batch(self) -> tuple[pa.Array, pa.Array | None, pa.Array | None] | None: ...
    def close(self) -> None: ...
