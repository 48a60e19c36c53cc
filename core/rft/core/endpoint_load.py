"""What one endpoint is given to bear now: calls in flight, how many there may be and why, whether it is down. Pure."""

from enum import StrEnum
from typing import Literal

from rft.core.base import Record
from rft.core.failure import Stage


class LimitReason(StrEnum):
    """Why as many calls may be in flight as now, and no more."""

    SET = "set"
    ORDERED = "ordered"
    APPROACHING = "approaching"
    GROWING = "growing"
    ENOUGH = "enough"
    MEASURING = "measuring"
    SLOWER = "slower"
    REFUSED = "refused"
    REFUSED_ANYWAY = "refused_anyway"
    DOWN = "down"
    TRIAL = "trial"


_SENTENCES = {
    LimitReason.SET: "the platform's own limit",
    LimitReason.ORDERED: "max_concurrency of the tool or grader",
    LimitReason.APPROACHING: "approached anew, since nothing is known yet, or there was a pause",
    LimitReason.GROWING: "grows as long as answers come as fast as under light load",
    LimitReason.ENOUGH: "not all of it is asked for",
    LimitReason.MEASURING: "halved for a moment, to measure how fast it answers under light load",
    LimitReason.SLOWER: "lowered, since with more calls answers only came later",
    LimitReason.REFUSED: "halved, since it answered 429, 502 to 504 or nothing to more calls than usual",
    LimitReason.REFUSED_ANYWAY: "restored, since with fewer calls it refused as many",
    LimitReason.DOWN: "it is down: calls wait, and it is probed",
    LimitReason.TRIAL: "it answered a probe, and is tried with single calls",
}


class EndpointLoad(Record):
    """One look at an endpoint, by whoever makes the calls."""

    limit: int
    """Calls in flight at most."""
    reason: LimitReason
    changed_at: float
    """Unix time in seconds since when that is the reason."""
    in_flight: int
    queued: int
    """Calls that wait to be let in."""
    calls_per_s: float
    """Attempts that ended, over the last minute."""
    rate_limit: float | None = None
    """Calls started per second at most, where the order says so."""
    breaker: Literal["closed", "open", "half_open"] = "closed"
    down_since: float | None = None
    """Unix time; None while it is up."""
    waits_until: float | None = None
    """Unix time before which no call goes out: the next probe, or what `Retry-After` asked for."""

    @property
    def why(self) -> str:
        """The reason in words."""
        return _SENTENCES[self.reason]


class NamedLoad(Record):
    """The same, of a tool or grader of a job."""

    stage: Stage
    endpoint: str
    """Tool or grader name."""
    is_shared: bool
    """A gateway service makes the calls: the load is that of all jobs together."""
    load: EndpointLoad
