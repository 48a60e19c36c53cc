"""What the reconciler asks of `jobs`: whose worker, message or end of a rollout was lost."""

from collections.abc import Mapping, Sequence
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.job import JobStatus
from rft.platform.lifecycle.lease import EXPIRED, GIVE_BACK, GIVEN_UP, UNLOCKED
from rft.platform.lifecycle.machine import transition
from rft.platform.lifecycle.repository import HAS_LEFT_OPEN, OWN_ENDS_S

REQUEUE = transition({JobStatus.RUNNING, JobStatus.PAUSED}, JobStatus.QUEUED)


class ReconcilerRepository:
    """Reads and writes `jobs` inside the caller's transaction.

    `silent` everywhere: jobs whose worker had its time to renew its lease (`expired_leases`).
    """

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def forget_message(self, job_ids: Sequence[str]) -> None:
        """The worker that took these jobs' messages is gone: their messages are due again at once."""
        await self._connection.execute("update jobs set enqueued_at = null where id = any(%s)", (list(job_ids),))

    async def to_cancel(self, silent: Sequence[str]) -> list[str]:
        """Jobs that are to be cancelled and that no worker has."""
        return await self._ids(_TO_CANCEL, {"silent": list(silent)})

    async def left_cancelled(self, silent: Sequence[str]) -> list[str]:
        """Cancelled jobs whose worker fell silent before their trainer had stopped, each once.

        A message of theirs counts as sent now.
        """
        return await self._ids(_LEFT_CANCELLED, {"silent": list(silent)})

    async def left_open(self, *, after_s: float) -> list[str]:
        """Jobs that are over and may have open rollouts: their message counts as sent now.

        Each again after half the time since its end, at least `after_s`, for a day: its customer's server may be away.
        """
        return await self._ids(_LEFT_OPEN, {"after_s": after_s, "own_s": OWN_ENDS_S})

    async def to_pause(self, silent: Sequence[str]) -> list[str]:
        """Jobs that are to be paused and that no worker has."""
        return await self._ids(_TO_PAUSE, {"silent": list(silent)})

    async def requeue_expired(self, silent: Sequence[str]) -> list[tuple[str, int]]:
        """Running and held jobs whose worker fell silent wait for another, to be told of at once: ids and tokens.

        One that its customer paused has no hold and is left alone.
        """
        cursor = await self._connection.execute(_REQUEUE_EXPIRED, {**REQUEUE.values(), "silent": list(silent)})
        return [(job_id, token) for job_id, token in await cursor.fetchall()]

    async def unanswered(self, status: JobStatus, *, after_s: float, limit: int | None = None) -> list[str]:
        """Jobs that wait so and whose message was not answered for so long, those first whose is the oldest; it counts
        as sent again now."""
        return await self._ids(_UNANSWERED, {"status": status, "after_s": after_s, "limit": limit})

    async def _ids(self, query: LiteralString, values: Mapping[str, object]) -> list[str]:
        cursor = await self._connection.execute(query, values)
        return [row[0] for row in await cursor.fetchall()]


_TO_CANCEL: LiteralString = (
    "select id from jobs where is_cancel_requested"
    " and status in ('validating_files', 'queued', 'running', 'paused') and " + GIVEN_UP + UNLOCKED
)
_LEFT_CANCELLED: LiteralString = (
    "update jobs set " + GIVE_BACK + ", enqueued_at = clock_timestamp() where id in ("
    "select id from jobs where status = 'cancelled' and lease_owner is not null and "
    + GIVEN_UP
    + UNLOCKED
    + ") returning id"
)
_TO_PAUSE: LiteralString = (
    "select id from jobs where is_pause_requested and status in ('queued', 'running', 'paused') and "
    + GIVEN_UP
    + UNLOCKED
)
_REQUEUE_EXPIRED: LiteralString = (
    "update jobs set status = %(to)s, hold = null, " + GIVE_BACK + ", enqueued_at = null where id in ("
    "select id from jobs where status = any(%(expected)s) and (status <> 'paused' or hold is not null)"
    " and not is_pause_requested and " + GIVEN_UP + UNLOCKED + ") returning id, lease_token"
)
_UNANSWERED: LiteralString = (
    # As an array it is chosen once: a plan may look for `in` once for each job, and finds others, beyond the limit.
    "update jobs set enqueued_at = clock_timestamp() where id = any(array("
    "select id from jobs where status = %(status)s"
    " and not is_cancel_requested and " + EXPIRED + " and (enqueued_at is null"
    " or enqueued_at < clock_timestamp() - make_interval(secs => %(after_s)s))"
    " order by enqueued_at nulls first, created_at, id limit %(limit)s" + UNLOCKED + ")) returning id"
)
_LEFT_OPEN: LiteralString = (
    "update jobs set enqueued_at = clock_timestamp() where id in (select id from jobs where "
    + HAS_LEFT_OPEN
    + " and finished_at between clock_timestamp() - interval '1 day'"
    " and clock_timestamp() - make_interval(secs => %(own_s)s)"
    " and (enqueued_at is null or enqueued_at < clock_timestamp()"
    " - greatest(make_interval(secs => %(after_s)s), (clock_timestamp() - finished_at) / 2))"
    + UNLOCKED
    + ") returning id"
)
