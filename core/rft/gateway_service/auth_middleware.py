"""Who is answered, and how large a body may be: checked before anything of a request is read. Plain ASGI."""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

from rft.gateway_service.hosts import is_own_host
from rft.gateway_service.wire import Problem, Refusal, encode

_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App: TypeAlias = Callable[[_Scope, _Receive, _Send], Awaitable[None]]

OPEN_TO_ALL = "/health"
_SMALL_BODY_BYTES = 65_536


class AuthMiddleware:
    """Passes on requests that show the token and announce a body within the limit.

    Without a token, what tells our callers from a page in a browser of this machine is the name that they ask for:
    a loopback one, or one of `allowed_hosts`.
    """

    def __init__(self, app: _App, *, token: str | None, max_body_bytes: int, allowed_hosts: Sequence[str] = ()) -> None:
        self._app, self._max_body_bytes, self._allowed_hosts = app, max_body_bytes, allowed_hosts
        self._expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, problem = refusal
        body = encode(Refusal(error=problem))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if not _is_small(dict(scope["headers"])):
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _refusal(self, scope: _Scope) -> tuple[int, Problem] | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        shown = headers.get(b"authorization", b"")
        if scope["path"] != OPEN_TO_ALL and self._expected and not hmac.compare_digest(shown, self._expected):
            return 401, Problem(code="wrong_token", message="the token is missing or wrong")
        if not self._expected and not self._is_own(headers):
            return 403, Problem(code="unknown_host", message="this service goes by another name (RFT_ALLOWED_HOSTS)")
        if b"transfer-encoding" in headers:
            return 411, Problem(code="length_required", message="say how long the body is")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._max_body_bytes:
            message = f"the body has more than {self._max_body_bytes:,} bytes"
            return 413, Problem(code="too_large", message=message)
        return None

    def _is_own(self, headers: dict[bytes, bytes]) -> bool:
        # Every browser sends a name; a client that sends none is no browser.
        return b"host" not in headers or is_own_host(headers[b"host"].decode("latin-1"), self._allowed_hosts)


def _is_small(headers: dict[bytes, bytes]) -> bool:
    """Whether the server may read the refused body to its end.

    A connection that is closed over unread bytes is reset, and the refusal may be lost with it.
    """
    length = headers.get(b"content-length", b"0")
    return b"transfer-encoding" not in headers and length.isdigit() and int(length) <= _SMALL_BODY_BYTES
