"""Rows whose prompt alone fills the model's context: no policy can answer them, so none is blamed for it."""

from collections.abc import Sequence

from rft.chat.chat_format import ChatFormat
from rft.core.dataset import DatasetRow
from rft.core.events import Notice

_NAMED = 10


def split_by_fit(
    rows: Sequence[DatasetRow], chat_format: ChatFormat, *, max_context_tokens: int
) -> tuple[list[DatasetRow], list[DatasetRow]]:
    """Rows that leave room for at least one token, and rows that do not; both in order."""
    fitting: list[DatasetRow] = []
    too_long: list[DatasetRow] = []
    for row in rows:
        length = len(chat_format.prompt_ids(row.messages, row.tools))
        (fitting if length < max_context_tokens else too_long).append(row)
    return fitting, too_long


def too_long_notice(rows: Sequence[DatasetRow], *, file: str, max_context_tokens: int) -> Notice:
    """Which rows are left out, in words. Needs at least one row."""
    named = ", ".join(str(row.index + 1) for row in rows[:_NAMED]) + (", ..." if len(rows) > _NAMED else "")
    return Notice(
        level="warn",
        code="rows_too_long",
        message=f"{len(rows)} rows of the {file} are left out: their prompt alone fills the model's context of "
        f"{max_context_tokens} tokens (rows {named}).",
    )
