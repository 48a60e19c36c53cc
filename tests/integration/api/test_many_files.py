"""The longest page there is, 10,000 files: whole, in little memory, and nobody else waits for it."""

import asyncio
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from rft.core.dataset_report import check_dataset
from rft.platform.api.key_repository import create_key
from tests.integration.api.api_process import api_process
from tests.shared.running_api import ROW

pytestmark = pytest.mark.slow

MANY = 10_000
_INSERT = (
    "insert into files (id, filename, purpose, bytes, status, storage_key, created_at, report)"
    " select 'file-' || lpad(n::text, 6, '0'), 'rows.jsonl', case n %% 2 when 0 then 'fine-tune' else 'evals' end, 9,"
    " 'processed', 'file-' || n, now() - make_interval(secs => n / 3), %s from generate_series(1, %s) n"
)


async def test_the_default_page_holds_all_and_keeps_nobody_waiting(migrated_url: str, tmp_path: Path) -> None:
    report = check_dataset([ROW, b"{oops\n" * 20])
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
        await connection.execute(_INSERT, (report.model_dump_json(), MANY + 5))
    with api_process(tmp_path, migrated_url) as (process, url):
        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=url, timeout=120, headers=headers) as caller:
            (await caller.get("/v1/files?limit=100")).raise_for_status()
            before = process.memory_info().rss
            asking = asyncio.create_task(caller.get("/v1/files"))
            answered, peak = await watch(asking, caller, process)
            page = (await asking).json()
    assert answered >= 5, "others are answered in between"
    assert (peak - before) / (1 << 20) < 48
    ids = [file["id"] for file in page["data"]]
    assert ids == sorted(ids, key=lambda id_: (-(int(id_[5:]) // 3), id_), reverse=True)
    assert (len(ids), page["has_more"], page["first_id"], page["last_id"]) == (MANY, True, ids[0], ids[-1])


async def watch(
    asking: "asyncio.Task[httpx.Response]", caller: httpx.AsyncClient, process: psutil.Process
) -> tuple[int, int]:
    """How many others are answered, and the most memory, until the page is there."""
    answered, peak = 0, 0
    while not asking.done():
        (await caller.get("/v1/files/file-000001")).raise_for_status()
        answered += 1
        peak = max(peak, process.memory_info().rss)
    return answered, peak
