"""Another grader over stored rollouts: a real database, a real judge's socket, and the report."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest

from rft.core.events import RolloutDone, RunStarted, TrainEvent
from rft.core.failure import Stage as FailureStage
from rft.core.messages import Message, Role
from rft.core.rollout import Split
from rft.egress.endpoint import Endpoint
from rft.platform.api.key_repository import create_key
from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease
from rft.platform.regrades import running, service
from rft.platform.regrades.comparison import RegradeReport
from rft.platform.regrades.repository import REGRADES, RegradeRepository
from rft.platform.store.database import Database
from rft.platform.worker.grader_metrics import GraderLabel
from rft.platform.worker.ingest import Ingest
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.judge import ScriptedJudge
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.worker.workbench import Workbench
from tests.shared.opened_clients import opened_clients
from tests.shared.running_api import ReceivedMessages, Served
from tests.shared.train_events import logged, rollout_done, step_done
from tests.shared.waiting import until

STEPS = 2
SCORE = {
    "type": "score_model",
    "name": "short",
    "model": "judge-1",
    "input": [{"role": "user", "content": "Answer: {{ sample.output_text }} to row {{ item.n }}"}],
}


def shorter_is_better(body: Any) -> str:
    """Half a point for two characters, a third for three, and so on."""
    answer = re.search(r"Answer: (a+) to row \d", body["messages"][-1]["content"])
    assert answer is not None, "the template was rendered with sample and row"
    return json.dumps({"steps": [], "result": 1 / len(answer[1])})


@dataclass
class Scene:
    """A job with two steps of two groups of two, the API, and a judge."""

    job_id: str
    http: httpx.AsyncClient
    judge: ScriptedJudge
    bench: Workbench

    async def order(self, **order: Any) -> httpx.Response:
        return await self.http.post(f"/{self.job_id}/regrade", json={"grader": SCORE, **order})

    async def finished(self, **order: Any) -> dict[str, Any]:
        response = await self.order(**order)
        assert response.status_code == 200, response.text
        ordered = response.json()
        assert (ordered["object"], ordered["status"], ordered["report"]) == ("regrade", "queued", None)
        return await self.end_of(ordered["id"])

    async def end_of(self, id_: str) -> dict[str, Any]:
        ended: dict[str, Any] = {}

        async def is_over() -> bool:
            ended.update((await self.http.get(f"/{self.job_id}/regrade/{id_}")).json())
            return ended["status"] in ("succeeded", "failed")

        await until(is_over, "the regrade's end")
        return ended


def rollout(job_id: str, step: int, index: int) -> RolloutDone:
    """The longer the answer, the higher the reward."""
    messages = (
        Message(role=Role.USER, content="How much?"),
        Message(role=Role.ASSISTANT, content="a" * (index + 2)),
    )
    return rollout_done(job_id, step, index, split=Split.TRAIN).model_copy(update={"messages": messages})


async def store_run(bench: Workbench) -> str:
    job_id = await bench.queued_job()
    async with bench.database.connection() as connection:
        lease = await take(connection, job_id, owner="here/1/a", ttl_s=600, slots=1)
    assert isinstance(lease, Lease)
    events: list[TrainEvent] = [RunStarted(resumed_from_step=None, total_steps=STEPS, pid=1)]
    for step in range(1, STEPS + 1):
        events += [rollout(job_id, step, index) for index in range(4)]
        events.append(rollout_done(job_id, step, 4, failed=True))
        events.append(step_done(step, STEPS))
    ingest = Ingest(lease, (GraderLabel("judge", "endpoint"),), "ft:tiny:local:unit:x")
    async with bench.database.transaction() as connection:
        await ingest.batch(connection, logged(events))
    return job_id


@pytest.fixture
async def scene(bench: Workbench) -> AsyncIterator[Scene]:
    """Everything open."""
    job_id = await store_run(bench)
    async with await psycopg.AsyncConnection.connect(bench.database_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    judge = ScriptedJudge(shorter_is_better)
    async with AsyncExitStack() as stack:
        courtroom = await stack.enter_async_context(LoopbackEndpoint(judge))
        bench.changed_settings |= {
            "judge_base_url": f"{courtroom.base_url}/v1", "max_retries": 1, "retry_first_wait_s": 0.01,
            "retry_total_s": 3.0
        }  # fmt: skip
        port = stack.enter_context(Served(bench.settings, ReceivedMessages()))
        http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}/v1/fine_tuning/jobs",
            headers={"Authorization": f"Bearer {key}"},
            timeout=30,
        )
        yield Scene(job_id, await stack.enter_async_context(http), judge, bench)


async def test_the_report_tells_how_rewards_and_rankings_change(scene: Scene) -> None:
    before = await scene.bench.job(scene.job_id)

    ended = await scene.finished()

    assert ended["status"] == "succeeded", ended["error"]
    assert (ended["total"], ended["done"], ended["grader"]["name"]) == (8, 8, "short")
    report = ended["report"]
    assert (report["n"], report["failures"], report["groups"], report["groups_ranked"]) == (8, 0, 4, 4)
    assert report["reward_mean_before"] == pytest.approx(1.5 + 0.015)
    assert report["reward_mean_after"] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 4)
    assert (report["rank_correlation"], report["best_changed_share"]) == (-1.0, 1.0)
    first = report["rollouts"][0]
    assert first == {
        "trace_id": rollout(scene.job_id, STEPS, 0).trace_id, "before": 2.0, "after": 0.5, "failure_code": None
    }  # fmt: skip
    assert await scene.bench.job(scene.job_id) == before, "the job is not touched"


async def test_it_can_be_polled(scene: Scene) -> None:
    ended = await scene.finished()
    url = f"/{scene.job_id}/regrade/{ended['id']}"
    first = await scene.http.get(url)
    again = await scene.http.get(url, headers={"if-none-match": first.headers["etag"]})
    assert (first.json(), again.status_code, again.content) == (ended, 304, b"")


async def test_steps_and_limits_choose_whole_groups_from_the_newest(scene: Scene) -> None:
    one_step = await scene.finished(step=1)
    limited = await scene.finished(limit=3)

    assert one_step["report"]["n"] == 4
    assert [change["before"] for change in one_step["report"]["rollouts"]] == [1.0, 1.01, 1.02, 1.03]
    assert [change["before"] for change in limited["report"]["rollouts"]] == [2.0, 2.01]
    listed = (await scene.http.get(f"/{scene.job_id}/regrade", params={"limit": 1})).json()
    assert ([one["id"] for one in listed["data"]], listed["has_more"]) == ([limited["id"]], True)
    assert listed["data"][0]["report"] is None, "lists stay light"
    rest = (await scene.http.get(f"/{scene.job_id}/regrade", params={"after": limited["id"]})).json()
    assert ([one["id"] for one in rest["data"]], rest["has_more"]) == ([one_step["id"]], False)


async def test_a_registered_grader_is_named_by_its_id(scene: Scene) -> None:
    registry = scene.http.base_url.copy_with(path="/v1/graders")
    made = (await scene.http.post(registry, json={"grader": SCORE})).json()
    regrade = await scene.finished(grader={"id": made["id"]}, limit=4)
    assert (regrade["status"], regrade["grader"]) == ("succeeded", {**SCORE, "id": made["id"]})
    unknown = await scene.order(grader={"id": "grader_none"})
    assert (unknown.status_code, unknown.json()["error"]["param"]) == (400, "grader.id")


async def test_a_ruler_is_asked_once_per_group(scene: Scene) -> None:
    scene.judge.says('{"scores": [{"trajectory_id": "1", "score": 0.2}, {"trajectory_id": "2", "score": 0.8}]}')

    ended = await scene.finished(grader={"type": "ruler", "model": "judge-1"})

    report = ended["report"]
    assert (report["n"], report["rank_correlation"], report["best_changed_share"]) == (8, 1.0, 0.0)
    assert len(scene.judge.calls) == 4
    assert report["judge_usage"]["judge-1"]["prompt_tokens"] == 4 * 100


async def test_tokens_are_told_once_where_a_judge_gave_whole_groups_no_score(scene: Scene) -> None:
    scene.judge.says("I would rather not say.")

    ended = await scene.finished(grader={"type": "ruler", "model": "judge-1"})

    report = ended["report"]
    assert (report["failures"], len(scene.judge.calls)) == (8, 8), "each of four groups is asked about twice"
    assert report["judge_usage"]["judge-1"] == {
        "prompt_tokens": 8 * 100, "completion_tokens": 8 * 20, "cached_tokens": 0
    }  # fmt: skip


async def test_a_grader_without_scores_is_reported_and_no_zero_appears(scene: Scene) -> None:
    down = ScriptedEndpoint(faults=FaultSequence([None, Fault(FaultKind.STATUS, status=503)], last_stays=True))
    async with LoopbackEndpoint(down) as customer:
        grader = {"type": "endpoint", "url": customer.grader_url, "headers": {"X-Key": "secret-value"}}
        ended = await scene.finished(grader=grader)

    report = ended["report"]
    assert (report["n"], report["failures"], report["failures_by_code"]) == (8, 8, {"server_error": 8})
    assert (report["reward_mean_after"], report["rank_correlation"]) == (None, None)
    assert {change["after"] for change in report["rollouts"]} == {None}
    assert ended["grader"]["headers"] == {"X-Key": "**********"}
    rows = await scene.bench.all("select * from regrades")
    assert "secret-value" not in repr(rows)


async def test_a_grader_that_is_down_is_not_asked_about_every_rollout(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_BATCH", 4)
    down = ScriptedEndpoint(faults=FaultSequence([None, Fault(FaultKind.STATUS, status=503)], last_stays=True))
    async with LoopbackEndpoint(down) as customer:
        ended = await scene.finished(grader={"type": "endpoint", "url": customer.grader_url})
    assert (ended["status"], ended["error"]["code"], ended["error"]["param"]) == ("failed", "grader_failed", "grader")
    assert ended["error"]["message"] == (
        "None of the first 4 rollouts got a score (server_error: 4); the others were not tried."
    )
    asked = {trace_id for call in down.calls if call.body and (trace_id := json.loads(call.body).get("trace_id"))}
    assert asked <= {rollout(scene.job_id, STEPS, index).trace_id for index in range(4)}


async def test_rows_that_do_not_fit_the_grader_say_nothing_of_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_BATCH", 4)
    ended = await scene.finished(grader={**SCORE, "input": [{"role": "user", "content": "{{ item.of_other_rows }}"}]})
    assert ended["status"] == "succeeded"
    assert ended["report"]["failures_by_code"] == {"invalid_variable": 8}


@pytest.mark.parametrize("status", [None, 503])
async def test_a_judge_is_not_asked_on_and_on_beside_a_part_that_no_row_fits(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, status: int | None
) -> None:
    monkeypatch.setattr(running, "_BATCH", 4)
    if status is not None:
        scene.judge.faults = FaultSequence([Fault(FaultKind.STATUS, status=status)], last_stays=True)
    typo = {"type": "string_check", "name": "typo", "input": "{{ item.anwser }}", "reference": "a", "operation": "eq"}
    graders = {"typo": typo, "short": SCORE}
    ended = await scene.finished(
        grader={"type": "multi", "name": "both", "graders": graders, "calculate_output": "typo + short"}
    )
    assert ended["status"] == "failed"
    assert ended["error"]["message"].startswith("None of the first 4 rollouts got a score (invalid_variable: 4)")


async def test_a_job_that_is_deleted_while_its_order_is_checked_is_not_found(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete_meanwhile(*_: object) -> None:
        await scene.bench.do("delete from jobs where id = %s", scene.job_id)

    monkeypatch.setattr(service, "refuse_unreachable", delete_meanwhile)
    assert (await scene.order()).status_code == 404


async def test_each_of_two_regrades_has_half_of_an_endpoints_caps(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has limiters of its own: together they keep to what the endpoint was promised."""
    opened = opened_clients(monkeypatch)
    assert (await scene.finished())["status"] == "succeeded"
    endpoint = Endpoint(
        name="x", stage=FailureStage.GRADER, url="http://127.0.0.1:9/x", max_concurrency=8, rate_limit=1.0
    )
    assert [client.limits.limiter(endpoint).load().rate_limit for client in opened] == [0.5]
    assert [client.limits.limiter(endpoint).load().limit for client in opened] == [4]


