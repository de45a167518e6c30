"""A table that has something in it."""

from __future__ import annotations

import numpy as np
import pytest

import sfkv
from tests.state.windows import WINDOW


@pytest.fixture
def windows(keyed: sfkv.KeyedStateBackend) -> sfkv.Table:
    """A table in time order, sharded by user as the backend is, with 300 rows at 100 moments."""
    table = keyed.table("windows", WINDOW, int, group_by="user")
    table.put_many({"end": np.arange(300) % 100, "user": [f"u{i}" for i in range(300)]}, np.arange(300))
    return table
