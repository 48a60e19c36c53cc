"""An endpoint goes away in the middle of a run: the job waits, no slot is lost, and the same step goes on."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from rft.run_directory import layout
from tests.e2e.platform.customer import TERMINAL, CustomerServer, events_of, launch, rows, steps_of, wait_for
from tests.shared.free_port import free_port
from tests.shared.running_platform import RunningPlatform, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
# A single failure among eight is too many: the endpoint may go away when only one of them is still to be graded.
CHANGED_SETTINGS = {"RFT_HOLD_EXCLUDED_SHARE": "0.1", "RFT_HAS_ADAPTIVE_LIMITS": "true"}
STEPS = 4
BURST = 8


def test_a_wrong_url_and_an_expired_token_are_corrected_while_the_job_is_held(
    client: OpenAI, server: CustomerServer, platform: RunningPlatform
) -> None:
    """Nothing is trained on what came of either, and the job goes on at the step where it was held."""
    server.tool_key = "old"
    tool = {"name": "search", "server_url": f"{server.url}/tol", "headers": {"X-Key": "old"}}
    job = launch(
        client, server, train=rows(4), tools=[tool],
        hyperparameters={"n_epochs": 2, "batch_size": 2, "compute_multiplier": 0.5},
    )  # fmt: skip
    held: Any = wait_for(client, job.id, ("paused",))
    assert (held.hold["endpoint"], held.hold["step"]) == ("tool 'search'", 1)
    assert f"{server.url}/tol answered 404 Not Found" in held.hold["reason"]
    assert [step["step"] for step in steps_of(client, job.id)] == [0]
    server.before_call = after_the_first_step(platform, job.id, lambda: setattr(server, "tool_key", "new"))
    change(client, job.id, {"server_url": f"{server.url}/tool"})
    expired = f"{server.url}/tool answered 401 Unauthorized"
    until(lambda: expired in hold_reason(client, job.id), "the hold for the expired token")
    change(client, job.id, {"headers": {"X-Key": "new"}})
    over = wait_for(client, job.id)
    assert over.status == "succeeded", over.error
    steps = steps_of(client, job.id)
    assert [step["train"]["graded"] for step in steps[1:]] == [BURST] * STEPS
    assert all(one["client_errors_by_status"] == {} for step in steps[1:] for one in step["train"]["tools"])
    assert server.turned_away
    assert not server.turned_away & server.graded.keys()
    codes = [event.data.get("code") for event in events_of(client, job.id) if event.data]
    assert [code for code in codes if code in ("held", "endpoints_changed")] == ["held", "endpoints_changed"] * 2, (
        "\n".join(f"{event.created_at} {event.message}" for event in events_of(client, job.id))
    )


def test_a_job_is_held_until_its_tool_is_up_and_while_its_endpoints_are_down_and_loses_nothing(
    client: OpenAI, server: CustomerServer, platform: RunningPlatform
) -> None:
    """Its order is accepted with a warning. Only the tool ever sees the secret of its URL."""
    port, secret = free_port(), "s3cr3t-of-a-query"
    tool = {"name": "search", "server_url": f"http://127.0.0.1:{port}/tool?v=2&key={secret}"}
    job = launch(
        client, server, train=rows(4), tools=[tool],
        hyperparameters={"n_epochs": 2, "batch_size": 2, "compute_multiplier": 0.5},
    )  # fmt: skip
    warning = next(event for event in events_of(client, job.id) if (event.data or {}).get("code"))
    assert (warning.level, warning.data["code"]) == ("warn", "endpoint_unreachable")
    assert warning.data["params"] == ["method.reinforcement.tools[0].server_url"]
    held: Any = wait_for(client, job.id, ("paused",))
    assert (held.hold["endpoint"], held.hold["step"], held.is_pause_requested) == ("tool 'search'", 1, False)
    assert [step["step"] for step in steps_of(client, job.id)] == [0]

    late = CustomerServer(port)
    try:
        server.before_call = after_the_first_step(platform, job.id, lambda: are_down(True, server, late))
        until(lambda: "answered 500" in hold_reason(client, job.id), "the hold for what is out of order")
        held_again: Any = wait_for(client, job.id, ("paused",))
        assert held_again.hold["endpoint"]
        assert held_again.is_pause_requested is False
        are_down(False, server, late)
        over = wait_for(client, job.id)
    finally:
        late.close()
    assert over.status == "succeeded", over.error
    assert over.to_dict(warnings=False)["hold"] is None
    steps = steps_of(client, job.id)
    assert [step["step"] for step in steps] == list(range(STEPS + 1))
    # What failed meanwhile is counted as excluded, and made good for: every slot of every group has its grade.
    assert [step["train"]["graded"] for step in steps[1:]] == [BURST] * STEPS
    events = events_of(client, job.id)
    codes = [event.data.get("code") for event in events if event.data]
    assert [code for code in codes if code in ("endpoint_unreachable", "held", "hold_ended")] == [
        "endpoint_unreachable", *("held", "hold_ended") * 2,
    ]  # fmt: skip
    endpoints: Any = client.get(f"/fine_tuning/jobs/{job.id}/endpoints", cast_to=object)
    assert sum(one["errors_by_code"].get("server_error", {"count": 0})["count"] for one in endpoints["data"]) > 0
    rollouts: Any = client.get(f"/fine_tuning/jobs/{job.id}/rollouts?step={STEPS}&limit=1", cast_to=object)
    trace_id = rollouts["data"][0]["id"]
    attempts: Any = client.get(f"/fine_tuning/jobs/{job.id}/rollouts/{trace_id}/attempts", cast_to=object)
    assert attempts["data"][-1]["code"] is None
    assert attempts["data"][-1]["stage"] == "grader"
    assert late.calls
    assert set(late.queries) == {f"v=2&key={secret}"}
    told = [str(one.to_dict(warnings=False)) for one in (over, held, held_again, *events)]
    told += [str(endpoints), str(attempts)]
    for path in ("rollouts?limit=100", "steps?limit=100"):
        told.append(str(client.get(f"/fine_tuning/jobs/{job.id}/{path}", cast_to=object)))
    assert [text for text in (*told, platform.said()) if secret in text] == []
    assert "tool?v=**********&key=**********" in told[0]
    assert files_with(platform.home, secret) == []
    assert files_with(platform.home, job.id), "what is asked of the files can be found in them"


def are_down(is_down: bool, *servers: CustomerServer) -> None:
    """All of them from now on."""
    for server in servers:
        server.is_down = is_down


def files_with(folder: Path, text: str) -> list[str]:
    """Those below it that hold the text: logs, run directories, what the database keeps there."""
    found: list[str] = []
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            with suppress(FileNotFoundError):  # The platform replaces files, and the database renames its own.
                if path.is_file() and text.encode() in path.read_bytes():
                    found.append(str(path))
    return found


def after_the_first_step(platform: RunningPlatform, job_id: str, happens: Callable[[], None]) -> Callable[[str], None]:
    """For `before_call`: at the first call of the second step it happens, once. No test would be that quick."""
    events, lock = platform.home / "runs" / job_id / layout.EVENTS, threading.Lock()
    is_due = iter([True])

    def look(path: str) -> None:
        del path
        with lock:
            if events.read_bytes().count(b'"type":"step_done"') > 1 and next(is_due, False):
                happens()

    return look


def hold_reason(client: OpenAI, job_id: str) -> str:
    """Empty where the job is not held."""
    job: Any = client.fine_tuning.jobs.retrieve(job_id)
    assert job.status not in TERMINAL, job.error
    return (job.to_dict(warnings=False)["hold"] or {"reason": ""})["reason"]


def change(client: OpenAI, job_id: str, tool: dict[str, Any]) -> None:
    """Post what is new of the tool."""
    made: Any = client.post(f"/fine_tuning/jobs/{job_id}/endpoints", body={"tools": {"search": tool}}, cast_to=object)
    assert made["method"]["reinforcement"]["tools"][0]["headers"] == {"X-Key": "**********"}
