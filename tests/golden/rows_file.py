"""Reads files of rows as FORMAT.md section 7 has them: slowly, by nothing but Python and zlib's checksum."""

from __future__ import annotations

import zlib

END = 0xFFFE


class Reader:
    """Bytes that are taken from the front."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, count: int) -> bytes:
        taken = self.content[self.at : self.at + count]
        assert len(taken) == count, "the end comes too early"
        self.at += count
        return taken

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "little")

    def leb128(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def more(self) -> bool:
        return self.at < len(self.content)


def decompressed(stored: bytes) -> bytes:
    """An LZ4 block: literals, and copies of what came before."""
    reader, out = Reader(stored), bytearray()

    def length(nibble: int) -> int:
        total, goes_on = nibble, nibble == 15
        while goes_on:
            byte = reader.number(1)
            total, goes_on = total + byte, byte == 255
        return total

    while True:
        token = reader.number(1)
        out += reader.take(length(token >> 4))
        if not reader.more():
            return bytes(out)
        offset = reader.number(2)
        for _ in range(length(token & 15) + 4):
            out.append(out[-offset])


def read_blocks(content: bytes) -> list[tuple[int, bytes]]:
    """Key groups and rows."""
    reader = Reader(content)
    assert reader.take(19) == b"sfkv rows format 1\n"
    blocks: list[tuple[int, bytes]] = []
    while True:
        fields = reader.take(10)
        checksum = reader.number(4)
        field = Reader(fields)
        key_group, count, stored_count = field.number(2), field.number(4), field.number(4)
        stored = reader.take(stored_count)
        assert zlib.crc32(fields + stored) == checksum
        if key_group == END:
            assert (count, stored_count, reader.more()) == (len(blocks), 0, False)
            return blocks
        blocks.append((key_group, decompressed(stored)))
        assert len(blocks[-1][1]) == count


def read_rows(content: bytes) -> list[tuple[bytes, bytes]]:
    """Encoded keys and values, in the order of the file."""
    rows = []
    for key_group, block in read_blocks(content):
        reader = Reader(block)
        while reader.more():
            key = key_group.to_bytes(2, "big") + reader.take(reader.leb128())
            rows.append((key, reader.take(reader.leb128())))
    return rows
