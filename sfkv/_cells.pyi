"""Single cells: Python objects into a column's bytes, and back."""

from typing import Any, final

import pyarrow as pa
from typing_extensions import Self

from sfkv._stored_types import Column

def can_read(given: pa.DataType, wanted: pa.DataType) -> bool: ...

@final
class Cell:
    def __new__(cls, column: Column) -> Self: ...
    def __reduce__(self) -> Any: ...
