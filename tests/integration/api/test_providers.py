"""Registered providers: kept redacted and sealed, tried before they are stored, and found by a model's name."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError

from rft.core.failure import Failure
from rft.core.messages import Message, Role
from rft.core.secret_urls import REDACTED
from rft.platform.api.errors import ApiError, NotFound
from rft.platform.providers.chat_models import ProviderModel, find_chat_model, policy_for
from rft.platform.serving.processes import ServingProcesses
from rft.platform.store.database import Database
from rft.platform.store.key_rotation import rotate_key
from rft.platform.store.secret_box import KEY_FILE, SecretBox
from rft.platform.store.unit_of_work import reading
from rft.rollouts.chat_policy import ChatRequest, ChatSampling, ChatTurn
from rft.rollouts.provider_policy import open_provider_client
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.provider import ScriptedProvider
from tests.shared.running_api import Api

KEY, HEADER = "sk-live-0123456789abcdef", "org-0123456789abcdef"


@pytest.fixture
async def acme() -> AsyncIterator[LoopbackEndpoint]:
    """A provider with two models."""
    provider = ScriptedProvider(lambda body: "Four.", models=("small", "lab/large"), api_key=KEY)
    async with LoopbackEndpoint(provider) as endpoint:
        yield endpoint


def a_provider(acme: LoopbackEndpoint, **changes: Any) -> dict[str, Any]:
    """Everything a provider can say."""
    return {
        "name": "acme",
        "base_url": f"{acme.base_url}/v1",
        "api_key": KEY,
        "headers": {"OpenAI-Organization": HEADER},
        "max_concurrency": 3,
        "requests_per_minute": 600.0,
        "timeout_s": 20.0,
        "max_tokens_field": "max_tokens",
        "omit_fields": ["top_p"],
        "price_per_million": {"prompt": 0.5, "completion": 2.0},
        **changes,
    }


async def post(client: AsyncOpenAI, path: str, body: object) -> Any:
    return await client.post(path, body=body, cast_to=object)


async def get(client: AsyncOpenAI, path: str) -> Any:
    return await client.get(path, cast_to=object)


async def refused(client: AsyncOpenAI, path: str, body: object) -> BadRequestError:
    with pytest.raises(BadRequestError) as raised:
        await post(client, path, body)
    assert KEY not in str(raised.value)
    return raised.value


async def test_a_providers_life(client: AsyncOpenAI, acme: LoopbackEndpoint, migrated_url: str) -> None:
    made = await post(client, "/providers", a_provider(acme))
    path = f"/providers/{made['id']}"
    assert (made["id"][:9], made["object"], made["name"]) == ("provider_", "provider", "acme")
    assert (made["api_key"], made["headers"]) == (REDACTED, {"OpenAI-Organization": REDACTED})
    assert (made["timeout_s"], made["max_concurrency"], made["requests_per_minute"]) == (20.0, 3, 600.0)
    assert (made["max_tokens_field"], made["omit_fields"]) == ("max_tokens", ["top_p"])
    assert made["price_per_million"] == {"prompt": 0.5, "cached_prompt": None, "completion": 2.0}
    assert made["models"] is None
    assert acme.endpoint.calls == [], "nobody asked for a probe"
    assert await get(client, path) == made
    with psycopg.connect(migrated_url) as connection:
        (stored,) = connection.execute("select providers::text from providers").fetchall()[0]
    assert KEY not in stored
    assert HEADER not in stored

    sent_back = {key: made[key] for key in a_provider(acme)}
    changed = await post(client, path, {**sent_back, "requests_per_minute": None, "name": "acme-2"})
    assert (changed["name"], changed["requests_per_minute"], changed["api_key"]) == ("acme-2", None, REDACTED)
    plain = await post(client, "/providers", {"name": "plain", "base_url": "http://127.0.0.1:9/v1"})
    assert (plain["api_key"], plain["headers"], plain["timeout_s"], plain["max_concurrency"]) == (None, None, 600.0, 8)
    listed = await get(client, "/providers?limit=1")
    assert ([one["name"] for one in listed["data"]], listed["has_more"]) == (["plain"], True)
    rest = await get(client, f"/providers?after={plain['id']}")
    assert [one["name"] for one in rest["data"]] == ["acme-2"]

    gone: Any = await client.delete(path, cast_to=object)
    assert gone == {"id": made["id"], "object": "provider", "deleted": True}
    with pytest.raises(NotFoundError) as raised:
        await get(client, path)
    assert (raised.value.param, raised.value.code) == ("provider_id", "provider_not_found")


async def test_a_probe_tells_the_models_or_which_field_is_wrong(client: AsyncOpenAI, acme: LoopbackEndpoint) -> None:
    refusal = await refused(client, "/providers", a_provider(acme, probe=True, api_key="sk-wrong-0123456789"))
    assert (refusal.param, refusal.code) == ("api_key", "provider_refused_key")
    assert "401" in refusal.message
    assert "sk-wrong-0123456789" not in refusal.message, "the provider repeats the key in its error"
    refusal = await refused(client, "/providers", a_provider(acme, probe=True, base_url=acme.base_url))
    assert (refusal.param, refusal.code) == ("base_url", "provider_unreachable")
    assert "404" in refusal.message
    assert (await get(client, "/providers"))["data"] == [], "nothing is half created"
    made = await post(client, "/providers", a_provider(acme, probe=True))
    assert made["models"] == ["small", "lab/large"]


async def test_bad_providers_are_refused_by_field(
    client: AsyncOpenAI, acme: LoopbackEndpoint, refused_url: str
) -> None:
    await post(client, "/providers", a_provider(acme))
    cases: list[tuple[dict[str, Any], str, str | None]] = [
        ({"name": "acme"}, "name", "provider_exists"),
        ({"name": "with/slash"}, "name", None),
        ({"name": "b", "base_url": "ftp://acme/v1"}, "base_url", None),
        ({"name": "b", "base_url": "http://169.254.169.254/v1"}, "base_url", None),
        ({"name": "b", "base_url": f"{refused_url}/v1", "probe": True}, "base_url", "provider_unreachable"),
        ({"name": "b", "api_key": ""}, "api_key", None),
        ({"name": "b", "api_key": "two\nlines"}, "api_key", None),
        ({"name": "b", "api_key": REDACTED}, "api_key", None),
        ({"name": "b", "headers": {"Host": "x"}}, "headers", None),
        ({"name": "b", "omit_fields": ["messages"]}, "omit_fields", None),
        ({"name": "b", "requests_per_minute": 0}, "requests_per_minute", None),
        ({"name": "b", "price_per_million": {"prompt": -1, "completion": 1}}, "price_per_million.prompt", None),
    ]
    for changes, param, code in cases:
        refusal = await refused(client, "/providers", a_provider(acme, **changes))
        assert refusal.param == param, changes
        assert code is None or refusal.code == code, changes
    assert len((await get(client, "/providers"))["data"]) == 1


async def test_a_key_goes_to_no_other_server_than_it_was_given_for(client: AsyncOpenAI, acme: LoopbackEndpoint) -> None:
    made = await post(client, "/providers", a_provider(acme))
    path, elsewhere = f"/providers/{made['id']}", "http://127.0.0.1:9/v1"
    assert (await refused(client, path, {"base_url": elsewhere})).param == "api_key"
    refusal = await refused(client, path, {"base_url": elsewhere, "api_key": "sk-new"})
    assert refusal.param == "headers"
    moved = await post(client, path, {"base_url": elsewhere, "api_key": "sk-new", "headers": None})
    assert (moved["base_url"], moved["headers"]) == (elsewhere, None)
    same_server = await post(client, path, {"base_url": f"{elsewhere}/beta"})
    assert same_server["api_key"] == REDACTED


async def test_a_name_that_another_has_cannot_be_taken(client: AsyncOpenAI, acme: LoopbackEndpoint) -> None:
    await post(client, "/providers", a_provider(acme))
    other = await post(client, "/providers", a_provider(acme, name="other"))
    refusal = await refused(client, f"/providers/{other['id']}", {"name": "acme"})
    assert (refusal.param, refusal.code) == ("name", "provider_exists")


async def test_a_model_is_found_by_its_providers_name_and_answers(
    api: Api, client: AsyncOpenAI, acme: LoopbackEndpoint, migrated_url: str
) -> None:
    await post(client, "/providers", a_provider(acme))
    settings, box = api.settings, SecretBox.at(api.settings.home)
    rotate_key(settings.home / KEY_FILE, migrated_url, settle_s=0.0)
    async with Database(migrated_url, max_connections=1) as database:
        async with reading(database) as uow:
            model = await find_chat_model(uow, settings, box, "acme/lab/large")
            unknown = {}
            for name in ("acme/", "nobody/small", "nothing", "ft:acme/small"):
                with pytest.raises(ApiError) as raised:
                    await find_chat_model(uow, settings, box, name)
                unknown[name] = raised.value
        assert all(isinstance(error, NotFound) and error.param == "model" for error in unknown.values())
        assert "no provider 'nobody'" in unknown["nobody/small"].message
        assert isinstance(model, ProviderModel)
        assert (model.model, model.provider.api_key, model.provider.headers) == (
            "lab/large",
            KEY,
            {"OpenAI-Organization": HEADER},
        )
        async with open_provider_client(settings.egress) as connections:
            processes = ServingProcesses(settings, database)
            policy = policy_for("acme/lab/large", model, settings=settings, processes=processes, client=connections)
            question = Message(role=Role.USER, content="How much?")
            said = await policy.complete(ChatRequest((question,), (), ChatSampling(max_tokens=9), "trace_1"))
    assert isinstance(said, ChatTurn), said
    assert not isinstance(said, Failure)
    assert (said.content, policy.provider, policy.max_concurrency) == ("Four.", "acme", 3)
    (call,) = acme.endpoint.calls
    assert (call.headers["authorization"], call.headers["openai-organization"]) == (f"Bearer {KEY}", HEADER)
    assert b'"max_tokens":9' in call.body
    assert b"top_p" not in call.body


async def test_a_base_model_with_a_slash_in_its_name_is_ours(api: Api, migrated_url: str) -> None:
    settings, box = api.settings, SecretBox.at(api.settings.home)
    async with Database(migrated_url, max_connections=1) as database, reading(database) as uow:
        with pytest.raises(ApiError) as raised:
            await find_chat_model(uow, settings, box, "lab/tiny")
    assert raised.value.code == "model_not_ready", "known here, and its folder is empty in this test"
