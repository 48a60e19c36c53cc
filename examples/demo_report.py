"""What a demo run came to: what was measured, as JSON and as a table. Nothing here talks to anybody."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

TEMPERATURES = (1.0, 0.3, 0.0)
"""1 is what it is trained at; 0 always takes the likeliest token."""
POLICIES = ("untrained", "trained")


def setting(temperature: float) -> str:
    """A temperature in words."""
    return f"T={temperature:g}" if temperature else "greedy"


def figures(evaluation: dict[str, Any]) -> dict[str, Any]:
    """What is told of one policy at one temperature, from the evaluation's record."""
    reward, stats = evaluation["reward"], evaluation["stats"]
    return {
        "reward": None if reward is None else reward["mean"],
        "reward_interval_95": None if reward is None else [reward["low"], reward["high"]],
        "tool_calls_per_rollout": stats["tool_calls_mean"],
        "completion_tokens_mean": stats["completion_tokens_mean"],
        "rollouts": stats["rollouts"],
        "excluded_rollouts": stats["excluded"],
    }


def best_step(steps: Sequence[dict[str, Any]]) -> int:
    """The checkpoint that the validation rows chose: the last record has them in order."""
    return steps[-1]["checkpoint"]["kept_steps"][0]


def make_report(
    steps: Sequence[dict[str, Any]], evaluations: Sequence[dict[str, Any]], **extra: float
) -> dict[str, Any]:
    """`steps` are the run's records, oldest first; `evaluations` those of step 0 and of the best step on the test rows.

    `test` holds what is told: rows and seeds that chose nothing. `validation` is what chose the checkpoint, and so
    looks better than it is.
    """
    best = best_step(steps)
    stats = [split for record in steps for split in (record["train"], record["valid"]) if split is not None]
    codes = sorted({code for split in stats for code in split["failures_by_code"]})
    validation = {record["step"]: record["valid"]["reward_mean"] for record in steps if record["valid"] is not None}
    return {
        "test": {
            policy: {
                setting(evaluation["temperature"]): figures(evaluation)
                for evaluation in evaluations
                if evaluation["step"] == step
            }
            for policy, step in zip(POLICIES, (0, best), strict=True)
        },
        "validation": validation,
        "best_step": best,
        "steps": steps[-1]["step"],
        "rollouts": sum(split["rollouts"] for split in stats),
        "excluded_rollouts": sum(split["excluded"] for split in stats),
        "excluded_by_code": {code: sum(split["failures_by_code"].get(code, 0) for split in stats) for code in codes},
        **extra,
    }


def table(report: dict[str, Any]) -> Table:
    """Untrained beside trained, on the same rows and at the same temperatures."""
    drawn = Table(
        title="Test questions: about companies that neither training nor validation saw, with fresh seeds\n"
        "mean reward \\[95 % interval]"
    )
    for column in ("", "untrained", f"trained (step {report['best_step']})"):
        drawn.add_column(column, justify="left" if not column else "right")
    for temperature in TEMPERATURES:
        name = setting(temperature)
        drawn.add_row(f"reward, {name}", *(_reward(report["test"][policy][name]) for policy in POLICIES))
    for key, name in (("tool_calls_per_rollout", "tool calls"), ("completion_tokens_mean", "tokens")):
        drawn.add_row(f"{name} per rollout, T=1", *(_number(report["test"][policy]["T=1"][key]) for policy in POLICIES))
    return drawn


def _reward(told: dict[str, Any]) -> str:
    if told["reward"] is None:
        return "-"
    low, high = told["reward_interval_95"]
    return f"{told['reward']:.3f} \\[{low:.2f}, {high:.2f}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def sentences(report: dict[str, Any]) -> list[str]:
    """What the table does not say, a line each."""
    codes = ", ".join(f"{count} {code}" for code, count in report["excluded_by_code"].items()) or "none"
    return [
        f"training: {report['rollouts']} rollouts, {report['excluded_rollouts']} excluded ({codes})",
        f"training {report['seconds_training']:.0f} s, evaluation {report['seconds_evaluation']:.0f} s, "
        f"everything {report['seconds_total']:.0f} s",
    ]
