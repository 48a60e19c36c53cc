"""From a job's order to the rehearsal of its first step. Pure; for the API, the worker and the command line alike."""

from rft.core.spec import Hyperparameters, RetryBudget, resolve
from rft.platform.graders.response_format import to_response_format
from rft.platform.graders.specification import to_grader_spec
from rft.platform.jobs.run_spec import to_tool_server
from rft.platform.jobs.schemas import Reinforcement
from rft.platform.rehearsals.schemas import DEFAULT_CALLS
from rft.platform.settings import Settings
from rft.rollouts.rehearsal import RehearsalSpec
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
    written = order.hyperparameters.model_dump(include=set(Hyperparameters.model_fields))
    resolved = resolve(Hyperparameters.model_validate(written), train_rows=train_rows)
    calls = DEFAULT_CALLS if calls_per_rollout is None else calls_per_rollout
    most = settings.rehearsal_max_rollouts
    return RehearsalPlan(
        rows_per_step=resolved.batch_size,
        group_size=resolved.group_size,
        rollouts=min(resolved.burst, most, max_rollouts or most),
        calls_per_rollout=min(calls, order.max_episode_steps or calls),
        max_s=settings.rehearsal_max_s,
    )


def to_spec(
    rehearsal_id: str, seed: int, model: str, order: Reinforcement, plan: RehearsalPlan, settings: Settings
) -> RehearsalSpec:
    """Everything the rehearsal is told; the header values travel apart."""
    return RehearsalSpec(
        rehearsal_id=rehearsal_id,
        seed=seed,
        model_name=model,
        plan=plan,
        tools=tuple(to_tool_server(tool, settings) for tool in order.tools or []),
        grader=to_grader_spec(order.grader, settings),
        response_format=to_response_format(order.response_format),
        retry=RetryBudget(
            max_retries=settings.max_retries,
            total_s=settings.retry_total_s,
            first_wait_s=settings.retry_first_wait_s,
        ),
        max_calls_in_flight=settings.max_calls_in_flight,
        max_call_bytes=settings.max_call_bytes,
        max_reply_bytes=settings.max_reply_bytes,
        allow_loopback=settings.allow_loopback,
        allow_cidrs=tuple(str(network) for network in settings.allow_cidrs),
    )
