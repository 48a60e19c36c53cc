"""The one dataset validator: chunks of a file in, a report of everything that is to be said about it out.

Upload, `rft validate` and job start all read files through `DatasetCheck`.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from rft.core.base import Record
from rft.core.dataset import MAX_TRAIN_ROWS, DatasetRow, RowProblem, parse_row
from rft.core.dataset_lines import LineSplitter

MAX_PROBLEMS = 1_000
"""A file with so many is not read on: bad lines cost a hundred times what good ones do, and nobody reads them all."""
MAX_EMPTY_LINES = 1_000_000
SHOWN = 20
"""Problems, and pairs of equal rows, that a report tells in full; all are counted."""
CHARACTERS_PER_TOKEN = 4
"""Of ASCII: what English text takes in common vocabularies. Any other character counts as a token of its own, which is
about right for Chinese. Good enough to warn: the trainer counts exactly."""
_MAX_TOOLS = 1024


class EqualRows(Record):
    """Two lines that hold the same row, whatever the order of its keys."""

    line: int
    same_as: int
    """The earlier line of the same file, or the line of the other file."""


class DatasetReport(Record):
    """What one file holds."""

    rows: int
    """Good ones."""
    problems: int
    """Lines that are no row, and rows that a job cannot use."""
    shown_problems: tuple[RowProblem, ...] = ()
    """The first of them."""
    stopped_at_line: int | None = None
    """From this line on nothing was read, for too much was wrong before it; None: all of it was read."""
    tools: dict[str, int]
    """Tools that rows describe, each with the first line that does."""
    has_all_tools: bool = True
    """False when rows describe more tools than a report names."""
    duplicates: int = 0
    """Rows that an earlier line has already."""
    shown_duplicates: tuple[EqualRows, ...] = ()
    longest_row_line: int | None = None
    """The line with the longest prompt; None without rows."""
    longest_row_tokens: int = 0
    """Its prompt's length, estimated from its characters."""
    too_long: int = 0
    """Rows whose prompt is estimated beyond the model's context, where that is known."""
    shown_too_long: tuple[int, ...] = ()
    """Their lines, the first of them."""

    @property
    def is_usable(self) -> bool:
        """Whether a job can start with it."""
        return self.problems == 0 and self.rows > 0

    def summary(self) -> str | None:
        """What is wrong with the file, in a few lines; None when nothing is."""
        if self.problems:
            shown = "\n".join(str(problem) for problem in self.shown_problems)
            more = self.problems - len(self.shown_problems)
            return f"{self.count}:\n{shown}" + (f"\nand {more} more" if more else "")
        return None if self.rows else "no rows"

    @property
    def count(self) -> str:
        """How many problems there are, in words, and how far the file was read."""
        summary = f"{self.problems:,} {'problem' if self.problems == 1 else 'problems'}"
        return summary if self.stopped_at_line is None else f"{summary}, not read from line {self.stopped_at_line:,} on"


