"""One choice of a completion: turns of the policy until one has something to say to the client."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from rft.chat.chat_format import ParsedTurn
from rft.chat.template_format import TemplateChatFormat
from rft.core.errors import SamplerError
from rft.core.ids import public_id, seed_63
from rft.core.messages import Message, Role, ToolCall
from rft.rollouts.sampler import Constraint, FinishReason, Sample, SampleProgress, Sampler, SampleRequest, check_sample
from rft.rollouts.thought_limit import sample_within_thought_limit
from rft.serving.formats import AnswersInFormat
from rft.serving.prompts import Conversation, ReadPrompt, result_of
from rft.serving.remembered import RememberedConversations, RememberedTurn, prompt_digest, said_digest
from rft.serving.turn_text import IncrementalText, TurnText
from rft.serving_wire.records import Choice, CompletionRequest, SampledToken, SampledTurn, Text

_MOST_TURNS = 8
"""A policy that cannot write a readable call is answered so often."""


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
    answers: AnswersInFormat | None = None
    """What an answer has to be; None: any text."""
    _turn: int = field(init=False)
    """The one in work."""
    _sampled_before_turn: int = field(init=False)
    _unsampled: int = field(init=False)
    """Of its tokens, those that closed a thought that was too long."""
    _text: TurnText = field(init=False)
    """Of that."""
    _decoder: IncrementalText = field(init=False)
    _ids: list[int] = field(default_factory=list[int])
    """From the end of the prompt on; what nobody sampled, too."""
    _sampled: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    _heard: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    """Of the piece that is being sampled; none of `_sampled`."""
    _content: list[str] = field(default_factory=list[str])
    _reasoning: list[str] = field(default_factory=list[str])
    _reasoning_tokens: int = 0

    async def run(self) -> Choice:
        """The complete choice. Raises SamplerError."""
        for turn in range(_MOST_TURNS):
            context = (*self.prompt.token_ids, *self._ids)
            is_thinking = self.chat_format.has_opened_thought(context)
            self._turn, self._sampled_before_turn, self._unsampled = turn, len(self._sampled), 0
            self._hear_from_here(is_thinking=is_thinking)
            sample = await sample_within_thought_limit(self, self.chat_format, context, self.max_reasoning_tokens)
            parsed = self.chat_format.parse(
                self._ids[len(context) - len(self.prompt.token_ids) :],
                call_id_seed=seed_63(self.request.seed, self.index, turn, "call ids"),
                tools=self.request.tools,
                context_ids=context,
            )
            self._take(parsed)
            is_cut = sample.finish_reason is FinishReason.LENGTH
            if self._text.is_stopped:
                return self._choice("stop", ())
            if is_cut or not parsed.tool_calls or not self.request.tools:  # Of tools that nobody has: left out.
                return self._choice(await self._keep_to_format(context, parsed, is_cut=is_cut), ())
            if any(call.name for call in parsed.tool_calls) or turn + 1 == _MOST_TURNS:
                return self._with_calls(parsed.tool_calls)
            answers = [result_of(call, self.chat_format.unreadable_call_output) for call in parsed.tool_calls]
            suffix = self.chat_format.suffix_ids(answers, sample.token_ids[-1])
            if not self.has_room_behind(suffix):
                return self._choice("length", ())
            self._ids += suffix
        raise AssertionError("the last turn returns")

    async def _keep_to_format(
        self, context: Sequence[int], parsed: ParsedTurn, *, is_cut: bool
    ) -> Literal["stop", "length"]:
        """An answer that does not fit is sampled again behind its thoughts, held to what fits. Raises SamplerError."""
        start = len(context) - len(self.prompt.token_ids)
        turn = self._ids[start:]
        reason = "length" if is_cut else "stop"
        if self.answers is None or (is_cut and self._is_cut_before_answer(context, turn, parsed)):
            return reason
        before = self.chat_format.before_answer(turn, context)
        self._content = [parsed.content]  # Nothing is JSON with what was said beside calls that cannot be read.
        if self.answers.begin(turn[len(before) :]) if is_cut else self.answers.problem(parsed.content) is None:
            return reason
        kept = len(before) - self._unsampled if turn[: len(before)] == before else 0
        del self._ids[start:], self._sampled[self._sampled_before_turn + max(0, kept) :]
        self._ids += before
        return await self._sample_in_format(self.answers) if self.has_room_behind(()) else "length"

    async def _sample_in_format(self, answers: AnswersInFormat) -> Literal["stop", "length"]:
        """An answer in place of the one that was thrown away. Raises SamplerError where that does not fit either."""
        self._hear_from_here(is_thinking=False)
        sample = await self.sample_piece("in format", constraint=answers.constraint())
        is_whole = sample.finish_reason is FinishReason.STOP
        answer = self.chat_format.tokenizer.decode(sample.token_ids[: len(sample.token_ids) - is_whole]).strip()
        self._text.end(answer, answer)
        if self._text.is_stopped:
            self._content = [self._text.told]
            return "stop"
        if is_whole and (problem := answers.problem(answer)) is not None:
            raise SamplerError(f"no answer could be sampled that fits the response_format: {problem}")
        self._content = [answer]
        return "stop" if is_whole else "length"

    def _is_cut_before_answer(self, context: Sequence[int], turn: Sequence[int], parsed: ParsedTurn) -> bool:
        """Within a call or a thought."""
        is_call = bool(parsed.tool_calls and self.request.tools)
        return is_call or bool(self.chat_format.thought_closing(context, turn))

    def _room(self, behind: int = 0) -> int:
        """Tokens that can still be sampled, behind so many that are not."""
        left = self.sampler.max_context_tokens - len(self.prompt.token_ids) - len(self._ids) - behind
        wanted = self.request.max_tokens
        return left if wanted is None else min(left, wanted - len(self._sampled))

    def has_room_behind(self, token_ids: Sequence[int]) -> bool:
        """Whether the length asked for and the context have room for a token behind these."""
        return self._room(len(token_ids)) >= 1

    def take_unsampled(self, token_ids: Sequence[int]) -> None:
        """They are told as what the policy writes, and are no token of its own."""
        self._ids += token_ids
        self._unsampled += len(token_ids)
        self._hear(token_ids)

    async def sample_piece(
        self, *part: str, at_most: int | None = None, constraint: Constraint | None = None
    ) -> Sample:
        """What is left of the turn in work, or so many tokens of it. Raises SamplerError."""
        room = self._room()
        request = SampleRequest(
            request_id=f"serving-{secrets.token_hex(6)}",
            prompt_ids=(*self.prompt.token_ids, *self._ids),
            max_tokens=room if at_most is None else min(room, at_most),
            stop_token_ids=self.chat_format.stop_token_ids,
            seed=seed_63(self.request.seed, self.index, self._turn, *part),
            temperature=self.request.temperature,
            top_p=self.request.top_p,
            progress=SampleProgress(),
            policy_version=self.policy_version,
            constraint=constraint,
        )
        sample = await self._sample(request)
        self._ids += sample.token_ids
        self._sampled += zip(sample.token_ids, sample.logprobs, strict=True)
        self._heard = []
        return sample

    async def _sample(self, request: SampleRequest) -> Sample:
        task = asyncio.ensure_future(self.sampler.sample(request))

        def on_tokens(token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
            self._heard.extend(zip(token_ids, logprobs, strict=True))
            self._hear([token for token in token_ids if token not in request.stop_token_ids])
            if self._text.is_stopped:
                task.cancel()

        if self._is_told_at_once or self.request.stop:
            request.progress.on_tokens = on_tokens
        try:
            sample = await task
        except asyncio.CancelledError:
            if not self._text.is_stopped:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                raise
            token_ids, logprobs = zip(*self._heard, strict=True)
            return Sample(token_ids, logprobs, FinishReason.STOP)
        check_sample(sample, request)
        return sample

    @property
    def _is_told_at_once(self) -> bool:
        """An answer that may have to be sampled again is told when it is complete."""
        return self.request.is_streamed and self.answers is None

    def _hear_from_here(self, *, is_thinking: bool) -> None:
        self._text = TurnText(self.chat_format.syntax, self.request.stop, is_thinking=is_thinking)
        self._decoder = IncrementalText(self.chat_format.tokenizer.decode)

    def _hear(self, token_ids: Sequence[int]) -> None:
        text = self._decoder.add(token_ids).replace("\x00", "\ufffd")  # As in what the whole turn is read as.
        told = self._text.add(text)
        self._tell(told, has_thought=self._text.has_thought)

    def _take(self, parsed: ParsedTurn) -> None:
        self._reasoning.append(parsed.reasoning)
        self._reasoning_tokens += parsed.reasoning_tokens
        self._tell(self._text.end(parsed.content, parsed.raw_text))
        is_told = self._is_told_at_once or self._text.is_stopped
        self._content.append(self._text.told if is_told else parsed.content)

    def _tell(self, text: str, *, has_thought: bool = False) -> None:
        if text and self._is_told_at_once:
            sampled = len(self._sampled) + len(self._heard)
            has_thought = has_thought or any(self._reasoning)
            self.tell(Text(index=self.index, text=text, has_thought=has_thought, completion_tokens=sampled))

    def _with_calls(self, shown: Sequence[ToolCall]) -> Choice:
        """The calls that the client can make; with what it will answer, the conversation goes on as a rollout does."""
        wire_ids = [public_id("call_", secrets.token_bytes(24)) if call.name else None for call in shown]
        calls = tuple(
            call.model_copy(update={"call_id": wire_id})
            for call, wire_id in zip(shown, wire_ids, strict=True)
            if wire_id is not None
        )
        if not self.request.has_parallel_calls and len(calls) > 1:
            return self._choice("tool_calls", calls[:1]).model_copy(update={"turn": None})
        choice = self._choice("tool_calls" if calls else "stop", calls)
        if calls:
            token_ids = (*self.prompt.token_ids, *self._ids)
            thoughts = (*self.conversation.thoughts, choice.reasoning)
            turn = RememberedTurn(token_ids, tuple(shown), tuple(wire_ids), thoughts, self.prompt.sampled_since)
            self.remembered.put(self.conversation.fingerprint(_said(choice)), turn)
        if choice.turn is None:
            return choice
        kept = choice.turn.model_copy(update={"shown_calls": tuple(shown), "wire_ids": tuple(wire_ids)})
        return choice.model_copy(update={"turn": kept})

    def _choice(self, reason: Literal["stop", "length", "tool_calls"], calls: tuple[ToolCall, ...]) -> Choice:
        choice = self._told_choice(reason, calls)
        if self.request.is_streamed and not self._is_told_at_once and choice.content:
            has_thought, sampled = bool(choice.reasoning), len(self._sampled)
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
            completion_tokens=len(self._sampled),
            reasoning_tokens=self._reasoning_tokens,
            token_ids=tuple(self._ids),
            tokens=tuple(self._sampled_token(*token) for token in self._sampled) if self.request.has_logprobs else (),
        )

    def _sampled_token(self, token_id: int, logprob: float) -> SampledToken:
        utf8 = self.chat_format.tokenizer.token_bytes(token_id)
        return SampledToken(text=utf8.decode(errors="replace"), logprob=logprob, utf8=tuple(utf8))


def _said(choice: Choice) -> Message:
    """As the client has it."""
    return Message(role=Role.ASSISTANT, content=choice.content, tool_calls=choice.tool_calls)
