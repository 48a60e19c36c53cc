"""Runs one eval in a worker, under a lease. What is finished is kept, whoever finishes the rest."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.failure import Failure
from rft.core.schema_fit import SchemaFit
from rft.core.spec import RunSecrets
from rft.egress.endpoint_client import EndpointClient
from rft.egress.signing import Signer
from rft.platform.evals.output_item_repository import NewOutputItem, OutputItemRepository
from rft.platform.evals.reconciling import figures_of, next_runs
from rft.platform.evals.repository import EvalRepository, EvalRow
from rft.platform.evals.run_repository import RunEnd, RunRepository, RunRow
from rft.platform.evals.schemas import item_schema_of
from rft.platform.evals.verdicts import Criterion, NoVerdict, verdicts
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import Lease, LeaseLost, RequestedAction
from rft.platform.lifecycle.owner import new_owner
from rft.platform.lifecycle.records import JobError
from rft.platform.providers.chat_models import ChatModel
from rft.platform.queue.messages import TaskMessage
from rft.platform.queue.publishing import enqueue_all
from rft.platform.serving.processes import ServingProcesses
from rft.platform.settings import Settings
from rft.platform.signing.run_secrets import whole_run_secrets
from rft.platform.store.secret_box import SecretsUnreadable
from rft.platform.store.stop_tasks import stop_tasks
from rft.platform.worker.context import NOT_TO_BE_RUN, WorkerContext
from rft.platform.worker.eval_criteria import OpenCriteria
from rft.platform.worker.eval_items import EvalItem, EvalItems, UnusableItems
from rft.platform.worker.eval_samples import ItemGrading, given_answer
from rft.platform.worker.eval_sampling import MissingTool, NothingAnswered, find_model, open_sampling, retry_budget
from rft.platform.worker.own_serving import own_serving
from rft.platform.worker.per_process_limits import limits_of_eval_run
from rft.rollouts.missing_tools import RECENT, RecentRollouts

_LOG = logging.getLogger(__name__)
_LOOK_S = 1.0
"""How soon a cancellation is seen."""


class _Left(Enum):
    """A run that does not end here."""

    TO_ANOTHER = "left to another worker"
    """This one shuts down."""
    LEASE_LOST = "lease lost"
    """Nothing more is written."""


async def run_eval(run_id: str, context: WorkerContext) -> str:
    """Run what a run of an eval has not finished, if a slot is free. Returns what came of it, for the log."""
    settings = context.settings
    owner, asked_at = new_owner(), time.monotonic()
    async with context.database.transaction() as connection:
        taken = await RunRepository(connection).take(
            run_id, owner=owner, ttl_s=settings.lease_ttl_s, slots=settings.eval_slots
        )
    if taken is None:
        return NOT_TO_BE_RUN
    run, lease = taken
    every_s = min(_LOOK_S, settings.heartbeat_s)
    async with (
        own_serving(context, is_urgent=context.is_stopping) as processes,
        Heartbeat(context.database, lease, settings.lease_ttl_s, every_s, asked_at, on_lost=_nothing) as beat,
    ):
        ended = await _Execution(context, run, lease, beat, processes).execute()
        try:
            return await _close(context, run, beat, ended)
        except LeaseLost:
            return _Left.LEASE_LOST.value


def _nothing() -> None:
    """The heartbeat's own mark is looked at."""


async def _close(context: WorkerContext, run: RunRow, beat: Heartbeat, ended: RunEnd | _Left) -> str:
    """Raises LeaseLost."""
    if ended is _Left.LEASE_LOST:
        return ended.value

    async def close(connection: AsyncConnection[TupleRow]) -> tuple[RunEnd | None, list[TaskMessage]]:
        """How it ended, None where another worker goes on, and what is due then."""
        runs, end = RunRepository(connection), ended if isinstance(ended, RunEnd) else None
        if end is None and not await runs.release(beat.lease):
            end = RunEnd("canceled")
        if end is not None:
            await runs.end(beat.lease, end, await figures_of(connection, run.eval_id, run.id))
        return end, await next_runs(connection)

    end, messages = await beat.write(close)
    beat.is_over = True  # Not before: while the database is away, the lease may be lost yet.
    await enqueue_all(messages, context.enqueuer)
    if end is None:
        return _Left.TO_ANOTHER.value
    return end.status if end.error is None else f"{end.status}: {end.error.code}"