async def test_a_job_whose_file_is_gone_cannot_be_regraded(scene: Scene) -> None:
    await scene.bench.do("delete from files")

    ended = await scene.finished()

    assert (ended["status"], ended["error"]["code"]) == ("failed", "file_not_found")
    assert ended["error"]["param"] == "training_file"


async def test_nothing_to_grade_is_said(scene: Scene) -> None:
    ended = await scene.finished(split="valid")

    assert (ended["status"], ended["error"]["code"], ended["report"]) == ("failed", "no_rollouts", None)


@pytest.mark.parametrize(
    ("order", "param"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 100_000}, "limit"),
        ({"steps": []}, "steps"),
        ({"step": 1, "steps": [2]}, None),
        ({"split": "sideways"}, "split"),
        ({"grader": {"type": "oracle"}}, "grader.type"),
        ({"grader": {"type": "endpoint", "url": "http://no-such-host.invalid/"}}, "grader.url"),
    ],
)
async def test_bad_orders_are_refused_with_their_parameter(
    scene: Scene, order: dict[str, Any], param: str | None
) -> None:
    response = await scene.order(**order)

    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


async def test_what_does_not_exist_is_not_found(scene: Scene) -> None:
    assert (await scene.http.post("/ftjob-none/regrade", json={"grader": SCORE})).status_code == 404
    assert (await scene.http.get(f"/{scene.job_id}/regrade/regrade-none")).status_code == 404
    assert (await scene.http.get("/ftjob-none/regrade")).status_code == 404
    assert (await scene.http.get(f"/{scene.job_id}/regrade", params={"after": "x"})).status_code == 400


