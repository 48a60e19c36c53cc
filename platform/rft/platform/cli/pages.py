"""Pieces that pages are put together from: tables that adapt to the terminal, and lists of named values."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from rft.platform.cli.words import one_line

_UNBOUNDED = 10_000
STATES = {
    "succeeded": "green",
    "completed": "green",
    "running": "cyan",
    "failed": "red",
    "cancelled": "dim",
    "paused": "yellow",
    "healthy": "green",
    "active": "green",
    "retired": "dim",
    "revoked": "dim",
    "degraded": "yellow",
    "failing": "red",
    "processed": "green",
    "error": "red",
}


class Fitted:
    """A table that leaves columns out where the terminal is too narrow for all of them."""

    def __init__(self, grid: Table, *, spare: Sequence[str]) -> None:
        self._grid, self._spare = grid, spare

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table without as many of the spare columns, in their order, as it takes."""
        columns = list(self._grid.columns)
        for name in self._spare:
            if self._widths(console, options).maximum <= options.max_width:
                break
            self._grid.columns = [column for column in self._grid.columns if column.header != name]
        has_room = self._widths(console, options).minimum <= options.max_width
        for column in columns:
            column.no_wrap = column.justify == "right" or (column.overflow == "fold" and has_room)
        yield self._grid
        self._grid.columns = columns

    def _widths(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options.update(max_width=_UNBOUNDED), self._grid)


def ident(name: str) -> Column:
    """A column of ids, to be copied: others give way first, and it is folded rather than cut."""
    return Column(name, overflow="fold", no_wrap=True)


def figure(name: str) -> Column:
    """A column of numbers."""
    return Column(name, justify="right", no_wrap=True)


def table(*columns: Column | str) -> Table:
    """An empty table in our style."""
    return Table(
        *columns, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold"
    )


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
