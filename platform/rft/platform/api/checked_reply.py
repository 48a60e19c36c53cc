"""A reply that is worked on while its right to be sent is still looked up."""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


async def reply_once(check: "asyncio.Future[Any]", app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> bool:
    """Runs the app; nothing that it says leaves before `check` is done.

    False where `check` raised: the app was cancelled, has ended, and said nothing.
    """
    task = asyncio.current_task()
    assert task is not None
    is_refused = False

    def give_up(checked: "asyncio.Future[Any]") -> None:
        nonlocal is_refused
        if checked.cancelled() or checked.exception() is not None:
            is_refused = True
            task.cancel()

    async def send_checked(message: Message) -> None:
        if not check.done():
            await asyncio.wait((check,))
        if is_refused:
            raise asyncio.CancelledError  # The one that was lost, where it was.
        await send(message)

    check.add_done_callback(give_up)
    try:
        await app(scope, receive, send_checked)
    except BaseException:
        # Cancelled by somebody else, too: that counts more, as with `asyncio.timeout`.
        if not is_refused or task.uncancel() > 0:
            raise
    else:
        if is_refused:
            task.uncancel()
    finally:
        check.remove_done_callback(give_up)
    if not check.done():  # The app had nobody left to say anything to.
        await asyncio.wait((check,))
    return not check.cancelled() and check.exception() is None
