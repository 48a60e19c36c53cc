"""Pieces that pages are put together from: tables that adapt to the terminal, and lists of named values."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Column, Table
from rich.text import Text

from rft.platform.cli.words import one_line

STATES = {
    "succeeded": "green",
    "running": "cyan",
    "failed": "red",
    "cancelled": "dim",
    "paused": "yellow",
    "healthy": "green",
    "degraded": "yellow",
    "failing": "red",
    "processed": "green",
    "error": "red",
}


def ident(name: str) -> Column:
    """A column of ids: folded where there is no room, never cut, so that one can be copied."""
    return Column(name, overflow="fold", min_width=12)


def figure(name: str) -> Column:
    """A column of numbers."""
    return Column(name, justify="right", no_wrap=True)


def table(*columns: Column | str) -> Table:
    """An empty table in our style."""
    return Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


def add(grid: Table, *cells: str | Text) -> None:
    """A line of a table; plain text is taken as foreign text."""
    grid.add_row(*(cell(value) if isinstance(value, str) else value for value in cells))


def cell(text: str, style: str = "") -> Text:
    """Foreign text in a table."""
    return Text(one_line(text), style=style)


def state(text: str) -> Text:
    """A status in its colour."""
    return Text(one_line(text), style=STATES.get(text.partition(" ")[0].rstrip(","), "yellow"))


def facts(named: Iterable[tuple[str, str | Text | None]]) -> Table:
    """Names and values, one pair a line; pairs without a value are left out."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in named:
        if value is not None:
            grid.add_row(cell(name), Text(one_line(value, limit=2000)) if isinstance(value, str) else value)
    return grid


def names(of: Sequence[str]) -> str:
    """Listed, or `none`."""
    return ", ".join(of) or "none"
