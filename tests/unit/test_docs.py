"""The documentation does not lie: what its code blocks do is what they say that they do, and what they name exists.

In a page, all ``python`` blocks run in order, in one namespace and an empty directory. A comment behind an expression is its
value; one behind a ``print`` is the line that it prints; a ``text`` block behind a block is all that this printed. A block
that begins with ``# name.py`` is that file, and a ``console`` block runs it. Blocks of other languages are not run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sfkv
import sfkv.flink

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDE = sorted((DOCS / "guide").glob("*.md"))
PAGES = [DOCS / "index.md", *GUIDE, *sorted((DOCS / "reference").glob("*.md"))]


@dataclass
class Block:
    language: str
    line: int
    code: str


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    found = re.finditer(r"^```([\w{}-]+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(match[1], text.count("\n", 0, match.start(2)) + 1, match[2]) for match in found]


class Checks(ast.NodeTransformer):
    """Puts a check around each expression that has a comment behind it."""

    def __init__(self, code: str, line: int) -> None:
        tokens = tokenize.generate_tokens(io.StringIO(code).readline)
        self.comments = {token.start[0]: token.string[1:].strip() for token in tokens if token.type == tokenize.COMMENT}
        self.line = line

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        comment = self.comments.get(node.end_lineno or 0)
        if comment is None:
            return node
        call = node.value
        is_print = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"
        arguments = call.args if is_print else [call]
        place = ast.Constant(self.line + node.end_lineno - 1)
        check = ast.Name("_check_print" if is_print else "_check_value", ast.Load())
        return ast.copy_location(ast.Expr(ast.Call(check, [place, ast.Constant(comment), *arguments], [])), node)


class Page:
    """Runs the blocks of a page, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checked = 0
        self.names: dict[str, Any] = {"_check_print": self.check_print, "_check_value": self.check_value}
        self.names["__name__"] = "__main__"

    def check_print(self, line: int, comment: str, *values: object) -> None:
        assert " ".join(map(str, values)) == comment, f"{self.path}:{line}"
        self.checked += 1

    def check_value(self, line: int, comment: str, value: Any) -> None:
        """A comment that is no expression is prose; behind a colon it may go on with prose."""
        ends = [len(comment), *(match.start() for match in re.finditer(":", comment))]
        for end in sorted(ends, reverse=True):
            with contextlib.suppress(SyntaxError, NameError):
                expected = eval(comment[:end], {**self.names, "null": None})
                found = value.to_pylist() if hasattr(value, "to_pylist") else value
                assert found == expected, f"{self.path}:{line}: {found!r}"
                self.checked += 1
                return

    def run(self, block: Block) -> str:
        """Runs a ``python`` block; what it printed beside what was checked."""
        tree = Checks(block.code, block.line).visit(ast.parse(block.code))
        ast.increment_lineno(ast.fix_missing_locations(tree), block.line - 1)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, str(self.path), "exec"), self.names)
        return printed.getvalue()

    def run_console(self, block: Block) -> None:
        """Runs each line that begins with ``$ python``, and compares what stands below it."""
        for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            program, *arguments = command.split()
            assert program == "python", f"{self.path}:{block.line}"
            done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode in (0, -9), done.stderr
            killed = "Killed\n" if done.returncode == -9 else ""
            assert done.stdout + killed == expected, f"{self.path}:{block.line}"
            self.checked += 1


def run_blocks(page: Page, blocks: list[Block]) -> None:
    for block, behind in zip(blocks, [*blocks, None][1:], strict=True):
        name = re.match(r"# (\w+\.py)\n", block.code)
        if block.language == "python" and name:
            Path(name[1]).write_text(block.code)
        elif block.language == "python":
            printed = page.run(block)
            says = behind.code if behind is not None and behind.language == "text" else ""
            assert printed == says, f"{page.path}:{block.line}"
        elif block.language == "console":
            page.run_console(block)


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield


@pytest.mark.parametrize("path", [ROOT / "README.md", *GUIDE], ids=lambda path: path.stem)
def test_the_blocks_of_a_page_do_what_they_say(path, empty_directory):
    page = Page(path)
    blocks = blocks_of(path)
    run_blocks(page, blocks)
    assert page.checked > 0 or not any(block.language == "python" for block in blocks)


@pytest.mark.parametrize("module", [sfkv, sfkv.flink], ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_reference(module):
    shown = []
    for path in (DOCS / "reference").glob("*.md"):
        for current, directives in re.findall(
            r"^\.\. currentmodule:: (\S+)$(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL
        ):
            if current == module.__name__:
                shown += re.findall(r"^\.\. auto\w+:: (\w+)$", directives, re.MULTILINE)
    assert sorted(shown) == module.__all__


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_page_names_only_what_exists(path):
    text = path.read_text()
    for name in re.findall(r"\bsfkv\.([A-Za-z_]\w*)", text):
        assert name in [*sfkv.__all__, "flink"], name
    for name in re.findall(r"\bsfkv\.flink\.([A-Z]\w*)", text):
        assert name in sfkv.flink.__all__, name
    backend = sfkv.KeyedStateBackend
    for name in re.findall(r"\bkeyed\.([A-Za-z_]\w*)", text):
        assert hasattr(backend, name), name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_page_links_only_to_pages_that_exist(path):
    for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
        assert target.startswith("https://") or (path.parent / target).exists(), target
