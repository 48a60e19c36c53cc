"""Which tools a rollout called, as a number: each tool of a job has a bit of it."""

from collections.abc import Iterable
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.store.rollout_columns import LAST_TOOL_BIT
from rft.platform.store.storable import storable_text


class CalledTools:
    """The bits of one job's tools. Its worker alone gives them away, with the job's row locked."""

    def __init__(self, job_id: str, known: dict[str, int]) -> None:
        self._job_id, self._bits = job_id, known
        self._new: dict[str, int] = {}

    @classmethod
    async def load(cls, connection: AsyncConnection[TupleRow], job_id: str) -> "CalledTools":
        """As they are stored."""
        cursor = await connection.execute("select name, bit from called_tools where job_id = %s", (job_id,))
        return cls(job_id, {name: bit for name, bit in await cursor.fetchall()})

    def bits(self, names: Iterable[str]) -> int:
        """The bits of these; a name that is new gets the next."""
        bits = 0
        for name in map(storable_text, names):
            bit = self._bits.get(name)
            if bit is None:
                bit = self._bits[name] = self._new[name] = min(LAST_TOOL_BIT, len(self._bits))
            bits |= 1 << bit
        return bits

    async def store(self, connection: AsyncConnection[TupleRow]) -> None:
        """What was given away since it was loaded."""
        if self._new:
            await connection.execute(_STORE, (self._job_id, [*self._new], [*self._new.values()]))
            self._new = {}


_STORE: LiteralString = (
    "insert into called_tools (job_id, name, bit)"
    " select %s, * from unnest(%s::text[], %s::int4[]) on conflict do nothing"
)
