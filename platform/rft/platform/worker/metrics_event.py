"""The contract's metrics event of one step (contract section 1.4), as a pure function of what the trainer reported.

Beyond the contract, `data` carries documented keys of our own:

- `tools`: per tool `name` and, prefixed `train_` and `valid_`: `calls_per_rollout_mean`, `calls_count`,
  `output_tokens_mean`, `execution_latency_mean` (seconds), `error_count`, `errors_by_code`,
  `client_errors_by_status` (calls that were answered with a 4xx). A tool of the job that
  nobody called has zeros; None is for a split that did not run.
- `tool_calls_to_<tool>` and `train_error_count_<tool>` (and `valid_...`): the same numbers flat, as in the result file.
- `errors.graders`: of a multi grader an entry beside those of its parts, with `formula_parse_error`.
- `full_valid_mean_reward_low`, `full_valid_mean_reward_high`: the 95 % interval of the mean, for new rows like these.
- `rollouts`: `train` and `valid`: counts of rollouts, graded, excluded, replaced, failures by code and by stage, groups
  without signal, stop reasons, latency; None where the split did not run.
- `optimization`: loss, gradient norm, entropy, learning rate, tokens trained on; None for step 0.
- `sampling_logp_difference`, `truncated_share`, `staleness_mean`: how far trainer and sampler were apart, also flat.

`reasoning_tokens` are those of the completion tokens that were thoughts. A parse error is an answer that lacks what a
grader's template names.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.events import StepDone
from rft.core.rollout import StopReason
from rft.core.step_record import RolloutStats, ToolStats
from rft.platform.worker.grader_metrics import (
    COMBINED,
    GraderLabel,
    grader_errors,
    grader_latency,
    grader_usage,
    judge_tokens,
    parse_error_share,
)


@dataclass(frozen=True, slots=True)
class MetricsEvent:
    """What the customer reads in one line, and every number behind it."""

    message: str
    data: JsonObject


def metrics_event(step: StepDone, graders: tuple[GraderLabel, ...], tools: tuple[str, ...] = ()) -> MetricsEvent:
    """Message and data of one step. `tools`: names of the job's tools."""
    names = _called_or_not(step, tools)
    data: JsonObject = {
        **flat_metrics(step),
        **_tool_columns("train", _tools_of(step.train, names)),
        **_tool_columns("valid", _tools_of(step.valid, names)),
    }
    # What a formula makes of scores is the reward, and no score of its own.
    scoring = tuple(label for label in graders if label.type != COMBINED)
    data |= {
        "model_graders_token_usage": judge_tokens(step),
        "scores": _scores(step, scoring),
        "usage": {
            "samples": {**_tokens("train", step.train), **_tokens("valid", step.valid)},
            "graders": grader_usage(step, scoring),
        },
        "timing": _timing(step, scoring),
        "errors": {"graders": [grader_errors(step, label) for label in graders]},
        "tools": _tools(step, names),
        "rollouts": {"train": _rollouts(step.train), "valid": _rollouts(step.valid)},
        "optimization": None if step.optimization is None else step.optimization.model_dump(mode="json"),
    }
    return MetricsEvent(message=_message(step), data=data)


def flat_metrics(step: StepDone) -> JsonObject:
    """The flat keys: they are also columns of the result file and the metrics of a checkpoint."""
    train, valid, update = step.train, step.valid, step.optimization
    return {
        "step": step.step,
        "total_steps": step.total_steps,
        "train_mean_reward": train and train.reward,
        "full_valid_mean_reward": valid and valid.reward,
        "full_valid_mean_reward_low": valid and valid.reward_estimate and valid.reward_estimate.low,
        "full_valid_mean_reward_high": valid and valid.reward_estimate and valid.reward_estimate.high,
        "full_valid_mean_parse_error": None if valid is None else parse_error_share(valid),
        "reasoning_tokens_mean": _reasoning_mean(train),
        "valid_reasoning_tokens_mean": _reasoning_mean(valid),
        "completion_tokens_mean": train and train.completion_tokens_mean,
        "valid_completion_tokens_mean": valid and valid.completion_tokens_mean,
        "mean_unresponsive_rewards": None if train is None else _unanswered_share(train),
        "sampling_logp_difference": update and update.sampling_logp_difference,
        "truncated_share": update and update.truncated_share,
        "staleness_mean": update and update.staleness_mean,
    }


def _message(step: StepDone) -> str:
    parts = [f"Step {step.step}/{step.total_steps} "]
    if step.train is not None:
        parts.append(f"train mean reward={_two_digits(step.train.reward)}")
    if step.valid is not None:
        parts.append(f"full validation mean reward={_two_digits(step.valid.reward)}")
        parts.append(f"full validation mean parse error={parse_error_share(step.valid):.2f}")
    return ", ".join(parts)


