"""A browser's session: made with a key or a link, good for our own pages only, over with its key, its age, its end."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from openai import AsyncOpenAI

from rft.platform.api.key_repository import create_key, id_of, revoke_key
from tests.shared.running_api import Api, ReceivedMessages, Served
from tests.shared.waiting import PATIENCE_S

SESSION = "/dashboard/session"
LINKS = "/v1/dashboard/sign_in_links"
JOBS = "/v1/fine_tuning/jobs"


def browser(url: str) -> httpx.AsyncClient:
    """Keeps cookies and names its origin, as a page of the platform's own does."""
    return httpx.AsyncClient(base_url=url, headers={"origin": url}, timeout=60)


async def sign_in(page: httpx.AsyncClient, credential: str) -> httpx.Response:
    return await page.post(SESSION, json={"credential": credential})


@asynccontextmanager
async def signed_in(api: Api) -> AsyncGenerator[httpx.AsyncClient]:
    async with browser(api.url) as page:
        assert (await sign_in(page, api.key)).status_code == 200
        yield page


async def link_token(api: Api) -> str:
    async with httpx.AsyncClient(
        base_url=api.url, headers={"authorization": f"Bearer {api.key}"}, timeout=60.0
    ) as program:
        made = (await program.post(LINKS)).json()
    address, _, fragment = made["url"].partition("#sign-in=")
    assert (address, made["object"]) == (f"{api.url}/", "dashboard.sign_in_link")
    assert 0 < made["expires_at"] - time.time() <= 15 * 60
    return fragment


async def test_a_sign_in_of_more_than_a_few_kilobytes_is_refused_unread(api: Api) -> None:
    async with browser(api.url) as page:
        longest = await page.post(SESSION, json={"credential": "\N{GRINNING FACE}" * 200})
        many = {"credential": api.key, **dict.fromkeys(map(str, range(1000)), 1)}
        refused = await page.post(SESSION, json=many)
    assert longest.json()["error"]["code"] == "invalid_api_key"
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "request_too_large")


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        yield connection


async def test_a_key_is_exchanged_for_a_cookie_that_no_script_reads(
    api: Api, database: psycopg.AsyncConnection[Any]
) -> None:
    async with browser(api.url) as page:
        assert (await page.get(SESSION)).json()["is_signed_in"] is False
        reply = await sign_in(page, api.key)
        (cookie,) = reply.headers.get_list("set-cookie")
        name, token = cookie.split(";")[0].split("=", 1)
        assert name == f"rft_session_{urlsplit(api.url).port}"
        assert {part.strip() for part in cookie.split(";")[1:]} == {
            "HttpOnly",
            "Max-Age=604800",
            "Path=/",
            "SameSite=strict",
        }
        assert reply.json().keys() == {"object", "is_signed_in", "key_name", "expires_at"}
        assert token not in reply.text
        state = (await page.get(SESSION)).json()
        assert (state["is_signed_in"], state["key_name"]) == (True, "tests")
        assert (await page.get(JOBS)).status_code == 200
    stored = await (await database.execute("select string_agg(s::text, '') from sessions s")).fetchone()
    assert stored is not None
    assert stored[0]
    assert token not in stored[0]


@pytest.mark.parametrize("credential", ["wrong", "rft_abcdefabcdef_guess", "signin_guess", " ", "x" * 200])
async def test_strangers_get_no_session(api: Api, credential: str) -> None:
    async with browser(api.url) as page:
        reply = await sign_in(page, credential)
        assert reply.status_code == 401
        assert "set-cookie" not in reply.headers
        assert credential.strip() == "" or credential not in reply.text
        assert (await page.get(JOBS)).status_code == 401


async def test_over_https_the_cookie_is_secure(api: Api) -> None:
    host = urlsplit(api.url).netloc
    async with httpx.AsyncClient(base_url=api.url, headers={"origin": f"https://{host}"}, timeout=60.0) as page:
        (cookie,) = (await sign_in(page, api.key)).headers.get_list("set-cookie")
        assert cookie.startswith("__Host-rft_session_")
        assert "Secure" in cookie
        # As a proxy that ends TLS hands it on.
        pair = {"cookie": cookie.split(";")[0]}
        assert (await page.get(JOBS, headers=pair)).status_code == 200
        assert (await page.post(f"{JOBS}/none/cancel", headers=pair)).status_code == 404
        downgraded = {**pair, "origin": api.url}
        assert (await page.post(f"{JOBS}/none/cancel", headers=downgraded)).status_code == 403


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1:1"])
async def test_a_write_that_no_page_of_ours_sent_is_refused(
    api: Api, client: AsyncOpenAI, order: dict[str, Any], origin: str | None
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    async with signed_in(api) as page:
        del page.headers["origin"]
        foreign = {} if origin is None else {"origin": origin}
        for method, path in (
            ("POST", f"{JOBS}/{job.id}/cancel"),
            ("DELETE", f"/v1/files/{job.training_file}"),
            ("POST", "/v1/signing_secrets/rotate"),
            ("DELETE", SESSION),
        ):
            reply = await page.request(method, path, headers=foreign)
            assert (reply.status_code, reply.json()["error"]["code"]) == (403, "foreign_origin"), path
        assert (await page.get(JOBS, headers={"sec-fetch-site": "same-site"})).status_code == 403
        assert (await page.get(JOBS, headers=foreign)).status_code == 200
        assert (await page.post(f"{JOBS}/{job.id}/cancel", headers={"origin": api.url})).status_code == 200


async def test_nobody_can_be_signed_in_from_elsewhere(api: Api) -> None:
    token = await link_token(api)
    async with browser(api.url) as page:
        for origin in ("https://evil.example", "null"):
            reply = await page.post(SESSION, json={"credential": token}, headers={"origin": origin})
            assert reply.status_code == 403
        assert (await sign_in(page, token)).status_code == 200, "the link is not used up by such an attempt"


async def test_a_key_in_the_header_needs_no_origin_and_counts_before_any_cookie(api: Api) -> None:
    async with signed_in(api) as page:
        del page.headers["origin"]
        bearer = {"authorization": f"Bearer {api.key}", "sec-fetch-site": "cross-site"}
        assert (await page.post(f"{JOBS}/none/cancel", headers=bearer)).status_code == 404
        assert (await page.get(JOBS, headers={"authorization": "Bearer wrong"})).status_code == 401
        # A proxy's own password is no key of ours.
        assert (await page.get(JOBS, headers={"authorization": "Basic abc"})).status_code == 200


async def test_a_link_signs_one_browser_in_however_many_open_it(api: Api) -> None:
    token = await link_token(api)
    async with browser(api.url) as page:
        replies = await asyncio.gather(*(sign_in(page, token) for _ in range(8)))
    assert sorted(reply.status_code for reply in replies) == [200, *[401] * 7]
    refused = next(reply for reply in replies if reply.status_code == 401)
    assert refused.json()["error"]["code"] == "sign_in_link_used"


async def test_an_old_link_signs_nobody_in(api: Api, database: psycopg.AsyncConnection[Any]) -> None:
    token = await link_token(api)
    await database.execute("update sign_in_tokens set expires_at = now()")
    async with browser(api.url) as page:
        assert (await sign_in(page, token)).status_code == 401


async def test_a_session_cannot_make_itself_last_longer(api: Api) -> None:
    async with signed_in(api) as page:
        reply = await page.post(LINKS)
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "api_key_needed")


