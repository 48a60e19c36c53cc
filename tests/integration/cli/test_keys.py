"""`rft keys ...`: on the platform's host, straight in its database."""

import asyncio
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from rft.platform.api.key_repository import LastKey, create_key, id_of, list_keys, revoke_key
from rft.platform.embedded.connection import Connection, publish
from rft.platform.embedded.home import Home
from tests.integration.cli.conftest import Shell
from tests.integration.worker.workbench import Workbench


@pytest.fixture
def host(shell: Shell, bench: Workbench) -> Shell:
    """A shell on the platform's host."""
    return replace(shell, environment={**shell.environment, "DATABASE_URL": bench.database_url})


async def test_keys_are_made_listed_used_and_revoked(host: Shell) -> None:
    key = (await host.ok("keys", "create", "a colleague")).out.strip()
    key_id = id_of(key)
    assert key_id is not None
    listed = {entry["id"]: entry for entry in (await host.ok("keys", "list", "--json")).json}
    assert (listed[key_id]["name"], listed[key_id]["last_used_at"]) == ("a colleague", None)
    assert len(listed) == 2
    await host.ok("jobs", "list", "--api-key", key)
    listed = {entry["id"]: entry for entry in (await host.ok("keys", "list", "--json")).json}
    assert listed[key_id]["last_used_at"] is not None
    page = (await host.ok("keys", "list")).out
    assert key_id in page
    assert "a colleague" in page
    secret = key.removeprefix(f"rft_{key_id}_")  # It may have an underscore of its own.
    assert len(secret) > 40
    assert secret not in page + str(listed)

    assert (await host.ok("keys", "revoke", key)).out == f"{key_id} is revoked\n"
    refused = await host.rft("jobs", "list", "--api-key", key)
    assert (refused.status, "Incorrect API key" in refused.err) == (1, True)
    assert key_id not in (await host.ok("keys", "list")).out
    everything = {entry["id"]: entry for entry in (await host.ok("keys", "list", "--all", "--json")).json}
    assert everything[key_id]["revoked_at"] is not None
    again = await host.ok("keys", "revoke", key_id)
    assert again.out == f"{key_id} is revoked\n", "once more is no mistake, and changes nothing"
    unchanged = {entry["id"]: entry for entry in (await host.ok("keys", "list", "--all", "--json")).json}
    assert unchanged[key_id] == everything[key_id]


async def test_the_last_key_is_not_lost_by_accident(host: Shell) -> None:
    own = id_of(host.environment["RFT_API_KEY"]) or ""
    refused = await host.rft("keys", "revoke", own)
    assert (refused.status, "--last" in refused.err, refused.err.count("\n")) == (1, True, 1)
    await host.ok("jobs", "list")
    assert (await host.ok("keys", "revoke", own, "--last")).out == f"{own} is revoked\n"
    assert (await host.ok("keys", "list")).err == "no keys\n"
    key = (await host.ok("key", "create", "anew")).out.strip()
    await host.ok("jobs", "list", "--api-key", key)


async def test_what_is_no_key_is_told_in_words(host: Shell) -> None:
    for text in ("nothing", "rft_", "rft_abcdefabcdef_" + "s3cret" * 7, "ftjob-1"):
        refused = await host.rft("keys", "revoke", text)
        assert (refused.status, refused.err.count("\n")) == (1, 1), refused.err
        assert "rft keys list" in refused.err
        assert "s3cret" not in refused.err


async def test_a_key_says_what_it_is_for(host: Shell) -> None:
    for name in ("", " "):
        refused = await host.rft("keys", "create", name)
        assert (refused.status, refused.out) == (1, "")
        assert "needs a name" in refused.err


async def test_without_a_running_platform_there_is_no_database(shell: Shell) -> None:
    for command in (("keys", "list"), ("keys", "create", "x"), ("secrets", "show"), ("secrets", "rotate-key")):
        done = await shell.rft(*command)
        assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
        assert "is not running: start it with `rft up`" in done.err
    told = (await shell.rft("keys", "list", "--json")).json
    assert "is not running" in told["error"]["message"]


@pytest.mark.parametrize("has_own_queue", [True, False])
async def test_a_platform_with_a_database_of_its_own_is_not_taken_for_stopped(
    shell: Shell, tmp_path: Path, *, has_own_queue: bool
) -> None:
    home = Home(tmp_path / "home")
    with home.hold():
        if not has_own_queue:
            home.socket_dir()  # Of the embedded queue.
    publish(home.path, Connection(base_url="http://127.0.0.1:1/v1", api_key="rft_x", dashboard_url="", pid=1))
    for command in (("keys", "list"), ("secrets", "show"), ("secrets", "rotate-key")):
        done = await shell.rft(*command, RFT_HOME=str(home.path))
        assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
        assert "has a database of its own: set DATABASE_URL as it has it" in done.err
    home.remove_socket_dir()


async def test_a_database_that_does_not_answer_is_told(shell: Shell) -> None:
    done = await shell.rft("keys", "list", DATABASE_URL="postgresql://nobody@127.0.0.1:1/x")
    assert (done.status, "the database cannot be used" in done.err) == (1, True)


async def test_two_who_revoke_each_others_key_leave_one(bench: Workbench) -> None:
    async def revoke(key_id: str) -> bool:
        async with await psycopg.AsyncConnection.connect(bench.database_url) as connection:
            return await revoke_key(connection, key_id, may_be_last=False)

    async with bench.database.transaction() as connection:
        ids = [id_of(await create_key(connection, name)) or "" for name in ("one", "two", "three")]
    outcomes = await asyncio.gather(*map(revoke, ids), return_exceptions=True)
    assert sorted(map(str, outcomes)) == ["True", "True", "it is the only key that is left"]
    assert any(isinstance(outcome, LastKey) for outcome in outcomes)
    async with bench.database.transaction() as connection:
        assert len([key for key in await list_keys(connection) if key.revoked_at is None]) == 1
