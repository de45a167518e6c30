"""What all tests share: a directory each, backends in it, and the check that nothing native is left over."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sfkv
from sfkv.backend.keyed import _open_backends


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """After each test no backend is open, whatever the test did."""
    yield
    gc.collect()
    left = list(_open_backends)
    for backend in left:
        backend.close(discard=True)
    assert not left, f"left open: {left}"


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[sfkv.KeyedStateBackend]:
    """A backend with text keys."""
    with sfkv.open(tmp_path / "store", key=str) as backend:
        yield backend


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a process of its own. ``STORE`` in it is a path of the test's directory."""

    def run(program: str, *, expect: int = 0, timeout: float = 60, **names: Any) -> subprocess.CompletedProcess[str]:
        names.setdefault("STORE", str(tmp_path / "store"))
        head = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", head + textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            # All warnings but Python's own, from 3.12 on, that forking with threads is risky: that it works is tested.
            env={**os.environ, "PYTHONWARNINGS": "default,ignore:This process:DeprecationWarning"},
        )
        assert done.returncode == expect, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
