"""Conversations that begin, told in the event log before their first call: those of one moment in one line."""

import asyncio

from rft.core.events import RolloutBegan, RolloutsBegan
from rft.trainer.events import EventWriter
from rft.trainer.ledger import Ledger


class Beginnings:
    """Lives in the rollouts' event loop. A step's whole burst begins in one pass of it, and is one event."""

    def __init__(self, events: EventWriter, ledger: Ledger) -> None:
        self._events, self._ledger = events, ledger
        self._pending: list[RolloutBegan] = []
        self._written: asyncio.Future[None] | None = None

    async def tell(self, began: RolloutBegan) -> None:
        """Return once the line is written. Raises what writing raises."""
        self._ledger.began(began)
        self._pending.append(began)
        if self._written is None:
            loop = asyncio.get_running_loop()
            self._written = loop.create_future()
            loop.call_soon(self._write, self._written)
        await asyncio.shield(self._written)  # Others wait for the same line.

    def _write(self, written: asyncio.Future[None]) -> None:
        pending, self._pending, self._written = self._pending, [], None
        try:
            self._events.append(RolloutsBegan(rollouts=tuple(pending)))
        except Exception as error:
            written.set_exception(error)
        else:
            written.set_result(None)
