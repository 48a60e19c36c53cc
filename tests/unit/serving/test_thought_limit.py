"""Thoughts are kept to the limit of the training, as in its rollouts."""

from pathlib import Path

import pytest

from rft.chat.template_format import TemplateChatFormat
from rft.core.dataset import DatasetRow
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout
from rft.core.spec import Budgets
from rft.rollouts.loop import run_rollout
from rft.rollouts.sampler import Sample, SampleRequest
from rft.rollouts.setup import RolloutSetup
from rft.serving.thoughts import thought_limit
from rft.serving_wire.records import AdapterRef, CompletionRequest
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from tests.unit.chat.models import opened
from tests.unit.serving.conversing import (
    CHAT_FORMAT,
    TOKENIZER,
    completions,
    converse,
    events_of,
    prompt_and_choices,
    request,
    told_text,
)
from tests.unit.serving.test_as_in_a_rollout import KEY, row

LIMITED = Budgets(max_reasoning_tokens=5)
ASKED: DatasetRow = row()


class Thinks(ScriptedSampler):
    """Fifty letters before every turn; behind a thought that was closed for it, it goes on. Tells its tokens."""

    def __init__(self) -> None:
        super().__init__(TOKENIZER, self._go_on, max_context_tokens=100_000)

    def _go_on(self, request: SampleRequest, prompt: str) -> str:
        del request
        turn = tool_call_text("search", "{}") if prompt.count("<|im_start|>assistant") < 2 else "Done."
        thought = f"<think>{'m' * 50}</think>\n\n"
        return turn if prompt.endswith("</think>\n\n") else thought + turn

    async def sample(self, request: SampleRequest) -> Sample:
        sample = await super().sample(request)
        if request.progress.on_tokens is not None:
            request.progress.on_tokens(sample.token_ids, sample.logprobs)
        return sample


async def output(call: ToolCall, trace_id: str = "") -> str:
    del call, trace_id
    return "7"


def rollout(budgets: Budgets) -> Rollout:
    async def grade(trace: FinishedTrace, trace_id: str) -> float:
        del trace, trace_id
        return 1.0

    setup = RolloutSetup(
        sampler=Thinks(),
        chat_format=CHAT_FORMAT,
        tools=FunctionTools(output),
        grader=FunctionGrader(grade),
        grader_name="grader",
        budgets=budgets,
        temperature=0.0,
        model_name="m",
        clock=virtual_clock,
    )
    return run_in_virtual_time(run_rollout(ASKED, KEY, setup))


@pytest.mark.parametrize("is_remembered", [True, False])
def test_token_ids_are_those_of_a_rollout_whose_thoughts_are_closed(is_remembered: bool) -> None:
    own = rollout(LIMITED)
    served = completions(Thinks(), remembered_tokens=100_000 if is_remembered else 0)
    seen = run_in_virtual_time(
        converse(served, ASKED.messages, ASKED.tools, lambda _: "7", keeps_turns=not is_remembered, budgets=LIMITED)
    )
    prompt, choice = seen[-1]
    assert [*prompt.token_ids, *choice.token_ids] == own.trace.token_ids
    assert sum(choice.completion_tokens for _, choice in seen) == own.trace.sampled_tokens
    assert [(choice.reasoning, choice.reasoning_tokens) for _, choice in seen] == [("mmmmm", 5)] * 2
    assert choice.content == "Done."


def test_what_is_streamed_is_the_answer_behind_the_thought() -> None:
    wanted = request(ASKED.messages, is_streamed=True, budgets=LIMITED).model_copy(update={"has_logprobs": True})
    events = run_in_virtual_time(events_of(completions(Thinks()), wanted))
    _, (choice,) = prompt_and_choices(events)
    assert told_text(events) == choice.content
    assert len(choice.tokens) == choice.completion_tokens < len(choice.token_ids)


def test_no_room_is_left_behind_a_thought_that_takes_all_tokens() -> None:
    taken = len("<think>") + 5
    wanted = request(ASKED.messages, max_tokens=taken, budgets=LIMITED)
    _, (choice,) = prompt_and_choices(run_in_virtual_time(events_of(completions(Thinks()), wanted)))
    assert (choice.finish_reason, choice.completion_tokens, choice.content) == ("length", taken, "")


@pytest.mark.parametrize(
    ("trained", "limit", "own", "asked", "expected"),
    [
        ("low", None, False, None, 125),
        ("low", None, False, "medium", 500),
        ("low", None, False, "high", None),
        ("low", 70, False, None, 70),
        ("low", 70, False, "low", 70),
        ("low", 70, False, "medium", 500),
        ("default", None, False, None, None),
        ("default", 70, True, "low", 70),
        ("default", None, True, "low", 125),
    ],
)
def test_the_limit_follows_from_effort_and_budgets(
    tmp_path: Path, trained: str, limit: int | None, own: bool, asked: str | None, expected: int | None
) -> None:
    """`own`: the request brings the budgets of a job, as a baseline's does, and asks the base model."""
    budgets = Budgets(max_tokens=1000, max_reasoning_tokens=limit)
    adapter = AdapterRef(directory=str(tmp_path), reasoning_effort=trained, budgets=budgets)
    brought = {"budgets": budgets} if own else {"adapter": adapter}
    wanted = request(ASKED.messages).model_copy(update={**brought, "reasoning_effort": asked})
    assert thought_limit(wanted, opened("qwen3_5_think").chat_format) == expected


def test_a_base_model_that_is_asked_for_itself_has_none() -> None:
    wanted = request(ASKED.messages).model_copy(update={"reasoning_effort": "low"})
    assert thought_limit(wanted, opened("qwen3_5_think").chat_format) is None


def test_it_is_found_once_for_all_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()

    def limit(request: CompletionRequest, chat_format: TemplateChatFormat) -> int | None:
        asked.append(request.n)
        return thought_limit(request, chat_format)

    monkeypatch.setattr("rft.serving.completions.thought_limit", limit)
    wanted = request(ASKED.messages, n=3, budgets=LIMITED)
    _, choices = prompt_and_choices(run_in_virtual_time(events_of(completions(Thinks()), wanted)))
    assert [choice.reasoning for choice in choices] == ["mmmmm"] * 3
    assert asked == [3]
