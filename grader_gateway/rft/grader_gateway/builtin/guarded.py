"""What our own graders share: nothing of theirs ever raises into the agent loop."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.grader_gateway.templates import Unresolved

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Score:
    """A grader's raw number."""

    value: float
    model_errors: tuple[str, ...] = ()
    """What was wrong with the model's answer where it cost the score."""
    elapsed_s: float | None = None
    """What judging took, where that is known better than by who waited for it."""


async def graded(name: str, trace_id: str, judge: Callable[[], Awaitable[Score | Failure]]) -> Grade | Failure:
    """The grade that a score becomes. An exception is ours and becomes a failure of the platform."""
    started_s = time.monotonic()
    try:
        verdict = await judge()
    except Exception as error:
        return broke(name, trace_id, error)
    if isinstance(verdict, Failure):
        return verdict
    return Grade(
        reward=verdict.value,
        scores={name: verdict.value},
        grader=name,
        latency_s=time.monotonic() - started_s if verdict.elapsed_s is None else verdict.elapsed_s,
        model_errors=verdict.model_errors,
    )


def broke(name: str, trace_id: str, error: Exception) -> Failure:
    """An exception of ours, logged, as a failure."""
    _log.error("the grade of %s broke on our side", trace_id, exc_info=error)
    message = f"grader {name!r} broke on our side ({type(error).__name__}: {error})"
    return Failure(stage=Stage.GRADER, code=FailureCode.INTERNAL_ERROR, message=message, endpoint=name, attempts=0)


def no_score(name: str, code: FailureCode, words: str, *, detail: str | None = None, elapsed_s: float = 0.0) -> Failure:
    """Why grader `name` has no score, in words its author can act on; `detail` as the contract calls it."""
    return Failure(
        stage=Stage.GRADER,
        code=code,
        message=f"grader {name!r} {words}",
        endpoint=name,
        detail=detail,
        elapsed_s=elapsed_s,
    )


SAMPLE_PARSE_ERROR = "sample_parse_error"
"""A template named what the model's answer does not have."""


def unresolved(name: str, variable: Unresolved) -> Score | Failure:
    """What a variable that names nothing means: the model's doing costs the score, the author's is a failure."""
    if variable.is_models_doing:
        return Score(0.0, (SAMPLE_PARSE_ERROR,))
    source = variable.variable.source
    words = f"has a template with {source!r}, which is not there"
    return no_score(name, FailureCode.INVALID_VARIABLE, words, detail="invalid_variable_error")
