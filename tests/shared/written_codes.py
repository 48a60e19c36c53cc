"""Codes as the sources write them, read from the syntax tree: pages are held against all of them."""

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
SOURCES = {
    ".".join(path.relative_to(root.parent).with_suffix("").parts): path
    for root in sorted(ROOT.glob("*/rft"))
    for path in sorted(root.rglob("*.py"))
}


@dataclass(frozen=True, slots=True)
class Given:
    """One call that was given a code, or one dictionary that has one."""

    module: str
    to: str
    """Name of what was called; of a dictionary, empty."""
    call: ast.Call | None
    code: ast.expr

    @property
    def codes(self) -> frozenset[str]:
        """Empty where it is put together, or came from elsewhere, while the program runs."""
        return _texts(self.code, self.module)

    def __str__(self) -> str:
        return f"{self.module}: {ast.unparse(self.code)}"


def given(places: Mapping[str, int | None], below: Collection[str]) -> Iterator[Given]:
    """Each call of one of these names in modules that begin with `below`; the number is the code's place in the call,
    unless it is a keyword argument."""
    for module in _modules(below):
        for node in ast.walk(_tree(module)):
            if isinstance(node, ast.Call) and (name := _name(node.func)) in places:
                code = _argument(node, places[name])
                if code is not None:
                    yield Given(module, name, node, code)


def in_dictionaries(below: Collection[str]) -> Iterator[Given]:
    """Each value of a key `code` that stands in a dictionary."""
    for module in _modules(below):
        for node in ast.walk(_tree(module)):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "code":
                        yield Given(module, "", None, value)


def calling(name: str) -> list[str]:
    """Modules that call something of this name."""
    return [
        module
        for module in SOURCES
        if any(isinstance(node, ast.Call) and _name(node.func) == name for node in ast.walk(_tree(module)))
    ]


def _modules(below: Collection[str]) -> list[str]:
    return [name for name in SOURCES if name.startswith(tuple(below))]


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(SOURCES[module].read_text())


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _argument(call: ast.Call, place: int | None) -> ast.expr | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "code"), None)
    if named is not None or place is None or place >= len(call.args):
        return named
    return call.args[place]


def _texts(value: ast.expr, module: str) -> frozenset[str]:
    return _constants(module).get(value.id, frozenset()) if isinstance(value, ast.Name) else _literals(value)


def _literals(value: ast.expr) -> frozenset[str]:
    match value:
        case ast.Constant(value=str(text)):
            return frozenset({text})
        case ast.IfExp(body=one, orelse=other):
            return _literals(one) | _literals(other)
        case _:
            return frozenset()


@cache
def _constants(module: str) -> dict[str, frozenset[str]]:
    """What the module's names stand for, where that is text: those that it gives itself, and constants it imports."""
    found: dict[str, frozenset[str]] = {}
    for node in ast.walk(_tree(module)):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = found.get(name, frozenset()) | _literals(value)
            case ast.ImportFrom(module=str(source), names=names) if source in SOURCES:
                for alias in names:
                    if alias.name.isupper():
                        found[alias.asname or alias.name] = _constants(source).get(alias.name, frozenset())
            case _:
                pass
    return found
