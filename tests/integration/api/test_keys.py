"""API keys over REST: told once, listed without their values, worthless once they are revoked."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.api import authentication
from rft.platform.api.key_repository import id_of, verify_key
from tests.shared.running_api import Api

KEYS = "/v1/dashboard/keys"
MODELS = "/v1/models"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture
async def program(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=api.url, headers=bearer(api.key), timeout=60) as client:
        yield client


async def test_a_key_is_told_once_and_works_until_it_is_revoked(api: Api, program: httpx.AsyncClient) -> None:
    made = (await program.post(KEYS, json={"name": "nightly evals"})).json()
    key = made.pop("key")
    assert id_of(key) == made["id"]
    assert (made["object"], made["name"], made["last_used_at"], made["is_callers"]) == (
        "api_key",
        "nightly evals",
        None,
        False,
    )
    assert (await program.get(MODELS, headers=bearer(key))).status_code == 200
    listing = await program.get(KEYS)
    assert key not in listing.text
    new, own = listing.json()["data"]
    assert (new["name"], new["last_used_at"] is not None, new["revoked_at"]) == ("nightly evals", True, None)
    assert (own["id"], own["is_callers"]) == (id_of(api.key), True)
    revoked = (await program.delete(f"{KEYS}/{made['id']}")).json()
    assert revoked["revoked_at"] is not None
    assert (await program.get(MODELS, headers=bearer(key))).status_code == 401


async def test_requests_at_once_are_looked_up_at_once_and_each_after_it_came(
    program: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (await program.post(KEYS, json={"name": "a page"})).json()
    looked_up: list[str] = []

    async def verify_slowly(connection: AsyncConnection[TupleRow], key: str) -> str | None:
        looked_up.append(key)
        await asyncio.sleep(0.2)  # within the transaction that sees the key or does not
        return await verify_key(connection, key)

    monkeypatch.setattr(authentication, "verify_key", verify_slowly)
    asked = [program.get(MODELS, headers=bearer(made["key"])) for _ in range(20)]
    assert [reply.status_code for reply in await asyncio.gather(*asked)] == [200] * 20
    assert looked_up.count(made["key"]) < 20
    going = [asyncio.create_task(program.get(MODELS, headers=bearer(made["key"]))) for _ in range(5)]
    await program.delete(f"{KEYS}/{made['id']}")
    later = [program.get(MODELS, headers=bearer(made["key"])) for _ in range(5)]
    assert [reply.status_code for reply in await asyncio.gather(*later)] == [401] * 5
    await asyncio.gather(*going)


async def test_the_last_usable_key_stays(api: Api, program: httpx.AsyncClient) -> None:
    own = id_of(api.key)
    refused = await program.delete(f"{KEYS}/{own}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "last_key")
    await program.post(KEYS, json={"name": "another"})
    assert (await program.delete(f"{KEYS}/{own}")).status_code == 200
    assert (await program.get(KEYS)).status_code == 401


async def test_a_browser_whose_key_is_revoked_is_out(api: Api, program: httpx.AsyncClient) -> None:
    async with httpx.AsyncClient(base_url=api.url, headers={"origin": api.url}, timeout=60) as browser:
        await browser.post("/dashboard/session", json={"credential": api.key})
        made = await browser.post(KEYS, json={"name": "made in a browser"})
        assert made.status_code == 200
        own = next(key for key in (await browser.get(KEYS)).json()["data"] if key["is_callers"])
        assert (await browser.delete(f"{KEYS}/{own['id']}")).status_code == 200
        assert (await browser.get(KEYS)).status_code == 401


@pytest.mark.parametrize("name", ["", "x" * 129, 7, None])
async def test_a_key_has_a_name(program: httpx.AsyncClient, name: object) -> None:
    refused = await program.post(KEYS, json={"name": name})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "name")


async def test_what_is_no_key_cannot_be_revoked(program: httpx.AsyncClient) -> None:
    missing = await program.delete(f"{KEYS}/nobody")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "key_not_found")
