"""Each rule of the advice: what it says, and when it keeps silent."""

from typing import Any

import pytest

from rft.core.failure import FailureCode, Stage
from rft.core.graders import EndpointGrader
from rft.rollouts.rehearsal_advice import advise, assumptions
from rft.rollouts.rehearsal_pace import OrderedCaps
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalPlan, RehearsalReport
from tests.shared.rehearsal_reports import endpoint

PLAN = RehearsalPlan(rows_per_step=16, group_size=8, rollouts=128, calls_per_rollout=3)


GRADER = EndpointGrader(name="judge", url="https://example.com/grade")


def told(
    *endpoints: EndpointReport, plan: RehearsalPlan = PLAN, cap: OrderedCaps | None = None, **changes: Any
) -> tuple[str, ...]:
    return advise(reported(*endpoints, **changes), plan, {endpoint().url: cap or OrderedCaps()})


def assumed(*endpoints: EndpointReport, cap: OrderedCaps | None = None) -> str:
    return "\n".join(assumptions(reported(*endpoints), PLAN, GRADER, {endpoint().url: cap or OrderedCaps()}))


def reported(*endpoints: EndpointReport, **changes: Any) -> RehearsalReport:
    report = RehearsalReport(
        rollouts=128,
        excluded_rollouts=0,
        excluded_share=0.0,
        unfinished_rollouts=0,
        unwritten_calls=0,
        wall_s=2.5,
        expected_step_s=2.5,
        own_delay_p95_ms=1.0,
        assumptions=(),
        endpoints=endpoints or (endpoint(),),
    )
    return report.model_copy(update=changes)


def test_no_errors_is_ready() -> None:
    assert told() == ("Ready: the step's burst of 128 rollouts went through without an error in 2.5 s.",)


def test_ready_says_how_much_was_played_when_that_was_not_the_whole_burst() -> None:
    plan = PLAN.model_copy(update={"rollouts": 100})
    assert told(plan=plan)[0].startswith("Ready: 100 rollouts went through")


def test_429_without_a_found_limit_asks_for_a_rate_limit() -> None:
    (sentence,) = told(endpoint(errors_by_code={FailureCode.RATE_LIMITED: 48}))
    assert sentence == "tool 'search' answered 429 to 12% of calls: set rate_limit to about 44/s or add capacity."


def test_429_beyond_a_found_limit_asks_for_a_cap() -> None:
    first, *_ = told(endpoint(errors_by_code={FailureCode.RATE_LIMITED: 48}, is_limit_found=True, safe_concurrency=38))
    assert first == "tool 'search' answered 429 to 12% of calls: set max_concurrency to about 38 or add capacity."


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (FailureCode.SERVER_ERROR, "answered 5xx in 25% of calls: look into its log."),
        (FailureCode.TIMEOUT, "gave no answer in time in 25% of calls"),
        (FailureCode.CONNECTION_RESET, "broke the connection in 25% of calls"),
        (FailureCode.CONNECT_ERROR, "could not be reached: check that it runs"),
        (FailureCode.TLS_ERROR, "check its certificate"),
        (FailureCode.BLOCKED_ADDRESS, "RFT_ALLOW_CIDRS"),
        (FailureCode.UNEXPECTED_STATUS, "register its final URL"),
        (FailureCode.UNAUTHORIZED, "answered 401, 403 or 407: check its headers"),
        (FailureCode.REJECTED, "rejected calls with a 4xx"),
        (FailureCode.INVALID_REPLY, '{"output": "..."}'),
        (FailureCode.INVALID_SCORE, '{"score": 0.5}'),
        (FailureCode.OVERSIZE_REPLY, "shorten its replies"),
        (FailureCode.INTERNAL_ERROR, "failed with internal_error in 25% of calls"),
    ],
)
def test_each_kind_of_error_has_its_remedy(code: FailureCode, message: str) -> None:
    (sentence,) = told(endpoint(errors_by_code={code: 100}))
    assert sentence.startswith("tool 'search' ")
    assert message in sentence


def test_a_grader_that_answers_no_json_is_told_what_is_expected_of_a_grader() -> None:
    (sentence,) = told(endpoint(errors_by_code={FailureCode.INVALID_REPLY: 100}, stage=Stage.GRADER))
    assert '{"score": 0.5}' in sentence


@pytest.mark.parametrize("code", list(FailureCode))
def test_every_code_is_told_in_a_whole_sentence(code: FailureCode) -> None:
    (sentence,) = told(endpoint(errors_by_code={code: 100}))
    assert sentence.endswith(".")


