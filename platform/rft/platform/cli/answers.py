"""Reading what the API answered, and how its values are shown. Nothing here knows a terminal.

There are no models of the API's objects here: loading the server's takes longer than a command, and a platform that is
newer than this command line may say more than they know. Values are looked up by path instead, and a test holds
every path that is used against the API's document.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from rft.core.errors import RftError
from rft.platform.cli.formats import date, duration, number, share, size

if TYPE_CHECKING:
    from rft.core.base import JsonObject

T = TypeVar("T", str, int, float, bool)
Styled: TypeAlias = tuple[tuple[str, str], ...]
"""Pieces of text with the style of each."""
Show: TypeAlias = "Callable[[Answer], str | Styled | None]"
"""What is shown of an object; None for nothing."""
_STATES = {
    **dict.fromkeys(("succeeded", "completed", "healthy", "active", "processed"), "green"),
    **dict.fromkeys(("failed", "failing", "error"), "red"),
    **dict.fromkeys(("cancelled", "retired", "revoked"), "dim"),
    "running": "cyan",
}


class NotUnderstood(RftError):
    """The platform answered something else than it should."""

    def __init__(self, where: str) -> None:
        super().__init__(f"the platform's answer is not understood (at '{where}'); --json shows it as it is")


@dataclass(frozen=True, slots=True)
class Answer:
    """An object of the API's. Every method raises NotUnderstood where a value has another type than asked for."""

    raw: "JsonObject"
    where: str = ""

    def get(self, path: str, kind: type[T]) -> T | None:
        """The value at a dotted path; None where it, or what it is in, is null or missing."""
        return self._as(kind, self._value(path), path)

    def need(self, path: str, kind: type[T]) -> T:
        """The value at a path that every such object has."""
        value = self.get(path, kind)
        if value is None:
            raise NotUnderstood(self.where + path)
        return value

    def part(self, path: str) -> "Answer | None":
        """The object at a path; None where there is none."""
        value = self._value(path)
        if value is not None and not isinstance(value, dict):
            raise NotUnderstood(self.where + path)
        return None if value is None else Answer(value, f"{self.where}{path}.")

    def parts(self, path: str) -> "list[Answer]":
        """The objects of the list at a path."""
        found: list[Answer] = []
        for number_, entry in enumerate(self._list(path)):
            if not isinstance(entry, dict):
                raise NotUnderstood(f"{self.where}{path}.{number_}")
            found.append(Answer(entry, f"{self.where}{path}.{number_}."))
        return found

    def children(self, path: str) -> "dict[str, Answer]":
        """The objects in the object at a path, whatever their names are."""
        found: dict[str, Answer] = {}
        for name, child in ((self.part(path) or Answer({})).raw).items():
            if not isinstance(child, dict):
                raise NotUnderstood(f"{self.where}{path}.{name}")
            found[name] = Answer(child, f"{self.where}{path}.{name}.")
        return found

    def texts(self, path: str) -> list[str]:
        """The texts of the list at a path."""
        return [text for entry in self._list(path) if (text := self._as(str, entry, path)) is not None]

    def named(self, path: str, kind: type[T]) -> dict[str, T | None]:
        """Names and values of the object at a path, whatever its names are."""
        part = self.part(path)
        return {} if part is None else {name: self._as(kind, value, path) for name, value in part.raw.items()}

    def _list(self, path: str) -> Sequence[object]:
        value = self._value(path)
        if value is not None and not isinstance(value, list):
            raise NotUnderstood(self.where + path)
        return value or []

    def _value(self, path: str) -> object:
        value: object = self.raw
        for name in path.split("."):
            if value is None:
                return None
            if not isinstance(value, dict):
                raise NotUnderstood(self.where + path)
            value = value.get(name)
        return value

    def _as(self, kind: type[T], value: object, path: str) -> T | None:
        try:
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                return kind(value)
        except OverflowError as problem:
            raise NotUnderstood(self.where + path) from problem
        if value is None or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))):
            return value
        raise NotUnderstood(self.where + path)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    show: Show
    kind: Literal["text", "id", "figure"] = "text"
    """An id is copied by people, so others give way first; figures stand right."""


Fact: TypeAlias = "tuple[str, Show] | Callable[[Answer], list[tuple[str, str]]]"
"""A name and a value, left out where there is none; or a function that gives any number of such pairs."""


@dataclass(frozen=True, slots=True)
class Resource:
    """How objects of one kind are shown: many in a table, one as facts."""

    none: str = ""
    """What is said of an empty list."""
    columns: tuple[Column, ...] = ()
    spare: tuple[str, ...] = ()
    """Columns that a narrow terminal goes without, first to last."""
    facts: tuple[Fact, ...] = ()
    below: "tuple[str, Resource] | None" = None
    """Path of a list that is shown as a table below the facts."""
    output: str | None = None
    """Path of a text that is shown as it is, last."""

    def named(self, answer: Answer) -> Iterator[tuple[str, str | Styled]]:
        """The facts of one object."""
        for fact in self.facts:
            if callable(fact):
                yield from fact(answer)
            elif (value := fact[1](answer)) is not None:
                yield fact[0], value


def at(path: str, kind: type[T], say: Callable[[T], str]) -> Show:
    """The value at a path, as `say` puts it. A path that ends in `?` may be null or missing."""
    if path.endswith("?"):
        return lambda answer: None if (value := answer.get(path[:-1], kind)) is None else say(value)
    return lambda answer: say(answer.need(path, kind))


def text(path: str) -> Show:
    """A text as it is."""
    return at(path, str, str)


def count(path: str) -> Show:
    """A whole number."""
    return at(path, int, str)


def thousands(path: str) -> Show:
    """A whole number in groups of three digits."""
    return at(path, int, "{:,}".format)


def figure(path: str, digits: int = 3) -> Show:
    """A measured number."""
    return at(path, float, lambda value: number(value, digits))


def percent(path: str) -> Show:
    """A share."""
    return at(path, float, share)


def when(path: str) -> Show:
    """A date."""
    return at(path, float, date)


def seconds(path: str) -> Show:
    """A duration."""
    return at(path, float, duration)


def milliseconds(path: str) -> Show:
    """A latency."""
    return at(path, float, "{:.0f} ms".format)


def file_size(path: str) -> Show:
    """Bytes."""
    return at(path, int, size)


def status(path: str) -> Show:
    """A status in its colour."""
    return lambda answer: state(answer.need(path, str))


def state(said: str) -> Styled:
    """A status, or the words of one, in its colour."""
    return styled(said, _STATES.get(said.partition(" ")[0].rstrip(","), "yellow"))


def styled(said: str, style: str) -> Styled:
    """One text in one style."""
    return ((said, style),)


def red(said: str | None) -> Styled | None:
    """What went wrong."""
    return None if said is None else styled(said, "red")
