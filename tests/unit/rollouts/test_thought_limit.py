"""A thought that is too long is closed by tokens that nobody sampled, and the turn goes on."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from rft.chat.hermes import HermesChatFormat
from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.messages import Role
from rft.core.rollout import Rollout, RolloutKey, StopReason
from rft.core.spec import Budgets
from rft.rollouts.loop import run_rollout
from rft.rollouts.sampler import SampleRequest
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import ScriptedSampler
from rft.testing.samplers_time import run_in_virtual_time
from rft.testing.samplers_tokenizer import ByteTokenizer

MakeSetup = Callable[..., RolloutSetup]
OPENED = "<|im_start|>assistant\n"
CLOSING = "</think>\n\n"
ANSWER = "The answer is 4."
THOUGHT = "<think>" + "hm, " * 20 + "</think>" + ANSWER


class Writer(ScriptedSampler):
    """Goes on with one text; behind a thought that was closed for it, it answers."""

    def __init__(self, text: str, max_context_tokens: int = 8192) -> None:
        super().__init__(ByteTokenizer(), self._go_on, max_context_tokens=max_context_tokens)
        self.text, self.asked = text, list[SampleRequest]()

    def _go_on(self, request: SampleRequest, prompt: str) -> str:
        self.asked.append(request)
        written = prompt.rpartition(OPENED)[2]
        return self.text[len(written) :] if self.text.startswith(written) else ANSWER


def run(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, sampler: Writer, **budgets: int) -> Rollout:
    return run_in_virtual_time(run_rollout(row, key, make_setup(sampler, budgets=Budgets(**budgets))))


def test_it_is_closed_at_the_limit_and_the_answer_follows(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    sampler = Writer(THOUGHT)
    rollout = run(row, key, make_setup, sampler, max_reasoning_tokens=10)
    assert sampler.asked[0].max_tokens == len("<think>") + 10
    said = rollout.messages[-1]
    assert (said.role, said.reasoning_content, said.content) == (Role.ASSISTANT, "hm, hm, hm", ANSWER)
    thought, closing, answer = rollout.trace.spans
    assert (any(closing.mask_T), set(closing.logprobs_T)) == (False, {0.0})
    assert bytes(token - 7 for token in closing.token_ids_T).decode() == CLOSING
    assert all(thought.mask_T)
    assert all(answer.mask_T)
    [turn] = rollout.trace.turns
    assert turn.reasoning_tokens == 10
    assert turn.completion_tokens == rollout.trace.sampled_tokens == len("<think>") + 10 + len(ANSWER) + 1
    assert rollout.stop_reason is StopReason.COMPLETED
    assert len({request.seed for request in sampler.asked}) == 2


@pytest.mark.parametrize("limit", [len("hm, ") * 20, 1000])
def test_one_that_ends_in_time_is_left_alone(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, limit: int
) -> None:
    limited = run(row, key, make_setup, Writer(THOUGHT), max_reasoning_tokens=limit)
    free = run(row, key, make_setup, Writer(THOUGHT))
    assert limited.trace.token_ids == free.trace.token_ids or limit < 1000
    assert limited.messages[-1].content == free.messages[-1].content == ANSWER
    assert limited.messages[-1].reasoning_content == free.messages[-1].reasoning_content


def test_an_answer_longer_than_the_limit_is_no_thought(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    text = "<think>4</think>" + ANSWER * 5
    rollout = run(row, key, make_setup, Writer(text), max_reasoning_tokens=20)
    assert rollout.messages[-1].content == ANSWER * 5
    assert all(all(span.mask_T) for span in rollout.trace.spans), "nothing was put in between"
    assert rollout.trace.turns[0].raw_text == text


def test_no_room_behind_the_thought_ends_the_rollout(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    used_up = run(row, key, make_setup, Writer(THOUGHT), max_reasoning_tokens=10, max_tokens=len("<think>") + 10)
    assert used_up.stop_reason is StopReason.MAX_TOKENS
    prompt = len(used_up.trace.prompt_ids)
    room = prompt + len("<think>") + 10 + len(CLOSING)
    full = run(row, key, make_setup, Writer(THOUGHT, max_context_tokens=room), max_reasoning_tokens=10)
    assert full.stop_reason is StopReason.CONTEXT_FULL
    assert len(full.trace.spans) == 1
    one_more = run(row, key, make_setup, Writer(THOUGHT, max_context_tokens=room + 1), max_reasoning_tokens=10)
    assert len(one_more.trace.spans) == 3


class OpensThoughts(ByteTokenizer):
    """Its template begins each of the policy's turns with a thought, as those of Qwen3.5 and Nemotron 3 do."""

    def render(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject], *, add_generation_prompt: bool
    ) -> str:
        """As the parent."""
        rendered = super().render(messages, tools, add_generation_prompt=add_generation_prompt)
        return rendered + ("<think>\n" if add_generation_prompt else "")


def test_a_thought_that_the_prompt_opened_and_the_budget_cut_is_no_answer(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    setup = make_setup(Writer(THOUGHT), budgets=Budgets(max_tokens=12))
    setup = replace(setup, chat_format=HermesChatFormat(OpensThoughts()))
    rollout = run_in_virtual_time(run_rollout(row, key, setup))
    said = rollout.messages[-1]
    assert (rollout.stop_reason, said.reasoning_content, said.content) == (StopReason.MAX_TOKENS, ANSWER[:12], "")
    assert rollout.trace.turns[0].reasoning_tokens == 12


def test_tokens_are_counted_as_they_were_sampled(chat_format: HermesChatFormat) -> None:
    """Half of a character is a token, too; white space between the marks belongs to the thought."""
    ids = chat_format.tokenizer.encode("<think>\nné\n</think>ok")
    assert chat_format.parse(ids, call_id_seed=0).reasoning_tokens == len("\nné\n".encode())
