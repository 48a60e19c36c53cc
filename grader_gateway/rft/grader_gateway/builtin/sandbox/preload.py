"""Imports what a grader's source imports, once, before its first grade: not at every grade."""

import ast
import importlib
import sys
from collections.abc import Iterator

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
_ALWAYS = ("_strptime",)
"""What the standard library imports late, and cannot where no file can be opened."""


def preload(tree: ast.Module) -> None:
    """Import them; what cannot be imported will fail in the grader, with its own words."""
    for name in (*_ALWAYS, *_imported(tree)):
        top = name.partition(".")[0]
        if top in PACKAGES or (top in sys.stdlib_module_names and top not in _WITH_SIDE_EFFECTS):
            try:
                importlib.import_module(name)
            except Exception:
                continue


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            # `from scipy import stats` imports a module, `from math import pi` a name.
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module in PACKAGES)
