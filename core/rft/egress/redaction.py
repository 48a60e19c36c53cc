"""How the secrets of a call, its headers' and its URL's, stay out of what is shown of it."""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from urllib.parse import unquote, unquote_plus

from yarl import URL

from rft.core.secret_urls import named_values
from rft.egress.urls import BadUrl, parse_url

_TELLING_NAME = re.compile(
    r"auth|key|token|secret|password|cookie|session|signature|credential|^(sig|code|pass|pwd|pw)$", re.IGNORECASE
)
_NAME_OF_A_KEY = re.compile(
    "[a-z]*(tokens?|secrets?|passwords?|passwd|cookies?|session(id)?|signature|credentials?)"
    "|([a-z]*(api|access|account|auth|master|private|public|secret|service|shared))?keys?"
    "|auth|authorization|authentication|sig|code|pass|pwd|pw",
    re.IGNORECASE,
)
"""A word of a name; not `keyspace`, `author` or `tokenizer`."""
_SHORTEST_SECRET = 4
"""In a header or a URL's query, under a name that says that it is a secret."""
_SHORTEST_UNTOLD = 12
"""Under any other name: what is shorter (a tenant, a region) may well be a word of an error."""
_SHORTEST_KEY = 8


def secrets_of(headers: Mapping[str, str], *urls: str) -> tuple[str, ...]:
    """All that must not be shown of these headers and URLs, longest first, also as it stands inside of JSON."""
    long_enough = {
        secret
        for name, secret in _named(headers, urls)
        if len(secret) >= (_SHORTEST_SECRET if _TELLING_NAME.search(name) else _SHORTEST_UNTOLD)
        and secret.lower() not in _HARMLESS
    }
    # Whole, a query is told from honest output, however short its values are.
    return _in_all_spellings(long_enough | {query for url in urls for query in _queries(url)})


def keys_of(headers: Mapping[str, str], *urls: str) -> tuple[str, ...]:
    """Those among them that no honest text has by chance, in the same order: long, mixed, and under a key's name.

    What an endpoint answers is data, which is graded and trained on: a word of it must stay that somebody also has
    for a key (`none`, `test`, `orders`).
    """
    keys = {secret for name, secret in _named(headers, urls) if _is_key(name, secret)}
    # Whoever repeats the URL that was called repeats its whole query.
    return _in_all_spellings(keys | {query for url in urls if _has_key(url) for query in _queries(url)})


def _is_key(name: str, secret: str) -> bool:
    is_mixed = any(map(str.isalpha, secret)) and not secret.isalpha()
    # A part of a query may have no name.
    is_named = not name or any(_NAME_OF_A_KEY.fullmatch(word) for word in re.split(r"[^A-Za-z0-9]+", name))
    return is_named and is_mixed and len(secret) >= _SHORTEST_KEY


def _has_key(url: str) -> bool:
    return any(_is_key(name, part) for name, value in named_values(url) for part in _spellings(value))


def _named(headers: Mapping[str, str], urls: Sequence[str]) -> Iterator[tuple[str, str]]:
    """All that headers and URLs say, with the name it stands under."""
    yield from ((name, part) for name, value in headers.items() for part in _parts(value))
    yield from ((name, part) for url in urls for name, value in named_values(url) for part in _spellings(value))


def _in_all_spellings(secrets: Set[str]) -> tuple[str, ...]:
    escaped = {json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for secret in secrets for is_ascii in (True, False)}
    return tuple(sorted(secrets | escaped, key=lambda secret: (-len(secret), secret)))


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


def redact_keys(text: str, keys: Sequence[str]) -> str:
    """The text without these keys where they stand alone: none is cut out of a longer word."""
    for key in keys:
        if key in text:
            text = re.sub(rf"(?<!\w(?=\w)){re.escape(key)}(?!(?<=\w)\w)", "***", text)
    return text


def redact_secrets_of(text: str, headers: Mapping[str, str], *urls: str) -> str:
    """The text without the secrets of these headers, every word of one such as a bearer token, and of these URLs."""
    return redact(text, secrets_of(headers, *urls))


_HARMLESS = frozenset(
    {"basic", "bearer", "token", "application/json", "json", "true", "false", "none", "null", "empty", "dummy"}
)
