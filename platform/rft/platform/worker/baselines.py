"""A job's baselines: what other models earn on its validation rows, measured once, before its training begins.

Before and not beside it: customers' endpoints never bear more than the burst they were told of, and training has the
machine for itself. Whatever goes wrong here is told with the baseline, and never keeps a job from training.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.dataset import DatasetRow, parse_rows
from rft.core.estimates import estimate_reward
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.progress import Activity, BaselineProgress, RunProgress
from rft.core.secret_urls import put_secret_urls
from rft.core.spec import RunSpec
from rft.egress.finish_closing import finish_closing
from rft.platform.api.errors import ApiError
from rft.platform.jobs.repository import JobRepository
from rft.platform.lifecycle.events import add_event, notify
from rft.platform.lifecycle.records import BaselineFigures
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.orders.schemas import Method
from rft.platform.providers.chat_models import ProviderModel, find_chat_model, policy_for
from rft.platform.providers.schemas import PricePerMillion
from rft.platform.serving.processes import ServingProcesses
from rft.platform.store.stop_tasks import stop_tasks
from rft.platform.store.storable import storable_json
from rft.platform.store.unit_of_work import reading
from rft.platform.worker.context import WorkerContext
from rft.platform.worker.final_figures import NO_ESTIMATE
from rft.platform.worker.own_serving import own_serving
from rft.platform.worker.trainer_run import POLL_S, PROGRESS_S, Ending, TrainerRun
from rft.rollouts.chat_policy import ChatPolicy, ChatSampling, ChatUsage, jobs_effort
from rft.rollouts.connections import ConnectionOptions, open_connections
from rft.rollouts.group import with_job_tools
from rft.rollouts.measure_model import MeasuredModel, measure_model
from rft.rollouts.message_rollout import MessageRollout, MessageSetup
from rft.rollouts.provider_policy import open_provider_client
from rft.run_directory import layout
from rft.run_directory.files import read_spec
from rft.run_directory.lock import locked
from rft.run_directory.open_rollouts import OpenRolloutsFile

_LOG = logging.getLogger(__name__)
_WITHIN = "within RFT_BASELINES_MAX_S, which is for all baselines of a job together"


@dataclass(slots=True)
class Baselines:
    """Measures those of one job that were not measured before, under its lease."""

    context: WorkerContext
    run: TrainerRun
    ended: list[MessageRollout] = field(default_factory=list[MessageRollout])
    """Of the baseline under way."""
    wanted: int | None = None
    """How many it is to have; None while that is not known."""

    async def measure(self) -> Ending | None:
        """None once all are measured, or given up, and nothing interrupts.

        Raises LeaseLost, Cancelled, RunDirectoryBusy.
        """
        names = await self._missing()
        if not names:
            return None
        with locked(self.run.folder, patience_s=0.0):  # Its journal of open rollouts has one writer.
            return await self._measure_all(names)

    async def _measure_all(self, names: Sequence[str]) -> Ending | None:
        give_up_at = time.monotonic() + self.context.settings.baselines_max_s
        for name in names:
            if time.monotonic() >= give_up_at:
                await self._keep(baseline_figures(name, MeasuredModel(), error=f"its turn did not come {_WITHIN}"))
                continue
            started_s, self.ended, self.wanted = time.monotonic(), [], None
            async with own_serving(self.context, lambda: self.run.interruption() is not None) as processes:
                work = asyncio.create_task(self._measure(name, processes))
                try:
                    ending = await self._until_done(work, name, give_up_at)
                finally:
                    await stop_tasks(work)
                if ending is not None:
                    return ending
                await self._keep(_outcome(work, name, self.ended, time.monotonic() - started_s))
        return self.run.interruption()

    async def _missing(self) -> list[str]:
        async with self.context.database.connection() as connection:
            job = await JobRepository(connection).get(self.run.beat.lease.id)
        assert job is not None, "its lease is held"
        wanted = Method.model_validate(job.method).reinforcement.baselines or []
        if not wanted or job.validation_file is None:
            return []
        measured = {figures.model for figures in job.baselines or ()}
        return [name for name in wanted if name not in measured]

    async def _until_done(self, work: "asyncio.Task[BaselineFigures]", name: str, give_up_at: float) -> Ending | None:
        """None when it is done or out of time."""
        begun, told_at, told = time.time(), -PROGRESS_S, None
        while not work.done() and time.monotonic() < give_up_at:
            if (ending := self.run.interruption()) is not None:
                return ending
            now = BaselineProgress(model=name, rollouts=self.wanted, ended=len(self.ended))
            if now != told and time.monotonic() >= told_at + PROGRESS_S:
                told_at, told = time.monotonic(), now
                activity = Activity.MEASURING_BASELINE
                await self.run.store_progress(RunProgress(activity=activity, since=begun, baseline=now))
            await asyncio.wait({work}, timeout=POLL_S)
        return None

    async def _measure(self, name: str, processes: ServingProcesses) -> BaselineFigures:
        """Raises ApiError, and whatever breaks on our side."""
        context, settings, started_s = self.context, self.context.settings, time.monotonic()
        async with reading(context.database) as uow:
            model = await find_chat_model(uow, settings, context.secret_box, name)
        spec = _spec_of(self.run)
        rows = await asyncio.to_thread(_rows, self.run.folder)
        self.wanted = len(rows) * spec.hyperparameters.eval_samples
        # Whoever comes after this process, if it is killed, tells the ends that it could not: as of a trainer.
        open_rollouts = OpenRolloutsFile(self.run.folder / layout.OPEN_ROLLOUTS)
        options = ConnectionOptions(open_rollouts=open_rollouts)
        connections = await open_connections(spec, self.run.secrets, options)
        try:
            await connections.tell_left_open(open_rollouts.left, open_rollouts.outcomes)
            async with open_provider_client(settings.egress, retry=spec.retry) as client:
                policy = policy_for(
                    name, model, settings=settings, processes=processes, client=client, owner=spec.job_id
                )
                measured = await measure_model(
                    with_job_tools(rows, spec.tools),
                    MessageSetup(
                        policy=policy,
                        tools=connections.tools,
                        has_tool_servers=bool(spec.tools),
                        grader=connections.grader,
                        grader_name=spec.grader.name,
                        budgets=spec.budgets,
                        model_name=name,
                        host=connections.host,
                        sampling=_sampling(spec),
                    ),
                    samples=spec.hyperparameters.eval_samples,
                    limit=_at_a_time(policy, spec),
                    seed=spec.seed,
                    on_ended=self.ended.append,
                )
        finally:
            try:
                await finish_closing(connections.aclose)
            finally:
                open_rollouts.shut()
        price = model.price if isinstance(model, ProviderModel) else None
        return baseline_figures(name, measured, price=price, duration_s=time.monotonic() - started_s)

    async def _keep(self, figures: BaselineFigures) -> None:
        job_id = self.run.beat.lease.id
        # A provider's error message may hold what the database cannot.
        figures = BaselineFigures.model_validate_json(storable_json(figures.model_dump_json()))

        async def write(connection: AsyncConnection[TupleRow]) -> None:
            job = RunRepository(connection, self.run.beat.lease)
            await job.lock()
            await job.add_baseline(figures)
            await add_event(
                connection,
                job_id,
                message_of(figures),
                level="info" if figures.error is None else "warn",
                data={"code": "baseline", **figures.model_dump(mode="json")},
                key=f"baseline:{figures.model}",
            )
            await notify(connection, job_id)

        await self.run.beat.write(write)


def baseline_figures(
    name: str,
    measured: MeasuredModel,
    *,
    price: PricePerMillion | None = None,
    duration_s: float = 0.0,
    error: str | None = None,
) -> BaselineFigures:
    """What the rollouts tell. Failures are excluded and counted. Pure."""
    rollouts, rewards = measured.rollouts, defaultdict[int, list[float]](list)
    for rollout in rollouts:
        if isinstance(rollout.outcome, Grade):
            rewards[rollout.row_index].append(rollout.outcome.reward)
    usage = sum((rollout.usage for rollout in rollouts), ChatUsage())
    unknown = sum(rollout.turns_without_usage for rollout in rollouts)
    failures = [rollout.outcome for rollout in rollouts if isinstance(rollout.outcome, Failure)]
    if error is None and measured.unusable is not None:
        error = measured.unusable.message
    if error is None and failures and not rewards:
        error = f"No rollout could be graded. The last failure: {failures[-1].message}"
    return BaselineFigures(
        model=name,
        reward=None if error is not None else estimate_reward(list(rewards.values())),
        rollouts=len(rollouts),
        graded=sum(map(len, rewards.values())),
        failures=dict(sorted(Counter(str(failure.code) for failure in failures).items())),
        error=error,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
        turns_without_usage=unknown,
        tool_calls=sum(rollout.tool_calls for rollout in rollouts),
        cost=None if price is None or unknown else price.cost_of(usage),
        duration_s=duration_s,
    )


def message_of(figures: BaselineFigures) -> str:
    """The event that tells a baseline."""
    name, reward = figures.model, figures.reward
    if figures.error is not None:
        return f"The baseline {name} was not measured: {figures.error}"
    told = NO_ESTIMATE if reward is None else f"{reward.mean:.3f} [{reward.low:.3f}, {reward.high:.3f}]"
    failed = ", ".join(f"{code} {count}" for code, count in figures.failures.items())
    excluded = f"; {figures.rollouts - figures.graded} failed and are in no figure ({failed})" if failed else ""
    return f"The baseline {name} earns {told} on the validation rows, {figures.graded} rollouts{excluded}"


def _outcome(
    work: "asyncio.Task[BaselineFigures]", name: str, ended: Sequence[MessageRollout], duration_s: float
) -> BaselineFigures:
    """The figures, or why there are none; what was spent is told all the same."""
    if work.cancelled():
        error = f"it was not done {_WITHIN}"
    elif (broken := work.exception()) is None:
        return work.result()
    elif isinstance(broken, ApiError):
        error = broken.message
    else:
        _LOG.error("baseline %s broke on our side", name, exc_info=broken)
        error = f"the platform failed: {type(broken).__name__}"
    return baseline_figures(name, MeasuredModel([*ended]), duration_s=duration_s, error=error)


def _spec_of(run: TrainerRun) -> RunSpec:
    """The run's specification, with its secret URLs. Raises RunFailed."""
    spec = read_spec(run.folder)
    tools, grader = put_secret_urls(spec.tools, spec.grader, run.secrets)
    return spec.model_copy(update={"tools": tools, "grader": grader})


def _rows(folder: Path) -> list[DatasetRow]:
    """The validation rows; they were validated before."""
    with (folder / layout.VALID_ROWS).open("rb") as lines:
        return [row for row in parse_rows(lines) if isinstance(row, DatasetRow)]


def _sampling(spec: RunSpec) -> ChatSampling:
    return ChatSampling(temperature=spec.temperature, reasoning_effort=jobs_effort(spec), budgets=spec.budgets)


def _at_a_time(policy: ChatPolicy, spec: RunSpec) -> int:
    """No more than the model takes, and than customers' endpoints were told of."""
    return min(policy.max_concurrency, spec.hyperparameters.burst)
