"""One request, one transaction; messages to workers are enqueued after the commit and never on rollback."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.queue.messages import TaskMessage
from rft.platform.queue.publishing import Enqueuer, enqueue_all
from rft.platform.store.database import Database


@dataclass(slots=True)
class UnitOfWork:
    """The open transaction, and what is to happen once it is committed."""

    connection: AsyncConnection[TupleRow]
    messages: list[TaskMessage] = field(default_factory=list[TaskMessage])
    _actions: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])

    def enqueue(self, task_name: str, job_id: str) -> None:
        """Publish this task for this job after the commit."""
        self.messages.append(TaskMessage(task_name, job_id))

    def after_commit(self, action: Callable[[], Awaitable[None]]) -> None:
        """Run this after the commit: for what cannot be rolled back, such as deleting bytes."""
        self._actions.append(action)

    async def run_actions(self) -> None:
        """What `after_commit` collected, in order."""
        for action in self._actions:
            await action()


@asynccontextmanager
async def reading(database: Database) -> AsyncGenerator[UnitOfWork]:
    """For who only reads: no transaction, in which each statement would see what is newest just the same."""
    async with database.connection() as connection:
        yield UnitOfWork(connection)


@asynccontextmanager
async def unit_of_work(database: Database, enqueuer: Enqueuer | None = None) -> AsyncGenerator[UnitOfWork]:
    """A transaction that commits on leaving; any exception rolls it back and drops messages and actions.

    `enqueuer` publishes one message; by default the Celery application does.
    """
    async with database.transaction() as connection:
        uow = UnitOfWork(connection)
        yield uow
    await uow.run_actions()
    await enqueue_all(uow.messages, enqueuer)
