"""A batch's rows as a Python dict: decoded once, and encoded again where they changed."""

from typing import Any, final

from sfkv._core import Table

@final
class BundleRows:
    def __init__(self, table: Table, keys: Any) -> None: ...
    @property
    def rows(self) -> dict[Any, Any]: ...
    def write(self, offset: bytes | None = None) -> None: ...
