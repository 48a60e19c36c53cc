"""From a grader as its owner wrote it to the grader as a run is told of it; secrets and URLs are told apart."""

from collections.abc import Iterator

from rft.core import graders as core
from rft.core.failure import Stage
from rft.core.spec import RunSecrets
from rft.grader_gateway.templates import unfillable
from rft.platform.api.errors import BadRequest
from rft.platform.orders.grader_schemas import (
    EndpointGrader,
    Grader,
    LabelModelGrader,
    LeafGrader,
    MultiGrader,
    PythonGrader,
    RulerGrader,
    ScoreModelGrader,
    StringCheckGrader,
    TextSimilarityGrader,
)
from rft.platform.orders.judge_fields import text_of, to_judge_messages, to_sampling_params
from rft.platform.orders.probing import Target
from rft.platform.settings import Settings

_UNNAMED = "grader"
_PYTHON_TIMEOUT_S = 120.0


def to_grader_spec(grader: Grader, settings: Settings) -> core.GraderSpec:
    """What the order leaves open is the settings'."""
    name = grader.name or _UNNAMED
    spec = _to_spec(grader, name, settings)
    return spec if grader.invalid_grade is None else spec.model_copy(update={"invalid_grade": grader.invalid_grade})


def _to_spec(grader: Grader, name: str, settings: Settings) -> core.GraderSpec:
    match grader:
        case MultiGrader():
            return core.MultiGrader(
                name=name,
                graders={variable: _to_part(part, variable, settings) for variable, part in grader.graders.items()},
                calculate_output=grader.calculate_output,
                pass_threshold=grader.pass_threshold,
            )
        case RulerGrader():
            return core.RulerGrader(
                name=name,
                model=grader.model,
                rubric=grader.rubric,
                sampling_params=to_sampling_params(grader.sampling_params),
            )
        case _:
            return _to_leaf(grader, name, settings)


def _to_part(grader: LeafGrader, variable: str, settings: Settings) -> core.LeafGrader:
    part = _to_leaf(grader, variable, settings)
    return part if grader.invalid_grade is None else part.model_copy(update={"invalid_grade": grader.invalid_grade})


def _to_leaf(grader: LeafGrader, name: str, settings: Settings) -> core.LeafGrader:
    """`name`: of a part its variable, which no other part has; what the customer calls it stays in the order."""
    match grader:
        case EndpointGrader():
            return _to_endpoint(grader, name, settings)
        case ScoreModelGrader():
            return core.ScoreModelGrader(
                name=name,
                model=grader.model,
                input=to_judge_messages(grader.input),
                range=grader.range or (0.0, 1.0),
                sampling_params=to_sampling_params(grader.sampling_params),
                pass_threshold=grader.pass_threshold,
            )
        case LabelModelGrader():
            return core.LabelModelGrader(
                name=name,
                model=grader.model,
                input=to_judge_messages(grader.input),
                labels=tuple(grader.labels),
                passing_labels=tuple(grader.passing_labels),
                sampling_params=to_sampling_params(grader.sampling_params),
            )
        case _:
            return _to_plain(grader, name)


def _to_plain(grader: StringCheckGrader | TextSimilarityGrader | PythonGrader, name: str) -> core.LeafGrader:
    match grader:
        case StringCheckGrader():
            return core.StringCheckGrader(
                name=name,
                input=grader.input,
                reference=grader.reference,
                operation=grader.operation,
                pass_threshold=grader.pass_threshold,
            )
        case TextSimilarityGrader():
            return core.TextSimilarityGrader(
                name=name,
                input=grader.input,
                reference=grader.reference,
                evaluation_metric=grader.evaluation_metric,
                pass_threshold=grader.pass_threshold,
            )
        case PythonGrader():
            return core.PythonGrader(
                name=name,
                source=grader.source,
                image_tag=grader.image_tag,
                timeout_s=grader.timeout_s or _PYTHON_TIMEOUT_S,
                pass_threshold=grader.pass_threshold,
            )


