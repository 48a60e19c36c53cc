"""From the grades of one sample to its results: passed, failed, or no verdict with whoever is to blame. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.grade import CODE_ERRORS, Grade, TokenUsage, total_usage
from rft.core.group import is_higher
from rft.platform.evals.output_item_repository import ItemStatus, ModelUsage


@dataclass(frozen=True, slots=True)
class Criterion:
    """One testing criterion of an eval."""

    id: str
    """By which results name it."""
    kind: str
    """The grader's type."""
    passing_score: float
    names_sample: bool
    """Whether one of its templates cannot be filled without a sample."""


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """Why a criterion has none, where no grader was asked."""

    code: str
    message: str
    fault: str = "item"
    """Whose doing: the item's, an endpoint's, the platform's."""
    stage: str = "item"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One sample under all criteria."""

    results: tuple[JsonObject, ...]
    scores: tuple[float | None, ...]
    passes: tuple[bool | None, ...]
    failure_code: str | None

    @property
    def status(self) -> ItemStatus:
        """An item passes when all criteria do; without one of the verdicts nobody can tell."""
        if None in self.passes:
            return "error"
        return "pass" if all(self.passes) else "fail"


def verdicts(criteria: Sequence[Criterion], outcomes: Sequence[Grade | Failure | NoVerdict]) -> Verdicts:
    """In the order of the criteria."""
    results: list[JsonObject] = []
    scores: list[float | None] = []
    passes: list[bool | None] = []
    code: str | None = None
    for criterion, outcome in zip(criteria, outcomes, strict=True):
        error = _error(outcome)
        score = outcome.reward if isinstance(outcome, Grade) and error is None else None
        passed = None if score is None else not is_higher(criterion.passing_score, than=score)
        scores.append(score)
        passes.append(passed)
        code = code or (None if error is None else str(error["code"]))
        results.append(_result(criterion, outcome, score, error, is_passed=bool(passed)))
    return Verdicts(tuple(results), tuple(scores), tuple(passes), code)


def judge_usage(outcomes: Sequence[Grade | Failure | NoVerdict]) -> dict[str, ModelUsage]:
    """Tokens of judge models and how often they were asked, by their names. Each part of a `multi` asks for itself."""
    asked = [outcome for outcome in outcomes if not isinstance(outcome, NoVerdict)]
    calls = [usage for outcome in asked for usage in _usage_by_call(outcome)]
    return {
        model: ModelUsage(**usage.model_dump(), calls=sum(model in call for call in calls))
        for model, usage in total_usage(outcome.usage for outcome in asked).items()
    }


def _usage_by_call(outcome: Grade | Failure) -> list[dict[str, TokenUsage]]:
    return [part.usage for part in outcome.parts.values()] or [outcome.usage]


def _error(outcome: Grade | Failure | NoVerdict) -> JsonObject | None:
    match outcome:
        case NoVerdict():
            return {
                "code": outcome.code,
                "message": outcome.message,
                "stage": outcome.stage,
                "fault": outcome.fault,
            }
        case Failure():
            return {
                "code": str(outcome.code),
                "message": outcome.message,
                "stage": str(outcome.stage),
                "fault": str(outcome.fault),
            }
        case Grade():
            # In training such an answer earns the contract's 0; here it would be a verdict that nobody gave.
            broken = [name for name in outcome.model_errors if name in CODE_ERRORS]
            if not broken:
                return None
            message = outcome.error_details or "the grader came to no score"
            return {"code": broken[0], "message": message, "stage": "grader", "fault": "endpoint"}


def _result(
    criterion: Criterion,
    outcome: Grade | Failure | NoVerdict,
    score: float | None,
    error: JsonObject | None,
    *,
    is_passed: bool,
) -> JsonObject:
    result: JsonObject = {
        "name": criterion.id,
        "type": f"{criterion.kind.replace('_', '-')}-grader",
        "score": score,
        "passed": is_passed,
        "sample": None,
        "error": error,
    }
    if isinstance(outcome, Grade):
        parts = {name: part.score for name, part in outcome.parts.items()}
        result |= {"sub_scores": dict(parts)} if parts else {}
        requests = {name: part.request for name, part in outcome.parts.items() if part.request is not None}
        result |= {"sub_requests": dict(requests)} if requests else {}
        result |= {} if outcome.request is None else {"request": outcome.request}
        replies = {name: part.reply for name, part in outcome.parts.items() if part.reply is not None}
        result |= {"sub_replies": dict(replies)} if replies else {}
        result |= {} if outcome.reply is None else {"reply": outcome.reply}
        result |= {"errors": list(outcome.model_errors)} if outcome.model_errors and error is None else {}
        result |= {"error_details": outcome.error_details} if outcome.error_details and error is None else {}
    return result
