"""A directory in memory: lifetimes are no matter of the disk, and there are many to go through."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """The test's directory, in memory where the system has such files."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="sfkv-"))
    yield path
    shutil.rmtree(path)