def test_5xx_under_load_asks_for_a_cap() -> None:
    first, second = told(
        endpoint(errors_by_code={FailureCode.SERVER_ERROR: 40}, is_limit_found=True, safe_concurrency=20)
    )
    assert "set max_concurrency to about 20 or add capacity" in first
    assert "bears about 20 calls at once and a step starts 128 rollouts" in second


def test_a_stray_error_that_a_retry_healed_is_not_worth_a_word() -> None:
    (sentence,) = told(endpoint(errors_by_code={FailureCode.SERVER_ERROR: 1}, rejections_by_status={422: 75}))
    assert sentence.endswith(
        "went through in 2.5 s. Attempts: 400; failed and made again: 1; answered with a 4xx, which a model would"
        " read: 75."
    )


@pytest.mark.parametrize(("rate", "shown"), [(0.004, "0.0040"), (0.0299, "0.029"), (0.5, "0.50"), (1.9, "1")])
def test_a_rate_that_is_advised_is_never_rounded_to_none(rate: float, shown: str) -> None:
    (sentence,) = told(endpoint(errors_by_code={FailureCode.RATE_LIMITED: 48}, answers_per_s=rate))
    assert f"set rate_limit to about {shown}/s" in sentence


def test_a_failed_call_is_shown() -> None:
    _, sentence = told(
        endpoint(
            errors_by_code={FailureCode.TIMEOUT: 1}, failed_calls=1, example_of_failure="tool 'search' gave no reply"
        )
    )
    assert sentence == "For example: tool 'search' gave no reply."


def test_excluded_rollouts_are_told_first() -> None:
    first, *_ = told(excluded_rollouts=13, excluded_share=0.1)
    assert first.startswith("10% of the rollouts ended in an endpoint's failure and would teach nothing")


def test_too_many_excluded_rollouts_would_hold_training() -> None:
    first, *_ = told(excluded_rollouts=64, excluded_share=0.5)
    assert "50% of the rollouts" in first
    assert "training would be held" in first


def test_rollouts_that_were_not_finished_are_told() -> None:
    first, *_ = told(unfinished_rollouts=30, expected_step_s=None)
    assert first.startswith("30 of 128 rollouts were not finished after 300 s")


@pytest.mark.parametrize(("status", "message"), [(401, "check its headers"), (403, "check its headers")])
def test_any_refused_credentials_are_told(status: int, message: str) -> None:
    (sentence,) = told(endpoint(rejections_by_status={status: 3}))
    assert message in sentence


def test_many_404s_point_at_the_url_and_few_do_not() -> None:
    (sentence,) = told(endpoint(rejections_by_status={404: 200}))
    assert sentence == "tool 'search' answered 404 to 50% of calls: check its URL."
    assert told(endpoint(rejections_by_status={404: 20}))[0].startswith("Ready")


def test_many_400s_may_be_due_to_made_up_arguments() -> None:
    (sentence,) = told(endpoint(rejections_by_status={400: 200}))
    assert "The arguments were made up" in sentence


def test_tools_behind_one_url_get_one_sentence_about_their_capacity() -> None:
    (sentence,) = told(
        endpoint(is_limit_found=True, safe_concurrency=38),
        endpoint(name="cat", is_limit_found=True, safe_concurrency=38),
    )
    assert sentence.startswith("tool 'search' and tool 'cat' together bear about 38 calls at once")


def test_a_limit_above_the_burst_does_not_matter() -> None:
    assert told(endpoint(is_limit_found=True, safe_concurrency=128))[0].startswith("Ready")


def test_slow_tools_make_rollouts_wait_for_each_call() -> None:
    (sentence,) = told(endpoint(p95_ms=8_200.0))
    assert "has a p95 of 8.2 s: a rollout with 3 such calls in a row waits 25 s" in sentence


def test_a_slow_grader_is_waited_for_once() -> None:
    (sentence,) = told(endpoint(stage=Stage.GRADER, name="judge", p95_ms=8_200.0))
    assert sentence.startswith("grader 'judge' has a p95 of 8.2 s: a rollout with a grade waits 8 s")


HOOK_URL = "https://example.com/hook"
CROWDED_HOOK = endpoint(
    name="search (rollout callback)", url=HOOK_URL, is_callback=True, is_limit_found=True, safe_concurrency=8
)


