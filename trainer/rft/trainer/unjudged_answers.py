"""Answers of a round that could not be judged as they were: where nearly all are so, and where that is rewarded."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rft.core.base import JsonObject
from rft.core.grade import SAMPLE_PARSE_ERROR, Grade
from rft.core.group import Group
from rft.core.refused_calls import NEARLY_ALL

_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class UnjudgedAnswers:
    """What is to be told of them."""

    message: str
    """A sentence with counts."""
    data: JsonObject


def nearly_all_unjudged(groups: Sequence[Group]) -> UnjudgedAnswers | None:
    """Where nearly every grade is the contract's (`sample_parse_error`); None where other answers are as frequent."""
    outcomes = [rollout.outcome for group in groups for rollout in group.rollouts]
    grades = [outcome for outcome in outcomes if isinstance(outcome, Grade)]
    unjudged = [grade for grade in grades if SAMPLE_PARSE_ERROR in grade.model_errors]
    if not unjudged or len(unjudged) <= NEARLY_ALL * len(grades):
        return None
    example = (unjudged[0].error_details or "no details")[:_SHOWN_CHARS]
    return UnjudgedAnswers(
        message=f"nearly no answer could be judged: of {len(grades):,} in the last step, {len(unjudged):,} ended with"
        f" {SAMPLE_PARSE_ERROR}, for example: {example}.",
        data={"grades": len(grades), SAMPLE_PARSE_ERROR: len(unjudged)},
    )


def rewarded_unjudged(groups: Sequence[Group]) -> UnjudgedAnswers | None:
    """Answers without a judgment whose grade is above those of judged answers of their rows; None where none is."""
    rewarded = [
        rollout.outcome
        for group in groups
        for rollout, advantage in zip(group.rollouts, group.advantages_G, strict=True)
        if isinstance(rollout.outcome, Grade) and rollout.outcome.is_invalid and advantage is not None and advantage > 0
    ]
    if not rewarded:
        return None
    errors = Counter(error for grade in rewarded for error in grade.model_errors)
    example = (rewarded[0].error_details or "no details")[:_SHOWN_CHARS]
    return UnjudgedAnswers(
        message=f"{len(rewarded):,} answers that could not be judged ({', '.join(errors)}) were graded"
        f" {rewarded[0].reward:g}, more than judged answers of their rows are on average: the policy is trained to give"
        f" more of them. For example: {example}.",
        data={"rewarded": len(rewarded), **errors},
    )
