"""The golden files, read and written by the decoder that knows nothing but FORMAT.md; and single objects beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from sfkv._rows import KeyRows, ValueRows
from sfkv._types import KeySchema, ValueSchema
from tests.format import decoder
from tests.format.arrays import plain
from tests.format.running import with_one_nan
from tests.golden import vectors
from tests.golden.test_golden import PLAIN, RECORD

LINES = (Path(__file__).parent / "rows.txt").read_text().splitlines()


def sections():
    """The lines behind each heading."""
    found: list[list[str]] = []
    for line in LINES:
        if line.startswith("#"):
            found.append([])
        else:
            found[-1].append(line)
    return found


def row_of(text):
    return bytes.fromhex(text)


def cells(line):
    """The values of a line, of which the last are rows; " | " does not occur in them."""
    return [part.removesuffix(" |") for part in line.split(" | ")]


def test_the_first_rows_are_read_by_the_decoder():
    lines = iter(sections()[0])
    for arrow, values in PLAIN:
        keys, schema = KeySchema.of(arrow), ValueSchema.of(arrow)
        for value, expected in zip(values, plain(pa.array(values, arrow)), strict=True):
            shown, _, rest = next(lines).partition(f" | {value!r} | ")
            key_row, _, row = rest.partition(" | ")
            assert shown == str(arrow)
            (read,) = decoder.decode_key_row(keys.describe(), row_of(key_row))
            assert with_one_nan(read, arrow, one_zero=True) == with_one_nan(expected, arrow, one_zero=True)
            assert decoder.encode_key_row(keys.describe(), [expected]).hex(" ") == key_row
            assert decoder.decode_value_row(schema.describe(), row_of(row)) == [expected]
            assert decoder.encode_value_row(schema.describe(), [expected]).hex(" ") == row
    assert next(lines, None) is None


def test_the_first_records_and_keys_are_read_by_the_decoder():
    _, key_lines, record_lines = sections()[:3]
    columns = pa.schema([("user", pa.utf8()), pa.field("day", pa.int32(), nullable=False), ("raw", pa.binary())])
    schema = KeySchema.of(columns).describe()
    keys = [decoder.decode_key_row(schema, row_of(line.split(" | ")[2])) for line in key_lines]
    assert keys == [["a", 1, b""], [None, -1, None], ["", 0, b"\0"]]
    record = ValueSchema.of(RECORD).describe()
    values = [decoder.decode_value_row(record, row_of(line.split(" | ")[1])) for line in record_lines[:3]]
    assert values == [["ü", 1, 1000, b"xyz", True], [None, -1, None, b"", None], ["", 0, None, b"\0", False]]
    packed = decoder.decode_value_row(ValueSchema.of(object).describe(), row_of(record_lines[3].split(" | ")[1]))
    assert packed == [b"\x94\x01\xa1x\xc0\x81\xa1a\xcb\x3f\xf8\0\0\0\0\0\0"]


def read_vectors(lines):
    """Of each line the columns, what is to be the value as text, and the rows."""
    for line in lines:
        described, value, *rows = line.split(" | ") if " | " in line else line
        stored = json.loads(described)
        is_record = isinstance(stored, list)
        columns = stored if is_record else [{"name": "value", "type": stored, "nullable": False}]
        yield {"columns": columns, "record": is_record}, value, [row_of(row) for row in rows]


@pytest.mark.parametrize(("section", "is_key", "place"), [(3, True, 0), (3, False, 1), (4, True, 0), (5, False, 0)])
def test_the_vectors_of_all_types_are_read_by_the_decoder(section, is_key, place):
    decode, encode = (
        (decoder.decode_key_row, decoder.encode_key_row) if is_key else (decoder.decode_value_row, decoder.encode_value_row)
    )
    count = 0
    for schema, value, rows in read_vectors(sections()[section]):
        read = decode(schema, rows[place])
        assert encode(schema, read) == rows[place]
        text = vectors.plain_text(read if schema["record"] else read[0])
        is_float = is_key and "float" in json.dumps(schema)  # a key's NaN and zero are one
        assert is_float or text == value
        count += 1
    assert count >= 3


def test_every_type_has_a_vector():
    shown = {line.split(" | ")[0] for lines in (sections()[3], sections()[5]) for line in lines}
    kinds = {decoder.kind_of(json.loads(text)) for text in shown if not text.startswith("[")}
    known = {"list", "large_list", "fixed_size_list", "map", "fixed_size_binary"}
    known |= {*decoder._SIGNED, *decoder._UNSIGNED, *decoder._FLOATS, *decoder._TEXTS, *decoder._BINARIES}
    of_version_1 = {decoder.kind_of(ValueSchema.of(arrow).describe()["columns"][0]["type"]) for arrow, _ in PLAIN}
    assert known - kinds <= of_version_1


@pytest.mark.parametrize(("arrow", "values"), [*vectors.NESTED, *vectors.RECORDS], ids=str)
def test_python_reads_the_nested_vectors_and_makes_the_same_rows(arrow, values):
    rows = ValueRows(ValueSchema.of(arrow))
    for row in rows.rows_of(vectors.simplest(values, arrow)):
        assert rows.row_of(rows.value_of(row)) == row


@pytest.mark.parametrize(("arrow", "values"), vectors.KEYS, ids=str)
def test_python_reads_the_keys_and_makes_the_same_rows(arrow, values):
    rows = KeyRows(KeySchema.of(arrow))
    for row in rows.rows_of(vectors.simplest(values, arrow)):
        assert rows.row_of(rows.key_of(row)) == row
