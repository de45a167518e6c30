"""Key groups: Flink's numbers, and the agreement of router, batch and single call."""

import numpy as np
import pyarrow as pa
import pytest

import sfkv

# Key, its type, and its key group of 128, 4,096 and 32,768: FORMAT.md section 2.
GOLDEN = [
    (0, pa.int32(), 94, 2526, 31198),
    (1, pa.int32(), 86, 4054, 16342),
    (2, pa.int32(), 127, 2943, 15231),
    (42, pa.int32(), 29, 3613, 28189),
    (-1, pa.int32(), 80, 2896, 15184),
    (2**31 - 1, pa.int32(), 62, 3262, 19646),
    (-(2**31), pa.int32(), 108, 2156, 10348),
    (2**33, pa.int64(), 127, 2943, 15231),
    (-1, pa.int64(), 94, 2526, 31198),
    (1234567890123, pa.int64(), 92, 3420, 32092),
    ("", pa.utf8(), 94, 2526, 31198),
    ("a", pa.utf8(), 81, 3025, 19409),
    ("hello", pa.utf8(), 35, 2723, 31395),
    ("key-1", pa.utf8(), 54, 2614, 23094),
    ("ü", pa.utf8(), 41, 2217, 18601),
    ("\U0001f600", pa.utf8(), 54, 3254, 7350),
]


@pytest.mark.parametrize(("key", "type", "of_128", "of_4096", "of_32768"), GOLDEN)
def test_key_groups_are_flinks(key, type, of_128, of_4096, of_32768):
    keys = pa.array([key], type)
    assert [sfkv.key_groups(keys, m)[0].as_py() for m in (128, 4096, 32768)] == [of_128, of_4096, of_32768]


def java_string_hash(text):
    units = text.encode("utf-16-le")
    hash = 0
    for i in range(0, len(units), 2):
        hash = (31 * hash + int.from_bytes(units[i : i + 2], "little")) & 0xFFFFFFFF
    return hash


def test_text_hashes_by_its_utf16_units():
    texts = ["", "x", "ß", "€", "日本", "\U0001f600\U0001f601a", "a\0b", "\uffff", "\U0010ffff"]
    as_int32 = [java_string_hash(text) - (1 << 32) * (java_string_hash(text) >> 31) for text in texts]
    by_hash = sfkv.key_groups(pa.array(as_int32, pa.int32()), 32768)
    assert sfkv.key_groups(texts, 32768).equals(by_hash)


def murmur3(data, seed=42):
    """MurmurHash3 for x86, 32 bits, written from its description."""

    def rotl(value, bits):
        return ((value << bits) | (value >> (32 - bits))) & 0xFFFFFFFF

    hash = seed
    for i in range(0, len(data) - len(data) % 4, 4):
        block = int.from_bytes(data[i : i + 4], "little") * 0xCC9E2D51 & 0xFFFFFFFF
        hash ^= rotl(block, 15) * 0x1B873593 & 0xFFFFFFFF
        hash = (rotl(hash, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    tail = int.from_bytes(data[len(data) - len(data) % 4 :], "little")
    if len(data) % 4:
        hash ^= rotl(tail * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
    hash ^= len(data)
    hash = (hash ^ hash >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    hash = (hash ^ hash >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return hash ^ hash >> 16


def test_other_keys_hash_their_rows_by_murmur3():
    assert murmur3(b"hello", seed=0) == 0x248BFA47  # a published vector
    for text in (b"", b"a", b"ab", b"abc", b"abcd", b"abcde", bytes(range(1, 60))):
        row_hash = murmur3(text + b"\0\0")
        signed = row_hash - (1 << 32) * (row_hash >> 31)
        expected = sfkv.key_groups(pa.array([signed], pa.int32()), 32768)
        assert sfkv.key_groups(pa.array([text], pa.binary()), 32768).equals(expected)


def test_dates_and_times_are_no_integers_to_flink():
    days = pa.array([0, 1, 42], pa.int32())
    assert sfkv.key_groups(days.cast(pa.date32()), 32768) != sfkv.key_groups(days, 32768)


@pytest.mark.parametrize(
    ("parallelism", "max_parallelism", "ranges"),
    [
        (3, 128, [(0, 42), (43, 85), (86, 127)]),
        (5, 128, [(0, 25), (26, 51), (52, 76), (77, 102), (103, 127)]),
        (4, 10, [(0, 2), (3, 4), (5, 7), (8, 9)]),
    ],
)
def test_ranges_are_flinks(parallelism, max_parallelism, ranges):
    assert [sfkv.key_group_range(i, parallelism, max_parallelism) for i in range(parallelism)] == ranges


def test_ranges_cover_every_group_once_at_the_upper_bound():
    ranges = [sfkv.key_group_range(i, 32768, 32768) for i in range(32768)]
    assert ranges == [(i, i) for i in range(32768)]


@pytest.mark.parametrize("bad", [0, -1, 32769, 1.5, True, "128"])
def test_a_bad_max_parallelism_is_refused(bad):
    with pytest.raises(sfkv.ConfigError, match="max_parallelism"):
        sfkv.key_groups([1], bad)


@pytest.mark.parametrize(
    ("index", "parallelism"), [(-1, 2), (2, 2), (0, 129), ("0", 2), (0, "2"), (0.5, 2), (0, 2.0), (None, 2)]
)
def test_a_bad_worker_is_refused(index, parallelism):
    with pytest.raises(sfkv.ConfigError):
        sfkv.key_group_range(index, parallelism, 128)


def test_keys_that_do_not_tell_their_type_need_one():
    for keys in (["a", 1], [1, "a"], None, 7, [object()]):
        with pytest.raises(sfkv.SchemaError, match="pass key="):
            sfkv.key_groups(keys)
    with pytest.raises(sfkv.SchemaError):
        sfkv.key_groups([None])
    assert len(sfkv.key_groups({"a": [1, 2]}, key={"a": int})) == 2
    assert sfkv.key_groups(pa.chunked_array([["a"], ["b"]])) == sfkv.key_groups(["a", "b"])


def test_a_null_key_has_no_group():
    with pytest.raises(sfkv.SchemaError) as raised:
        sfkv.key_groups(["a", None])
    assert raised.value.row == 1


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        (str, ["a", "bb", "ü"]),
        (int, [0, -5, 1 << 40]),
        (pa.int16(), np.array([3, -3], "i2")),
        ({"user": str, "day": int}, [("a", 1), ("b", 2)]),
    ],
)
def test_router_and_backend_agree(tmp_path, key, keys):
    """A backend that owns one group takes exactly the keys which the router gives that group, single or in a batch."""
    groups = sfkv.key_groups(keys, 16, key=key).to_pylist()
    for group in range(16):
        with sfkv.open(tmp_path / str(group), key=key, max_parallelism=16, key_groups=(group, group)) as keyed:
            state = keyed.value_state("v", int)
            for one, of in zip(keys, groups, strict=True):
                one = one.item() if isinstance(one, np.generic) else one
                if of == group:
                    state.put(one, 1)
                    state.put_many([one], [2])
                    assert state.get(one) == 2
                else:
                    message = f"key group {of}, and this backend owns {group} to {group}"
                    with pytest.raises(sfkv.KeyGroupError, match=message):
                        state.put(one, 1)
                    with pytest.raises(sfkv.KeyGroupError, match=message):
                        state.put_many([one], [1])
