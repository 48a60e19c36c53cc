"""What went wrong in a dry run, under the contract's names (contract section 1.10)."""

from collections.abc import Iterable

from pydantic import BaseModel

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import FORMULA_ERROR, Grade, PartOutcome
from rft.core.graders import GraderSpec, MultiGrader
from rft.grader_gateway.judge import CUT_OFF, REFUSED
from rft.grader_gateway.judge_answer import UNREADABLE


class GraderErrors(BaseModel):
    """What went wrong, under the contract's names."""

    formula_parse_error: bool = False
    sample_parse_error: bool = False
    sample_parse_error_details: str | None = None
    truncated_observation_error: bool = False
    """Never set: what a dry run grades is whole."""
    unresponsive_reward_error: bool = False
    """Never set: a dry run has an answer, if an empty one. A job counts them in `mean_unresponsive_rewards`."""
    invalid_variable_error: bool = False
    invalid_variable_error_details: str | None = None
    other_error: bool = False
    python_grader_server_error: bool = False
    python_grader_server_error_type: str | None = None
    python_grader_runtime_error: bool = False
    python_grader_runtime_error_details: str | None = None
    model_grader_server_error: bool = False
    model_grader_server_error_details: str | None = None
    model_grader_refusal_error: bool = False
    model_grader_refusal_error_details: str | None = None
    model_grader_parse_error: bool = False
    model_grader_parse_error_details: str | None = None
    model_grader_exceeded_max_tokens_error: bool = False
    endpoint_grader_internal_error: bool = False
    endpoint_grader_internal_error_details: str | None = None
    endpoint_grader_server_error: bool = False
    endpoint_grader_server_error_details: str | None = None
    endpoint_grader_safety_check_error: bool = False


def errors_of(spec: GraderSpec, outcome: Grade | Failure) -> GraderErrors:
    """Of the grader and, where it has parts, of all of them."""
    if isinstance(outcome, Grade):
        details = None if outcome.parts else outcome.error_details
        own = _flags(_of_model(outcome.model_errors, details))
        return _together([*errors_of_parts(spec, outcome).values(), own])
    if not isinstance(spec, MultiGrader):
        return _flags(_named(spec.type, outcome))
    is_of_a_part = any(part.failure_code is not None for part in outcome.parts.values())
    own = [] if is_of_a_part else [_flags(_named(spec.type, outcome))]
    return _together([*errors_of_parts(spec, outcome).values(), *own])


def errors_of_parts(spec: GraderSpec, outcome: Grade | Failure) -> dict[str, GraderErrors]:
    """Of each part of a multi grader, by variable name."""
    if not isinstance(spec, MultiGrader):
        return {}
    return {name: _of_part(spec.graders[name].type, part) for name, part in outcome.parts.items()}


def _of_part(kind: str, part: PartOutcome) -> GraderErrors:
    found = _of_model(part.model_errors, part.error_details)
    if part.failure_code is not None:
        failure = Failure(
            stage=Stage.GRADER,
            code=FailureCode(part.failure_code),
            message=part.failure_message or "",
            detail=part.failure_detail,
        )
        found |= _named(kind, failure)
    return _flags(found)


def _of_model(errors: Iterable[str], details: str | None) -> dict[str, bool | str]:
    """What cost an answer its score."""
    found: dict[str, bool | str] = {}
    for name in errors:
        found[name] = True
        if details is not None and f"{name}_details" in GraderErrors.model_fields:
            found[f"{name}_details"] = details
    return found


def _together(of_parts: Iterable[GraderErrors]) -> GraderErrors:
    """Every flag that one of them has; details of the same kind, a line each."""
    found: dict[str, bool | str] = {}
    for errors in of_parts:
        for name, value in errors.model_dump(exclude_defaults=True).items():
            earlier = found.get(name)
            found[name] = f"{earlier}\n{value}" if isinstance(earlier, str) and earlier != value else value
    return _flags(found)


def _flags(found: dict[str, bool | str]) -> GraderErrors:
    return GraderErrors.model_validate(found)


def _named(kind: str, failure: Failure) -> dict[str, bool | str]:
    """The contract's name of a failure, and its details where it has a place for them."""
    if failure.stage is not Stage.GRADER:
        return {"other_error": True}
    if failure.code is FailureCode.INVALID_VARIABLE:
        return _with_details("invalid_variable_error", failure)
    is_ours = failure.code is FailureCode.INTERNAL_ERROR
    match kind:
        case "multi" if failure.detail == FORMULA_ERROR:
            return {FORMULA_ERROR: True}
        case "python" if is_ours:
            return {"python_grader_server_error": True, "python_grader_server_error_type": str(failure.code)}
        case "python":
            return _with_details("python_grader_runtime_error", failure)
        case "score_model" | "label_model" | "ruler":
            return _judge_error(failure)
        case "endpoint" if failure.code is FailureCode.BLOCKED_ADDRESS:
            return {"endpoint_grader_safety_check_error": True}
        case "endpoint":
            return _with_details(f"endpoint_grader_{'internal' if is_ours else 'server'}_error", failure)
        case _:
            return {"other_error": True}


def _judge_error(failure: Failure) -> dict[str, bool | str]:
    if failure.detail == CUT_OFF:
        return {CUT_OFF: True}
    is_about_answer = failure.detail in (REFUSED, UNREADABLE)
    return _with_details(failure.detail if is_about_answer and failure.detail else "model_grader_server_error", failure)


def _with_details(name: str, failure: Failure) -> dict[str, bool | str]:
    return {name: True, f"{name}_details": failure.message}
