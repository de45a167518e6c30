"""Batches that ask for most rows of a store are read by stepping from one to the next: with the answers of others."""

import random

import pyarrow as pa
import pytest

import sfkv

pytestmark = pytest.mark.backends

KEYS = 6000


def fill(keyed, place, rng):
    """Rows of two states that lie among each other, some of them overwritten or cleared, and what they hold."""
    texts, numbers = keyed.value_state("t", str), keyed.value_state("n", int)
    model = {}
    for part in range(3):
        asked = [rng.randrange(KEYS) for _ in range(KEYS // 2)]
        texts.put_many(asked, [f"{part}.{key}" * (key % 7) for key in asked])
        numbers.put_many(asked, asked)
        model |= {key: f"{part}.{key}" * (key % 7) for key in asked}
        gone = rng.sample(asked, 300)
        texts.clear_many(gone)
        for key in gone:
            model.pop(key, None)
        if place == "files" or (place == "both" and part < 2):
            keyed._store.flush()
    if place == "files":
        keyed.compact()
    return texts, model


@pytest.mark.parametrize("place", ["memtable", "files", "both"])
@pytest.mark.parametrize("share", [1.0, 0.6, 0.3, 0.05])
def test_answers_are_those_of_single_reads(tmp_path, place, share):
    rng = random.Random(f"{place} {share}")
    with sfkv.open(tmp_path / "s", key=int, max_parallelism=16) as keyed:
        texts, model = fill(keyed, place, rng)
        asked = [key for key in range(-500, KEYS + 500) if rng.random() < share]
        asked += rng.sample(asked, len(asked) // 3)
        rng.shuffle(asked)
        assert texts.get_many(asked).to_pylist() == [model.get(key) for key in asked]
        assert texts.contains_many(asked).to_pylist() == [key in model for key in asked]
        with texts.bundle(asked) as rows:
            assert rows == {key: model.get(key) for key in asked}


def test_clustered_keys_are_read_right_to_the_end(tmp_path):
    """The first ones lie side by side, the others far apart: stepping is given up on the way."""
    with sfkv.open(tmp_path / "s", key=int, max_parallelism=1) as keyed:
        state = keyed.value_state("v", int)
        state.put_many(range(8000), range(8000))
        asked = [*range(600), *range(600, 8000, 11)]
        assert len(asked) > 1024
        assert state.get_many(pa.array(asked)).to_pylist() == asked


def test_a_batch_over_several_states_is_seen_by_dense_batches(tmp_path):
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", int)
        state.put_many(range(2000), range(2000))
        with keyed.batch():
            state.put_many(range(0, 2000, 2), [-1] * 1000)
            assert state.get_many(range(2000)).to_pylist() == [key if key % 2 else -1 for key in range(2000)]
