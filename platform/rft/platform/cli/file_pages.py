"""Files, for people."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from rft.platform.cli.pages import Fitted, add, facts, figure, ident, names, state, table
from rft.platform.cli.views import BadLine, Dataset, File
from rft.platform.cli.words import NOTHING, counted, date, one_line, size


def file_table(files: Sequence[File]) -> Fitted:
    """One file a line."""
    grid = table(ident("file"), "name", "purpose", figure("size"), figure("rows"), "state", "created")
    for file in files:
        add(
            grid,
            file.id,
            file.filename,
            file.purpose,
            size(file.bytes),
            NOTHING if file.dataset is None else f"{file.dataset.rows:,}",
            _state(file),
            date(file.created_at),
        )
    return Fitted(grid, spare=("purpose", "rows", "created", "size"))


def problem_table(problems: Sequence[BadLine]) -> Fitted:
    """One bad line of a file a line."""
    grid = table(figure("line"), "where", "problem")
    for problem in problems:
        add(grid, f"{problem.line:,}", one_line(problem.path), one_line(problem.reason))
    return Fitted(grid, spare=("where",))


def file_page(file: File) -> RenderableType:
    """One file, its problems among it."""
    dataset = file.dataset
    problems = () if dataset is None else dataset.first_problems
    return facts(
        [
            ("file", file.id),
            ("name", file.filename),
            ("purpose", file.purpose),
            ("size", size(file.bytes)),
            ("state", _state(file)),
            ("created", date(file.created_at)),
            ("expires", None if file.expires_at is None else date(file.expires_at)),
            ("rows", None if dataset is None else f"{dataset.rows:,}"),
            ("tools described", None if dataset is None else names(dataset.tools)),
            ("repeated rows", f"{dataset.duplicates:,}" if dataset is not None and dataset.duplicates else None),
            ("problems", Text("\n".join(map(one_line, problems)), style="red") if problems else None),
            ("not read", None if dataset is None else _unread(dataset)),
        ]
    )


def _unread(dataset: Dataset) -> str | None:
    line = dataset.stopped_at_line
    return None if line is None else f"from line {line:,} on, for {counted(dataset.problems, 'problem')} before it"


def _state(file: File) -> Text:
    if file.dataset is not None and file.dataset.problems:
        return Text(f"unusable: {counted(file.dataset.problems, 'problem')}", style="red")
    return state(file.status)
