"""Each I/O call of a job fails in turn, in six ways: sweep.py says how, and what must hold."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAULTS = ["once", "for good", "no space", "torn", "lost sync", "power loss"]
WORKERS = 4  # more than processors: the engine sleeps for a second after some failures


def sweep(backend, fault, step):
    """Runs every ``step``-th call of the job, in a few processes. The lines that they print, one for each life of the job."""
    if "SFKV_FAULTS" not in os.environ:
        pytest.importorskip("tests.fault._failing", reason="is built by make test (SFKV_FAULTS=1)")
    workers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.fault.sweep", backend, fault, str(first * step), str(WORKERS * step)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for first in range(WORKERS)
    ]
    lines = []
    for worker in workers:
        output, _ = worker.communicate()
        assert worker.returncode == 0, output[-10_000:]
        lines += output.splitlines()
    return lines


# Primes, so that over all faults other calls are hit, and a change of the job shifts them.
@pytest.mark.parametrize(("fault", "step"), list(zip(FAULTS, [41, 31, 29, 7, 5, 37], strict=True)))
@pytest.mark.backends
def test_some_calls_fail(on_backend, fault, step):
    step = step if on_backend == "rocksdb" else step // 5  # memory makes few
    failed = [line for line in sweep(on_backend, fault, step) if "nothing failed" not in line]
    assert len(failed) >= 5, failed


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.backends
def test_every_call_fails(on_backend, fault):
    failed = [line for line in sweep(on_backend, fault, 1) if "nothing failed" not in line]
    assert len(failed) >= (40 if on_backend == "rocksdb" else 10), failed
