"""The retry decision, and that tenacity follows it."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rft.core.failure import FailureCode
from rft.core.spec import RetryBudget
from rft.egress.reply import AttemptFailure
from rft.egress.retry import RETRYABLE, decide, drive, parse_retry_after

BUDGET = RetryBudget(max_retries=3, total_s=100.0, first_wait_s=0.5, max_wait_s=4.0)
DOWN = AttemptFailure(FailureCode.SERVER_ERROR, "down", status=503)


def wait(failure: AttemptFailure = DOWN, attempt: int = 1, elapsed_s: float = 0.0, draw: float = 1.0, *, is_safe: bool = True) -> float | None:  # fmt: skip  # noqa: E501
    return decide(failure, attempt=attempt, elapsed_s=elapsed_s, budget=BUDGET, jitter_draw=draw, is_safe=is_safe)


def test_the_wait_doubles_up_to_its_ceiling() -> None:
    generous = RetryBudget(max_retries=9, total_s=1000.0, first_wait_s=0.5, max_wait_s=4.0)
    waits = [decide(DOWN, attempt=n, elapsed_s=0, budget=generous, jitter_draw=1.0, is_safe=True) for n in range(1, 8)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0]


def test_the_jitter_is_full() -> None:
    assert wait(draw=0.0) == 0.0
    assert wait(draw=0.25, attempt=2) == 0.25


def test_max_retries_counts_retries_not_attempts() -> None:
    assert wait(attempt=3) is not None
    assert wait(attempt=4) is None


@pytest.mark.parametrize("code", FailureCode)
def test_every_code_has_a_treatment(code: FailureCode) -> None:
    assert (wait(AttemptFailure(code, "x")) is not None) == (code in RETRYABLE)


def test_a_4xx_is_never_retried() -> None:
    assert wait(AttemptFailure(FailureCode.REJECTED, "no", status=404, retry_after_s=1.0)) is None


def test_an_unsafe_call_is_repeated_only_if_it_surely_did_not_arrive() -> None:
    assert wait(is_safe=False) is None
    assert wait(AttemptFailure(FailureCode.RATE_LIMITED, "x", status=429), is_safe=False) is not None
    assert wait(AttemptFailure(FailureCode.CONNECT_ERROR, "x", surely_not_sent=True), is_safe=False) is not None


def test_retry_after_is_obeyed_within_the_budget() -> None:
    asked = AttemptFailure(FailureCode.RATE_LIMITED, "slow down", retry_after_s=30.0)
    assert wait(asked, draw=0.0) == 30.0
    assert wait(asked, elapsed_s=69.0, draw=0.0) == 30.0
    assert wait(asked, elapsed_s=70.0, draw=0.0) is None


def test_no_attempt_is_made_that_the_budget_would_cut_off() -> None:
    for elapsed_s, is_made in ((BUDGET.total_s - 21.0, True), (BUDGET.total_s - 19.0, False)):
        wait_s = decide(
            DOWN, attempt=1, elapsed_s=elapsed_s, budget=BUDGET, jitter_draw=0.0, is_safe=True, least_s=20.0
        )
        assert (wait_s is not None) is is_made


@given(
    code=st.sampled_from(FailureCode),
    attempt=st.integers(1, 10_000),
    elapsed_s=st.floats(0, 1e6),
    draw=st.floats(0, 1),
    asked_s=st.none() | st.floats(0, 1e9),
    is_safe=st.booleans(),
    budget=st.builds(
        RetryBudget,
        max_retries=st.integers(0, 10),
        total_s=st.floats(0, 1e5),
        first_wait_s=st.floats(0, 100),
        max_wait_s=st.floats(0, 1000),
    ),
)
def test_no_wait_leaves_the_budget(
    code: FailureCode,
    attempt: int,
    elapsed_s: float,
    draw: float,
    asked_s: float | None,
    *,
    is_safe: bool,
    budget: RetryBudget,
) -> None:
    failure = AttemptFailure(code, "x", retry_after_s=asked_s)
    wait_s = decide(failure, attempt=attempt, elapsed_s=elapsed_s, budget=budget, jitter_draw=draw, is_safe=is_safe)
    if wait_s is not None:
        assert attempt <= budget.max_retries
        assert (asked_s or 0.0) <= wait_s <= (asked_s or 0.0) + budget.max_wait_s
        assert elapsed_s + wait_s < budget.total_s


NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("Sun, 01 Mar 2026 12:00:20 GMT", 20.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Sunday, 01-Mar-26 12:00:20 GMT", 20.0),
        ("Sun, 01 Mar 2026 12:00:20 -0000", 20.0),
        ("Sun, 01 Mar 2026 14:00:20 +0200", 20.0),
        ("-3", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("99999999999999999999", None),
        ("Sun, 01 Mar 99999 12:00:20 GMT", None),
    ],
)
def test_retry_after_in_both_forms(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, now_s=NOW.timestamp()) == seconds


@given(st.text(max_size=60))
@example("0\x1f")
def test_no_retry_after_breaks_the_parser(value: str) -> None:
    parsed = parse_retry_after(value, now_s=0.0)
    assert parsed is None or parsed >= 0


@given(st.integers(0, 10**6))
def test_dates_are_relative_to_now(seconds: int) -> None:
    date = format_datetime(datetime.fromtimestamp(NOW.timestamp() + seconds, UTC), usegmt=True)
    assert parse_retry_after(date, now_s=NOW.timestamp()) == seconds


@given(st.lists(st.floats(0, 10), max_size=8), st.booleans())
async def test_tenacity_follows_the_decision_to_the_letter(waits: list[float], ends_well: bool) -> None:
    slept: list[float] = []
    attempts = 0

    async def attempt() -> str | AttemptFailure:
        nonlocal attempts
        attempts += 1
        return "fine" if ends_well and attempts == len(waits) + 1 else DOWN

    async def sleep(wait_s: float) -> None:
        slept.append(wait_s)

    def wait_after(failure: AttemptFailure, number: int) -> float | None:
        assert failure is DOWN
        assert number == attempts
        return waits[number - 1] if number <= len(waits) else None

    outcome = await drive(attempt, wait_after=wait_after, sleep=sleep)
    assert outcome == ("fine" if ends_well else DOWN)
    assert attempts == len(waits) + 1
    assert slept == waits


async def test_an_exception_is_not_retried() -> None:
    attempts = 0

    async def attempt() -> str | AttemptFailure:
        nonlocal attempts
        attempts += 1
        raise RuntimeError("a mistake of ours")

    with pytest.raises(RuntimeError, match="a mistake of ours"):
        await drive(attempt, wait_after=lambda failure, number: 0.0)
    assert attempts == 1
