"""Rows of `begun_rollouts`: conversations that were told to begin, until their end is stored, or for good without one.

A rollout that is recorded and then done again is kept there, too: whoever was sent its id may still ask for it.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.events import RolloutsBegan
from rft.core.rollout import Split
from rft.platform.store.rollout_columns import KEY
from rft.platform.store.storable import storable_text
from rft.platform.worker.log_line import LogLine


async def store_begun(
    connection: AsyncConnection[TupleRow], job_id: str, lines: Sequence[LogLine], *, ended: Collection[str]
) -> None:
    """The conversations that begin in these lines and have not `ended` in them; those that have are forgotten.

    Other events are left out.
    """
    told = [
        (line.at, began) for line in lines if isinstance(line.event, RolloutsBegan) for began in line.event.rollouts
    ]
    under_way = [(at, began) for at, began in told if began.trace_id not in ended]
    older = set(ended).difference(began.trace_id for _, began in told)
    if older:
        await connection.execute(_FORGET, (job_id, list(older)))
    if not under_way:
        return
    keys = [began.key for _, began in under_way]
    await connection.execute(
        _STORE,
        (
            job_id,
            [storable_text(began.trace_id) for _, began in under_way],
            [key.split for key in keys],
            [key.step for key in keys],
            [key.epoch for key in keys],
            [key.row_index for key in keys],
            [key.index for key in keys],
            [key.attempt for key in keys],
            [began.policy_version for _, began in under_way],
            [datetime.fromtimestamp(at, UTC) for at, _ in under_way],
        ),
    )


async def void_after(
    connection: AsyncConnection[TupleRow], job_id: str, step: int, *, kept: Sequence[str] = ()
) -> None:
    """A run was taken over: what was recorded for later steps counts no more, and nobody converses any longer.

    `kept`: rollouts that keep their places; their ends may still have to be told.
    """
    values = {"job_id": job_id, "step": step, "kept": list(kept)}
    await connection.execute(_KEEP + _LATER + _BUT_KEPT + _OR_MARK, values)
    await connection.execute(_DROP + _LATER + _BUT_KEPT, values)
    await connection.execute(_ABANDON + _BUT_KEPT, values)


async def void_round(
    connection: AsyncConnection[TupleRow], job_id: str, step: int, split: Split, *, kept: Sequence[str] = ()
) -> None:
    """All rollouts of a round are done anew, but those `kept`: what was recorded of it counts no more."""
    values = {"job_id": job_id, "step": step, "split": split, "kept": list(kept)}
    await connection.execute(_KEEP + _OF_ROUND + _BUT_KEPT + _OR_MARK, values)
    await connection.execute(_DROP + _OF_ROUND + _BUT_KEPT, values)
    await connection.execute(_ABANDON + _OF_ROUND + _BUT_KEPT, values)


async def void_rollouts(connection: AsyncConnection[TupleRow], job_id: str, trace_ids: Sequence[str]) -> None:
    """What was recorded of these counts no more."""
    values = {"job_id": job_id, "trace_ids": list(trace_ids)}
    await connection.execute(_KEEP + _THESE + _OR_MARK, values)
    await connection.execute(_DROP + _THESE, values)
    await connection.execute(_ABANDON + _THESE, values)


_STORE: LiteralString = (
    "insert into begun_rollouts (job_id, "
    + KEY
    + ", created_at) select %s, * from unnest(%s::text[], %s::text[], %s::int4[], %s::int4[], %s::int4[], %s::int4[],"
    " %s::int4[], %s::int4[], %s::timestamptz[]) on conflict do nothing"
)
_FORGET: LiteralString = "delete from begun_rollouts where job_id = %s and trace_id = any(%s) and not is_void"
_KEEP: LiteralString = (
    "insert into begun_rollouts (job_id, "
    + KEY
    + ", created_at, is_void, record) select job_id, "
    + KEY
    + ", created_at, true, record from rollouts where job_id = %(job_id)s"
)
_OR_MARK: LiteralString = " on conflict (job_id, trace_id) do update set is_void = true, record = excluded.record"
_DROP: LiteralString = "delete from rollouts where job_id = %(job_id)s"
_ABANDON: LiteralString = "update begun_rollouts set is_void = true where job_id = %(job_id)s and not is_void"
_LATER: LiteralString = " and step > %(step)s"
_BUT_KEPT: LiteralString = " and trace_id <> all(%(kept)s)"
_THESE: LiteralString = " and trace_id = any(%(trace_ids)s)"
_OF_ROUND: LiteralString = " and step = %(step)s and split = %(split)s"
