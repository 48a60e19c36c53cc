"""`/v1/dashboard/judges`: who is asked by which graders, without anybody's secrets."""

from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from rft.platform.api.key_repository import create_key
from rft.platform.settings import Settings
from tests.shared.running_api import EXACT, Api, ReceivedMessages, Served

TONE: dict[str, Any] = {
    "type": "score_model",
    "name": "tone",
    "model": "judge-small",
    "input": [{"role": "user", "content": "{{sample.output_text}}"}],
}


@pytest.fixture
async def program(migrated_url: str, tmp_path: Path) -> Any:
    """A client of a platform whose judge has a key and a login."""
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    settings = Settings.model_validate(
        {
            "home": tmp_path / "home",
            "DATABASE_URL": migrated_url,
            "judge_base_url": "https://lab:hush-login@judge.example/v1",
            "judge_api_key": "hush-key",
        }
    )
    headers = {"authorization": f"Bearer {key}"}
    with Served(settings, ReceivedMessages()) as port:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/v1", headers=headers, timeout=60.0) as client:
            yield client


async def test_a_judge_is_told_with_what_names_it_and_its_server_without_secrets(program: httpx.AsyncClient) -> None:
    empty = (await program.get("/dashboard/judges")).raise_for_status().json()
    assert empty["data"] == []
    several = {
        "type": "multi",
        "name": "both",
        "graders": {"kind": TONE, "exact": EXACT},
        "calculate_output": "kind + exact",
    }
    grader = (await program.post("/graders", json={"grader": several})).raise_for_status().json()
    (await program.post("/graders", json={"grader": EXACT})).raise_for_status()
    config = {"type": "custom", "item_schema": {"type": "object"}, "include_sample_schema": True}
    order = {"name": "Tone", "data_source_config": config, "testing_criteria": [TONE | {"pass_threshold": 0.5}]}
    made = (await program.post("/evals", json=order)).raise_for_status().json()

    reply = (await program.get("/dashboard/judges")).raise_for_status()
    told = reply.json()
    assert told["server"]["base_url"].endswith("@judge.example/v1")
    assert told["server"]["api_key"] is not None
    assert "hush" not in reply.text
    (judge,) = told["data"]
    assert judge["model"] == "judge-small"
    assert [(use["kind"], use["id"], use["graders"]) for use in judge["uses"]] == [
        ("eval", made["id"], ["tone"]),
        ("grader", grader["id"], ["kind"]),
    ]
    assert (judge["uses_left_out"], judge["latest"]) == (0, None)


async def test_without_a_judges_server_there_is_none_to_tell(api: Api) -> None:
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {api.key}"}, timeout=60.0) as client:
        told = (await client.get(f"{api.url}/v1/dashboard/judges")).raise_for_status().json()
    assert told == {"object": "list", "server": None, "data": []}
