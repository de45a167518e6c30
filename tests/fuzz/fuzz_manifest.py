"""Fuzzes what is read back beside the state: manifests of snapshots, their metadata, and source offsets.

Valid manifests are made at random and then damaged: bits flipped, cut, spliced with another; or their JSON changed, with a
checksum that fits, so that what lies behind the checksum is reached. Each input is a file that can be given again by name.

    A damaged manifest is refused, or, if only the newline at its end is gone, read as it was.
    A changed one with a checksum that fits is refused, or is a snapshot that a restore can go by: written again, it is read
    as the same; its key is a schema, its range lies in its parallelism.
    Metadata and offsets come back as they were given; damaged, they come back as something, or are refused.
    Whatever is refused is refused with CorruptionError, FormatError or CheckpointError, which name the file.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import copy
import datetime as dt
import json
import random
import re
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

import sfkv
from sfkv import _offsets
from sfkv._types import KeySchema
from sfkv.checkpoint import manifest, metadata
from sfkv.checkpoint.manifest import Snapshot, SnapshotFile, encode_manifest, read_manifest

REFUSALS = (sfkv.CorruptionError, sfkv.FormatError, sfkv.CheckpointError)
TYPES = ["bool", "int8", "int32", "int64", "float64", "utf8", "binary", "date32", "timestamp[us]", "timestamp[s, tz=UTC]"]
STRANGE = [
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    -(2**63) - 1,
    1.5,
    1e400,
    "",
    "x",
    "\0",
    "\ud800",
    "json",
    "..",
    [],
    [1],
    [0, 127],
]
STRANGE += [{}, {"json": 1}, {"msgpack": "wA=="}, {"msgpack": "!"}, {"columns": []}, [[]] * 3, {"": {}}, "timestamp[x]", "java"]
Rng = random.Random


# --- Inputs.


def some_object(rng: Rng, depth: int = 0) -> Any:
    """Anything that msgpack holds."""
    kind = rng.randrange(12 if depth < 3 else 9)
    if kind < 3:
        return rng.choice([None, True, False, 0, -1, 127, 128, 2**31, 2**63, 2**64 - 1, -(2**63)])
    if kind < 5:
        return rng.choice([0.0, -0.0, 1.5, 1e300, float("inf"), float("nan")])
    if kind < 8:
        return rng.choice(["", "a", "ü\U0001f600", "\0", "json", b"", b"\xff\0", "x" * 300])
    if kind == 8:
        return dt.datetime(2013, 1, 1, rng.randrange(24), tzinfo=dt.timezone.utc)
    if kind < 11:
        return [some_object(rng, depth + 1) for _ in range(rng.randrange(4))]
    keys = rng.choice([["a", "b", "json"], [0, 1, -5], [b"k", "k", 1.5], [(1, 2), None, True]])
    return {key: some_object(rng, depth + 1) for key in keys[: rng.randrange(4)]}


def some_schema(rng: Rng, of_key: bool) -> dict[str, Any]:
    record = rng.random() < 0.5
    count = rng.randrange(1, 5) if record else 1
    columns = [
        {"name": f"c{i}" if record else "key", "type": rng.choice(TYPES), "nullable": record and rng.random() < 0.5}
        for i in range(count)
    ]
    schema = {"columns": columns, "record": record}
    if of_key:
        return KeySchema.parse(schema).describe()
    return {**schema, "serializer": rng.choice([None, "msgpack"])}


def some_tables(rng: Rng) -> Iterator[dict[str, Any]]:
    for id in range(rng.randrange(4)):
        kind = rng.choice(["value", "list", "map", "table", "reducing", "aggregating", "payloads"])
        name = "" if kind == "payloads" else f"s{id}"
        table = {"id": id, "name": name, "kind": kind, "value": some_schema(rng, of_key=False), "ttl": None}
        if kind == "map":
            table["user_key"] = some_schema(rng, of_key=True)
        if kind == "table":
            table["key"] = some_schema(rng, of_key=True)
            if rng.random() < 0.5:
                table["key"] = {**table["key"], "group_by": [rng.choice(table["key"]["columns"])["name"]]}
        if kind in ("reducing", "aggregating"):
            table["aggregate"] = rng.choice([None, "sum", "last"])
        if kind == "aggregating" and table["aggregate"] is None:
            table["accumulator"] = some_schema(rng, of_key=False)
        if rng.random() < 0.1:
            table["dropping"] = True
        yield table


def some_snapshot(rng: Rng, path: Path) -> Snapshot:
    parallelism = rng.choice([1, 2, 128, 32768, rng.randrange(1, 32769)])
    first = rng.randrange(parallelism)
    names = rng.sample(["CURRENT", "MANIFEST-000005", "OPTIONS-000007", "000004.sst", "000009.sst"], rng.randrange(6))
    return Snapshot(
        id=rng.choice([0, 1, 2**63 - 1, rng.randrange(10**6)]),
        path=path,
        files=tuple(SnapshotFile(name, rng.choice([0, 1, 2**40]), f"{rng.randrange(2**32):08x}") for name in names),
        key=some_schema(rng, of_key=True),
        max_parallelism=parallelism,
        key_groups=(first, rng.randrange(first, parallelism)),
        tables=tuple(some_tables(rng)),
        metadata=some_object(rng),
        created_ms=rng.randrange(2**41),
    )


def damage(rng: Rng, text: bytes, other: bytes) -> bytes:
    """One to three of: a flipped bit, a changed byte, a cut, a piece taken out, doubled, or of the other text."""
    for _ in range(rng.randrange(1, 4)):
        if not text:
            break
        at, end = sorted((rng.randrange(len(text)), rng.randrange(len(text) + 1)))
        how = rng.randrange(6)
        if how == 0:
            text = text[:at] + bytes([text[at] ^ (1 << rng.randrange(8))]) + text[at + 1 :]
        elif how == 1:
            text = text[:at] + bytes([rng.choice([0, 10, 32, 34, 91, 123, 128, 255])]) + text[at + 1 :]
        elif how == 2:
            text = text[:at]
        elif how == 3:
            text = text[:at] + text[end:]
        elif how == 4:
            text = text[:end] + text[at:end] * rng.choice([1, 1, 50]) + text[end:]
        else:
            text = text[:at] + other[at:]
    return text


def strange(rng: Rng) -> Any:
    return copy.deepcopy(rng.choice(STRANGE))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key or index in a JSON value."""
    if isinstance(value, (dict, list)):
        for key, part in list(value.items()) if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from places(part)


