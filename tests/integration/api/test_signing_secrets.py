"""Signing secrets: made once, rotated with two active ones, shown once, handed to runs."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from standardwebhooks import Webhook, WebhookVerificationError

from rft.core.spec import RunSecrets
from rft.egress.signing import Signer
from rft.platform.settings import Settings
from rft.platform.signing import service
from rft.platform.signing.run_secrets import whole_run_secrets
from rft.platform.store.database import Database
from rft.platform.store.secret_box import SecretBox
from tests.shared.running_api import Api

PATH = "/signing_secrets"
CLI = (sys.executable, "-m", "rft.platform.cli", "secrets")


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    """A pool on our tables."""
    async with Database(migrated_url, max_connections=6) as opened:
        yield opened


async def listed(client: AsyncOpenAI) -> list[dict[str, Any]]:
    page: Any = await client.get(PATH, cast_to=object)
    return page["data"]


def verifies(secret: str, headers: list[tuple[str, str]], body: bytes = b"{}") -> bool:
    """What a customer's server says, with the public package."""
    try:
        Webhook(secret).verify(body, dict(headers))
    except WebhookVerificationError:
        return False
    return True


async def test_the_first_secret_is_made_once_however_many_start(database: Database, tmp_path: Path) -> None:
    box = SecretBox.at(tmp_path)

    async def start() -> None:
        async with database.transaction() as connection:
            await service.ensure_signing_secret(connection, box)

    await asyncio.gather(*(start() for _ in range(6)))
    await start()
    async with database.transaction() as connection:
        (secret,) = await service.active_secrets(connection, box)
    assert secret.startswith("whsec_")


async def test_a_rotation_over_rest(client: AsyncOpenAI, api: Api, database: Database) -> None:
    (first,) = await listed(client)
    assert (first["object"], first["status"], first["retired_at"]) == ("signing_secret", "active", None)
    made: Any = await client.post(f"{PATH}/rotate", cast_to=object)
    assert made["secret"].startswith("whsec_")
    shown = await listed(client)
    assert [entry["id"] for entry in shown] == [made["id"], first["id"]]
    assert made["secret"] not in str(shown), "it was shown that once"

    box = SecretBox.at(api.settings.home)
    async with database.transaction() as connection:
        both = (await whole_run_secrets(connection, None, box, api.settings)).signing_secrets
    assert len(both) == 2
    assert both[0] == made["secret"], "newest first"
    headers = Signer(both).headers("trace_1/call_1", b"{}", now_s=time.time())
    assert all(verifies(secret, headers) for secret in both)

    with pytest.raises(BadRequestError, match=first["id"]) as raised:
        await client.post(f"{PATH}/rotate", cast_to=object)
    assert raised.value.code == "invalid_state"

    retired: Any = await client.delete(f"{PATH}/{first['id']}", cast_to=object)
    assert retired["status"] == "retired"
    assert retired == await client.delete(f"{PATH}/{first['id']}", cast_to=object), "twice changes nothing"
    async with database.transaction() as connection:
        (kept,) = await service.active_secrets(connection, box)
    headers = Signer([kept]).headers("trace_1/call_1", b"{}", now_s=time.time())
    assert (verifies(both[0], headers), verifies(both[1], headers)) == (True, False)

    with pytest.raises(BadRequestError, match="only active") as raised:
        await client.delete(f"{PATH}/{made['id']}", cast_to=object)
    with pytest.raises(NotFoundError):
        await client.delete(f"{PATH}/sigsec_none", cast_to=object)
    page: Any = await client.get(f"{PATH}?limit=1&after={made['id']}", cast_to=object)
    assert ([entry["id"] for entry in page["data"]], page["has_more"]) == ([first["id"]], False)
    with pytest.raises(BadRequestError, match="sigsec_none"):
        await client.get(f"{PATH}?after=sigsec_none", cast_to=object)


async def test_a_run_gets_its_own_secrets_and_the_platforms(database: Database, tmp_path: Path) -> None:
    box = SecretBox.at(tmp_path)
    settings = Settings.model_validate({"home": tmp_path, "judge_api_key": "judge-key", "gateway_token": "gate-token"})
    own = RunSecrets(tool_headers={"search": {"K": "v"}}, grader_headers={"G": "w"}, part_headers={"a": {"P": "x"}})
    async with database.transaction() as connection:
        await service.ensure_signing_secret(connection, box)
        whole = await whole_run_secrets(connection, box.seal(own), box, settings)
        bare = await whole_run_secrets(connection, None, box, Settings.model_validate({"home": tmp_path}))
    assert whole.model_copy(update={"signing_secrets": (), "judge_api_key": None, "gateway_token": None}) == own
    assert (whole.judge_api_key, whole.gateway_token) == ("judge-key", "gate-token")
    assert (bare.judge_api_key, bare.gateway_token, bare.signing_secrets) == (None, None, whole.signing_secrets)


async def test_the_command_line_on_the_host(client: AsyncOpenAI, api: Api) -> None:
    assert api.settings.database_url is not None
    environment = os.environ | {"DATABASE_URL": api.settings.database_url, "RFT_HOME": str(api.settings.home)}

    async def rft(*arguments: str) -> tuple[int, str, str]:
        done = await asyncio.to_thread(
            subprocess.run, [*CLI, *arguments], env=environment, capture_output=True, text=True, timeout=120
        )
        return done.returncode, done.stdout, done.stderr

    (first,) = await listed(client)
    code, said, _ = await rft("show")
    assert (code, said.split()[0]) == (0, first["id"])
    assert said.split()[-1].startswith("whsec_")

    code, made, _ = await rft("rotate")
    new_id, secret = made.split()
    assert (code, secret.startswith("whsec_")) == (0, True)
    assert [entry["id"] for entry in await listed(client)] == [new_id, first["id"]]
    code, _, problem = await rft("rotate")
    assert (code, first["id"] in problem) == (1, True)
    assert "Traceback" not in problem

    assert (await rft("retire", first["id"]))[0] == 0
    code, said, _ = await rft("show")
    assert said.split()[-1] == secret
    code, _, problem = await rft("retire", "sigsec_none")
    assert (code, "sigsec_none" in problem, "Traceback" in problem) == (1, True, False)

    environment["RFT_HOME"] = str(api.settings.home / "elsewhere")
    code, _, problem = await rft("rotate")
    assert (code, "Traceback" in problem) == (1, False), "another home's key would make secrets nobody can read"
