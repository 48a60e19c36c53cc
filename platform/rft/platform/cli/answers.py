"""Reading what the API answered, and which of it is shown, as data. Nothing here knows a terminal.

There are no models of the API's objects here: loading the server's takes longer than a command, and a platform that is
newer than this command line may say more than they know. Values are looked up by path instead, and a test holds
every path that is used against the API's document.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from rft.core.errors import RftError
from rft.platform.cli.formats import NOTHING, counted, date, duration, number, share, size

if TYPE_CHECKING:
    from rft.core.base import JsonObject

T = TypeVar("T")
Styled: TypeAlias = tuple[tuple[str, str], ...]
"""Pieces of text with the style of each."""
Shown: TypeAlias = str | Styled | None
"""What is shown of a value; None for nothing."""
_PLACE = re.compile(r"{([\w.]+)(?::([^}]*))?}")
_STATES = {
    **dict.fromkeys(("succeeded", "completed", "healthy", "active", "processed"), "green"),
    **dict.fromkeys(("failed", "failing", "error"), "red"),
    **dict.fromkeys(("cancelled", "canceled", "retired", "revoked"), "dim"),
    **dict.fromkeys(("running", "in_progress"), "cyan"),
}
_UNITS: tuple[tuple[tuple[str, ...], Callable[[Any], str | None]], ...] = (
    (("_at", "created", "last_seen", "estimated_finish", "since"), lambda unix_s: date(unix_s) if unix_s else None),
    (("_share",), share),
    (("_ms",), "{:.0f} ms".format),
    (("_s", "_seconds", "execution_time"), duration),
    (("bytes",), size),
    (("tokens", "token_usage", "rows", "line"), "{:,}".format),
)
"""How numbers are shown, by the end of their names."""


class NotUnderstood(RftError):
    """The platform answered something else than it should."""

    def __init__(self, where: str) -> None:
        super().__init__(f"the platform's answer is not understood (at '{where}'); --json shows it as it is")


@dataclass(frozen=True, slots=True)
class Answer:
    """An object of the API's. Methods but `find` raise NotUnderstood where a value has another type than asked for."""

    raw: "JsonObject"

    def get(self, path: str, kind: type[T]) -> T | None:
        """The value at a dotted path; None where it, or what it is in, is null or missing."""
        value: object = self.raw
        for name in path.split("."):
            value = None if value is None else _checked(value, dict, path).get(name)
        return None if value is None else _checked(value, kind, path)

    def need(self, path: str, kind: type[T]) -> T:
        """The value at a path that every such object has."""
        value = self.get(path, kind)
        if value is None:
            raise NotUnderstood(path)
        return value

    def find(self, path: str, kind: type[T]) -> T | None:
        """The value at a path; None, too, where it is of another type. Raises nothing."""
        try:
            return self.get(path, kind)
        except NotUnderstood:
            return None

    def part(self, path: str) -> "Answer | None":
        """The object at a path; None where there is none."""
        raw = self.get(path, dict)
        return None if raw is None else Answer(raw)

    def parts(self, path: str) -> "list[Answer]":
        """The objects of the list at a path."""
        return [Answer(entry) for entry in self.listed(path, dict)]

    def children(self, path: str) -> "dict[str, Answer]":
        """The objects in the object at a path, whatever their names are."""
        return {name: Answer(raw or {}) for name, raw in self.named(path, dict).items()}

    def listed(self, path: str, kind: type[T]) -> list[T]:
        """What the list at a path holds."""
        return [_checked(entry, kind, path) for entry in self.get(path, list) or []]

    def named(self, path: str, kind: type[T]) -> dict[str, T | None]:
        """Names and values of the object at a path, whatever its names are."""
        given = (self.get(path, dict) or {}).items()
        return {name: None if value is None else _checked(value, kind, path) for name, value in given}


def _checked(value: Any, kind: type[T], path: str) -> T:
    try:
        value = float(value) if kind is float and type(value) is int else value
    except OverflowError as problem:
        raise NotUnderstood(path) from problem
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        raise NotUnderstood(path)
    return value


Special: TypeAlias = Callable[[Answer], Shown]
"""A field that is no single value."""


