"""Calls of a round that is done anew count no more: those of rollouts that had ended, and of those under way."""

import pytest

from rft.core.attempt import Attempt
from rft.core.events import AttemptsMade, RunStarted
from rft.core.failure import Stage
from rft.core.rollout import Split
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import began, logged, rollout_done, step_done

STARTED = RunStarted(resumed_from_step=None, total_steps=1, pid=1)


def call(trace_id: str, step: int) -> AttemptsMade:
    made = Attempt(
        trace_id=trace_id, stage=Stage.TOOL, endpoint="search", call_id="call_1", attempt=1, code=None, status=200,
        latency_s=0.1, queued_s=0.0, sent_bytes=1, received_bytes=1, at=1.7e9,
    )  # fmt: skip
    return AttemptsMade(step=step, attempts=(made,))


@pytest.mark.parametrize(("step", "split"), [(2, Split.TRAIN), (1, Split.TEST)])
async def test_of_rollouts_that_had_ended_or_not(bench: Workbench, step: int, split: Split) -> None:
    """Of a step, and of the last measurement, which has the number of a step that stays."""
    ingest = await leased(bench)
    job_id = ingest.lease.id
    ended, under_way = (rollout_done(job_id, step, index, split=split) for index in (4, 5))
    calls = (call(ended.trace_id, step), call(under_way.trace_id, step))
    events = [STARTED, step_done(0, 2), step_done(1, 2), began(ended), began(under_way), *calls, ended]
    await store(bench, ingest, logged([*events, STARTED.model_copy(update={"resumed_from_step": 1})]))
    assert await bench.all("select trace_id from attempts where job_id = %s", job_id) == []
