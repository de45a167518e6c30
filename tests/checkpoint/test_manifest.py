"""Manifests whose checksum fits and whose content does not: whatever they hold, they are refused by name."""

import base64
import json
import zlib

import msgspec
import pytest

import sfkv
from sfkv import _batch, _core, _store
from sfkv._offsets import decode_offset
from sfkv.checkpoint.manifest import Snapshot, SnapshotFile, encode_manifest, read_manifest
from sfkv.checkpoint.restore import verify

KEY = {"columns": [{"name": "key", "type": "utf8", "nullable": False}], "record": False, "hash": "java"}
VALUE = {"columns": [{"name": "value", "type": "int64", "nullable": False}], "record": False, "serializer": None}
TABLES = (
    {"id": 0, "name": "v", "kind": "value", "value": VALUE, "ttl": None},
    {"id": 1, "name": "m", "kind": "map", "value": VALUE, "ttl": None, "user_key": KEY, "dropping": True},
)
DEEP = 5_000
ABSENT = object()


@pytest.fixture
def snapshot(tmp_path):
    return Snapshot(
        id=7,
        path=tmp_path,
        files=(SnapshotFile("000004.sst", 3, "0b1c9d7e"),),
        key=KEY,
        max_parallelism=128,
        key_groups=(0, 127),
        tables=TABLES,
        metadata={"offset": 5},
        created_ms=1357016400000,
    )


def write(path, body):
    (path / "SNAPSHOT").write_bytes(f"sfkv snapshot format 1 crc32 {zlib.crc32(body):08x}\n".encode() + body + b"\n")


def refused(path):
    with pytest.raises(sfkv.CorruptionError, match="restore another snapshot") as raised:
        read_manifest(path)
    assert raised.value.path == str(path / "SNAPSHOT")
    assert str(path / "SNAPSHOT") in str(raised.value)
    return str(raised.value)


def test_what_is_written_is_read_as_it_was(snapshot, tmp_path):
    (tmp_path / "SNAPSHOT").write_bytes(encode_manifest(snapshot, "0.1.0", "7.8.3"))
    assert read_manifest(tmp_path) == snapshot


def test_members_that_are_not_known_are_passed_over(snapshot, tmp_path):
    manifest = json.loads(encode_manifest(snapshot, "0.1.0", "7.8.3").partition(b"\n")[2])
    write(tmp_path, json.dumps({**manifest, "later": [1, 2]}).encode())
    assert read_manifest(tmp_path) == snapshot


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"7", b'"x"', b"{}", b"\xff", b"[" * DEEP, b'{"id":' * DEEP])
def test_a_body_that_is_no_manifest_is_corruption(tmp_path, body):
    write(tmp_path, body)
    refused(tmp_path)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(
            (member, ABSENT)
            for member in ("id", "created_ms", "key", "max_parallelism", "key_groups", "tables", "metadata", "files")
        ),
        *(("id", value) for value in (-1, 1 << 63, 1.5, "7", None, True)),
        *(("created_ms", value) for value in (None, "now")),
        *(("max_parallelism", value) for value in (0, 32769, 2**70, None, [128])),
        *(("key_groups", value) for value in (None, [], [0], [0, 1, 2], 5, ["a", "b"], [1, 0], [0, 128], [-1, 5], {"0": 1})),
        *(("tables", value) for value in (None, 5, [5], [{}], [{**TABLES[0], "id": 256}], [{**TABLES[0], "kind": "heap"}])),
        *(("layout", value) for value in ("rows", "heap", None, 5)),  # of rows, the one file is ROWS
        ("tables", [{**TABLES[0], "value": None}]),
        ("tables", [{**TABLES[1], "user_key": {"columns": []}}]),
        *(("files", value) for value in (None, 5, [5], [{}], {"name": "x"})),
        *(("files", [{"name": "x", "bytes": 1, "crc32c": crc32c}]) for crc32c in ("", None, "0B1C9D7E", "0b1c9d7e\n", 5)),
        *(("files", [{"name": name, "bytes": size, "crc32c": "0b1c9d7e"}]) for name, size in ((1, 1), ("x", -1), ("x", "1"))),
        *(("key", value) for value in (None, 5, [], {}, "utf8", {**KEY, "columns": []}, {**KEY, "columns": 1})),
        *(
            ("key", {**KEY, "columns": [{**KEY["columns"][0], "type": name}]})
            for name in ("text", "timestamp[x]", "timestamp[", 5)
        ),
        *(("key", {**KEY, "hash": hash}) for hash in ("murmur3", "md5", None)),
        ("key", {**KEY, "columns": [{"name": "key", "type": "utf8"}]}),
        ("key", {**KEY, "columns": KEY["columns"] * 2, "hash": "murmur3"}),
        *(("metadata", value) for value in (None, 5, "json", [], {}, {"msgpack": 5}, {"msgpack": None}, {"msgpack": "!"})),
        ("metadata", {"msgpack": base64.b64encode(b"\xc1").decode()}),
        ("metadata", {"msgpack": base64.b64encode(b"\x91" * DEEP).decode()}),
        ("metadata", {"msgpack": base64.b64encode(b"\xa1\xff").decode()}),
    ],
)
def test_a_member_that_is_absent_or_of_the_wrong_kind_is_corruption(snapshot, tmp_path, member, value):
    manifest = json.loads(encode_manifest(snapshot, "0.1.0", "7.8.3").partition(b"\n")[2])
    manifest[member] = value
    if value is ABSENT:
        del manifest[member]
    write(tmp_path, json.dumps(manifest).encode())
    assert value is not ABSENT or f"`{member}`" in refused(tmp_path)
    refused(tmp_path)


