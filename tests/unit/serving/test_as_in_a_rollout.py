"""A customer's own loop over chat completions has the token ids of the platform's rollout that went the same way."""

import json
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from rft.core.dataset import DatasetRow, parse_row
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import ToolCall, unknown_tool_output
from rft.core.rollout import Rollout, RolloutKey, Split, StopReason
from rft.core.spec import Budgets
from rft.rollouts.loop import run_rollout
from rft.rollouts.sampler import SampleRequest
from rft.rollouts.setup import RolloutSetup
from rft.serving_wire.records import Choice, Prompt
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from tests.shared.examples import examples
from tests.unit.serving.conversing import (
    CHAT_FORMAT,
    TOKENIZER,
    completions,
    converse,
    events_of,
    prompt_and_choices,
    request,
)

KEY = RolloutKey(job_id="ftjob-1", job_seed=1, split=Split.VALID, step=1, epoch=0, row_index=0, index=0)
LINE = (
    '{"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Go."}], "tools":'
    ' [{"type": "function", "function": {"name": "search"}}]}'
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00<"), max_size=12)
thoughts = st.one_of(st.just(""), texts.map(lambda text: f"<think>{text}</think>\n"))
calls = st.one_of(
    st.integers(-9, 9).map(lambda value: tool_call_text("search", f'{{"q":   {value}}}')),
    st.sampled_from(('{"z": 1.0, "a": "\\u00fc"}', '{"q": [2.50, 1e3, null]}')).map(
        lambda arguments: tool_call_text("search", arguments)
    ),
    st.just("<tool_call>{broken</tool_call>"),
)
tool_turns = st.tuples(thoughts, texts, st.lists(calls, min_size=1, max_size=3)).map(
    lambda turn: turn[0] + turn[1] + "".join(turn[2])
)
answers = st.tuples(thoughts, texts).map("".join)


def policy(turns: list[str]) -> ScriptedSampler:
    """Writes one turn after the other, whoever asks: which one follows from the prompt."""

    def script(_: SampleRequest, prompt: str) -> str:
        return turns[min(prompt.count("<|im_start|>assistant") - 1, len(turns) - 1)]

    return ScriptedSampler(TOKENIZER, script, max_context_tokens=100_000)


def row() -> DatasetRow:
    parsed = parse_row(LINE, line_number=1, index=0)
    assert isinstance(parsed, DatasetRow)
    return parsed


def rollout(turns: list[str], answer: Callable[[ToolCall], str], max_tokens: int = 100_000) -> Rollout:
    """The platform's own."""

    async def tool(call: ToolCall, trace_id: str) -> str:
        return answer(call)

    async def grade(trace: FinishedTrace, trace_id: str) -> float:
        return 1.0

    setup = RolloutSetup(
        sampler=policy(turns),
        chat_format=CHAT_FORMAT,
        tools=FunctionTools(tool),
        grader=FunctionGrader(grade),
        grader_name="grader",
        budgets=Budgets(max_tokens=max_tokens),
        temperature=0.0,
        model_name="m",
        clock=virtual_clock,
    )
    return run_in_virtual_time(run_rollout(row(), KEY, setup))


def conversation(
    turns: list[str],
    answer: Callable[[ToolCall], str],
    remembered_tokens: int = 1_000_000,
    *,
    keeps_turns: bool = False,
    respelled: Callable[[str], str] = str,
) -> list[tuple[Prompt, Choice]]:
    """The customer's."""
    asked = row()
    served = completions(policy(turns), remembered_tokens=remembered_tokens)
    return run_in_virtual_time(
        converse(served, asked.messages, asked.tools, answer, keeps_turns=keeps_turns, respelled=respelled)
    )


def echo(call: ToolCall) -> str:
    return f"{call.arguments} gives <tool_response> or so"


def as_javascript_writes(arguments: str) -> str:
    """As clients do that read a call's arguments, and write them anew when they send it back."""
    value = json.loads(
        arguments, parse_float=lambda text: int(float(text)) if float(text).is_integer() else float(text)
    )
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@settings(max_examples=examples(150))
@given(
    turns=st.lists(tool_turns, max_size=4),
    last=answers,
    is_remembered=st.booleans(),
    respelled=st.sampled_from((str, as_javascript_writes)),
)
def test_token_ids_are_those_of_the_rollout(
    turns: list[str], last: str, is_remembered: bool, respelled: Callable[[str], str]
) -> None:
    """Remembered by the process, or kept by a client of one that remembers nothing."""
    own, kept_tokens = rollout([*turns, last], echo), 1_000_000 if is_remembered else 0
    seen = conversation([*turns, last], echo, kept_tokens, keeps_turns=not is_remembered, respelled=respelled)
    assert own.stop_reason is StopReason.COMPLETED
    prompt, choice = seen[-1]
    assert [*prompt.token_ids, *choice.token_ids] == own.trace.token_ids
    assert sum(choice.completion_tokens for _, choice in seen) == own.trace.sampled_tokens
    assert not any(prompt.is_rendered_again for prompt, _ in seen)
    assert choice.content.endswith(own.trace.turns[-1].content)


def test_what_is_forgotten_is_rendered_again_and_counted() -> None:
    turns = [f"<think>hm</think>\n{tool_call_text('search', '{}')}", "Done."]
    kept, forgotten = conversation(turns, echo), conversation(turns, echo, remembered_tokens=0)
    assert [prompt.is_rendered_again for prompt, _ in kept] == [False, False]
    assert [prompt.is_rendered_again for prompt, _ in forgotten] == [False, True]
    assert kept[1][0].remembered_tokens == len(kept[0][0].token_ids) + kept[0][1].completion_tokens
    assert forgotten[1][0].remembered_tokens == 0
    assert "hm" in TOKENIZER.decode(kept[1][0].token_ids)
    assert "hm" not in TOKENIZER.decode(forgotten[1][0].token_ids), "thoughts are in no message"


def test_calls_that_cannot_be_read_are_answered_as_in_a_rollout_and_never_reach_the_client() -> None:
    turns = ["<tool_call>{broken</tool_call>" + tool_call_text("search", "{}"), "<tool_call>no", "Done."]
    seen = conversation(turns, echo)
    assert [[call.name for call in choice.tool_calls] for _, choice in seen] == [["search"], []]
    assert seen[-1][1].content == "Done."
    text = TOKENIZER.decode([*seen[-1][0].token_ids, *seen[-1][1].token_ids])
    assert text.count(CHAT_FORMAT.unreadable_call_output) == 2


def test_calls_of_tools_that_the_client_did_not_offer_are_answered_as_in_a_rollout_and_never_reach_it() -> None:
    """As of a tool that `allowed_tools` leaves out: who dispatches by name would run it."""
    turns = [tool_call_text("drop", "{}"), tool_call_text("drop", "{}") + tool_call_text("search", "{}"), "Done."]
    seen = conversation(turns, echo)
    assert [[call.name for call in choice.tool_calls] for _, choice in seen] == [["search"], []]
    assert seen[-1][1].content == "Done."
    text = TOKENIZER.decode([*seen[-1][0].token_ids, *seen[-1][1].token_ids])
    assert text.count("Error: There is no tool named 'drop'. Tools: search.") == 2

    def as_a_gateway(call: ToolCall) -> str:
        return echo(call) if call.name == "search" else unknown_tool_output(call.name, row().tools)

    assert [*seen[-1][0].token_ids, *seen[-1][1].token_ids] == rollout(turns, as_a_gateway).trace.token_ids


def test_the_length_asked_for_holds_what_is_sampled_as_in_a_rollout() -> None:
    """Not the answer of ours to a call that cannot be read, which has more tokens here than may be sampled."""
    turns, most = ["<tool_call>{x</tool_call>", "Done."], 60
    assert len(TOKENIZER.encode(CHAT_FORMAT.unreadable_call_output)) > most
    own = rollout(turns, echo, most)
    asked = request(row().messages, row().tools, max_tokens=most)
    _, (choice,) = prompt_and_choices(run_in_virtual_time(events_of(completions(policy(turns)), asked)))
    assert (own.stop_reason, own.trace.turns[-1].content) == (StopReason.COMPLETED, "Done.")
    assert (choice.finish_reason, choice.content) == ("stop", "Done.")
    assert choice.completion_tokens == own.trace.sampled_tokens
