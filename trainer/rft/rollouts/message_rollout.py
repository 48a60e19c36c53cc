"""One rollout of messages: chat turn -> tool calls -> ... -> answer -> grade, with any model that can be chatted with.

The same tools, budgets, deadline and blame as `rft.rollouts.loop`. What comes of it has no tokens, and its type is none
that training takes: it measures and compares.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.ids import seed_63
from rft.core.messages import UNREADABLE_CALL_OUTPUT, Message, Role, ToolCall, ToolResult
from rft.core.rollout import StopReason
from rft.core.turns import Turn
from rft.rollouts.call_ids import to_shown, to_wire
from rft.rollouts.chat_policy import ChatFinish, ChatPolicy, ChatRequest, ChatSampling, ChatTurn, ChatUsage
from rft.rollouts.setup import SharedSetup
from rft.rollouts.staged_rollout import StagedRollout
from rft.rollouts.tool_calls import BrokenOff, ToolCalls

_CHARS_PER_TOKEN = 4
"""What a token is taken for where the server does not count them: budgets must end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSetup(SharedSetup):
    """What all rollouts of messages share. Without a grader they end ungraded."""

    policy: ChatPolicy
    sampling: ChatSampling = field(default_factory=ChatSampling)
    """`max_tokens` is one turn's, beside the rollout's own budget; each turn gets a seed of its own from `seed`."""
    on_said: Callable[[ChatTurn, Sequence[ToolCall]], None] | None = None
    """Told of each turn, with its calls as tools get them, before they are made."""
    on_results: Callable[[Sequence[ToolResult]], None] | None = None
    """Told of a turn's results, once all of them are there."""


@dataclass(frozen=True, slots=True)
class MessageRollout:
    """The finished rollout. It has no token ids: nothing of it can be trained on."""

    row_index: int
    trace_id: str
    """The public id, the same on every tool call and the grade."""
    messages: tuple[Message, ...]
    """The whole conversation: prompt, turns, tool outputs."""
    turns: tuple[Turn, ...]
    """What the model said, with the results of its calls."""
    stop_reason: StopReason | None
    """None exactly when the outcome is a failure that broke the conversation off."""
    outcome: Grade | Failure | None
    """None where there was no grader, and nothing failed."""
    usage: ChatUsage
    """Of its turns, and of answers that held none: they were paid for, too."""
    turns_without_usage: int
    """Turns, and answers that held none, whose tokens are in no figure: the server did not tell them."""
    answers_without_turn: int
    """The model was asked again after them, or failed."""
    models: tuple[str, ...]
    """Which models say that they answered, each once."""
    duration_s: float
    sampling_s: float
    tools_s: float
    grading_s: float

    @property
    def reward(self) -> float | None:
        """None means unscorable or unscored, never zero."""
        return self.outcome.reward if isinstance(self.outcome, Grade) else None

    @property
    def tool_calls(self) -> int:
        """How many the model made, whatever came of them."""
        return sum(len(turn.tool_calls) for turn in self.turns)


async def run_message_rollout(row: DatasetRow, setup: MessageSetup) -> MessageRollout:
    """One rollout of one row: graded, failed or, without a grader, ended. Never raises but for cancellation."""
    conversation = MessageConversation(row=row, trace_id=setup.draw_trace_id(), setup=setup)
    started_s = setup.clock()

    async def work() -> Grade | Failure | None:
        await conversation.notify_started()
        conversation.stop_reason = await conversation.converse()
        return None if setup.grader is None else await conversation.grade()

    outcome: Grade | Failure | None = None
    try:
        outcome = await conversation.outcome_of(work)
    finally:
        conversation.notify_ended(outcome)
    return conversation.ended(outcome, duration_s=setup.clock() - started_s)


