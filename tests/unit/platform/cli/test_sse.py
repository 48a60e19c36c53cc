"""Server-sent events, from lines to messages."""

from hypothesis import given
from hypothesis import strategies as st

from rft.platform.cli.sse import Sent, messages


def test_fields_make_a_message() -> None:
    lines = ["event: job\n", 'data: {"a":\n', "data: 1}\n", "id: 7\n", "\n", "data:no space\n", "\n"]
    assert list(messages(lines)) == [Sent("job", '{"a":\n1}', "7"), Sent("message", "no space", "7")]


def test_a_message_without_an_id_keeps_the_last_one() -> None:
    lines = ["data: a", "id: 1", "", "data: b", "", "data: c", "id: 2", ""]
    assert [(sent.data, sent.last_id) for sent in messages(lines, "0")] == [("a", "1"), ("b", "1"), ("c", "2")]


def test_pings_and_unknown_fields_say_nothing() -> None:
    assert list(messages([": ping", "", "retry: 10", "", "event: only", "", "data: x", ""])) == [
        Sent("message", "x", None)
    ]


def test_a_message_that_was_cut_off_is_dropped_with_its_id() -> None:
    assert list(messages(["data: whole", "id: 1", "", "event: job", "data: hal", "id: 2"])) == [
        Sent("message", "whole", "1")
    ]


_texts = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(st.tuples(_texts, st.integers(0, 10**9)), max_size=20), st.data())
def test_any_cut_loses_only_the_end(told: list[tuple[str, int]], data: st.DataObject) -> None:
    lines = [line for text, number in told for line in (f"data: {text}", f"id: {number}", "")]
    cut = data.draw(st.integers(0, len(lines)))
    assert [(sent.data, sent.last_id) for sent in messages(lines[:cut])] == [
        (text, str(number)) for text, number in told[: cut // 3]
    ]
