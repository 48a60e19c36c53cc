"""Answers on a terminal: tables that adapt to its width, lists of named values."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from rft.platform.cli.answers import Answer, Field, Resource, Styled, split
from rft.platform.cli.formats import NOTHING, one_line, printable

_UNBOUNDED = 10_000
_FACT_LIMIT = 2000


def table(resource: Resource, answers: Iterable[Answer], console: Console) -> Table:
    """One object a line, `-` where there is no value; without as many of the spare columns as the width takes."""
    fields, spare = resource.table(), split(resource.spare)
    rows = [{field.title: to_text(field.show(answer) or NOTHING) for field in fields} for answer in answers]
    unbounded = console.options.update(max_width=_UNBOUNDED)
    while (room := console.measure(_grid(fields, rows), options=unbounded)).maximum > console.width and spare:
        too_much = spare.pop(0)
        fields = [field for field in fields if field.title != too_much]
    grid = _grid(fields, rows)
    for field, column in zip(fields, grid.columns, strict=True):
        # An id is only broken where there is room for nothing else.
        column.no_wrap = field.is_figure or (field.is_id and room.minimum <= console.width)
    return grid


def _grid(fields: Sequence[Field], rows: Iterable[dict[str, Text]]) -> Table:
    columns = [
        Column(
            field.title,
            justify="right" if field.is_figure else "left",
            overflow="fold" if field.is_id else "ellipsis",
            no_wrap=field.is_id or field.is_figure,
        )
        for field in fields
    ]
    grid = Table(*columns, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    grid.padding = (0, 2, 0, 0)
    for row in rows:
        grid.add_row(*(row[field.title] for field in fields))
    return grid


def page(resource: Resource, answer: Answer, console: Console) -> RenderableType:
    """One object: its facts, then a table or a text where its resource has one."""
    parts: list[RenderableType] = [facts(resource.facts(answer))]
    if resource.below is not None:
        path, entries = resource.below
        parts.append(table(entries, answer.parts(path), console))
    if resource.output is not None and (output := answer.get(resource.output, str)) is not None:
        parts.append(Text(printable(output)))
    return Group(*parts)


def facts(named: Iterable[tuple[str, str | Styled]]) -> Table:
    """Names and values, one pair a line."""
    grid = Table.grid(Column(style="dim", no_wrap=True), Column(overflow="fold"), padding=(0, 2, 0, 0))
    for name, value in named:
        grid.add_row(to_text(name), to_text(value, limit=_FACT_LIMIT))
    return grid


def to_text(value: str | Styled, *, limit: int = 200) -> Text:
    """Foreign text, each piece safe to print and on one line."""
    pieces = [(value, "")] if isinstance(value, str) else value
    return Text.assemble(*((said if said == "\n" else one_line(said, limit=limit), style) for said, style in pieces))
