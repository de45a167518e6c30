"""What all tests share: a directory each, backends in it, and the check that nothing native is left over."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfkv
from sfkv.backend.keyed import _open_backends
from tests import backends

_RAISED = pytest.StashKey[bool]()


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Remembers that a test raised: its traceback keeps its frames alive, and all that they hold."""
    if call.excinfo is not None:
        item.stash[_RAISED] = True


def pytest_configure() -> None:
    """Where the tests run in the background, SIGINT is ignored, by their children too, unless it is taken here."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What was imported by now will never be garbage: the collections after each test need not look at it."""
    pa.array([0])  # imports what pyarrow puts off
    gc.collect()
    gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test on the backends that its marks name."""
    both, only = (metafunc.definition.get_closest_marker(name) for name in ("backends", "only"))
    if only is not None:
        assert only.args[0] in backends.NAMES and only.kwargs["reason"], only
        metafunc.parametrize("on_backend", only.args[:1], indirect=True)
    elif both is not None:
        metafunc.parametrize("on_backend", backends.NAMES, indirect=True)


@pytest.fixture(autouse=True)
def on_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the backend that the test is about."""
    name: str = getattr(request, "param", "rocksdb")
    with backends.using(name):
        yield name


@pytest.fixture(autouse=True)
def nothing_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test no backend is open, whatever the test did; and no native object is left, if it did not raise."""
    yield
    request.node.funcargs.clear()  # which hold the other fixtures' backends, closed by now
    gc.collect()
    left = list(_open_backends)
    for backend in left:
        backend.close(discard=True)
    if _RAISED not in request.node.stash:
        assert not left, f"left open: {left}"
        assert not any(backends.live_objects().values()), f"left alive: {backends.live_objects()}"


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[sfkv.KeyedStateBackend]:
    """A backend with text keys."""
    with sfkv.open(tmp_path / "store", key=str) as backend:
        yield backend


@pytest.fixture
def run_python(tmp_path: Path, on_backend: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a process of its own, on the test's backend. ``STORE`` in it is a path of the test's directory."""

    def run(program: str, *, expect: int = 0, timeout: float = 60, **names: Any) -> subprocess.CompletedProcess[str]:
        names.setdefault("STORE", str(tmp_path / "store"))
        head = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        if on_backend != "rocksdb":
            head += f"from tests import backends; backends.use({on_backend!r})\n"
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
