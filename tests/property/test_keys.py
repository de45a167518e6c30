"""Nasty keys of every type: none is lost, none is taken for another, and scans keep to key groups and the order of keys."""

import datetime as dt
import itertools
import math
import random
import zoneinfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfkv
from tests.property import keys as nasty
from tests.property.engines import MEMORY, TINY, TWO_LEVELS, Configuration
from tests.property.keys import KINDS, NAN, canonical, kind, order
from tests.property.values import plain_rows

SEED = 7
CONFIGURATIONS = [
    Configuration("default"),
    Configuration("one group, tiny blocks", TINY, "block_size=64", read_chunk_keys=1, max_parallelism=1),
    Configuration("32,768 groups, tiny parts", TINY, TWO_LEVELS, write_batch_bytes=1, max_parallelism=32768),
    MEMORY,
]


def scanned(of, state, scan):
    return plain_rows(of, state, "int", scan.to_arrow())


@pytest.mark.parametrize("name", KINDS)
def test_key_rows_sort_as_keys_do_and_none_begins_another(name):
    of = kind(name)
    rows = of.rows.rows_of(of.pool)
    assert [of.rows.row_of(key) for key in of.pool] == rows
    assert of.rows.rows_of(of.array(of.pool)) == rows
    assert [canonical(of.rows.key_of(row)) for row in rows] == of.pool
    by_rows = sorted(zip(rows, of.pool, strict=True))
    assert [key for _, key in by_rows] == sorted(of.pool, key=order)
    for (row, key), (following, other) in itertools.pairwise(by_rows):
        assert not following.startswith(row), f"{key!r:.80} begins {other!r:.80}"


@pytest.mark.parametrize("name", ["bytes", "float", "timestamp", "composite", "pair", "mixed"])
def test_the_pools_have_keys_of_one_hash_and_of_one_group(name):
    of = kind(name)
    rows = of.rows.rows_of(of.pool)
    hashes = [int(nasty.murmur3(np.frombuffer(row, "u1").reshape(1, -1))[0]) for row in rows]
    twins = [[key for key, other in zip(of.pool, hashes, strict=True) if other == hash] for hash in sorted(set(hashes))]
    twins = [several for several in twins if len(several) > 1]
    assert len(twins) >= 2
    for several in twins:
        for max_parallelism in (128, 12345, 32768):
            assert len(set(of.groups(several, max_parallelism))) == 1
    assert of.groups(of.pool, 32768).count(32767) >= 3


def test_texts_and_numbers_of_one_hash_in_java_are_there():
    assert len(set(kind("text").groups(["AaAa", "AaBB", "BBAa", "BBBB"], 32768))) == 1
    assert len(set(kind("int").groups([0, -1, 1 << 32 | 1, 2 << 32 | 2], 32768))) == 1


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda configuration: configuration.name)
@pytest.mark.parametrize("name", KINDS)
def test_no_key_is_lost_or_confused(tmp_path, name, configuration):
    of = kind(name)
    rng = random.Random(SEED)
    mixed_up = of.pool * 3  # enough for a radix sort, and each key more than once
    rng.shuffle(mixed_up)
    numbers = {key: i for i, key in enumerate(mixed_up)}  # the last of a key counts
    groups = dict(zip(of.pool, of.groups(of.pool, configuration.max_parallelism), strict=True))
    backend = configuration.backend()
    path = tmp_path / "store"
    with backend.open(path, key=of.type, max_parallelism=configuration.max_parallelism) as keyed:
        state, twin = keyed.value_state("v", int), keyed.value_state("w", int)
        state.put_many(of.batch(mixed_up, "arrow"), list(range(len(mixed_up))))
        for key in of.pool:
            twin.put(key, -numbers[key])
    with backend.open(path) as keyed:
        state, twin = keyed.value_state("v", int), keyed.value_state("w", int)
        for _ in range(2):
            assert [state.get(key) for key in of.pool] == [numbers[key] for key in of.pool]
            assert [twin.get(key) for key in of.pool] == [-numbers[key] for key in of.pool]
            for shape in ("list", "arrow", "columns", "numpy"):
                assert state.get_many(of.batch(mixed_up, shape)).to_pylist() == [numbers[key] for key in mixed_up]
            in_order = sorted(of.pool, key=lambda key: (groups[key], order(key)))
            for batch_rows in (1, 7, 65536):
                assert scanned(of, "value", state.scan(batch_rows=batch_rows)) == [(key, numbers[key]) for key in in_order]
            assert scanned(of, "value", state.scan_keys()) == [(key,) for key in in_order]
            keyed.compact()
        gone, left = in_order[::2], in_order[1::2]
        for key in gone:
            state.clear(key)
        assert [key in state for key in in_order] == [i % 2 == 1 for i in range(len(in_order))]
        assert state.contains_many(in_order).to_pylist() == [i % 2 == 1 for i in range(len(in_order))]
        assert scanned(of, "value", state.scan()) == [(key, numbers[key]) for key in left]
        assert scanned(of, "value", twin.scan_keys()) == [(key,) for key in in_order]


