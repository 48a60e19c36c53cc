"""Answers on a terminal: tables that adapt to its width, lists of named values."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from rft.platform.cli import answers as api
from rft.platform.cli.answers import Answer, Resource, Styled
from rft.platform.cli.formats import NOTHING, one_line, printable

_UNBOUNDED = 10_000
_FACT_LIMIT = 2000


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


def table(resource: Resource, answers: Iterable[Answer]) -> Fitted:
    """One object a line; `-` where there is no value."""
    grid = Table(
        *map(_to_column, resource.columns),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
    )
    for answer in answers:
        shown = (column.show(answer) for column in resource.columns)
        grid.add_row(*(to_text(NOTHING if value is None else value) for value in shown))
    return Fitted(grid, spare=resource.spare)


def _to_column(column: api.Column) -> Column:
    match column.kind:
        case "id":
            return Column(column.title, overflow="fold", no_wrap=True)
        case "figure":
            return Column(column.title, justify="right", no_wrap=True)
        case "text":
            return Column(column.title)


def page(resource: Resource, answer: Answer) -> RenderableType:
    """One object: its facts, then a table or a text where its resource has one."""
    parts: list[RenderableType] = [facts(resource.named(answer))]
    if resource.below is not None:
        path, entries = resource.below
        parts.append(table(entries, answer.parts(path)))
    if resource.output is not None and (output := answer.get(resource.output, str)) is not None:
        parts.append(Text(printable(output)))
    return Group(*parts)


def facts(named: Iterable[tuple[str, str | Styled]]) -> Table:
    """Names and values, one pair a line."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in named:
        grid.add_row(to_text(name), to_text(value, limit=_FACT_LIMIT))
    return grid


def to_text(value: str | Styled, *, limit: int = 200) -> Text:
    """Foreign text, each piece safe to print and on one line."""
    pieces = [(value, "")] if isinstance(value, str) else value
    return Text.assemble(*((said if said == "\n" else one_line(said, limit=limit), style) for said, style in pieces))