def test_a_slow_callback_is_waited_for_once() -> None:
    slow = endpoint(name="search (rollout callback)", url=HOOK_URL, is_callback=True, p95_ms=20_000.0)
    (sentence,) = told(slow)
    assert sentence == (
        "tool 'search (rollout callback)' has a p95 of 20.0 s: a rollout waits 20 s for it before its first sample,"
        " and the step waits for its slowest rollout."
    )


def test_a_crowded_callback_has_no_max_concurrency_to_be_set() -> None:
    refused, sentence = told(CROWDED_HOOK.model_copy(update={"errors_by_code": {FailureCode.RATE_LIMITED: 48}}))
    assert refused.endswith("answered 429 to 12% of calls: order a smaller burst or add capacity.")
    assert sentence == (
        "tool 'search (rollout callback)' bears about 8 calls at once and a step starts 128 rollouts: further calls"
        " only wait. Add capacity for a faster step, or order a smaller burst (batch_size, compute_multiplier)."
    )


def test_a_callback_at_a_tools_own_address_has_the_tools_cap() -> None:
    shared = CROWDED_HOOK.model_copy(update={"url": endpoint().url, "errors_by_code": {FailureCode.TIMEOUT: 48}})
    refused, sentence = told(shared, endpoint(is_limit_found=True, safe_concurrency=8))
    assert "set max_concurrency to about 8 or add capacity" in refused
    assert sentence.endswith("Set max_concurrency to 8, or add capacity for a faster step.")


def test_a_callback_that_fails_before_its_limit_is_found_has_no_rate_limit_to_be_set() -> None:
    free = CROWDED_HOOK.model_copy(update={"is_limit_found": False, "queued_p95_ms": 4_000.0})
    refusing = free.model_copy(update={"errors_by_code": {FailureCode.RATE_LIMITED: 48}})
    said = [*told(free), *told(refusing)]
    assert not [sentence for sentence in said if "rate_limit" in sentence or "max_concurrency" in sentence]


def test_a_callback_that_was_not_called_is_no_tool_that_rows_must_describe() -> None:
    silent = CROWDED_HOOK.model_copy(update={"calls": 0, "attempts": 0, "safe_concurrency": None, "p95_ms": None})
    assert told(silent, endpoint())[0].startswith("Ready")


@pytest.mark.parametrize(
    ("cap", "raised"),
    [
        (OrderedCaps(max_concurrency=128), "raise its max_concurrency."),
        (OrderedCaps(max_concurrency=500, rate_limit=10.0), "raise its rate_limit."),
        (OrderedCaps(max_concurrency=100, rate_limit=10.0), "raise its rate_limit or max_concurrency."),
    ],
)
def test_calls_that_wait_for_the_customers_own_cap_are_told(cap: OrderedCaps, raised: str) -> None:
    waiting = endpoint(queued_p95_ms=4_000.0)
    (sentence,) = told(waiting, cap=cap)
    assert "waited up to 4.0 s on our side" in sentence
    assert sentence.endswith(raised)
    assert "waited" not in assumed(waiting, cap=cap)


@pytest.mark.parametrize("cap", [None, OrderedCaps(max_concurrency=500)])
def test_calls_that_waited_because_we_began_with_few_are_no_caps_doing(cap: OrderedCaps | None) -> None:
    waiting = endpoint(queued_p95_ms=4_000.0)
    assert told(waiting, cap=cap)[0].startswith("Ready")
    assert "Calls to tool 'search' waited up to 4.0 s because we begin with few at once" in assumed(waiting, cap=cap)


@pytest.mark.parametrize(
    ("unwritten", "why"),
    [
        (0, "the 3 calls of each rollout went to other tools (calls_per_rollout)."),
        (3, "no arguments could be made up for it."),
    ],
)
def test_tools_that_were_never_called_are_told(unwritten: int, why: str) -> None:
    silent = endpoint(calls=0, attempts=0, safe_concurrency=None, answers_per_s=None, p95_ms=None)
    *_, sentence = told(silent, unwritten_calls=unwritten)
    assert sentence == f"tool 'search' was never called: no row of this rehearsal describes it, or {why}"


def test_calls_that_could_not_be_made_up_are_told() -> None:
    (sentence,) = told(unwritten_calls=7)
    assert sentence.startswith("7 calls were left out")


@pytest.mark.parametrize(("count", "message"), [(3, "under 1%"), (399, "over 99%"), (400, "100%")])
def test_shares_are_never_rounded_to_nothing_or_all(count: int, message: str) -> None:
    (sentence,) = told(endpoint(errors_by_code={FailureCode.TIMEOUT: count}))
    assert f"in {message} of calls" in sentence
