"""How a served model says a turn: what is waited for, what fills the context, and who is blamed for the rest."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from rft.core.chat_spec import ChatSpec
from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.core.messages import Message, Role, ToolCall, ToolSchema
from rft.core.spec import Budgets
from rft.platform.api.errors import ApiError, BadRequest, NotFound, Unavailable
from rft.platform.serving.served_model import ServedModel
from rft.platform.serving.served_policy import ServedPolicy
from rft.rollouts.chat_policy import (
    UNKEPT_FORMAT,
    UNUSABLE_MODEL,
    ChatFinish,
    ChatRequest,
    ChatSampling,
    ChatTurn,
    ChatUsage,
)
from rft.serving_wire.records import AdapterRef, Choice, CompletionRequest, Done, Event, Prompt
from rft.testing.samplers_time import run_in_virtual_time

CALL = ToolCall(call_id="call_1", name="search", arguments="{}")
BUDGETS = Budgets(max_reasoning_tokens=3)
REQUEST = ChatRequest(
    messages=(Message(role=Role.USER, content="How much?"),),
    tools=(ToolSchema(name="search", parameters={"type": "object"}),),
    sampling=ChatSampling(temperature=0.0, max_tokens=9, seed=5, reasoning_effort="xhigh", budgets=BUDGETS),
    trace_id="trace_1",
)
PROMPT = Prompt(prompt_tokens=7, remembered_tokens=3, is_rendered_again=False, token_ids=(1,) * 7)
CHOICE = Choice(
    index=0,
    finish_reason="tool_calls",
    content="Let me look.",
    reasoning="where?",
    tool_calls=(CALL,),
    completion_tokens=5,
    reasoning_tokens=2,
    token_ids=(2,) * 5,
)


class Process:
    """Answers requests with these events or refusals, one after the other; the last for ever."""

    def __init__(self, *answers: list[Event] | ApiError) -> None:
        self.answers, self.asked = [*answers], list[CompletionRequest]()

    async def tell(self, request: CompletionRequest) -> AsyncGenerator[Event]:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ApiError):
            raise answer
        for event in answer:
            yield event


def complete(process: Process, *, wait_s: float = 600.0) -> tuple[ChatTurn | Failure, float]:
    adapter = AdapterRef(directory="/checkpoint")
    policy = ServedPolicy("ft:x", ServedModel("/base", ChatSpec(), adapter), process.tell, wait_s=wait_s)

    async def timed() -> tuple[ChatTurn | Failure, float]:
        clock: Callable[[], float] = asyncio.get_running_loop().time
        started_s = clock()
        return await policy.complete(REQUEST), clock() - started_s

    return run_in_virtual_time(timed())


def test_a_turn_is_what_the_process_tells() -> None:
    process = Process([PROMPT, CHOICE, Done()])
    said, _ = complete(process)
    assert said == ChatTurn(
        "Let me look.",
        ChatFinish.STOP,
        reasoning="where?",
        tool_calls=(CALL,),
        usage=ChatUsage(prompt_tokens=7, cached_tokens=3, completion_tokens=5, reasoning_tokens=2),
        model="ft:x",
    )
    (asked,) = process.asked
    assert (asked.model, asked.adapter, asked.n) == ("ft:x", AdapterRef(directory="/checkpoint"), 1)
    assert (asked.messages, asked.tools) == (REQUEST.messages, REQUEST.tools)
    assert (asked.temperature, asked.max_tokens, asked.seed, asked.reasoning_effort) == (0.0, 9, 5, "high")
    assert asked.budgets == BUDGETS


def test_a_cut_turn_says_so() -> None:
    said, _ = complete(Process([PROMPT, CHOICE.model_copy(update={"finish_reason": "length"}), Done()]))
    assert isinstance(said, ChatTurn)
    assert said.finish_reason is ChatFinish.LENGTH


def busy(retry_after_s: float | None = 30.0) -> Unavailable:
    return Unavailable("The model cannot answer now: no memory.", code="not_enough_memory", retry_after_s=retry_after_s)


def test_a_model_that_cannot_answer_yet_is_waited_for() -> None:
    said, took_s = complete(Process(busy(), busy(None), [PROMPT, CHOICE, Done()]))
    assert isinstance(said, ChatTurn)
    assert said.attempts == 3
    assert took_s == pytest.approx(31.0)


def test_the_wait_has_an_end_and_is_blamed_on_us() -> None:
    said, took_s = complete(Process(busy()), wait_s=100.0)
    assert isinstance(said, Failure)
    assert (said.stage, said.code, said.fault) == (Stage.SAMPLER, FailureCode.SAMPLER_ERROR, Fault.PLATFORM)
    assert "no memory" in said.message
    assert took_s == pytest.approx(90.0)


def test_a_conversation_beyond_the_context_is_no_failure() -> None:
    refusal = BadRequest("too long", param="messages", code="context_length_exceeded")
    said, _ = complete(Process(refusal))
    assert isinstance(said, ChatTurn)
    assert (said.finish_reason, said.content, said.tool_calls) == (ChatFinish.CONTEXT_FULL, "", ())


@pytest.mark.parametrize(
    ("refusal", "code", "detail"),
    [
        (NotFound("no longer kept", param="model", code="model_not_found"), FailureCode.REJECTED, UNUSABLE_MODEL),
        (BadRequest("cannot chat", param="model", code="unusable_model"), FailureCode.REJECTED, UNUSABLE_MODEL),
        (BadRequest("not kept", param="response_format", code="invalid_value"), FailureCode.REJECTED, UNKEPT_FORMAT),
        (BadRequest("template", param="messages", code="invalid_value"), FailureCode.REJECTED, None),
        (ApiError("engine died", code="sampler_error"), FailureCode.SAMPLER_ERROR, None),
    ],
)
def test_other_refusals_are_failures_at_once(refusal: ApiError, code: FailureCode, detail: str | None) -> None:
    process = Process(refusal)
    said, _ = complete(process)
    assert isinstance(said, Failure)
    assert (said.stage, said.code, said.detail, said.message) == (Stage.SAMPLER, code, detail, refusal.message)
    assert len(process.asked) == 1


def test_a_process_that_ends_without_an_answer_gives_no_turn() -> None:
    said, _ = complete(Process([PROMPT, Done()]))
    assert isinstance(said, Failure)
    assert said.fault is Fault.PLATFORM
