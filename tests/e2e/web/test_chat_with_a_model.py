"""Chat with a serving process behind it: a job's model is asked in a browser and calls the customer's real tool."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from psycopg.types.json import Jsonb

from rft.core.base import JsonObject
from rft.starter.tokenizer import build_tokenizer
from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.loopback import LoopbackEndpoint
from tests.e2e.web.test_models import say
from tests.e2e.web.watched_page import PageProblems, sign_in
from tests.shared.by_hand import tiny_model
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.running_api import EXACT, upload
from tests.shared.scripted_engine import ANSWER, SEARCHES, THINKS
from tests.shared.served_models import ServedPlatform, scripted_platform

TOOL: Any = {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}
QUESTION = f"{SEARCHES}. {THINKS}."

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True, slots=True)
class Asked:
    """A job whose model can be asked, and the server of its tool."""

    job_id: str
    endpoint: ScriptedEndpoint


@pytest.fixture(scope="module")
def served(emptied_database: EmptiedDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPlatform]:
    """Its serving process writes what a script says, in place of a model's weights."""
    base_model = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = build_tokenizer()
    tiny_model(tokenizer).save_pretrained(base_model)
    tokenizer.save_pretrained(base_model)
    with scripted_platform(emptied_database, tmp_path_factory.mktemp("home"), base_model, max_retries=0) as running:
        yield running


@pytest.fixture
def page_problems(served: ServedPlatform) -> PageProblems:
    """Of pages of this platform."""
    return PageProblems(home=served.api.url)


@pytest_asyncio.fixture(loop_scope="session")
async def asked(served: ServedPlatform) -> AsyncIterator[Asked]:
    """Trained, with one checkpoint."""

    def search(arguments: JsonObject, item: JsonObject) -> str:
        return f"found {arguments['query']}"

    endpoint = ScriptedEndpoint(ScriptedTools({"search": search}))
    async with LoopbackEndpoint(endpoint) as address, served.sdk() as client:
        tools = [{"name": "search", "server_url": address.tool_url}]
        row = {"messages": [{"role": "user", "content": "?"}], "tools": [{"type": "function", "function": TOOL}]}
        file = await upload(client, json.dumps(row).encode())
        method: Any = {"type": "reinforcement", "reinforcement": {"grader": EXACT, "tools": tools}}
        job = await client.fine_tuning.jobs.create(model="tiny", training_file=file.id, method=method)
        _has_ended(served, job.id)
        endpoint.calls.clear()
        yield Asked(job.id, endpoint)


def _has_ended(served: ServedPlatform, job_id: str) -> None:
    """With the checkpoint of its last step, as its worker leaves it."""
    path = Path("checkpoints/checkpoint-2")
    (served.api.settings.runs_dir / job_id / path).mkdir(parents=True)
    with psycopg.connect(served.database_url, autocommit=True) as connection:
        connection.execute(
            "insert into checkpoints (id, job_id, step, path, metrics, is_kept) values (%s, %s, 2, %s, %s, true)",
            (f"ftckpt_{job_id}", job_id, str(path), Jsonb({"full_valid_mean_reward": 0.5})),
        )
        connection.execute(
            "update jobs set status = 'succeeded', best_step = 2, finished_at = now(), fine_tuned_model = %s"
            " where id = %s",
            (f"ft:tiny:local::{job_id[-8:]}", job_id),
        )


async def test_a_model_that_was_trained_answers_with_the_calls_of_its_job(
    served: ServedPlatform, asked: Asked, page: Page
) -> None:
    await sign_in(page, served.api.url, served.api.key, "/models")
    models = page.get_by_role("region", name=f"Models of {asked.job_id}")
    await models.get_by_role("link", name="Chat").first.click()
    await say(page, QUESTION)
    exchange = page.locator(".exchange").first
    await expect(exchange).to_contain_text(ANSWER, timeout=600_000)  # a serving process is started for it
    for query in ("one", "two", "three"):
        await expect(exchange.get_by_role("region", name="Answer of search").filter(has_text=query)).to_have_count(1)
    called = [json.loads(call.body) for call in asked.endpoint.calls]
    assert sorted(json.loads(call["arguments"])["query"] for call in called) == ["one", "three", "two"]
    assert len({call["trace_id"] for call in called}) == 1

    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    await say(page, "And without looking?")
    await expect(page.locator(".exchange")).to_have_count(2)
    await expect(page.locator(".exchange").last).to_contain_text(ANSWER)
    assert len(asked.endpoint.calls) >= 3
