"""What is wrong with the source of a python grader, found without compiling or running any of it.

Compiling is left to the sandbox: a few nested lines of `try` and `finally` can make it take minutes and gigabytes.
Reading a long source takes seconds, in which an interpreter does nothing else: servers only glance at it.
"""

import ast
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterator

MAX_SOURCE_BYTES = 256 * 1024
"""Of one grader: of all parts of a multi grader together."""
_MAX_WORDS = 100_000
_MAX_MARKS = 100
_TOO_LONG = f"longer than {MAX_SOURCE_BYTES // 1024} kB"
_NO_GRADE = "it does not define `grade(sample, item)`"
_WORD = re.compile(r"\w+|[^\w\s]")


def glance_problem(source: str) -> str | None:
    """What is seen to be wrong with a grader's source in no time."""
    if source_bytes(source) > MAX_SOURCE_BYTES:
        return _TOO_LONG
    # Names may be written in other letters that Python takes for these.
    if source.isascii() and "grade" not in source:
        return _NO_GRADE
    return None


def source_bytes(source: str) -> int:
    """What counts for the cap."""
    return len(source.encode(errors="surrogatepass"))


def source_problem(source: str) -> str | None:
    """What is wrong with a grader's source, in words; None when it can be handed to a sandbox. Takes its time."""
    if problem := _size_problem(source):
        return problem
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, "<grader>")
    except SyntaxError as error:
        return f"not Python: {error.msg} (line {error.lineno})"
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        return f"not Python that can be read: {str(error) or 'nested too deeply'}"
    if "grade" not in _names(tree):
        return _NO_GRADE
    missing = next((name for name in _imported(tree) if not _is_here(name)), None)
    return f"it imports {missing!r}, which is not installed here" if missing else None


def _size_problem(source: str) -> str | None:
    """What would keep the parser busy for seconds."""
    if source_bytes(source) > MAX_SOURCE_BYTES:
        return _TOO_LONG
    if sum(1 for _ in _WORD.finditer(source)) > _MAX_WORDS:
        return f"more than {_MAX_WORDS:,} words and signs"
    if not source.isascii() and _most_marks(source) > _MAX_MARKS:
        return f"more than {_MAX_MARKS} accents on one letter"  # names are normalized in the square of their accents
    return None


def _most_marks(source: str) -> int:
    most = run = 0
    for character in source:
        run = run + 1 if unicodedata.combining(character) else 0
        most = max(most, run)
    return most


def _names(tree: ast.Module) -> set[str]:
    """What the module defines at its top, whatever statement it stands in."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        match waiting.pop():
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Lambda():
                continue
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name.partition(".")[0])
            case node:
                waiting.extend(ast.iter_child_nodes(node))
    return names


def _imported(tree: ast.Module) -> Iterator[str]:
    """Packages that it cannot do without: an import within `try` may fail."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        match waiting.pop():
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str() as module, level=0):
                yield module.partition(".")[0]
            case ast.Try() | ast.TryStar():
                continue
            case node:
                waiting.extend(ast.iter_child_nodes(node))


def _is_here(package: str) -> bool:
    """Whether a process of its own could import it. This one's modules do not tell: it may keep a package out."""
    return package in sys.stdlib_module_names or any(finder.find_spec(package, None) for finder in sys.meta_path)
