"""The benchmarks that the guides name run, and measure what they say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def lines_of(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_backends_are_compared_line_by_line():
    arguments = ["--rows", "20000", "--memory-mb", "8"]
    found = {row["system"]: row for row in map(json.loads, lines_of(BENCHMARKS / "which_backend.py", *arguments, "--json"))}
    rocksdb, memory = found["rocksdb"], found["memory"]
    assert rocksdb["disk_mb"] > 0.5
    assert 0 < rocksdb["second_mb"] < rocksdb["first_mb"] / 4, "a snapshot costs what changed"
    assert rocksdb["gc_objects"] < 1_000 < 20_000 <= found["dict"]["gc_objects"]
    assert all(
        rocksdb[name] > 0 for name in ("get_us", "put_us", "get_many_us", "large_get_us", "small_event_us", "restore_ms")
    )
    assert memory["rows_until_full"] > 0
    assert memory["disk_mb"] == 0


def test_the_table_has_each_statement_of_the_guide():
    lines = lines_of(BENCHMARKS / "which_backend.py", "--rows", "2000", "--systems", "rocksdb,dict")
    guide = (BENCHMARKS.parent / "docs" / "guide" / "which-backend.md").read_text()
    for statement in ("Storage", "Access", "Size", "GC pressure", "Checkpoint", "Best for"):
        assert any(line.startswith(statement) for line in lines), statement
        assert f"**{statement}**" in guide


@pytest.mark.parametrize("backend", ["rocksdb", "memory"])
def test_calls_in_flinks_manner_are_compared_with_plain_ones(backend):
    lines = lines_of(BENCHMARKS / "flink_manner.py", "--backend", backend, "--keys", "50", "--rounds", "2", "--json")
    rows = list(map(json.loads, lines))
    assert [row["call"] for row in rows] == ["value update", "value value", "map put", "map get", "list update", "list get"]
    assert all(row["plain_ns"] > 0 and row["flink_ns"] > 0 for row in rows)
