"""Arrow arrays that are wrong in C, where pyarrow does not look: it checks those that it makes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pyarrow as pa


class CArray(ctypes.Structure):
    """ArrowArray of the C data interface."""


CArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    *((name, ctypes.c_void_p) for name in ("dictionary", "release", "private_data")),
]

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Broken:
    """What another Arrow library might hand over: a copy of an array, after ``edit`` has changed its struct or its buffers."""

    def __init__(self, array: pa.Array, edit: Callable[[CArray], None]) -> None:
        self._array = array
        self._edit = edit

    def __len__(self) -> int:
        return len(self._array)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[object, object]:
        schema, array = self._copy().__arrow_c_array__()
        self._edit(CArray.from_address(_pointer_of(array, b"arrow_array")))
        return schema, array

    def _copy(self) -> pa.Array:
        """So that the array itself stays as it is."""
        sink = pa.BufferOutputStream()
        batch = pa.record_batch([self._array], ["a"])
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return pa.ipc.open_stream(sink.getvalue()).read_next_batch().column(0)
