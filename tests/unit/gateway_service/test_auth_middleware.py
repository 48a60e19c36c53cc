"""Who is let in, decided before a body is read."""

from collections.abc import MutableMapping
from typing import Any

import pytest

from rft.gateway_service.auth_middleware import AuthMiddleware
from rft.gateway_service.wire import refusal_message


class Visit:
    """One request, with what came of it."""

    def __init__(self, *, token: str | None = "sesame-open") -> None:
        self.sent: list[MutableMapping[str, Any]] = []
        self.has_entered = False
        self._middleware = AuthMiddleware(self._app, token=token, max_body_bytes=100)

    async def __call__(self, path: str = "/v1/jobs/a", *, kind: str = "http", **headers: str) -> int:
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await self._middleware({"type": kind, "path": path, "headers": raw}, self._receive, self._send)
        return 200 if self.has_entered else self.sent[0]["status"]

    async def _app(self, scope: object, receive: object, send: object) -> None:
        self.has_entered = True

    async def _receive(self) -> MutableMapping[str, Any]:
        raise AssertionError("the middleware reads no body")

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)


@pytest.mark.parametrize("shown", [None, "", "sesame-open", "Bearer", "Bearer sesame-opem", "bearer sesame-open "])
async def test_without_the_token_nobody_comes_in(shown: str | None) -> None:
    visit = Visit()
    status = await visit() if shown is None else await visit(authorization=shown)
    assert status == 401
    assert refusal_message(visit.sent[1]["body"])[0] == "wrong_token"
    assert b"sesame" not in visit.sent[1]["body"]


async def test_the_token_opens_and_health_needs_none() -> None:
    assert await Visit()(authorization="Bearer sesame-open", content_length="100") == 200
    assert await Visit()("/health") == 200
    assert await Visit(token=None)() == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_length": "101"}, 413),
        ({"content_length": "-5"}, 413),
        ({"content_length": "x"}, 413),
        ({"transfer_encoding": "chunked"}, 411),
    ],
)
async def test_a_body_of_unknown_or_too_large_size_stays_outside(headers: dict[str, str], status: int) -> None:
    assert await Visit(token=None)(**headers) == status


async def test_what_is_not_http_passes() -> None:
    visit = Visit()
    assert await visit(kind="lifespan") == 200
