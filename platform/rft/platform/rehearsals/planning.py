"""From a job's order to the rehearsal of its first step. Pure; for the API, the worker and the command line alike."""

from rft.core.spec import RunSpec
from rft.platform.jobs.run_spec import resolved, to_run_spec
from rft.platform.orders.schemas import Method, Reinforcement
from rft.platform.rehearsals.repository import NewRehearsal
from rft.platform.rehearsals.schemas import DEFAULT_CALLS
from rft.platform.settings import Settings
from rft.rollouts.rehearsal_report import RehearsalPlan


def to_plan(
    order: Reinforcement,
    settings: Settings,
    *,
    train_rows: int,
    calls_per_rollout: int | None = None,
    max_rollouts: int | None = None,
) -> RehearsalPlan:
    """The burst of one step of such a job, as far as a rehearsal may play it. Needs train_rows >= 1."""
    hyperparameters = resolved(order, train_rows=train_rows)
    calls = DEFAULT_CALLS if calls_per_rollout is None else calls_per_rollout
    most = settings.rehearsal_max_rollouts
    return RehearsalPlan(
        rows_per_step=hyperparameters.batch_size,
        group_size=hyperparameters.group_size,
        rollouts=min(hyperparameters.rollouts_per_step, most, max_rollouts or most),
        calls_per_rollout=min(calls, order.max_episode_steps or calls),
        max_s=settings.rehearsal_max_s,
    )


def to_spec(rehearsal: NewRehearsal, settings: Settings) -> RunSpec:
    """What the trainer of such a job would be told; the header values travel apart."""
    order = Method.model_validate(rehearsal.method).reinforcement
    hyperparameters = resolved(order, train_rows=rehearsal.plan.rows_per_step)
    return to_run_spec(rehearsal, hyperparameters, settings, base_model_path="")
