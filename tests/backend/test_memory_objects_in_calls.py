"""Live objects of state in memory, in calls: what one is about to write, and what it has read, is its own."""

import contextlib
import dataclasses
import gc
import itertools
import sys
import threading
import time
import typing
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

import sfkv
from tests.backend.watched import Thing

pytestmark = pytest.mark.only("memory", reason="the file is about it")


@pytest.fixture
def keyed():
    with sfkv.HashMapStateBackend().open(None, key=int, max_parallelism=4) as backend:
        yield backend


class Hooked(type):
    """A class whose objects run code where they are numbered: the class is looked up there."""

    hook = None

    def __hash__(cls):
        if cls.hook is not None and not cls.is_running:
            cls.is_running = True
            try:
                cls.hook()
            finally:
                cls.is_running = False
        return type.__hash__(cls)


class Busy(dict, metaclass=Hooked):
    __slots__ = ("__weakref__",)
    is_running = False

    def __reduce__(self):
        return Busy, (), None, None, iter(self.items())


@pytest.fixture
def hook():
    def set_hook(call):
        Busy.hook = staticmethod(call)

    yield set_hook
    Busy.hook = None


def busy(first, count):
    return [Busy(n=n) for n in range(first, first + count)]


def bundled(state, keys, values):
    with state.bundle(keys) as rows:
        rows.update(zip(keys, values, strict=True))


WRITES = {
    "put": lambda s, values: [s.value.put(n, value) for n, value in enumerate(values)],
    "put_many": lambda s, values: s.value.put_many(range(len(values)), values),
    "bundle": lambda s, values: bundled(s.value, list(range(len(values))), values),
    "table put_many": lambda s, values: s.table.put_many(range(len(values)), values),
    "list add": lambda s, values: [s.lists.add(1, value) for value in values],
    "list add_all": lambda s, values: s.lists.add_all(1, values),
    "list add_many": lambda s, values: s.lists.add_many([1] * len(values), values),
    "list update": lambda s, values: s.lists.update(1, values),
    "list update_many": lambda s, values: s.lists.update_many([1], [values]),
    "map put": lambda s, values: [s.maps.put(1, n, value) for n, value in enumerate(values)],
    "map put_all": lambda s, values: s.maps.put_all(1, dict(enumerate(values))),
    "map put_many": lambda s, values: s.maps.put_many([1] * len(values), range(len(values)), values),
}
READS = {
    "get": lambda s: [s.value.get(n) for n in range(3)],
    "get_many": lambda s: s.value.get_many(range(3)),
    "several get_many": lambda s: s.keyed.get_many([(s.value, range(3))])[0],
    "table get_many": lambda s: s.table.get_many(range(3)),
    "bundle": lambda s: list(s.value.bundle(range(3)).__enter__().values()),
    "list get": lambda s: s.lists.get(1),
    "list get_many": lambda s: s.lists.get_many([1])[0],
    "map get": lambda s: [s.maps.get(1, n) for n in range(3)],
    "map get_many": lambda s: s.maps.get_many([1] * 3, range(3)),
    "map values": lambda s: list(s.maps[1].values()),
    "map items_many": lambda s: list(s.maps.items_many([1])[0].values()),
}


class States:
    def __init__(self, keyed, type=object):
        self.keyed = keyed
        self.value, self.table = keyed.value_state("v", type), keyed.table("t", key=int, value=type)
        self.lists, self.maps = keyed.list_state("l", type), keyed.map_state("m", int, type)

    def stored(self):
        lists = [self.value.get_many(range(3)), self.table.get_many(range(3)), self.lists.get(1), list(self.maps[1].values())]
        return [values for values in lists if values not in ([], [None] * 3)]


@pytest.mark.parametrize("write", WRITES)
def test_other_writes_of_the_thread_let_go_of_nothing_that_a_call_is_about_to_write(keyed, hook, watched, write):
    """They ended all numbers that the thread was given, and these were given out again while rows came to hold them."""
    states, count, others = States(keyed), keyed.value_state("count", int), keyed.value_state("others", object)
    runs = []

    def other_writes():
        runs.append(1)
        keyed.cells.set("heartbeat", len(runs))
        count.put(1, len(runs))
        others.put(len(runs) % 5, {"other": len(runs)})

    hook(other_writes)
    WRITES[write](states, busy(0, 3))
    hook(None)
    others.put_many(range(10, 20), [{"other": n} for n in range(10, 20)])
    assert runs
    assert states.stored() == [[{"n": n} for n in range(3)]]
    assert others.get_many(range(10, 20)) == [{"other": n} for n in range(10, 20)]


