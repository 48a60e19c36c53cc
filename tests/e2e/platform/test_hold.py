"""An endpoint goes away in the middle of a run: the job waits, no seat is lost, and the same step goes on."""

from typing import Any

import pytest
from openai import OpenAI

from rft.core import run_layout
from tests.e2e.platform.customer import CustomerServer, events_of, launch, rows, steps_of, wait_for
from tests.integration.embedded.running_platform import RunningPlatform, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
# A single failure among eight is too many: the endpoint may go away when only one of them is still to be graded.
CHANGED_SETTINGS = {"RFT_HOLD_EXCLUDED_SHARE": "0.1", "RFT_HAS_ADAPTIVE_LIMITS": "true"}
STEPS = 4
BURST = 8


def test_a_job_is_held_while_its_endpoint_is_down_and_loses_nothing(
    client: OpenAI, server: CustomerServer, platform: RunningPlatform
) -> None:
    job = launch(
        client, server, train=rows(4), hyperparameters={"n_epochs": 2, "batch_size": 2, "compute_multiplier": 0.5}
    )
    events = platform.home / "runs" / job.id / run_layout.EVENTS
    until(lambda: events.exists() and events.read_bytes().count(b'"type":"step_done"') > 1, "the first step")
    server.is_down = True
    held: Any = wait_for(client, job.id, ("paused",))
    assert held.hold["endpoint"]
    assert held.hold["reason"]
    assert held.is_pause_requested is False
    server.is_down = False
    over = wait_for(client, job.id)
    assert over.status == "succeeded", over.error
    assert over.to_dict(warnings=False)["hold"] is None
    steps = steps_of(client, job.id)
    assert [step["step"] for step in steps] == list(range(STEPS + 1))
    # What failed meanwhile is counted as excluded, and made good for: every seat of every group has its grade.
    assert [step["train"]["graded"] for step in steps[1:]] == [BURST] * STEPS
    codes = [event.data.get("code") for event in events_of(client, job.id) if event.data]
    assert codes.index("held") < codes.index("hold_ended")
    endpoints: Any = client.get(f"/fine_tuning/jobs/{job.id}/endpoints", cast_to=object)
    assert sum(one["errors_by_code"].get("server_error", {"count": 0})["count"] for one in endpoints["data"]) > 0
    rollouts: Any = client.get(f"/fine_tuning/jobs/{job.id}/rollouts?step={STEPS}&limit=1", cast_to=object)
    trace_id = rollouts["data"][0]["id"]
    attempts: Any = client.get(f"/fine_tuning/jobs/{job.id}/rollouts/{trace_id}/attempts", cast_to=object)
    assert attempts["data"][-1]["code"] is None
    assert attempts["data"][-1]["stage"] == "grader"
