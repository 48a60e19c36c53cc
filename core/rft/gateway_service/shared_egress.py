"""What all jobs of one service process share: connections, limits, and the knowledge of which endpoints are down."""

from collections.abc import Callable, Iterable
from itertools import count

from rft.core.attempt import Attempt
from rft.core.endpoint_load import EndpointLoad
from rft.core.spec import RetryBudget
from rft.egress.breaker import BreakerSettings, BreakerState
from rft.egress.client import HttpClient
from rft.egress.endpoint import Endpoint, endpoint_key
from rft.egress.endpoint_client import EndpointClient
from rft.egress.failed_calls import FailedCalls
from rft.egress.guard import AddressPolicy
from rft.egress.limiter import Limiter
from rft.egress.limits import BreakerChange, Limits
from rft.egress.reply import SizeCaps
from rft.egress.signing import Signer
from rft.gateway_service.settings import ServiceSettings

_registrations = count()
_MARGIN_S = 60.0
"""A trainer's hold gives up before the calls that wait for the same endpoint do."""


class JobLimits(Limits):
    """One job's view of the shared limits: remembers which endpoints the job uses, and takes its caps along."""

    def __init__(self, shared: Limits) -> None:
        self._shared, self.caller = shared, f"registration {next(_registrations)}"
        self.keys: set[str] = set()
        """Keys of the endpoints that the job has called."""

    def limiter(self, endpoint: Endpoint, *, owner: str = "") -> Limiter:
        """The limiter that all jobs share."""
        self.keys.add(endpoint_key(endpoint.url))
        return self._shared.limiter(endpoint, owner=owner or self.caller)

    def loads(self) -> dict[str, EndpointLoad]:
        """By key, of the endpoints that the job has called: of all jobs together."""
        found = {key: self._shared.load_of(key) for key in self.keys}
        return {key: load for key, load in found.items() if load is not None}

    async def aclose(self) -> None:
        """The job is done: its caps hold no longer, its secrets are forgotten, the others go on."""
        self._shared.let_go(self.caller, self.keys)


class SharedEgress:
    """One per service process and event loop."""

    def __init__(self, settings: ServiceSettings, *, caps: SizeCaps | None = None) -> None:
        egress = settings.egress
        self._http = HttpClient(AddressPolicy.of(egress), caps=caps or SizeCaps.of(egress))
        self._not_up: dict[str, BreakerChange] = {}
        self._limits = Limits.of(
            egress, breaker=BreakerSettings(max_open_s=settings.hold_max_s + _MARGIN_S), on_change=self._note
        )

    def limits_of_job(self) -> JobLimits:
        """A new job's view of the limits."""
        return JobLimits(self._limits)

    def client(
        self,
        limits: JobLimits,
        *,
        retry: RetryBudget,
        signing_secrets: tuple[str, ...],
        on_attempt: Callable[[Attempt], None],
        failed_calls: FailedCalls | None = None,
    ) -> EndpointClient:
        """A job's own client on the shared connections and limits. Raises ValueError for a malformed secret."""
        return EndpointClient(
            self._http,
            limits=limits,
            retry=retry,
            signer=Signer(signing_secrets) if signing_secrets else None,
            on_attempt=on_attempt,
            failed_calls=failed_calls,
        )

    def not_up(self, keys: Iterable[str]) -> list[BreakerChange]:
        """Those of these endpoints whose breaker is not closed, with what they failed with last."""
        return [self._not_up[key] for key in sorted(keys) if key in self._not_up]

    async def aclose(self) -> None:
        """Close all connections and stop probing."""
        await self._limits.aclose()
        await self._http.aclose()

    def _note(self, change: BreakerChange) -> None:
        if change.state is BreakerState.CLOSED:
            self._not_up.pop(change.endpoint, None)
        else:
            self._not_up[change.endpoint] = change
