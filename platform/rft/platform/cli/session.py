"""One command's connection to the platform: how its answers are shown, how problems end the command."""

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from rft.core.errors import RftError
from rft.platform.cli.address import find_address, passed_over
from rft.platform.cli.answers import Answer, Resource, filled
from rft.platform.cli.client import Client, Listing, PlatformProblem
from rft.platform.cli.formats import NOTHING, json_text, one_line, printable
from rft.platform.cli.pages import page, table

if TYPE_CHECKING:
    from rft.core.base import JsonObject
_WIDE = 10_000
"""For readers that are no terminal: nothing is wrapped, a line stays a line."""
Page = str | Resource | Callable[[Answer], RenderableType]
"""How one object is shown; a text is one line, with values in the place of paths in braces."""


@dataclass(frozen=True, slots=True)
class Session:
    """A client and a way to show what it brings."""

    client: Client
    as_json: bool
    out: Console
    err: Console

    def show(self, raw: "JsonObject", how: Page) -> None:
        """One object."""
        if self.as_json:
            self.print_json(raw)
            return
        answer = Answer(raw)
        if isinstance(how, str):
            shown = filled(how, answer) or NOTHING
        else:
            shown = page(how, answer, self.out) if isinstance(how, Resource) else how(answer)
        if isinstance(shown, str):
            _print_line(self.out, shown)
        else:
            self.out.print(shown)

    def show_all(self, listing: Listing, resource: Resource) -> None:
        """A list as a table."""
        self.show_list(listing, lambda answers: table(resource, answers, self.out), resource.none)

    def show_list(self, listing: Listing, how: Callable[[Sequence[Answer]], RenderableType], none: str) -> None:
        """A list, or `none` where it is empty."""
        if self.as_json:
            self.print_json(listing.found)
        elif not listing.found:
            self.note(none)
        else:
            self.out.print(how([Answer(raw) for raw in listing.found]))
            if listing.next_after is not None:
                self.note(f"there are more: --after {listing.next_after}")

    def print_json(self, raw: "JsonObject | list[JsonObject]", *, indent: int | None = 2) -> None:
        """Exactly what came; through no console, which would wrap and colour it."""
        sys.stdout.write(json_text(raw, indent=indent) + "\n")
        sys.stdout.flush()

    def warn(self, text: str) -> None:
        """What may go wrong with what was done; never part of the answer."""
        _print_line(self.err, f"warning: {text}", "yellow")

    def note(self, text: str) -> None:
        """For the person, never part of the answer."""
        _print_line(self.err, text, "dim")


@contextmanager
def session(base_url: str | None, api_key: str | None, *, as_json: bool = False) -> Generator[Session]:
    """A session; what goes wrong ends the command."""
    with problems_end_command(as_json=as_json):
        address = find_address(base_url, api_key)
        with Client(address) as client:
            here = Session(client=client, as_json=as_json, out=console(), err=console(stderr=True))
            if (passed := passed_over(base_url, address)) is not None:
                here.note(f"asks {address.base_url}, as OPENAI_BASE_URL says, not {passed}, which runs here")
            yield here


@contextmanager
def problems_end_command(*, as_json: bool = False) -> Generator[None]:
    """What goes wrong inside ends the command with status 1 and one line on the error stream.

    Whoever reads JSON gets the API's error, or ours in its form, as one line, too.
    """
    try:
        yield
    except BrokenPipeError:
        _drop_output()  # The reader has gone, e.g. `head`.
        raise typer.Exit(1) from None
    except RecursionError:
        _give_up("the platform's answer is nested too deeply", as_json=as_json)
    except RftError as problem:
        answered = problem.answered if isinstance(problem, PlatformProblem) else None
        _give_up(str(problem), as_json=as_json, answered=answered)
    except UnicodeEncodeError as problem:
        _give_up(
            f"'{one_line(problem.object)}' is not UTF-8; nothing here takes text of another encoding", as_json=as_json
        )
    except OSError as problem:
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()  # Or the interpreter tries once more at its end, and ends with a status of its own.
        _give_up(f"{problem.filename or 'input or output'}: {problem.strerror or problem}", as_json=as_json)


def _drop_output() -> None:
    """What is still buffered has nowhere to go, and nobody wants to hear of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console(*, stderr: bool = False) -> Console:
    """For standard output, or the error stream. `:cat:` in an id or a name stays what it is."""
    made = Console(highlight=False, emoji=False, stderr=stderr)
    if not made.is_terminal:
        made.width = _WIDE
    return made


def _print_line(to: Console, text: str, style: str = "") -> None:
    """Foreign text, safe to print; ids and links in it stay whole, whatever the terminal's width is."""
    to.print(Text(printable(text), style), soft_wrap=True)


def _give_up(why: str, *, as_json: bool, answered: "JsonObject | None" = None) -> NoReturn:
    typer.echo(f"rft: {printable(why)}", err=True)
    if as_json:
        error = answered or {"message": why, "type": None, "param": None, "code": None}
        with suppress(OSError):  # Where standard output is what cannot be written.
            typer.echo(json_text({"error": error}, indent=None))
    raise typer.Exit(1)
