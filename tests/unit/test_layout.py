"""The rules of the source itself: direction, sizes, names, and what a bare import costs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sfkv

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "include" / "sfkv"

# Each row may include the rows above it, and what stands before it in its own. The store in memory needs no engine, so that its
# module does not include RocksDB either: it stands in the middle, and nothing below it uses it.
CHAIN = [
    ["version", "status", "buffer", "debug", "forward", "radix_sort"],
    ["key_group", "arrow", "utf8", "type", "column_view", "column_builder"],
    [
        "row_codec",
        "row_hash",
        "key_codec",
        "record_codec",
        "finish",
        "value_codec",
        "list_codec",
        "map_codec",
        "wide",
        "fold",
        "lifetime",
    ],
    [
        "key_batch",
        "row_set",
        "write_batch",
        "row_cache",
        "row_block",
        "append_guard",
        "fold_guard",
        "fold_codec",
        "held_folds",
        "least_keys",
    ],
    ["map_rows", "rows", "scan_batch", "row_blocks"],
    ["undo_log", "row_heap", "row_slot", "hash_rows", "ordered_rows", "frozen_rows"],
    ["memory_objects", "object_holds", "memory_table", "memory_tables"],
    ["memory_batches", "memory_scan", "memory_store", "memory_snapshot"],
    [
        "rocksdb_compat",
        "process_locks",
        "background",
        "info_log",
        "merge",
        "slot",
        "flush_watch",
        "options",
        "writer",
        "pending",
        "step_reader",
    ],
    ["directory", "table", "list_table", "map_table", "fold_table", "scan"],
    ["store"],
    ["snapshot"],
]
MEMORY, ENGINE = 5, 8  # the first rows of the store in memory, and of the engine


def includes(header):
    return re.findall(r'#include "sfkv/(\w+)\.h"', (HEADERS / f"{header}.h").read_text())


def test_every_header_uses_only_those_before_it():
    order = [header for row in CHAIN for header in row]
    assert sorted(order) == sorted(path.stem for path in HEADERS.glob("*.h"))
    for place, header in enumerate(order):
        later = [used for used in includes(header) if used not in order[:place]]
        assert not later, f"{header}.h uses {later}"


def test_neither_store_uses_the_other():
    memory = {header for row in CHAIN[MEMORY:ENGINE] for header in row}
    for row in CHAIN[ENGINE:]:
        for header in row:
            assert not memory & set(includes(header)), header


def test_only_the_upper_headers_and_one_module_see_rocksdb():
    upper = {header for row in CHAIN[ENGINE:] for header in row}
    for path in HEADERS.glob("*.h"):
        assert path.stem in upper or "rocksdb/" not in path.read_text(), path
    for path in (ROOT / "sfkv").glob("*.p[yx][xd]"):
        seen = re.findall(r'extern from "sfkv/(\w+)\.h"', path.read_text())
        assert path.stem == "_core" or not upper & set(seen), path


@pytest.mark.parametrize("header", [header for row in CHAIN[:ENGINE] for header in row])
def test_each_header_compiles_alone(tmp_path, header):
    """Those above RocksDB; the others are compiled by the extension modules, with the engine that is linked."""
    (tmp_path / "alone.cc").write_text(f'#include "sfkv/{header}.h"\n')
    command = [
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        f"-I{ROOT / 'include'}",
        tmp_path / "alone.cc",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def source_files():
    for pattern in (
        "sfkv/**/*.py",
        "sfkv/*.pyx",
        "sfkv/*.pxd",
        "include/sfkv/*.h",
        "tests/**/*.py",
        "examples/*.py",
        "benchmarks/*.py",
        "benchmarks/*.pyx",
        "benchmarks/*.h",
    ):
        yield from (path for path in ROOT.glob(pattern) if path.is_file())


def test_no_file_is_longer_than_500_lines():
    long = {str(path): n for path in source_files() if (n := len(path.read_text().splitlines())) > 500}
    assert not long


def test_no_function_is_longer_than_60_lines():
    for path in source_files():
        if path.suffix == ".py" and "tests" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    code = node.body[1:] if ast.get_docstring(node) else node.body
                    assert not code or node.end_lineno - code[0].lineno < 60, f"{path}: {node.name}"


def test_public_names_are_those_that_exist():
    assert sfkv.__all__ == sorted(sfkv.__all__)
    for name in sfkv.__all__:
        assert getattr(sfkv, name) is not None
        assert name in dir(sfkv)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sfkv.nothing  # noqa: B018


def test_the_lazy_names_are_those_that_type_checkers_see():
    tree = ast.parse((ROOT / "sfkv" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {(node.module, alias.name) for node in block.body for alias in node.names}
    assert seen == {(home, name) for home, names in sfkv._HOMES.items() for name in names}


def test_the_error_tree_is_the_one_in_the_docstring():
    lines = [line for line in sfkv._errors.__doc__.splitlines() if re.search(r"[A-Z]\w+Error|^Error", line)]
    parents = {0: "Exception"}
    for line in lines:
        depth = 0 if line.startswith("Error") else line.index("─ ") // 4 + 1
        name = re.search(r"\w*Error", line)[0]
        cls = getattr(sfkv, name)
        assert cls.__mro__[1].__name__ == parents[depth], name
        for builtin in re.findall(r"\((\w+)\)", line):
            assert issubclass(cls, __builtins__[builtin])
        parents[depth + 1] = name
    assert len(lines) == len([name for name in sfkv.__all__ if name.endswith("Error")])


def test_a_bare_import_loads_nothing_heavy():
    program = (
        "import sys; before = set(sys.modules); import sfkv; new = set(sys.modules) - before;"
        "heavy = ('numpy', 'pyarrow', 'msgspec', 'pandas');"
        "print(sorted(name for name in new if name.split('.')[0] in heavy or name.startswith('sfkv._')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_one():
    assert f'version = "{sfkv.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f'kVersion[] = "{sfkv.__version__}"' in (HEADERS / "version.h").read_text()
    assert sfkv.__version__ in (ROOT / "CHANGELOG.md").read_text()


def test_no_symbol_of_the_engine_is_seen_from_outside():
    for path in (ROOT / "sfkv").glob("*.so"):
        names = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )
        defined = [line.split()[-1] for line in names if line]
        assert [name for name in defined if not name.startswith("PyInit_")] == [], path


def test_build_info_tells_the_engine():
    info = sfkv.build_info()
    assert info["engine"] in ("system", "tuned")
    assert re.fullmatch(r"\d+\.\d+\.\d+", info["rocksdb"])
    assert isinstance(info["assertions"], bool)
    assert "kLZ4Compression" in info["compressions"]
    assert info["compiler"]
    if info["engine"] == "tuned":
        assert not info["assertions"]
        assert info["crc32c"].startswith("Supported")
