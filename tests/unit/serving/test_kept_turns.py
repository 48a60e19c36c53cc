"""A turn that the client has kept is taken as it was sampled, or the client is told that it was not."""

from collections.abc import Callable

import pytest

from rft.core.messages import Message, Role, ToolCall
from rft.serving_wire.records import Choice, Prompt, SampledTurn
from rft.testing.samplers import tool_call_text
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.serving.conversing import TOKENIZER, completions, events_of, prompt_and_choices, request, said
from tests.unit.serving.test_as_in_a_rollout import policy, row

SEARCH = tool_call_text("search", '{"q":   1}')
TURNS = [f"<think>hm</think>\nI look. {SEARCH}", f"<think>aha</think>{SEARCH}{SEARCH}", "Done."]
ASKED = row()


def ask(
    messages: list[Message], kept: dict[int, SampledTurn], *, max_tokens: int | None = None
) -> tuple[Prompt, Choice]:
    """A process that remembers nothing."""
    served = completions(policy(TURNS), remembered_tokens=0)
    wanted = request(messages, ASKED.tools, sampled_turns=kept)
    prompt, (choice,) = prompt_and_choices(run_in_virtual_time(events_of(served, wanted)))
    return prompt, choice


def answered(choice: Choice, *, thoughts: str | None = None) -> list[Message]:
    message = said(choice).model_copy(update={"reasoning_content": choice.reasoning if thoughts is None else thoughts})
    results = [Message(role=Role.TOOL, content="7", tool_call_id=call.call_id) for call in choice.tool_calls]
    return [message, *results]


def two_turns() -> tuple[list[Message], dict[int, SampledTurn]]:
    """A conversation before its last turn, and what a client has kept of it."""
    messages, kept = list(ASKED.messages), dict[int, SampledTurn]()
    for _ in range(2):
        _, choice = ask(messages, kept)
        assert choice.turn is not None
        kept[len(messages)] = choice.turn
        messages += answered(choice)
    return messages, kept


def withheld(prompt: Prompt) -> list[tuple[int, str]]:
    return [(turn.message, turn.reason) for turn in prompt.withheld]


def test_what_was_kept_is_seen_as_it_was_sampled() -> None:
    messages, kept = two_turns()
    prompt, choice = ask(messages, kept)
    text = TOKENIZER.decode(prompt.token_ids)
    assert "<think>hm</think>" in text
    assert '{"q":   1}' in text
    assert (withheld(prompt), prompt.is_rendered_again, choice.content) == ([], False, "Done.")
    *_, last = kept.values()
    assert prompt.token_ids[: prompt.remembered_tokens][-len(last.token_ids) :] == last.token_ids


def with_content(messages: list[Message], index: int, **changes: object) -> list[Message]:
    return [*messages[:index], messages[index].model_copy(update=changes), *messages[index + 1 :]]


CHANGES: dict[str, Callable[[list[Message]], list[Message]]] = {
    "the question": lambda messages: with_content(messages, 1, content="Stop."),
    "a text": lambda messages: with_content(messages, 2, content="I do not look."),
    "a thought": lambda messages: with_content(messages, 2, reasoning_content="never"),
    "a result": lambda messages: with_content(messages, 3, content="8"),
    "arguments": lambda messages: with_content(
        messages, 2, tool_calls=tuple(call.model_copy(update={"arguments": "{}"}) for call in messages[2].tool_calls)
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_conversation_that_was_changed_is_rendered_from_its_text_and_told(what: str) -> None:
    messages, kept = two_turns()
    changed = CHANGES[what](messages)
    prompt, _ = ask(changed, kept)
    assert withheld(prompt) == [(2, "prefix_mismatch"), (4, "prefix_mismatch")]
    assert prompt.is_rendered_again
    assert prompt.remembered_tokens == 0
    assert '{"q":   1}' not in TOKENIZER.decode(prompt.token_ids), "the calls are rendered from their text"


def test_thoughts_may_be_left_out() -> None:
    messages, kept = two_turns()
    without = [message.model_copy(update={"reasoning_content": ""}) for message in messages]
    assert ask(without, kept)[0].token_ids == ask(messages, kept)[0].token_ids


def test_a_turn_behind_one_that_was_not_kept_does_not_fit() -> None:
    messages, kept = two_turns()
    prompt, _ = ask(messages, {4: kept[4]})
    assert withheld(prompt) == [(4, "prefix_mismatch")]
    prompt, _ = ask(messages, {2: kept[2]})
    assert withheld(prompt) == [(2, "prefix_mismatch")]
    assert prompt.is_rendered_again


def test_a_turn_that_answered_a_rendered_conversation_fits_into_it() -> None:
    """The first turn was written by the client: few shots."""
    call = ToolCall(call_id="mine", name="search", arguments="{}")
    shot = [
        Message(role=Role.ASSISTANT, content="", tool_calls=(call,)),
        Message(role=Role.TOOL, content="7", tool_call_id="mine"),
    ]
    messages = [*ASKED.messages, *shot]
    first, choice = ask(messages, {})
    assert choice.turn is not None
    kept = {len(messages): choice.turn}
    prompt, _ = ask([*messages, *answered(choice)], kept)
    assert (withheld(prompt), prompt.is_rendered_again) == ([], False)
    assert prompt.token_ids[: len(first.token_ids)] == first.token_ids


def test_a_user_who_speaks_again_ends_what_was_sampled() -> None:
    messages, kept = two_turns()
    _, last = ask(messages, kept)
    assert last.turn is not None
    kept[len(messages)] = last.turn
    prompt, _ = ask([*messages, *answered(last), Message(role=Role.USER, content="And now?")], kept)
    assert withheld(prompt) == [(turn, "turn_boundary") for turn in sorted(kept)]
    assert prompt.is_rendered_again


def test_without_parallel_calls_a_turn_cannot_be_kept() -> None:
    messages, kept = two_turns()
    served = completions(policy(TURNS), remembered_tokens=0)
    wanted = request(messages[:4], ASKED.tools, sampled_turns={2: kept[2]}, has_parallel_calls=False)
    _, (choice,) = prompt_and_choices(run_in_virtual_time(events_of(served, wanted)))
    assert len(choice.tool_calls) == 1
    assert choice.turn is None, "it called twice, and the client knows of one"
