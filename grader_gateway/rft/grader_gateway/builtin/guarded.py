"""What our own graders share: nothing of theirs ever raises into the agent loop."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rft.core.failure import SCORE_OUT_OF_BOUNDS, Failure, FailureCode, Stage
from rft.core.grade import SAMPLE_PARSE_ERROR, Grade, score_problem
from rft.grader_gateway.templates import MAX_RENDERED_CHARS, TooLong, Unrenderable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Score:
    """A grader's raw number."""

    value: float
    elapsed_s: float | None = None
    """What judging took, where that is known better than by who waited for it."""


@dataclass(frozen=True, slots=True)
class NoScore:
    """The grader came to no score on this answer: the contract grades that."""

    error: str
    """Under the contract's name."""
    details: str
    elapsed_s: float = 0.0


async def graded(
    name: str, trace_id: str, score: Callable[[], Awaitable[Score | NoScore | Failure]], *, invalid_grade: float = 0.0
) -> Grade | Failure:
    """The grade that a score becomes. An exception is ours and becomes a failure of the platform."""
    started_s = time.monotonic()
    try:
        verdict = await score()
    except Exception as error:
        return broke(name, trace_id, error)
    if isinstance(verdict, Failure):
        return verdict
    if isinstance(verdict, NoScore):
        return not_judged(name, invalid_grade, verdict)
    elapsed_s = time.monotonic() - started_s if verdict.elapsed_s is None else verdict.elapsed_s
    if problem := score_problem(verdict.value):
        return out_of_bounds(name, problem, elapsed_s=elapsed_s)
    return Grade(
        reward=verdict.value,
        scores={name: verdict.value},
        grader=name,
        latency_s=elapsed_s,
    )


def not_judged(name: str, grade: float, why: NoScore) -> Grade:
    """The contract's grade of an answer on which grader `name` came to no score."""
    return invalid(name, grade, why.error, f"grader {name!r} {why.details}", elapsed_s=why.elapsed_s)


def invalid(name: str, grade: float, error: str, details: str, *, elapsed_s: float = 0.0) -> Grade:
    """The contract's grade of an answer that could not be judged."""
    return Grade(
        reward=grade,
        scores={name: grade},
        grader=name,
        latency_s=elapsed_s,
        model_errors=(error,),
        error_details=details,
        is_invalid=True,
    )


def out_of_bounds(name: str, problem: str, *, elapsed_s: float = 0.0) -> Failure:
    """A number that the order's own code or formula made, and that is no score."""
    problem = f"gave the score {problem}"
    return no_score(name, FailureCode.INVALID_SCORE, problem, detail=SCORE_OUT_OF_BOUNDS, elapsed_s=elapsed_s)


def broke(name: str, trace_id: str, error: Exception) -> Failure:
    """An exception of ours, logged, as a failure."""
    _log.error("the grade of %s broke on our side", trace_id, exc_info=error)
    message = f"grader {name!r} broke on our side ({type(error).__name__}: {error})"
    return Failure(stage=Stage.GRADER, code=FailureCode.INTERNAL_ERROR, message=message, endpoint=name, attempts=0)


def no_score(
    name: str, code: FailureCode, problem: str, *, detail: str | None = None, elapsed_s: float = 0.0
) -> Failure:
    """Why grader `name` has no score, in words its author can act on; `detail` as the contract calls it."""
    return Failure(
        stage=Stage.GRADER,
        code=code,
        message=f"grader {name!r} {problem}",
        endpoint=name,
        detail=detail,
        elapsed_s=elapsed_s,
    )


def unrendered(name: str, problem: Unrenderable) -> NoScore | Failure:
    """What a template without a text means: the model's doing costs the score, the author's is a failure."""
    if isinstance(problem, TooLong):
        message = f"has templates that become more than {MAX_RENDERED_CHARS:,} characters with this row and rollout"
        return no_score(name, FailureCode.OVERSIZE_REQUEST, message)
    source = problem.variable.source
    if problem.is_models_doing:
        return NoScore(SAMPLE_PARSE_ERROR, f"names {source!r}, which the answer does not have")
    message = f"has a template with {source!r}, which is not there"
    return no_score(name, FailureCode.INVALID_VARIABLE, message, detail="invalid_variable_error")
