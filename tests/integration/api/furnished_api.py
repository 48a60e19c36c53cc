"""An API with something of everything in it, for callers that make up their own requests."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import psycopg
from openai import AsyncOpenAI

from rft.core.base import JsonObject
from rft.platform.api.key_repository import create_key
from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease
from rft.platform.store.database import Database
from rft.platform.store.migrations import migrate
from rft.platform.worker.ingest import Ingest
from rft.platform.worker.metrics_event import GraderLabel
from rft.platform.worker.run_eval import run_eval
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.worker.workbench import Workbench
from tests.shared.running_api import EXACT, ReceivedMessages, Served, upload
from tests.shared.train_events import attempts_made, logged, rollout_done, whole_run

T = TypeVar("T")
STEPS = 2
SPARES = 4


@dataclass(frozen=True, slots=True)
class FurnishedApi:
    """Where it is, and what is in it."""

    url: str
    key: str
    tool_url: str
    grader_url: str
    known: Mapping[str, tuple[str, ...]]
    """Ids by the name of the path parameter that takes them."""
    spare: Mapping[str, tuple[str, ...]]
    """The same for ids that may be deleted."""


@contextmanager
def furnished_api(database_url: str, folder: Path) -> Generator[FurnishedApi]:
    """Serves it; everything runs in threads, so that callers need no loop."""
    with _loop_in_a_thread() as run:
        customer = LoopbackEndpoint(
            ScriptedEndpoint(ScriptedTools({"search": _search, "search_0": _search}), ScriptedGrader(0.5))
        )
        run(customer.__aenter__())
        try:
            bench = Workbench(
                folder,
                database_url,
                Database(database_url),
                changed_settings={
                    "base_models": {"tiny": str(folder)},
                    "judge_base_url": "http://127.0.0.1:9/v1",
                    "probe_timeout_s": 20.0,
                    "max_retries": 0,
                },
            )
            key = run(_prepare(bench))
            with Served(bench.settings, ReceivedMessages()) as port:
                yield run(_furnish(bench, f"http://127.0.0.1:{port}", key, customer))
        finally:
            run(customer.__aexit__())


def _search(arguments: JsonObject, item: JsonObject) -> str:
    return f"{len(arguments)} arguments, {len(item)} fields"


@contextmanager
def _loop_in_a_thread() -> Generator[Callable[[Coroutine[Any, Any, T]], T]]:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(120)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _prepare(bench: Workbench) -> str:
    await migrate(bench.database_url)
    async with await psycopg.AsyncConnection.connect(bench.database_url, autocommit=True) as connection:
        return await create_key(connection, "tests")


async def _furnish(bench: Workbench, url: str, key: str, customer: LoopbackEndpoint) -> FurnishedApi:
    async with bench.database, AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as sdk:
        trained, traces = await _trained_job(bench)
        dropped, _ = await _trained_job(bench)
        waiting = await bench.queued_job()
        models = await _models(sdk, trained)
        spare_models = await _models(sdk, dropped)
        tools = [await _tool(sdk, customer, number) for number in range(1 + SPARES)]
        graders = [await _post(sdk, "/graders", {"grader": EXACT}) for _ in range(1 + SPARES)]
        providers = [await _provider(sdk, number) for number in range(1 + SPARES)]
        projects = [f"proj_{number}" for number in range(1 + SPARES)]
        permissions = await _post(
            sdk, f"/fine_tuning/checkpoints/{models[1]}/permissions", {"project_ids": projects}, "data"
        )
        regrade = await _post(sdk, f"/fine_tuning/jobs/{trained}/regrade", {"grader": EXACT})
        files = [(await upload(sdk)).id for _ in range(2 + SPARES)]
        announced = {"bytes": 9, "filename": "rows.jsonl", "mime_type": "application/jsonl", "purpose": "fine-tune"}
        large_files = [await _post(sdk, "/uploads", announced) for _ in range(2)]
        rehearsal = await _post(sdk, "/rehearsals", _order(files[0], customer))
        config = {"type": "custom", "item_schema": {"type": "object"}, "include_sample_schema": True}
        definition = {"data_source_config": config, "testing_criteria": [EXACT]}
        evals = [await _post(sdk, "/evals", definition) for _ in range(1 + SPARES)]
        runs = [await _finished_run(bench, sdk, eval_id) for eval_id in evals]
        items: Any = await sdk.get(f"/evals/{evals[0]}/runs/{runs[0]}/output_items", cast_to=object)
        secret = await _post(sdk, "/signing_secrets/rotate", {})
        keys = [await _post(sdk, "/dashboard/keys", {"name": f"spare {number}"}) for number in range(SPARES)]
        return FurnishedApi(
            url=url,
            key=key,
            tool_url=customer.tool_url,
            grader_url=customer.grader_url,
            known={
                "file_id": (files[0],),
                "upload_id": tuple(large_files),
                "fine_tuning_job_id": (trained, trained, waiting),
                "fine_tuned_model_checkpoint": (models[1],),
                "permission_id": (permissions[0]["id"],),
                "model": tuple(models),
                "trace_id": traces,
                "regrade_id": (regrade,),
                "rehearsal_id": (rehearsal,),
                "eval_id": (evals[0],),
                "run_id": (runs[0],),
                "output_item_id": (items["data"][0]["id"],),
                "tool_id": (tools[0],),
                "grader_id": (graders[0],),
                "provider_id": (providers[0],),
                "signing_secret_id": (secret,),
                "key_id": (keys[0],),
            },
            spare={
                "file_id": tuple(files[2:]),
                "fine_tuned_model_checkpoint": (models[1],),
                "permission_id": tuple(permission["id"] for permission in permissions[1:]),
                "model": tuple(spare_models),
                "eval_id": tuple(evals[1:]),
                "run_id": tuple(runs[1:]),
                "tool_id": tuple(tools[1:]),
                "grader_id": tuple(graders[1:]),
                "provider_id": tuple(providers[1:]),
                "signing_secret_id": (secret,),
                "key_id": tuple(keys),
            },
        )


async def _trained_job(bench: Workbench) -> tuple[str, tuple[str, ...]]:
    """A job that succeeded, and the traces of its first step."""
    job_id = await bench.queued_job()
    async with bench.database.connection() as connection:
        lease = await take(connection, job_id, owner="here/1/a", ttl_s=600, slots=1)
    assert isinstance(lease, Lease)
    ingest = Ingest(lease, (GraderLabel("judge", "endpoint"),), f"ft:tiny:local:unit:{job_id[-8:]}")
    traces = tuple(rollout_done(job_id, 1, index).trace_id for index in range(2))
    run = whole_run(job_id, steps=STEPS)
    async with bench.database.transaction() as connection:
        await ingest.batch(connection, logged([run[0], attempts_made(1, traces[0], None), *run[1:]]))
    return job_id, traces


async def _models(sdk: AsyncOpenAI, job_id: str) -> list[str]:
    """The job's model and its checkpoints."""
    return [model.id async for model in sdk.models.list() if getattr(model, "fine_tuning_job_id", None) == job_id]


