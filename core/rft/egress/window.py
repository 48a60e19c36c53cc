"""How many calls may be in flight at one endpoint: a number, or what an `AdaptiveWindow` learned."""

from dataclasses import dataclass
from typing import Protocol

from rft.core.endpoint_load import LimitReason
from rft.egress.reply import AttemptFailure


class Window(Protocol):
    """How many calls may be in flight; learns from how they end."""

    @property
    def limit(self) -> int:
        """Calls in flight at most, at least 1."""
        ...

    @property
    def reason(self) -> LimitReason:
        """Why it is that many."""
        ...

    @property
    def largest(self) -> int:
        """What the limit never exceeds."""
        ...

    def on_start(self, idle_s: float) -> None:
        """A call starts after nothing was inside for `idle_s`."""
        ...

    def on_recovery(self) -> None:
        """The endpoint is up again after an outage."""
        ...

    def on_end(self, failure: AttemptFailure | None, *, latency_s: float, in_flight: int, now_s: float) -> None:
        """One attempt ended: None for a usable reply. `in_flight` includes it."""
        ...


@dataclass(slots=True)
class FixedWindow:
    """A limit that learns nothing."""

    limit: int
    reason: LimitReason = LimitReason.SET

    @property
    def largest(self) -> int:
        """The limit itself."""
        return self.limit

    def on_start(self, idle_s: float) -> None:
        """Nothing to learn."""

    def on_recovery(self) -> None:
        """Nothing to learn."""

    def on_end(self, failure: AttemptFailure | None, *, latency_s: float, in_flight: int, now_s: float) -> None:
        """Nothing to learn."""
