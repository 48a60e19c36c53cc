"""How customer endpoints may be called: set once by the operator, and passed on whole to whoever opens connections."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator

from rft.core.base import Record


def _to_texts(networks: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(network) for network in networks)


class EgressSettings(Record):
    """What holds for every call to a tool or grader of a customer, from whichever process it is made."""

    max_calls_in_flight: int = 512
    """Concurrent calls per endpoint."""
    max_call_bytes: int = 1_000_000
    max_reply_bytes: int = 1_000_000
    """What one call may carry each way."""
    allow_loopback: bool = True
    """Whether endpoints may live on this machine."""
    allow_cidrs: Annotated[tuple[str, ...], BeforeValidator(_to_texts)] = ()
    """Private networks that endpoints may live in, e.g. `10.1.0.0/16`."""
    has_adaptive_limits: bool = False
    """Whether calls in flight follow what each endpoint bears; otherwise `max_calls_in_flight` alone counts."""
