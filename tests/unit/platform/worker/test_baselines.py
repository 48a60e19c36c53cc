"""What a baseline's rollouts come to: failures are excluded and counted, and nothing is told that is not known."""

from dataclasses import replace

import pytest

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.rollout import StopReason
from rft.platform.providers.schemas import PricePerMillion
from rft.platform.worker.baselines import baseline_figures, message_of
from rft.rollouts.chat_policy import UNUSABLE_MODEL, ChatUsage
from rft.rollouts.measure_model import MeasuredModel
from rft.rollouts.message_rollout import MessageRollout

BUSY = Failure(stage=Stage.SAMPLER, code=FailureCode.RATE_LIMITED, message="Provider 'acme' answered 429")
PRICE = PricePerMillion(prompt=1.0, cached_prompt=0.5, completion=4.0)


def rollout(row: int, outcome: Grade | Failure | float) -> MessageRollout:
    return MessageRollout(
        row_index=row,
        trace_id=f"trace_{row}",
        messages=(),
        turns=(),
        stop_reason=StopReason.COMPLETED,
        outcome=outcome if isinstance(outcome, Grade | Failure) else Grade(reward=outcome, grader="g"),
        usage=ChatUsage(prompt_tokens=1_000_000, cached_tokens=400_000, completion_tokens=250_000, reasoning_tokens=9),
        turns_without_usage=0,
        answers_without_turn=0,
        models=("m",),
        duration_s=1.0,
        sampling_s=1.0,
        tools_s=0.0,
        grading_s=0.0,
    )


def test_failures_are_in_no_mean_and_counted() -> None:
    measured = MeasuredModel([rollout(0, 1.0), rollout(1, 0.0), rollout(2, BUSY), rollout(3, 1.0), rollout(3, 1.0)])
    figures = baseline_figures("acme/small", measured, price=PRICE)
    assert figures.reward is not None
    assert (figures.reward.mean, figures.reward.rows) == (pytest.approx(2 / 3), 3)
    assert (figures.rollouts, figures.graded, figures.failures) == (5, 4, {"rate_limited": 1})
    assert (figures.prompt_tokens, figures.cached_tokens, figures.completion_tokens) == (
        5_000_000,
        2_000_000,
        1_250_000,
    )
    assert figures.cost == pytest.approx(3.0 + 1.0 + 5.0)
    assert figures.error is None
    message = message_of(figures)
    assert message.startswith("The baseline acme/small earns 0.667 [")
    assert message.endswith("4 rollouts; 1 failed and are in no figure (rate_limited 1)")


def test_where_nothing_was_graded_there_is_no_figure_but_the_reason() -> None:
    figures = baseline_figures("acme/small", MeasuredModel([rollout(0, BUSY), rollout(1, BUSY)]))
    assert (figures.reward, figures.graded, figures.failures) == (None, 0, {"rate_limited": 2})
    assert "429" in message_of(figures)


def test_a_model_that_cannot_be_asked_has_no_figure_although_some_were_graded() -> None:
    gone = BUSY.model_copy(update={"detail": UNUSABLE_MODEL, "message": "Provider 'acme' answered 401"})
    figures = baseline_figures("acme/small", MeasuredModel([rollout(0, 1.0), rollout(1, gone)], gone))
    assert (figures.reward, figures.error) == (None, "Provider 'acme' answered 401")


def test_what_it_cost_is_not_told_where_tokens_are_not() -> None:
    one = replace(rollout(0, 1.0), turns_without_usage=1)
    assert baseline_figures("acme/small", MeasuredModel([one]), price=PRICE).cost is None
    assert baseline_figures("acme/small", MeasuredModel([rollout(0, 1.0)])).cost is None


def test_no_rows_tell_nothing() -> None:
    figures = baseline_figures("acme/small", MeasuredModel())
    assert (figures.reward, figures.rollouts, figures.error) == (None, 0, None)
