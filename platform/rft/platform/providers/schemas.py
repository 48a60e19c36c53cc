"""Providers on the wire."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rft.egress.endpoint import header_problem
from rft.platform.api.pagination import Listed
from rft.platform.api.wire import PositiveSeconds, TextBody, must_be, refuse_unless
from rft.platform.orders.tool_fields import EndpointUrl, Headers
from rft.rollouts.chat_policy import ChatUsage
from rft.rollouts.provider_wire import OMITTABLE, OmittableField

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""Of a provider: what stands before the slash in a model's name."""
_MAX_KEY_CHARS = 4096


def _key_problem(key: str) -> str | None:
    """As the value of a header."""
    return None if header_problem({"Authorization": f"Bearer {key}"}) is None else "cannot be sent in a header"


class PricePerMillion(BaseModel):
    """What a million tokens cost, in whatever currency."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    cached_prompt: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Of those prompt tokens that the provider had cached; null: as the others."""
    completion: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    def cost_of(self, usage: ChatUsage) -> float:
        """Of these tokens."""
        cached = self.prompt if self.cached_prompt is None else self.cached_prompt
        fresh = max(0, usage.prompt_tokens - usage.cached_tokens)
        return (fresh * self.prompt + usage.cached_tokens * cached + usage.completion_tokens * self.completion) / 1e6


def _to_schema(schema: dict[str, Any]) -> None:
    """A key is given, and never shown."""
    schema["properties"]["api_key"] |= {"writeOnly": True}


class ProviderFields(TextBody):
    """What is kept of a provider."""

    name: Annotated[
        Annotated[str, Field(pattern=f"^{NAME}$")],
        must_be("1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit"),
    ]
    """Its models are named `NAME/MODEL`."""
    base_url: EndpointUrl
    """Ends where `/chat/completions` begins, usually in `/v1`."""
    api_key: (
        Annotated[
            Annotated[str, Field(min_length=1, max_length=_MAX_KEY_CHARS)],
            must_be(f"a text of 1 to {_MAX_KEY_CHARS} characters"),
            AfterValidator(refuse_unless(_key_problem)),
        ]
        | None
    ) = None
    """Sent as a bearer token; stored encrypted, shown redacted."""
    headers: Headers | None = None
    """Sent with every call; values are shown redacted."""
    timeout_s: PositiveSeconds | None = None
    """Deadline of one attempt; 600 when absent."""
    max_concurrency: Annotated[Annotated[int, Field(ge=1, strict=True)], must_be("a whole number from 1")] | None = None
    """Requests in flight at most; 8 when absent."""
    requests_per_minute: (
        Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)], must_be("a number above 0")] | None
    ) = None
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] | None = None
    """How it calls the limit of a turn's tokens; `max_completion_tokens` when absent."""
    omit_fields: Annotated[list[OmittableField], must_be(f"a list of {', '.join(OMITTABLE)}")] | None = None
    """Fields of a request that its models refuse."""
    price_per_million: PricePerMillion | None = None
    """What its tokens cost."""


class ProviderCreate(ProviderFields):
    """A provider to be registered."""

    model_config = ConfigDict(json_schema_extra=_to_schema)

    probe: bool = False
    """Ask it for its models first: a wrong address or key is refused."""


class ProviderObject(Listed):
    """A registered provider; its key and header values are redacted."""

    object: Literal["provider"] = "provider"
    created_at: int
    updated_at: int
    name: str
    base_url: str
    api_key: str | None
    """Redacted; null where none was given."""
    headers: dict[str, str] | None
    timeout_s: float
    max_concurrency: int
    requests_per_minute: float | None
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"]
    omit_fields: list[str]
    price_per_million: PricePerMillion | None
    models: list[str] | None = None
    """Those that it told when it was probed; null where nobody asked."""


class ProviderDeleted(BaseModel):
    """It is gone; runs under way go on."""

    id: str
    object: Literal["provider"] = "provider"
    deleted: bool = True
