"""Rows that no policy can answer, so that none is blamed for it: their prompt alone fills the model's context, or its
chat template refuses their messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rft.chat.chat_format import ChatFormat
from rft.chat.errors import ChatTemplateError
from rft.core.dataset import DatasetRow
from rft.core.events import Notice

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Fit:
    """The rows of a file, in order, by what can be done with them."""

    fitting: list[DatasetRow] = field(default_factory=list[DatasetRow])
    """They leave room for at least one token."""
    too_long: list[DatasetRow] = field(default_factory=list[DatasetRow])
    refused: list[tuple[DatasetRow, str]] = field(default_factory=list[tuple[DatasetRow, str]])
    """With the template's words."""

    def notices(self, *, file: str, max_context_tokens: int, epochs: int | None = None) -> list[Notice]:
        """Which rows are left out and why, in words; none where all fit. `epochs`: of a file that is trained on."""
        found = [too_long_notice(self.too_long, file=file, max_context_tokens=max_context_tokens)]
        told = [*(found if self.too_long else []), *([refused_notice(self.refused, file=file)] if self.refused else [])]
        if not told or not self.fitting or epochs is None:
            return told
        last = told[-1].model_copy(update={"message": f"{told[-1].message} {self._repeated(epochs)}"})
        return [*told[:-1], last]

    def _repeated(self, epochs: int) -> str:
        """What the run's steps, which were counted from all rows, come to with those that fit."""
        rows = len(self.fitting) + len(self.too_long) + len(self.refused)
        times = epochs * rows / len(self.fitting)
        return (
            f"The run keeps its steps: each of the other {len(self.fitting)} is taken {times:.3g} times, not {epochs}."
        )


def split_by_fit(rows: Sequence[DatasetRow], chat_format: ChatFormat, *, max_context_tokens: int) -> Fit:
    """Every row in one of three lists."""
    fit = Fit()
    for row in rows:
        try:
            length = len(chat_format.prompt_ids(row.messages, row.tools))
        except ChatTemplateError as error:
            fit.refused.append((row, str(error)))
        else:
            (fit.fitting if length < max_context_tokens else fit.too_long).append(row)
    return fit


def too_long_notice(rows: Sequence[DatasetRow], *, file: str, max_context_tokens: int) -> Notice:
    """Which rows are left out, in words."""
    return Notice(
        level="warn",
        code="rows_too_long",
        message=f"{len(rows)} rows of the {file} are left out: their prompt alone fills the model's context of "
        f"{max_context_tokens} tokens (rows {_named(rows)}).",
    )


def refused_notice(rows: Sequence[tuple[DatasetRow, str]], *, file: str) -> Notice:
    """Which rows are left out and what the template says of the first. Needs at least one row."""
    return Notice(
        level="warn",
        code="rows_refused_by_template",
        message=f"{len(rows)} rows of the {file} are left out: the model's chat template refuses their messages "
        f"(rows {_named([row for row, _ in rows])}; the first: {rows[0][1]}).",
    )


def _named(rows: Sequence[DatasetRow]) -> str:
    return ", ".join(str(row.index + 1) for row in rows[:_NAMED]) + (", ..." if len(rows) > _NAMED else "")
