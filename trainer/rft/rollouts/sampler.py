"""What the agent loop asks of an engine; every engine implements this and nothing more."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from rft.core.errors import SamplerError
from rft.core.grammar import Grammar


class FinishReason(StrEnum):
    """Why a sample ended."""

    STOP = "stop"
    """A stop token was sampled; it is included in the sample."""
    LENGTH = "length"


@dataclass(slots=True, eq=False)
class SampleProgress:
    """What an engine says of a request that it has not answered yet. An engine that says nothing is taken to be busy
    with it from the first moment on."""

    queued: Callable[[], AbstractContextManager[None]] = nullcontext
    """To be entered, in the caller's event loop, for as long as the request only waits for others to leave."""
    sampled_tokens: int = 0
    """Tokens sampled by the time the request was cancelled or failed."""
    on_tokens: Callable[[Sequence[int], Sequence[float]], None] | None = None
    """Called in the caller's event loop with new tokens and their log-probabilities, before the sample is answered.

    An engine that cannot tell of tokens one by one never calls it: the sample has them all.
    """


class Constraint(Protocol):
    """What the sample of one request has to be. Training has none: what does not fit is graded so."""

    @property
    def grammar(self) -> Grammar:
        """What the sample without its stop token is: for servers, which see to that themselves."""
        ...

    def allowed(self, sampled: Sequence[int]) -> bytes:
        """Which tokens may follow what was sampled so far: a bit for each, the lowest first, and none for ids beyond
        the tokenizer's. Asked before each token, by an engine that draws one after the other."""
        ...


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One turn to sample. Every sampling field is explicit: an engine fills nothing in by itself."""

    request_id: str
    prompt_ids: Sequence[int]
    max_tokens: int
    stop_token_ids: tuple[int, ...]
    seed: int
    """The same seed, prompt and policy give the same sample."""
    temperature: float = 1.0
    """0 means greedy. No top_k, no penalties: they would falsify the log-probabilities."""
    top_p: float = 1.0
    """Draw only from the most likely tokens that have this share together. Training never sets it: below 1,
    log-probabilities are those of the whole distribution with some engines, and with vLLM those of what is left."""
    progress: SampleProgress = field(default_factory=SampleProgress, compare=False, repr=False)
    rollout_id: str = ""
    """Whose turn it is; empty for no rollout's. See `RolloutHolder`."""
    group_id: str = ""
    """The same for all rollouts of a group: they share their prompt."""
    policy_version: int | None = None
    """What to sample from; None for the newest."""
    constraint: Constraint | None = field(default=None, compare=False, repr=False)
    """Log-probabilities are those of the tokens that it allows, among themselves."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Tokens out, with the log-probability of each under the sampling distribution."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason


@runtime_checkable
class RolloutHolder(Protocol):
    """A sampler that keeps something for a rollout between its turns: its server, its policy version."""

    def rollout_began(self, rollout_id: str, version: int) -> None:
        """The rollout samples from this policy version, until it has ended. Raises SamplerError where it is gone."""
        ...

    def rollout_ended(self, rollout_id: str) -> None:
        """The rollout samples no more; one that never began is passed over."""
        ...


@runtime_checkable
class SharedServers(Protocol):
    """A sampler whose servers other processes can ask as well."""

    def adapter_name(self, version: int) -> str | None:
        """What its servers call the policy version; None for the base model."""
        ...


class Sampler(Protocol):
    """Token ids in, tokens and log-probabilities out. Concurrent calls are batched by the engine."""

    @property
    def policy_version(self) -> int:
        """The step that produced the weights now sampling."""
        ...

    @property
    def max_context_tokens(self) -> int:
        """Prompt plus completion at most."""
        ...

    async def sample(self, request: SampleRequest) -> Sample:
        """One sample. Cancelling the task frees the engine. Raises SamplerError.

        An engine with a queue enters `request.progress.queued()` while the request waits in it: no rollout's deadline
        counts that time.
        """
        ...


def keep_policy(sampler: Sampler, rollout_id: str, version: int) -> None:
    """The engine keeps the version for the rollout, whatever is published meanwhile, until `release_policy`.

    Raises SamplerError where it is gone. Of an engine that keeps nothing, it is the only one.
    """
    if isinstance(sampler, RolloutHolder):
        sampler.rollout_began(rollout_id, version)


def follow_policy(sampler: Sampler, rollout_id: str, version: int) -> int:
    """The newest version, which is kept for the rollout from now on instead of this one."""
    newest = sampler.policy_version
    if newest != version:
        release_policy(sampler, rollout_id)
        keep_policy(sampler, rollout_id, newest)
    return newest


def release_policy(sampler: Sampler, rollout_id: str) -> None:
    """The rollout samples no more."""
    if isinstance(sampler, RolloutHolder):
        sampler.rollout_ended(rollout_id)


def check_sample(sample: Sample, request: SampleRequest) -> None:
    """Raises SamplerError when an engine's answer breaks its contract."""
    tokens = len(sample.token_ids)
    if not 1 <= tokens <= request.max_tokens:
        raise SamplerError(f"{tokens} tokens sampled where 1 to {request.max_tokens} were asked for")
    if len(sample.logprobs) != tokens:
        raise SamplerError(f"{tokens} tokens sampled, but {len(sample.logprobs)} log-probabilities")
    # NaN fails this comparison too. Slightly above 0 is rounding.
    if not all(logprob <= 1e-3 for logprob in sample.logprobs) or float("-inf") in sample.logprobs:
        raise SamplerError("a log-probability is not a finite number of at most 0")
    if sample.finish_reason is FinishReason.STOP and sample.token_ids[-1] not in request.stop_token_ids:
        raise SamplerError("the sample ended without a stop token, but claims one")