@pytest.mark.parametrize("write", WRITES)
def test_a_write_whose_values_collect_garbage_that_writes(keyed, write):
    states, others = States(keyed), keyed.value_state("others", object)
    runs = []

    class Cycle:
        def __init__(self):
            self.self = self

        def __del__(self):
            if runs is not None:
                runs.append(1)
                others.put(len(runs) % 5, {"other": len(runs)})
                Cycle()

    before = gc.get_threshold()
    Cycle()
    try:
        gc.set_threshold(1, 1000, 1000)
        for _ in range(20):
            WRITES[write](states, [{"n": n} for n in range(3)])
            if write.startswith("list add"):
                states.lists.clear(1)
        WRITES[write](states, [{"n": n} for n in range(3)])
    finally:
        gc.set_threshold(*before)
        hits, runs = len(runs), None
    assert hits
    assert states.stored() == [[{"n": n} for n in range(3)]]


@pytest.mark.parametrize("where", ["here", "in a thread that ends"])
def test_a_batch_that_fails_lets_go_of_its_objects_at_once(keyed, watched, where):
    """Those of a thread that ended were held for ever."""
    value = keyed.value_state("any", object)

    def fail():
        with pytest.raises(sfkv.SchemaError, match="complex"):
            value.put_many(range(101), [*(watched(n) for n in range(100)), 1 + 2j])

    if where == "here":
        fail()
    else:
        with ThreadPoolExecutor(1) as other:
            other.submit(fail).result()
    assert watched.alive() == []


def test_a_write_to_what_is_closed_holds_nothing(keyed, watched):
    type = sfkv.Msgpack(Thing)
    value, lists, maps = keyed.value_state("v", type), keyed.list_state("l", type), keyed.map_state("m", int, type)
    value.put(1, watched(1))
    keyed.close()
    for write in (lambda: value.put(1, watched(2)), lambda: lists.add(1, watched(3)), lambda: maps.put(1, 1, watched(4))):
        with pytest.raises(sfkv.ClosedError):
            write()
    assert watched.alive() == []


def test_a_write_during_which_the_backend_is_closed_holds_nothing(watched, hook):
    keyed = sfkv.HashMapStateBackend().open(None, key=int)
    states = States(keyed)
    states.value.put(1, watched(1))
    hook(keyed.close)
    with pytest.raises(sfkv.ClosedError):
        states.value.put_many(range(3), busy(0, 3))
    assert watched.alive() == []


@pytest.fixture
def decoding(tmp_path):
    """Opens states whose three objects are bytes yet, and runs code where the first of them is decoded."""
    with sfkv.HashMapStateBackend().open(tmp_path / "s", key=int) as keyed:
        states = States(keyed, sfkv.Msgpack(Decoded))
        for write in WRITES:
            if write.endswith("_many"):
                WRITES[write](states, [Decoded(n) for n in range(3)])
        states.lists.update(1, states.lists.get(1)[:3])
    keyed = sfkv.HashMapStateBackend().open(tmp_path / "s")
    yield States(keyed, sfkv.Msgpack(Decoded))
    Decoded.hook = None
    keyed.close()


@dataclasses.dataclass
class Decoded:
    n: int
    hook: typing.ClassVar = None

    def __post_init__(self):
        hook, Decoded.hook = Decoded.hook, None
        if hook is not None:
            hook()


@pytest.mark.parametrize("read", READS)
def test_what_a_call_has_read_stays_that_whatever_is_written_while_it_decodes(decoding, read):
    """It looked the numbers up one by one, and found objects of other keys, or wrote over them."""

    def write():
        decoding.value.clear_many(range(3))
        decoding.lists.clear(1)
        decoding.maps.clear(1)
        decoding.table.delete_many(range(3))
        for state in (decoding.value, decoding.table):
            state.put_many(range(10, 30), [Decoded(n) for n in range(10, 30)])

    wanted = [Decoded(n) for n in range(3)]
    Decoded.hook = write
    single = read in ("get", "map get")
    assert READS[read](decoding) == ([wanted[0], None, None] if single else wanted)
    assert READS[read](decoding) in ([], [None] * 3)
    for state in (decoding.value, decoding.table):
        assert state.get_many(range(10, 30)) == [Decoded(n) for n in range(10, 30)]


def test_two_calls_that_decode_one_object_give_the_same(decoding):
    inner = []
    Decoded.hook = lambda: inner.append(decoding.value.get(1))
    outer = decoding.value.get(1)
    assert inner[0] is outer is decoding.value.get(1)
    Decoded.hook = lambda: inner.extend(decoding.lists.get(1))
    assert all(one is other for one, other in zip(decoding.lists.get(1), inner[1:], strict=True))


