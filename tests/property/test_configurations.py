"""One list of operations under many configurations: each answer is the model's, whatever the engine is set to."""

import functools
import random

import pytest

from tests.property.engines import ALL, SMALL, Configuration
from tests.property.keys import KINDS, kind
from tests.property.operations import Generator
from tests.property.runners import Model, Runner

SEED = 3


@functools.cache
def recorded(name, seed, count):
    return Generator(kind(name), seed).operations(count)


@functools.cache
def expected(name, seed, count, owned, max_parallelism):
    model = Model(kind(name), owned, max_parallelism)
    return [model.run(operation) for operation in recorded(name, seed, count)]


def check(name, seed, count, configuration, folder):
    print(f"seed {seed}")
    answers = expected(name, seed, count, configuration.owned(), configuration.max_parallelism)
    runner = Runner(kind(name), configuration, folder)
    try:
        for step, operation in enumerate(recorded(name, seed, count)):
            where = f"seed {seed}, keys {name}, {configuration}, step {step}: {operation!r:.1000}"
            try:
                answer = runner.run(operation)
            except Exception as error:
                raise AssertionError(where) from error
            if answer != answers[step]:
                pytest.fail(f"{where}\n{difference(answer, answers[step])}", pytrace=False)
    finally:
        runner.keyed.close(discard=True)


def difference(answer, wanted, at=""):
    """The first place where two answers differ."""
    if type(answer) is type(wanted) and isinstance(answer, (list, tuple)) and len(answer) == len(wanted):
        i = next(i for i, (one, other) in enumerate(zip(answer, wanted, strict=True)) if one != other)
        return difference(answer[i], wanted[i], f"{at}[{i}]")
    return f"answer{at} is {answer!r:.500}\nand should be {wanted!r:.500}"


@pytest.mark.parametrize("configuration", ALL, ids=lambda configuration: configuration.name)
def test_answers_are_the_models_under_every_configuration(tmp_path, configuration):
    check("text", SEED, 600, configuration, tmp_path)


@pytest.mark.parametrize("name", ["bytes", "mixed"])
@pytest.mark.parametrize("configuration", SMALL[1:4], ids=lambda configuration: configuration.name)
def test_answers_are_the_models_for_other_keys_too(tmp_path, name, configuration):
    check(name, SEED, 600, configuration, tmp_path)


def test_single_reads_are_right_where_not_all_files_are_open(tmp_path):
    """Without I/O the engine answers with an empty row for a file that is not open, whether or not the key is in it."""
    configuration = Configuration("few open files", "max_open_files=20;disable_auto_compactions=true")
    with configuration.backend().open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", str)
        for i in range(50):
            state.put(i, f"value {i}")
            keyed._store.flush()
        assert state.get_many(range(50)).to_pylist() == [f"value {i}" for i in range(50)]
        assert [state.get(i) for i in range(50)] == [f"value {i}" for i in range(50)]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_answers_are_the_models_for_every_kind_of_key_and_any_seed(tmp_path, name):
    """Under a quarter of the configurations, others each time: all of them take most of an hour."""
    for configuration in random.sample(ALL, len(ALL) // 4):
        folder = tmp_path / configuration.name.replace("/", "-")
        folder.mkdir()
        check(name, random.randrange(10**9), 1500, configuration, folder)


def test_the_operations_are_of_all_sorts():
    """A list that hardly ever restores, or whose keys never meet, would prove little."""
    operations = recorded("text", SEED, 600)
    names = [operation[0] for operation in operations]
    assert {"batch", "scan_open", "flush", "compact", "reopen", "snapshot", "restore", "drop_state"} <= set(names)
    model = Model(kind("text"), range(120), 128)
    answers = [model.run(operation) for operation in operations]
    refused = sum(answer == "another key group" for answer in answers)
    found = sum(
        any(value is not None for value in answer)
        for operation, answer in zip(operations, answers, strict=True)
        if operation[2:3] == ("get_many",) and isinstance(answer, list)
    )
    assert refused > 10
    assert found > 5
