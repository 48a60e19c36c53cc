"""Answers of tools in the order of the calls that they answer."""

from hypothesis import given
from hypothesis import strategies as st

from rft.core.messages import Message, Role, ToolCall, in_order_of_calls


def calls(*ids: str) -> Message:
    made = tuple(ToolCall(call_id=one, name="lookup", arguments="{}") for one in ids)
    return Message(role=Role.ASSISTANT, content="", tool_calls=made)


def answer(call_id: str | None, content: str) -> Message:
    return Message(role=Role.TOOL, content=content, tool_call_id=call_id)


@given(st.permutations("abc"), st.permutations("abc"))
def test_answers_stand_in_the_order_of_their_calls(called: list[str], answered: list[str]) -> None:
    asked = Message(role=Role.USER, content="Both?")
    told = [calls(*called), *(answer(one, one) for one in answered)]
    shown = [*in_order_of_calls([asked, *told, asked, *told])]
    assert [one.content for one in shown] == ["Both?", "", *called] * 2


def test_answers_stay_as_they_are_where_ids_do_not_tell_which_call_each_answers() -> None:
    repeated = [calls("1", "2", "1"), answer("1", "of A"), answer("2", "of B"), answer("1", "of C")]
    assert [*in_order_of_calls(repeated)] == repeated
    late = [calls("1", "2"), answer("0", "of an earlier one"), answer("2", "of B"), answer("1", "of A")]
    assert [*in_order_of_calls(late)] == late
    nameless = [calls("1", "2"), answer("2", "of B"), answer(None, "of A")]
    assert [*in_order_of_calls(nameless)] == nameless
