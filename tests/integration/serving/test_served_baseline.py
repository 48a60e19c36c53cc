"""A model of the platform as a baseline of a job: the worker serves it to its own rollouts, and stops it then."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rft.core.base import JsonObject
from rft.platform.store.database import Database
from rft.platform.worker.run_job import run_job
from rft.platform.worker.validate_job import validate_job
from rft.serving_wire.endpoint_file import read_endpoint
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.worker.scripted_trainer import Plan
from tests.integration.worker.workbench import TOOL, Workbench, jsonl
from tests.shared.scripted_engine import ANSWER, SEARCHES
from tests.shared.served_models import ROOT

ENGINE = "tests.shared.scripted_engine:scripted_engine"


def _search(arguments: JsonObject, item: JsonObject) -> str:
    return f"found {arguments['query']}"


def _score(sample: JsonObject, item: JsonObject) -> float:
    return float(sample["output_text"] == ANSWER)


@pytest.fixture
async def bench(
    migrated_url: str, tmp_path: Path, base_model: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Workbench]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
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
    assert not any(read_endpoint(folder) for folder in bench.settings.serving_dir.iterdir()), "it has stopped"
