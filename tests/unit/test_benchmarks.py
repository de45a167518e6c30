"""The benchmarks run, and measure what they say: tiny sizes, nothing is timed."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FACTS = {"op", "system", "backend", "keys", "rows_per_key", "batch", "draw", "state", "memory_mb"}
FIGURES = {"ops_per_s", "min", "max", "cpu_ops_per_s"}


@pytest.fixture
def modules(monkeypatch):
    """The benchmarks' modules, which find one another as scripts do. They are forgotten afterwards: their names are plain."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    names = [path.stem for path in BENCHMARKS.glob("*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    import run
    import workload

    yield run, workload
    for name in names:
        sys.modules.pop(name, None)


def operations():
    source = (BENCHMARKS / "workload.py").read_text()
    return [line.split('"')[1] for line in source.splitlines() if line.strip().startswith('Operation("')]


def tiny(workload, **changes):
    return workload.Settings(**{"keys": 2000, "batch": 300, "memory_mb": 8, "rounds": 1, **changes})


@pytest.mark.parametrize("name", operations())
def test_each_operation_is_right_and_measured_in_every_own_system_and_the_dict(modules, name):
    run, workload = modules
    systems = ["sfkv", "flink-options", "dict"]
    if run.systems.Floor is not None:
        systems.insert(1, "floor")
    rows = run.measure_operation(name, tiny(workload), systems)
    assert [row["system"] for row in rows] == systems
    for row in rows:
        share = {"share_of_floor"} if row["system"] == "sfkv" and "floor" in systems else set()
        assert set(row) == FACTS | FIGURES | share
        assert row["op"] == name
        assert row["keys"] * row["rows_per_key"] == 2000
        assert row["min"] <= row["ops_per_s"] <= row["max"]
        assert json.loads(json.dumps(row)) == row


@pytest.mark.parametrize("name", operations())
def test_each_operation_is_right_and_measured_in_memory(modules, name):
    run, workload = modules
    systems = ["sfkv", "dict"]
    if run.systems.MemoryFloor is not None:
        systems.insert(1, "floor")
    for draw in ("unique", "zipf"):
        rows = run.measure_operation(name, tiny(workload, backend="memory", state="memory", draw=draw), systems)
        assert [row["system"] for row in rows] == systems
        assert {row["backend"] for row in rows} == {"memory"}
        assert ("share_of_floor" in rows[0]) == ("floor" in systems)


@pytest.mark.parametrize("changes", [{"draw": "zipf"}, {"draw": "missing"}, {"state": "memtable"}])
@pytest.mark.parametrize("name", ["value_get_many", "map_get", "list_get"])
def test_other_draws_and_places_answer_right(modules, name, changes):
    run, workload = modules
    systems = ["sfkv", "dict"] + (["floor"] if run.systems.Floor is not None else [])
    assert len(run.measure_operation(name, tiny(workload, **changes), systems)) == len(systems)


def test_the_floor_answers_right(modules):
    run, workload = modules
    if run.systems.Floor is None:
        pytest.skip("the floor is not built: make bench builds it")
    for draw in ("unique", "zipf"):
        for name, operation in workload.OPERATIONS.items():
            rows = run.measure_operation(name, tiny(workload, draw=draw), ["floor"])
            assert rows[0]["batch"] == (300 if operation.many else 1)


def test_a_wrong_answer_is_found(modules, tmp_path):
    run, workload = modules
    load = workload.Workload(workload.OPERATIONS["value_get_many"], tiny(workload))
    side = run.make_system("dict", tmp_path, load)
    side.fill(load)
    run.check(side, load)
    side.rows[load.asked.keys[0].item()] += 1
    with pytest.raises(AssertionError, match="wrong answers"):
        run.check(side, load)


def test_flink_options_take_effect(modules, tmp_path):
    run, workload = modules
    load = workload.Workload(workload.OPERATIONS["value_get"], tiny(workload))
    for name in ("sfkv", "flink-options"):
        side = run.make_system(name, tmp_path / name, load)
        not_taken = run.flink_options.not_taken(tmp_path / name)
        assert bool(not_taken) == (name == "sfkv"), not_taken
        side.close()


def test_each_key_is_drawn_once_before_any_twice(modules):
    _, workload = modules
    keys = workload.draw_keys(tiny(workload), 1000, 1500)
    assert sorted(keys[:1000].tolist()) == list(range(0, 2000, 2))
    assert len(set(keys[1000:].tolist())) == 500


def test_a_third_of_a_zipf_batch_is_distinct(modules):
    _, workload = modules
    keys = workload.draw_keys(workload.Settings(draw="zipf"), 500_000, 16_384)
    assert 0.28 < len(np.unique(keys)) / len(keys) < 0.38
    assert not (keys % 2).any()


def test_missing_keys_lie_between_stored_ones(modules):
    _, workload = modules
    for name in ("value_get", "map_get", "list_get_many"):
        load = workload.Workload(workload.OPERATIONS[name], tiny(workload, draw="missing"))
        stored = np.concatenate([rows.keys for rows in load.stored()])
        assert not np.isin(load.asked.keys, stored).any()
        assert stored.min() < load.asked.keys.min()
        assert load.asked.keys.max() < stored.max() + 2


def test_stored_values_are_all_different(modules):
    _, workload = modules
    for name in workload.OPERATIONS:
        load = workload.Workload(workload.OPERATIONS[name], tiny(workload))
        values = np.concatenate([rows.values for rows in load.stored()] + [load.asked.values])
        assert len(np.unique(values)) == load.row_count + len(load.asked)


def test_writes_are_not_drawn_missing(modules):
    run, workload = modules
    with pytest.raises(ValueError, match="writes"):
        workload.Workload(workload.OPERATIONS["value_put"], tiny(workload, draw="missing"))
    chosen, _ = run.parse(["--draw", "missing"])
    assert "value_get" in chosen.operations
    assert "value_put" not in chosen.operations


def test_a_peer_that_is_not_installed_is_named(modules, capsys, monkeypatch):
    run, _ = modules
    monkeypatch.setattr(run.peers, "installed", lambda name: name == "dict")
    assert run.choose_systems("sfkv", None) == ["sfkv", "dict"]
    assert run.choose_systems("sfkv", None, "memory") == ["sfkv", "dict"]
    assert "rocksdict: is not installed" in capsys.readouterr().err


def test_state_in_memory_is_measured_beside_a_dict(modules, monkeypatch, tmp_path):
    import memory

    monkeypatch.setattr(memory, "BUNDLE_KEYS", 2000)
    monkeypatch.setattr(memory, "BUNDLE_BATCHES", (300,))
    assert [(row["keys"], row["draw"]) for row in memory.measure_bundles(1)] == [
        ("int64", "unique"),
        ("int64", "zipf"),
        ("text", "unique"),
        ("text", "zipf"),
    ]
    for kind in memory.KINDS:
        assert memory.measure_one("sfkv", kind, 3000)["used_bytes"] > 16
        assert set(memory.measure_one("dict", kind, 3000)) == {"process_bytes"}
    monkeypatch.setattr(memory, "KINDS", ("text",))
    (row,) = memory.measure_rows(3000)
    assert row["rows"] == 3000
    assert memory.measure_snapshots(20_000, 1, tmp_path / "snapshots")["bytes"] > 20_000
    assert memory.measure_restore(3000, 1, tmp_path / "restore")["seconds"] > 0


def test_the_command_prints_json_lines():
    arguments = "--only value_get --keys 1000 --memory-mb 8 --rounds 1 --systems sfkv --peers none --json"
    command = [sys.executable, BENCHMARKS / "run.py", *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["system"] == "sfkv"
