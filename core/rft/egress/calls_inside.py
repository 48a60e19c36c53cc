"""The calls that are under way at one endpoint."""

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """What one call holds while it is under way."""

    recoveries: int = 0
    """Of the endpoint, before the call began."""


class CallsInside:
    """Counts them, probes included, and knows which of them began before the endpoint last recovered from an outage."""

    def __init__(self) -> None:
        self.total = 0
        self.by_owner: dict[str, int] = {}
        """Without probes."""
        self._recoveries = 0
        self._older = 0
        self._departure: asyncio.Future[None] | None = None

    @property
    def recent(self) -> int:
        """Those that began since the last recovery. Older ones may hang there for as long as a call may take."""
        return self.total - self._older

    def add(self, owner: str | None) -> Slot:
        """One more; `owner`: None for a probe."""
        self.total += 1
        if owner is not None:
            self.by_owner[owner] = self.by_owner.get(owner, 0) + 1
        return Slot(self._recoveries)

    def remove(self, owner: str | None, slot: Slot | None) -> None:
        """One has ended. `slot`: None for a recent one."""
        self.total -= 1
        if self.is_older(slot):
            self._older -= 1
        if owner is not None:
            self.by_owner[owner] -= 1
            if not self.by_owner[owner]:
                del self.by_owner[owner]
        self.note_room()

    def is_older(self, slot: Slot | None) -> bool:
        """Whether the call began before the last recovery: how it ends says nothing about the endpoint as it is now."""
        return slot is not None and slot.recoveries < self._recoveries

    def note_recovery(self) -> None:
        """The endpoint is up again after an outage."""
        self._recoveries += 1
        self._older = self.total

    def note_room(self) -> None:
        """Another may be let in, perhaps."""
        if self._departure is not None and not self._departure.done():
            self._departure.set_result(None)

    async def room(self) -> None:
        """Wait until another may be let in, perhaps."""
        self._departure = asyncio.get_running_loop().create_future()
        await self._departure
