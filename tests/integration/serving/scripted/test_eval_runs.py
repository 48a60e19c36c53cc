"""Runs of evals and the API's users share a model's process."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI, InternalServerError

from rft.platform.store.database import Database
from rft.platform.store.file_store import LocalFileStore
from rft.platform.store.secret_box import SecretBox
from rft.platform.worker.context import WorkerContext
from rft.platform.worker.run_eval import run_eval
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.serving.scripted.asking import ask, endless, pid
from tests.shared.held_grader import HeldGrader
from tests.shared.scripted_engine import ANSWER
from tests.shared.served_models import ServedPlatform, serving_pid
from tests.shared.waiting import PATIENCE_S, until


async def test_a_run_of_an_eval_asks_the_process_that_answers_chat_completions(
    platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    assert await ask(client) == ANSWER
    before = pid(platform)
    exact: Any = {
        "type": "string_check",
        "name": "exact",
        "input": "{{sample.output_text}}",
        "reference": "{{item.answer}}",
        "operation": "eq",
    }
    eval_id, run_id = await ordered_run(client, exact, [{"answer": ANSWER}, {"answer": "8"}])
    async with Database(platform.database_url, max_connections=4) as database:
        assert await run_eval(run_id, worker_context(platform, database)) == "completed"
    done = await client.evals.runs.retrieve(run_id, eval_id=eval_id)
    assert (done.result_counts.passed, done.result_counts.failed, done.result_counts.errored) == (1, 1, 0)
    assert done.per_model_usage[0].run_model_name == "tiny"
    assert done.per_model_usage[0].completion_tokens > 0
    assert pid(platform) == before


UNKEPT: Any = {"type": "json_schema", "name": "answer", "schema": {"not": {}}}


@pytest.mark.parametrize(
    ("kind", "sampling", "param"),
    [
        ("completions", {"response_format": {"type": "json_schema", "json_schema": UNKEPT}}, "response_format"),
        ("responses", {"text": {"format": UNKEPT}}, "text.format"),
    ],
)
async def test_a_format_that_cannot_be_kept_fails_the_run_and_not_each_of_its_items(
    kind: str, sampling: dict[str, Any], param: str, platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    answers: Any = {"type": "string_check", "name": "any", "input": "1", "reference": "1", "operation": "eq"}
    items = [{"answer": str(number)} for number in range(40)]
    eval_id, run_id = await ordered_run(client, answers, items, kind=kind, **sampling)
    async with Database(platform.database_url, max_connections=4) as database:
        assert await run_eval(run_id, worker_context(platform, database)) == "failed: unkept_format"
    failed = await client.evals.runs.retrieve(run_id, eval_id=eval_id)
    assert "The response_format cannot be kept" in failed.error.message
    assert failed.error.to_dict()["param"] == f"data_source.sampling_params.{param}"
    assert failed.result_counts.errored == 0


async def ordered_run(
    client: AsyncOpenAI, criterion: Any, items: list[dict[str, str]], *, kind: str = "completions", **sampling: object
) -> tuple[str, str]:
    """Ids of an eval and its run."""
    config: Any = {"type": "custom", "item_schema": {"type": "object"}, "include_sample_schema": True}
    made = await client.evals.create(data_source_config=config, testing_criteria=[criterion])
    source: Any = {
        "type": kind,
        "model": "tiny",
        "source": {"type": "file_content", "content": [{"item": item} for item in items]},
        "input_messages": {"type": "template", "template": [{"role": "user", "content": "How much?"}]},
        "sampling_params": sampling,
    }
    return made.id, (await client.evals.runs.create(made.id, data_source=source)).id


def worker_context(
    platform: ServedPlatform, database: Database, is_stopping: Callable[[], bool] = lambda: False
) -> WorkerContext:
    settings = platform.api.settings
    return WorkerContext(
        settings=settings,
        database=database,
        file_store=LocalFileStore(settings.files_dir),
        secret_box=SecretBox.at(settings.home),
        is_stopping=is_stopping,
        enqueuer=platform.api.messages,
    )


@pytest.mark.parametrize("worker_stops", [False, True])
async def test_a_run_of_an_eval_ends_and_its_process_answers_the_apis_user_to_the_end_unless_the_worker_stops(
    worker_stops: bool, platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    if serving_pid(platform) is not None:
        os.kill(pid(platform), signal.SIGTERM)
        await until(lambda: serving_pid(platform) is None, "the run starts the process")
    endpoint, stopping = HeldGrader(), list[bool]()
    async with (
        LoopbackEndpoint(endpoint) as customer,
        Database(platform.database_url, max_connections=4) as database,
    ):
        judge = {"type": "endpoint", "name": "judge", "url": customer.grader_url}
        eval_id, run_id = await ordered_run(client, judge, [{"answer": ANSWER}])
        endpoint.hold()
        running = asyncio.create_task(
            run_eval(run_id, worker_context(platform, database, is_stopping=lambda: bool(stopping)))
        )
        await endpoint.is_asked.wait()
        stream, _ = await endless(client)
        answering = pid(platform)
        endpoint.let_go()

        async def is_completed() -> bool:
            return (await client.evals.runs.retrieve(run_id, eval_id=eval_id)).status == "completed"

        await until(is_completed, "the run waits for nobody else's answer")
        with pytest.raises(InternalServerError) as raised:
            await ask(client)
        assert (raised.value.code, pid(platform)) == ("serving_busy", answering), "it still answers"
        assert not running.done(), "whoever started the process keeps it"
        if worker_stops:
            stopping.append(True)
            with pytest.raises(APIError) as lost:
                async for _ in stream:
                    pass
            assert lost.value.code == "serving_lost"
        else:
            await stream.close()
        assert await asyncio.wait_for(running, PATIENCE_S) == "completed"
    await until(lambda: serving_pid(platform) is None, "it has ended")
    assert await ask(client) == ANSWER
