"""The one parser of customers' URLs: as it reads a URL, so it is judged, limited, called and shown.

Two parsers that differ are two addresses: one that is checked, another that is called.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

import httpx
from yarl import URL

_PORTS = {"http": 80, "https": 443}
_AUTHORITY = re.compile(r"[^:]*://(?P<authority>[^/?#]*)")
_PORT = re.compile(r"[0-9]{0,5}")
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}")
_MAX_HOST_CHARS = 253
_LITERAL_CHARS = re.compile(r"[0-9A-Fa-f:.]+")


class BadUrl(ValueError):
    """No URL that could be called; says why."""


@dataclass(frozen=True, slots=True)
class ParsedUrl:
    """A URL that can be called as far as its form goes; whether it may be is the guard's to say."""

    target: httpx.URL
    """What is called."""
    scheme: str
    """`http` or `https`."""
    host: str
    """In ASCII and lower case; an IPv6 address without brackets."""
    port: int
    path: str
    """As sent, percent-encoded; never empty."""

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@lru_cache(maxsize=4096)
def parse_url(text: str) -> ParsedUrl:
    """Read a URL. Raises BadUrl."""
    if any(character.isspace() or not character.isprintable() for character in text):
        raise BadUrl("the URL must not contain spaces or control characters")
    try:
        target = httpx.URL(text)
        # As the transport will read it: written out by httpx, parsed by aiohttp's own parser.
        parsed = URL(str(target))
        host, port = parsed.raw_host, parsed.port
    except (ValueError, httpx.InvalidURL) as error:
        # What stands behind the colon is quoted from the URL, perhaps out of a password.
        raise BadUrl(f"not a valid URL ({str(error).partition(':')[0]})") from None
    if parsed.scheme not in _PORTS:
        raise BadUrl("the URL must begin with http:// or https://")
    if not host:
        raise BadUrl("the URL names no host")
    if parsed.raw_user is not None or parsed.raw_password is not None:
        raise BadUrl("the URL must not carry a user name or password; use headers")
    _refuse_bad_port(text)
    _refuse_bad_host(host)
    return ParsedUrl(target, parsed.scheme, host.lower(), port or _PORTS[parsed.scheme], parsed.raw_path or "/")


def _refuse_bad_port(text: str) -> None:
    """Of the text itself: a number in other digits, with a sign or with underscores is one to some parsers only."""
    found = _AUTHORITY.match(text)
    authority = "" if found is None else found["authority"]
    _, colon, port = authority.rpartition("]")[2].rpartition(":")
    if colon and (not _PORT.fullmatch(port) or port.strip("0") == "" != port):
        raise BadUrl("the URL's port must be a number from 1 to 65535, in the digits 0 to 9")


def _refuse_bad_host(host: str) -> None:
    if ":" in host:
        if not _LITERAL_CHARS.fullmatch(host):
            raise BadUrl("the URL's host contains characters that no host name has")
        return
    labels = host.removesuffix(".").split(".")
    if any(not _LABEL.fullmatch(label) for label in labels) or len(host) > _MAX_HOST_CHARS:
        raise BadUrl(
            "the URL's host contains characters that no host name has, or is no name of parts of 1 to 63 characters"
        )
