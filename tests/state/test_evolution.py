"""Schemas that change: what is read without rewriting, and what is refused."""

import dataclasses
import datetime as dt

import msgspec
import pyarrow as pa
import pytest

import sfkv
from sfkv._evolution import with_history
from sfkv._types import ValueSchema
from tests.backends import new_backend

pytestmark = pytest.mark.backends

OLD = pa.struct([pa.field("n", pa.int32(), nullable=False), pa.field("name", pa.utf8())])


def field(name, arrow, nullable=True, default=None):
    return pa.field(name, arrow, nullable, metadata=None if default is None else {"default": default})


def struct_with(*more):
    return pa.struct([*OLD, *more])


NEW = struct_with(
    field("at", pa.timestamp("us")),
    field("count", pa.int64(), nullable=False, default="7"),
    field("tags", pa.list_(pa.utf8()), nullable=False, default='["a", "b"]'),
    field("city", pa.utf8(), nullable=False, default='"IAH"'),
)
ADDED = {"at": None, "count": 7, "tags": ["a", "b"], "city": "IAH"}


@pytest.fixture
def path(tmp_path):
    """A store with rows of the old schema in each kind of state."""
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        keyed.value_state("v", OLD).put_many(["a", "b"], [{"n": 1, "name": "x"}, {"n": 2, "name": None}])
        keyed.list_state("l", OLD).add("a", {"n": 1, "name": "x"})
        keyed.map_state("m", int, OLD).put("a", 5, {"n": 1, "name": "x"})
    return tmp_path / "s"


def test_added_columns_are_null_or_their_default_and_old_rows_stay_as_they_are(path):
    with sfkv.open(path, key=str) as keyed:
        state = keyed.value_state("v", NEW)
        assert state.get("a") == {"n": 1, "name": "x", **ADDED}
        rows = keyed._store.read_range(b"", b"\xff\xff")
        new = {"n": 3, "name": "z", "at": dt.datetime(2020, 1, 1), "count": 1, "tags": [], "city": ""}
        state.put("c", new)
        wanted = [{"n": 1, "name": "x", **ADDED}, new, {"n": 2, "name": None, **ADDED}, None, {"n": 1, "name": "x", **ADDED}]
        assert state.get_many(["a", "c", "b", "d", "a"]).to_pylist() == wanted
        assert state.get_many(["a", "c"], columns=["city", "n"]).to_pylist() == [{"city": "IAH", "n": 1}, {"city": "", "n": 3}]
        assert {row["key"]: row["count"] for row in state.scan().to_arrow().to_pylist()} == {"a": 7, "b": 7, "c": 1}
        with state.bundle(["a", "c"]) as bundle:
            assert bundle == {"a": wanted[0], "c": new}
            bundle["a"]["n"] = 8
        assert state.get("a") == {**wanted[0], "n": 8}
        assert rows.items() - keyed._store.read_range(b"", b"\xff\xff").items() == {
            item for item in rows.items() if b"a\0\0" in item[0] and item[0][2] == 0
        }


def test_lists_and_maps_too(path):
    with sfkv.open(path, key=str) as keyed:
        events, entries = keyed.list_state("l", NEW), keyed.map_state("m", int, NEW)
        new = {"n": 3, "name": "z", "at": None, "count": 1, "tags": [], "city": ""}
        events.add("a", new)
        entries.put("a", 6, new)
        old = {"n": 1, "name": "x", **ADDED}
        assert events.get("a") == [old, new]
        assert events.get_many(["a"]).to_pylist() == [[old, new]]
        assert dict(entries["a"]) == {5: old, 6: new}
        assert entries.items_many(["a"]).to_pylist() == [[(5, old), (6, new)]]
        assert entries.get_many(["a", "a"], [6, 5]).to_pylist() == [new, old]


def test_many_versions_lie_side_by_side_and_come_back_after_reopening(tmp_path):
    fields = list(OLD)
    for version in range(5):
        with sfkv.open(tmp_path / "s", key=int) as keyed:
            state = keyed.value_state("v", pa.struct(fields))
            state.put(version, {"n": version, **{f"x{i}": f"{version}.{i}" for i in range(version)}})
        fields.insert(version % 2, field(f"x{version}", pa.utf8(), default=f'"default {version}"'))
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        state = keyed.value_state("v", pa.struct(fields))
        wanted = [
            {"n": v, "name": None, **{f"x{i}": f"{v}.{i}" if i < v else f"default {i}" for i in range(5)}} for v in range(5)
        ]
        assert [state.get(v) for v in range(5)] == wanted
        assert state.get_many([4, 0, 3, 1, 2]).to_pylist() == [
            {name: wanted[v][name] for name in [field.name for field in fields]} for v in (4, 0, 3, 1, 2)
        ]
    with sfkv.open(tmp_path / "s", key=int) as keyed:
        assert keyed.value_state("v", pa.struct(fields)).get(0) == wanted[0]


