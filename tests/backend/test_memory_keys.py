"""Keys that are hard for tables in memory: of all lengths, prefixes of others, without a bound; and many that come and go."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

import sfkv

pytestmark = pytest.mark.only("memory", reason="the file is about it")

BACKEND = sfkv.HashMapStateBackend()
SEED = 29


def hard_keys():
    """Binary keys; with their two zeros at the end, rows of up to 65,535 bytes."""
    keys = [b"", b"\0", b"\0\0", b"\xff", b"a", b"\xff" * 7, b"\xff" * 8, b"\xff" * 9, b"\xff" * 46, b"\xff" * 47]
    keys += [b"p" * n for n in range(60)]
    keys += [b"\xff" * n + b"\0" for n in range(20)]
    keys += [b"x" * 65_533, b"x" * 65_532, b"y" + b"x" * 65_532]
    return list(dict.fromkeys(keys))


@pytest.mark.parametrize("max_parallelism", [1, 32768])
def test_keys_of_every_length_are_found_and_lie_in_order(tmp_path, max_parallelism):
    keys = hard_keys()
    with BACKEND.open(tmp_path / "s", key=bytes, max_parallelism=max_parallelism) as keyed:
        state, lists = keyed.value_state("v", int), keyed.list_state("l", bytes)
        table = keyed.table("t", bytes, int)
        state.put_many(keys, range(len(keys)))
        table.put_many(keys, range(len(keys)))
        lists.add_many(keys + keys, keys + keys)
        keyed.snapshot(1, tmp_path / "chk").result()
    restored = BACKEND.restore(None, tmp_path / "chk" / "chk-1")
    for again in (BACKEND.open(tmp_path / "s"), restored):
        with again:
            state, lists = again.value_state("v", int), again.list_state("l", bytes)
            table = again.table("t", bytes, int)
            for n, key in enumerate(keys):
                assert (state.get(key), table.get(key), lists.get(key)) == (n, n, [key, key])
            assert state.get_many(keys).to_pylist() == table.get_many(keys).to_pylist() == list(range(len(keys)))
            assert state.get_many([key + b"?" for key in keys if len(key) < 65_000]).null_count == len(keys) - 3
            if max_parallelism == 1:
                assert table.scan().to_arrow()["key"].to_pylist() == sorted(keys)
                assert state.scan().to_arrow()["key"].to_pylist() == sorted(keys)
                above = table.scan_range(b"\xff" * 8, None).to_arrow()["key"].to_pylist()
                assert above == [key for key in sorted(keys) if key >= b"\xff" * 8]
            state.clear_many(keys[::2])
            assert state.contains_many(keys).to_pylist() == [n % 2 == 1 for n in range(len(keys))]


def test_maps_whose_keys_have_no_bound_end_where_the_next_begins():
    """A key of 0xff alone has nothing behind it that would end its entries, whatever the user keys are."""
    keys = [2**64 - 1, 2**64 - 2, 2**63, 255, 0]
    with BACKEND.open(None, key=pa.uint64(), max_parallelism=1) as keyed:
        maps = keyed.map_state("m", pa.uint64(), int)
        users = [2**64 - 1, 2**64 - 256, 0]
        for key, user_key in itertools.product(keys, users):
            maps.put(key, user_key, 1)
        for key in keys:
            assert list(maps[key]) == sorted(users)
            assert maps.items_many(pa.array([key], pa.uint64())).to_pylist() == [[(user, 1) for user in sorted(users)]]
            maps.clear(key)
            assert maps.is_empty(key)
            rest = keys[keys.index(key) + 1 :]
            assert sorted(set(maps.scan().to_arrow()["key"].to_pylist())) == sorted(rest)


def test_a_huge_key_group_grows_and_shrinks(tmp_path):
    """300,000 rows of one group, in an order that splits pages and leaves everywhere; then all but a few go."""
    rng = random.Random(SEED)
    keys = np.array(rng.sample(range(2**40), 150_000))
    with BACKEND.open(tmp_path / "s", key=int, max_parallelism=1) as keyed:
        state, table = keyed.value_state("v", int), keyed.table("t", int, int)
        empty = keyed._store.used_bytes
        for part in np.array_split(keys, 7):
            state.put_many(part, part)
            table.put_many(part, part)
        full = keyed._store.used_bytes - empty
        assert full < 2 * len(keys) * 2 * 16  # twice the bytes of keys and values, in both
        assert (state.get_many(keys).to_numpy() == keys).all()
        assert (table.scan().to_arrow()["key"].to_numpy() == np.sort(keys)).all()
        gone = np.array(rng.sample(keys.tolist(), 149_000))
        state.clear_many(gone)
        table.delete_many(gone)
        assert keyed._store.used_bytes - empty < full / 4
        left = np.sort(np.array(list(set(keys.tolist()) - set(gone.tolist()))))
        for rows in (state.scan(), table.scan()):
            assert (rows.to_arrow()["key"].to_numpy() == left).all()
        assert state.contains_many(gone).true_count == 0
        table.delete_range(int(left[3]), int(left[-3]))
        assert table.scan().to_arrow()["key"].to_pylist() == [*left[:3].tolist(), *left[-3:].tolist()]
        state.put_many(gone, gone)
        assert (state.get_many(gone).to_numpy() == gone).all()
    with BACKEND.open(tmp_path / "s") as keyed:
        assert keyed.value_state("v", int).contains_many(keys).true_count == len(keys)


def test_rows_that_come_and_go_leave_no_marks():
    """What is deleted in a full page is a mark for probes, and marks must not fill pages up."""
    with BACKEND.open(None, key=int, max_parallelism=1) as keyed:
        state = keyed.value_state("v", int)
        state.put_many(range(400), range(400))
        used = keyed._store.used_bytes
        for turn in range(300):
            first = turn * 400
            state.clear_many(range(first, first + 400))
            state.put_many(range(first + 400, first + 800), range(400))
        assert keyed._store.used_bytes <= used * 2
        assert state.scan_keys().to_arrow().num_rows == 400
        assert state.get_many(range(first, first + 400)).null_count == 400


@pytest.mark.parametrize("kind", ["value", "map", "table"])
def test_rows_that_do_not_fit_what_their_state_says_are_read_as_they_are(tmp_path, kind):
    """Rows from elsewhere may be of other lengths: they are kept, beside those that fit, and told when they are read."""
    with BACKEND.open(None, key=int, max_parallelism=1) as keyed:
        state = {
            "value": lambda: keyed.value_state("s", int),
            "map": lambda: keyed.map_state("s", int, int),
            "table": lambda: keyed.table("s", int, int),
        }[kind]()
        put = (lambda n: state.put(n, n, n)) if kind == "map" else (lambda n: state.put(n, n))
        for n in range(100):
            put(n)
        rows = keyed._store.read_range(b"", b"\xff\xff")
        row, value = sorted(rows.items())[50]
        odd = {row: value + b"odd", row[:-1]: value, row + b"more": value, row + bytes(300): b""}
        block = b"".join(varint(len(key) - 2) + key[2:] + varint(len(stored)) + stored for key, stored in odd.items())
        keyed._store.load_block(0, block)
        assert keyed._store.read_range(b"", b"\xff\xff") == {**rows, **odd}
        with pytest.raises(sfkv.CorruptionError):
            state.scan().to_arrow()
        put(200)
        keyed._store.load_block(0, block)
        found = keyed._store.read_range(b"", b"\xff\xff")
        assert len(found) == 104 and found.items() >= odd.items()


def varint(number):
    return bytes([number & 127 | 128, number >> 7]) if number > 127 else bytes([number])


@pytest.mark.parametrize(
    "rest", [b"\x05", b"\x00\x00", b"\x80\x80\x80\x80\x80\x01", b"\x01\x00\x02x", b"\x02\x00", b"\x01\x00\xff"]
)
def test_a_block_that_is_none_changes_nothing(rest):
    good = b"\x02\x00k\x01v"
    with BACKEND.open(None, key=int, max_parallelism=1) as keyed:
        keyed._store.load_block(0, good)
        before = keyed._store.read_range(b"", b"\xff\xff")
        assert before == {b"\0\0\0k": b"v"}
        with pytest.raises(sfkv.CorruptionError, match="block of rows"):
            keyed._store.load_block(0, b"\x02\x00n\x01v" + rest)
        assert keyed._store.read_range(b"", b"\xff\xff") == before
