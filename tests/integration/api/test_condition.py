"""`/v1/dashboard/condition`: room on the disk, and jobs that are held or were paused by the platform."""

import time
from pathlib import Path

import httpx
import psycopg
from psycopg.types.json import Jsonb

from rft.platform.api.key_repository import create_key
from rft.platform.settings import Settings
from tests.shared.running_api import ReceivedMessages, Served

MORE_THAN_ANY_DISK = 1 << 60


async def told(database_url: str, home: Path, *, min_free_bytes: int) -> dict[str, object]:
    """By a platform that wants so much room."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    settings = Settings.model_validate({"home": home, "DATABASE_URL": database_url, "min_free_bytes": min_free_bytes})
    headers = {"authorization": f"Bearer {key}"}
    with Served(settings, ReceivedMessages()) as port:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60.0) as client:
            return (await client.get("/v1/dashboard/condition")).raise_for_status().json()


async def insert_paused_jobs(connection: psycopg.AsyncConnection, count: int) -> None:
    """`ftjob-0` and so on, each newer than the one before."""
    for number in range(count):
        await connection.execute(
            "insert into jobs (id, status, created_at, model, base_model_path, training_file, suffix, seed, method,"
            " request) values (%s, 'paused', now() + make_interval(secs => %s), 'tiny', 'tiny', 'file-1', %s, 1, '{}',"
            " '{}')",
            (f"ftjob-{number}", number, f"job {number}"),
        )


async def test_a_disk_with_room_and_no_job_is_nothing_to_tell(migrated_url: str, tmp_path: Path) -> None:
    condition = await told(migrated_url, tmp_path / "home", min_free_bytes=1)
    disk = condition["disk"]
    assert isinstance(disk, dict)
    assert (disk["is_full"], disk["least_bytes"]) == (False, 1)
    assert disk["free_bytes"] > 1
    assert (condition["held_jobs"], condition["held_jobs_left_out"]) == ([], 0)
    assert (condition["platform_paused_jobs"], condition["platform_paused_jobs_left_out"]) == ([], 0)


async def test_a_full_disk_and_held_jobs_are_told_the_newest_first(migrated_url: str, tmp_path: Path) -> None:
    since = time.time()
    hold = {"endpoint": "tool 'search'", "stage": "tool", "reason": "it answers 503", "since": since, "step": 3}
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        await insert_paused_jobs(connection, 7)
        await connection.execute(
            "update jobs set hold = %s, lease_owner = 'here', lease_until = now() + interval '1 hour'"
            " where id <> 'ftjob-0'",
            (Jsonb(hold),),
        )
    condition = await told(migrated_url, tmp_path / "home", min_free_bytes=MORE_THAN_ANY_DISK)
    disk, held = condition["disk"], condition["held_jobs"]
    assert isinstance(disk, dict)
    assert disk["is_full"]
    assert isinstance(held, list)
    assert [(job["id"], job["name"]) for job in held] == [(f"ftjob-{n}", f"job {n}") for n in (6, 5, 4, 3, 2)]
    assert held[0]["hold"] == hold
    assert condition["held_jobs_left_out"] == 1
    assert condition["platform_paused_jobs"] == []


async def test_jobs_that_the_platform_paused_are_told_and_those_that_their_customer_paused_are_not(
    migrated_url: str, tmp_path: Path
) -> None:
    reason = {"code": "platform_failure", "message": "out of memory", "since": 1700000000.5, "step": 3}
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        await insert_paused_jobs(connection, 8)
        await connection.execute("update jobs set pause_reason = %s where id <> 'ftjob-7'", (Jsonb(reason),))
    condition = await told(migrated_url, tmp_path / "home", min_free_bytes=1)
    paused = condition["platform_paused_jobs"]
    assert isinstance(paused, list)
    assert [(job["id"], job["name"]) for job in paused] == [(f"ftjob-{n}", f"job {n}") for n in (6, 5, 4, 3, 2)]
    assert paused[0]["pause_reason"] == reason
    assert condition["platform_paused_jobs_left_out"] == 2
    assert condition["held_jobs"] == []
