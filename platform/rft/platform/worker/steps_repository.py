"""Rows of `steps`, `checkpoints` and `attempts` as a job's log tells of them; the step's sums are in `lifecycle`."""

import json
from collections.abc import Sequence
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.events import StepDone
from rft.core.ids import digest, public_id
from rft.core.rollout import Split
from rft.platform.checkpoints.repository import CheckpointRepository
from rft.platform.store.storable import storable_text
from rft.platform.worker.metrics_event import flat_metrics


async def forget_after(
    connection: AsyncConnection[TupleRow], job_id: str, step: int, *, kept: Sequence[str] = ()
) -> None:
    """A run goes on from `step`: later steps, their calls and their checkpoints count no more.

    `kept`: rollouts whose calls still count.
    """
    await connection.execute("delete from steps where job_id = %s and step > %s", (job_id, step))
    await connection.execute(_FORGET_CALLS, (job_id, step, list(kept)))
    await CheckpointRepository(connection).forget_after(job_id, step)


async def forget_round(
    connection: AsyncConnection[TupleRow], job_id: str, step: int, split: Split, *, kept: Sequence[str] = ()
) -> None:
    """A round is done anew: the calls of its rollouts count no more, but for those `kept`.

    Call it before the rollouts go.
    """
    await connection.execute(_FORGET_ROUND, {"id": job_id, "step": step, "split": split, "kept": list(kept)})


async def forget_calls(connection: AsyncConnection[TupleRow], job_id: str, step: int, trace_ids: Sequence[str]) -> None:
    """The calls of these rollouts of the step count no more."""
    await connection.execute(
        "delete from attempts where job_id = %s and step = %s and trace_id = any(%s)", (job_id, step, list(trace_ids))
    )


async def store_checkpoint(connection: AsyncConnection[TupleRow], job_id: str, at: float, step: StepDone) -> None:
    """The checkpoint that a step left, and which ones are still kept. `at`: Unix seconds."""
    kept = list(step.checkpoint.kept_steps)
    await connection.execute(
        _STORE_CHECKPOINT,
        (
            public_id("ftckpt_", digest(job_id, "checkpoint", step.step)),
            job_id,
            step.step,
            at,
            storable_text(step.checkpoint.path),
            json.dumps(flat_metrics(step)),
        ),
    )
    await connection.execute(_KEEP_NO_OTHERS, (job_id, kept))
    await connection.execute(_KEEP_THESE, (job_id, kept))


_FORGET_CALLS: LiteralString = "delete from attempts where job_id = %s and step > %s and trace_id <> all(%s)"
_FORGET_ROUND: LiteralString = (
    "delete from attempts where job_id = %(id)s and step = %(step)s and trace_id in"
    " (select trace_id from rollouts where job_id = %(id)s and step = %(step)s and split = %(split)s"
    " union all"
    " select trace_id from begun_rollouts where job_id = %(id)s and step = %(step)s and split = %(split)s)"
    " and trace_id <> all(%(kept)s)"
)
_STORE_CHECKPOINT: LiteralString = (
    "insert into checkpoints (id, job_id, step, created_at, path, metrics)"
    " values (%s, %s, %s, to_timestamp(%s), %s, %s)"
    " on conflict (job_id, step) do update set path = excluded.path, metrics = excluded.metrics,"
    " created_at = excluded.created_at"
)
_KEEP_NO_OTHERS: LiteralString = (
    "update checkpoints set is_kept = false where job_id = %s and is_kept and step <> all(%s)"
)
_KEEP_THESE: LiteralString = (
    "update checkpoints set is_kept = true where job_id = %s and step = any(%s) and not is_kept"
)
