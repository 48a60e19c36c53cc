"""Structured concurrency that never swallows a cancellation.

`asyncio.TaskGroup` does on Python 3.11: when a child fails, it leaves its parent's cancellation count raised, and when
the parent is cancelled in the same moment, it raises the child's failure instead.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def gather_or_cancel(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in the given order. Raises ExceptionGroup once one fails, after the others are cancelled and gone."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    errors = [error for task in tasks if not task.cancelled() and isinstance(error := task.exception(), Exception)]
    if errors:
        raise ExceptionGroup("tasks failed", errors)
    return [task.result() for task in tasks]
