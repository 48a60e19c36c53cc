"""Circuit breaker: when an endpoint is down, calls wait instead of running through their retries. Pure, no clock.

closed -> (so many failures in a row) -> open, and a probe at once. Does it answer, then only these calls fail and not
the endpoint: closed again. Does it not: it is down, and is probed after growing pauses -> (a probe finds it answering)
-> half open -> (a trial call succeeds) -> closed, or -> (the trial fails) -> open. An endpoint that answers probes and
fails one trial after the other is not down either: closed. And since a probe is a GET, which an endpoint may ignore,
after several unanswered ones a trial call goes out all the same.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from rft.core.failure import FailureCode
from rft.egress.reply import AttemptFailure

_ROUNDING_S = 1e-6
"""When an attempt began is worked out from how long it took."""
_BRIEF_S = 2.0


class BreakerState(StrEnum):
    """Whether calls go out."""

    CLOSED = "closed"
    """They do."""
    OPEN = "open"
    """They wait; only probes go out."""
    HALF_OPEN = "half_open"
    """One at a time."""


DOWN_CODES = frozenset(
    {
        FailureCode.CONNECT_ERROR,
        FailureCode.TLS_ERROR,
        FailureCode.CONNECTION_RESET,
        FailureCode.TIMEOUT,
        FailureCode.SERVER_ERROR,
        FailureCode.INVALID_REPLY,
    }
)
"""What an endpoint that is down answers. A refusal (429, 4xx) or a wrong score comes from one that is up."""


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When it opens, and how often it probes."""

    failures_in_a_row: int = 10
    first_pause_s: float = 0.5
    max_pause_s: float = 15.0
    most_trials: int = 3
    """It closes after this many failed trials, each after a probe that was answered."""
    probes_per_trial: int = 6
    """So many unanswered probes in a row make way for one trial call."""
    max_open_s: float = 1800.0
    """Calls that would wait at an endpoint that has been down for longer fail at once."""


@dataclass(slots=True)
class Breaker:
    """One endpoint's breaker."""

    settings: BreakerSettings = field(default_factory=BreakerSettings)
    state: BreakerState = BreakerState.CLOSED
    last_failure: AttemptFailure | None = None
    """What the endpoint ended its latest failed attempt with."""
    down_since_s: float | None = None
    """When it opened first, through all half-open spells; None while closed."""
    next_probe_s: float = 0.0
    _failures: int = 0
    _pauses: int = 0
    """Probes in a row that found nobody, or trials that failed."""
    _failed_trials: int = 0
    """In a row, each after a probe that was answered."""
    _unanswered: int = 0
    """Probes in a row."""
    _changed_s: float = -math.inf

    def on_end(self, failure: AttemptFailure | None, *, began_s: float, now_s: float) -> None:
        """One attempt ended. What never got a reply for a reason of ours says nothing about the endpoint.

        Nor does what began before the state changed: a server that restarts may end what is inside, and take nothing
        new; another that came up again does not know what hung at the one before.
        """
        if began_s < self._changed_s - _ROUNDING_S:
            if failure is None and self.state is BreakerState.CLOSED:
                self._failures = 0  # Slow answers show all the same that not every call fails.
            return
        if failure is None or failure.code not in DOWN_CODES:
            if failure is None or failure.status is not None:
                self._close(now_s)
            return
        self.last_failure = failure
        self._failures += 1
        if self.state is BreakerState.CLOSED and self._failures >= self.settings.failures_in_a_row:
            self._open(now_s, pause_s=0.0)
        elif self.state is BreakerState.HALF_OPEN:
            self._failed_trials += self._unanswered == 0
            if self._failed_trials < self.settings.most_trials:
                self._open(now_s, pause_s=self._next_pause_s())
            else:
                self._close(now_s)

    def on_probe(self, *, is_alive: bool, now_s: float) -> None:
        """A probe ended, while open."""
        if self.state is not BreakerState.OPEN:
            return
        self._unanswered = 0 if is_alive else self._unanswered + 1
        if is_alive and self._pauses == 0:
            self._close(now_s)
        elif is_alive or self._unanswered % self.settings.probes_per_trial == 0:
            self.state, self._changed_s = BreakerState.HALF_OPEN, now_s
        else:
            self._open(now_s, pause_s=self._next_pause_s())

    def forget(self, now_s: float) -> None:
        """Nobody calls it any more, or waits to try it: whether it is down will be found out by the next who does."""
        self._close(now_s)

    def is_found_down(self, now_s: float) -> bool:
        """Whether it is down for more than the calls that failed: a probe found nobody, or it is open for a while."""
        if self.down_since_s is None:
            return False
        return self._pauses > 0 or now_s - self.down_since_s > _BRIEF_S

    def is_beyond_hope(self, now_s: float) -> bool:
        """Whether it has been down for longer than calls may wait."""
        return self.down_since_s is not None and now_s - self.down_since_s > self.settings.max_open_s

    def note_call(self, now_s: float) -> None:
        """A call comes while open, and nobody probes. What was not looked at lately may be up, or newly down."""
        if now_s > self.next_probe_s + self.settings.max_pause_s:
            self._pauses, self._failed_trials, self._unanswered = 1, 0, 0
            self.down_since_s = self.next_probe_s = now_s

    def _open(self, now_s: float, *, pause_s: float) -> None:
        self.down_since_s = now_s if self.down_since_s is None else self.down_since_s
        self.state, self._changed_s = BreakerState.OPEN, now_s
        self.next_probe_s = now_s + pause_s

    def _next_pause_s(self) -> float:
        pause_s = min(self.settings.first_pause_s * 2.0 ** min(self._pauses, 30), self.settings.max_pause_s)
        self._pauses += 1
        return pause_s

    def _close(self, now_s: float) -> None:
        self._failures = self._pauses = self._failed_trials = self._unanswered = 0
        if self.state is not BreakerState.CLOSED:
            self.state, self._changed_s, self.down_since_s = BreakerState.CLOSED, now_s, None
