"""What was measured where nothing is chosen: stored once, done anew by a new trainer, and told when the job is over."""

from typing import Any

import pytest

from rft.core.events import RunEnded, RunStarted, TrainEvent
from rft.core.rollout import Split
from rft.platform.worker.ingest import Ingest
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import began, logged, measurement, rewarded, rollout_done, step_done

STARTED = RunStarted(resumed_from_step=None, total_steps=1, pid=1)
SUCCEEDED = RunEnded(outcome="succeeded", best_step=1)


def baseline(job_id: str, *rewards: float) -> list[TrainEvent]:
    rollouts = [
        rewarded(rollout_done(job_id, 0, 2 * row, split=Split.VALID), reward) for row, reward in enumerate(rewards)
    ]
    return [*rollouts, step_done(0, 1)]


async def final(bench: Workbench, ingest: Ingest) -> Any:
    return (await bench.job(ingest.lease.id))["final_figures"]


async def told(bench: Workbench, ingest: Ingest) -> list[tuple[str, str]]:
    events = await bench.all(
        "select level, data from job_events where job_id = %s and data->>'code' in ('final_figures', 'no_improvement')",
        ingest.lease.id,
    )
    return [(event["level"], event["data"]["code"]) for event in events]


async def test_the_best_checkpoint_is_held_against_the_untrained_policy_row_by_row(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    events = [STARTED, *baseline(job_id, *[0.0] * 20), step_done(1, 1), *measurement(job_id, 1, *[1.0] * 19, 0.0)]
    await store(bench, ingest, logged([*events, SUCCEEDED]))
    figures = await final(bench, ingest)
    assert (figures["rows"], figures["step"], figures["selected_at"]) == ("validation", 1, pytest.approx(0.61))
    assert (figures["reward"]["mean"], figures["untrained"]["mean"]) == (0.95, 0.0)
    assert (figures["gain"]["better"], figures["gain"]["same"]) == (19, 1)
    assert await told(bench, ingest) == [("info", "final_figures")]


async def test_a_test_file_stands_for_both_policies(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    await bench.do("update jobs set test_file = training_file where id = %s", job_id)
    before = [*baseline(job_id, 0.0, 0.0)[:-1], *measurement(job_id, 0, 1.0, 1.0, 1.0), step_done(0, 1)]
    events = [STARTED, *before, step_done(1, 1), *measurement(job_id, 1, 1.0, 1.0, 0.5)]
    await store(bench, ingest, logged([*events, SUCCEEDED]))
    figures = await final(bench, ingest)
    assert (figures["rows"], figures["untrained"]["mean"], figures["gain"]["worse"]) == ("test", 1.0, 1)
    assert await told(bench, ingest) == [("warn", "no_improvement")]


async def test_a_new_trainer_measures_anew_and_only_that_counts(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    cut_off = [*measurement(job_id, 1, 0.0, 0.0)][:1]
    begun = began(rollout_done(job_id, 1, 4, split=Split.TEST))
    events = [STARTED, *baseline(job_id, 0.0, 0.0), step_done(1, 1), begun, *cut_off]
    again = [
        event.model_copy(update={"trace_id": f"trace_again{number}"}) if event.type == "rollout_done" else event
        for number, event in enumerate(measurement(job_id, 1, 1.0, 1.0))
    ]
    resumed = STARTED.model_copy(update={"resumed_from_step": 1})
    await store(bench, ingest, logged([*events, resumed, *again, SUCCEEDED]))
    assert (await final(bench, ingest))["reward"]["mean"] == 1.0
    counted = await bench.all("select trace_id from rollouts where job_id = %s and split = 'test'", job_id)
    assert sorted(row["trace_id"] for row in counted) == ["trace_again0", "trace_again1"]
    void = await bench.all("select is_void from begun_rollouts where job_id = %s and split = 'test'", job_id)
    assert [row["is_void"] for row in void] == [True, True]


@pytest.mark.parametrize("best", [1, None])
async def test_without_a_measurement_nothing_is_claimed(bench: Workbench, best: int | None) -> None:
    ingest = await leased(bench)
    events = [STARTED, *baseline(ingest.lease.id, 0.0), step_done(1, 1)]
    await store(bench, ingest, logged([*events, RunEnded(outcome="succeeded", best_step=best)]))
    assert await final(bench, ingest) is None
    assert await told(bench, ingest) == []


async def test_where_no_checkpoint_was_better_the_job_says_so(bench: Workbench) -> None:
    ingest = await leased(bench)
    events = [STARTED, *baseline(ingest.lease.id, 1.0, 0.5), step_done(1, 1)]
    await store(bench, ingest, logged([*events, RunEnded(outcome="succeeded", best_step=0)]))
    figures = await final(bench, ingest)
    assert (figures["step"], figures["reward"]["mean"], figures["gain"]) == (0, 0.75, None)
    assert await told(bench, ingest) == [("warn", "no_improvement")]
