"""Graders on the wire: `method.reinforcement.grader`, a union tagged by `type` (contract section 1.9)."""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rft.core.grade import MAX_SCORE
from rft.core.graders import MAX_GRADER_NAME
from rft.grader_gateway.builtin.formula import formula_problem
from rft.grader_gateway.builtin.python_source import glance_problem
from rft.platform.api.tagged import tagged
from rft.platform.api.wire import (
    MAX_ORDER_VALUES,
    OpenBody,
    PositiveSeconds,
    must_be,
    refuse_unless,
    refused_at,
)
from rft.platform.orders.judge_fields import Input, JudgeModel, SamplingWanted, Template
from rft.platform.orders.message_parts import (
    MAX_PARTS,
    by_name,
    dict_or_list,
    refuse_long_texts,
    refuse_long_together,
    refuse_too_many,
)
from rft.platform.orders.tool_fields import EndpointUrl, Headers

_Name: TypeAlias = Annotated[
    Annotated[str, Field(min_length=1, max_length=MAX_GRADER_NAME)],
    must_be(f"a text of 1 to {MAX_GRADER_NAME} characters"),
]
_Number: TypeAlias = Annotated[Annotated[float, Field(allow_inf_nan=False, strict=True)], must_be("a number")]
_Score: TypeAlias = Annotated[
    Annotated[float, Field(ge=-MAX_SCORE, le=MAX_SCORE, allow_inf_nan=False, strict=True)],
    must_be(f"a number from {-MAX_SCORE:g} to {MAX_SCORE:g}"),
]
ONLY_IMAGE = "2025-05-08"
"""The one image that `python` graders run in: the contract's."""


class AnyGrader(OpenBody):
    """What graders of all kinds have in common."""

    most_values: ClassVar[int] = MAX_ORDER_VALUES
    invalid_grade: _Score | None = None
    """The grade of an answer that cannot be judged: it does not fit `response_format`, or a python grader raises on it.

    0 when absent. Of a multi grader its own counts for the whole.
    """

    @model_validator(mode="before")
    @classmethod
    def _is_not_too_long(cls, value: Any) -> Any:
        return refuse_long_texts(value)


class EndpointGrader(AnyGrader):
    """The customer's grader behind a URL: POST `{sample, item, trace_id}`, answer `{score}`."""

    type: Literal["endpoint"]
    url: EndpointUrl
    name: _Name | None = None
    """Invented when absent."""
    headers: Headers | None = None
    """Sent with every request; values are shown redacted."""
    rate_limit: (
        Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)], must_be("a number above 0")] | None
    ) = None
    """Requests per second at most."""
    max_concurrency: Annotated[Annotated[int, Field(ge=1, strict=True)], must_be("a whole number from 1")] | None = None
    """Ours: requests in flight at most."""
    pass_threshold: _Number | None = None
    timeout_s: PositiveSeconds | None = None
    """Ours: deadline of one attempt."""


class StringCheckGrader(AnyGrader):
    """Compares two texts: 1 or 0."""

    type: Literal["string_check"]
    name: _Name | None = None
    input: Template
    reference: Template
    operation: Literal["eq", "ne", "like", "ilike"]
    """`like`: input contains reference; `ilike`: the same, whatever the case."""
    pass_threshold: _Number | None = None


def _no_embeddings(metric: Any) -> Any:
    if metric == "cosine":
        raise PydanticCustomError(
            "invalid_value", "'cosine' needs an embedding model, which this platform does not run"
        )
    return metric


class TextSimilarityGrader(AnyGrader):
    """How alike two texts are, from 0 to 1."""

    type: Literal["text_similarity"]
    name: _Name | None = None
    input: Template
    reference: Template
    evaluation_metric: Annotated[
        Literal[
            "fuzzy_match", "bleu", "gleu", "meteor", "rouge_1", "rouge_2", "rouge_3", "rouge_4", "rouge_5", "rouge_l"
        ],
        BeforeValidator(_no_embeddings),
    ]
    pass_threshold: _Number | None = None


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] >= bounds[1]:
        raise PydanticCustomError("invalid_value", "must begin below its end")
    return bounds


class ScoreModelGrader(AnyGrader):
    """A judge model gives a number within `range`."""

    type: Literal["score_model"]
    name: _Name | None = None
    model: JudgeModel
    input: Input
    range: Annotated[tuple[_Score, _Score], must_be("two numbers"), AfterValidator(_rising)] | None = None
    """[0, 1] when absent."""
    sampling_params: SamplingWanted | None = None
    pass_threshold: _Number | None = None


_Labels: TypeAlias = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=100)]


