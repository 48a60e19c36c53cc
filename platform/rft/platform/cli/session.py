"""One command's connection to the platform: where it is, how its answers are shown, how problems end the command."""

import json
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import typer
from pydantic import JsonValue, ValidationError
from rich.console import Console, RenderableType

from rft.core.base import JsonObject
from rft.core.errors import RftError
from rft.platform.cli.address import Address, NoAddress, Place, choose
from rft.platform.cli.answers import Answer, NotUnderstood, Resource
from rft.platform.cli.client import Client, Listing, PlatformProblem, ReaderGone
from rft.platform.cli.pages import page, table
from rft.platform.settings import BadSetting, Settings, client_settings, settings

if TYPE_CHECKING:
    from rft.platform.embedded.connection import Connection

_WIDE = 10_000
"""For readers that are no terminal: nothing is wrapped, a line stays a line."""
Page = Resource | Callable[[Answer], RenderableType]
"""How one object is shown; a text is one line of the answer."""


class CannotDo(RftError):
    """What was asked for cannot be done as it is."""


@dataclass(frozen=True, slots=True)
class Session:
    """A client and a way to show what it brings."""

    client: Client
    as_json: bool
    out: Console
    err: Console

    def show(self, raw: JsonObject, how: Page) -> None:
        """One object."""
        if self.as_json:
            self.print_json(raw)
            return
        shown = page(how, Answer(raw)) if isinstance(how, Resource) else how(Answer(raw))
        self.out.print(shown, markup=False, highlight=False)

    def show_all(self, listing: Listing, resource: Resource) -> None:
        """A list as a table."""
        self.show_list(listing, lambda answers: table(resource, answers), resource.none)

    def show_list(self, listing: Listing, how: Callable[[Sequence[Answer]], RenderableType], none: str) -> None:
        """A list, or `none` where it is empty."""
        if self.as_json:
            self.print_json(listing.found)
            return
        if not listing.found:
            self.note(none)
            return
        self.out.print(how([Answer(raw, f"{number}.") for number, raw in enumerate(listing.found)]))
        if listing.next_after is not None:
            self.note(f"there are more: --after {listing.next_after}")

    def print_json(self, raw: JsonObject | list[JsonObject], *, indent: int | None = 2) -> None:
        """Exactly what came; through no console, which would wrap and colour it."""
        sys.stdout.write(json.dumps(raw, indent=indent, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def warn(self, text: str) -> None:
        """What may go wrong with what was done; never part of the answer."""
        self.err.print(f"warning: {text}", markup=False, highlight=False, style="yellow", soft_wrap=True)

    def note(self, text: str) -> None:
        """For the person, never part of the answer."""
        self.err.print(text, markup=False, highlight=False, style="dim")


@contextmanager
def session(base_url: str | None, api_key: str | None, *, as_json: bool = False) -> Generator[Session]:
    """A session that ends the command with status 1 and one line on the error stream when something is wrong."""
    try:
        with Client(find_address(base_url, api_key)) as client:
            yield Session(client=client, as_json=as_json, out=console(), err=Console(stderr=True))
    except ValidationError as problem:
        where = ".".join(map(str, problem.errors()[0]["loc"]))
        give_up(str(NotUnderstood(where)), as_json=as_json)
    except (ReaderGone, BrokenPipeError):
        # What is still buffered has nowhere to go; nobody wants to hear of it when we end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except RecursionError:
        give_up("the platform's answer is nested too deeply", as_json=as_json)
    except PlatformProblem as problem:
        give_up(str(problem), as_json=as_json, answered=problem.answered)
    except RftError as problem:
        give_up(str(problem), as_json=as_json)
    except OSError as problem:
        give_up(f"{problem.filename or 'input or output'}: {problem.strerror or problem}", as_json=as_json)


def chosen_settings(
    home: Path | None = None, host: str | None = None, port: int | None = None, *, as_json: bool = False
) -> Settings:
    """The process's settings with what the command line says put over them; ends the command where one is wrong."""
    said = {"home": home.expanduser().absolute() if home else None, "host": host, "port": port}
    try:
        return settings().model_copy(update={name: value for name, value in said.items() if value is not None})
    except BadSetting as problem:
        give_up(str(problem), as_json=as_json)


def console() -> Console:
    """For standard output."""
    out = Console(highlight=False)
    if not out.is_terminal:
        out.width = _WIDE
    return out


def give_up(why: str, *, as_json: bool = False, answered: JsonObject | None = None) -> NoReturn:
    """End the command; whoever reads JSON gets the API's error, or ours in its form, as one line."""
    typer.echo(f"rft: {why}", err=True)
    if as_json:
        error = answered or {"message": why, "type": None, "param": None, "code": None}
        typer.echo(json.dumps({"error": error}, ensure_ascii=False))
    raise typer.Exit(1)


def read_body(source: str) -> JsonObject:
    """A JSON object from a file or, named `-`, from standard input. Raises CannotDo and OSError."""
    where = "standard input" if source == "-" else source
    try:
        # Editors of some systems begin their files with a mark that is no part of JSON.
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise CannotDo(f"{where} is not JSON: it is not UTF-8 ({problem.reason} at byte {problem.start})") from problem
    return to_object(text, where)


def read_grader(source: str) -> JsonObject:
    """A grader, also where the file holds it the way requests do. Raises CannotDo and OSError."""
    body = read_body(source)
    inner = body.get("grader")
    return inner if isinstance(inner, dict) and "type" not in body else body


def pairs(said: Sequence[str], option: str) -> dict[str, str]:
    """`KEY=VALUE` options as a mapping. Raises CannotDo."""
    found: dict[str, str] = {}
    for text in said:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise CannotDo(f"{option} takes KEY=VALUE, not '{text}'")
        found[key] = value
    return found


def to_object(text: str, where: str) -> JsonObject:
    """The JSON object a text holds. Raises CannotDo."""
    try:
        document = cast("JsonValue", json.loads(text))
    except ValueError as problem:
        raise CannotDo(f"{where} is not JSON: {problem}") from problem
    except RecursionError as problem:
        raise CannotDo(f"{where} is nested too deeply") from problem
    if not isinstance(document, dict):
        raise CannotDo(f"{where} must hold a JSON object")
    return document


def find_address(base_url: str | None, api_key: str | None) -> Address:
    """The platform to talk to. Raises NoAddress."""
    try:
        given = client_settings()
        said, ours = Place(base_url, api_key), Place(given.base_url, given.api_key)
        is_named = bool(said.base_url or ours.base_url) and bool(said.api_key or ours.api_key)
        embedded = None if is_named else _embedded()
    except ValidationError as problem:
        where = ".".join(map(str, problem.errors()[0]["loc"]))
        raise NoAddress(f"the setting '{where}' in the environment is wrong: {problem.errors()[0]['msg']}") from problem
    return choose(said, ours, Place(given.openai_base_url, given.openai_api_key), embedded)


def _embedded() -> "Connection | None":
    """The platform that `rft up` runs here. Imported late: whoever names a platform does not wait for this."""
    from rft.platform.embedded.connection import read_connection

    return read_connection(settings().home)
