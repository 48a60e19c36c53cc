"""A reply that is worked on while its right to be sent is looked up: nothing leaves before, or where it is refused."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from rft.platform.api.checked_reply import reply_once
from rft.platform.api.errors import Unauthorized

SAID: Message = {"type": "http.response.start"}
App = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]


async def looked_up(after_s: float, error: Exception | None = None) -> str:
    await asyncio.sleep(after_s)
    if error is not None:
        raise error
    return "somebody"


async def reply(app: App, check: "asyncio.Future[str]") -> tuple[bool, list[Message]]:
    sent: list[Message] = []

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        assert check.done()
        sent.append(message)

    is_sent = await reply_once(check, app, {}, receive, send)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)  # a cancellation that lingers would be here
    return is_sent, sent


def says(*, after_s: float) -> App:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await asyncio.sleep(after_s)
        await send(SAID)

    return app


@pytest.mark.parametrize(("app_s", "check_s"), [(0.0, 0.02), (0.02, 0.0)])
async def test_a_reply_is_sent_as_soon_as_both_are_ready(app_s: float, check_s: float) -> None:
    check = asyncio.ensure_future(looked_up(check_s))
    assert await reply(says(after_s=app_s), check) == (True, [SAID])


@pytest.mark.parametrize(("app_s", "check_s"), [(0.0, 0.02), (60.0, 0.0)])
async def test_an_app_that_may_not_reply_is_ended_and_says_nothing(app_s: float, check_s: float) -> None:
    check = asyncio.ensure_future(looked_up(check_s, Unauthorized("no")))
    assert await reply(says(after_s=app_s), check) == (False, [])


async def test_nothing_is_sent_by_one_that_does_not_hear_of_its_end() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        with suppress(asyncio.CancelledError):
            await send(SAID)

    check = asyncio.ensure_future(looked_up(0.0, Unauthorized("no")))
    assert await reply(app, check) == (False, [])


async def test_nothing_is_sent_in_the_moment_in_which_it_is_refused() -> None:
    """A future calls back a little later than it is done; by then the refusal is on its way, and stays."""
    check: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        check.set_exception(Unauthorized("no"))
        await send(SAID)

    assert await reply(app, check) == (False, [])


async def test_a_look_that_is_cancelled_lets_nobody_through() -> None:
    check = asyncio.ensure_future(looked_up(60.0))
    asyncio.get_running_loop().call_later(0.01, check.cancel)
    assert await reply(says(after_s=0.0), check) == (False, [])


async def test_a_bug_of_the_app_stays_one() -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await reply(app, asyncio.ensure_future(looked_up(0.0)))


async def test_who_ends_the_request_from_outside_ends_it() -> None:
    check = asyncio.ensure_future(looked_up(0.02, Unauthorized("no")))
    request = asyncio.ensure_future(reply(says(after_s=60.0), check))
    await asyncio.sleep(0.01)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    check.cancel()
