"""Single cells: what Python may ask of them."""

import pyarrow as pa

def can_read(given: pa.DataType, wanted: pa.DataType) -> bool: ...
