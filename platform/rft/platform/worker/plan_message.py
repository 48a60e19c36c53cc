"""What a job is told of its steps before they begin: how many, and the load that they are."""

from collections.abc import Mapping

from rft.core.hyperparameters import ResolvedHyperparameters


def plan_message(plan: ResolvedHyperparameters, rows: Mapping[str, int]) -> str:
    """What the steps of a job will be, and what its tools and grader must bear. `rows`: by the order's fields."""
    valid, test = rows.get("validation_file"), rows.get("test_file")
    validation = "" if valid is None else f" and {valid} validation rows, evaluated every {plan.eval_interval}"
    tested = "" if test is None else f", {test} test rows, measured before the first step and after the last"
    return (
        f"{plan.steps} steps over {rows['training_file']} training rows{validation}{tested}:"
        f" each step starts {plan.rollouts_per_step} rollouts at once"
        f" ({plan.batch_size} rows x {plan.group_size} rollouts){_beside_updates(plan)};"
        f" this is the load your tools and grader must bear{_evaluated(plan, rows)}{_resampling(plan)}"
    )


def evaluation_burst(plan: ResolvedHyperparameters, rows: Mapping[str, int]) -> int:
    """Rollouts that an evaluation starts at once."""
    return plan.evaluation_burst(*(count for param, count in rows.items() if param != "training_file"))


def _evaluated(plan: ResolvedHyperparameters, rows: Mapping[str, int]) -> str:
    if plan.max_staleness and (valid := rows.get("validation_file")):
        beside = plan.evaluation_burst(valid)
        return f", and {beside} rollouts more beside them while it is evaluated: {plan.burst + beside} at once at most"
    rollouts = evaluation_burst(plan, rows)
    return f", and {rollouts} rollouts at once when it is evaluated" if rollouts > plan.burst else ""


def _beside_updates(plan: ResolvedHyperparameters) -> str:
    if not plan.max_staleness:
        return ""
    return f", up to {plan.burst} with those of {1 + plan.max_staleness} steps under way (max_staleness)"


def _resampling(plan: ResolvedHyperparameters) -> str:
    rounds = plan.resample_zero_variance
    if not rounds:
        return ""
    return (
        f". Groups of equal rewards are replaced by other rows, in {rounds} more rounds a step at most: up to"
        f" {rounds * plan.rollouts_per_step} rollouts more, never more than {plan.burst} at once"
    )
