"""Rows that no policy can answer are left out and named, not scored."""

from collections.abc import Sequence

from rft.chat.errors import ChatTemplateError
from rft.chat.hermes import HermesChatFormat
from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.messages import Message, Role
from rft.testing.samplers_tokenizer import ByteTokenizer
from rft.trainer.fitting import Fit, split_by_fit, too_long_notice


def row(index: int, text: str) -> DatasetRow:
    return DatasetRow(index=index, messages=(Message(role=Role.USER, content=text),), tools=(), item={"messages": []})


def test_a_row_fits_when_one_token_can_follow_its_prompt() -> None:
    chat_format = HermesChatFormat(ByteTokenizer())
    rows = [row(0, "x"), row(1, "x" * 50), row(2, "xx")]
    exact = len(chat_format.prompt_ids(rows[2].messages, ()))
    assert split_by_fit(rows, chat_format, max_context_tokens=exact + 1) == Fit([rows[0], rows[2]], [rows[1]])
    assert split_by_fit(rows, chat_format, max_context_tokens=exact) == Fit([rows[0]], [rows[1], rows[2]])


class Choosy(ByteTokenizer):
    """Its template takes no question marks."""

    def render(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject], *, add_generation_prompt: bool
    ) -> str:
        if any("?" in str(message["content"]) for message in messages):
            raise ChatTemplateError("rendering the chat template failed: TemplateError: no questions")
        return super().render(messages, tools, add_generation_prompt=add_generation_prompt)


def test_a_row_that_the_template_refuses_is_left_out_with_its_words() -> None:
    chat_format = HermesChatFormat(Choosy())
    rows = [row(0, "x"), row(1, "what?"), row(2, "x" * 50)]
    fit = split_by_fit(rows, chat_format, max_context_tokens=60)
    assert (fit.fitting, fit.too_long) == ([rows[0]], [rows[2]])
    too_long, refused = fit.notices(file="training file", max_context_tokens=60)
    assert too_long.code == "rows_too_long"
    assert (refused.level, refused.code) == ("warn", "rows_refused_by_template")
    assert "1 rows of the training file are left out" in refused.message
    assert "(rows 2; the first: rendering the chat template failed: TemplateError: no questions)" in refused.message
    assert Fit(rows).notices(file="training file", max_context_tokens=60) == []


def test_the_notice_names_rows_as_people_count_them() -> None:
    notice = too_long_notice([row(i, "") for i in range(12)], file="training file", max_context_tokens=64)
    assert (notice.level, notice.code) == ("warn", "rows_too_long")
    assert "12 rows of the training file" in notice.message
    assert "(rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)" in notice.message


def test_how_often_the_other_rows_are_taken_is_told_of_what_is_trained_on() -> None:
    """Steps are counted from all rows before anybody knows which fit."""
    rows = [row(number, "x") for number in range(3)]
    fit = Fit(rows[:1], [rows[1]], [(rows[2], "no")])
    told = fit.notices(file="training file", max_context_tokens=60, epochs=2)
    assert [("is taken" in notice.message) for notice in told] == [False, True]
    assert told[1].message.endswith("The run keeps its steps: each of the other 1 is taken 6 times, not 2.")
    assert Fit([], [rows[1]]).notices(file="training file", max_context_tokens=60, epochs=2) == [
        too_long_notice([rows[1]], file="training file", max_context_tokens=60)
    ]
