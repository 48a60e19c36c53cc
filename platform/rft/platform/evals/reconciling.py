"""What the reconciler does for runs of evals: end those that were to be cancelled, enqueue those without a worker."""

import asyncio
from collections.abc import Sequence

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.evals.figures import RunFigures, run_figures
from rft.platform.evals.output_item_repository import OutputItemRepository
from rft.platform.evals.repository import EvalRepository
from rft.platform.evals.run_repository import EVAL_RUNS, RunEnd, RunRepository
from rft.platform.lifecycle.expired_leases import ExpiredLeases
from rft.platform.lifecycle.lease import end_dead_leases
from rft.platform.queue.messages import RUN_EVAL, TaskMessage

_ENQUEUED = 16
"""Runs whose messages are sent at a time."""


async def reconcile_eval_runs(
    connection: AsyncConnection[TupleRow], leases: ExpiredLeases, *, unheard_s: float
) -> list[TaskMessage]:
    """Nothing stays that nobody works on; what was interrupted goes on where it was."""
    await end_dead_leases(connection, EVAL_RUNS)
    found, runs = await leases.look(connection, EVAL_RUNS), RunRepository(connection)
    for run_id, eval_id in await runs.lock_orphaned_cancelled(found.silent):
        await runs.end_unleased(run_id, RunEnd("canceled"), await figures_of(connection, eval_id, run_id))
    return await next_runs(connection, found.silent, unheard_s=unheard_s)


async def next_runs(
    connection: AsyncConnection[TupleRow], silent: Sequence[str] = (), *, unheard_s: float = 0.0
) -> list[TaskMessage]:
    """The messages of the oldest runs without a worker: those of `silent` ones among them, which had time to beat."""
    waiting = await RunRepository(connection).unanswered(silent, after_s=unheard_s, limit=_ENQUEUED)
    return [TaskMessage(RUN_EVAL, run_id) for run_id in waiting]


async def figures_of(connection: AsyncConnection[TupleRow], eval_id: str, run_id: str) -> RunFigures | None:
    """The figures of what is finished; None where nothing is."""
    items = await OutputItemRepository(connection).measured(run_id)
    eval_ = await EvalRepository(connection).get(eval_id)
    if not items or eval_ is None:
        return None
    criteria = [str(criterion["id"]) for criterion in eval_.testing_criteria]
    return await asyncio.to_thread(run_figures, items, criteria)  # Seconds, of a large run.
