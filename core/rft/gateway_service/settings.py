"""Settings of a gateway service, under the names that the platform uses; only a service's process reads them."""

from pydantic import Field, IPvAnyNetwork, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from rft.core.bad_settings import bad_setting
from rft.core.egress_settings import EgressSettings
from rft.core.log_level import LogLevel


class ServiceSettings(BaseSettings):
    """Read from `RFT_<NAME>`."""

    model_config = SettingsConfigDict(
        env_prefix="RFT_", frozen=True, extra="ignore", env_ignore_empty=True, allow_inf_nan=False
    )

    gateway_token: SecretStr | None = None
    """What callers must show. Unset: the service listens on this machine's own addresses only."""
    allowed_hosts: tuple[str, ...] = ()
    """Without a token: names that callers may reach the service by, beside `localhost` and loopback addresses. JSON."""
    max_calls_in_flight: int = Field(default=512, ge=1)
    """Concurrent calls to one endpoint at most, all jobs together."""
    max_call_bytes: int = Field(default=1_000_000, ge=1_000, le=16_000_000)
    """A call to an endpoint beyond this is not made; traces for graders are shortened to it."""
    max_reply_bytes: int = Field(default=1_000_000, ge=1_000, le=16_000_000)
    """A reply beyond this is not read: a tool's is a 413 to the model, a grader's a failure."""
    has_adaptive_limits: bool = True
    """Let calls in flight follow what each endpoint bears, with a circuit breaker, below `max_calls_in_flight`."""
    hold_max_s: float = Field(default=3600.0, ge=0)
    """Calls wait for an endpoint that is down for this long, and a minute; then they fail at once."""
    allow_loopback: bool = True
    """Whether tools and graders may live on this machine."""
    allow_cidrs: tuple[IPvAnyNetwork, ...] = ()
    """Private networks that tools and graders may live in, e.g. `["10.1.0.0/16"]`; there also without https. JSON."""
    log_level: LogLevel = "INFO"
    """Level of our own log lines."""

    @property
    def egress(self) -> EgressSettings:
        """What holds for every call to a customer's endpoint."""
        return EgressSettings.model_validate(self, from_attributes=True)


def service_settings() -> ServiceSettings:
    """As the environment has them now. Raises BadSetting."""
    try:
        return ServiceSettings()
    except (SettingsError, ValidationError) as problem:
        raise bad_setting(ServiceSettings, problem) from problem