def test_any_change_of_one_byte_is_refused(snapshot, tmp_path):
    text = encode_manifest(snapshot, "0.1.0", "7.8.3")
    for at in range(len(text)):
        (tmp_path / "SNAPSHOT").write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        with pytest.raises((sfkv.CorruptionError, sfkv.FormatError)):
            read_manifest(tmp_path)


def test_a_manifest_that_cannot_be_read_is_a_checkpoint_error(tmp_path):
    (tmp_path / "SNAPSHOT").mkdir()
    with pytest.raises(sfkv.CheckpointError, match="SNAPSHOT cannot be read"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "000004.sst\0", "\0"])
def test_a_name_that_is_no_file_of_the_folder_is_corruption(snapshot, tmp_path, name):
    (tmp_path / "000004.sst").write_bytes(b"abc")
    manifest = json.loads(encode_manifest(snapshot, "0.1.0", "7.8.3").partition(b"\n")[2])
    manifest["files"] = [{"name": name, "bytes": 3, "crc32c": _core.checksum_file(tmp_path / "000004.sst")[1].lower()}]
    write(tmp_path, json.dumps(manifest).encode())
    with pytest.raises(sfkv.CorruptionError):
        verify(read_manifest(tmp_path))


@pytest.mark.parametrize("stored", [b"", b"\xc1", b"\xa5abc", b"\x91" * DEEP, b"\x81\x80\x01", b"\x01\x01"])
def test_an_offset_that_cannot_be_read_is_corruption_and_names_the_store(keyed, stored):
    with pytest.raises(sfkv.CorruptionError, match="source offset"):
        decode_offset(stored, "here")
    _batch.write_rows(keyed._store, {_store.OFFSET_ROW: stored}, "test")
    with pytest.raises(sfkv.CorruptionError, match="restore the store from a snapshot") as raised:
        keyed.offset  # noqa: B018
    assert raised.value.path == keyed.path


def test_metadata_that_json_holds_is_readable_in_the_file(snapshot, tmp_path):
    text = encode_manifest(snapshot, "0.1.0", "7.8.3")
    assert msgspec.json.decode(text.partition(b"\n")[2])["metadata"] == {"json": {"offset": 5}}
