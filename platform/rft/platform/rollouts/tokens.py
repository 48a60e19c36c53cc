"""A rollout's tokens on the wire: what each stands for, whether the policy sampled it, and how likely it was."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, isfinite
from typing import Self

from rft.core.token_record import unpack_float16, unpack_tokens
from rft.platform.api.errors import NotFound
from rft.platform.api.pagination import Listed, ListPage, to_page, unknown_cursor
from rft.platform.jobs.service import expect_job
from rft.platform.rollouts.begun_repository import BegunRepository
from rft.platform.rollouts.repository import RolloutRepository
from rft.platform.rollouts.token_repository import TokenRepository, TokenRow
from rft.platform.store.unit_of_work import UnitOfWork

NOT_KEPT = (
    "The tokens of this rollout are not kept: it is not over, it comes from an earlier release, or its job began while"
    " RFT_KEEP_TOKENS was off."
)
_LARGEST_EXPONENT = 700.0
_MOST_DIGITS = 9


class TokenObject(Listed):
    """One token; its id is its place in the conversation, from 0."""

    token_id: int
    """Its number in the vocabulary."""
    text: str
    """What it stands for, control tokens spelled out; bytes that are no whole character as `\\x..`."""
    is_sampled: bool
    """Whether the policy sampled it: all others were given to it, and carry no gradient."""
    logprob: float | None
    """Under the policy that sampled, as float16; null where the policy did not."""
    importance_ratio: float | None
    """How much likelier it was to the trainer, before the step's update, than to the sampler; null where no step
    trained on it."""


class TokenPage(ListPage[TokenObject]):
    """Some of a rollout's tokens, in order, and what holds for all of them."""

    prompt_tokens: int
    """The first so many are the prompt."""
    total_tokens: int
    sampled_tokens: int
    advantage: float | None
    """What the rollout counted in its step's update; null where no step trained on it: an evaluation, a failure, a
    group of equal rewards, or a step whose update is still to come."""
    missing: str | None
    """Why there are no tokens; null where there are."""


async def list_tokens(uow: UnitOfWork, job_id: str, trace_id: str, *, after: str | None, limit: int) -> TokenPage:
    """One page of a rollout's tokens. Raises NotFound, BadRequest."""
    repository = TokenRepository(uow.connection)
    row = await repository.get(job_id, trace_id)
    if row is None:
        await _expect_rollout(uow, job_id, trace_id)
        return _page(_Tokens((), (), (), (), 0), [], limit=limit, advantage=None, missing=NOT_KEPT)
    tokens = _Tokens.of(row)
    first = 0 if after is None else _place(after, tokens) + 1
    window = slice(first, first + limit + 1)
    pieces = await repository.pieces(job_id, set(tokens.ids[window]))
    found = [
        TokenObject(
            id=str(place),
            token_id=token_id,
            text=pieces.get(token_id, b"").decode(errors="backslashreplace"),
            is_sampled=is_sampled,
            logprob=logprob,
            importance_ratio=ratio,
        )
        for place, (token_id, is_sampled, logprob, ratio) in enumerate(tokens.some(window), start=first)
    ]
    return _page(tokens, found, limit=limit, advantage=row.advantage, missing=None)


@dataclass(frozen=True, slots=True)
class _Tokens:
    """All of one rollout, in four columns."""

    ids: Sequence[int]
    is_sampled: Sequence[bool]
    logprobs: Sequence[float | None]
    ratios: Sequence[float | None]
    prompt_tokens: int

    @classmethod
    def of(cls, row: TokenRow) -> Self:
        """Unpacked."""
        prompt, completion = unpack_tokens(row.prompt), unpack_tokens(row.completion)
        is_sampled = prompt.mask_T + completion.mask_T
        logprobs = zip(is_sampled, prompt.logprobs_T + completion.logprobs_T, strict=True)
        log_ratios = iter(() if row.log_ratios is None else unpack_float16(row.log_ratios))
        return cls(
            ids=prompt.token_ids_T + completion.token_ids_T,
            is_sampled=is_sampled,
            logprobs=[logprob if is_own and isfinite(logprob) else None for is_own, logprob in logprobs],
            ratios=[_ratio(next(log_ratios, None)) if is_own else None for is_own in is_sampled],
            prompt_tokens=len(prompt.token_ids_T),
        )

    def some(self, window: slice) -> Iterator[tuple[int, bool, float | None, float | None]]:
        """Those of a window."""
        columns = self.ids[window], self.is_sampled[window], self.logprobs[window], self.ratios[window]
        return zip(*columns, strict=True)


def _page(
    tokens: _Tokens, found: Sequence[TokenObject], *, limit: int, advantage: float | None, missing: str | None
) -> TokenPage:
    page = to_page(found, limit=limit)
    return TokenPage(
        data=page.data,
        has_more=page.has_more,
        first_id=page.first_id,
        last_id=page.last_id,
        prompt_tokens=tokens.prompt_tokens,
        total_tokens=len(tokens.ids),
        sampled_tokens=sum(tokens.is_sampled),
        advantage=advantage,
        missing=missing,
    )


def _ratio(log_ratio: float | None) -> float | None:
    """No number and infinities stand in no JSON."""
    return None if log_ratio is None or not isfinite(log_ratio) else exp(min(log_ratio, _LARGEST_EXPONENT))


def _place(after: str, tokens: _Tokens) -> int:
    is_number = after.isascii() and after.isdecimal() and len(after) <= _MOST_DIGITS
    if not is_number or int(after) >= len(tokens.ids):
        raise unknown_cursor(after)
    return int(after)


async def _expect_rollout(uow: UnitOfWork, job_id: str, trace_id: str) -> None:
    """Also one that is not over, or counts no more. Raises NotFound."""
    if await RolloutRepository(uow.connection).get(job_id, trace_id) is not None:
        return
    if await BegunRepository(uow.connection).get(job_id, trace_id) is None:
        await expect_job(uow, job_id)
        raise NotFound(f"Job {job_id} has no rollout {trace_id}.", param="trace_id", code="not_found")
