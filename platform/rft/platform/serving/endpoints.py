"""`POST /v1/chat/completions`, and the same at a deployment's path, as Azure's clients send it."""

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
from rft.platform.serving.order import to_completion_request
from rft.platform.serving.replies import Reply
from rft.platform.serving.schemas import ChatCompletion, ChatCompletionBody, ChatCompletionChunk, DeploymentChatBody
from rft.platform.serving.service import events
from rft.serving_wire.records import Event

router = APIRouter(tags=["chat"])
_LAST = b"data: [DONE]\n\n"


_REPLIES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
    404: {"model": ErrorEnvelope},
}


@router.post("/chat/completions", responses=_REPLIES)
async def create_chat_completion(request: Request, asker: Asking, body: ChatCompletionBody) -> ChatCompletion:
    """An answer of a base model, a fine-tuned model or a checkpoint; with `stream`, as server-sent events."""
    model = await named(asker.services, body.model)
    wanted = to_completion_request(body, model.adapter)
    reply = Reply(
        id=public_id("chatcmpl-", secrets.token_bytes(29), 29),
        created=int(time.time()),
        model=body.model,
        n=wanted.n,
        has_logprobs=bool(body.logprobs),
        has_token_ids=bool(body.return_token_ids),
        has_usage=body.stream_options is not None and bool(body.stream_options.include_usage),
    )
    told = asker.admitted(counted(events(asker.processes, model, wanted), asker, reply))
    if not body.stream:
        await while_connected(request, drain(told))
        return reply.completion()
    return EventStream(_stream(reply, told))  # pyright: ignore[reportReturnType]


@router.post("/deployments/{deployment:path}/chat/completions", include_in_schema=False)
async def create_deployment_chat_completion(
    request: Request, asker: Asking, deployment: str, body: DeploymentChatBody
) -> ChatCompletion:
    """An answer of the model that the path names, as Azure's clients ask for it."""
    return await create_chat_completion(request, asker, body.model_copy(update={"model": deployment}))


async def _stream(reply: Reply, told: AsyncGenerator[Event]) -> AsyncGenerator[bytes]:
    """Chunks as they come; an error after the first one is told in the stream, as the official SDK expects it."""
    has_begun = False
    async with aclosing(told):
        try:
            async for event in told:
                if chunks := b"".join(map(_data, reply.chunks(event))):
                    has_begun = True
                    yield chunks
        except ApiError as error:
            if not has_begun:
                raise
            yield b"data: " + error.envelope.model_dump_json().encode() + b"\n\n"
            return
    yield _LAST


def _data(chunk: ChatCompletionChunk) -> bytes:
    return b"data: " + chunk.model_dump_json().encode() + b"\n\n"
