"""Rehearsal: a training step's burst at the customer's tools and grader, without a model.

The step, its connections, retries and signatures are those of training; only the policy is a script, and graders
that are not behind a URL are left out.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from random import Random

from rft.core.attempt import Attempt
from rft.core.dataset import DatasetRow
from rft.core.graders import EndpointGrader, GraderSpec, MultiGrader, StringCheckGrader, endpoint_graders
from rft.core.rollout import Rollout
from rft.core.secret_urls import put_secret_urls
from rft.core.spec import RunSecrets, RunSpec
from rft.egress.adaptive import AdaptiveSettings
from rft.egress.breaker import BreakerSettings
from rft.egress.finish_closing import finish_closing
from rft.egress.limits import Limits
from rft.rollouts.connections import ConnectionOptions, open_connections
from rft.rollouts.executor import run_step
from rft.rollouts.group import StepRow, with_job_tools
from rft.rollouts.rehearsal_advice import advise, assumptions
from rft.rollouts.rehearsal_figures import Measured, to_report
from rft.rollouts.rehearsal_pace import caps_of, limits
from rft.rollouts.rehearsal_report import RehearsalPlan, RehearsalReport
from rft.rollouts.rehearsal_script import ScriptedPolicy
from rft.rollouts.wiring import rollout_setup

_FIRST_LIMIT = 8
"""Calls at once in the beginning: low, so that the endpoint is seen under light load too."""
_LOOK_S = 0.02
_MAX_OPEN_S = 10.0
"""How long an endpoint may be down before calls to it fail at once: a rehearsal need not wait for its return."""


async def rehearse(
    rows: Sequence[DatasetRow],
    spec: RunSpec,
    plan: RehearsalPlan,
    secrets: RunSecrets,
    *,
    on_rollout: Callable[[], None] = lambda: None,
) -> RehearsalReport:
    """Play the burst of the job's first step and tell what came of it; what is unfinished in time is cancelled.

    `on_rollout` is called as each rollout ends. Raises ValueError without rows.
    """
    if not rows:
        raise ValueError("a rehearsal needs a row at least")
    tools, grader = put_secret_urls(spec.tools, spec.grader, secrets)
    spec = spec.model_copy(update={"tools": tools, "grader": grader})
    chosen = with_job_tools(Random(spec.seed).sample(list(rows), min(plan.rows_per_step, len(rows))), spec.tools)
    policy = ScriptedPolicy(
        chosen,
        calls=plan.calls_per_rollout,
        think_time_s=plan.think_time_s,
        response_format=spec.response_format,
    )
    attempts, ended, delays_s = list[Attempt](), list[Rollout](), list[float]()

    def take(rollout: Rollout, was_replaced: bool) -> None:
        del was_replaced
        ended.append(rollout)
        on_rollout()

    # A token of the script is a whole text, so the order's budget of tokens says nothing of it.
    budgets = spec.budgets.model_copy(update={"max_tokens": policy.max_context_tokens})
    played = spec.model_copy(update={**_UNLIKE_A_JOB, "budgets": budgets, "grader": _called_part(spec.grader)})
    connections = await open_connections(
        played, secrets, ConnectionOptions(on_attempt=attempts.append, limits=_limits(spec))
    )
    watch = asyncio.create_task(_watch_own_delay(delays_s))
    started_s, limit = time.monotonic(), asyncio.timeout(plan.max_s)
    try:
        async with limit:
            await run_step(
                # Groups of one, so that any part of a burst can be played; a row that comes again has another seed.
                [StepRow(chosen[place % len(chosen)], place // len(chosen)) for place in range(plan.rollouts)],
                setup=rollout_setup(played, connections, policy, policy),
                job_id=spec.job_id,
                job_seed=spec.seed,
                step=1,
                group_size=1,
                replacement_share=0.0,
                on_rollout=take,
            )
    except TimeoutError:
        if not limit.expired():
            raise
    finally:
        wall_s = time.monotonic() - started_s
        watch.cancel()
        await finish_closing(connections.aclose)
    measured = Measured(ended, attempts, policy.unwritten_calls, wall_s, delays_s)
    report = to_report(plan, spec, measured)
    caps = caps_of(spec)
    told = {
        "assumptions": tuple(assumptions(report, plan, spec.grader, caps)),
        "advice": advise(report, plan, caps),
        "limits": limits(report, plan, caps),
    }
    return report.model_copy(update=told)


_UNLIKE_A_JOB = {"hold": None, "platform_failure_share": 1.0, "tool_gateway_url": None, "grader_gateway_url": None}
"""A rehearsal tells of failures instead of waiting for an end of them, and measures with limits of its own."""


def _called_part(grader: GraderSpec) -> GraderSpec:
    """The grader without what is not behind a URL; where nothing is left, one that calls nobody."""
    if isinstance(grader, EndpointGrader):
        return grader
    # Under the names of their variables, which no two parts share.
    called = {name: part.model_copy(update={"name": name}) for name, part in endpoint_graders(grader) if name}
    if isinstance(grader, MultiGrader) and called:
        return grader.model_copy(update={"graders": called, "calculate_output": " + ".join(called)})
    return StringCheckGrader(name=grader.name, input="", reference="", operation="ne")


def _limits(spec: RunSpec) -> Limits:
    return Limits.adaptive(
        spec.egress.max_calls_in_flight,
        window=AdaptiveSettings(start=_FIRST_LIMIT, largest=spec.egress.max_calls_in_flight),
        breaker=BreakerSettings(max_open_s=_MAX_OPEN_S),
    )


async def _watch_own_delay(delays_s: list[float]) -> None:
    """How late this process is at its own work, again and again."""
    while True:
        due_s = time.monotonic() + _LOOK_S
        await asyncio.sleep(_LOOK_S)
        delays_s.append(time.monotonic() - due_s)
