"""Every state a job can be in, and every move its customer can ask for: each pair has one answer, and never a 409."""

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from rft.core.failure import Stage
from rft.core.job import JobStatus
from rft.platform.api.errors import BadRequest
from rft.platform.jobs import service
from rft.platform.jobs.objects import to_job_object
from rft.platform.lifecycle.records import JobHold
from rft.platform.queue.messages import RUN_JOB, TaskMessage
from rft.platform.store.unit_of_work import unit_of_work
from tests.integration.worker.workbench import Workbench

HOLD = JobHold(endpoint="tool 'search'", stage=Stage.TOOL, reason="it is down", since=1_790_000_000.5, step=2)
ACTIONS = {"cancel": service.cancel_job, "pause": service.pause_job, "resume": service.resume_job}


@dataclass(frozen=True, slots=True)
class State:
    """One state, and what comes of each move: the new status (with `?` while the runner is asked), or a refusal."""

    status: str
    cancel: str
    pause: str
    resume: str
    is_held: bool = False
    is_cancel_requested: bool = False
    is_pause_requested: bool = False

    @property
    def has_runner(self) -> bool:
        return self.status == "running" or self.is_held


STATES = {
    "validating_files": State("validating_files", "cancelled", "!still having its files checked", "!only a paused job"),
    "queued": State("queued", "cancelled", "paused", "!only a paused job"),
    "queued, to be paused": State("queued", "cancelled", "queued", "!still being paused", is_pause_requested=True),
    "running": State("running", "cancelled", "running?", "!only a paused job"),
    "running, to be paused": State("running", "cancelled", "running?", "!still being paused", is_pause_requested=True),
    "running, to be cancelled": State(
        "running", "cancelled", "!is being cancelled", "!is being cancelled", is_cancel_requested=True
    ),
    "held": State("paused", "cancelled", "paused?", "!resumes by itself", is_held=True),
    "held, to be paused": State(
        "paused", "cancelled", "paused?", "!still being paused", is_held=True, is_pause_requested=True
    ),
    "held, to be cancelled": State(
        "paused", "cancelled", "!is being cancelled", "!is being cancelled", is_held=True, is_cancel_requested=True
    ),
    "paused": State("paused", "cancelled", "paused", "queued"),
    "succeeded": State("succeeded", "!is succeeded", "!is succeeded", "!is succeeded"),
    "failed": State("failed", "!is failed", "!is failed", "!is failed"),
    "cancelled": State("cancelled", "!is cancelled", "!is cancelled", "!is cancelled", is_cancel_requested=True),
}


def test_every_status_is_among_the_states() -> None:
    assert {state.status for state in STATES.values()} == set(JobStatus)


async def job_in(bench: Workbench, state: State) -> str:
    job_id = await bench.new_job()
    await bench.do(
        "update jobs set status = %s, hold = %s, is_cancel_requested = %s, is_pause_requested = %s, lease_owner = %s,"
        " lease_token = 1 where id = %s",
        state.status,
        Jsonb(HOLD.model_dump(mode="json")) if state.is_held else None,
        state.is_cancel_requested,
        state.is_pause_requested,
        "here/1/a" if state.has_runner else None,
        job_id,
    )
    return job_id


@pytest.mark.parametrize(("name", "action"), list(itertools.product(STATES, ACTIONS)))
async def test_every_move_in_every_state_has_an_answer(bench: Workbench, name: str, action: str) -> None:
    state = STATES[name]
    expected: str = getattr(state, action)
    job_id = await job_in(bench, state)
    before = await bench.job(job_id)
    if expected.startswith("!"):
        with pytest.raises(BadRequest, match=expected.removeprefix("!")) as refused:
            await move(bench, action, job_id)
        assert (refused.value.status, refused.value.code) == (400, "invalid_state")
        assert job_id in refused.value.message
        assert await bench.job(job_id) == before
        assert bench.enqueued == []
        return
    shown = await move(bench, action, job_id)
    after = await bench.job(job_id)
    assert shown["status"] == after["status"] == expected.removesuffix("?")
    if expected.endswith("?"):
        assert (after["is_pause_requested"], after["lease_owner"]) == (True, "here/1/a")
    else:
        assert after["lease_owner"] is None
    assert bench.enqueued == ([TaskMessage(RUN_JOB, job_id)] if action == "resume" else [])
    assert (shown["hold"] is not None) == (state.is_held and expected != "cancelled")
    if shown["hold"] is not None:
        assert shown["hold"] == HOLD.model_dump(mode="json") | {"since": 1_790_000_000}


async def move(bench: Workbench, action: str, job_id: str) -> dict[str, Any]:
    async with unit_of_work(bench.database, bench.enqueued.append) as uow:
        job = await ACTIONS[action](uow, job_id)
        return to_job_object(job, bench.settings).model_dump(mode="json")