@dataclass(frozen=True, slots=True)
class _Execution:
    """One run under one lease."""

    context: WorkerContext
    run: RunRow
    lease: Lease
    beat: Heartbeat
    processes: ServingProcesses

    async def execute(self) -> RunEnd | _Left:
        """Until it is done, is to stop, or cannot go on."""
        if self.run.idle_takes > self.context.settings.max_launches_without_progress:
            message = f"{self.run.idle_takes - 1} workers in a row stopped before they had finished another item."
            return _failed("interrupted", message)
        work, stop = asyncio.create_task(self._evaluate()), asyncio.create_task(self._until_stopped())
        try:
            await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else stop.result()
        except LeaseLost:
            return _Left.LEASE_LOST
        except UnusableItems as error:
            return _failed("invalid_items", str(error), "data_source.source")
        except MissingTool as error:
            return _failed("tool_not_found", str(error), "data_source.sampling_params.tools")
        except NothingAnswered as error:
            return _failed(error.code, str(error), error.param)
        except SecretsUnreadable as error:
            return _failed("secrets_unreadable", f"The header values cannot be read: {error}")
        except Exception as error:
            _LOG.exception("%s broke on our side", self.run.id)
            return _failed("internal_error", f"{type(error).__name__}: {error}")
        finally:
            await stop_tasks(work, stop)

    async def _evaluate(self) -> RunEnd:
        """Raises LeaseLost, UnusableItems, NothingAnswered, MissingTool, SecretsUnreadable."""
        context, run = self.context, self.run
        eval_, secrets, items, finished = await self.beat.write(self._read)
        if eval_ is None:
            raise LeaseLost(f"the eval of {run.id} was deleted")
        rows = await items.count()
        await self.beat.write(lambda connection: RunRepository(connection).count_rows(self.lease, rows))
        async with _open_client(context.settings, secrets) as client:
            await self._grade_rest(eval_, items, finished, client, secrets)
        return RunEnd("completed")

    async def _read(
        self, connection: AsyncConnection[TupleRow]
    ) -> tuple[EvalRow | None, RunSecrets, EvalItems, set[tuple[int, int]]]:
        """What it is made of, and what of it is finished. Raises UnusableItems, SecretsUnreadable."""
        context, run = self.context, self.run
        return (
            await EvalRepository(connection).get(run.eval_id),
            await whole_run_secrets(connection, None, context.secret_box, context.settings),
            await EvalItems.of(connection, run, context.file_store),
            await OutputItemRepository(connection).finished(run.id),
        )

    async def _grade_rest(
        self,
        eval_: EvalRow,
        items: EvalItems,
        finished: set[tuple[int, int]],
        client: EndpointClient,
        secrets: RunSecrets,
    ) -> None:
        context = self.context
        criteria = OpenCriteria.open(
            eval_, context.secret_box, context.settings, client=client, secrets=secrets, run_id=self.run.id
        )
        fit = SchemaFit.compiled(item_schema_of(eval_.data_source_config))
        rest, most = self._rest(items, finished), context.settings.eval_samples_at_once
        try:
            if not self.run.model:
                await self._grade_all(ItemGrading(self.run.id, fit, criteria, given_answer), rest, most)
                return
            model, recent = await self.beat.write(self._read_sampling)
            async with open_sampling(context, self.run, model, client, self.processes, recent) as sampling:
                grading = ItemGrading(self.run.id, fit, criteria, sampling.answer)
                try:
                    await self._grade_all(grading, rest, min(most, sampling.max_concurrency))
                    sampling.check_tools()
                except MissingTool as error:
                    await self._withdraw(error.missing, criteria.criteria)
                    raise
        finally:
            await criteria.aclose()

    async def _read_sampling(self, connection: AsyncConnection[TupleRow]) -> tuple[ChatModel, RecentRollouts]:
        """Its model, and what kept items tell of tools: the others may be too few to. Raises NothingAnswered."""
        recent = RecentRollouts()
        if self.run.sealed is not None:  # Its tools are sealed.
            for answered in await OutputItemRepository(connection).answered_calls(self.run.id, last=RECENT):
                recent.add_earlier(answered)
        return await find_model(connection, self.context, self.run), recent

    async def _rest(self, items: EvalItems, finished: set[tuple[int, int]]) -> AsyncGenerator[tuple[EvalItem, int]]:
        """What is still to be done."""
        async for item in items.each():
            for sample_index in range(self.run.samples_per_row):
                if (item.index, sample_index) not in finished:
                    yield item, sample_index

    async def _grade_all(self, grading: ItemGrading, rest: AsyncGenerator[tuple[EvalItem, int]], workers: int) -> None:
        """So many at a time; each is kept as soon as it is finished. The first exception ends all."""
        reading = asyncio.Lock()

        async def one_after_the_other() -> None:
            while True:
                async with reading:
                    due = await anext(rest, None)
                if due is None:
                    return
                await self._keep(await grading.output_item(*due))

        tasks = [asyncio.create_task(one_after_the_other()) for _ in range(workers)]
        try:
            await asyncio.gather(*tasks)
        finally:
            await stop_tasks(*tasks)
            await rest.aclose()

    async def _keep(self, done: NewOutputItem) -> None:
        """Raises LeaseLost."""
        await self.beat.write(lambda connection: OutputItemRepository(connection).add(self.lease, done))

    async def _withdraw(self, missing: Mapping[str, Failure], criteria: Sequence[Criterion]) -> None:
        """Verdicts on what these tools answered are none: the items are done again by a retry. Raises LeaseLost."""

        async def work(connection: AsyncConnection[TupleRow]) -> None:
            for tool, failure in missing.items():
                reason = NoVerdict(
                    "tool_not_found", failure.message, fault=str(failure.fault), stage=str(failure.stage)
                )
                await OutputItemRepository(connection).withdraw(
                    self.lease,
                    tool=tool,
                    error={"code": reason.code, "message": reason.message},
                    results=verdicts(criteria, [reason] * len(criteria)).results,
                )

        await self.beat.write(work)

    async def _until_stopped(self) -> RunEnd | _Left:
        """Until the work is to stop; says what becomes of it then."""
        while True:
            await asyncio.sleep(self.beat.every_s)
            if self.beat.is_lost or self.beat.is_cancelled:
                return _Left.LEASE_LOST
            if self.beat.action is RequestedAction.CANCEL:
                return RunEnd("canceled")
            if self.context.is_stopping():
                return _Left.TO_ANOTHER


def _open_client(settings: Settings, secrets: RunSecrets) -> EndpointClient:
    return EndpointClient.open(
        settings.egress,
        retry=retry_budget(settings),
        limits=limits_of_eval_run(settings),
        signer=Signer(secrets.signing_secrets) if secrets.signing_secrets else None,
    )


def _failed(code: str, message: str, param: str | None = None) -> RunEnd:
    return RunEnd("failed", JobError(code=code, message=message, param=param))
