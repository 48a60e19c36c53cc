"""A database that is restarted under a worker fails no run."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.store.database import Database
from rft.platform.worker.run_eval import run_eval
from rft.testing.provider import ScriptedProvider
from tests.integration.evals.sampling import sampled
from tests.integration.evals.stage import Stage, row


class Restarted(Database):
    """One of its transactions, counted from 1, is not to be had."""

    def __init__(self, url: str, lost: int) -> None:
        super().__init__(url)
        self.lost, self.asked = lost, 0

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[TupleRow]]:
        """As ever, but for that one."""
        self.asked += 1
        if self.asked == self.lost:
            raise psycopg.OperationalError("terminating connection due to administrator command")
        async with super().transaction() as connection:
            yield connection


@pytest.mark.parametrize("lost", [2, 3, 4, 5, 6])
async def test_a_run_goes_on_once_the_database_is_back(
    stage: Stage, provider: ScriptedProvider, migrated_url: str, lost: int
) -> None:
    """Whatever the worker was about to read or to write; the first transaction takes the run."""
    del provider
    eval_id = await stage.make()
    made = await stage.client.evals.runs.create(eval_id, data_source=sampled(row("1", None)))
    async with Restarted(migrated_url, lost) as database:
        assert await run_eval(made.id, replace(stage.context, database=database)) == "completed"
        assert database.asked > lost
