"""Samplers without a model. All of them are engines: the trainer takes them by `package.module:factory`.

A factory is called with the base model's directory, the run's spec and the chat format, e.g.
`rft.testing.samplers:fake_engine`.
"""

import asyncio
import hashlib
import json
import random
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

from rft.chat.template_format import TemplateChatFormat
from rft.chat.tokenizer import Tokenizer
from rft.core.errors import SamplerError
from rft.core.spec import RunSpec
from rft.rollouts.sampler import FinishReason, Sample, SampleRequest

Latency = Callable[[SampleRequest], float]
"""Seconds one sample takes."""


def no_latency(request: SampleRequest) -> float:
    """Every sample is there at once."""
    del request
    return 0.0


class ModelFreeEngine(ABC):
    """What the samplers here share: versions, latency, the cut at max_tokens, made-up log-probabilities."""

    def __init__(self, *, max_context_tokens: int, latency: Latency) -> None:
        self._max_context_tokens = max_context_tokens
        self._latency = latency
        self._policy_version = 0
        self._is_closed = False

    @property
    def policy_version(self) -> int:
        """The version last published; 0 before."""
        return self._policy_version

    @property
    def max_context_tokens(self) -> int:
        """Prompt plus completion at most."""
        return self._max_context_tokens

    async def publish(self, version: int, adapter_dir: Path) -> None:
        """Take note of the version; the weights change nothing here."""
        del adapter_dir
        self._policy_version = version

    async def publish_base(self, version: int) -> None:
        """The same without an adapter."""
        self._policy_version = version

    async def close(self) -> None:
        """Refuse samples from now on."""
        self._is_closed = True

    async def sample(self, request: SampleRequest) -> Sample:
        """One sample. Raises SamplerError after `close`, and when the prompt and max_tokens exceed the context."""
        if self._is_closed:
            raise SamplerError("the engine is closed")
        if len(request.prompt_ids) + request.max_tokens > self._max_context_tokens:
            raise SamplerError(f"prompt and max_tokens exceed the context of {self._max_context_tokens} tokens")
        await asyncio.sleep(self._latency(request))
        wanted = self.turn_ids(request)
        token_ids = tuple(wanted[: request.max_tokens])
        chance = chance_of(request)
        return Sample(
            token_ids=token_ids,
            logprobs=tuple(-chance.random() for _ in token_ids),
            finish_reason=FinishReason.STOP if len(token_ids) == len(wanted) else FinishReason.LENGTH,
        )

    @abstractmethod
    def turn_ids(self, request: SampleRequest) -> list[int]:
        """The whole turn, stop token included."""


def chance_of(request: SampleRequest) -> random.Random:
    """Randomness that depends on the seed and the prompt alone, never on who else is being sampled."""
    prompt = hashlib.sha256(array("Q", request.prompt_ids).tobytes())
    if request.temperature > 0:
        prompt.update(request.seed.to_bytes(8, "big"))
    return random.Random(prompt.digest())


class FakeSampler(ModelFreeEngine):
    """Random words, or with probability `set_piece_share` one whole turn of `set_pieces` (a tool call, say)."""

    def __init__(
        self,
        *,
        vocabulary: Sequence[int],
        stop_token_id: int,
        words: tuple[int, int] = (1, 16),
        set_pieces: Sequence[Sequence[int]] = (),
        set_piece_share: float = 0.5,
        max_context_tokens: int = 8192,
        latency: Latency = no_latency,
    ) -> None:
        super().__init__(max_context_tokens=max_context_tokens, latency=latency)
        self._vocabulary = tuple(vocabulary)
        self._stop_token_id = stop_token_id
        self._words = words
        self._set_pieces = [tuple(piece) for piece in set_pieces]
        self._set_piece_share = set_piece_share

    def turn_ids(self, request: SampleRequest) -> list[int]:
        """Drawn by seed and prompt."""
        chance = chance_of(request)
        if self._set_pieces and chance.random() < self._set_piece_share:
            return [*chance.choice(self._set_pieces), self._stop_token_id]
        return [*chance.choices(self._vocabulary, k=chance.randint(*self._words)), self._stop_token_id]


class ScriptedSampler(ModelFreeEngine):
    """Writes what a function says: given the request and the decoded prompt, the text of the turn.

    The script may raise SamplerError, and must be pure where replay matters.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        script: Callable[[SampleRequest, str], str],
        *,
        max_context_tokens: int = 8192,
        latency: Latency = no_latency,
    ) -> None:
        super().__init__(max_context_tokens=max_context_tokens, latency=latency)
        self._tokenizer = tokenizer
        self._script = script

    def turn_ids(self, request: SampleRequest) -> list[int]:
        """The script's text and a stop token."""
        text = self._script(request, self._tokenizer.decode(request.prompt_ids))
        return [*self._tokenizer.encode(text), self._tokenizer.stop_ids[0]]


def tool_call_text(name: str, arguments: str) -> str:
    """A call as a Hermes/Qwen policy writes it; `arguments` is JSON text of an object."""
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'


def fake_engine(base_model_dir: Path, spec: RunSpec, chat_format: TemplateChatFormat) -> FakeSampler:
    """Half of the turns call one of the run's tools with a query, the others are random letters."""
    del base_model_dir
    tokenizer = chat_format.tokenizer
    calls = [tokenizer.encode(tool_call_text(tool.name, '{"query": "fake"}')) for tool in spec.tools]
    letters = sorted({token for letter in "abcdefghij 0123456789" for token in tokenizer.encode(letter)})
    return FakeSampler(vocabulary=letters, stop_token_id=tokenizer.stop_ids[0], set_pieces=calls)
