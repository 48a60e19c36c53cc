"""One choice of a completion: turns of the policy until one has something to say to the client."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Literal

from rft.chat.chat_format import ParsedTurn
from rft.chat.template_format import TemplateChatFormat
from rft.core.errors import SamplerError
from rft.core.ids import public_id, seed_63
from rft.core.messages import Message, Role, ToolCall
from rft.rollouts.sampler import FinishReason, Sampler
from rft.rollouts.thought_limit import sample_within_thought_limit
from rft.serving.choice_tokens import ChoiceTokens
from rft.serving.forced_calls import ForcedCalls, HeldCall
from rft.serving.formats import AnswersInFormat
from rft.serving.prompts import Conversation, ReadPrompt, answer_of_ours
from rft.serving.remembered import RememberedConversations, RememberedTurn, prompt_digest, said_digest
from rft.serving_wire.records import Choice, CompletionRequest, SampledToken, SampledTurn, Text

_MOST_TURNS = 8
"""A policy that writes no call which its client can make is answered so often."""


@dataclass(slots=True)
class ChoiceRun:
    """Samples one choice. Cancelled, it frees the engine."""

    request: CompletionRequest
    index: int
    chat_format: TemplateChatFormat
    sampler: Sampler
    policy_version: int
    conversation: Conversation
    prompt: ReadPrompt
    remembered: RememberedConversations
    tell: Callable[[Text], None]
    max_reasoning_tokens: int | None = None
    """Of one turn, as in `Budgets`."""
    held_to: AnswersInFormat | ForcedCalls | None = None
    """What an answer, or a turn, has to be; None: any."""
    _tokens: ChoiceTokens = field(init=False)
    _turn: int = 0
    """The one in work."""
    _content: list[str] = field(default_factory=list[str])
    _reasoning: list[str] = field(default_factory=list[str])
    _reasoning_tokens: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self._tokens = ChoiceTokens(
            self.request,
            self.index,
            self.chat_format,
            self.sampler,
            self.policy_version,
            self.prompt.token_ids,
            self._tell,
            self._is_told_at_once,
            self.held_to.cannot_begin if isinstance(self.held_to, AnswersInFormat) and not self.request.tools else None,
        )

    async def run(self) -> Choice:
        """The complete choice. Raises SamplerError."""
        tokens = self._tokens
        for self._turn in range(_MOST_TURNS):
            tokens.begin_turn()
            context = tokens.context
            sample = await sample_within_thought_limit(tokens, self.chat_format, context, self.max_reasoning_tokens)
            parsed = self._read_turn()
            self._take(parsed)
            is_cut = sample.finish_reason is FinishReason.LENGTH
            if isinstance(self.held_to, ForcedCalls):
                return await self._keep_to_calls(self.held_to, parsed, is_cut=is_cut)
            if tokens.text.is_stopped:
                return self._choice("stop", ())
            if is_cut or not parsed.tool_calls or not self.request.tools:  # Of tools that nobody has: left out.
                return self._choice(await self._keep_to_format(parsed, is_cut=is_cut), ())
            if any(map(self._is_known, parsed.tool_calls)) or self._turn + 1 == _MOST_TURNS:
                return self._with_calls(parsed.tool_calls)
            answers = [answer_of_ours(call, self.request.tools, self.chat_format) for call in parsed.tool_calls]
            suffix = self.chat_format.suffix_ids(answers, sample.token_ids[-1])
            if not tokens.has_room_behind(suffix):
                return self._choice("length", ())
            tokens.ids += suffix
        raise AssertionError("the last turn returns")

    def _read_turn(self) -> ParsedTurn:
        turn, context = self._tokens.turn, self._tokens.context
        return self.chat_format.parse(
            turn, call_id_seed=self._call_id_seed, tools=self.request.tools, context_ids=context
        )

    @property
    def _call_id_seed(self) -> int:
        return seed_63(self.request.seed, self.index, self._turn, "call ids")

    async def _keep_to_format(self, parsed: ParsedTurn, *, is_cut: bool) -> Literal["stop", "length"]:
        """An answer that does not fit is sampled again behind its thoughts, held to what fits. Raises SamplerError."""
        reason, answers, turn = "length" if is_cut else "stop", self.held_to, self._tokens.turn
        if not isinstance(answers, AnswersInFormat) or (is_cut and self._is_cut_before_answer(parsed)):
            return reason
        before = self.chat_format.before_answer(turn, self._tokens.context)
        self._content = [parsed.content]  # Nothing is JSON with what was said beside calls that cannot be read.
        if answers.begin(turn[len(before) :]) if is_cut else answers.problem(parsed.content) is None:
            return reason
        self._tokens.begin_anew_behind(before)
        return await self._sample_in_format(answers) if self._tokens.has_room_behind(()) else "length"

    async def _sample_in_format(self, answers: AnswersInFormat) -> Literal["stop", "length"]:
        """An answer in place of the one that was thrown away. Raises SamplerError where that does not fit either."""
        sample = await self._tokens.sample_piece("in format", constraint=answers.constraint())
        self._read_again()
        is_whole = sample.finish_reason is FinishReason.STOP
        answer = self.chat_format.tokenizer.decode(sample.token_ids[: len(sample.token_ids) - is_whole]).strip()
        self._tokens.text.end(answer, answer)
        if self._tokens.text.is_stopped:
            self._content = [self._tokens.text.told]
            return "stop"
        if is_whole and (problem := answers.problem(answer)) is not None:
            raise SamplerError(f"no answer could be sampled that fits the response_format: {problem}")
        self._content = [answer]
        return "stop" if is_whole else "length"

    async def _keep_to_calls(self, forced: ForcedCalls, parsed: ParsedTurn, *, is_cut: bool) -> Choice:
        """A turn without the calls that it has to have is sampled again behind its thoughts. Raises SamplerError."""
        if is_cut and self._is_cut_in_thought:
            return self._choice("length", ())
        if not is_cut and forced.accepts(self._handed_out(parsed.tool_calls)):
            return self._with_calls(parsed.tool_calls)
        turn, thoughts = self._tokens.turn, self.chat_format.thoughts_of(self._tokens.turn, self._tokens.context)
        call = await asyncio.to_thread(forced.hold, is_behind_thought=bool(thoughts))
        are_first = turn[: len(thoughts)] == thoughts
        if is_cut and are_first and call.may_begin(turn[len(thoughts) :], parsed.tool_calls):
            return self._choice("length", ())
        self._tokens.begin_anew_behind(thoughts)
        is_whole = self._tokens.has_room_behind(()) and await self._sample_call(call)
        again = self._read_again()
        if not is_whole:
            return self._choice("length", ())
        self._content = [again.content]
        calls = forced.among(self._handed_out(again.tool_calls))
        if not forced.keeps(call, calls):
            raise SamplerError("no call could be sampled as tool_choice asks for it")
        return self._with_calls(calls) if calls == again.tool_calls else self._with_some(calls)

    def _handed_out(self, calls: Sequence[ToolCall]) -> Sequence[ToolCall]:
        known = [*filter(self._is_known, calls)]
        return known if self.request.has_parallel_calls else known[:1]

    def _is_known(self, call: ToolCall) -> bool:
        """Whether the client can make it: it is of a tool that it named, and allows."""
        return any(call.name == tool.name for tool in self.request.tools)

    def _read_again(self) -> ParsedTurn:
        """In place of what was read of the turn before it began anew; nothing of its content."""
        again = self._read_turn()
        self._content[-1], self._reasoning[-1], self._reasoning_tokens[-1] = "", again.reasoning, again.reasoning_tokens
        return again

    async def _sample_call(self, call: HeldCall) -> bool:
        """In place of what was thrown away; False: it does not fit into the length asked for."""
        sample = await self._tokens.sample_piece("forced call", constraint=call.constraint)
        if sample.finish_reason is FinishReason.LENGTH or call.is_whole:
            return sample.finish_reason is FinishReason.STOP
        self._tokens.drop_stop()
        return (await self._tokens.sample_piece("arguments")).finish_reason is FinishReason.STOP

    def _is_cut_before_answer(self, parsed: ParsedTurn) -> bool:
        """Within a call or a thought."""
        return bool(parsed.tool_calls and self.request.tools) or self._is_cut_in_thought

    @property
    def _is_cut_in_thought(self) -> bool:
        return bool(self.chat_format.thought_closing(self._tokens.context, self._tokens.turn))

    @property
    def _is_told_at_once(self) -> bool:
        """An answer that may have to be sampled again is told when it is complete."""
        return self.request.is_streamed and self.held_to is None

    def _take(self, parsed: ParsedTurn) -> None:
        self._reasoning.append(parsed.reasoning)
        self._reasoning_tokens.append(parsed.reasoning_tokens)
        text = self._tokens.text
        self._tell(text.end(parsed.content, parsed.raw_text))
        is_told = self._is_told_at_once or text.is_stopped
        self._content.append(text.told if is_told else parsed.content)

    def _tell(self, text: str) -> None:
        if text and self._is_told_at_once:
            sampled = len(self._tokens.sampled) + len(self._tokens.heard)
            has_thought = self._tokens.text.has_thought or any(self._reasoning)
            self.tell(Text(index=self.index, text=text, has_thought=has_thought, completion_tokens=sampled))

    def _with_calls(self, shown: Sequence[ToolCall]) -> Choice:
        """The calls that the client can make; with what it will answer, the conversation goes on as a rollout does."""
        wire_ids = [public_id("call_", secrets.token_bytes(24)) if self._is_known(call) else None for call in shown]
        calls = tuple(
            call.model_copy(update={"call_id": wire_id})
            for call, wire_id in zip(shown, wire_ids, strict=True)
            if wire_id is not None
        )
        if not self.request.has_parallel_calls and len(calls) > 1:
            return self._with_some(calls[:1])
        choice = self._choice("tool_calls" if calls else "stop", calls)
        if calls:
            token_ids = (*self.prompt.token_ids, *self._tokens.ids)
            thoughts = (*self.conversation.thoughts, choice.reasoning)
            turn = RememberedTurn(token_ids, tuple(shown), tuple(wire_ids), thoughts, self.prompt.sampled_since)
            self.remembered.put(self.conversation.fingerprint(_said(choice)), turn)
        if choice.turn is None:
            return choice
        kept = choice.turn.model_copy(update={"shown_calls": tuple(shown), "wire_ids": tuple(wire_ids)})
        return choice.model_copy(update={"turn": kept})

    def _with_some(self, calls: tuple[ToolCall, ...]) -> Choice:
        """A turn that has others as well: with those, no conversation can go on behind it."""
        return self._choice("tool_calls", calls).model_copy(update={"turn": None})

    def _choice(self, reason: Literal["stop", "length", "tool_calls"], calls: tuple[ToolCall, ...]) -> Choice:
        choice = self._told_choice(reason, calls)
        if self.request.is_streamed and not self._is_told_at_once and choice.content:
            has_thought, sampled = bool(choice.reasoning), len(self._tokens.sampled)
            said = Text(index=self.index, text=choice.content, has_thought=has_thought, completion_tokens=sampled)
            self.tell(said)
        if not self.request.keeps_turns:
            return choice
        turn = SampledTurn(
            prompt_sha256=prompt_digest(self.prompt.token_ids),
            token_ids=choice.token_ids,
            said_sha256=said_digest(_said(choice)),
            reasoning=choice.reasoning,
        )
        return choice.model_copy(update={"turn": turn})

    def _told_choice(self, reason: Literal["stop", "length", "tool_calls"], calls: tuple[ToolCall, ...]) -> Choice:
        return Choice(
            index=self.index,
            finish_reason=reason,
            content="".join(self._content),
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            completion_tokens=len(self._tokens.sampled),
            reasoning_tokens=sum(self._reasoning_tokens),
            token_ids=tuple(self._tokens.ids),
            tokens=tuple(starmap(self._sampled_token, self._tokens.sampled)) if self.request.has_logprobs else (),
        )

    def _sampled_token(self, token_id: int, logprob: float) -> SampledToken:
        utf8 = self.chat_format.tokenizer.token_bytes(token_id)
        return SampledToken(text=utf8.decode(errors="replace"), logprob=logprob, utf8=tuple(utf8))


def _said(choice: Choice) -> Message:
    """As the client has it."""
    return Message(role=Role.ASSISTANT, content=choice.content, tool_calls=choice.tool_calls)