@pytest.mark.parametrize("name", KINDS)
def test_maps_keep_keys_and_user_keys_apart(tmp_path, name):
    """The two stand behind each other in a row: each pair has one of its own, and a key's entries are what begins with it."""
    of = kind(name)
    keys, user_keys = of.map_keys, of.user_keys
    with CONFIGURATIONS[1].backend().open(tmp_path / "s", key=of.type, max_parallelism=16) as keyed:
        state = keyed.map_state("m", of.type, int)
        for i, key in enumerate(keys):
            state.put_many([key] * len(user_keys), user_keys, [i * 1000 + j for j in range(len(user_keys))])
        in_order = sorted(range(len(user_keys)), key=lambda j: order(user_keys[j]))
        for i, key in enumerate(keys):
            expected = [(user_keys[j], i * 1000 + j) for j in in_order]
            assert [(canonical(user_key), value) for user_key, value in state[key].items()] == expected
        for i, key in enumerate(keys):
            if i % 2:
                state.clear(key)
        groups = of.groups(keys, 16)
        left = sorted(range(0, len(keys), 2), key=lambda i: (groups[i], order(keys[i])))
        assert scanned(of, "map", state.scan_keys()) == [(keys[i],) for i in left]
        assert scanned(of, "map", state.scan()) == [(keys[i], user_keys[j], i * 1000 + j) for i in left for j in in_order]


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_any_keys_are_found_again_in_order(tmp_path_factory, name, data):
    of = kind(name)
    keys = data.draw(st.lists(of.keys, max_size=100))
    configuration = data.draw(st.sampled_from(CONFIGURATIONS[:2]))
    numbers = {key: i for i, key in enumerate(keys)}
    parallelism = configuration.max_parallelism
    path = tmp_path_factory.mktemp("keys") / "s"
    with configuration.backend().open(path, key=of.type, max_parallelism=parallelism) as keyed:
        state = keyed.value_state("v", int)
        state.put_many(keys, list(range(len(keys))))
        assert state.get_many(of.batch(keys, "arrow")).to_pylist() == [numbers[key] for key in keys]
        assert [state.get(key) for key in keys] == [numbers[key] for key in keys]
        with state.bundle(keys) as rows:
            assert [(canonical(key), value) for key, value in rows.items()] == [
                (key, numbers[key]) for key in dict.fromkeys(keys)
            ]
        groups = dict(zip(keys, of.groups(keys, parallelism), strict=True))
        in_order = sorted(numbers, key=lambda key: (groups[key], order(key)))
        assert scanned(of, "value", state.scan(batch_rows=3)) == [(key, numbers[key]) for key in in_order]


def test_every_nan_is_one_key_and_so_are_the_zeros(tmp_path):
    with sfkv.open(tmp_path / "s", key=float) as keyed:
        state = keyed.value_state("v", int)
        for i, number in enumerate([*nasty.other_nans(), math.nan, -math.nan]):
            state.put(number, i)
            state.put_many(np.array([number]), [i])
            assert state.get_many(np.array(nasty.other_nans())).to_pylist() == [i] * 4
        state.put(-0.0, 7)
        assert (state.get(0.0), state.get_many([0.0]).to_pylist()) == (7, [7])
        assert scanned(kind("float"), "value", state.scan())[-2:] in ([(0.0, 7), (NAN, 5)], [(NAN, 5), (0.0, 7)])
        assert state.scan_keys().to_arrow().num_rows == 2


def test_a_key_that_is_too_long_is_refused_in_every_call(tmp_path):
    """A row takes at most 65,535 bytes, whose end takes two and each zero byte two; in a map the user key counts too."""
    with sfkv.open(tmp_path / "s", key=bytes) as keyed:
        state, entries = keyed.value_state("v", int), keyed.map_state("m", bytes, int)
        for fits, long in ((b"\xff" * 65_533, b"\xff" * 65_534), (b"\0" * 32_766, b"\0" * 32_767)):
            state.put(fits, 1)
            assert state.get_many([fits]).to_pylist() == [1]
            for call in (
                lambda long=long: state.put(long, 1),
                lambda long=long: state.get(long),
                lambda long=long: state.get_many([b"", long]),
                lambda long=long: state.put_many([b"", long], [1, 1]),
                lambda long=long: long in state,
                lambda long=long: entries.put(long[:40_000], long[:40_000], 1),
                lambda long=long: entries.put_many([long[:40_000]], [long[:40_000]], [1]),
            ):
                with pytest.raises(sfkv.UsageError, match="65535|65,535"):
                    call()
        assert state.scan_keys().to_arrow().num_rows == 2
        assert entries.scan_keys().to_arrow().num_rows == 0


# --- Where clocks are put back, Python holds two moments an hour apart for equal if they name the zone.

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
SUMMER = dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.timezone.utc).astimezone(BERLIN)  # half past two, and again ...
WINTER = dt.datetime(2024, 10, 27, 1, 30, tzinfo=dt.timezone.utc).astimezone(BERLIN)  # ... half past two


def test_moments_that_python_takes_for_one_are_two_keys(tmp_path):
    assert SUMMER == WINTER
    with sfkv.open(tmp_path / "s", key=pa.timestamp("us", "Europe/Berlin")) as keyed:
        state = keyed.value_state("v", int)
        state.put(SUMMER, 1)
        state.put_many([SUMMER, WINTER], [2, 3])
        state.put(WINTER, 4)
        assert (state.get(SUMMER), state.get(WINTER)) == (2, 4)
        assert state.get_many([WINTER, SUMMER]).to_pylist() == [4, 2]
        assert state.scan_keys().to_arrow().num_rows == 2


def test_a_bundle_of_moments_that_python_takes_for_one(tmp_path):
    with sfkv.open(tmp_path / "s", key=pa.timestamp("us", "Europe/Berlin")) as keyed:
        state = keyed.value_state("v", int)
        state.put_many([SUMMER, WINTER], [1, 2])
        with pytest.raises(sfkv.SchemaError, match="one to Python"), state.bundle([SUMMER, WINTER]):
            pass
        assert state.get_many([SUMMER, WINTER]).to_pylist() == [1, 2]


def test_maps_of_objects_by_keys_of_several_columns_are_read_as_a_batch(tmp_path):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        state = keyed.map_state("m", {"a": str, "b": int | None}, object)
        state.put("k", ("x", 1), [1])
        assert state.items_many(["k"]) == [{("x", 1): [1]}]
