"""How Sphinx makes the documentation: `make docs`."""

from typing import Any

import sfkv

project = "sfkv"
version = release = sfkv.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
highlight_language = "default"

myst_heading_anchors = 3

# The headings of the project's docstrings. They are fields beside "Parameters" and "Returns", see `add_fields`.
FIELDS = ("Lifetime", "Cost", "Source")
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
autodoc_default_options = {"members": True}

html_theme = "furo"
html_title = f"sfkv {release}"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False

# Classes that users make themselves. The others are given out by a backend, and their constructors are not public.
MADE_BY_USERS = {"sfkv.EmbeddedRocksDBStateBackend", "sfkv.HashMapStateBackend", "sfkv.Slot", "sfkv.Msgpack"} | {
    f"sfkv.flink.{name}"
    for name in (
        "EmbeddedRocksDBStateBackend",
        "HashMapStateBackend",
        "FileSystemCheckpointStorage",
        "RuntimeContext",
        "Row",
        "ValueStateDescriptor",
        "ListStateDescriptor",
        "MapStateDescriptor",
        "ReducingStateDescriptor",
        "AggregatingStateDescriptor",
    )
}


def hide_constructor(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None] | None:
    """Shows no arguments for classes that are not called."""
    if what in ("class", "exception") and name not in MADE_BY_USERS:
        return "", None
    return None


def add_fields(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turns ``Lifetime:``, ``Cost:`` and ``Source:`` into fields, before napoleon sees the docstring."""
    lines[:] = [f":{line[:-1]}:" if line.rstrip(":") in FIELDS and line.endswith(":") else line for line in lines]


def point_to_errors(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Gives errors of which a docstring says nothing more the page that does, after napoleon."""
    for index, line in enumerate(lines):
        if line.startswith(":raises ") and line.rstrip().endswith(":"):
            lines[index] = f"{line.rstrip()} see :doc:`/guide/errors`"


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", hide_constructor)
    app.connect("autodoc-process-docstring", add_fields, priority=400)
    app.connect("autodoc-process-docstring", point_to_errors, priority=600)
