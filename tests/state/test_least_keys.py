"""What a table remembers of the least key of each key group: it saves work, and never hides a row."""

import pytest

import sfkv
from tests.state.windows import WINDOW, ends, seeks_of

pytestmark = pytest.mark.backends


@pytest.mark.only("rocksdb", reason="it counts the engine's seeks")
def test_a_watermark_that_fires_nothing_does_not_ask_the_engine(keyed, windows):
    assert ends(windows.scan_range(None, 0)) == []  # looks for the least row of each key group
    assert seeks_of(keyed, lambda: ends(windows.scan_range(None, 0))) == 0
    assert seeks_of(keyed, lambda: ends(windows.scan_range(None, 0, reverse=True, columns="end"))) == 0
    assert seeks_of(keyed, lambda: windows.delete_range(None, 0)) == 0
    windows.put((50, "u0"), 1)
    assert seeks_of(keyed, lambda: ends(windows.scan_range(None, 0))) == 0
    windows.put((-1, "u0"), 1)
    assert seeks_of(keyed, lambda: ends(windows.scan_range(None, 0))) == 2  # one iterator, one seek
    windows.delete((-1, "u0"))
    assert seeks_of(keyed, lambda: ends(windows.scan_range(None, 0))) == 3  # and once behind the range
    assert seeks_of(keyed, lambda: ends(windows.scan_range(None, 0))) == 0


@pytest.mark.only("rocksdb", reason="it counts the engine's seeks")
def test_it_is_learned_again_after_firing(keyed, windows):
    fired = windows.scan_range(None, 10).to_arrow()
    windows.delete_many({"end": fired["end"], "user": fired["user"]})
    assert ends(windows.scan_range(None, 10)) == []
    assert seeks_of(keyed, lambda: ends(windows.scan_range(None, 10))) == 0
    windows.delete_range(None, 20)
    assert seeks_of(keyed, lambda: ends(windows.scan_range(None, 20))) == 0
    windows.delete_range()
    assert seeks_of(keyed, lambda: ends(windows.scan())) == 0


@pytest.mark.only("rocksdb", reason="it counts the engine's seeks")
def test_a_reversed_scan_learns_too(keyed, windows):
    assert ends(windows.scan_range(None, 0, reverse=True)) == []
    assert seeks_of(keyed, lambda: ends(windows.scan_range(None, 0))) == 0


def test_what_was_put_since_a_scan_began_is_not_hidden_by_it(keyed, windows):
    """The open scan does not see the new row, and would learn a greater one as the least."""
    scan = windows.scan_range(None, 50, batch_rows=10)
    windows.put((-1, "u7"), 1)
    assert -1 not in ends(scan)
    assert ends(windows.scan_range(None, 0)) == [-1]
    scan = windows.scan_range(None, -5)
    windows.put_many([(-9, "u7"), (-8, "u8")], [1, 1])
    assert ends(scan) == []
    assert sorted(ends(windows.scan_range(None, 0))) == [-9, -8, -1]


def test_what_was_deleted_since_a_scan_began_is_not_hidden_from_it(keyed, windows):
    scan = windows.scan_range(None, 50)
    windows.delete_range(None, 60)
    assert ends(windows.scan_range(None, 60)) == []
    assert len(ends(scan)) == 150


def test_a_batch_that_was_dropped_leaves_a_right_bound(keyed, windows):
    assert ends(windows.scan_range(None, 0)) == []
    with pytest.raises(ZeroDivisionError), keyed.batch():
        windows.put((-1, "u7"), 1)
        windows.delete_range(None, 50)
        raise ZeroDivisionError
    assert ends(windows.scan_range(None, 0)) == []
    assert len(ends(windows.scan_range(None, 50))) == 150


def test_it_is_one_for_all_objects_of_a_table(keyed, windows):
    assert ends(windows.scan_range(None, 0)) == []
    keyed._registry.states.pop("windows")
    other = keyed.table("windows", WINDOW, int, group_by="user")
    assert other is not windows
    other.put((-1, "u7"), 1)
    assert ends(windows.scan_range(None, 0)) == ends(other.scan_range(None, 0)) == [-1]


@pytest.mark.only("rocksdb", reason="it counts the engine's seeks")
def test_a_table_that_was_dropped_leaves_nothing(keyed, windows):
    windows.delete_range()
    assert seeks_of(keyed, lambda: ends(windows.scan())) == 0
    keyed.drop_state("windows")
    with pytest.raises(sfkv.ClosedError, match="dropped"):
        windows.scan()
    with pytest.raises(sfkv.ClosedError, match="dropped"):
        windows.delete_range()
    again = keyed.table("windows", WINDOW, int, group_by="user")
    again.put((1, "a"), 1)
    assert ends(again.scan()) == [1]


def test_a_write_that_fails_leaves_a_right_bound(run_python):
    """The disk is full: the put may or may not be there later, and both must be found."""
    run_python(
        """
        import sfkv
        with sfkv.open(STORE, key=str) as keyed:
            table = keyed.table("t", {"end": int, "user": str}, bytes, group_by="user")
            table.put((5, "a"), b"x")
            assert table.scan_range(None, 5).to_arrow().num_rows == 0
            try:
                with keyed.batch():
                    table.put((1, "a"), bytes(200 << 20))
                    table.put((2, "a"), bytes(200 << 20))
            except sfkv.LimitError:
                pass
            assert table.scan_range(None, 5).to_arrow().num_rows == 0
            table.put((3, "a"), b"y")
            assert table.scan_range(None, 5).to_arrow()["end"].to_pylist() == [3]
        """
    )
