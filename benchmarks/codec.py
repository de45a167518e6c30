"""How fast fixed-width rows are encoded and decoded by themselves, on one core: millions of cells a second.

python benchmarks/codec.py
"""

from __future__ import annotations

from _floor import codec_ns

ROWS = 16_384
ROUNDS = 200

RECORDS = {"1 column": "l", "2 columns": "li", "5 columns": "lligc", "20 columns": "lligclligclligclligc"}


def main() -> None:
    for name, formats in RECORDS.items():
        encode_ns, decode_ns = codec_ns(list(formats), ROWS, ROUNDS)
        print(f"{name:12}encode {1e3 / encode_ns:6.0f} M cells/s   decode {1e3 / decode_ns:6.0f} M cells/s")


if __name__ == "__main__":
    main()
