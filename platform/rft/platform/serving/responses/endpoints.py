"""`POST /v1/responses`."""

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from rft.core.ids import public_id
from rft.platform.api.dependencies import AppServices, KeyId
from rft.platform.api.errors import ApiError, ErrorEnvelope
from rft.platform.api.hang_up import each_while_connected, while_connected
from rft.platform.serving.answering import Processes, counted, drain, first_of, named
from rft.platform.serving.responses.items import ITEM_KEY_LENGTH
from rft.platform.serving.responses.order import to_response_order
from rft.platform.serving.responses.reply import ResponseReply
from rft.platform.serving.responses.schemas import ResponseBody, ResponseObject
from rft.platform.serving.responses.sealed_turns import TurnSeal, model_digest
from rft.platform.serving.responses.stream_schemas import StreamEvent
from rft.platform.serving.responses.streaming import ResponseEvents
from rft.platform.serving.service import events
from rft.serving_wire.records import Event

router = APIRouter(tags=["responses"])
_REPLIES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
    404: {"model": ErrorEnvelope},
}


@router.post("/responses", responses=_REPLIES)
async def create_response(
    request: Request, services: AppServices, processes: Processes, key_id: KeyId, body: ResponseBody
) -> ResponseObject:
    """An answer of a base model, a fine-tuned model or a checkpoint; with `stream`, as server-sent events.

    Nothing is stored: the items of the conversation come back in `input`.
    """
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
    told = counted(_for_input(events(processes, model, order.request)), services, key_id, reply)
    if not body.stream:
        await while_connected(request, drain(told))
        return reply.response(reply.end_status, reply.items(), at=int(time.time()))
    first = await while_connected(request, first_of(told))
    return StreamingResponse(  # pyright: ignore[reportReturnType]
        _stream(ResponseEvents(reply), first, each_while_connected(request, told)),
        media_type="text/event-stream",
        headers={"cache-control": "no-cache"},
    )


async def _for_input(told: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """The same; what is wrong with the messages is wrong with `input` here."""
    try:
        async with aclosing(told):
            async for event in told:
                yield event
    except ApiError as error:
        if error.param == "messages":
            error.param = "input"
        raise


async def _stream(stream: ResponseEvents, first: Event, told: AsyncGenerator[Event]) -> AsyncGenerator[bytes]:
    """Events as they come; an error after the first one is told in the stream."""
    async with aclosing(told):
        try:
            for event in stream.of(first, int(time.time())):
                yield _data(event)
            async for heard in told:
                for event in stream.of(heard, int(time.time())):
                    yield _data(event)
        except ApiError as error:
            for event in stream.failed(error):
                yield _data(event)


def _data(event: StreamEvent) -> bytes:
    return f"event: {event.type}\ndata: {event.model_dump_json()}\n\n".encode()
