"""Dry runs of graders and tools on the wire (contract sections 1.10 and 2.5)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from rft.core.failure import Failure
from rft.core.grade import Grade, TokenUsage
from rft.core.graders import GraderSpec, LabelModelGrader, LeafGrader, MultiGrader, RulerGrader, ScoreModelGrader
from rft.platform.api.wire import TextBody, must_be
from rft.platform.dry_runs.error_flags import GraderErrors, errors_of, errors_of_parts
from rft.platform.orders.references import GraderOrReference
from rft.platform.orders.response_format import ResponseFormatWanted
from rft.platform.orders.tool_fields import EndpointUrl, Headers, either_url, with_server_url

TraceId = Annotated[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")],
    must_be("1 to 128 letters, digits, underscores, dots, colons and dashes"),
]


_EARLIER = "reference_answer"


class GraderRun(TextBody):
    """Grade one answer, without a job."""

    grader: GraderOrReference
    model_sample: Annotated[str, must_be("a text")]
    """What the model answered: `sample.output_text`, and `sample.output_json` where it is JSON."""
    item: Annotated[dict[str, JsonValue], must_be("an object")] | None = None
    """The dataset row."""
    trace_id: TraceId | None = None
    """Invented when absent."""
    response_format: ResponseFormatWanted | None = None
    """Ours: as in a job, an answer that does not fit it is graded 0, or `invalid_grade`."""

    @model_validator(mode="before")
    @classmethod
    def _earlier_spelling(cls, value: Any) -> Any:
        """Calls of 2025 say `reference_answer`, which graders read as `item.reference_answer`."""
        if not isinstance(value, dict) or _EARLIER not in value or value.get("item") is not None:
            return value
        rest = {key: entry for key, entry in value.items() if key not in (_EARLIER, "item")}
        return {**rest, "item": {_EARLIER: value[_EARLIER]}}


class GraderValidate(TextBody):
    """Check a grader, without calling anybody."""

    grader: GraderOrReference


class GraderValidated(BaseModel):
    """The grader as it would be stored: named, header values redacted."""

    grader: dict[str, JsonValue]


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
    """Of a multi grader: its own, and those of all parts."""
    part_errors: dict[str, GraderErrors]
    """Ours: what went wrong with each part of a multi grader, by variable name."""


class GraderRunObject(BaseModel):
    """The grade of one answer."""

    reward: float
    """0 where there is none: the contract has no word for that, `failure` has."""
    sub_rewards: dict[str, float | None]
    """Scores of a multi grader's parts, also where it has none itself; null for a part that failed."""
    model_grader_token_usage_per_model: dict[str, JudgeTokens]
    metadata: GraderRunMetadata
    failure: Failure | None
    """Ours: why there is no grade. In a job such a rollout is left out, never counted as 0."""
    error_details: str | None
    """Ours: what cost the answer its score, in words, with the traceback of a python grader."""


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
    return GraderRunObject(
        reward=0.0 if grade is None else grade.reward,
        sub_rewards=_sub_rewards(spec, outcome),
        model_grader_token_usage_per_model={model: _to_tokens(tokens) for model, tokens in usage.items()},
        metadata=GraderRunMetadata(
            name=spec.name,
            type=spec.type,
            execution_time=execution_s,
            scores=_scores(outcome),
            token_usage=sum(_to_tokens(tokens).total_tokens for tokens in usage.values()) if usage else None,
            sampled_model_name=_only_judge(spec),
            errors=errors_of(spec, outcome),
            part_errors=errors_of_parts(spec, outcome),
        ),
        failure=None if isinstance(outcome, Grade) else outcome,
        error_details=None if grade is None else grade.error_details,
    )


def _scores(outcome: Grade | Failure) -> dict[str, float]:
    if isinstance(outcome, Grade):
        return dict(outcome.scores)
    return {name: part.score for name, part in outcome.parts.items() if part.score is not None}


def _sub_rewards(spec: GraderSpec, outcome: Grade | Failure) -> dict[str, float | None]:
    if not isinstance(spec, MultiGrader):
        return {}
    return {name: outcome.parts[name].score if name in outcome.parts else None for name in spec.graders}


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