class LabelModelGrader(AnyGrader):
    """A judge model chooses a label: 1 when it is a passing one, else 0."""

    type: Literal["label_model"]
    name: _Name | None = None
    model: JudgeModel
    input: Input
    labels: Annotated[_Labels, must_be("a list of different texts")]
    passing_labels: Annotated[_Labels, must_be("a list of texts")]
    sampling_params: SamplingWanted | None = None

    @field_validator("labels", mode="after")
    @classmethod
    def _differ(cls, labels: list[str]) -> list[str]:
        if len(set(labels)) < len(labels):
            raise PydanticCustomError("invalid_value", "must be a list of different texts")
        return labels

    @field_validator("passing_labels", mode="after")
    @classmethod
    def _are_labels(cls, passing: list[str], info: ValidationInfo) -> list[str]:
        strange = [label for label in passing if label not in info.data.get("labels", passing)]
        if strange:
            raise PydanticCustomError("invalid_value", "'{label}' is not among the labels", {"label": strange[0]})
        return passing


class PythonGrader(AnyGrader):
    """The customer's `grade(sample, item) -> float`, run isolated."""

    type: Literal["python"]
    name: _Name | None = None
    source: Annotated[str, must_be("a text"), AfterValidator(refuse_unless(glance_problem))]
    image_tag: str | None = None
    """Accepted; there is one image here, whatever is named."""
    pass_threshold: _Number | None = None
    timeout_s: (
        Annotated[
            Annotated[float, Field(gt=0, le=120, allow_inf_nan=False, strict=True)],
            must_be("a number of seconds above 0, 120 at most"),
        ]
        | None
    ) = None
    """Ours: 120 when absent."""


class RulerGrader(AnyGrader):
    """Ours: a judge ranks all rollouts of a group in one call; rewards are relative to the group."""

    type: Literal["ruler"]
    name: _Name | None = None
    model: JudgeModel
    rubric: (
        Annotated[Annotated[str, Field(min_length=1, max_length=20_000)], must_be("a text of 1 to 20000 characters")]
        | None
    ) = None
    """What good means here, in words."""
    sampling_params: SamplingWanted | None = None


LeafGrader: TypeAlias = Annotated[
    Annotated[
        EndpointGrader | StringCheckGrader | TextSimilarityGrader | ScoreModelGrader | LabelModelGrader | PythonGrader,
        Discriminator("type"),
    ],
    tagged(
        EndpointGrader,
        StringCheckGrader,
        TextSimilarityGrader,
        ScoreModelGrader,
        LabelModelGrader,
        PythonGrader,
        refused={
            "multi": "a multi grader may not hold another one",
            "ruler": "a ruler ranks whole groups and cannot be a part of a multi grader",
        },
    ),
]


class MultiGrader(AnyGrader):
    """Several graders and a formula over their names."""

    model_config = ConfigDict(json_schema_extra=dict_or_list)

    type: Literal["multi"]
    name: _Name | None = None
    graders: Annotated[
        dict[str, LeafGrader],
        Field(min_length=1, max_length=MAX_PARTS),
        BeforeValidator(refuse_long_together),
        BeforeValidator(by_name),
        BeforeValidator(refuse_too_many),
    ]
    """By variable name; a list of named graders is accepted, too."""
    calculate_output: Annotated[str, must_be("a text")]
    """A formula over the names: `+ - * / ^`, min, max, abs, floor, ceil, exp, sqrt, log."""
    pass_threshold: _Number | None = None

    @field_validator("graders", mode="after")
    @classmethod
    def _usable_names(cls, graders: dict[str, LeafGrader]) -> dict[str, LeafGrader]:
        for name in graders:
            if not name.isidentifier() or not name.isascii() or len(name) > 64 or name == "headers":
                raise refused_at(
                    (name,), "a part's name must be a word a formula can use: letters, digits and underscores"
                )
        return graders

    @field_validator("calculate_output", mode="after")
    @classmethod
    def _computes(cls, formula: str, info: ValidationInfo) -> str:
        graders = info.data.get("graders")
        problem = None if graders is None else formula_problem(formula, tuple(graders))
        if problem is not None:
            raise PydanticCustomError("invalid_value", "{problem}", {"problem": problem})
        return formula


Grader: TypeAlias = Annotated[
    Annotated[
        EndpointGrader
        | StringCheckGrader
        | TextSimilarityGrader
        | ScoreModelGrader
        | LabelModelGrader
        | PythonGrader
        | MultiGrader
        | RulerGrader,
        Discriminator("type"),
    ],
    tagged(
        EndpointGrader,
        StringCheckGrader,
        TextSimilarityGrader,
        ScoreModelGrader,
        LabelModelGrader,
        PythonGrader,
        MultiGrader,
        RulerGrader,
    ),
]
