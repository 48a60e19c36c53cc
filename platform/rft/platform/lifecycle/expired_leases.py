"""Which leases that have run out by the database's clock had time to be renewed by ours.

The database's clock may jump, or a machine may have slept with all its processes: then all leases run out at once, and
whoever lives renews its own with the next beat.
"""

import time
from dataclasses import dataclass

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.lifecycle.lease import ExpiredLease, LeasedTable, expired
from rft.platform.lifecycle.owner import is_surely_dead


@dataclass(frozen=True, slots=True)
class Expired:
    """Rows of one table whose lease has run out."""

    silent: list[str]
    """Their owners have had their time, or are known to be gone."""
    waited_for: list[str]
    """Their owners may live."""


class ExpiredLeases:
    """What one process saw at its looks."""

    def __init__(self, *, patience_s: float) -> None:
        """`patience_s`: longer than whoever lives takes from one beat to the next."""
        self._patience_s = patience_s
        self._seen_s: dict[str, dict[ExpiredLease, float]] = {}

    async def look(self, connection: AsyncConnection[TupleRow], table: LeasedTable) -> Expired:
        """Those that have run out as of now. Raises psycopg.Error."""
        leases = await expired(connection, table)
        now_s, before = time.monotonic(), self._seen_s.get(table.name, {})
        seen_s = self._seen_s[table.name] = {lease: before.get(lease, now_s) for lease in leases}
        found = Expired([], [])
        for lease, since_s in seen_s.items():
            is_silent = now_s - since_s >= self._patience_s or is_surely_dead(lease.owner)
            (found.silent if is_silent else found.waited_for).append(lease.id)
        return found
