"""What a step's metrics say of its graders: tokens of judge models, and errors under the contract's names."""

from dataclasses import dataclass

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.events import StepDone
from rft.core.failure import FailureCode
from rft.core.grade import FORMULA_ERROR, RUNTIME_ERROR, SAMPLE_PARSE_ERROR, TokenUsage
from rft.core.graders import GraderSpec, LabelModelGrader, LeafGrader, MultiGrader, RulerGrader, ScoreModelGrader
from rft.core.step_record import GraderStats, RolloutStats

COMBINED = "multi"
_JUDGES = ("score_model", "label_model", "ruler")
_TOKENS = ("prompt", "completion")


@dataclass(frozen=True, slots=True)
class GraderLabel:
    """A grader as metrics name it."""

    name: str
    type: str
    model: str | None = None
    """The judge model it asks."""
    is_part: bool = False
    """Of a multi grader."""


def grader_labels(grader: GraderSpec) -> tuple[GraderLabel, ...]:
    """The graders that a step tells of: the grader itself, a multi grader after its parts."""
    if isinstance(grader, MultiGrader):
        parts = [GraderLabel(name, part.type, _model(part), is_part=True) for name, part in grader.graders.items()]
        return (*parts, GraderLabel(grader.name, COMBINED))
    return (GraderLabel(grader.name, grader.type, _model(grader)),)


def _model(grader: GraderSpec | LeafGrader) -> str | None:
    return grader.model if isinstance(grader, ScoreModelGrader | LabelModelGrader | RulerGrader) else None


def parse_error_share(stats: RolloutStats) -> float:
    """Share of the graded answers that do not fit `response_format`, or lack what a grader's template names."""
    return stats.model_errors.get(SAMPLE_PARSE_ERROR, 0) / max(1, stats.graded)


def judge_tokens(step: StepDone) -> JsonObject:
    """Tokens of all judge models, by model."""
    models = dict.fromkeys(model for stats in (step.train, step.valid) if stats for model in stats.judge_usage)
    return {model: {**_tokens("train", step.train, model), **_tokens("eval", step.valid, model)} for model in models}


def _tokens(prefix: str, stats: RolloutStats | None, model: str) -> JsonObject:
    usage = TokenUsage() if stats is None else stats.judge_usage.get(model, TokenUsage())
    return {f"{prefix}_{kind}": count for kind, count in usage.model_dump().items()}


def grader_usage(step: StepDone, graders: tuple[GraderLabel, ...]) -> list[JsonValue]:
    """Tokens of each grader with a judge, also of gradings that came to nothing."""
    return [
        {
            "name": label.name,
            "type": label.type,
            "model": label.model,
            **_usage("train", step.train, label, label.model),
            **_usage("valid", step.valid, label, label.model),
        }
        for label in graders
        if label.model is not None
    ]


def _usage(split: str, stats: RolloutStats | None, label: GraderLabel, model: str) -> JsonObject:
    usage: JsonObject = {}
    seen = None if stats is None else stats_of(stats, label)
    spent = TokenUsage() if seen is None else seen.usage.get(model, TokenUsage())
    for kind in _TOKENS:
        count: int = spent.model_dump()[f"{kind}_tokens"]
        usage[f"{split}_{kind}_tokens_count"] = None if stats is None else count
        usage[f"{split}_{kind}_tokens_mean"] = None if stats is None else count / max(1, seen.gradings if seen else 0)
    return usage


def grader_latency(stats: RolloutStats | None, label: GraderLabel) -> float | None:
    """Mean seconds of one grader's scores."""
    seen = None if stats is None else stats_of(stats, label)
    return None if seen is None else seen.latency_mean_s


def stats_of(stats: RolloutStats, label: GraderLabel) -> GraderStats | None:
    """What one grader did; None where no rollout reached it."""
    return next((one for one in stats.graders if (one.is_part, one.name) == (label.is_part, label.name)), None)


def grader_errors(step: StepDone, label: GraderLabel) -> JsonValue:
    """What went wrong with one grader: counts of rollouts, and their share of all."""
    errors: JsonObject = {"name": label.name, "type": label.type}
    for split, stats in (("train", step.train), ("valid", step.valid)):
        counts = dict.fromkeys(_names(label.type)) if stats is None else _counts(label.type, stats_of(stats, label))
        for name, count in counts.items():
            errors[f"{split}_{name}_count"] = count
            errors[f"{split}_{name}_mean"] = None if stats is None or count is None else count / max(1, stats.rollouts)
    return errors


def _names(kind: str) -> tuple[str, ...]:
    names = (SAMPLE_PARSE_ERROR, "invalid_variable_error")
    if kind == COMBINED:
        names += (FORMULA_ERROR,)
    if kind == "python":
        names += ("python_grader_server_error", RUNTIME_ERROR)
    if kind in _JUDGES:
        names += ("model_grader_server_error",)
    return (*names, "other_error")


def _counts(kind: str, seen: GraderStats | None) -> dict[str, int | None]:
    """By the contract's name; what has none of its own is `other_error`."""
    counts: dict[str, int | None] = dict.fromkeys(_names(kind), 0)
    if seen is None:
        return counts
    failed = dict(seen.errors_by_code)
    counts[SAMPLE_PARSE_ERROR] = seen.model_errors.get(SAMPLE_PARSE_ERROR, 0)
    counts["invalid_variable_error"] = failed.pop(FailureCode.INVALID_VARIABLE, 0)
    if kind == COMBINED:
        # Of earlier releases' steps, too: these excluded such rollouts.
        counts[FORMULA_ERROR] = seen.model_errors.get(FORMULA_ERROR, 0) + failed.pop(FailureCode.GRADER_ERROR, 0)
    if kind == "python":
        counts["python_grader_server_error"] = failed.pop(FailureCode.INTERNAL_ERROR, 0)
        counts[RUNTIME_ERROR] = seen.model_errors.get(RUNTIME_ERROR, 0) + failed.pop(FailureCode.GRADER_ERROR, 0)
    if kind in _JUDGES:
        # Two of these are no server's error: the judge answered, but not with a verdict; and what broke on our side.
        others = {code: failed.pop(code, 0) for code in (FailureCode.INVALID_SCORE, FailureCode.INTERNAL_ERROR)}
        counts["model_grader_server_error"] = sum(failed.values())
        failed = {code.value: count for code, count in others.items()}
    counts["other_error"] = sum(failed.values())
    return counts
