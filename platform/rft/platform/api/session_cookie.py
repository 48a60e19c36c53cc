"""The cookie that carries a browser's session, and which requests with it are ours.

A browser sends a host's cookies to all its ports and from all its ports: the name tells platforms apart, and a request
counts only when the page that sent it is our own.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response

from rft.platform.api.errors import Forbidden

_NAME = "rft_session"
_HOST_PREFIX = "__Host-"
"""Browsers take a cookie of such a name over https only, for this host and every path."""
_READING = ("GET", "HEAD")
_OUR_OWN = ("same-origin", "none")
"""`Sec-Fetch-Site` of what our pages ask for, and of what a person typed."""


def read_cookie(headers: Headers) -> str | None:
    """The session's token, if the request carries one."""
    cookies = cookie_parser(headers.get("cookie", ""))
    return next((cookies[name] for name in _names(headers) if cookies.get(name)), None)


def set_cookie(response: Response, headers: Headers, token: str, *, max_age_s: float) -> None:
    """Let the browser keep the token where no script reads it, for `headers`' own origin (`refuse_foreign`)."""
    is_secure = _scheme(headers) == "https"
    guarded, plain = _names(headers)
    _write(response, guarded if is_secure else plain, token, int(max_age_s), is_secure=is_secure)


def drop_cookie(response: Response, headers: Headers) -> None:
    """Let the browser forget the token."""
    guarded, plain = _names(headers)
    _write(response, plain, "", 0, is_secure=False)
    _write(response, guarded, "", 0, is_secure=True)


def refuse_foreign(method: str, headers: Headers) -> None:
    """Raises Forbidden for what another origin's page may have sent: a write needs an `Origin` that is ours."""
    if headers.get("sec-fetch-site", "same-origin") not in _OUR_OWN:
        raise _forbidden()
    if method not in _READING and not _has_own_origin(headers):
        raise _forbidden()


def _has_own_origin(headers: Headers) -> bool:
    try:
        origin = urlsplit(headers.get("origin", ""))
    except ValueError:
        return False
    guarded, _ = _names(headers)
    schemes = ("https",) if guarded in cookie_parser(headers.get("cookie", "")) else ("http", "https")
    host = headers.get("host", "").lower()
    return bool(host) and origin.scheme in schemes and origin.netloc.lower() == host


def _scheme(headers: Headers) -> str:
    """As the browser sees it: a proxy that ends TLS talks plain http to us."""
    return urlsplit(headers.get("origin", "")).scheme


def _names(headers: Headers) -> tuple[str, str]:
    """Over https, and over http; each platform of a host has its own."""
    _, colon, port = headers.get("host", "").rpartition(":")
    name = f"{_NAME}_{port}" if colon and port.isascii() and port.isdigit() else _NAME
    return _HOST_PREFIX + name, name


def _write(response: Response, name: str, token: str, max_age_s: int, *, is_secure: bool) -> None:
    response.set_cookie(name, token, max_age=max_age_s, path="/", secure=is_secure, httponly=True, samesite="strict")


def _forbidden() -> Forbidden:
    return Forbidden(
        "A browser's session counts only for requests of the platform's own pages. Behind a proxy, the header 'Host'"
        " must reach the platform as the browser sent it.",
        code="foreign_origin",
    )
