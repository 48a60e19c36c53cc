"""What one attempt at an endpoint ends in: a `Reply`, or an `AttemptFailure`. Nothing is raised."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rft.core.egress_settings import EgressSettings
from rft.core.failure import FailureCode


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole HTTP reply. Bodies of statuses other than 2xx may be cut at the size cap."""

    status: int
    headers: Mapping[str, str]
    """Case-insensitive."""
    body: bytes
    """Decompressed."""
    elapsed_s: float
    """From sending to the last byte, without waiting in our own queue."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """What the call carried and the reply may repeat: to be redacted before anything of it is cut or shown."""


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """Why one attempt brought no usable reply."""

    code: FailureCode
    message: str
    """What happened, as the end of a sentence that begins with the endpoint's name."""
    status: int | None = None
    retry_after_s: float | None = None
    """How long the endpoint asked us to stay away."""
    surely_not_sent: bool = False
    """The request cannot have reached the endpoint's code, so that repeating it is always safe."""
    received_bytes: int = 0
    """Of a body that was not read to its end; as announced, where it was too large to be read at all."""


@dataclass(frozen=True, slots=True)
class SizeCaps:
    """How much one call may carry each way, in bytes."""

    request_bytes: int = 1_000_000
    reply_bytes: int = 1_000_000
    """Holds for the bytes on the wire and again after decompression."""

    @classmethod
    def of(cls, settings: EgressSettings) -> "SizeCaps":
        """What the operator lets one call carry."""
        return cls(request_bytes=settings.max_call_bytes, reply_bytes=settings.max_reply_bytes)
