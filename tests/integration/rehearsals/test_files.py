"""The file of a rehearsal that waits or runs stays until it is over."""

from typing import Any

from rft.platform.files.sweeping import sweep_expired
from rft.platform.rehearsals.repository import RehearsalRepository
from rft.platform.worker.run_rehearsal import run_rehearsal
from tests.integration.rehearsals.stage import Platform


async def create(platform: Platform, order: dict[str, Any]) -> str:
    reply = await platform.http.post("/rehearsals", json=order)
    assert reply.status_code == 200, reply.text
    return reply.json()["id"]


async def take(platform: Platform, rehearsal_id: str) -> None:
    async with platform.database.transaction() as connection:
        assert await RehearsalRepository(connection).take(rehearsal_id, owner="host/1/m-1", ttl_s=60.0) is not None


async def expire(platform: Platform) -> int:
    """As if all files had expired: how many the sweep removes."""
    async with platform.database.transaction() as connection:
        await connection.execute("update files set expires_at = now() - interval '1 hour'")
    return await sweep_expired(platform.database, platform.context.file_store)


async def test_a_rehearsal_that_waits_longer_than_its_file_lives_is_still_played(
    platform: Platform, order: dict[str, Any]
) -> None:
    made = await create(platform, order)
    assert await expire(platform) == 0
    assert await run_rehearsal(made, platform.context) == "completed"
    assert await expire(platform) == 1


async def test_a_file_of_a_rehearsal_that_waits_or_runs_is_not_deleted(
    platform: Platform, order: dict[str, Any]
) -> None:
    made, path = await create(platform, order), f"/files/{order['training_file']}"
    waiting = await platform.http.delete(path)
    await take(platform, made)
    running = await platform.http.delete(path)
    for refused in (waiting, running):
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "file_in_use")
        assert made in refused.json()["error"]["message"]


async def test_a_file_of_a_rehearsal_that_is_over_can_be_deleted(platform: Platform, order: dict[str, Any]) -> None:
    made = await create(platform, order)
    assert (await platform.http.post(f"/rehearsals/{made}/cancel")).status_code == 200
    assert (await platform.http.delete(f"/files/{order['training_file']}")).status_code == 200


async def test_a_file_whose_bytes_are_gone_fails_the_rehearsal(platform: Platform, order: dict[str, Any]) -> None:
    made = await create(platform, order)
    await platform.context.file_store.delete(order["training_file"])
    assert await run_rehearsal(made, platform.context) == "failed: invalid_training_file"
    shown = (await platform.http.get(f"/rehearsals/{made}")).json()
    assert shown["error"]["param"] == "training_file"


async def test_a_file_of_empty_lines_is_refused_before_it_is_read_to_its_end(
    platform: Platform, order: dict[str, Any]
) -> None:
    form = {"file": ("rows.jsonl", b"\n" * 20_000 + b"{}\n"), "purpose": (None, "fine-tune")}
    file_id = (await platform.http.post("/files", files=form)).json()["id"]
    reply = await platform.http.post("/rehearsals", json={**order, "training_file": file_id})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_training_file")
    assert "no rows in its first 10,000 lines" in reply.json()["error"]["message"]