@dataclass(slots=True)
class DatasetCheck:
    """Reads one file, chunk by chunk, and keeps no row."""

    max_rows: int = MAX_TRAIN_ROWS
    registered: Collection[str] | None = None
    """The job's tools: rows may describe no others. None: not known yet."""
    context_tokens: int | None = None
    """What the model can read at most; None: not known yet."""
    shown: int = SHOWN
    max_problems: int = MAX_PROBLEMS
    """The file is not read beyond so many."""
    on_problem: Callable[[RowProblem], None] | None = None
    """Told of every problem, whatever the report shows, and of the line from which on nothing is read."""
    lines_by_row: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """First line of each distinct row, by the row's fingerprint."""
    _splitter: LineSplitter = field(default_factory=LineSplitter)
    _line: int = 0
    _empty_lines: int = 0
    _stopped_at: int | None = None
    _rows: int = 0
    _problems: int = 0
    _shown_problems: list[RowProblem] = field(default_factory=list[RowProblem])
    _tools: dict[str, int] = field(default_factory=dict[str, int])
    _duplicates: list[EqualRows] = field(default_factory=list[EqualRows])
    _duplicate_count: int = 0
    _longest: tuple[int, int | None] = (0, None)
    _too_long: list[int] = field(default_factory=list[int])
    _too_long_count: int = 0

    @property
    def is_over(self) -> bool:
        """Whether what follows is of no interest any more."""
        return self._stopped_at is not None

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the file."""
        if self.is_over:
            return
        for line in self._splitter.feed(chunk):
            self.add_line(line)
            if self.is_over:
                return

    def end(self) -> DatasetReport:
        """No more bytes follow, or none that matter."""
        if not self.is_over:
            for line in self._splitter.end():
                self.add_line(line)
        return DatasetReport(
            rows=self._rows,
            problems=self._problems,
            shown_problems=tuple(self._shown_problems),
            stopped_at_line=self._stopped_at,
            tools=dict(self._tools),
            has_all_tools=len(self._tools) < _MAX_TOOLS,
            duplicates=self._duplicate_count,
            shown_duplicates=tuple(self._duplicates),
            longest_row_line=self._longest[1],
            longest_row_tokens=self._longest[0],
            too_long=self._too_long_count,
            shown_too_long=tuple(self._too_long),
        )

    def add_line(self, line: bytes) -> None:
        """The next line, its newline taken off."""
        self._line += 1
        if not line.strip():
            self._empty_lines += 1
            if self._empty_lines > MAX_EMPTY_LINES:
                self._stop(f"more than {MAX_EMPTY_LINES:,} empty lines")
            return
        if self._rows >= self.max_rows:
            self._stop(f"more than {self.max_rows:,} rows")
            return
        if self._problems >= self.max_problems:
            self._stop_reading()
            return
        parsed = parse_row(line, line_number=self._line, index=self._rows)
        if isinstance(parsed, RowProblem):
            self._add(parsed)
            return
        self._rows += 1
        self._look_at_tools(parsed)
        self._look_for_its_equal(parsed)
        self._measure(parsed)

    def _stop(self, reason: str) -> None:
        """One problem for all that follows."""
        self._add(RowProblem(line=self._line, path="", reason=reason))
        self._stopped_at = self._line

    def _stop_reading(self) -> None:
        """This line is no problem that is counted, but whoever lists them learns why they end here."""
        self._stopped_at = self._line
        if self.on_problem is not None:
            message = f"not read, and neither is what follows: {self._problems:,} problems come before it"
            self.on_problem(RowProblem(line=self._line, path="", reason=message))

    def _add(self, problem: RowProblem) -> None:
        self._problems += 1
        if self.on_problem is not None:
            self.on_problem(problem)
        if len(self._shown_problems) < self.shown:
            self._shown_problems.append(problem)

    def _look_at_tools(self, row: DatasetRow) -> None:
        for position, tool in enumerate(row.tools):
            if len(self._tools) < _MAX_TOOLS:
                self._tools.setdefault(tool.name, self._line)
            if self.registered is not None and tool.name not in self.registered:
                self._add(_unregistered(self._line, row, position, self.registered))

    def _look_for_its_equal(self, row: DatasetRow) -> None:
        first = self.lines_by_row.setdefault(_fingerprint(row), self._line)
        if first != self._line:
            self._duplicate_count += 1
            if len(self._duplicates) < self.shown:
                self._duplicates.append(EqualRows(line=self._line, same_as=first))

    def _measure(self, row: DatasetRow) -> None:
        tokens = estimated_tokens(row)
        if tokens > self._longest[0] or self._longest[1] is None:
            self._longest = (tokens, self._line)
        if self.context_tokens is not None and tokens >= self.context_tokens:
            self._too_long_count += 1
            if len(self._too_long) < self.shown:
                self._too_long.append(self._line)


def check_dataset(chunks: Iterable[bytes], check: DatasetCheck | None = None) -> DatasetReport:
    """The report of a whole file."""
    check = check or DatasetCheck()
    for chunk in chunks:
        check.feed(chunk)
    return check.end()


def shared_rows(train: DatasetCheck, valid: DatasetCheck) -> list[EqualRows]:
    """Rows of the validation file that the training file holds, too: the model is tested on what it has seen."""
    return [
        EqualRows(line=line, same_as=train.lines_by_row[fingerprint])
        for fingerprint, line in valid.lines_by_row.items()
        if fingerprint in train.lines_by_row
    ]


def estimated_tokens(row: DatasetRow) -> int:
    """Length of the prompt, tools included, from its characters."""
    plain = other = 0
    for text in _texts(row):
        ascii_only = len(text) if text.isascii() else len(text.encode("ascii", errors="ignore"))
        plain += ascii_only
        other += len(text) - ascii_only
    return -(-plain // CHARACTERS_PER_TOKEN) + other


def _texts(row: DatasetRow) -> Iterator[str]:
    for message in row.messages:
        yield message.content
        for call in message.tool_calls:
            yield from (call.name, call.arguments)
    for tool in row.tools:
        yield from (tool.name, tool.description, json.dumps(tool.parameters, ensure_ascii=False))


def _fingerprint(row: DatasetRow) -> bytes:
    return hashlib.sha256(json.dumps(row.item, sort_keys=True).encode()).digest()[:16]


def _unregistered(line: int, row: DatasetRow, position: int, registered: Collection[str]) -> RowProblem:
    known = ", ".join(registered) or "none"
    raw = row.item.get("tools")
    entry = raw[position] if isinstance(raw, list) else None
    inner = ".function" if isinstance(entry, dict) and isinstance(entry.get("function"), dict) else ""
    return RowProblem(
        line=line,
        path=f"tools[{position}]{inner}.name",
        reason=f"{row.tools[position].name!r} is not among the job's tools ({known})",
    )
