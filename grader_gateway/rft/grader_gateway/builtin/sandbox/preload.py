"""Imports what a grader's source imports, once, before its first grade: not at every grade."""

import ast
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress

PACKAGES = frozenset(
    {
        "ast_grep_py", "deepdiff", "jsonschema", "nltk", "numpy", "pandas", "pydantic", "rapidfuzz", "rdkit",
        "rouge_score", "scipy", "skbio", "sklearn", "sqlparse", "sympy", "yaml",
    }
)  # fmt: skip
"""The packages of the contract; each is there where it is installed."""

_WITH_SIDE_EFFECTS = frozenset(
    {"__main__", "antigravity", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo", "webbrowser"}
)
_IN_NEED_OF_A_DISK = frozenset({"skbio"})
"""They make a file when they are imported: to be imported by themselves, before files are out of reach."""
_ALWAYS = ("_strptime", "unicodedata")
"""What the standard library and the compiler import late, and cannot where no file can be opened."""


def preload_always() -> None:
    """What any source may need, even to be compiled."""
    for name in _ALWAYS:
        importlib.import_module(name)


def preload_with_disk(tree: ast.Module) -> None:
    """Import the few of these packages that make a file when they are imported: the packages, and nothing else."""
    tempfile.tempdir = os.getcwd()  # some packages ask for it when they are imported; soon nothing can be written
    for name in {name.partition(".")[0] for name in _imported(tree)} & _IN_NEED_OF_A_DISK:
        _import(name)


def preload(tree: ast.Module) -> None:
    """Import what the source does; what cannot be imported will fail in the grader, with its own words."""
    for name in _imported(tree):
        top = name.partition(".")[0]
        if top in PACKAGES or (top in sys.stdlib_module_names and top not in _WITH_SIDE_EFFECTS):
            _import(name)


def _import(name: str) -> None:
    """A `__main__` is a program, not a library: to import it is to run it. Its package is imported, it is not."""
    name = f"{name}.".partition(".__main__.")[0].removesuffix(".")
    # What a module raises when it is imported, be it SystemExit, it will raise in the grade, too, which tells of it.
    with suppress(BaseException):
        importlib.import_module(name)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            # `from scipy import stats` imports a module, `from math import pi` a name.
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module in PACKAGES)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in PACKAGES:
            yield f"{node.value.id}.{node.attr}"  # `scipy.stats` is imported when it is first named
