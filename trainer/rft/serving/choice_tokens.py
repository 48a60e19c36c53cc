"""The tokens of one choice: its turns in pieces, and what nobody sampled; a turn that is not wanted begins anew."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rft.chat.template_format import TemplateChatFormat
from rft.core.ids import seed_63
from rft.rollouts.sampler import (
    Constraint,
    FinishReason,
    Sample,
    SampleProgress,
    Sampler,
    SampleRequest,
    check_sample,
)
from rft.serving.turn_text import IncrementalText, TurnText
from rft.serving_wire.records import CompletionRequest


@dataclass(slots=True)
class ChoiceTokens:
    """Implements `rft.rollouts.thought_limit.TurnInPieces`. Cancelled, it frees the engine."""

    request: CompletionRequest
    index: int
    chat_format: TemplateChatFormat
    sampler: Sampler
    policy_version: int
    prompt_ids: Sequence[int]
    hear: Callable[[str], None]
    """Takes what can be told of the turn in work, as it comes."""
    is_heard: bool
    """Whether somebody wants to hear that."""
    is_useless: Callable[[str], bool] | None = None
    """Whether a turn is thrown away of which so much can be told: what is in work of it is not sampled to its end."""
    text: TurnText = field(init=False)
    """Of the turn in work."""
    ids: list[int] = field(default_factory=list[int])
    """From the end of the prompt on; what nobody sampled, too."""
    sampled: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    heard: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    """Of the piece that is being sampled; none of `sampled`."""
    _decoder: IncrementalText = field(init=False)
    """Of the turn in work."""
    _turn: int = -1
    _turn_start: int = 0
    """Where the turn in work begins in `ids`."""
    _sampled_before_turn: int = 0
    _unsampled: range = range(0)
    """Places in the turn in work of what closed a thought that was too long."""

    @property
    def context(self) -> tuple[int, ...]:
        """All tokens before the turn in work."""
        return (*self.prompt_ids, *self.ids[: self._turn_start])

    @property
    def turn(self) -> list[int]:
        """Those of the turn in work."""
        return self.ids[self._turn_start :]

    def begin_turn(self) -> None:
        """The next turn is sampled from here on."""
        self._turn += 1
        self._turn_start, self._sampled_before_turn, self._unsampled = len(self.ids), len(self.sampled), range(0)
        self._hear_from_here(is_thinking=self.chat_format.has_opened_thought(self.context))

    def begin_anew_behind(self, kept: Sequence[int]) -> None:
        """Nothing of the turn in work counts but these, with which it begins, or is to begin. Once a turn."""
        pairs = zip(self.turn, kept, strict=False)
        shared = next((n for n, (old, new) in enumerate(pairs) if old != new), min(len(self.turn), len(kept)))
        unsampled = sum(place < shared for place in self._unsampled)
        del self.sampled[self._sampled_before_turn + shared - unsampled :]
        self.ids[self._turn_start :] = kept
        self._hear_from_here(is_thinking=False)

    def drop_stop(self) -> None:
        """The turn in work goes on behind what was sampled."""
        del self.ids[-1], self.sampled[-1]

    def has_room_behind(self, token_ids: Sequence[int]) -> bool:
        """Whether the length asked for and the context have room for a token behind these."""
        return self._room(len(token_ids)) >= 1

    def take_unsampled(self, token_ids: Sequence[int]) -> None:
        """They are told as what the policy writes, and are no token of its own."""
        self._unsampled = range(len(self.turn), len(self.turn) + len(token_ids))
        self.ids += token_ids
        self._hear(token_ids)

    async def sample_piece(
        self, *part: str, at_most: int | None = None, constraint: Constraint | None = None
    ) -> Sample:
        """What is left of the turn in work, or so many tokens of it. Raises SamplerError."""
        room = self._room()
        request = SampleRequest(
            request_id=f"serving-{secrets.token_hex(6)}",
            prompt_ids=(*self.prompt_ids, *self.ids),
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
        self.ids += sample.token_ids
        self.sampled += zip(sample.token_ids, sample.logprobs, strict=True)
        self.heard = []
        return sample

    async def _sample(self, request: SampleRequest) -> Sample:
        task = asyncio.ensure_future(self.sampler.sample(request))

        def on_tokens(token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
            self.heard.extend(zip(token_ids, logprobs, strict=True))
            self._hear([token for token in token_ids if token not in request.stop_token_ids])
            if self._is_over:
                task.cancel()

        if self.is_heard or self.request.stop or self.is_useless is not None:
            request.progress.on_tokens = on_tokens
        try:
            sample = await task
        except asyncio.CancelledError:
            if not self._is_over:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                raise
            token_ids, logprobs = zip(*self.heard, strict=True)
            return Sample(token_ids, logprobs, FinishReason.STOP)
        check_sample(sample, request)
        return sample

    @property
    def _is_over(self) -> bool:
        """Whether nobody waits for more of the turn in work."""
        return self.text.is_stopped or (self.is_useless is not None and self.is_useless(self.text.told))

    def _room(self, behind: int = 0) -> int:
        """Tokens that can still be sampled, behind so many that are not."""
        left = self.sampler.max_context_tokens - len(self.prompt_ids) - len(self.ids) - behind
        wanted = self.request.max_tokens
        return left if wanted is None else min(left, wanted - len(self.sampled))

    def _hear_from_here(self, *, is_thinking: bool) -> None:
        """`is_thinking`: the text begins within a thought."""
        self.text = TurnText(self.chat_format.syntax, self.request.stop, is_thinking=is_thinking)
        self._decoder = IncrementalText(self.chat_format.tokenizer.decode)

    def _hear(self, token_ids: Sequence[int]) -> None:
        text = self._decoder.add(token_ids).replace("\x00", "\ufffd")  # As in what the whole turn is read as.
        self.hear(self.text.add(text))