async def test_signing_in_anew_and_signing_out_end_the_session(api: Api) -> None:
    async with signed_in(api) as page, signed_in(api) as other:
        first = dict(page.cookies)
        await sign_in(page, api.key)
        second = dict(page.cookies)
        assert first != second
        assert (await page.delete(SESSION)).json()["is_signed_in"] is False
        assert not page.cookies
        for cookies in (first, second):
            pair = {"cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
            reply = await page.get(JOBS, headers=pair)
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, "session_ended")
        assert (await other.get(JOBS)).status_code == 200


async def test_a_session_ends_with_its_age_and_with_its_key(api: Api, database: psycopg.AsyncConnection[Any]) -> None:
    async with signed_in(api) as page:
        await database.execute("update sessions set expires_at = now()")
        assert (await page.get(JOBS)).json()["error"]["code"] == "session_ended"
        assert (await page.get(SESSION)).json()["is_signed_in"] is False
        key = await create_key(database, "short-lived")
        await sign_in(page, key)
        assert (await page.get(JOBS)).status_code == 200
        token = await link_token(api)
        async with database.transaction():
            assert await revoke_key(database, id_of(key) or "")
        assert (await page.get(JOBS)).json()["error"]["code"] == "session_ended"
        assert (await sign_in(page, token)).status_code == 200, "another key's link goes on"
    left = await (await database.execute("select count(*) from sessions")).fetchone()
    assert left == (1,), "what is over is forgotten"
    short = api.settings.model_copy(update={"session_max_s": 60.0})
    with Served(short, ReceivedMessages()) as port:
        async with browser(f"http://127.0.0.1:{port}") as page:
            assert "Max-Age=60" in (await sign_in(page, api.key)).headers["set-cookie"]


@pytest.mark.parametrize("end", ["revoke", "age", "sign out", "revoke the bearer's"])
async def test_a_stream_ends_soon_after_the_right_to_it(
    api: Api, client: AsyncOpenAI, order: dict[str, Any], database: psycopg.AsyncConnection[Any], end: str
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    key = await create_key(database, "watcher")
    headers = {"authorization": f"Bearer {key}"} if end == "revoke the bearer's" else {}
    async with browser(api.url) as page, browser(api.url) as bystander:
        await sign_in(page, key)
        await sign_in(bystander, api.key)
        async with (
            page.stream("GET", f"{JOBS}/{job.id}/stream", headers=headers) as ended,
            bystander.stream("GET", f"{JOBS}/{job.id}/stream") as kept,
        ):
            assert (ended.status_code, kept.status_code) == (200, 200)
            match end:
                case "age":
                    await database.execute(
                        "update sessions set expires_at = now() where api_key_id = %s", (id_of(key),)
                    )
                case "sign out":
                    assert (await page.delete(SESSION)).status_code == 200
                case _:
                    async with database.transaction():
                        await revoke_key(database, id_of(key) or "")
            async with asyncio.timeout(PATIENCE_S):
                assert [line async for line in ended.aiter_lines()], "what was known by then was told"
            await client.fine_tuning.jobs.cancel(job.id)
            async with asyncio.timeout(PATIENCE_S):
                assert '"cancelled"' in "".join([line async for line in kept.aiter_lines()])


async def test_a_keys_last_use_is_noted(api: Api, client: AsyncOpenAI, database: psycopg.AsyncConnection[Any]) -> None:
    async def used() -> Any:
        row = await (await database.execute("select last_used_at, now() - last_used_at from api_keys")).fetchone()
        assert row is not None
        return row

    assert (await used())[0] is None
    await asyncio.gather(*(client.models.list() for _ in range(5)))
    first, ago = await used()
    assert ago.total_seconds() < 60
    await client.models.list()
    assert (await used())[0] == first, "once a minute is enough"
    await database.execute("update api_keys set last_used_at = last_used_at - interval '1 hour'")
    async with signed_in(api):
        assert (await used())[1].total_seconds() < 60