def change(rng: Rng, body: Any) -> Any:
    """Swaps, removes or adds values of a JSON document."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        found = list(places(body))
        if not found:
            return strange(rng)
        holder, key = rng.choice(found)
        how = rng.randrange(8)
        if how == 0:
            del holder[key]
        elif how == 1:
            other, other_key = rng.choice(found)
            holder[key] = copy.deepcopy(other[other_key])
        elif how == 2 and isinstance(holder, list):
            holder.extend([holder[key]] * rng.choice([1, 1100]))
        elif how == 3 and isinstance(holder, dict):
            holder[rng.choice(["", "json", "msgpack", "name", "x"])] = strange(rng)
        elif how == 4:
            holder[key] = {"msgpack": base64.b64encode(some_msgpack(rng)).decode()}
        else:
            holder[key] = strange(rng)
    return body


def some_msgpack(rng: Rng) -> bytes:
    def encoded() -> bytes:
        return msgspec.msgpack.encode(some_object(rng))

    deep = rng.choice(
        [b"\x91", b"\x81\xa0", b"\x81\x90", b"\x81\x80", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc7\x0c\xff"]
    )
    how = rng.randrange(4)
    if how == 0:
        return damage(rng, encoded(), encoded())
    if how == 1:
        return deep * rng.choice([1, 2, 5_000]) + encoded()
    return rng.randbytes(rng.randrange(20)) if how == 2 else encoded()


def with_checksum(body: bytes) -> bytes:
    return f"sfkv snapshot format 1 crc32 {zlib.crc32(body):08x}\n".encode() + body + b"\n"


def changed_manifest(rng: Rng, text: bytes, other: bytes) -> bytes:
    """A manifest whose checksum fits, but whose body is damaged or changed."""
    body, other_body = (each.partition(b"\n")[2].removesuffix(b"\n") for each in (text, other))
    how = rng.randrange(10)
    if how == 0:
        return with_checksum(damage(rng, body, other_body))
    if how == 1:
        opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
        place = rng.choice([b'"metadata": {"json": ', b'"id": ', b'"tables": '])
        deep = opening * 5_000 + b"1" + closing * 5_000
        return with_checksum(body.replace(place, place + deep + b', "x": ', 1))
    try:
        return with_checksum(json.dumps(change(rng, json.loads(body))).encode())
    except RecursionError:
        return text


# --- Properties.


def same(one: Any, other: Any) -> bool:
    """Equality for which a NaN is itself, and 1, 1.0 and True are three. Tuples came back as lists."""
    texts = (re.sub(r" at 0x[0-9a-f]+", "", repr(value)) for value in (one, other))
    return len({text.replace("(", "[").replace(")", "]") for text in texts}) == 1


class Harness:
    """Reads inputs in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self, text: bytes) -> Snapshot | None:
        """What a manifest is read as; None if it is refused. Anything else that is raised is a finding."""
        path = self.directory / "SNAPSHOT"
        path.write_bytes(text)
        try:
            return read_manifest(self.directory)
        except REFUSALS as error:
            assert error.path in (str(path), str(self.directory)), f"the error does not name the file: {error.path}"
            assert str(self.directory) in str(error), error
            return None

    def check_damaged(self, text: bytes, originals: tuple[bytes, bytes]) -> None:
        snapshot = self.read(text)
        whole = text if text.endswith(b"\n") else text + b"\n"
        assert (snapshot is not None) == (whole in originals)
        if snapshot is not None:
            assert same(snapshot, self.read(whole))

    def check_any(self, text: bytes) -> None:
        snapshot = self.read(text)
        if snapshot is None:
            return
        assert KeySchema.parse(snapshot.key).describe() == snapshot.key
        first, last = snapshot.key_groups
        assert 0 <= first <= last < snapshot.max_parallelism <= 32768
        assert 0 <= snapshot.id < 1 << 63
        assert all(type(file.bytes) is int and file.bytes >= 0 and int(file.crc32c, 16) < 1 << 32 for file in snapshot.files)
        assert snapshot.bytes >= 0
        with contextlib.suppress(sfkv.SchemaError):  # JSON has integers that msgpack has not, and metadata is not made of
            assert same(self.read(encode_manifest(snapshot, "0", "0")), snapshot)

    def check_objects(self, stored: bytes) -> None:
        """Bytes as a source offset, and as the metadata of a manifest."""
        values = []
        for read in (
            lambda: _offsets.decode_offset(stored, "store"),
            lambda: metadata.parse_metadata(metadata.Metadata(msgpack=stored), "store"),
        ):
            try:
                values.append(read())
            except sfkv.CorruptionError as error:
                assert error.path == "store" and "restore" in str(error), error
        assert len(values) in (0, 2)
        if values:
            assert same(*values)
            self.check_kept(values[0])

    def check_kept(self, value: Any) -> None:
        """What msgpack can hold comes back as it was."""
        try:
            offset = _offsets.encode_offset(value)
        except sfkv.SchemaError:
            return
        assert same(_offsets.decode_offset(offset, "store"), value)
        snapshot = Snapshot(1, self.directory, (), KeySchema.of(str).describe(), 1, (0, 0), (), value, 0)
        found = self.read(encode_manifest(snapshot, "0", "0"))
        assert found is not None and same(found.metadata, value)

    def replay(self, content: bytes) -> None:
        self.check_any(content)
        self.check_objects(content)


