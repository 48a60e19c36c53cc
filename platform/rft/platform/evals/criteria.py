"""Testing criteria: every grader that judges one answer alone, with the score from which an answer passes."""

from typing import Annotated, Any, TypeAlias

from pydantic import Discriminator, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator

from rft.grader_gateway.templates import variables_of
from rft.platform.api.errors import BadRequest
from rft.platform.api.tagged import tagged
from rft.platform.evals.item_variables import item_problem
from rft.platform.orders.grader_schemas import (
    EndpointGrader,
    Grader,
    LabelModelGrader,
    MultiGrader,
    PythonGrader,
    RulerGrader,
    ScoreModelGrader,
    StringCheckGrader,
    TextSimilarityGrader,
)
from rft.platform.orders.grader_specification import templates_of
from rft.platform.orders.references import GraderReference

_NO_RULER = "a ruler's scores are relative to the other answers of a row: no measure of one answer"
_HALF = 0.5

CriterionGrader: TypeAlias = Annotated[
    Annotated[
        EndpointGrader
        | StringCheckGrader
        | TextSimilarityGrader
        | ScoreModelGrader
        | LabelModelGrader
        | PythonGrader
        | MultiGrader,
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
        refused={"ruler": _NO_RULER},
    ),
]
CRITERION_GRADER = TypeAdapter[Grader](CriterionGrader)


def _criterion(value: Any, _: ValidatorFunctionWrapHandler) -> Any:
    if not isinstance(value, dict):
        return CRITERION_GRADER.validate_python(value)
    if "type" not in value and "id" in value:
        return GraderReference.model_validate(value)
    # Of a criterion that was read from another eval; the new one gets its own.
    return CRITERION_GRADER.validate_python({key: entry for key, entry in value.items() if key != "id"})


Criterion: TypeAlias = Annotated[CriterionGrader | GraderReference, WrapValidator(_criterion)]


def refuse_ruler(grader: Grader, *, param: str) -> None:
    """Raises BadRequest for a registered grader that ranks groups."""
    if isinstance(grader, RulerGrader):
        raise BadRequest(f"Invalid '{param}.type': {_NO_RULER}.", param=f"{param}.type", code="invalid_value")


def refuse_unthresholded(grader: Grader, *, param: str) -> None:
    """Raises BadRequest for a similarity without the score from which it passes, which the contract wants."""
    if isinstance(grader, TextSimilarityGrader) and grader.pass_threshold is None:
        place = f"{param}.pass_threshold"
        raise BadRequest(f"Missing required parameter: '{place}'.", param=place, code="missing_required_parameter")


def refuse_unknown_fields(grader: Grader, item_schema: Any, *, param: str) -> None:
    """Raises BadRequest for a template that names what items of this schema do not have."""
    for place, text in templates_of(grader, param):
        problem = item_problem(text, item_schema)
        if problem is not None:
            raise BadRequest(f"Invalid '{place}': {problem}", param=place, code="invalid_template_variable")


def names_sample(grader: Grader) -> bool:
    """Whether one of its templates cannot be filled without a sample."""
    return any(
        variable.namespace == "sample" for _, text in templates_of(grader, "") for variable in variables_of(text)
    )


def passing_score(grader: Grader) -> float:
    """The lowest score that passes: `pass_threshold`; without one 1 of what is right or wrong, half of any other."""
    match grader:
        case LabelModelGrader():
            return 1.0
        case RulerGrader():
            raise ValueError("a ruler is no criterion")
        case _ if grader.pass_threshold is not None:
            return grader.pass_threshold
        case StringCheckGrader():
            return 1.0
        case ScoreModelGrader() if grader.range is not None:
            return (grader.range[0] + grader.range[1]) / 2
        case _:
            return _HALF
