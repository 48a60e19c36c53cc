"""When evaluations end a run, and when they do not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.spec import EarlyStop
from rft.trainer.early_stop import EvaluatedStep, early_stop_notice

REWARDS = st.lists(st.integers(0, 1000).map(lambda thousandths: thousandths / 1000), min_size=1, max_size=12)
ROUNDED = 0.6 + 0.3 + 0.1
"""What the parts of a full score come to: a little less than 1."""


def course(valid: list[float], train: list[float] | None = None) -> list[EvaluatedStep]:
    """Evaluations every second step; step 0 has no training before it."""
    trained: list[float | None] = [None, *(train or [0.5] * (len(valid) - 1))]
    return [EvaluatedStep(step=2 * i, valid=v, train=t) for i, (v, t) in enumerate(zip(valid, trained, strict=True))]


def reason(rule: EarlyStop, evaluated: list[EvaluatedStep]) -> Any:
    notice = early_stop_notice(rule, evaluated)
    return None if notice is None or notice.data is None else notice.data["reason"]


@given(REWARDS)
def test_without_rules_nothing_ends(valid: list[float]) -> None:
    assert early_stop_notice(EarlyStop(), course(valid)) is None


@pytest.mark.parametrize(("last", "expected"), [(0.79, None), (0.8, "target"), (1.0, "target")])
def test_a_target_counts_from_its_value_on(last: float, expected: str | None) -> None:
    assert reason(EarlyStop(target_reward=0.8), course([0.9, last])) == expected


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_rounding_keeps_nothing_from_its_target_and_is_neither_rise_nor_fall(scale: float) -> None:
    full, rounded = scale, scale * ROUNDED
    assert rounded < full
    assert reason(EarlyStop(target_reward=full), course([0.0, rounded])) == "target"
    assert reason(EarlyStop(plateau_evaluations=2), course([rounded, full, rounded])) == "plateau"
    rule, half = EarlyStop(overfitting_evaluations=2), scale / 2
    assert reason(rule, course([2 * full, full, rounded], [half, full])) is None
    assert reason(rule, course([3 * full, 2 * full, full], [rounded, full])) is None


def test_a_plateau_needs_its_whole_length_and_names_what_was_best() -> None:
    rule = EarlyStop(plateau_evaluations=2)
    assert reason(rule, course([0.5])) is None
    assert reason(rule, course([0.5, 0.4])) is None
    assert reason(rule, course([0.2, 0.5, 0.4, 0.6])) is None
    notice = early_stop_notice(rule, course([0.2, 0.5, 0.4, 0.5]))
    assert notice is not None
    assert notice.message == (
        "Training ends with step 6: none of the last 2 evaluations was better than the 0.500 of step 2."
        " The best checkpoint is kept"
    )
    assert notice.data is not None
    evidence: Any = notice.data["evidence"]
    assert [one["step"] for one in evidence] == [2, 4, 6]


@given(REWARDS, st.integers(1, 5))
def test_a_plateau_is_one_exactly_when_the_best_is_older(valid: list[float], length: int) -> None:
    first_best = valid.index(max(valid))
    is_flat = len(valid) - 1 - first_best >= length
    assert (reason(EarlyStop(plateau_evaluations=length), course(valid)) == "plateau") == is_flat


@pytest.mark.parametrize(
    ("valid", "train", "expected"),
    [
        ([0.6, 0.5, 0.4], [0.5, 0.6], "overfitting"),
        ([0.9, 0.6, 0.5, 0.4], [0.1, 0.5, 0.6], "overfitting"),
        ([0.6, 0.5, 0.5], [0.5, 0.6], None),
        ([0.6, 0.5, 0.4], [0.6, 0.6], None),
        ([0.6, 0.5], [0.6], None),
    ],
    ids=["falls and rises", "the first one has no training", "does not fall", "does not rise", "too few"],
)
def test_overfitting_is_a_fall_against_a_rise(valid: list[float], train: list[float], expected: str | None) -> None:
    assert reason(EarlyStop(overfitting_evaluations=2), course(valid, train)) == expected


@pytest.mark.parametrize(
    ("trained", "expected"),
    [
        ([0.5, None, 0.6], None),
        ([0.5, 0.6, None], None),
        ([None, 0.5, 0.6], "overfitting"),
        ([0.7, 0.5, 0.6], None),
        ([None, 0.8, None, 0.5, 0.6], None),
        ([None, 0.8, 0.4, 0.5, 0.6], "overfitting"),
    ],
)
def test_training_that_nothing_tells_of_has_not_risen(trained: list[float | None], expected: str | None) -> None:
    """But on the way to step 0, where there is none: the rise is on the ways after it."""
    valid = [0.9, 0.95, 0.9, 0.8, 0.7] if len(trained) > 3 else [0.9, 0.8, 0.7]
    evaluated = [EvaluatedStep(step=5 * i, valid=valid[i], train=train) for i, train in enumerate(trained)]
    assert reason(EarlyStop(overfitting_evaluations=2), evaluated) == expected