def one_input(rng: Rng, harness: Harness) -> tuple[bytes, Callable[[], None]]:
    """An input, and its check."""
    kind = rng.randrange(8)
    if kind == 0:
        stored = some_msgpack(rng)
        return stored, lambda: harness.check_objects(stored)
    if kind == 1:
        value = some_object(rng)
        return msgspec.msgpack.encode(value), lambda: harness.check_kept(value)
    one, other = (some_snapshot(rng, harness.directory) for _ in range(2))
    text, other_text = (encode_manifest(snapshot, "0.1.0", "7.8.3") for snapshot in (one, other))
    if kind == 2:
        return text, lambda: harness.check_any(text)
    if kind == 3:
        damaged = damage(rng, text, other_text)
        return damaged, lambda: harness.check_damaged(damaged, (text, other_text))
    changed = changed_manifest(rng, text, other_text)
    return changed, lambda: harness.check_any(changed)


# --- Running.


class LineCoverage:
    """Counts the lines of the readers that were reached."""

    def __init__(self) -> None:
        self.files = {manifest.__file__, metadata.__file__}
        self.lines: set[tuple[str, int]] = set()

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self.trace

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        sys.settrace(self.trace)
        try:
            yield
        finally:
            sys.settrace(None)


class Findings:
    """Keeps the input of each finding in a file, once for each place that raised."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places: set[tuple[str, int]] = set()

    def add(self, content: bytes, error: BaseException, seed: str) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        if (place.filename, place.lineno or 0) in self.places:
            return
        self.places.add((place.filename, place.lineno or 0))
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"manifest-{zlib.crc32(content):08x}"
        path.write_bytes(content)
        traceback.print_exception(error)
        print(f"fuzz: a finding with seed {seed}, kept in {path}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="how long to try random inputs, after the files")
    parser.add_argument("--seed", type=int, default=None, help="of the random inputs")
    parser.add_argument("--found", type=Path, default=Path("."), help="where findings are kept")
    parser.add_argument("files", type=Path, nargs="*", help="inputs to try first")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    findings, coverage = Findings(arguments.found), LineCoverage()
    started = time.monotonic()
    runs = 0
    with tempfile.TemporaryDirectory() as directory, coverage.on():
        harness = Harness(Path(directory))
        for file in arguments.files:
            runs += 1
            try:
                harness.replay(file.read_bytes())
            except Exception as error:
                findings.add(file.read_bytes(), error, str(file))
        while time.monotonic() - started < arguments.seconds:
            runs += 1
            content, check = one_input(random.Random(f"{seed}:{runs}"), harness)
            try:
                check()
            except Exception as error:
                findings.add(content, error, f"{seed}, run {runs}")
    print(f"seed {seed} runs {runs} lines {len(coverage.lines)} seconds {time.monotonic() - started:.0f}")
    return 1 if findings.places else 0


if __name__ == "__main__":
    sys.exit(main())
