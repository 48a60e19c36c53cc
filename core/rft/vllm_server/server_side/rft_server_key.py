"""A vLLM server of ours answers nobody without its key but about its health. Plain ASGI, standard library alone.

vLLM asks for its key below `/v1` and a few other paths only: adapters, samples and metrics have more ways in.
"""

import hmac
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]

_OPEN_TO_ALL = "/health"
_BODY = b'{"error": "Unauthorized"}'


class KeyMiddleware:
    """Passes on what shows `VLLM_API_KEY`; everything, where there is none."""

    def __init__(self, app: _App) -> None:
        key = os.environ.get("VLLM_API_KEY")
        self._app, self._expected = app, key.encode() if key else None

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        if self._expected is None or not _is_asked(scope) or self._shows_key(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(_BODY)).encode())]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": _BODY})
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _shows_key(self, scope: _Message) -> bool:
        scheme, _, shown = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(shown, self._expected or b"")


def _is_asked(scope: _Message) -> bool:
    """Whether somebody wants something: servers also tell their applications that they begin and end."""
    return scope["type"] != "lifespan" and not (scope["type"] == "http" and scope["path"] == _OPEN_TO_ALL)
