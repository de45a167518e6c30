"""Tables in memory beside std::map, in C++ and under sanitizers: rows_and_maps.cc says what is done."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(folder: Path, sanitizers: str, steps: int) -> None:
    program = folder / "rows_and_maps"
    command = ["g++", "-std=c++17", "-O1", "-g", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-DSFKV_DEBUG"]
    command += ["-D_GLIBCXX_ASSERTIONS", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{ROOT / 'include'}"]
    compiled = subprocess.run(
        [*command, Path(__file__).with_name("rows_and_maps.cc"), "-o", program], capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stderr
    seed = random.randrange(2**32)
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # as of .ci/asan
    done = subprocess.run([program, str(seed), str(steps)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-10_000:]  # which names the seed


def test_tables_and_maps_agree(tmp_path):
    run(tmp_path, "address,undefined", 5000)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_tables_and_maps_agree_for_long(tmp_path, sanitizers):
    run(tmp_path, sanitizers, 200_000)
