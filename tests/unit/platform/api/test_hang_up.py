"""What becomes of work and of streams whose caller hangs up."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.types import Message

from rft.platform.api import error_handlers
from rft.platform.api.errors import BadRequest, ClientGone
from rft.platform.api.event_stream import EventStream
from rft.platform.api.hang_up import connected


@dataclass(slots=True)
class Caller:
    """The other side of a connection."""

    sent: list[Message] = field(default_factory=list[Message])
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    on_piece: Callable[[], None] = lambda: None

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if message["type"] == "http.response.body":
            self.on_piece()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def is_complete(self) -> bool:
        return bool(self.sent) and self.sent[-1].get("more_body") is False


async def test_work_ends_before_the_refusal_when_the_caller_hangs_up() -> None:
    caller, ended = Caller(), list[str]()
    asyncio.get_running_loop().call_later(0.01, caller.gone.set)

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append("work")

    with pytest.raises(ClientGone):
        async with connected(caller.receive):
            await work()
    assert ended == ["work"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0, "or the next timeout of this task would be taken for a cancellation"


async def test_work_whose_cancellation_is_lost_is_refused_when_it_has_ended() -> None:
    caller = Caller()
    caller.gone.set()

    async def work() -> None:
        async with connected(caller.receive):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    with pytest.raises(ClientGone):
        await work()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_work_that_is_cancelled_otherwise_is_cancelled() -> None:
    caller = Caller()

    async def work() -> None:
        async with connected(caller.receive):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0.01)
    caller.gone.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_nothing_is_cancelled_behind_the_work() -> None:
    caller = Caller()
    async with connected(caller.receive):
        await asyncio.sleep(0)
    caller.gone.set()
    await asyncio.sleep(0.01)


async def test_a_stream_is_closed_when_its_reader_hangs_up() -> None:
    closed = list[bool]()

    async def pieces() -> AsyncGenerator[bytes]:
        try:
            yield b"one"
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            closed.append(True)

    caller = Caller()
    caller.on_piece = caller.gone.set
    await asyncio.wait_for(EventStream(pieces())({"type": "http"}, caller.receive, caller.send), 60)
    assert (caller.body, caller.is_complete, closed) == (b"one", False, [True])


async def test_a_stream_ends_though_its_cancellation_is_lost() -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        for number in itertools.count():
            with suppress(asyncio.CancelledError):  # as `asyncio.wait_for` does when what it waits for has just ended
                await asyncio.sleep(0.01)
            yield b"%d," % number

    caller = Caller()
    caller.on_piece = lambda: caller.gone.set() if len(caller.sent) == 3 else None
    await asyncio.wait_for(EventStream(pieces())({"type": "http"}, caller.receive, caller.send), 60)
    assert (caller.body, caller.is_complete) == (b"0,1,2,", False)


async def test_a_stream_to_its_end() -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        for piece in (b"one", b"two"):
            await asyncio.sleep(0)
            yield piece

    caller = Caller()
    # At the end of a reply servers tell of a disconnect, as if the client had gone.
    caller.on_piece = lambda: caller.gone.set() if caller.is_complete else None
    await EventStream(pieces())({"type": "http"}, caller.receive, caller.send)
    assert (caller.body, caller.is_complete) == (b"onetwo", True)
    assert dict(caller.sent[0]["headers"])[b"content-type"].startswith(b"text/event-stream")


async def test_a_stream_that_is_silent_says_that_it_is_still_there() -> None:
    """Before the first piece nothing is said: it may be a refusal."""
    caller, is_heard, has_waited = Caller(), asyncio.Event(), list[int]()

    def heard() -> None:
        if caller.body.count(b":") >= 2:
            is_heard.set()

    async def pieces() -> AsyncGenerator[bytes]:
        await asyncio.sleep(0.05)
        has_waited.append(len(caller.sent))
        yield b"one"
        await is_heard.wait()
        yield b"two"

    caller.on_piece = heard
    stream = EventStream(pieces(), silence_s=0.001)
    await asyncio.wait_for(stream({"type": "http"}, caller.receive, caller.send), 60)
    assert has_waited == [0]
    assert caller.body.replace(b": still there\n\n", b"") == b"onetwo"
    assert caller.is_complete


async def test_a_refusal_before_the_first_piece_has_its_status() -> None:
    app = FastAPI()
    error_handlers.install(app)

    @app.get("/")
    async def stream(request: Request) -> Any:
        async def pieces() -> AsyncGenerator[bytes]:
            await asyncio.sleep(0)
            raise BadRequest("No.", param="model")
            yield b""

        return EventStream(pieces())

    caller = Caller()
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b"", "app": app}
    await app(scope, caller.receive, caller.send)
    assert caller.sent[0]["status"] == 400
    assert b'"param":"model"' in caller.body
