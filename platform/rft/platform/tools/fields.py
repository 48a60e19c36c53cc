"""What tools and graders have in common: a URL of the customer's and header values that are secrets."""

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from rft.egress.endpoint import header_problem
from rft.egress.guard import AddressPolicy, url_problem
from rft.platform.api.wire import must_be, refuse_unless

MASK = "**********"
"""Stands for a header value wherever a job is shown."""
MAX_HEADERS = 64
MAX_HEADER_CHARS = 8192
MAX_URL_CHARS = 2048


def _problem_of_url(url: str) -> str | None:
    if any(character.isspace() or not character.isprintable() for character in url):
        return "the URL must not contain spaces or control characters"
    # Addresses are judged when they are called (`probe`); here only the form counts.
    return url_problem(url, AddressPolicy(allow_cidrs=("0.0.0.0/0", "::/0"), require_https=False))


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


EndpointUrl: TypeAlias = Annotated[
    Annotated[str, Field(max_length=MAX_URL_CHARS)],
    must_be(f"a URL of {MAX_URL_CHARS} characters at most"),
    AfterValidator(refuse_unless(_problem_of_url)),
]
Headers: TypeAlias = Annotated[
    dict[str, str], must_be("an object of header names and text values"), AfterValidator(_checked_headers)
]
