"""What a step's metrics say of its graders: tokens of judge models, and errors under the contract's names."""

from dataclasses import dataclass

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.events import RolloutStats, StepDone
from rft.core.failure import FAULTS, FailureCode, Fault
from rft.core.grade import TokenUsage
from rft.core.graders import GraderSpec, LabelModelGrader, LeafGrader, MultiGrader, RulerGrader, ScoreModelGrader

_PARSE_ERROR = "sample_parse_error"
_ENDPOINT_CODES = {code.value for code, fault in FAULTS.items() if fault is Fault.ENDPOINT}
_JUDGES = ("score_model", "label_model", "ruler")
_TOKENS = ("prompt", "completion")


@dataclass(frozen=True, slots=True)
class GraderLabel:
    """A grader as metrics name it."""

    name: str
    type: str
    model: str | None = None
    """The judge model it asks."""


def grader_labels(grader: GraderSpec) -> tuple[GraderLabel, ...]:
    """The graders whose scores a step reports: the parts of a multi grader, else the grader itself."""
    if isinstance(grader, MultiGrader):
        return tuple(GraderLabel(name, part.type, _model(part)) for name, part in grader.graders.items())
    return (GraderLabel(grader.name, grader.type, _model(grader)),)


def _model(grader: GraderSpec | LeafGrader) -> str | None:
    return grader.model if isinstance(grader, ScoreModelGrader | LabelModelGrader | RulerGrader) else None


def parse_error_share(stats: RolloutStats) -> float:
    """Share of the graded answers that lacked what a grader's template names."""
    return stats.model_errors.get(_PARSE_ERROR, 0) / max(1, stats.graded)


def judge_tokens(step: StepDone) -> JsonObject:
    """Tokens of all judge models, by model."""
    models = dict.fromkeys(model for stats in (step.train, step.valid) if stats for model in stats.judge_usage)
    return {model: {**_tokens("train", step.train, model), **_tokens("eval", step.valid, model)} for model in models}


def _tokens(prefix: str, stats: RolloutStats | None, model: str) -> JsonObject:
    usage = TokenUsage() if stats is None else stats.judge_usage.get(model, TokenUsage())
    return {f"{prefix}_{kind}": count for kind, count in usage.model_dump().items()}


def grader_usage(step: StepDone, graders: tuple[GraderLabel, ...]) -> list[JsonValue]:
    """Tokens of each grader with a judge; None where graders share a model, whose tokens nobody can tell apart."""
    models = [label.model for label in graders]
    return [
        {
            "name": label.name,
            "type": label.type,
            "model": label.model,
            **_usage("train", step.train, label.model, is_shared=models.count(label.model) > 1),
            **_usage("valid", step.valid, label.model, is_shared=models.count(label.model) > 1),
        }
        for label in graders
        if label.model is not None
    ]


def _usage(split: str, stats: RolloutStats | None, model: str, *, is_shared: bool) -> JsonObject:
    usage: JsonObject = {}
    for kind in _TOKENS:
        count: int | None = None
        if stats is not None and not is_shared:
            count = stats.judge_usage.get(model, TokenUsage()).model_dump()[f"{kind}_tokens"]
        usage[f"{split}_{kind}_tokens_count"] = count
        usage[f"{split}_{kind}_tokens_mean"] = None if stats is None or count is None else count / max(1, stats.graded)
    return usage


def grader_errors(step: StepDone, label: GraderLabel, *, is_alone: bool) -> JsonValue:
    """What went wrong with one grader. Errors are counted per rollout, not per part of a multi grader: where a part is
    one of several, a count is None unless no part can have had the error."""
    errors: JsonObject = {"name": label.name, "type": label.type}
    for split, stats in (("train", step.train), ("valid", step.valid)):
        counts: dict[str, int | None] = dict.fromkeys(_names(label.type)) if stats is None else _counts(label, stats)
        for name, count in counts.items():
            known = count if is_alone or not count else None
            # The parts of a multi grader may claim no failure of unknown origin, not even that there was none.
            known = None if name == "other_error" and not is_alone else known
            errors[f"{split}_{name}_count"] = known
            errors[f"{split}_{name}_mean"] = None if stats is None or known is None else known / max(1, stats.rollouts)
    return errors


def _names(kind: str) -> tuple[str, ...]:
    names = (_PARSE_ERROR, "invalid_variable_error")
    if kind == "python":
        names += ("python_grader_server_error", "python_grader_runtime_error")
    if kind in _JUDGES:
        names += ("model_grader_server_error",)
    return (*names, "other_error")


def _counts(label: GraderLabel, stats: RolloutStats) -> dict[str, int | None]:
    """By the contract's name; what has none of its own is `other_error`."""
    failed = _failed_gradings(stats)
    counts: dict[str, int | None] = dict.fromkeys(_names(label.type), 0)
    counts[_PARSE_ERROR] = stats.model_errors.get(_PARSE_ERROR, 0)
    counts["invalid_variable_error"] = failed.pop(FailureCode.INVALID_VARIABLE, 0)
    if label.type == "python":
        counts["python_grader_runtime_error"] = failed.pop(FailureCode.GRADER_ERROR, 0)
    if label.type in _JUDGES:
        # The judge answered, but not with a verdict: no server's error.
        unreadable = failed.pop(FailureCode.INVALID_SCORE, 0)
        counts["model_grader_server_error"] = sum(failed.values())
        failed = {FailureCode.INVALID_SCORE.value: unreadable}
    counts["other_error"] = sum(failed.values())
    return counts


def _failed_gradings(stats: RolloutStats) -> dict[str, int]:
    """Excluded rollouts whose endpoint failure was no tool's, by code."""
    failed: dict[str, int] = {}
    for code, count in stats.failures_by_code.items():
        if code in _ENDPOINT_CODES:
            failed[code] = max(0, count - sum(tool.errors_by_code.get(code, 0) for tool in stats.tools))
    return failed
