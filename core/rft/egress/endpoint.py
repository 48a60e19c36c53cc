"""Endpoint: one customer URL as we call it, and how its secrets stay out of every message."""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import unquote, unquote_plus, urlsplit, urlunsplit

from yarl import URL

from rft.core.failure import Stage
from rft.core.secret_urls import named_values
from rft.egress.urls import BadUrl, parse_url

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
_TELLING_NAME = re.compile(
    r"auth|key|token|secret|password|cookie|session|signature|credential|^(sig|code|pass|pwd|pw)$", re.IGNORECASE
)
_SHORTEST_SECRET = 4
"""In a header or a URL's query, under a name that says that it is a secret."""
_SHORTEST_KEY = 12
"""Under any other name: what is shorter (a tenant, a region) may well be a word of a tool's honest output."""


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
    header_list: HeaderList = field(init=False, repr=False, compare=False)
    """`headers` and ours, ready to be sent."""
    secrets: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """What `redact` takes out of everything that this endpoint says."""

    def __post_init__(self) -> None:
        if (problem := header_problem(self.headers)) is not None:
            raise ValueError(problem)
        object.__setattr__(self, "header_list", to_header_list(self.headers))
        object.__setattr__(self, "secrets", secrets_of(self.headers, self.url))


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


def secrets_of(headers: Mapping[str, str], *urls: str) -> tuple[str, ...]:
    """All that must not be shown of these headers and URLs, longest first, also as it stands inside of JSON."""
    named = [(name, part) for name, value in headers.items() for part in _parts(value)]
    named += [(name, part) for url in urls for name, value in named_values(url) for part in _spellings(value)]
    long_enough = {
        secret
        for name, secret in named
        if len(secret) >= (_SHORTEST_SECRET if _TELLING_NAME.search(name) else _SHORTEST_KEY)
        and secret.lower() not in _HARMLESS
    }
    # Whole, a query is told from honest output, however short its values are.
    long_enough |= {query for url in urls for query in _queries(url)}
    spellings = {
        json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for secret in long_enough for is_ascii in (True, False)
    }
    return tuple(sorted(long_enough | spellings, key=lambda secret: (-len(secret), secret)))


def _spellings(value: str) -> tuple[str, ...]:
    """A query's value as it is written, and as its server reads it."""
    return value, unquote(value), unquote_plus(value)


def _queries(url: str) -> set[str]:
    """The query with its question mark, as we and the parsers that we call with write it."""
    written = url.partition("#")[0].partition("?")[2]
    if not written:
        return set()
    try:
        target = parse_url(url).target
    except BadUrl:
        return {f"?{written}"}
    parsed = URL(str(target))
    return {f"?{text}" for text in (written, target.query.decode(), parsed.raw_query_string, parsed.query_string)}


def _parts(value: str) -> Iterator[str]:
    """The value, its words (a bearer token), what its pairs are set to (a cookie), and what basic access encodes."""
    yield value.strip()
    words = re.split(r"[\s;,]+", value)
    for word in words:
        yield word
        _, _, assigned = word.partition("=")
        yield assigned.strip('"')
    if words[0].lower() == "basic":
        for word in words[1:]:
            try:
                plain = base64.b64decode(word + "==", altchars=b"-_").decode(errors="replace")
            except ValueError:
                continue  # no base64: a name and a password as they are, say
            yield from (plain, plain.partition(":")[2])


def redact(text: str, secrets: Sequence[str]) -> str:
    """The text without these secrets. To be done before a text is cut: half a key is not recognised."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def redact_secrets_of(text: str, headers: Mapping[str, str], *urls: str) -> str:
    """The text without the secrets of these headers, every word of one such as a bearer token, and of these URLs."""
    return redact(text, secrets_of(headers, *urls))


_HARMLESS = frozenset({"basic", "bearer", "token", "application/json", "json", "true", "false"})
