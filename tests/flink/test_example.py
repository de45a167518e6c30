"""The example in Flink's manner runs, and finds what a count by plain dicts finds."""

import importlib
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "failed_logins.py"


def test_the_example_runs_and_checks_itself(tmp_path):
    command = [sys.executable, EXAMPLE, tmp_path / "work"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "equal to a count by plain dicts"
    assert "is blocked at" in lines[0]
    assert "accounts blocked among 20,000 logins" in lines[-3]


def test_its_check_can_fail(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    failed_logins = importlib.import_module("failed_logins")
    monkeypatch.setattr(failed_logins, "EVENTS", 2_000)
    monkeypatch.setattr(failed_logins, "recount", lambda stream: {"ACC0000": 1})
    assert failed_logins.main(tmp_path) == 1
    assert "DIFFERS" in capsys.readouterr().out
