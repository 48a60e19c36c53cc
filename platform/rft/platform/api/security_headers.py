"""What every reply tells a browser: run nothing but our own files, show us in no frame, guess no types."""

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rft.platform.api.azure_paths import our_path

_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE_POLICY = (
    f"{_NOTHING}; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
_FEATURES = (
    "accelerometer",
    "camera",
    "display-capture",
    "geolocation",
    "gyroscope",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "usb",
)
_ALWAYS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: some browsers would then name no `Origin` either, which our own writes need.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": ", ".join(f"{feature}=()" for feature in _FEATURES),
}


class SecurityHeadersMiddleware:
    """Outermost of all. Below `data_prefixes`, which end in a slash, is no page: what is shown there runs nothing."""

    def __init__(self, app: ASGIApp, data_prefixes: tuple[str, ...]) -> None:
        self.app, self._data_prefixes = app, data_prefixes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = our_path(scope["path"].removeprefix(scope.get("root_path", "")))
        is_data = f"{path}/".startswith(self._data_prefixes)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _ALWAYS.items():
                    headers[name] = value
                headers["content-security-policy"] = _NOTHING if is_data else _PAGE_POLICY
                if is_data:
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        await self.app(scope, receive, send_guarded)
