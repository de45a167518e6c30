"""A batch's rows as a Python dict: decoded once, and encoded again where they changed."""

from typing import Any, final

from typing_extensions import Self

from sfkv._table import Table

@final
class BundleRows:
    def __new__(cls, table: Table, keys: Any) -> Self: ...
    @property
    def rows(self) -> dict[Any, Any]: ...
    def write(self, offset: bytes | None = None) -> None: ...