async def _finished_run(bench: Workbench, sdk: AsyncOpenAI, eval_id: str) -> str:
    """A run of an eval, with one output item."""
    content = [{"item": {"answer": "7"}, "sample": {"output_text": "7"}}]
    source = {"type": "jsonl", "source": {"type": "file_content", "content": content}}
    run_id = await _post(sdk, f"/evals/{eval_id}/runs", {"data_source": source})
    assert await run_eval(run_id, bench.context()) == "completed"
    return run_id


async def _tool(sdk: AsyncOpenAI, customer: LoopbackEndpoint, number: int) -> str:
    return await _post(sdk, "/tools", {"name": f"search_{number}", "server_url": customer.tool_url})


async def _provider(sdk: AsyncOpenAI, number: int) -> str:
    return await _post(sdk, "/providers", {"name": f"acme-{number}", "base_url": "http://127.0.0.1:9/v1"})


async def _post(sdk: AsyncOpenAI, path: str, body: object, key: str = "id") -> Any:
    reply: Any = await sdk.post(path, body=body, cast_to=object)
    return reply[key]


def _order(training_file: str, customer: LoopbackEndpoint) -> dict[str, Any]:
    reinforcement = {
        "grader": {"type": "endpoint", "url": customer.grader_url},
        "tools": [{"name": name, "server_url": customer.tool_url} for name in ("search", "cat")],
    }
    return {"training_file": training_file, "method": {"type": "reinforcement", "reinforcement": reinforcement}}