@dataclass(slots=True, kw_only=True)
class MessageConversation(StagedRollout[MessageSetup]):
    """One rollout of messages from its first turn to its end."""

    turns: list[Turn] = field(default_factory=list[Turn])
    shown: list[Message] = field(default_factory=list[Message])
    """The messages as the policy gets them: with its own ids of its calls."""
    usage: ChatUsage = field(default_factory=ChatUsage)
    turns_without_usage: int = 0
    answers_without_turn: int = 0
    models: dict[str, None] = field(default_factory=dict[str, None])

    def __post_init__(self) -> None:
        setup = self.setup
        self.messages.extend(self.row.messages)
        self.shown.extend(self.row.messages)
        self.calls = ToolCalls(
            setup.tools,
            self.row,
            self.trace_id,
            setup.budgets.max_tool_calls,
            _not_counted,
            UNREADABLE_CALL_OUTPUT,
        )

    async def converse(self) -> StopReason:
        """Turns until one is the last. Raises BrokenOff."""
        while True:
            if len(self.turns) >= self.setup.budgets.max_turns:
                return StopReason.MAX_TURNS
            if self._tokens_left() < 1:
                return StopReason.MAX_TOKENS
            said = await self._next_turn()
            stop_reason = self._end_after(said)
            if stop_reason is not None:
                return stop_reason
            await self._answer_calls(said)

    async def _next_turn(self) -> ChatTurn:
        """The turn, recorded; its tool results are added when they are there. Raises BrokenOff."""
        number, before_s = len(self.turns), self.spent_s[Stage.SAMPLER]
        request = ChatRequest(
            messages=tuple(self.shown),
            tools=self.row.tools,
            sampling=self._sampling(number),
            trace_id=self.trace_id,
            turn=number,
            on_no_turn=self._count_no_turn,
        )
        with self.held_by(Stage.SAMPLER):
            said = await self.setup.policy.complete(request)
            if isinstance(said, Failure):
                raise BrokenOff(said)
        self._count(said)
        if said.finish_reason is not ChatFinish.CONTEXT_FULL:
            self._record(said, sampling_s=self.spent_s[Stage.SAMPLER] - before_s)
        return said

    def _sampling(self, turn: int) -> ChatSampling:
        wanted, left = self.setup.sampling, self._tokens_left()
        return replace(
            wanted,
            max_tokens=left if wanted.max_tokens is None else min(left, wanted.max_tokens),
            seed=None if wanted.seed is None else seed_63(wanted.seed, turn),
        )

    def _tokens_left(self) -> int:
        return self.setup.budgets.max_tokens - sum(turn.completion_tokens for turn in self.turns)

    def _count(self, said: ChatTurn) -> None:
        self._count_tokens(said.usage)
        if said.model:
            self.models[said.model] = None

    def _count_no_turn(self, usage: ChatUsage | None) -> None:
        self.answers_without_turn += 1
        self._count_tokens(usage)

    def _count_tokens(self, usage: ChatUsage | None) -> None:
        if usage is None:
            self.turns_without_usage += 1
        else:
            self.usage += usage

    def _record(self, said: ChatTurn, *, sampling_s: float) -> None:
        calls = to_wire(said.tool_calls, trace_id=self.trace_id, turn=len(self.turns))
        self.turns.append(
            Turn(
                content=said.content,
                raw_text=said.content,
                tool_calls=calls,
                results=(),
                completion_tokens=_tokens_of(said),
                sampling_s=sampling_s,
                tools_s=0.0,
                reasoning_tokens=0 if said.usage is None else said.usage.reasoning_tokens,
            )
        )
        message = Message(role=Role.ASSISTANT, content=said.content, reasoning_content=said.reasoning, tool_calls=calls)
        self.messages.append(message)
        self.shown.append(message.model_copy(update={"tool_calls": said.tool_calls}))
        if self.setup.on_said is not None:
            self.setup.on_said(said, calls)

    def _end_after(self, said: ChatTurn) -> StopReason | None:
        """Whether the turn just said is the last, and why."""
        match said.finish_reason:
            case ChatFinish.CONTEXT_FULL:
                return StopReason.CONTEXT_FULL
            case ChatFinish.LENGTH:
                # Never executed, even if a whole call stands in it: nobody knows what the model was about to add.
                return StopReason.MAX_TOKENS if self._is_cut_by_us(said) else StopReason.CONTEXT_FULL
            case ChatFinish.STOP:
                pass
        return self.end_after_calls() if said.tool_calls else StopReason.COMPLETED

    def _is_cut_by_us(self, said: ChatTurn) -> bool:
        if said.usage is None:
            return True
        per_turn = self.setup.sampling.max_tokens
        return self._tokens_left() < 1 or (per_turn is not None and said.usage.completion_tokens >= per_turn)

    async def _answer_calls(self, said: ChatTurn) -> None:
        """Raises BrokenOff."""
        before_s = self.spent_s[Stage.TOOL]
        results = await self.run_calls(self.turns[-1].tool_calls)
        if self.setup.on_results is not None:
            self.setup.on_results(results)
        self.turns[-1] = replace(self.turns[-1], results=results, tools_s=self.spent_s[Stage.TOOL] - before_s)
        self.shown.extend(
            Message(role=Role.TOOL, content=result.output or "", tool_call_id=result.call_id, name=result.name)
            for result in to_shown(results, said.tool_calls)
        )

    def sampler_out_of_time(self, deadline: str) -> Failure:
        """A provider's, or ours where the model is."""
        provider = self.setup.policy.provider
        if self.holder is Stage.SAMPLER and provider is not None:
            text = f"{deadline} while provider {provider!r} held it."
            return self.failure(FailureCode.DEADLINE_EXCEEDED, text, endpoint=provider)
        return self.failure(FailureCode.PLATFORM_DEADLINE, f"{deadline} while the model's server held it.")

    def ended(self, outcome: Grade | Failure | None, *, duration_s: float) -> MessageRollout:
        """The finished rollout."""
        return MessageRollout(
            row_index=self.row.index,
            trace_id=self.trace_id,
            messages=tuple(self.messages),
            turns=tuple(self.turns),
            stop_reason=self.stop_reason,
            outcome=outcome,
            usage=self.usage,
            turns_without_usage=self.turns_without_usage,
            answers_without_turn=self.answers_without_turn,
            models=tuple(self.models),
            duration_s=duration_s,
            sampling_s=self.spent_s[Stage.SAMPLER],
            tools_s=self.spent_s[Stage.TOOL],
            grading_s=self.spent_s[Stage.GRADER],
        )


def _not_counted(output: str) -> int:
    """Nobody knows the tokens of a model that is reached as a chat."""
    del output
    return 0


def _tokens_of(said: ChatTurn) -> int:
    """What the turn takes of the rollout's budget."""
    if said.usage is not None:
        return said.usage.completion_tokens
    chars = len(said.content) + len(said.reasoning) + sum(len(call.arguments) for call in said.tool_calls)
    return max(1, chars // _CHARS_PER_TOKEN)