def _two_digits(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


def _unanswered_share(stats: RolloutStats) -> float:
    """Share of the ended rollouts that stopped before the model gave an answer."""
    ended = sum(stats.stop_reasons.values())
    answered = sum(stats.stop_reasons.get(reason, 0) for reason in (StopReason.COMPLETED, StopReason.TOOL_CALLS))
    return 0.0 if ended == 0 else 1 - answered / ended


def _scores(step: StepDone, graders: tuple[GraderLabel, ...]) -> JsonValue:
    return {
        "train_reward_mean": step.train and step.train.reward,
        "valid_reward_mean": step.valid and step.valid.reward,
        "graders": [
            {
                "name": label.name,
                "type": label.type,
                "train_reward_mean": step.train and step.train.grader_scores_mean.get(label.name),
                "valid_reward_mean": step.valid and step.valid.grader_scores_mean.get(label.name),
            }
            for label in graders
        ],
    }


def _tokens(split: str, stats: RolloutStats | None) -> JsonObject:
    return {
        f"{split}_reasoning_tokens_mean": _reasoning_mean(stats),
        f"{split}_reasoning_tokens_count": None if stats is None else stats.reasoning_tokens_total,
        f"{split}_completion_tokens_mean": stats and stats.completion_tokens_mean,
        f"{split}_completion_tokens_count": None if stats is None else stats.completion_tokens_total,
    }


def _reasoning_mean(stats: RolloutStats | None) -> float | None:
    """Zero, as it always was, where nothing was graded or counted."""
    return None if stats is None else stats.reasoning_tokens_mean or 0.0


def _timing(step: StepDone, graders: tuple[GraderLabel, ...]) -> JsonValue:
    timing = step.timing
    return {
        "step": {
            "sampling": timing.sampling_s,
            "tools": timing.tools_s,
            "grading": timing.grading_s,
            "training": timing.training_s,
            "eval": timing.eval_s,
            "full_iteration": timing.full_step_s,
        },
        "graders": [
            {
                "name": label.name,
                "type": label.type,
                "train_execution_latency_mean": grader_latency(step.train, label),
                "valid_execution_latency_mean": grader_latency(step.valid, label),
            }
            for label in graders
        ],
    }


def _called_or_not(step: StepDone, tools: tuple[str, ...]) -> tuple[str, ...]:
    """The job's tools, and whatever else was called."""
    called = [tool.name for stats in (step.train, step.valid) if stats is not None for tool in stats.tools]
    return tuple(dict.fromkeys([*tools, *called]))


def _tools_of(stats: RolloutStats | None, names: tuple[str, ...]) -> dict[str, ToolStats]:
    """Every tool's figures in a split; empty where the split did not run."""
    if stats is None:
        return {}
    called = {tool.name: tool for tool in stats.tools}
    return {name: called.get(name) or _uncalled(name, stats) for name in names}


def _uncalled(name: str, stats: RolloutStats) -> ToolStats:
    return ToolStats(
        name=name,
        calls=0,
        calls_per_rollout_mean=0.0 if stats.graded else None,
        output_tokens_mean=None,
        execution_latency_mean_s=None,
        errors_by_code={},
    )


def _tools(step: StepDone, names: tuple[str, ...]) -> JsonValue:
    train, valid = _tools_of(step.train, names), _tools_of(step.valid, names)
    return [{"name": name, **_tool("train", train.get(name)), **_tool("valid", valid.get(name))} for name in names]


def _tool(split: str, tool: ToolStats | None) -> JsonObject:
    return {
        f"{split}_calls_per_rollout_mean": tool and tool.calls_per_rollout_mean,
        f"{split}_calls_count": None if tool is None else tool.calls,
        f"{split}_output_tokens_mean": tool and tool.output_tokens_mean,
        f"{split}_execution_latency_mean": tool and tool.execution_latency_mean_s,
        f"{split}_error_count": None if tool is None else sum(tool.errors_by_code.values()),
        f"{split}_errors_by_code": None if tool is None else {**tool.errors_by_code},
        f"{split}_client_errors_by_status": None if tool is None else {**tool.client_errors_by_status},
    }


def _tool_columns(split: str, tools: dict[str, ToolStats]) -> JsonObject:
    prefix = "" if split == "train" else "valid_"
    columns: JsonObject = {}
    for tool in tools.values():
        columns[f"{prefix}tool_calls_to_{tool.name}"] = tool.calls_per_rollout_mean
        columns[f"{split}_error_count_{tool.name}"] = sum(tool.errors_by_code.values())
    return columns


def _rollouts(stats: RolloutStats | None) -> JsonValue:
    return None if stats is None else stats.model_dump(mode="json", exclude={"tools", "graders", "grader_scores_mean"})
