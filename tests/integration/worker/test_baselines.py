"""A job's baselines: measured once before its training, with its rows, tools and grader; never in its way."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from rft.core.base import JsonObject
from rft.core.ids import trace_id
from rft.core.messages import ToolCall
from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.providers import service
from rft.platform.providers.schemas import ProviderCreate
from rft.platform.store.secret_box import SecretBox
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker.baselines import baseline_figures
from rft.platform.worker.run_job import run_job
from rft.platform.worker.validate_job import validate_job
from rft.rollouts.measure_model import MeasuredModel
from rft.run_directory import layout
from rft.run_directory.files import has_open_rollouts
from rft.run_directory.open_rollouts import OpenRolloutsFile
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault, FaultKind, FaultSequence, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.provider import Said, ScriptedProvider
from tests.integration.worker.scripted_trainer import Plan
from tests.integration.worker.workbench import ROW, Workbench, jsonl
from tests.shared.waiting import until

KEY = "sk-live-0123456789abcdef"
ROWS = 4


def _search(arguments: JsonObject, item: JsonObject) -> str:
    return f"{item['answer']} {arguments['query']}"


def _score(sample: JsonObject, item: JsonObject) -> float:
    return float(str(item["answer"]) in str(sample["output_text"]))


def _say(body: JsonObject) -> Said:
    """Asks the tool, then says what it said; half of the rows are answered wrong."""
    messages: Any = body["messages"]
    if messages[-1]["role"] == "tool":
        return f"It is {messages[-1]['content']}"
    is_even = int(messages[-1]["content"]) % 2 == 0
    return [ToolCall(call_id="own-1", name="search", arguments=json.dumps({"query": "x"}))] if is_even else "No idea."


@pytest.fixture
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    endpoint = ScriptedEndpoint(ScriptedTools({"search": _search}), ScriptedGrader(_score))
    async with LoopbackEndpoint(endpoint) as loopback:
        yield loopback


@pytest.fixture
async def acme() -> AsyncIterator[LoopbackEndpoint]:
    async with LoopbackEndpoint(ScriptedProvider(_say, api_key=KEY)) as loopback:
        yield loopback


async def registered(bench: Workbench, base_url: str, *, name: str = "acme", api_key: str = KEY) -> None:
    order = ProviderCreate.model_validate(
        {
            "name": name,
            "base_url": base_url,
            "api_key": api_key,
            "price_per_million": {"prompt": 10.0, "completion": 100.0},
        }
    )
    async with unit_of_work(bench.database) as uow:
        await service.create(uow, SecretBox.at(bench.settings.home), order, None)


async def job_with(
    bench: Workbench, customer: LoopbackEndpoint, *baselines: str, callback_url: str | None = None
) -> str:
    rows = [{**ROW, "messages": [{"role": "user", "content": str(n)}], "answer": 100 + n} for n in range(ROWS)]
    job_id = await bench.new_job(
        valid=jsonl(*rows),
        tools=[{"name": "search", "server_url": customer.tool_url, "callback_url": callback_url}],
        hyperparameters={"eval_samples": 2},
        more={
            "grader": {"type": "endpoint", "name": "judge", "url": customer.grader_url},
            "baselines": [*baselines],
        },
    )
    assert await validate_job(job_id, bench.context()) == "queued"
    return job_id


async def figures(bench: Workbench, job_id: str) -> list[dict[str, Any]]:
    return (await bench.job(job_id))["baselines"]


async def told(bench: Workbench, job_id: str) -> list[str]:
    return [message for message in await bench.messages(job_id) if message.startswith("The baseline")]


async def test_a_provider_is_measured_with_the_jobs_rows_tools_and_grader_before_it_trains(
    bench: Workbench, customer: LoopbackEndpoint, acme: LoopbackEndpoint
) -> None:
    await registered(bench, f"{acme.base_url}/v1")
    job_id = await job_with(bench, customer, "acme/small")
    bench.plan(Plan())
    assert await run_job(job_id, bench.context()) == "over"
    (measured,) = await figures(bench, job_id)
    assert (measured["model"], measured["rollouts"], measured["graded"]) == ("acme/small", 2 * ROWS, 2 * ROWS)
    assert (measured["reward"]["mean"], measured["reward"]["rows"]) == (0.5, ROWS)
    assert measured["reward"]["low"] < 0.5 < measured["reward"]["high"]
    assert (measured["failures"], measured["error"], measured["tool_calls"]) == ({}, None, ROWS)
    turns = 3 * ROWS
    assert (measured["prompt_tokens"], measured["completion_tokens"]) == (100 * turns, 20 * turns)
    assert measured["cost"] == pytest.approx(turns * (100 * 10.0 + 20 * 100.0) / 1e6)
    messages = await bench.messages(job_id)
    (message,) = await told(bench, job_id)
    assert message.startswith("The baseline acme/small earns 0.500 [")
    assert messages.index("Fine-tuning job started") < messages.index(message)
    calls = [call for call in customer.endpoint.calls if call.body]
    traces = {json.loads(call.body)["trace_id"] for call in calls}
    assert len(traces) == 2 * ROWS
    (row,) = await bench.all("select jobs::text as job from jobs where id = %s", job_id)
    assert KEY not in row["job"]


async def test_a_resumed_job_does_not_measure_again(
    bench: Workbench, customer: LoopbackEndpoint, acme: LoopbackEndpoint
) -> None:
    await registered(bench, f"{acme.base_url}/v1")
    job_id = await job_with(bench, customer, "acme/small")
    bench.plan(Plan(step_s=30.0))
    # The worker shuts down as soon as there is a trainer.
    assert await run_job(job_id, bench.context(is_stopping=lambda: bool(bench.launches))) == "given back"
    asked = len(acme.endpoint.calls)
    assert asked == 3 * ROWS
    bench.plan(Plan())
    assert await run_job(job_id, bench.context()) == "over"
    assert len(acme.endpoint.calls) == asked
    assert len(await figures(bench, job_id)) == len(await told(bench, job_id)) == 1


@pytest.mark.parametrize(
    ("key", "model", "reason"),
    [
        ("sk-wrong-9876543210fedcba", "small", "Incorrect API key provided"),
        (KEY, "smal", "The model `smal` does not exist"),
    ],
)
async def test_a_model_that_cannot_be_asked_is_told_once_and_the_job_trains(
    bench: Workbench,
    customer: LoopbackEndpoint,
    acme: LoopbackEndpoint,
    key: str,
    model: str,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    await registered(bench, f"{acme.base_url}/v1", api_key=key)
    job_id = await job_with(bench, customer, f"acme/{model}", "nobody/small")
    bench.plan(Plan())
    assert await run_job(job_id, bench.context()) == "over"
    wrong, unknown = await figures(bench, job_id)
    assert (wrong["reward"], unknown["reward"]) == (None, None)
    assert reason in wrong["error"]
    assert key not in json.dumps(wrong) + caplog.text
    assert "no provider 'nobody'" in unknown["error"]
    assert [message.split(" was not")[0] for message in await told(bench, job_id)] == [
        f"The baseline acme/{model}",
        "The baseline nobody/small",
    ]


async def test_an_error_that_the_database_cannot_hold_fails_no_job(
    bench: Workbench, customer: LoopbackEndpoint
) -> None:
    bench.changed_settings["max_retries"] = 0
    nul = HttpAnswer(401, b"no\x00key")
    async with LoopbackEndpoint(ScriptedProvider(lambda body: nul)) as strange:
        await registered(bench, f"{strange.base_url}/v1")
        job_id = await job_with(bench, customer, "acme/small")
        bench.plan(Plan())
        assert await run_job(job_id, bench.context()) == "over"
    (measured,) = await figures(bench, job_id)
    assert "no\ufffdkey" in measured["error"]


async def test_a_dead_provider_delays_the_training_no_longer_than_allowed(
    bench: Workbench, customer: LoopbackEndpoint
) -> None:
    bench.changed_settings["baselines_max_s"] = 0.5
    hangs = ScriptedProvider(_say, faults=FaultSequence([Fault(FaultKind.HANG)], last_stays=True))
    async with LoopbackEndpoint(hangs) as dead:
        await registered(bench, f"{dead.base_url}/v1")
        job_id = await job_with(bench, customer, "acme/small", "acme/other")
        bench.plan(Plan())
        assert await run_job(job_id, bench.context()) == "over"
    both = await figures(bench, job_id)
    assert [one["model"] for one in both] == ["acme/small", "acme/other"]
    assert all(one["reward"] is None for one in both)
    assert both[0]["error"].startswith("it was not done within RFT_BASELINES_MAX_S")
    assert both[1]["error"].startswith("its turn did not come within RFT_BASELINES_MAX_S")


async def test_failures_of_the_provider_are_excluded_and_counted(bench: Workbench, customer: LoopbackEndpoint) -> None:
    bench.changed_settings |= {"max_retries": 0, "has_adaptive_limits": False}
    faults = FaultSequence([Fault(FaultKind.STATUS, status=500), Fault(FaultKind.NOT_JSON)])
    async with LoopbackEndpoint(ScriptedProvider(_say, faults=faults)) as flaky:
        await registered(bench, f"{flaky.base_url}/v1")
        job_id = await job_with(bench, customer, "acme/small")
        bench.plan(Plan())
        assert await run_job(job_id, bench.context()) == "over"
    (measured,) = await figures(bench, job_id)
    assert measured["failures"] == {"invalid_reply": 1, "server_error": 1}
    assert (measured["rollouts"], measured["graded"]) == (2 * ROWS, 2 * ROWS - 2)
    assert measured["reward"] is not None


async def test_a_job_that_is_cancelled_while_it_measures_keeps_nothing(
    bench: Workbench, customer: LoopbackEndpoint
) -> None:
    hangs = ScriptedProvider(_say, faults=FaultSequence([Fault(FaultKind.HANG)], last_stays=True))
    async with LoopbackEndpoint(hangs) as slow:
        await registered(bench, f"{slow.base_url}/v1")
        job_id = await job_with(bench, customer, "acme/small")
        bench.plan(Plan())
        running = asyncio.create_task(run_job(job_id, bench.context()))
        await hangs.until(lambda endpoint: endpoint.in_flight > 0)

        async def is_told() -> bool:
            progress = (await bench.job(job_id))["progress"] or {}
            return progress.get("baseline") == {"model": "acme/small", "rollouts": 2 * ROWS, "ended": 0}

        await until(is_told, "the job says what it is doing")
        async with bench.database.transaction() as connection:
            await LifecycleRepository(connection).cancel(job_id)
        assert await running == "cancelled"
    assert await figures(bench, job_id) is None
    assert bench.launches == []


class SlowHost(ScriptedEndpoint):
    """Needs more time to hear of an end than work that is cancelled again and again has."""

    heard: set[tuple[str, str]]

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        if call.path != "/host":
            return await super().answer(call)
        body = json.loads(call.body)
        if body["type"] == "rollout.ended":
            await asyncio.sleep(0.5)
        self.heard.add((body["type"], body["trace_id"]))
        return HttpAnswer(204, b"")


async def test_ends_of_a_baselines_rollouts_are_told_when_its_job_is_cancelled(bench: Workbench) -> None:
    endpoint = SlowHost(ScriptedTools({"search": _search}), ScriptedGrader(_score))
    endpoint.heard = set()
    hangs = ScriptedProvider(_say, faults=FaultSequence([Fault(FaultKind.HANG)], last_stays=True))
    async with LoopbackEndpoint(endpoint) as customer, LoopbackEndpoint(hangs) as slow:
        await registered(bench, f"{slow.base_url}/v1")
        job_id = await job_with(bench, customer, "acme/small", callback_url=f"{customer.base_url}/host")
        bench.plan(Plan())
        running = asyncio.create_task(run_job(job_id, bench.context()))
        await hangs.until(lambda endpoint: endpoint.in_flight == 2 * ROWS)
        begun = {trace for kind, trace in endpoint.heard if kind == "rollout.started"}
        journal = bench.run_dir(job_id) / layout.OPEN_ROLLOUTS
        assert {*OpenRolloutsFile(journal).left} == begun, "whoever comes after a killed worker knows them"
        async with bench.database.transaction() as connection:
            await LifecycleRepository(connection).cancel(job_id)
        assert await running == "cancelled"
        assert len(begun) == 2 * ROWS
        assert begun == {trace for kind, trace in endpoint.heard if kind == "rollout.ended"}
        assert not has_open_rollouts(bench.run_dir(job_id))


async def test_a_baseline_first_tells_the_ends_that_a_killed_worker_left_open(
    bench: Workbench, acme: LoopbackEndpoint
) -> None:
    endpoint = SlowHost(ScriptedTools({"search": _search}), ScriptedGrader(_score))
    endpoint.heard = set()
    async with LoopbackEndpoint(endpoint) as customer:
        await registered(bench, f"{acme.base_url}/v1")
        job_id = await job_with(bench, customer, "acme/small", callback_url=f"{customer.base_url}/host")
        left = trace_id(uuid4())
        bench.run_dir(job_id).mkdir(parents=True, exist_ok=True)
        (bench.run_dir(job_id) / layout.OPEN_ROLLOUTS).write_text(f"+{left}\n")
        bench.plan(Plan())
        assert await run_job(job_id, bench.context()) == "over"
        told = [json.loads(call.body) for call in endpoint.calls if call.path == "/host"]
        assert (told[0]["type"], told[0]["trace_id"], told[0]["outcome"]) == ("rollout.ended", left, "cancelled")
        ends = [body["trace_id"] for body in told if body["type"] == "rollout.ended"]
        assert len(ends) == len({*ends}) == 2 * ROWS + 1


async def test_a_baseline_whose_commit_was_not_heard_of_is_written_again_and_is_there_once(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    async with bench.database.connection() as connection:
        lease = await take(connection, job_id, owner="a/1/x", ttl_s=60.0, slots=1)
    assert isinstance(lease, Lease)
    for model in ("acme/one", "acme/one", "acme/two"):
        async with bench.database.transaction() as connection:
            await RunRepository(connection, lease).add_baseline(baseline_figures(model, MeasuredModel()))
    assert [kept["model"] for kept in await figures(bench, job_id)] == ["acme/one", "acme/two"]
