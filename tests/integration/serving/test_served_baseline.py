"""A model of the platform as a baseline of a job: the worker serves it to its own rollouts, and stops it then."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from rft.core.base import JsonObject
from rft.core.messages import Message, Role
from rft.platform.serving.asking import ask
from rft.platform.serving.connections import SpareConnections
from rft.platform.store.database import Database
from rft.platform.worker.run_job import run_job
from rft.platform.worker.validate_job import validate_job
from rft.serving_wire.endpoint_file import read_endpoint
from rft.serving_wire.records import CompletionRequest, ServingEndpoint, Text
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.worker.scripted_trainer import Plan
from tests.integration.worker.workbench import TOOL, Workbench, jsonl
from tests.shared.held_grader import HeldGrader
from tests.shared.scripted_engine import ANSWER, ENDLESS, SEARCHES
from tests.shared.served_models import ROOT
from tests.shared.waiting import PATIENCE_S, until

ENGINE = "tests.shared.scripted_engine:scripted_engine"


def _search(arguments: JsonObject, item: JsonObject) -> str:
    return f"found {arguments['query']}"


def _score(sample: JsonObject, item: JsonObject) -> float:
    return float(sample["output_text"] == ANSWER)


@pytest.fixture
async def bench(
    migrated_url: str, tmp_path: Path, base_model: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Workbench]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    changes: dict[str, object] = {
        "base_models": {"tiny": str(base_model)},
        "engine": ENGINE,
        "serving_start_s": 600.0,
        "serving_reserve_bytes": 0,
        "torch_threads": 1,
    }
    async with Database(migrated_url) as database:
        bench = Workbench(tmp_path, migrated_url, database, changed_settings=changes)
        bench.plan(Plan())
        yield bench


async def test_a_base_model_calls_the_jobs_tools_and_is_graded_by_its_grader(
    bench: Workbench, base_model: Path
) -> None:
    endpoint = ScriptedEndpoint(ScriptedTools({"search": _search}), ScriptedGrader(_score))
    rows = [{"messages": [{"role": "user", "content": f"{SEARCHES} {n}."}], "tools": [TOOL]} for n in range(3)]
    async with LoopbackEndpoint(endpoint) as customer:
        job_id = await bench.new_job(
            valid=jsonl(*rows),
            base_model_path=str(base_model),
            tools=[{"name": "search", "server_url": customer.tool_url}],
            more={"grader": {"type": "endpoint", "name": "judge", "url": customer.grader_url}, "baselines": ["tiny"]},
        )
        assert await validate_job(job_id, bench.context()) == "queued"
        assert await run_job(job_id, bench.context()) == "over"
    (measured,) = (await bench.job(job_id))["baselines"]
    assert (measured["error"], measured["failures"], measured["graded"]) == (None, {}, 3)
    assert (measured["reward"]["mean"], measured["tool_calls"], measured["cost"]) == (1.0, 9, None)
    assert measured["completion_tokens"] > 0
    called = [json.loads(call.body)["arguments"] for call in endpoint.calls if call.path == "/tool"]
    assert sorted(called) == sorted(f'{{"query":   "{query}"}}' for query in ("one", "two", "three") for _ in range(3))
    assert listening(bench) == [], "it has stopped"


async def test_whom_the_process_of_a_baseline_still_answers_is_not_cut_off_before_training(
    bench: Workbench, base_model: Path
) -> None:
    endpoint = HeldGrader(ScriptedTools({"search": _search}), ScriptedGrader(_score))
    async with LoopbackEndpoint(endpoint) as customer:
        job_id = await bench.new_job(
            valid=jsonl({"messages": [{"role": "user", "content": "How much?"}]}),
            base_model_path=str(base_model),
            more={"grader": {"type": "endpoint", "name": "judge", "url": customer.grader_url}, "baselines": ["tiny"]},
        )
        assert await validate_job(job_id, bench.context()) == "queued"
        endpoint.hold()
        running = asyncio.create_task(run_job(job_id, bench.context()))
        await endpoint.is_asked.wait()
        is_answered = asyncio.Event()
        (process,) = listening(bench)
        other = asyncio.create_task(ask_for_ever(process, is_answered))
        await is_answered.wait()
        endpoint.let_go()

        async def is_measured() -> bool:
            return bool((await bench.job(job_id))["baselines"])

        await until(is_measured, "the baseline waits for nobody else's answer")
        assert not other.done(), other
        assert bench.launches == [], "training has the machine for itself"
        other.cancel()
        assert await asyncio.wait_for(running, PATIENCE_S) == "over"
    assert listening(bench) == []


def listening(bench: Workbench) -> list[ServingEndpoint]:
    folders = bench.settings.serving_dir.iterdir()
    return [endpoint for endpoint in map(read_endpoint, folders) if endpoint is not None]


async def ask_for_ever(endpoint: ServingEndpoint, is_answered: asyncio.Event) -> None:
    """As a user of the API is answered by the worker's process. Raises ProcessLost."""
    request = CompletionRequest(
        token="", model="tiny", messages=(Message(role=Role.USER, content=ENDLESS),), seed=1, is_streamed=True
    )
    connections = SpareConnections()
    with closing(connections):
        async with aclosing(ask(endpoint, request, connections)) as told:
            async for event in told:
                if isinstance(event, Text):
                    is_answered.set()
