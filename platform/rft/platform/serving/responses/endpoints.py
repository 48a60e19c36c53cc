"""`POST /v1/responses`."""

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request

from rft.core.ids import public_id
from rft.platform.api.errors import ApiError, ErrorEnvelope
from rft.platform.api.event_stream import EventStream
from rft.platform.api.hang_up import while_connected
from rft.platform.serving.answering import Asking, counted, drain, named
from rft.platform.serving.responses.items import ITEM_KEY_LENGTH
from rft.platform.serving.responses.order import to_response_order
from rft.platform.serving.responses.reply import ResponseReply
from rft.platform.serving.responses.schemas import ResponseBody, ResponseObject
from rft.platform.serving.responses.sealed_turns import TurnSeal, model_digest
from rft.platform.serving.responses.stream_schemas import StreamEvent
from rft.platform.serving.responses.streaming import ResponseEvents
from rft.platform.serving.service import events
from rft.serving_wire.records import Event

_CALLED_HERE = {"messages": "input", "response_format": "text.format"}
"""Fields of chat completions."""
router = APIRouter(tags=["responses"])
_REPLIES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
    404: {"model": ErrorEnvelope},
}


@router.post("/responses", responses=_REPLIES)
async def create_response(request: Request, asker: Asking, body: ResponseBody) -> ResponseObject:
    """An answer of a base model, a fine-tuned model or a checkpoint; with `stream`, as server-sent events.

    Nothing is stored: the items of the conversation come back in `input`.
    """
    services = asker.services
    model = await named(services, body.model)
    seal = TurnSeal(services.secret_box, services.settings.organization, model_digest(model))
    order = to_response_order(body, model.adapter, seal)
    reply = ResponseReply(
        model=body.model,
        key=public_id("", secrets.token_bytes(ITEM_KEY_LENGTH), ITEM_KEY_LENGTH),
        created_at=int(time.time()),
        body=body,
        order=order,
        seal=seal.seal,
    )
    told = asker.admitted(counted(_named_here(events(asker.processes, model, order.request)), asker, reply))
    if not body.stream:
        await while_connected(request, drain(told))
        return reply.response(reply.end_status, reply.items(), at=int(time.time()))
    return EventStream(_stream(ResponseEvents(reply), told))  # pyright: ignore[reportReturnType]


async def _named_here(told: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """The same; what is wrong with a field of chat completions is wrong with ours here."""
    try:
        async with aclosing(told):
            async for event in told:
                yield event
    except ApiError as error:
        error.param = _CALLED_HERE.get(error.param or "", error.param)
        raise


async def _stream(stream: ResponseEvents, told: AsyncGenerator[Event]) -> AsyncGenerator[bytes]:
    """Events as they come; an error after the first one is told in the stream."""
    has_begun = False
    async with aclosing(told):
        try:
            async for heard in told:
                if pieces := b"".join(map(_data, stream.of(heard, int(time.time())))):
                    has_begun = True
                    yield pieces
        except ApiError as error:
            if not has_begun:
                raise
            yield b"".join(map(_data, stream.failed(error)))


def _data(event: StreamEvent) -> bytes:
    return f"event: {event.type}\ndata: {event.model_dump_json()}\n\n".encode()
