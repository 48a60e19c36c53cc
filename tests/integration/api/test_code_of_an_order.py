"""The code that the dashboard offers to copy does what its form does: it is run here, and makes the same job."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI
from openai.types.fine_tuning import FineTuningJob

from rft.platform.store.secret_box import SecretBox
from tests.shared.running_api import ROW, Api, upload

DATA = Path(__file__).parents[2] / "data"
"""Written and compared by `web/src/lib/order_code.test.ts`."""
BASE = "http://127.0.0.1:8787"
SECRETS = {
    "JUDGE_URL": "http://127.0.0.1:9301/grade?key=grader-url-secret",
    "JUDGE_AUTHORIZATION": "Bearer grader-secret",
    "SEARCH_X_KEY": "tool-secret",
    "SEARCH_X_TEAM": "team-secret",
}


@pytest.mark.parametrize(
    ("name", "command"), [("new_job_sdk.txt", [sys.executable, "-"]), ("new_job_cli.txt", ["bash", "-s"])]
)
async def test_copied_code_makes_the_same_job(
    name: str, command: list[str], api: Api, client: AsyncOpenAI, migrated_url: str
) -> None:
    texts = {"order": (DATA / "new_job_order.json").read_text(), "code": (DATA / name).read_text()}
    for part in ("train", "valid", "test"):
        file = await upload(client, ROW * 2, name=f"{part}.jsonl")
        texts = {key: text.replace(f"file-{part}", file.id) for key, text in texts.items()}
    typed = await client.post("/fine_tuning/jobs", body=json.loads(texts["order"]), cast_to=FineTuningJob)

    environment = (
        os.environ | SECRETS | {"RFT_API_KEY": api.key, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    )
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate(texts["code"].replace(BASE, api.url).encode())
    assert process.returncode == 0
    jobs = (await client.fine_tuning.jobs.list()).data
    copied = next(job for job in jobs if job.id != typed.id)
    assert copied.id in told.decode()
    assert _ordered(copied) == _ordered(typed)
    async with await psycopg.AsyncConnection.connect(migrated_url) as connection:
        rows = await (await connection.execute("select secrets from jobs")).fetchall()
    first, second = (SecretBox.at(api.settings.home).unseal(row[0]) for row in rows)
    assert first == second
    assert first.tool_headers == {"search": {"X-Key": "tool-secret", "X-Team": "team-secret"}}


def _ordered(job: FineTuningJob) -> dict[str, Any]:
    """All of it but what is each job's own."""
    shown: Any = job.to_dict(warnings=False)
    shown["method"]["reinforcement"]["grader"].pop("name")
    return {key: value for key, value in shown.items() if key not in ("id", "created_at")}
