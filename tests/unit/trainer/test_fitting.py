"""Rows that no policy can answer are left out and named, not scored."""

from rft.chat.hermes import HermesChatFormat
from rft.core.dataset import DatasetRow
from rft.core.messages import Message, Role
from rft.testing.samplers_tokenizer import ByteTokenizer
from rft.trainer.fitting import split_by_fit, too_long_notice


def row(index: int, text: str) -> DatasetRow:
    return DatasetRow(index=index, messages=(Message(role=Role.USER, content=text),), tools=(), item={"messages": []})


def test_a_row_fits_when_one_token_can_follow_its_prompt() -> None:
    chat_format = HermesChatFormat(ByteTokenizer())
    rows = [row(0, "x"), row(1, "x" * 50), row(2, "xx")]
    exact = len(chat_format.prompt_ids(rows[2].messages, ()))
    assert split_by_fit(rows, chat_format, max_context_tokens=exact + 1) == ([rows[0], rows[2]], [rows[1]])
    assert split_by_fit(rows, chat_format, max_context_tokens=exact) == ([rows[0]], [rows[1], rows[2]])


def test_the_notice_names_rows_as_people_count_them() -> None:
    notice = too_long_notice([row(i, "") for i in range(12)], file="training file", max_context_tokens=64)
    assert (notice.level, notice.code) == ("warn", "rows_too_long")
    assert "12 rows of the training file" in notice.message
    assert "(rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)" in notice.message
