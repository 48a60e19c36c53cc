"""`POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/playground`."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request

from rft.core.errors import RunFailed
from rft.platform.api.errors import ApiError
from rft.platform.api.event_stream import EventStream
from rft.platform.api.hang_up import while_connected
from rft.platform.serving.answering import Asking
from rft.platform.serving.playground.order import to_playground_order
from rft.platform.serving.playground.playing import Playing, played
from rft.platform.serving.playground.schemas import PlaygroundBody, PlaygroundEvent, PlaygroundObject

_LOG = logging.getLogger(__name__)
router = APIRouter(prefix="/fine_tuning/jobs", tags=["playground"])
_REPLIES: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
_SILENCE_S = 10.0
"""After so long without an event the stream says that it is still there: a tool may take its time."""


@router.post("/{fine_tuning_job_id}/playground", responses=_REPLIES)
async def play(request: Request, asker: Asking, fine_tuning_job_id: str, body: PlaygroundBody) -> PlaygroundObject:
    """Say something to a model of this job. Its tools are really called, with budgets and blame as in a rollout.

    Nothing is graded. With `stream`, as server-sent events: text, turn, call, result, failure, end.
    """
    order = await to_playground_order(asker.services, fine_tuning_job_id, body)
    told = asker.admitted(Playing(order, asker).events())
    if not body.stream:
        try:
            return await while_connected(request, played(told))
        except RunFailed as error:
            raise _unusable(error) from error
    return EventStream(_stream(told))  # pyright: ignore[reportReturnType]


async def _stream(told: AsyncGenerator[PlaygroundEvent]) -> AsyncGenerator[bytes]:
    async with aclosing(told):
        upcoming = asyncio.ensure_future(anext(told))
        try:
            while True:
                await asyncio.wait((upcoming,), timeout=_SILENCE_S)
                if not upcoming.done():
                    yield b": still there\n\n"
                    continue
                event = upcoming.result()
                yield f"event: {event.type}\ndata: {event.model_dump_json()}\n\n".encode()
                upcoming = asyncio.ensure_future(anext(told))
        except StopAsyncIteration:
            pass
        except (ApiError, RunFailed) as error:
            refusal = _unusable(error) if isinstance(error, RunFailed) else error
            yield f"event: error\ndata: {refusal.envelope.model_dump_json()}\n\n".encode()
        finally:
            upcoming.cancel()
            await asyncio.wait((upcoming,))


def _unusable(error: RunFailed) -> ApiError:
    """The job's tools cannot be called at all."""
    return ApiError(str(error), code=error.code)
