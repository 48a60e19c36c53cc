"""The state of one rollout on its way: who holds it, what it has used up, and how it ends.

Token law: the trace is an append-only buffer. What the model wrote is never encoded again, so the next prompt always
starts with every token of the last prompt and the last sample.
"""

import asyncio
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rft.chat.chat_format import ParsedTurn
from rft.core.errors import RftError, SamplerError
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.ids import seed_63
from rft.core.messages import Message, Role, ToolResult
from rft.core.rollout import RolloutKey, Split, StopReason
from rft.core.turns import TokenSpan, Trace, Turn
from rft.rollouts.call_ids import to_shown, to_wire
from rft.rollouts.sampler import (
    FinishReason,
    Sample,
    SampleProgress,
    SampleRequest,
    check_sample,
    follow_policy,
    release_policy,
)
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.staged_rollout import StagedRollout
from rft.rollouts.thought_limit import sample_within_thought_limit
from rft.rollouts.tool_calls import BrokenOff, ToolCalls

log = logging.getLogger(__name__)

SAMPLE_TRIES = 2


@dataclass(slots=True, kw_only=True)
class Conversation(StagedRollout[RolloutSetup]):
    """One rollout of tokens from its first prompt to its end."""

    key: RolloutKey
    policy_version: int
    """The one that it began with."""
    trace: Trace = field(default_factory=lambda: Trace(prompt_ids=()))
    is_queued: bool = False
    """Its request waits for the engine to let it in."""
    cut_tokens: int = 0
    """Tokens of a sample that was broken off: in no trace, but told."""
    _turn_version: int = field(init=False)
    """What samples the turn in work."""
    _is_released: bool = False
    """The engine keeps nothing for it any more."""

    def __post_init__(self) -> None:
        setup, self._turn_version = self.setup, self.policy_version
        self.messages.extend(self.row.messages)
        self.calls = ToolCalls(
            setup.tools,
            self.row,
            self.trace_id,
            setup.budgets.max_tool_calls,
            setup.chat_format.count_tokens,
            setup.chat_format.unreadable_call_output,
        )

    async def converse(self) -> StopReason:
        """Turns until one is the last."""
        try:
            return await self._take_turns()
        finally:
            self.release_policy()

    def release_policy(self) -> None:
        """Nothing is sampled any more; idempotent."""
        if not self._is_released:
            self._is_released = True
            release_policy(self.setup.sampler, self.trace_id)

    @property
    def _follows_policy(self) -> bool:
        """An evaluation is of one version."""
        return self.setup.follows_policy and self.key.split is Split.TRAIN

    async def _take_turns(self) -> StopReason:
        chat_format = self.setup.chat_format
        self.trace = Trace(prompt_ids=self.setup.prompts.of(self.row, chat_format))
        suffix: list[int] = []
        while True:
            stop_reason = self._no_room_for_turn(suffix)
            if stop_reason is not None:
                return stop_reason
            if suffix:
                self.trace.append(TokenSpan.context(tuple(suffix)))
            sample, parsed = await self._sample_turn()
            stop_reason = self._end_after(sample, parsed)
            if stop_reason is not None:
                return stop_reason
            results = await self._run_tools()
            suffix = chat_format.suffix_ids(to_shown(results, parsed.tool_calls), sample.token_ids[-1])

    def _no_room_for_turn(self, suffix: list[int]) -> StopReason | None:
        """Why no further turn can be sampled; None when one can."""
        if len(self.trace.turns) >= self.setup.budgets.max_turns:
            return StopReason.MAX_TURNS
        if self._tokens_left() < 1:
            return StopReason.MAX_TOKENS
        if self._context_left() - len(suffix) < 1:
            return StopReason.CONTEXT_FULL
        return None

    def _tokens_left(self) -> int:
        return self.setup.budgets.max_tokens - self.trace.sampled_tokens

    def _context_left(self) -> int:
        return self.setup.sampler.max_context_tokens - len(self.trace.token_ids)

    async def _sample_turn(self) -> tuple[Sample, ParsedTurn]:
        """Sample, read and record one turn; its tool results are added when they are there."""
        if self._follows_policy:
            self._turn_version = follow_policy(self.setup.sampler, self.trace_id, self._turn_version)
        turn, context = len(self.trace.turns), self.trace.token_ids
        before_s, sampled_before = self.spent_s[Stage.SAMPLER], self.trace.sampled_tokens
        began_at = self.setup.wall_clock()
        chat_format, budgets = self.setup.chat_format, self.setup.budgets
        sample = await sample_within_thought_limit(self, chat_format, context, budgets.max_reasoning_tokens)
        token_ids = self.trace.token_ids[len(context) :]
        parsed = chat_format.parse(
            token_ids,
            call_id_seed=seed_63(self.key.seed, turn, "call ids"),
            tools=self.row.tools,
            context_ids=context,
        )
        calls = to_wire(parsed.tool_calls, trace_id=self.trace_id, turn=turn)
        self.trace.turns.append(
            Turn(
                content=parsed.content,
                raw_text=parsed.raw_text,
                tool_calls=calls,
                results=(),
                completion_tokens=self.trace.sampled_tokens - sampled_before,
                sampling_s=self.spent_s[Stage.SAMPLER] - before_s,
                tools_s=0.0,
                reasoning_tokens=parsed.reasoning_tokens,
                policy_version=self._turn_version if self._follows_policy else None,
                began_at=began_at,
            )
        )
        self.messages.append(
            Message(
                role=Role.ASSISTANT,
                content=parsed.content,
                reasoning_content=parsed.reasoning,
                tool_calls=calls,
            )
        )
        return sample, parsed

    def has_room_behind(self, token_ids: Sequence[int]) -> bool:
        """Whether the budget and the context have room for a token behind these."""
        return self._tokens_left() >= 1 and self._context_left() - len(token_ids) >= 1

    def take_unsampled(self, token_ids: Sequence[int]) -> None:
        """Append context to the trace."""
        self.trace.append(TokenSpan.context(tuple(token_ids)))

    async def sample_piece(self, *part: str, at_most: int | None = None) -> Sample:
        """All that is left of a turn, or so many tokens of it, appended to the trace. `part` names a second piece."""
        turn, room = len(self.trace.turns), min(self._tokens_left(), self._context_left())
        request = SampleRequest(
            request_id="-".join((self.trace_id, str(turn), *part)),
            prompt_ids=self.trace.token_ids,
            max_tokens=room if at_most is None else min(room, at_most),
            stop_token_ids=self.setup.chat_format.stop_token_ids,
            seed=seed_63(self.key.seed, turn, *part),
            temperature=self.setup.temperature,
            rollout_id=self.trace_id,
            group_id=f"{self.key.split}-{self.key.step}-{self.key.epoch}-{self.key.row_index}",
            policy_version=self._turn_version,
        )
        with self.held_by(Stage.SAMPLER):
            sample = await self._sample(request)
        self.trace.append(TokenSpan.sampled(sample.token_ids, sample.logprobs))
        _assert_appended(self.trace.token_ids, [*request.prompt_ids, *sample.token_ids])
        return sample

    async def _sample(self, request: SampleRequest) -> Sample:
        """One sample, tried twice. Raises BrokenOff."""
        reason = ""
        for number in range(1, SAMPLE_TRIES + 1):
            progress, self.is_queued = SampleProgress(self._queued), False
            this_one = replace(request, request_id=f"{request.request_id}-{number}", progress=progress)
            try:
                sample = await self.setup.sampler.sample(this_one)
                check_sample(sample, request)
            except asyncio.CancelledError:
                self.cut_tokens = progress.sampled_tokens
                raise
            except SamplerError as error:
                self.cut_tokens = progress.sampled_tokens
                log.warning("sampler failed on %s, attempt %d: %s", request.request_id, number, error)
                reason = str(error)
            else:
                self.cut_tokens = 0
                return sample
        raise BrokenOff(self.failure(FailureCode.SAMPLER_ERROR, f"The sampler failed: {reason}", SAMPLE_TRIES))

    @property
    def _queue_limit_s(self) -> float:
        """How long the engine's queue may stand still: what it runs ends within the deadline; twice that is a hang."""
        return 2.0 * self.setup.budgets.deadline_s

    @contextmanager
    def _queued(self) -> Generator[None]:
        """The request waits for room in the engine: that is no time of this rollout's."""
        if self.deadline is None:
            yield
            return
        self.is_queued = True
        with self.setup.deadlines.queued(self.deadline, limit_s=self._queue_limit_s):
            yield
        self.is_queued = False

    def _end_after(self, sample: Sample, parsed: ParsedTurn) -> StopReason | None:
        """Whether the turn just sampled is the last, and why."""
        if sample.finish_reason is FinishReason.LENGTH:
            # Never executed, even if a whole call stands in it: nobody knows what the model was about to add.
            return StopReason.MAX_TOKENS if self._tokens_left() < 1 else StopReason.CONTEXT_FULL
        return self.end_after_calls() if parsed.tool_calls else StopReason.COMPLETED

    async def _run_tools(self) -> tuple[ToolResult, ...]:
        """All calls of the last turn at once; their results in the order of the calls. Raises BrokenOff."""
        before_s = self.spent_s[Stage.TOOL]
        results = await self.run_calls(self.trace.turns[-1].tool_calls)
        self.trace.turns[-1] = replace(
            self.trace.turns[-1], results=results, tools_s=self.spent_s[Stage.TOOL] - before_s
        )
        return results

    def sampler_out_of_time(self, deadline: str) -> Failure:
        """Ours, always: the engine's, or its queue's."""
        if self.holder is Stage.SAMPLER and self.is_queued:
            text = f"The engine let nobody in for {self._queue_limit_s:g} s, twice the time that a rollout may take."
            return self.failure(FailureCode.PLATFORM_DEADLINE, text)
        return self.failure(FailureCode.PLATFORM_DEADLINE, f"{deadline} while the sampler held it.")


def _assert_appended(buffer: list[int], expected: list[int]) -> None:
    if buffer != expected:
        raise RftError("the token law is broken: the buffer is not the last prompt and the last sample")
