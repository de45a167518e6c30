"""Sizes as Flink reads them."""

import pytest

import sfkv
from sfkv.config._sizes import parse_bytes


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (0, 0),
        (17, 17),
        ("17", 17),
        ("64MB", 64 << 20),
        ("64 mb", 64 << 20),
        ("1g", 1 << 30),
        ("2 KiB", 2048),
        ("3tb", 3 << 40),
        ("5b", 5),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_sizes_are_powers_of_two(size, count):
    assert parse_bytes(size, "x") == count


@pytest.mark.parametrize(
    "size", [-1, "-1", "1.5MB", "MB", "", "1 mb x", None, 1.0, True, "1e3", 2**63, 10**400, "9" * 20, "9" * 5000, "8388608tb"]
)
def test_what_is_no_size_is_refused_by_its_option(size):
    with pytest.raises(sfkv.ConfigError, match="memory"):
        parse_bytes(size, "memory")