def fail_uses(monkeypatch: pytest.MonkeyPatch, fails: Callable[[int], bool]) -> list[int]:
    """Regrades' uses of the database, counted from one, of which some find it away."""
    uses, real = list[int](), Database.transaction

    @asynccontextmanager
    async def transaction(database: Database) -> AsyncGenerator[Any]:
        task = asyncio.current_task()
        if task is not None and task.get_name().startswith("regrade-"):
            uses.append(len(uses) + 1)
            if fails(uses[-1]):
                raise psycopg.OperationalError("the server closed the connection unexpectedly")
        async with real(database) as connection:
            yield connection

    monkeypatch.setattr(Database, "transaction", transaction)
    return uses


async def test_a_database_that_is_away_for_a_moment_costs_no_regrade(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_RETRY_S", 0.0)
    uses = fail_uses(monkeypatch, lambda use: use % 3 > 0)
    ended = await scene.finished()
    assert (ended["status"], ended["error"], ended["report"]["n"]) == ("succeeded", None, 8)
    assert len(uses) == 3 * 6, "rollouts, rows, secrets, records, progress and the report, each at the third attempt"


async def test_a_database_that_is_away_for_too_long_is_named(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_DATABASE_AWAY_S", 0.0)
    fail_uses(monkeypatch, lambda use: use == 4)
    ended = await scene.finished()
    assert (ended["status"], ended["error"]["code"]) == ("failed", "internal_error")
    assert "database was away" in ended["error"]["message"]


async def test_one_whose_process_died_is_failed_at_the_next_look(scene: Scene) -> None:
    scene.judge.faults = FaultSequence([Fault(FaultKind.HANG)], last_stays=True)
    id_ = (await scene.order()).json()["id"]
    await until(lambda: bool(scene.judge.calls), "the judge is asked")
    await scene.bench.do("update regrades set lease_until = now() - interval '9 minutes'")

    ended = await scene.end_of(id_)

    assert (ended["status"], ended["error"]["code"]) == ("failed", "interrupted")


async def test_stopping_the_platform_ends_what_is_under_way(bench: Workbench, scene: Scene) -> None:
    scene.judge.faults = FaultSequence([Fault(FaultKind.HANG)], last_stays=True)
    async with await psycopg.AsyncConnection.connect(bench.database_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    with Served(bench.settings, ReceivedMessages()) as port:
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30) as http:
            url = f"http://127.0.0.1:{port}/v1/fine_tuning/jobs/{scene.job_id}/regrade"
            id_ = (await http.post(url, json={"grader": SCORE})).json()["id"]
            await until(lambda: bool(scene.judge.calls), "the judge is asked")

    ended = await scene.end_of(id_)

    assert (ended["status"], ended["error"]["code"]) == ("failed", "interrupted")


async def test_an_error_that_cannot_be_stored_as_it_is_loses_no_report(scene: Scene) -> None:
    """Misfits of a response_format quote the answer, and an answer may hold anything."""
    done = await scene.finished()
    report = RegradeReport.model_validate(done["report"]).model_copy(update={"error_samples": ("a\x00b",)})
    async with scene.bench.database.transaction() as connection:
        cursor = await connection.execute("select lease_token from regrades where id = %s", (done["id"],))
        (token,) = await cursor.fetchone() or (None,)
        assert token is not None
        await RegradeRepository(connection).succeed(Lease(REGRADES, done["id"], token, "here/1/a"), report)
    assert (await scene.end_of(done["id"]))["report"]["error_samples"] == ["a\ufffdb"]