def test_an_object_that_is_decoded_twice_at_a_time_is_one(decoding):
    """A batch had found the bytes, and another call made an object of them before it did."""
    found = []
    Decoded.hook = lambda: found.extend(decoding.value.get(n) for n in (1, 2))
    objects = decoding.value.get_many(range(3))
    assert objects[1] is found[0] is decoding.value.get(1)
    assert objects[2] is found[1] is decoding.value.get(2)


def test_a_second_thread_that_writes_between_a_calls_end_and_its_answer_changes_no_answer():
    with sfkv.HashMapStateBackend().open(None, key=int) as keyed:
        states, others = States(keyed), keyed.value_state("others", object)
        count = 300
        states.value.put_many(range(count), [{"n": n} for n in range(count)])
        states.maps.put_all(1, {n: {"n": n} for n in range(count)})
        states.lists.update(1, [{"n": n} for n in range(count)])
        end = time.monotonic() + 1.5

        def write():
            for n in itertools.cycle(range(count)):
                with contextlib.suppress(sfkv.BusyError):
                    states.value.put(n, {"n": n})
                    states.maps.put(1, n, {"n": n})
                    others.put(n % 50, {"other": n})
                    if n == 0:
                        states.lists.update(1, [{"n": n} for n in range(count)])
                if time.monotonic() > end:
                    return

        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            with ThreadPoolExecutor(1) as other:
                done = other.submit(write)
                while not done.done():
                    for read in (
                        lambda: states.value.get_many(range(count)),
                        lambda: list(states.value.bundle(list(range(count))).__enter__().values()),
                        lambda: states.maps.get_many([1] * count, range(count)),
                        lambda: list(states.maps.items_many([1])[0].values()),
                        lambda: list(states.maps[1].values()),
                        lambda: states.lists.get_many([1])[0],
                        lambda: states.lists.get(1),
                        lambda: [
                            msgspec.msgpack.decode(row)
                            for row in states.value.scan().to_arrow().sort_by("key")["value"].to_pylist()
                        ],
                    ):
                        with contextlib.suppress(sfkv.BusyError):
                            assert read() == [{"n": n} for n in range(count)]
                done.result()
        finally:
            sys.setswitchinterval(before)
        assert states.value.get_many(range(count)) == [{"n": n} for n in range(count)]


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"deeper": value}
    return value


@pytest.mark.parametrize("read", READS)
def test_what_cannot_be_copied_deeply_is_copied_by_the_serializer_while_a_view_sees_it(keyed, read):
    states = States(keyed)
    values = [{"bytes": memoryview(b"abc")}, {"n": 1}, nested(400)]
    for write in WRITES:
        if write.endswith("_many") and write != "list update_many":
            WRITES[write](states, values)
    with states.value.scan():
        given = READS[read](states)
        assert given[:2] == [{"bytes": b"abc"}, {"n": 1}]
        assert all(one is not other for one, other in zip(given, values, strict=True))
        depth, value = 0, given[2]
        while value:
            depth, value = depth + 1, value["deeper"]
        assert depth == 400


@pytest.mark.parametrize("read", [read for read in READS if "bundle" not in read])
def test_what_cannot_be_copied_at_all_is_told_with_its_state_and_key(keyed, read):
    states = States(keyed)
    values = [{"n": 0}, {"n": 1}, {"n": 2}]
    for write in WRITES:
        if write.endswith("_many") and write != "list update_many":
            WRITES[write](states, values)
    values[1]["thread"] = threading.Lock()
    with states.value.scan(), pytest.raises(sfkv.SchemaError, match="copied.*under the key 1") as raised:
        READS[read](states)
    assert raised.value.state in ("v", "t", "l", "m")
    assert (raised.value.row is None) == (read in ("get", "list get", "map get", "map values"))
    del values[1]["thread"]
    assert READS[read](states) == values


def test_an_iterator_over_objects_gives_what_it_has_read_before_it_says_that_the_backend_is_closed():
    """It said that the store was damaged."""
    keyed = sfkv.HashMapStateBackend().open(None, key=int)
    maps = keyed.map_state("m", int, object)
    maps.put_all(1, {n: {"n": n} for n in range(3000)})
    begun, new = iter(maps[1].values()), iter(maps[1].items())
    given = [next(begun)]
    keyed.close()
    with pytest.raises(sfkv.ClosedError):
        given.extend(begun)
    assert given == [{"n": n} for n in range(len(given))]
    for iterator in (begun, new):
        with pytest.raises(sfkv.ClosedError):
            next(iterator)
