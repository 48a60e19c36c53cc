"""`rft validate`: the platform's own checks of a dataset, before anything is uploaded."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rft.core.base import Record
from rft.core.dataset import MAX_TRAIN_ROWS, MAX_VALID_ROWS
from rft.core.dataset_report import DatasetCheck, DatasetReport, EqualRows, check_dataset, shared_rows

_CHUNK_BYTES = 1 << 20
_ALL = 100_000
"""Here every problem of every line that is read is told."""
_NAMED = 10


class ValidatedFile(Record):
    """One file's report."""

    path: str
    report: DatasetReport


class Validated(Record):
    """What `rft validate --json` prints."""

    is_usable: bool
    """Whether a job can start with these files."""
    files: tuple[ValidatedFile, ...]
    shared_rows: tuple[EqualRows, ...]
    """Rows of the validation file that the training file holds, too."""


def validate_files(train: Path, valid: Path | None, *, context_tokens: int | None = None) -> Validated:
    """Read the files as a job would. Raises OSError."""
    wanted = [(train, MAX_TRAIN_ROWS)] + ([] if valid is None else [(valid, MAX_VALID_ROWS)])
    files, checks = list[ValidatedFile](), list[DatasetCheck]()
    for path, max_rows in wanted:
        checks.append(DatasetCheck(max_rows=max_rows, context_tokens=context_tokens, shown=_ALL))
        with path.open("rb") as file:
            report = check_dataset(iter(partial(file.read, _CHUNK_BYTES), b""), checks[-1])
        files.append(ValidatedFile(path=str(path), report=report))
    return Validated(
        is_usable=all(file.report.is_usable for file in files),
        files=tuple(files),
        shared_rows=() if valid is None else tuple(shared_rows(*checks)),
    )


def report_lines(validated: Validated) -> Iterator[str]:
    """The same for a person, line by line."""
    for file in validated.files:
        yield from _file_lines(file)
    if validated.shared_rows:
        pairs = _pairs(validated.shared_rows)
        yield f"warning: {len(validated.shared_rows)} validation rows are training rows, too (lines {pairs})"
    yield "ready for a job" if validated.is_usable else "a job would refuse this"


def _file_lines(file: ValidatedFile) -> Iterator[str]:
    report = file.report
    tools = ", ".join(report.tools) or "none"
    yield f"{file.path}: {report.rows} rows, {report.count}; tools described: {tools}"
    if report.longest_row_line is not None:
        yield f"  longest prompt: about {report.longest_row_tokens} tokens (line {report.longest_row_line})"
    for problem in report.shown_problems:
        yield f"  {problem}"
    if report.rows == 0:
        yield "  no rows"
    if report.duplicates:
        yield f"  warning: {report.duplicates} rows repeat an earlier one (lines {_pairs(report.shown_duplicates)})"
    if report.too_long:
        lines = ", ".join(map(str, report.shown_too_long[:_NAMED])) + (", ..." if report.too_long > _NAMED else "")
        yield f"  warning: {report.too_long} rows look too long for the model's context (lines {lines})"


def _pairs(pairs: tuple[EqualRows, ...]) -> str:
    named = ", ".join(f"{pair.line} = {pair.same_as}" for pair in pairs[:_NAMED])
    return named + (", ..." if len(pairs) > _NAMED else "")
