"""What a store holds that was closed with discard=True: the writes up to some moment, and no part of an indivisible one."""

import random

import pytest

import sfkv
from tests.property.engines import SMALL, TINY, Configuration
from tests.property.keys import kind, order

SEED = 11
PARALLELISM = 16
SPLIT = [
    Configuration("split at every row", TINY, write_batch_bytes=1),
    Configuration("split, always compacting", f"{TINY};level0_file_num_compaction_trigger=1", write_batch_bytes=1),
    Configuration("split, universal", f"{TINY};compaction_style=kCompactionStyleUniversal", write_batch_bytes=1, memory="4MB"),
]


def some_keys(name):
    """Keys in the order in which one call writes them, which is that of scans."""
    of = kind(name)
    keys = of.map_keys
    groups = dict(zip(keys, of.groups(keys, PARALLELISM), strict=True))
    return sorted(keys, key=lambda key: (groups[key], order(key)))


def left_of(configuration, path, of, write):
    """The rows that are found of what ``write(backend, its three states)`` wrote, by state, and the offset."""
    backend = configuration.backend()
    keyed = backend.open(path, key=of.type, max_parallelism=PARALLELISM)
    states = [keyed.value_state("v", bytes), keyed.list_state("l", bytes), keyed.map_state("m", int, bytes)]
    keyed._store.flush()
    write(keyed, *states)
    keyed.close(discard=True)
    with pytest.raises(sfkv.UncleanError):
        backend.open(path)
    with backend.open(path, recover=True) as keyed:
        states = [keyed.value_state("v", bytes), keyed.list_state("l", bytes), keyed.map_state("m", int, bytes)]
        tables = [state.scan().to_arrow() for state in states]
        return [list(zip(*(column.to_pylist() for column in table.columns), strict=True)) for table in tables], keyed.offset


@pytest.mark.parametrize("configuration", SPLIT, ids=lambda configuration: configuration.name)
@pytest.mark.parametrize("method", ["put_many", "bundle", "add_many", "update_many", "put_entries"])
@pytest.mark.parametrize("name", ["text", "int"])
def test_pieces_of_a_call_are_there_in_the_order_of_the_keys(tmp_path, name, method, configuration):
    keys = some_keys(name)
    rng = random.Random(SEED)
    values = {key: rng.randbytes(9000) for key in keys}
    mixed_up = rng.sample(keys, len(keys))

    def write(keyed, state, lists, maps):
        new = [values[key] for key in mixed_up]
        if method == "put_many":
            state.put_many(mixed_up, new)
        elif method == "bundle":
            with state.bundle(mixed_up) as rows:
                rows.update(values)
        elif method == "add_many":
            lists.add_many(mixed_up, new)
        elif method == "update_many":
            lists.update_many(mixed_up, [[value] for value in new])
        else:
            maps.put_many(mixed_up, [1] * len(mixed_up), new)

    found, _ = left_of(configuration, tmp_path / "s", kind(name), write)
    (rows,) = [rows for rows in found if rows]
    assert len(rows) < len(keys), "nothing was lost, so that nothing is proved"
    whole = {"add_many": lambda key: (key, [values[key]]), "put_entries": lambda key: (key, 1, values[key])}
    whole["update_many"] = whole["add_many"]
    assert rows == [whole.get(method, lambda key: (key, values[key]))(key) for key in keys[: len(rows)]]


@pytest.mark.parametrize("configuration", [*SPLIT, *SMALL[1:]], ids=lambda configuration: configuration.name)
def test_batches_are_there_up_to_the_one_that_the_offset_tells(tmp_path, configuration):
    """Batch i replaces all rows of three states."""
    keys = some_keys("text")[:40]
    rng = random.Random(SEED)
    pad = [rng.randbytes(300) for _ in range(60)]

    def write(keyed, state, lists, maps):
        for i in range(60):
            new = [i.to_bytes(2, "big") + pad[i]] * len(keys)
            with keyed.batch(offset=i):
                state.put_many(keys, new)
                lists.update_many(keys, [[value] for value in new])
                maps.put_many(keys, list(range(len(keys))), new)

    (rows, lists, entries), offset = left_of(configuration, tmp_path / "s", kind("text"), write)
    assert offset is not None and offset < 59, "nothing was lost, or all, so that nothing is proved"
    value = offset.to_bytes(2, "big") + pad[offset]
    assert rows == [(key, value) for key in keys]
    assert lists == [(key, [value]) for key in keys]
    assert entries == [(key, keys.index(key), value) for key in keys]
