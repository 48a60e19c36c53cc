"""Dry runs of graders and tools on the wire (contract sections 1.10 and 2.5)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade, TokenUsage
from rft.core.graders import GraderSpec, LabelModelGrader, LeafGrader, MultiGrader, RulerGrader, ScoreModelGrader
from rft.grader_gateway.builtin.multi import FORMULA_ERROR
from rft.grader_gateway.judge import CUT_OFF, REFUSED, UNREADABLE
from rft.platform.api.wire import TextBody, must_be
from rft.platform.registry.references import GraderOrReference
from rft.platform.tools.fields import EndpointUrl, Headers, either_url, with_server_url

TraceId = Annotated[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")],
    must_be("1 to 128 letters, digits, underscores, dots, colons and dashes"),
]


class GraderRun(TextBody):
    """Grade one answer, without a job."""

    grader: GraderOrReference
    model_sample: Annotated[str, must_be("a text")]
    """What the model answered: `sample.output_text`, and `sample.output_json` where it is JSON."""
    item: Annotated[dict[str, JsonValue], must_be("an object")] | None = None
    """The dataset row."""
    trace_id: TraceId | None = None
    """Invented when absent."""


class GraderValidate(TextBody):
    """Check a grader, without calling anybody."""

    grader: GraderOrReference


class GraderValidated(BaseModel):
    """The grader as it would be stored: named, header values masked."""

    grader: dict[str, JsonValue]


class GraderErrors(BaseModel):
    """What went wrong, under the contract's names."""

    formula_parse_error: bool = False
    sample_parse_error: bool = False
    sample_parse_error_details: str | None = None
    truncated_observation_error: bool = False
    unresponsive_reward_error: bool = False
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


class JudgeTokens(BaseModel):
    """What a judge model read and wrote."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: int


class GraderRunMetadata(BaseModel):
    """How the grade came about."""

    name: str
    type: str
    execution_time: float
    """Seconds."""
    scores: dict[str, float]
    """Each grader's raw number by name."""
    token_usage: int | None
    """Of all judge models; None where none was asked."""
    sampled_model_name: str | None
    """The judge model, where there is exactly one."""
    errors: GraderErrors


class GraderRunObject(BaseModel):
    """The grade of one answer."""

    reward: float
    """0 where there is none: the contract has no word for that, `failure` has."""
    sub_rewards: dict[str, float]
    """Scores of a multi grader's parts, also where it has none itself."""
    model_grader_token_usage_per_model: dict[str, JudgeTokens]
    metadata: GraderRunMetadata
    failure: Failure | None
    """Ours: why there is no grade. In a job such a rollout is left out, never counted as 0."""


class ToolRun(TextBody):
    """Call one tool, without a job."""

    model_config = ConfigDict(json_schema_extra=either_url)

    type: Literal["function_call"] = "function_call"
    name: Annotated[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")],
        must_be("1 to 64 letters, digits, underscores and dashes"),
    ]
    server_url: EndpointUrl
    """`url` is accepted as another name of this field."""
    headers: Headers | None = None
    arguments: Annotated[str, must_be("a text that holds a JSON object")] = "{}"
    item: Annotated[dict[str, JsonValue], must_be("an object")] | None = None
    trace_id: TraceId | None = None
    id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    call_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_url(cls, value: Any) -> Any:
        return with_server_url(value)


class ToolRunObject(BaseModel):
    """What the tool answered."""

    type: Literal["function_call_output"] = "function_call_output"
    id: str
    call_id: str
    output: str
    latency_s: float
    """Ours."""
    attempts: int
    """Ours: HTTP attempts made."""


def to_run_object(spec: GraderSpec, outcome: Grade | Failure, *, execution_s: float) -> GraderRunObject:
    """The outcome under the contract's names."""
    grade = outcome if isinstance(outcome, Grade) else None
    usage = outcome.usage
    scores = _scores(outcome)
    return GraderRunObject(
        reward=0.0 if grade is None else grade.reward,
        sub_rewards=scores if isinstance(spec, MultiGrader) else {},
        model_grader_token_usage_per_model={model: _to_tokens(tokens) for model, tokens in usage.items()},
        metadata=GraderRunMetadata(
            name=spec.name,
            type=spec.type,
            execution_time=execution_s,
            scores=scores,
            token_usage=sum(_to_tokens(tokens).total_tokens for tokens in usage.values()) if usage else None,
            sampled_model_name=_only_judge(spec),
            errors=_errors(spec, outcome),
        ),
        failure=None if isinstance(outcome, Grade) else outcome,
    )


def _scores(outcome: Grade | Failure) -> dict[str, float]:
    if isinstance(outcome, Grade):
        return dict(outcome.scores)
    return {name: part.score for name, part in outcome.parts.items() if part.score is not None}


def _to_tokens(usage: TokenUsage) -> JudgeTokens:
    return JudgeTokens(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
    )


def _only_judge(spec: GraderSpec) -> str | None:
    parts: list[GraderSpec | LeafGrader] = [*spec.graders.values()] if isinstance(spec, MultiGrader) else [spec]
    models = {part.model for part in parts if isinstance(part, ScoreModelGrader | LabelModelGrader | RulerGrader)}
    return next(iter(models)) if len(models) == 1 else None


def _errors(spec: GraderSpec, outcome: Grade | Failure) -> GraderErrors:
    if isinstance(outcome, Grade):
        return GraderErrors.model_validate(dict.fromkeys(outcome.model_errors, True))
    of_parts = dict.fromkeys((error for part in outcome.parts.values() for error in part.model_errors), True)
    return GraderErrors.model_validate({**of_parts, **_named(_kind(spec, outcome), outcome)})


def _kind(spec: GraderSpec, failure: Failure) -> str:
    """The type of the grader that failed. Names do not tell: a multi grader may be called like one of its parts."""
    if not isinstance(spec, MultiGrader):
        return spec.type
    failed = (spec.graders[name].type for name, part in failure.parts.items() if part.failure_code is not None)
    return next(failed, spec.type)


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
