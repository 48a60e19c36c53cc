"""The formula of a multi grader: `+ - * / ^`, a few functions, numbers and the graders' names. Nothing else exists."""

import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[-+*/^(),]))"
)
_MAX_CHARS = 4_000
_MAX_DEPTH = 50
_SHOWN_CHARS = 120

_LEFT_TO_RIGHT = (("+", "-"), ("*", "/"))
"""Operators of equal precedence, lowest precedence first."""
_SIGNS: Mapping[str, Callable[..., float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": math.pow
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "min": lambda *values: min(values), "max": lambda *values: max(values), "abs": math.fabs, "floor": math.floor,
    "ceil": math.ceil, "exp": math.exp, "sqrt": math.sqrt, "log": math.log,
}  # fmt: skip
FUNCTIONS = tuple(_FUNCTIONS)
"""`log` is the natural logarithm."""
_OF_SEVERAL = ("min", "max")


class FormulaError(ValueError):
    """A formula that is none or has no value, in words that its author can act on."""


class FormulaTooLarge(FormulaError):
    """A formula whose value, or part of it, is larger than any number."""


Instruction: TypeAlias = float | str | tuple[Callable[..., float], int]
"""A number, a grader's score, or a function of so many of the latest values."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula in postfix order."""

    source: str
    instructions: tuple[Instruction, ...]

    @property
    def names(self) -> frozenset[str]:
        """The graders it uses."""
        return frozenset(name for name in self.instructions if isinstance(name, str))

    def value(self, scores: Mapping[str, float]) -> float:
        """Its value, finite. Raises FormulaError where it has none, FormulaTooLarge where it is beyond all numbers."""
        try:
            value = self._value(scores)
        except ZeroDivisionError:
            raise FormulaError(f"{_show(self.source)} divides by zero") from None
        except OverflowError:
            raise FormulaTooLarge(f"{_show(self.source)} is too large") from None
        except ValueError as error:
            raise FormulaError(f"{_show(self.source)} has no value ({error})") from None
        if math.isinf(value):
            raise FormulaTooLarge(f"{_show(self.source)} is {value}")
        if math.isnan(value):
            raise FormulaError(f"{_show(self.source)} is {value}")
        return value

    def _value(self, scores: Mapping[str, float]) -> float:
        stack: list[float] = []
        for instruction in self.instructions:
            match instruction:
                case (function, count):
                    stack[-count:] = [float(function(*stack[-count:]))]
                case str(name):
                    stack.append(scores[name])
                case number:
                    stack.append(number)
        return stack.pop()


def parse_formula(source: str, names: Collection[str]) -> Formula:
    """Raises FormulaError for what is no formula over these names."""
    if len(source) > _MAX_CHARS:
        raise FormulaError(f"longer than {_MAX_CHARS:,} characters")
    for name in names:
        if name in FUNCTIONS or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise FormulaError(f"the grader name {name!r} cannot be used in a formula: letters, digits and _ only, "
                               "and no name of a function")  # fmt: skip
    return Formula(source, _Parser(source, frozenset(names)).parse())


def formula_problem(source: str, names: Collection[str]) -> str | None:
    """What is wrong with a formula over these graders, told before any rollout."""
    try:
        parse_formula(source, names)
    except FormulaError as error:
        return str(error)
    return None


def _tokens(source: str) -> Iterator[tuple[str | None, str]]:
    """Kind and text of each, the end last. Raises FormulaError where there is no token."""
    at = 0
    while match := _TOKEN.match(source, at):
        yield match.lastgroup, match[match.lastgroup or 0]
        at = match.end()
    if rest := source[at:].lstrip():
        raise FormulaError(f"{_show(source)}: {rest[0]!r} is not part of the language (+ - * / ^ and "
                           f"{', '.join(FUNCTIONS)})")  # fmt: skip
    yield "end", ""


class _Parser:
    """Recursive descent with one token in hand. Only signs, powers and parentheses nest; sums and products do not."""

    def __init__(self, source: str, names: frozenset[str]) -> None:
        self._source, self._names, self._tokens = source, names, _tokens(source)
        self._depth = 0
        self._out: list[Instruction] = []
        self._kind, self._text = next(self._tokens)

    def parse(self) -> tuple[Instruction, ...]:
        self._operations()
        if self._kind != "end":
            raise self._unexpected()
        return tuple(self._out)

    def _takes(self, *signs: str) -> str | None:
        if self._kind != "sign" or self._text not in signs:
            return None
        return self._advance()

    def _advance(self) -> str:
        text = self._text
        self._kind, self._text = next(self._tokens)
        return text

    def _unexpected(self, wanted: str = "") -> FormulaError:
        found = "the end" if self._kind == "end" else repr(self._text)
        return self._error(f"{f'expected {wanted}, found' if wanted else 'unexpected'} {found}")

    def _error(self, message: str) -> FormulaError:
        return FormulaError(f"{_show(self._source)}: {message}")

    def _operations(self, rank: int = 0) -> None:
        if rank == len(_LEFT_TO_RIGHT):
            return self._signed()
        self._operations(rank + 1)
        while sign := self._takes(*_LEFT_TO_RIGHT[rank]):
            self._operations(rank + 1)
            self._out.append((_SIGNS[sign], 2))

    def _signed(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"nested deeper than {_MAX_DEPTH}")
        if sign := self._takes("-", "+"):
            self._signed()
            if sign == "-":
                self._out.append((_negated, 1))
        else:
            self._atom()
            if self._takes("^"):
                self._signed()
                self._out.append((_SIGNS["^"], 2))
        self._depth -= 1

    def _atom(self) -> None:
        if self._kind == "number":
            self._out.append(float(self._advance()))
        elif self._kind == "name":
            name = self._advance()
            if self._takes("("):
                self._call(name)
            elif name in self._names:
                self._out.append(name)
            else:
                known = ", ".join(sorted(self._names)) or "none"
                raise self._error(f"there is no grader {name!r}; there are: {known}")
        elif self._takes("("):
            self._inside()
        else:
            raise self._unexpected("a number, a grader or a function")

    def _call(self, function: str) -> None:
        if function not in FUNCTIONS:
            raise self._error(f"no function {function!r}; there are: {', '.join(FUNCTIONS)}")
        count = self._inside(",")
        if count > 1 and function not in _OF_SEVERAL:
            raise self._error(f"{function} takes one argument")
        self._out.append((_FUNCTIONS[function], count))

    def _inside(self, *separators: str) -> int:
        """What stands in parentheses that are open: so many expressions."""
        count = 1
        self._operations()
        while self._takes(*separators):
            self._operations()
            count += 1
        if not self._takes(")"):
            raise self._unexpected("')'")
        return count


def _negated(value: float) -> float:
    return -value


def _show(source: str) -> str:
    return repr(source if len(source) <= _SHOWN_CHARS else f"{source[:_SHOWN_CHARS]}...")
