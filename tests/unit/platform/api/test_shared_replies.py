"""Requests that pages send at the same time are answered at once; each reply is its caller's own."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import httpx
import pytest
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rft.platform.api.shared_replies import SharedRepliesMiddleware

JOB = "/v1/fine_tuning/jobs/ftjob-1"


@dataclass(slots=True)
class Api:
    """What is asked, and how often."""

    asked: Counter[str] = field(default_factory=Counter[str])

    async def answer(self, request: Request) -> Response:
        """As slowly as a database answers."""
        self.asked[request.url.path] += 1
        await asyncio.sleep(0.01)
        if request.query_params.get("breaks"):
            raise RuntimeError("the database is gone")
        if request.headers.get("if-none-match") == '"1"':
            return Response(status_code=304, headers={"etag": '"1"'})
        return JSONResponse({"path": request.url.path, "query": request.url.query}, headers={"etag": '"1"'})


class Numbered:
    """Writes the caller's number into the caller's reply, as the middleware for request ids does."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def numbered(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("number", dict(scope["headers"])[b"number"].decode())
            await send(message)

        await self.app(scope, receive, numbered)


@pytest.fixture
def api() -> Api:
    return Api()


async def ask(api: Api, paths: Sequence[str], *, with_tag: Collection[int] = ()) -> list[httpx.Response]:
    """All at the same time; `with_tag`: those that have the newest reply already."""
    middleware = [Middleware(Numbered), Middleware(SharedRepliesMiddleware)]
    app = Starlette(routes=[Route("/{path:path}", api.answer, methods=["GET", "POST"])], middleware=middleware)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://here", timeout=60) as http:
        headers = [{"number": str(n)} | ({"if-none-match": '"1"'} if n in with_tag else {}) for n in range(len(paths))]
        return await asyncio.gather(*map(lambda path, own: http.get(path, headers=own), paths, headers))


@pytest.mark.parametrize("part", ["checkpoints", "endpoints", "rollouts"])
async def test_what_pages_ask_after_a_step_is_asked_once(api: Api, part: str) -> None:
    replies = await ask(api, [f"{JOB}/{part}?limit=25"] * 20)
    assert api.asked == {f"{JOB}/{part}": 1}
    assert {reply.text for reply in replies} == {f'{{"path":"{JOB}/{part}","query":"limit=25"}}'}
    assert [reply.headers.get_list("number") for reply in replies] == [[str(n)] for n in range(20)]


async def test_another_question_has_an_answer_of_its_own(api: Api) -> None:
    other = JOB.replace("-1", "-2")
    paths = [f"{JOB}/rollouts", f"{JOB}/rollouts?limit=1", f"{JOB}/checkpoints", f"{other}/rollouts"]
    replies = await ask(api, paths)
    assert [f"{reply.json()['path']}?{reply.json()['query']}".rstrip("?") for reply in replies] == paths


async def test_who_has_the_newest_is_told_so_and_nobody_else(api: Api) -> None:
    replies = await ask(api, [f"{JOB}/checkpoints"] * 6, with_tag=(0, 2, 4))
    assert [reply.status_code for reply in replies] == [304, 200] * 3
    assert api.asked.total() == 2


@pytest.mark.parametrize("path", [JOB, f"{JOB}/rollouts/trace_1", f"{JOB}/stream", "/v1/files", "/v1/dashboard/keys"])
async def test_nothing_else_is_shared(api: Api, path: str) -> None:
    await ask(api, [path] * 5)
    assert api.asked == {path: 5}


async def test_what_breaks_is_an_error_for_each_and_the_next_is_asked_again(api: Api) -> None:
    broken = await ask(api, [f"{JOB}/rollouts?breaks=1"] * 3)
    assert [reply.status_code for reply in broken] == [500] * 3
    assert [reply.status_code for reply in await ask(api, [f"{JOB}/rollouts"])] == [200]