def _to_endpoint(grader: EndpointGrader, name: str, settings: Settings) -> core.EndpointGrader:
    return core.EndpointGrader(
        name=name,
        url=grader.url,
        header_names=tuple(grader.headers or ()),
        timeout_s=grader.timeout_s or settings.grader_timeout_s,
        rate_limit=grader.rate_limit,
        max_concurrency=grader.max_concurrency,
        pass_threshold=grader.pass_threshold,
    )


def to_judge(settings: Settings) -> core.JudgeServer | None:
    """Who answers for model graders; None where nobody is configured."""
    if settings.judge_base_url is None:
        return None
    return core.JudgeServer(
        base_url=settings.judge_base_url,
        timeout_s=settings.judge_timeout_s,
        max_concurrency=settings.judge_max_concurrency,
    )


def leaves(grader: Grader, param: str) -> Iterator[tuple[str, str, Grader]]:
    """Each grader that judges by itself: its path in the request, its name in a formula (or ""), and itself."""
    if isinstance(grader, MultiGrader):
        for variable, part in grader.graders.items():
            yield f"{param}.graders.{variable}", variable, part
    else:
        yield param, "", grader


def templates_of(grader: Grader, param: str) -> Iterator[tuple[str, str]]:
    """Every template of a grader and its parts, with its path in the request."""
    for path, _, leaf in leaves(grader, param):
        match leaf:
            case StringCheckGrader() | TextSimilarityGrader():
                yield f"{path}.input", leaf.input
                yield f"{path}.reference", leaf.reference
            case ScoreModelGrader() | LabelModelGrader():
                for index, message in enumerate(leaf.input):
                    yield f"{path}.input[{index}].content", text_of(message.content)
            case _:
                pass


def grader_targets(grader: Grader, param: str) -> list[Target]:
    """The URLs to probe before a job begins."""
    return [
        Target(
            param=f"{path}.url",
            stage=Stage.GRADER,
            name=leaf.name or variable or _UNNAMED,
            url=leaf.url,
            headers=leaf.headers or {},
        )
        for path, variable, leaf in leaves(grader, param)
        if isinstance(leaf, EndpointGrader)
    ]


def secrets_of_grader(grader: Grader) -> RunSecrets:
    """The header values of its endpoints."""
    if isinstance(grader, MultiGrader):
        headers = {
            variable: part.headers
            for variable, part in grader.graders.items()
            if isinstance(part, EndpointGrader) and part.headers
        }
        return RunSecrets(part_headers=headers)
    return RunSecrets(grader_headers=(grader.headers or {}) if isinstance(grader, EndpointGrader) else {})


def with_name(grader: Grader, name: str) -> Grader:
    """The grader with a name if it has none. The parts of a multi grader go by their variables."""
    return grader if grader.name is not None else grader.model_copy(update={"name": name})


def refuse_unfillable_templates(grader: Grader, *, param: str) -> None:
    """Raises BadRequest for a template that names what no rollout's sample has.

    Not for graders of evals: samples that items bring along may have more.
    """
    for place, text in templates_of(grader, param):
        problem = unfillable(text)
        if problem is not None:
            raise BadRequest(f"Invalid '{place}': {problem}.", param=place, code="invalid_value")


def refuse_without_judge(grader: Grader, settings: Settings, *, param: str) -> None:
    """Raises BadRequest for a model grader where no judge is configured."""
    if settings.judge_base_url is not None:
        return
    for path, _, leaf in leaves(grader, param):
        if isinstance(leaf, ScoreModelGrader | LabelModelGrader | RulerGrader):
            raise BadRequest(
                f"A grader of type '{leaf.type}' needs a judge model, and none is configured here: set"
                " RFT_JUDGE_BASE_URL (and RFT_JUDGE_API_KEY) to an OpenAI-compatible server.",
                param=f"{path}.type",
                code="judge_not_configured",
            )
