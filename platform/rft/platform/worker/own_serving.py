"""Serving processes that a task of the worker starts: they go with it, though not in the middle of others' answers."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from rft.platform.serving.processes import ServingProcesses
from rft.platform.worker.context import WorkerContext


@asynccontextmanager
async def own_serving(context: WorkerContext, is_urgent: Callable[[], bool]) -> AsyncGenerator[ServingProcesses]:
    """Left in good order, it waits for whom they still answer, the API's users among them, until it `is_urgent`.

    Results are stored before it is left: nobody waits for them because of others' answers.
    """
    processes = ServingProcesses(context.settings, context.database)
    try:
        yield processes
        await processes.give_way(is_urgent)
    finally:
        await processes.aclose()
