"""How the dashboard's files reach a browser: compressed, and those whose names carry a hash only once."""

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HASHED = "/assets/"
"""The build names every file below it by its content."""
_FOREVER = "public, max-age=31536000, immutable"
_ASK_EACH_TIME = "no-cache"
"""The page names the files of one build: it is only used again where it is still that one."""
_SMALLEST_BYTES = 1024


class AssetDeliveryMiddleware:
    """Compresses what is below `/assets/` and says how long the dashboard's files may be kept.

    Data is left as it is: whoever asks for it mostly sits on the same machine.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app, self._compressing = app, GZipMiddleware(app, minimum_size=_SMALLEST_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_hashed = scope["type"] == "http" and scope["path"].startswith(_HASHED)

        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                # An unknown name is answered with the page, which leads the browser to its own routing.
                if headers.get("content-type", "").startswith("text/html"):
                    headers.setdefault("cache-control", _ASK_EACH_TIME)
                elif is_hashed and message["status"] in (200, 206, 304):
                    headers["cache-control"] = _FOREVER
            await send(message)

        await (self._compressing if is_hashed else self.app)(scope, receive, send_dated)
