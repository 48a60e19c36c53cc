"""Azure's spelling of paths: its clients send `/openai/v1/...`, or `/openai/...` with an `api-version` in the query."""

from starlette.types import ASGIApp, Receive, Scope, Send

_AZURE, _OURS = "/openai", "/v1"


class AzurePathMiddleware:
    """Every route answers under Azure's path, too. Stands before whatever looks at a path."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = our_path(scope["path"])
            if path != scope["path"]:
                raw: bytes = scope.get("raw_path") or path.encode()
                scope = {**scope, "path": path, "raw_path": our_path(raw.decode("latin-1")).encode("latin-1")}
        await self.app(scope, receive, send)


def our_path(path: str) -> str:
    """The path as our routes spell it; any other path as it is."""
    rest = path.removeprefix(_AZURE)
    if rest == path or not rest.startswith("/"):
        return path
    return rest if rest == _OURS or rest.startswith(f"{_OURS}/") else _OURS + rest
