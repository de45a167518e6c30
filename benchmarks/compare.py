"""Compares two revisions: the same operations in both, in turns, each in a process of its own.

    python benchmarks/compare.py BASE HEAD [--only value_get_many] [--rounds 5] [--fail-below 0.9] [-- --batch 1024 ...]

Each revision is checked out into a temporary worktree and built there; both are driven by the run.py that lies beside this
file, which uses sfkv's public interface, so BASE may be older than it. What stands behind ``--`` is passed to run.py. Changes
that are not committed are compared with ``$(git stash create)`` as HEAD.

Columns: operations per CPU second of both (medians over the rounds), HEAD's over BASE's, and the least and the most that this
ratio was in a round. The exit code is 1 if ``--fail-below`` is given and a ratio is below it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULT_OPERATIONS = "value_get,value_put,value_get_many,value_put_many,value_bundle,map_items_many,map_put_many,list_add_many"


class Failed(Exception):
    """A child did not end well; says which and how."""


def run_child(command: list[str], folder: Path, title: str) -> str:
    """Runs Python in a checkout whose sfkv is the one that is imported."""
    environment = {name: value for name, value in os.environ.items() if name != "SFKV_FLOOR"} | {"PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{title}: {(done.stderr.strip().splitlines() or [f'exit code {done.returncode}'])[-1]}")
    return done.stdout


def run_git(*arguments: str | Path) -> None:
    done = subprocess.run(["git", "-C", HERE, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())


@contextmanager
def built(revision: str, folder: Path) -> Iterator[Path]:
    """A worktree of the revision, with its extension modules built."""
    run_git("worktree", "add", "--detach", folder, revision)
    try:
        print(f"building {revision}", file=sys.stderr)
        run_child(["setup.py", "-q", "build_ext", "--inplace"], folder, f"building {revision}")
        yield folder
    finally:
        run_git("worktree", "remove", "--force", folder)


def engine_of(folder: Path, revision: str) -> list[str]:
    """Which engine the checkout's sfkv was built with, after making sure that it is this sfkv that is imported."""
    program = "import sfkv, json; print(json.dumps([sfkv.__file__, sfkv.build_info()]))"
    path, info = json.loads(run_child(["-c", program], folder, f"importing {revision}"))
    if not Path(path).is_relative_to(folder):
        raise Failed(f"{revision}: {path} was imported instead of what was built in {folder}")
    return [info["engine"], info["engine_flags"], info["rocksdb"]]


def measure(operation: str, folder: Path, chosen: argparse.Namespace) -> float:
    arguments = ["--systems", "sfkv", "--peers", "none", "--rounds", str(chosen.inner_rounds), "--json", "--only", operation]
    output = run_child([str(HERE / "run.py"), *arguments, *chosen.arguments], folder, operation)
    return float(json.loads(output)["cpu_ops_per_s"])


def compare(operation: str, base: Path, head: Path, chosen: argparse.Namespace) -> float | None:
    """Prints the operation's line, and returns HEAD's speed over BASE's; None if BASE does not have the operation."""
    speeds: dict[Path, list[float]] = {base: [], head: []}
    for number in range(chosen.rounds):
        for folder in (base, head) if number % 2 == 0 else (head, base):
            try:
                speeds[folder].append(measure(operation, folder, chosen))
            except Failed as failure:
                if folder == head:
                    raise
                print(f"{operation:16} BASE cannot: {failure}", flush=True)
                return None
    before, after = statistics.median(speeds[base]), statistics.median(speeds[head])
    ratios = [of_head / of_base for of_base, of_head in zip(speeds[base], speeds[head], strict=True)]
    print(f"{operation:16}{before:14,.0f}{after:14,.0f}{after / before:9.3f}{min(ratios):9.3f}{max(ratios):9.3f}", flush=True)
    return after / before


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("head")
    parser.add_argument("--only", default=DEFAULT_OPERATIONS, help=f"the default is {DEFAULT_OPERATIONS}")
    parser.add_argument("--rounds", type=int, default=5, help="of processes, in turns")
    parser.add_argument("--inner-rounds", type=int, default=3, help="in each process")
    parser.add_argument("--fail-below", type=float, help="the least ratio that is no failure")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    chosen = parser.parse_args(sys.argv[1:end])
    chosen.arguments = sys.argv[end + 1 :]
    return chosen


def main() -> None:
    chosen = parse()
    with tempfile.TemporaryDirectory(prefix="sfkv-compare-") as folder:
        base_path, head_path = Path(folder).resolve() / "base", Path(folder).resolve() / "head"
        with built(chosen.base, base_path) as base, built(chosen.head, head_path) as head:
            engines = engine_of(base, chosen.base), engine_of(head, chosen.head)
            if engines[0] != engines[1]:
                raise Failed(f"the engines differ: {engines[0]} and {engines[1]}")
            print(f"{' '.join(engines[0])}, {chosen.rounds} rounds of processes")
            print(f"{'operation':16}{'BASE/CPU s':>14}{'HEAD/CPU s':>14}{'ratio':>9}{'least':>9}{'most':>9}", flush=True)
            ratios = [compare(operation, base, head, chosen) for operation in chosen.only.split(",")]
    if chosen.fail_below is not None and any(ratio is not None and ratio < chosen.fail_below for ratio in ratios):
        sys.exit(f"a ratio is below {chosen.fail_below}")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
