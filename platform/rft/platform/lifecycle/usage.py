"""What a job used up, once it is over."""

from collections import Counter
from collections.abc import Sequence

from pydantic import JsonValue

from rft.core.base import JsonObject, Record
from rft.core.step_record import RolloutStats


class JudgeTokens(Record):
    """Tokens that one judge model used for this job."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


class UsageMetrics(Record):
    """The job object's `usage_metrics`; training, validation and measurements together."""

    training_seconds: float
    """Wall time of all steps, evaluations included."""
    steps: int
    rollouts: int
    sampled_tokens: int
    """Tokens the policy sampled."""
    tool_calls: dict[str, int]
    """Calls by tool name."""
    judge_tokens: dict[str, JudgeTokens]
    """Tokens by judge model."""
    reasoning_tokens: int = 0
    """Those of the sampled ones that were thoughts."""


def usage_of(steps: list[JsonObject], measured: Sequence[RolloutStats] = ()) -> UsageMetrics:
    """Summed over the `data` of all metrics events, and what was measured beside the steps."""
    tool_calls, judges = Counter[str](), dict[str, Counter[str]]()
    seconds, rollouts, tokens, thoughts = 0.0, 0, 0, 0
    for data in steps:
        seconds += number(data, "timing", "step", "full_iteration")
        for split in ("train", "valid"):
            rollouts += int(number(data, "rollouts", split, "rollouts"))
            tokens += int(number(data, "usage", "samples", f"{split}_completion_tokens_count"))
            thoughts += int(number(data, "usage", "samples", f"{split}_reasoning_tokens_count"))
        for tool in entries(data.get("tools")):
            for split in ("train", "valid"):
                tool_calls[str(tool["name"])] += int(number(tool, f"{split}_calls_count"))
        for model, used in part_of(data.get("model_graders_token_usage")).items():
            for key in part_of(used):
                # `train_prompt_tokens` and `eval_prompt_tokens` are both prompt tokens.
                judges.setdefault(model, Counter())[key.partition("_")[2]] += int(number(part_of(used), key))
    for stats in measured:
        rollouts += stats.rollouts
        tokens += stats.completion_tokens_total
        thoughts += stats.reasoning_tokens_total
        tool_calls.update({tool.name: tool.calls for tool in stats.tools})
        for model, used in stats.judge_usage.items():
            judges.setdefault(model, Counter()).update({key: getattr(used, key) for key in JudgeTokens.model_fields})
    return UsageMetrics(
        training_seconds=seconds,
        steps=sum(number(data, "step") > 0 for data in steps),
        rollouts=rollouts,
        sampled_tokens=tokens,
        reasoning_tokens=thoughts,
        tool_calls=dict(tool_calls),
        judge_tokens={
            model: JudgeTokens(**{key: used[key] for key in JudgeTokens.model_fields}) for model, used in judges.items()
        },
    )


def number(data: JsonObject, *path: str) -> float:
    """The number that lies there; 0 where there is none."""
    here: JsonValue = data
    for key in path:
        here = part_of(here).get(key)
    return float(here) if isinstance(here, int | float) else 0.0


def part_of(value: JsonValue) -> JsonObject:
    """The object that this is, or an empty one."""
    return value if isinstance(value, dict) else {}


def entries(value: JsonValue) -> list[JsonObject]:
    """The objects in a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
