"""Stores in memory, their tables, the row cache and guards in C++, under sanitizers: the programs say what they do."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS = {name: ["-Wl,--wrap=malloc"] for name in ("memory_store", "memory_tables")}


def run(folder: Path, name: str, sanitizers: str, steps: int) -> None:
    program = folder / name
    command = ["g++", "-std=c++17", "-O1", "-g", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-DSFKV_DEBUG"]
    command += ["-D_GLIBCXX_ASSERTIONS", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{ROOT / 'include'}"]
    compiled = subprocess.run(
        [*command, *FLAGS.get(name, []), Path(__file__).with_name(f"{name}.cc"), "-o", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr
    seed = random.randrange(2**32)
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # as of .ci/asan
    done = subprocess.run([program, str(seed), str(steps)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"seed {seed}\n{done.stderr[-10_000:]}"


programs = pytest.mark.parametrize(
    ("name", "steps"),
    [("rows_and_maps", 3000), ("row_cache", 20_000), ("memory_tables", 3000), ("memory_store", 1), ("guards", 1000)],
)


@programs
def test_they_agree_with_maps(tmp_path, name, steps):
    run(tmp_path, name, "address,undefined", steps)


def test_a_forked_child_drops_a_store_while_a_thread_of_its_parent_writes(tmp_path):
    """Without AddressSanitizer, whose own locks a child inherits."""
    run(tmp_path, "forked_store", "undefined", 200)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
@programs
def test_they_agree_with_maps_for_long(tmp_path, name, steps, sanitizers):
    run(tmp_path, name, sanitizers, 50 * steps)
