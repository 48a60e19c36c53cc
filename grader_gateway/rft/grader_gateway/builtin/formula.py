"""The formula of a multi grader: `+ - * / ^`, a few functions, numbers and the graders' names. Nothing else exists."""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[-+*/^(),]))"
)
_MAX_CHARS = 4_000
_MAX_DEPTH = 50
_SHOWN_CHARS = 120

_OF_SEVERAL: Mapping[str, Callable[[Sequence[float]], float]] = {"min": min, "max": max}
_OF_ONE: Mapping[str, Callable[[float], float]] = {
    "abs": math.fabs,
    "floor": math.floor,
    "ceil": math.ceil,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "log": math.log,
}
FUNCTIONS = (*_OF_SEVERAL, *_OF_ONE)
"""`log` is the natural logarithm."""


class FormulaError(ValueError):
    """A formula that is none or has no value, in words that its author can act on."""


class FormulaTooLarge(FormulaError):
    """A formula whose value, or part of it, is larger than any number."""


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Negation:
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Operation:
    sign: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple["Expression", ...]


Expression: TypeAlias = Number | Name | Negation | Operation | Call


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed formula."""

    source: str
    root: Expression

    @property
    def names(self) -> frozenset[str]:
        """The graders it uses."""
        return frozenset(_names(self.root))

    def value(self, scores: Mapping[str, float]) -> float:
        """Its value, finite. Raises FormulaError where it has none, FormulaTooLarge where it is beyond all numbers."""
        try:
            value = _value(self.root, scores)
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


class _Parser:
    """Sum, product, negation, power (to the right), atom: each level asks the next."""

    def __init__(self, source: str, names: frozenset[str]) -> None:
        self._source, self._names = source, names
        self._at = self._depth = 0
        self._kind, self._text = "", ""
        self._advance()

    def parse(self) -> Expression:
        root = self._sum()
        if self._kind != "end":
            raise self._unexpected()
        return root

    def _advance(self) -> None:
        match = _TOKEN.match(self._source, self._at)
        if match is not None and match.lastgroup is not None:
            self._kind, self._text, self._at = match.lastgroup, match.group(match.lastgroup), match.end()
        elif self._source[self._at :].strip():
            rest = self._source[self._at :].lstrip()
            raise FormulaError(f"{_show(self._source)}: {rest[0]!r} is not part of the language (+ - * / ^ and "
                               f"{', '.join(FUNCTIONS)})")  # fmt: skip
        else:
            self._kind, self._text = "end", ""

    def _takes(self, *signs: str) -> str | None:
        if self._kind != "sign" or self._text not in signs:
            return None
        sign = self._text
        self._advance()
        return sign

    def _needs(self, sign: str) -> None:
        if self._takes(sign) is None:
            raise self._unexpected(f"{sign!r}")

    def _unexpected(self, wanted: str = "") -> FormulaError:
        found = "the end" if self._kind == "end" else repr(self._text)
        return FormulaError(f"{_show(self._source)}: {f'expected {wanted}, found' if wanted else 'unexpected'} {found}")

    def _sum(self) -> Expression:
        left = self._product()
        while sign := self._takes("+", "-"):
            left = Operation(sign, left, self._product())
        return left

    def _product(self) -> Expression:
        left = self._signed()
        while sign := self._takes("*", "/"):
            left = Operation(sign, left, self._signed())
        return left

    def _signed(self) -> Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise FormulaError(f"{_show(self._source)}: nested deeper than {_MAX_DEPTH}")
        try:
            sign = self._takes("-", "+")
            if sign is None:
                return self._power()
            operand = self._signed()
            return Negation(operand) if sign == "-" else operand
        finally:
            self._depth -= 1

    def _power(self) -> Expression:
        base = self._atom()
        return Operation("^", base, self._signed()) if self._takes("^") else base

    def _atom(self) -> Expression:
        text = self._text
        if self._kind == "number":
            self._advance()
            return Number(float(text))
        if self._kind == "name":
            self._advance()
            return self._call(text) if self._takes("(") else self._name(text)
        if self._takes("("):
            inside = self._sum()
            self._needs(")")
            return inside
        raise self._unexpected("a number, a grader or a function")

    def _name(self, name: str) -> Expression:
        if name not in self._names:
            known = ", ".join(sorted(self._names)) or "none"
            raise FormulaError(f"{_show(self._source)}: there is no grader {name!r}; there are: {known}")
        return Name(name)

    def _call(self, function: str) -> Expression:
        if function not in FUNCTIONS:
            raise FormulaError(f"{_show(self._source)}: no function {function!r}; there are: {', '.join(FUNCTIONS)}")
        arguments = [self._sum()]
        while self._takes(","):
            arguments.append(self._sum())
        self._needs(")")
        if len(arguments) > 1 and function in _OF_ONE:
            raise FormulaError(f"{_show(self._source)}: {function} takes one argument")
        return Call(function, tuple(arguments))


def _value(node: Expression, scores: Mapping[str, float]) -> float:
    # Chains of + and * lean to the left and may be long: they are walked, not recursed into.
    waiting: list[Operation] = []
    while isinstance(node, Operation):
        waiting.append(node)
        node = node.left
    match node:
        case Number(value):
            result = value
        case Name(name):
            result = scores[name]
        case Negation(operand):
            result = -_value(operand, scores)
        case Call(function, arguments):
            result = _called(function, [_value(argument, scores) for argument in arguments])
    for operation in reversed(waiting):
        result = _combined(operation.sign, result, _value(operation.right, scores))
    return result


def _called(function: str, values: list[float]) -> float:
    return float(_OF_ONE[function](values[0]) if function in _OF_ONE else _OF_SEVERAL[function](values))


def _combined(sign: str, left: float, right: float) -> float:
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case _:
            return math.pow(left, right)


def _names(node: Expression) -> Iterator[str]:
    waiting = [node]
    while waiting:
        match waiting.pop():
            case Name(name):
                yield name
            case Negation(operand):
                waiting.append(operand)
            case Operation(_, left, right):
                waiting += [left, right]
            case Call(_, arguments):
                waiting += arguments
            case Number():
                pass


def _show(source: str) -> str:
    return repr(source if len(source) <= _SHOWN_CHARS else f"{source[:_SHOWN_CHARS]}...")
