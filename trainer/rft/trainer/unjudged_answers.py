"""Answers of a round that could not be judged as they were, where nearly all are so. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from rft.core.base import JsonObject
from rft.core.grade import SAMPLE_PARSE_ERROR, Grade
from rft.core.group import Group
from rft.core.refused_calls import NEARLY_ALL

_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class UnjudgedAnswers:
    """Nearly every grade of a round is the contract's: `sample_parse_error`."""

    message: str
    """A sentence with counts."""
    data: JsonObject


def nearly_all_unjudged(groups: Sequence[Group]) -> UnjudgedAnswers | None:
    """None where other answers are as frequent."""
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
