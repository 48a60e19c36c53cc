"""`/v1/rehearsals`: the very order of a job, checked like one; one rehearsal runs at a time, under a lease."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from rft.platform.lifecycle import heartbeat
from rft.platform.lifecycle.expired_leases import ExpiredLeases
from rft.platform.lifecycle.lease import renew
from rft.platform.queue.messages import REHEARSE, TaskMessage
from rft.platform.rehearsals.reconciling import reconcile_rehearsals
from rft.platform.rehearsals.repository import RehearsalRepository
from rft.platform.store.database import Database
from rft.platform.worker.run_rehearsal import run_rehearsal
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.rehearsals.stage import Customer, Platform, upload_bytes
from tests.integration.worker.workbench import AT_ONCE
from tests.shared.waiting import PATIENCE_S


async def create(platform: Platform, order: dict[str, Any]) -> dict[str, Any]:
    reply = await platform.http.post("/rehearsals", json=order)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def shown(platform: Platform, rehearsal_id: str) -> dict[str, Any]:
    reply = await platform.http.get(f"/rehearsals/{rehearsal_id}")
    assert reply.status_code == 200, reply.text
    return reply.json()


async def stored(platform: Platform, rehearsal_id: str) -> str:
    async with platform.database.transaction() as connection:
        cursor = await connection.execute("select rehearsals::text from rehearsals where id = %s", (rehearsal_id,))
        row = await cursor.fetchone()
    assert row is not None
    return str(row[0])


async def test_a_new_rehearsal_says_what_will_be_played(platform: Platform, order: dict[str, Any]) -> None:
    made = await create(platform, order)
    assert made["id"].startswith("rehearsal-")
    assert (made["object"], made["status"], made["report"], made["error"]) == ("rehearsal", "queued", None, None)
    assert made["plan"] == {
        "rows_per_step": 4,
        "group_size": 4,
        "burst": 16,
        "rollouts": 16,
        "calls_per_rollout": 3,
        "think_time_s": 0.1,
        "max_s": 60.0,
    }
    assert platform.messages.received == [TaskMessage(REHEARSE, made["id"])]


async def test_it_can_be_polled(platform: Platform, order: dict[str, Any]) -> None:
    made = await create(platform, order)
    url = f"/rehearsals/{made['id']}"
    known = {"if-none-match": (await platform.http.get(url)).headers["etag"]}
    assert (await platform.http.get(url, headers=known)).status_code == 304
    await platform.http.post(f"{url}/cancel")
    cancelled = await platform.http.get(url, headers=known)
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")


async def test_hyperparameters_in_their_old_place_make_the_burst(platform: Platform, order: dict[str, Any]) -> None:
    ordered = order["method"]["reinforcement"].pop("hyperparameters")
    made = await create(platform, {**order, "hyperparameters": ordered})
    assert (made["plan"]["rows_per_step"], made["plan"]["group_size"], made["plan"]["burst"]) == (4, 4, 16)


async def test_a_worker_plays_it_and_the_report_is_shown(
    platform: Platform, order: dict[str, Any], customer: LoopbackEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rft.rollouts.rehearsal_advice._SLOW_MS", 1e9)  # However slow this machine is.
    made = await create(platform, order)
    assert await run_rehearsal(made["id"], platform.context) == "completed"
    done = await shown(platform, made["id"])
    assert (done["status"], done["error"]) == ("completed", None)
    report = done["report"]
    assert (report["rollouts"], report["excluded_rollouts"]) == (16, 0)
    assert {endpoint["name"]: endpoint["calls"] for endpoint in report["endpoints"]} == {"search": 48, "judge": 16}
    assert report["advice"][0].startswith("Ready")
    calls = [call for call in customer.endpoint.calls if call.body]
    assert {call.headers["x-key"] for call in calls} == {"tool-secret", "grader-secret"}
    assert all("webhook-signature" in call.headers for call in calls)


async def test_header_values_are_never_shown_nor_stored_in_the_clear_and_forgotten_after(
    platform: Platform, order: dict[str, Any]
) -> None:
    made = await create(platform, order)
    assert made["method"]["reinforcement"]["tools"][0]["headers"] == {"X-Key": "**********"}
    assert "tool-secret" not in await stored(platform, made["id"])
    await run_rehearsal(made["id"], platform.context)
    async with platform.database.transaction() as connection:
        row = await RehearsalRepository(connection).get(made["id"])
    assert row is not None
    assert row.secrets is None


async def test_the_burst_is_bounded_by_the_order_and_by_the_platform(platform: Platform, order: dict[str, Any]) -> None:
    made = await create(platform, {**order, "max_rollouts": 5, "calls_per_rollout": 1})
    assert (made["plan"]["burst"], made["plan"]["rollouts"], made["plan"]["calls_per_rollout"]) == (16, 5, 1)
    large = deepcopy(order)
    large["method"]["reinforcement"]["hyperparameters"] = {"batch_size": 6, "compute_multiplier": 2.0}
    large["method"]["reinforcement"]["max_episode_steps"] = 2
    bounded = await create(platform, {**large, "max_rollouts": 10_000})
    assert (bounded["plan"]["burst"], bounded["plan"]["rollouts"]) == (96, 40)
    assert bounded["plan"]["calls_per_rollout"] == 2


async def test_a_model_need_not_be_named(platform: Platform, order: dict[str, Any]) -> None:
    del order["model"]
    assert (await create(platform, order))["model"] == "rehearsal"


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"training_file": "file-none"}, "training_file", "file_not_found"),
        ({"training_file": None}, "training_file", "invalid_value"),
        ({"calls_per_rollout": -1}, "calls_per_rollout", "invalid_value"),
        ({"calls_per_rollout": 51}, "calls_per_rollout", "invalid_value"),
        ({"calls_per_rollout": "3"}, "calls_per_rollout", "invalid_value"),
        ({"max_rollouts": 0}, "max_rollouts", "invalid_value"),
        ({"seed": -1}, "seed", "invalid_value"),
        ({"method": {"type": "supervised"}}, "method.type", "invalid_value"),
        ({"method": {"type": "reinforcement"}}, "method.reinforcement", "missing_required_parameter"),
    ],
)
async def test_bad_orders_are_refused_by_name(
    platform: Platform, order: dict[str, Any], change: dict[str, Any], param: str, code: str
) -> None:
    reply = await platform.http.post("/rehearsals", json={**order, **change})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param
    assert reply.json()["error"]["code"] in (code, "unsupported_method")
    assert platform.messages.received == []


async def test_unreachable_endpoints_are_refused_by_name(platform: Platform, order: dict[str, Any]) -> None:
    order["method"]["reinforcement"]["tools"][0]["server_url"] = "http://10.1.2.3/tool"
    reply = await platform.http.post("/rehearsals", json=order)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "method.reinforcement.tools[0].server_url"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"messages": []}\n', "line 1 at messages"),
        (b'\n{"messages": [{"role": "user", "content": "?"}], "tools": 3}\n', "line 2 at tools"),
    ],
)
async def test_rows_that_cannot_be_used_are_refused(
    platform: Platform, order: dict[str, Any], content: bytes, message: str
) -> None:
    reply = await platform.http.post(
        "/rehearsals", json={**order, "training_file": await upload_bytes(platform.http, content)}
    )
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "training_file"
    assert message in reply.json()["error"]["message"]


async def test_rows_that_describe_a_tool_the_job_does_not_have_are_refused(
    platform: Platform, order: dict[str, Any]
) -> None:
    row = {"messages": [{"role": "user", "content": "?"}], "tools": [{"name": name} for name in ("search", "browse")]}
    rows = await upload_bytes(platform.http, json.dumps(row).encode() + b"\n")
    reply = await platform.http.post("/rehearsals", json={**order, "training_file": rows})
    assert reply.status_code == 400
    assert "'browse' is not among the job's tools (search)" in reply.json()["error"]["message"]


async def test_unknown_rehearsals_and_strangers_are_turned_away(platform: Platform) -> None:
    reply = await platform.http.get("/rehearsals/rehearsal-none")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "rehearsal_not_found")
    stranger = await platform.http.get("/rehearsals", headers={"Authorization": "Bearer rft_x_y"})
    assert stranger.status_code == 401


async def test_rehearsals_are_listed_newest_first_in_pages(platform: Platform, order: dict[str, Any]) -> None:
    made = [(await create(platform, order))["id"] for _ in range(3)]
    first = (await platform.http.get("/rehearsals", params={"limit": 2})).json()
    assert [entry["id"] for entry in first["data"]] == [made[2], made[1]]
    assert first["has_more"] is True
    second = (await platform.http.get("/rehearsals", params={"after": first["last_id"]})).json()
    assert [entry["id"] for entry in second["data"]] == [made[0]]
    lost = await platform.http.get("/rehearsals", params={"after": "rehearsal-none"})
    assert (lost.status_code, lost.json()["error"]["param"]) == (400, "after")


async def test_one_runs_at_a_time_and_rings_for_the_next(platform: Platform, order: dict[str, Any]) -> None:
    first, second = (await create(platform, order))["id"], (await create(platform, order))["id"]
    async with platform.database.transaction() as connection:
        taken = await RehearsalRepository(connection).take(first, owner="host/1/m-1", ttl_s=60.0)
    assert taken is not None
    assert await run_rehearsal(second, platform.context) == "not to be run now"
    async with platform.database.transaction() as connection:
        await connection.execute("update rehearsals set status = 'queued' where id = %s", (first,))
    platform.messages.received.clear()
    assert await run_rehearsal(first, platform.context) == "completed"
    assert platform.messages.received == [TaskMessage(REHEARSE, second)]
    assert await run_rehearsal(first, platform.context) == "not to be run now"


async def test_a_rehearsal_whose_worker_is_gone_has_failed(platform: Platform, order: dict[str, Any]) -> None:
    made = (await create(platform, order))["id"]
    async with platform.database.transaction() as connection:
        await RehearsalRepository(connection).take(made, owner="elsewhere/1/m-1", ttl_s=-1.0)
        assert await reconcile_rehearsals(connection, AT_ONCE, unheard_s=60.0) == []
    lost = await shown(platform, made)
    assert (lost["status"], lost["error"]["code"]) == ("failed", "interrupted")


async def test_a_rehearsal_goes_on_when_the_clock_of_the_database_jumps(
    platform: Platform, order: dict[str, Any]
) -> None:
    made, leases = (await create(platform, order))["id"], ExpiredLeases(patience_s=3600.0)
    async with platform.database.transaction() as connection:
        taken = await RehearsalRepository(connection).take(made, owner="elsewhere/1/m-1", ttl_s=-3600.0)
        assert taken is not None
        for _ in range(2):
            await reconcile_rehearsals(connection, leases, unheard_s=60.0)
        await renew(connection, taken[1], ttl_s=60.0)
    assert (await shown(platform, made))["status"] == "running"


async def test_a_message_that_was_not_answered_is_sent_again(platform: Platform, order: dict[str, Any]) -> None:
    first = (await create(platform, order))["id"]
    await create(platform, order)
    async with platform.database.transaction() as connection:
        assert await reconcile_rehearsals(connection, AT_ONCE, unheard_s=3600.0) == []
        assert await reconcile_rehearsals(connection, AT_ONCE, unheard_s=0.0) == [TaskMessage(REHEARSE, first)]


async def create_slow(platform: Platform, order: dict[str, Any], tool_url: str) -> str:
    """With a tool that is too slow for the check of new orders."""
    made = (await create(platform, order))["id"]
    async with platform.database.transaction() as connection:
        await connection.execute(
            "update rehearsals set method = jsonb_set(method, '{reinforcement,tools,0,server_url}', to_jsonb(%s::text))"
            " where id = %s",
            (tool_url, made),
        )
    return made


async def test_a_worker_that_shuts_down_breaks_off_and_says_so(platform: Platform, order: dict[str, Any]) -> None:
    endpoint = Customer(latency_s=5.0)
    async with LoopbackEndpoint(endpoint) as slow:
        made = await create_slow(platform, order, slow.tool_url)
        stopping = False
        work = asyncio.create_task(run_rehearsal(made, replace(platform.context, is_stopping=lambda: stopping)))
        await endpoint.until(_has_calls)
        stopping = True
        assert await work == "failed: interrupted"
    assert (await shown(platform, made))["error"]["code"] == "interrupted"


async def cancel(platform: Platform, rehearsal_id: str) -> dict[str, Any]:
    reply = await platform.http.post(f"/rehearsals/{rehearsal_id}/cancel")
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_a_database_that_is_away_for_a_moment_costs_no_rehearsal(
    platform: Platform, order: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(Database):
        uses = 0

        @asynccontextmanager
        async def transaction(self) -> AsyncGenerator[Any]:
            self.uses += 1
            if self.uses % 3 != 1:  # Each use but the first, which takes the lease, succeeds at its third attempt.
                raise psycopg.OperationalError("the server closed the connection unexpectedly")
            async with super().transaction() as connection:
                yield connection

    monkeypatch.setattr(heartbeat, "_RETRY_S", 0.0)
    made = (await create(platform, order))["id"]
    async with Away(platform.database.url) as database:
        assert await run_rehearsal(made, replace(platform.context, database=database)) == "completed"
        assert database.uses == 1 + 2 * 3
    assert (await shown(platform, made))["report"] is not None


async def test_a_rehearsal_that_waits_is_cancelled_at_once(platform: Platform, order: dict[str, Any]) -> None:
    made = (await create(platform, order))["id"]
    cancelled = await cancel(platform, made)
    assert (cancelled["status"], cancelled["is_cancel_requested"]) == ("cancelled", True)
    assert cancelled["finished_at"] is not None
    assert await run_rehearsal(made, platform.context) == "not to be run now"
    assert "tool-secret" not in await stored(platform, made)
    async with platform.database.transaction() as connection:
        row = await RehearsalRepository(connection).get(made)
    assert row is not None
    assert row.secrets is None


async def test_a_rehearsal_that_is_played_is_broken_off_and_rings_for_the_next(
    platform: Platform, order: dict[str, Any]
) -> None:
    endpoint = Customer(latency_s=5.0)
    async with LoopbackEndpoint(endpoint) as slow:
        made = await create_slow(platform, order, slow.tool_url)
        following = (await create(platform, order))["id"]
        work = asyncio.create_task(run_rehearsal(made, platform.context))
        await endpoint.until(_has_calls)
        platform.messages.received.clear()
        asked = await cancel(platform, made)
        assert (asked["status"], asked["is_cancel_requested"]) == ("running", True)
        assert await asyncio.wait_for(work, PATIENCE_S) == "cancelled"
    done = await shown(platform, made)
    assert (done["status"], done["report"], done["error"]) == ("cancelled", None, None)
    assert platform.messages.received == [TaskMessage(REHEARSE, following)]


async def test_a_cancelled_rehearsal_whose_worker_is_gone_has_not_failed(
    platform: Platform, order: dict[str, Any]
) -> None:
    made = (await create(platform, order))["id"]
    async with platform.database.transaction() as connection:
        await RehearsalRepository(connection).take(made, owner="elsewhere/1/m-1", ttl_s=-1.0)
    await cancel(platform, made)
    async with platform.database.transaction() as connection:
        await reconcile_rehearsals(connection, AT_ONCE, unheard_s=60.0)
    lost = await shown(platform, made)
    assert (lost["status"], lost["error"]) == ("cancelled", None)


async def test_what_is_over_cannot_be_cancelled(platform: Platform, order: dict[str, Any]) -> None:
    made = (await create(platform, order))["id"]
    await cancel(platform, made)
    again = await platform.http.post(f"/rehearsals/{made}/cancel")
    assert (again.status_code, again.json()["error"]["code"]) == (400, "invalid_state")
    assert "is cancelled and can no longer be cancelled" in again.json()["error"]["message"]
    nobody = await platform.http.post("/rehearsals/rehearsal-none/cancel")
    assert (nobody.status_code, nobody.json()["error"]["code"]) == (404, "rehearsal_not_found")


def _has_calls(endpoint: ScriptedEndpoint) -> bool:
    return len(endpoint.calls) >= 16


async def test_registered_tools_are_rehearsed_by_their_id(
    platform: Platform, order: dict[str, Any], customer: LoopbackEndpoint
) -> None:
    tool = order["method"]["reinforcement"]["tools"][0]
    registered = await platform.http.post("/tools", json=tool)
    assert registered.status_code == 200, registered.text
    order["method"]["reinforcement"]["tools"] = [{"id": registered.json()["id"]}]
    made = await create(platform, order)
    assert await run_rehearsal(made["id"], platform.context) == "completed"
    calls = [call for call in customer.endpoint.calls if call.path == "/tool" and "webhook-id" in call.headers]
    assert len(calls) == 48
    assert {call.headers["x-key"] for call in calls} == {"tool-secret"}


async def test_a_grader_that_runs_in_the_platform_is_left_out(platform: Platform, order: dict[str, Any]) -> None:
    order["method"]["reinforcement"]["grader"] = {
        "type": "string_check",
        "name": "exact",
        "input": "{{sample.output_text}}",
        "reference": "{{item.answer}}",
        "operation": "eq",
    }
    made = await create(platform, order)
    assert await run_rehearsal(made["id"], platform.context) == "completed"
    report = (await shown(platform, made["id"]))["report"]
    assert [endpoint["name"] for endpoint in report["endpoints"]] == ["search"]
    assert any("'exact' (string_check) was not called" in sentence for sentence in report["assumptions"])
