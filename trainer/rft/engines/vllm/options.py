"""Which servers an engine asks, and what holds for all of them."""

from collections.abc import Callable
from dataclasses import dataclass

from rft.engines.vllm.pool import POLL_S


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is. `ensure_running` where it is our own: see `Server`."""

    url: str
    ensure_running: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What holds for every server of a run."""

    base_model: str
    """What the run trains."""
    max_context_tokens: int
    api_key: str | None = None
    requests_at_once: int = 256
    """By server; the others wait here."""
    sample_s: float = 3600.0
    """How long one turn may take."""
    start_patience_s: float = 600.0
    """How long the first server may take to be up."""
    patience_s: float = 300.0
    """How long a turn or a new version waits while no server is up."""
    poll_s: float = POLL_S
