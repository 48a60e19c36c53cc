"""Retry as one pure decision, driven by tenacity. The only owner of retries against endpoints.

The wait before retry n is one formula: `uniform(0, min(max_wait_s, first_wait_s * 2 ** (n - 1)))` (full jitter), on
top of what a Retry-After header asked for, all attempts and waits within `total_s`. `RetryBudget(max_retries=0)`
switches retries off.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TypeVar, cast

from tenacity import AsyncRetrying, RetryCallState

from rft.core.failure import FailureCode
from rft.core.spec import RetryBudget
from rft.egress.reply import AttemptFailure

T = TypeVar("T")

RETRYABLE: frozenset[FailureCode] = frozenset(
    {
        FailureCode.CONNECT_ERROR,
        FailureCode.TLS_ERROR,
        FailureCode.CONNECTION_RESET,
        FailureCode.TIMEOUT,
        FailureCode.RATE_LIMITED,
        FailureCode.SERVER_ERROR,
        FailureCode.INVALID_REPLY,
        FailureCode.INVALID_SCORE,
        FailureCode.INTERNAL_ERROR,
    }
)
"""What another attempt may heal. 4xx, redirects, oversize replies and blocked addresses come out the same again."""


def decide(
    failure: AttemptFailure,
    *,
    attempt: int,
    elapsed_s: float,
    budget: RetryBudget,
    jitter_draw: float,
    is_safe: bool,
    least_s: float = 0.0,
) -> float | None:
    """Seconds to wait before the next attempt, or None to give up.

    `attempt` is the number of the one that failed, from 1; `jitter_draw` lies in [0, 1]; `is_safe` says that the
    endpoint bears a repeated call; `least_s` is what another attempt must have left of the budget: one that the budget
    cuts off would be held against the endpoint as a timeout.
    """
    if failure.code not in RETRYABLE or attempt > budget.max_retries:
        return None
    if not (is_safe or failure.surely_not_sent or failure.code is FailureCode.RATE_LIMITED):
        return None  # Who asks to be called later has carried nothing out.
    backoff_s = jitter_draw * min(budget.max_wait_s, budget.first_wait_s * 2.0 ** min(attempt - 1, 60))
    wait_s = backoff_s + (failure.retry_after_s or 0.0)
    begins_s = elapsed_s + wait_s
    return wait_s if begins_s < budget.total_s and begins_s + least_s <= budget.total_s else None


_DELAY_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]+)?")


def parse_retry_after(value: str | None, *, now_s: float) -> float | None:
    """Seconds from a Retry-After header (seconds or HTTP-date; `now_s` in seconds since 1970); None when unreadable."""
    if value is None:
        return None
    seconds = value.strip()
    if _DELAY_SECONDS.fullmatch(seconds):
        return float(seconds)
    then_s = parse_http_date(value)
    return None if then_s is None else max(0.0, then_s - now_s)


def parse_http_date(value: str | None) -> float | None:
    """Seconds since 1970 of an HTTP date; None when unreadable."""
    if value is None:
        return None
    try:
        then = parsedate_to_datetime(value)
        return (then if then.tzinfo is not None else then.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


class _Decision:
    """One call's decisions, in the three places where tenacity asks."""

    __slots__ = ("_next_wait_s", "_wait_after")

    def __init__(self, wait_after: Callable[[AttemptFailure, int], float | None]) -> None:
        self._wait_after = wait_after
        self._next_wait_s: float | None = None

    def is_retryable(self, state: RetryCallState) -> bool:
        outcome = state.outcome
        if outcome is None or outcome.failed or not isinstance(failure := outcome.result(), AttemptFailure):
            return False
        self._next_wait_s = self._wait_after(failure, state.attempt_number)
        return self._next_wait_s is not None

    def wait_s(self, state: RetryCallState) -> float:
        return self._next_wait_s or 0.0


async def drive(
    attempt: Callable[[], Awaitable[T | AttemptFailure]],
    *,
    wait_after: Callable[[AttemptFailure, int], float | None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T | AttemptFailure:
    """Attempt until a reply comes or `wait_after(failure, attempt number)` says None; the last failure then."""
    first = await attempt()
    if not isinstance(first, AttemptFailure):
        return first  # Nearly all calls end here, and need none of the machinery below.
    ended: list[T | AttemptFailure] = [first]

    async def next_attempt() -> T | AttemptFailure:
        return ended.pop() if ended else await attempt()

    decision = _Decision(wait_after)
    retrying = AsyncRetrying(sleep=sleep, retry=decision.is_retryable, wait=decision.wait_s)
    return cast("T | AttemptFailure", await retrying(next_attempt))
