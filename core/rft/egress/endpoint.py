"""Endpoint: one customer URL as we call it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import urlsplit, urlunsplit

from rft.core.failure import Stage
from rft.egress.redaction import keys_of, secrets_of
from rft.egress.urls import BadUrl, parse_url


class Lane(StrEnum):
    """What calls of one endpoint wait for each other, each lane with a limit of its own that learns for itself.

    Beginnings of rollouts may hang at a server until an end frees what they need: no end, and no call or grade without
    which none comes, must wait behind them.
    """

    CALLS = ""
    BEGINNINGS = "starts"
    ENDS = "ends"


HeaderList: TypeAlias = Sequence[tuple[str, str]]
"""Names and values; values in the characters of latin-1."""

OUR_HEADERS: dict[str, str] = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip, deflate",
    "Content-Type": "application/json",
    "User-Agent": "agent-rft",
}
"""Sent with every call unless the customer set them."""

RESERVED_HEADERS = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "expect", "host", "idempotency-key",
        "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
        "webhook-id", "webhook-signature", "webhook-timestamp", "x-rft-attempt",
    }
)  # fmt: skip
"""Headers that are ours or the protocol's, not the customer's."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One tool or grader as its owner registered it."""

    name: str
    stage: Stage
    url: str = field(repr=False)
    """Called as it is; its query may hold secrets."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Sent as they are; the values are secrets."""
    timeout_s: float = 600.0
    """Deadline of one attempt, from sending to the last byte."""
    max_concurrency: int | None = None
    """The owner's cap on calls in flight; None for the platform's own."""
    rate_limit: float | None = None
    """Calls started per second at most."""
    is_safe_to_repeat: bool = True
    """Whether a call that may have arrived may be sent again."""
    lane: Lane = Lane.CALLS
    header_list: HeaderList = field(init=False, repr=False, compare=False)
    """`headers` and ours, ready to be sent."""
    secrets: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """What `redact` takes out of errors of this endpoint, and out of all that is shown of its calls."""
    keys: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """What `redact_keys` takes out of its honest output."""

    def __post_init__(self) -> None:
        if (problem := header_problem(self.headers)) is not None:
            raise ValueError(problem)
        object.__setattr__(self, "header_list", to_header_list(self.headers))
        object.__setattr__(self, "secrets", secrets_of(self.headers, self.url))
        object.__setattr__(self, "keys", keys_of(self.headers, self.url))


def to_header_list(headers: Mapping[str, str]) -> HeaderList:
    """The customer's headers over ours."""
    theirs = {name.lower() for name in headers}
    ours = {name: value for name, value in OUR_HEADERS.items() if name.lower() not in theirs}
    return [*ours.items(), *headers.items()]


@lru_cache(maxsize=4096)
def endpoint_key(url: str) -> str:
    """Scheme, host, port and path: what shares one limit and one health. Tools behind one URL share them.

    A query is no part of it: tools behind one path share, whatever their queries say, and no key holds a secret.
    What is no URL shares with nobody: it is never called.
    """
    try:
        parsed = parse_url(url)
    except BadUrl:
        return url
    return f"{parsed.origin}{parsed.path}"


def public_url(url: str) -> str:
    """The URL without user name, password, query and fragment, fit for a message."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the URL"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def header_problem(headers: Mapping[str, str]) -> str | None:
    """Why these headers cannot be sent, or None. Never repeats a value."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            return f"{name!r} is not a header name"
        if name.lower() in RESERVED_HEADERS:
            return f"the header {name!r} is set by the platform"
        if not _HEADER_VALUE.fullmatch(value):
            return f"the value of header {name!r} contains characters that HTTP does not allow"
    return None
