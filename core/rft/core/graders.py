"""Graders as a run is told of them (contract section 1.9): who judges, without secrets. Pure data."""

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from rft.core.base import Record
from rft.core.grade import MAX_SCORE

MAX_GRADER_NAME = 512
"""Characters. The hosted service's own ids of criteria are names with a UUID behind them."""
GraderName = Annotated[str, Field(min_length=1, max_length=MAX_GRADER_NAME)]
ScoreInBounds = Annotated[FiniteFloat, Field(ge=-MAX_SCORE, le=MAX_SCORE)]


class GradesTheInvalid(Record):
    """What all graders have in common."""

    invalid_grade: ScoreInBounds | None = None
    """The grade of an answer that cannot be judged: it does not fit `response_format`, lacks what a template names, is
    too long to be sent or compared, or the grader's code raises on it."""

    @property
    def grade_of_invalid(self) -> float:
        """What such an answer gets."""
        return 0.0 if self.invalid_grade is None else self.invalid_grade


class EndpointGrader(GradesTheInvalid):
    """A customer's grader behind a URL."""

    type: Literal["endpoint"] = "endpoint"
    name: str
    url: str
    header_names: tuple[str, ...] = ()
    timeout_s: float = 600.0
    rate_limit: float | None = None
    """Requests per second at most."""
    max_concurrency: Annotated[int, Field(ge=1)] | None = None
    """Calls in flight at most; None for the platform's own limit."""
    pass_threshold: float | None = None


class StringCheckGrader(GradesTheInvalid):
    """Compares two rendered templates: 1 or 0."""

    type: Literal["string_check"] = "string_check"
    name: GraderName
    input: str
    """Template."""
    reference: str
    """Template."""
    operation: Literal["eq", "ne", "like", "ilike"]
    """`like`: input contains reference; `ilike`: the same, whatever the case."""
    pass_threshold: FiniteFloat | None = None


SimilarityMetric = Literal[
    "fuzzy_match", "bleu", "gleu", "meteor", "cosine",
    "rouge_1", "rouge_2", "rouge_3", "rouge_4", "rouge_5", "rouge_l",
]  # fmt: skip


class TextSimilarityGrader(GradesTheInvalid):
    """How alike two rendered templates are, in [0, 1]."""

    type: Literal["text_similarity"] = "text_similarity"
    name: GraderName
    input: str
    reference: str
    evaluation_metric: SimilarityMetric
    pass_threshold: FiniteFloat | None = None


class JudgeMessage(Record):
    """One message to a judge; `content` is a template."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str


class SamplingParams(Record):
    """How the judge samples; None leaves it to the judge's server."""

    temperature: FiniteFloat | None = None
    top_p: FiniteFloat | None = None
    seed: int | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    """`max_completions_tokens` on the wire, which is how the contract spells it."""
    reasoning_effort: str | None = None


class ScoreModelGrader(GradesTheInvalid):
    """A judge model gives a number within `range`."""

    type: Literal["score_model"] = "score_model"
    name: GraderName
    model: str
    input: tuple[JudgeMessage, ...]
    range: tuple[ScoreInBounds, ScoreInBounds] = (0.0, 1.0)
    sampling_params: SamplingParams = SamplingParams()
    pass_threshold: FiniteFloat | None = None

    @property
    def grade_of_invalid(self) -> float:
        """The contract's 0 would be the best grade of a range that ends there: it is no higher than the range's end."""
        return min(0.0, self.range[0]) if self.invalid_grade is None else self.invalid_grade


class LabelModelGrader(GradesTheInvalid):
    """A judge model chooses a label; 1 when it is a passing one, else 0."""

    type: Literal["label_model"] = "label_model"
    name: GraderName
    model: str
    input: tuple[JudgeMessage, ...]
    labels: tuple[str, ...]
    passing_labels: tuple[str, ...]
    sampling_params: SamplingParams = SamplingParams()


class PythonGrader(GradesTheInvalid):
    """The customer's `grade(sample, item) -> float`, run isolated."""

    type: Literal["python"] = "python"
    name: GraderName
    source: str
    image_tag: str | None = None
    timeout_s: float = 120.0
    pass_threshold: FiniteFloat | None = None


LeafGrader = Annotated[
    EndpointGrader | StringCheckGrader | TextSimilarityGrader | ScoreModelGrader | LabelModelGrader | PythonGrader,
    Field(discriminator="type"),
]


class MultiGrader(GradesTheInvalid):
    """Several graders and a formula over their names."""

    type: Literal["multi"] = "multi"
    name: GraderName
    graders: dict[str, LeafGrader]
    """By variable name; no nesting."""
    calculate_output: str
    """`+ - * / ^`, min, max, abs, floor, ceil, exp, sqrt, log."""
    pass_threshold: FiniteFloat | None = None


class RulerGrader(GradesTheInvalid):
    """Ours: a judge ranks all rollouts of a group in one call; rewards are relative to the group, in [0, 1].

    Source: RULER, relative universal LLM-elicited rewards (OpenPipe ART).
    """

    type: Literal["ruler"] = "ruler"
    name: GraderName
    model: str
    rubric: str | None = None
    """What good means here, in words; None for a general rubric."""
    sampling_params: SamplingParams = SamplingParams()


GraderSpec = Annotated[
    EndpointGrader
    | StringCheckGrader
    | TextSimilarityGrader
    | ScoreModelGrader
    | LabelModelGrader
    | PythonGrader
    | MultiGrader
    | RulerGrader,
    Field(discriminator="type"),
]


def endpoint_graders(grader: GraderSpec) -> list[tuple[str | None, EndpointGrader]]:
    """Those behind URLs of the customer's, parts of a multi grader with their variable's name."""
    if isinstance(grader, MultiGrader):
        return [(name, part) for name, part in grader.graders.items() if isinstance(part, EndpointGrader)]
    return [(None, grader)] if isinstance(grader, EndpointGrader) else []


class JudgeServer(Record):
    """The OpenAI-compatible server that judges; configured once per platform. Its key travels apart."""

    base_url: str
    """Ends in `/v1`."""
    timeout_s: float = 120.0
    max_concurrency: Annotated[int, Field(ge=1)] = 64
