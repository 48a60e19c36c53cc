"""What it costs the worker that rollouts are found by the words of their prompts and answers."""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.platform.worker.log_line import LoggedRollout
from rft.platform.worker.rollout_terms_repository import RolloutTerms
from tests.bench.api_writes import Run, ingestion

TURNS = 2


async def text_index(run: Run, *, rollouts: int) -> JsonObject:
    """Ingestion with the index against ingestion without it, in turns."""
    indexed, bare = _Spent(), _Spent()
    for _ in range(TURNS):
        for spent, turn in ((bare, without_index()), (indexed, nullcontext())):
            with turn:
                spent.add(await ingestion(run, rollouts=rollouts))
    return {
        "rollouts": rollouts,
        "wall_ratio": round(indexed.wall_s / bare.wall_s, 3),
        "worker_cpu_ratio": round(indexed.cpu_us / bare.cpu_us, 3),
        "worker_cpu_us_per_rollout": round((indexed.cpu_us - bare.cpu_us) / TURNS, 1),
    }


class _Spent:
    """By all turns of one kind."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_us = 0.0

    def add(self, case: JsonObject) -> None:
        """One more turn; `case` as `ingestion` tells it."""
        self.wall_s += _number(case["wall_s"])
        self.cpu_us += _number(case["worker_cpu_us_per_rollout"])


@contextmanager
def without_index() -> Generator[None]:
    """Rollouts are stored as always, but for the rows that they are found by."""

    def leave_out(terms: RolloutTerms, rollout: LoggedRollout) -> None:
        """In place of reading its words."""

    async def store_nothing(terms: RolloutTerms, connection: AsyncConnection[TupleRow]) -> None:
        """In place of the words."""

    with patch.object(RolloutTerms, "add", leave_out), patch.object(RolloutTerms, "store", store_nothing):
        yield


def _number(value: JsonValue) -> float:
    assert isinstance(value, int | float)
    return value
