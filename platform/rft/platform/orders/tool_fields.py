"""What tools and graders have in common: a URL of the customer's and header values that are secrets."""

from typing import Annotated, Any, TypeAlias, cast

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from rft.core.secret_urls import REDACTED
from rft.egress.endpoint import header_problem
from rft.egress.guard import AddressPolicy, url_problem
from rft.platform.api.wire import must_be, refuse_unless, refused_at

MAX_HEADERS = 64
MAX_HEADER_CHARS = 8192
MAX_URL_CHARS = 2048


def _problem_of_url(url: str) -> str | None:
    # Addresses are judged when they are called (`probe`); here only the form counts.
    return url_problem(url, AddressPolicy(allow_cidrs=("0.0.0.0/0", "::/0"), require_https=False))


def _not_too_long(url: str) -> str:
    """Redacted, as it is stored, a URL of many short values is longer than as it was given."""
    if len(url.replace(REDACTED, "*")) > MAX_URL_CHARS:
        raise ValueError
    return url


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    """Errors name headers but never repeat their values."""
    problem = header_problem(headers)
    if problem is None and len({name.lower() for name in headers}) < len(headers):
        problem = "a header is given twice"
    if problem is None and len(headers) > MAX_HEADERS:
        problem = f"{MAX_HEADERS} headers at most"
    if problem is None and any(len(name) + len(value) > MAX_HEADER_CHARS for name, value in headers.items()):
        problem = f"a header may have {MAX_HEADER_CHARS} characters at most"
    if problem is not None:
        raise PydanticCustomError("invalid_value", "{problem}", {"problem": problem})
    return headers


def with_server_url(value: Any) -> Any:
    """A tool whose address is under `server_url`, whichever of its two names it was given by."""
    if not isinstance(value, dict):
        return value
    body = cast("dict[str, Any]", value)
    url, server_url = body.get("url"), body.get("server_url")
    if url is None:
        return body
    if server_url is not None and server_url != url:
        raise refused_at(("url",), "url and server_url name two different addresses")
    return {**body, "server_url": url}


def either_url(schema: dict[str, Any]) -> None:
    """Tells the document that one of the two names is enough."""
    told = schema["properties"]["server_url"]
    address = {key: told.pop(key) for key in ("type", "maxLength")}
    either: dict[str, Any] = {"anyOf": [address, {"type": "null"}]}
    told |= either
    schema["properties"]["url"] = {**either, "title": "Url", "description": "Another name of `server_url`."}
    schema["required"] = [name for name in schema["required"] if name != "server_url"]
    schema["anyOf"] = [{"required": [name], "properties": {name: address}} for name in ("server_url", "url")]


EndpointUrl: TypeAlias = Annotated[
    Annotated[str, Field(json_schema_extra={"maxLength": MAX_URL_CHARS}), AfterValidator(_not_too_long)],
    must_be(f"a URL of {MAX_URL_CHARS} characters at most"),
    AfterValidator(refuse_unless(_problem_of_url)),
]
Headers: TypeAlias = Annotated[
    dict[str, str], must_be("an object of header names and text values"), AfterValidator(_checked_headers)
]