class Field(NamedTuple):
    """One value of an object: a column of a table, or a fact of a page."""

    title: str
    show: Special
    is_id: bool
    """Copied by people, so others give way first."""
    is_figure: bool
    """Stands right."""


@dataclass(frozen=True, slots=True)
class Resource:
    """How objects of one kind are shown: many in a table, one as facts.

    Fields are written `title=path` or `title=text with {path} and {path:format}`, with semicolons between. A title
    alone is shown by its function in `special`, or is the path. `!` before it: in red; `>`: figures, on the right.
    """

    fields: str
    """The facts, those left out that have no value."""
    none: str = ""
    """What is said of an empty list."""
    columns: str = ""
    """Fields of a table, those that are facts, too, by their titles. Empty: the facts."""
    spare: str = ""
    """Columns that a narrow terminal goes without, first to last."""
    special: Mapping[str, Special] = field(default_factory=dict[str, Special])
    more: Callable[[Answer], Mapping[str, Shown]] | None = None
    """Facts that hang together, below the others."""
    below: "tuple[str, Resource] | None" = None
    """Path of a list that is shown as a table below the facts."""
    output: str | None = None
    """Path of a text that is shown as it is, last."""

    def facts(self, answer: Answer) -> Iterator[tuple[str, str | Styled]]:
        """Titles and values of one object."""
        shown = [(one.title, one.show(answer)) for one in map(self._field, split(self.fields))]
        for title, value in (*shown, *(() if self.more is None else self.more(answer).items())):
            if value is not None:
                yield title, value

    def table(self) -> list[Field]:
        """The columns."""
        facts = {spec.lstrip("!>").partition("=")[0]: spec for spec in split(self.fields)}
        wanted = split(self.columns or self.fields)
        return [self._field(facts.get(spec.lstrip(">"), spec), is_figure=spec.startswith(">")) for spec in wanted]

    def _field(self, spec: str, *, is_figure: bool = False) -> Field:
        title, _, path = spec.lstrip("!>").partition("=")
        special = None if path else self.special.get(title)
        path = path or title.replace(" ", "_")

        def show(answer: Answer) -> Shown:
            value = filled(path, answer) if special is None else special(answer)
            if not isinstance(value, str):
                return value
            return styled(value, "red") if spec.startswith("!") else state(value) if path.endswith("status") else value

        return Field(title, show, path == "id" or path.endswith(("_id", "_checkpoint")), is_figure)


def split(specs: str) -> list[str]:
    """The parts of a text with semicolons between them."""
    return [spec.strip() for spec in specs.split(";") if spec.strip()]


def filled(path: str, answer: Answer) -> str | None:
    """A path's value; or a text with the values of the paths in it, `-` for one, None where there is none of them."""
    template = path if "{" in path else f"{{{path}}}"
    values = {place[0]: _said(place[1], answer.get(place[1], object), place[2]) for place in _PLACE.finditer(template)}
    if not any(value is not None for value in values.values()):
        return None
    return _PLACE.sub(lambda place: values[place[0]] or NOTHING, template)


def _said(path: str, value: object, form: str | None) -> str | None:
    """A value as `form` has it: Python's, or the word of what is counted; else as its path's end and its type do."""
    try:
        match value:
            case None:
                return None
            case int() if form and form.isalpha() and len(form) > 1:  # One letter is a format of Python's.
                return counted(value, form)
            case _ if form:
                return format(value, form)
            case list():
                return ", ".join(map(str, value)) or None
            case dict():
                return ", ".join(f"{name}={inner}" for name, inner in value.items()) or None
            case int() | float() if not isinstance(value, bool):
                plain = number if isinstance(value, float) else str
                return next((say for ends, say in _UNITS if path.endswith(ends)), plain)(value)
            case _:
                return str(value)
    except (TypeError, ValueError, OverflowError) as problem:  # A text where a figure is to be; a number beyond all.
        raise NotUnderstood(path) from problem


def state(name: str) -> Styled:
    """A status, or a text that begins with one, in its colour."""
    return styled(name, _STATES.get(name.partition(" ")[0].rstrip(","), "yellow"))


def styled(text: str, style: str) -> Styled:
    """One text in one style."""
    return ((text, style),)
