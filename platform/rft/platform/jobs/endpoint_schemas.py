"""New addresses and headers for a job's tools and grader, on the wire. Ours: the contract has no such request."""

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from rft.platform.api.wire import TextBody, refused_at
from rft.platform.orders.tool_fields import EndpointUrl, Headers


class _Change(TextBody):
    """Nothing else of an order can be changed, so that what is misspelt is refused."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1})

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise refused_at((), "changes nothing")
        return self


def _no_null_url(value: Any, *names: str) -> Any:
    for name in names:
        if isinstance(value, dict) and name in value and value[name] is None:
            raise refused_at((name,), "must be a URL; leave it out to keep it")
    return value


class ToolChange(_Change):
    """What is not given stays."""

    server_url: EndpointUrl | None = None
    url: EndpointUrl | None = None
    """Another name of `server_url`."""
    headers: Headers | None = None
    """In place of all that were; redacted values stand for those that were; null for none."""
    callback_url: EndpointUrl | None = None
    """null: no callbacks any more."""

    @model_validator(mode="before")
    @classmethod
    def _keeps_an_address(cls, value: Any) -> Any:
        return _no_null_url(value, "server_url", "url")

    @model_validator(mode="after")
    def _has_one_address(self) -> Self:
        if self.url is not None and self.server_url is not None and self.url != self.server_url:
            raise refused_at(("url",), "url and server_url name two different addresses")
        return self


class GraderEndpointChange(_Change):
    """What is not given stays."""

    url: EndpointUrl | None = None
    headers: Headers | None = None
    """In place of all that were; redacted values stand for those that were; null for none."""

    @model_validator(mode="before")
    @classmethod
    def _keeps_an_address(cls, value: Any) -> Any:
        return _no_null_url(value, "url")


class GraderChange(GraderEndpointChange):
    """An `endpoint` grader's own, or of a `multi` those of its parts."""

    graders: Annotated[dict[str, GraderEndpointChange], Field(min_length=1)] | None = None
    """Of a `multi`: by the names that its formula uses."""


class EndpointsChange(_Change):
    """Addresses and headers to change; what is not named stays."""

    tools: Annotated[dict[str, ToolChange], Field(min_length=1, max_length=128)] | None = None
    """By name."""
    grader: GraderChange | None = None