def test_columns_may_change_places_and_become_nullable(path):
    with sfkv.open(path, key=str) as keyed:
        state = keyed.value_state("v", pa.struct([pa.field("name", pa.utf8()), pa.field("n", pa.int32())]))
        assert state.get("a") == {"n": 1, "name": "x"}
        state.put("b", {"n": None, "name": "none"})
        assert state.get_many(["a", "b"]).to_pylist() == [{"name": "x", "n": 1}, {"name": "none", "n": None}]


def test_classes_with_defaults(tmp_path):
    @dataclasses.dataclass
    class First:
        n: int

    @dataclasses.dataclass
    class Second:
        n: int
        at: dt.datetime | None = None
        city: str = "EWR"

    class Third(msgspec.Struct):
        n: int
        at: dt.datetime | None
        city: str
        share: float = 0.5

    with sfkv.open(tmp_path / "s", key=str) as keyed:
        keyed.value_state("v", First).put("a", First(1))
        assert keyed.value_state("v", Second).get("a") == Second(1, None, "EWR")
        assert keyed.value_state("v", Third).get("a") == Third(1, None, "EWR", 0.5)


@pytest.mark.parametrize(
    ("asked", "column", "text"),
    [
        (pa.struct([OLD.field("n")]), "name", "'name' is missing"),
        (struct_with(field("x", pa.int8(), nullable=False)), "x", "'x' is new.*nullable.*default"),
        (pa.struct([pa.field("n", pa.int64(), nullable=False), OLD.field("name")]), "n", "'n' has another type"),
        (pa.struct([OLD.field("n"), pa.field("name", pa.utf8(), nullable=False)]), "name", "'name' may be null"),
        (pa.utf8(), None, "another name"),
        (dict, None, "another name"),
    ],
)
def test_what_cannot_be_read_is_refused_with_both_schemas_and_the_column(path, asked, column, text):
    with sfkv.open(path, key=str) as keyed:
        before = keyed._store.read_range(b"", b"\xff\xff\xff\xff")
        with pytest.raises(sfkv.SchemaError, match=rf"struct<n: int32 not null, name: utf8>.*{text}") as caught:
            keyed.value_state("v", asked)
        assert (caught.value.state, caught.value.column) == ("v", column)
        assert keyed._store.read_range(b"", b"\xff\xff\xff\xff") == before
        assert keyed.value_state("v", OLD).get("a") == {"n": 1, "name": "x"}


def test_going_back_is_refused(path):
    with sfkv.open(path, key=str) as keyed:
        keyed.value_state("v", NEW)
        with pytest.raises(sfkv.SchemaError, match="'at' is missing"):
            keyed.value_state("v", OLD)


@pytest.mark.parametrize("default", ["{", '"text"', "1.5", "99999999999"])
def test_defaults_that_are_no_values_are_refused(path, default):
    with sfkv.open(path, key=str) as keyed, pytest.raises(sfkv.SchemaError):
        keyed.value_state("v", struct_with(field("x", pa.int32(), nullable=False, default=default)))


def test_an_object_of_the_old_schema_says_what_to_do(path):
    with sfkv.open(path, key=str) as keyed:
        old = keyed.value_state("v", OLD)
        keyed.value_state("v", NEW)
        with pytest.raises(sfkv.ClosedError, match="registered again"):
            old.get("a")


def test_keys_cannot_change_and_the_text_says_what_to_do(path):
    with pytest.raises(sfkv.SchemaError, match="utf8.*int64.*write its rows into a new store"):
        sfkv.open(path, key=int)


def test_a_snapshot_keeps_the_versions(path, tmp_path):
    backend = new_backend()
    with backend.open(path, key=str) as keyed:
        keyed.value_state("v", NEW)
        keyed.snapshot(1, tmp_path / "chk").result()
    with backend.restore(tmp_path / "r", tmp_path / "chk" / "chk-1") as restored:
        assert restored.value_state("v", NEW).get("a") == {"n": 1, "name": "x", **ADDED}


@pytest.mark.only("rocksdb", reason="the registry counts, whatever the store is, and it takes long")
def test_a_schema_changes_at_most_255_times(tmp_path):
    with sfkv.open(tmp_path / "s", key=str) as keyed:
        fields = [pa.field("n", pa.int8())]
        for i in range(256):
            keyed.value_state("v", pa.struct(fields)).put("a", {"n": i % 100})
            fields.append(pa.field(f"x{i}", pa.bool_()))
        with pytest.raises(sfkv.SchemaError, match="255 times"):
            keyed.value_state("v", pa.struct(fields))


@pytest.mark.parametrize("default", ["AAAA", "no base64", ""])
def test_a_stored_default_that_is_no_cell_is_corruption(default):
    value = ValueSchema.of(pa.struct([pa.field("x", pa.int64())]))
    stored = value.describe()
    stored["columns"][0]["default"] = default
    with pytest.raises(sfkv.CorruptionError, match="'x'"):
        with_history(value, stored)
