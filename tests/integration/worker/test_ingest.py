"""Ingest: whatever is read twice, cut short or replayed, the rows come out the same."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.events import RunEnded, RunStarted, TrainEvent
from rft.core.grade import Grade
from rft.platform.lifecycle.lease import LeaseLost
from rft.platform.worker.ingest import Ingest, LogGap
from rft.platform.worker.log_line import read_line
from rft.run_directory.event_log import CorruptLog
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import (
    START,
    TRAINED_TOKENS,
    conversed_step,
    logged,
    numbered,
    one_step,
    rollout_done,
    step_done,
    whole_run,
)

TABLES = ("steps", "rollouts", "begun", "checkpoints")


async def state(bench: Workbench, ingest: Ingest) -> dict[str, list[dict[str, Any]]]:
    """All that ingest writes, but for the clock of the database."""
    job_id = ingest.lease.id
    job = await bench.job(job_id)
    return {
        "steps": await bench.all("select * from steps where job_id = %s order by step", job_id),
        "rollouts": await bench.all("select * from rollouts where job_id = %s order by trace_id", job_id),
        "begun": await bench.all("select * from begun_rollouts where job_id = %s order by trace_id", job_id),
        "checkpoints": await bench.all("select * from checkpoints where job_id = %s order by step", job_id),
        "events": await bench.all(
            "select type, level, message, data, step from job_events where job_id = %s"
            " and message not like 'Valid%%' order by type, step, message",
            job_id,
        ),
        "job": [{key: job[key] for key in ("status", "current_step", "trained_tokens", "best_step", "last_event_seq")}],
    }


def without_ids(state: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """What is the same for two jobs that saw the same run."""
    hidden = {"job_id", "id", "trace_id", "record"}
    return {
        name: sorted(({k: v for k, v in row.items() if k not in hidden} for row in rows), key=repr)
        for name, rows in state.items()
    }


async def test_a_run_becomes_rows(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    done = await store(bench, ingest, logged(whole_run(job_id, steps=3)))
    assert done.highest_step == 3
    await bench.assert_every_step_once(job_id, steps=3)
    rollouts = await bench.all("select * from rollouts where job_id = %s and step = 1 order by trace_id", job_id)
    failed = [row for row in rollouts if row["reward"] is None]
    assert [(row["failure_code"], row["failure_stage"], row["stop_reason"]) for row in failed] == [
        ("timeout", "tool", None)
    ]
    assert {row["tool_calls"] for row in rollouts} == {3}
    content = rollouts[0]["record"]["messages"][1]["content"]
    assert content == "NUL \ufffd and a backslash \\u0000 at step 1"
    event = (await bench.all("select * from job_events where job_id = %s and step = 2", job_id))[0]
    assert event["message"].startswith("Step 2/3 , train mean reward=0.42, full validation mean reward=0.62")
    assert event["created_at"].timestamp() == pytest.approx(START + 1 + 3 * 5)
    notice = (await bench.all("select * from job_events where job_id = %s and message like '%%notice'", job_id))[0]
    assert (notice["level"], notice["message"]) == ("warn", "the last\ufffdnotice")
    assert notice["data"] == {"code": "no_signal", "groups": 3}


async def test_a_resumed_run_voids_what_came_after_its_checkpoint(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    first: list[TrainEvent] = whole_run(job_id, steps=3)[:-3]
    again: list[TrainEvent] = [RunStarted(resumed_from_step=1, total_steps=3, pid=2)]
    for step in (2, 3):
        again.extend(one_step(job_id, step, 3, rollouts=3))
    await store(bench, ingest, logged(first))
    await store(bench, ingest, logged(again[:1], after=len(first)))
    assert [row["step"] for row in await bench.all("select step from steps where job_id = %s", job_id)] == [0, 1]
    job = await bench.job(job_id)
    assert (job["current_step"], job["trained_tokens"]) == (1, 100)
    await store(bench, ingest, logged(first + again))
    await bench.assert_every_step_once(job_id, steps=3)


async def test_a_rollout_that_is_told_again_is_stored_as_told_last(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    first, other = rollout_done(job_id, 1, 0), rollout_done(job_id, 1, 1)
    grade = Grade(reward=0.125, grader="judge")
    again = first.model_copy(update={"turns": 7, "tool_calls": {"search": 9}, "outcome": grade})
    await store(bench, ingest, logged([first, other]))
    await store(bench, ingest, logged([first, other, rollout_done(job_id, 1, 2), again]))
    rows = await bench.all("select tool_calls, reward, record from rollouts where job_id = %s", job_id)
    found = {row["record"]["trace_id"]: (row["tool_calls"], row["reward"], row["record"]["turns"]) for row in rows}
    assert len(rows) == 3
    assert found[first.trace_id] == (9, 0.125, 7)
    assert found[other.trace_id] == (3, 1.01, 2)


async def test_tokens_of_a_step_that_is_told_again_count_once(bench: Workbench) -> None:
    ingest = await leased(bench)
    first = step_done(1, 3)
    assert first.optimization is not None
    longer = first.optimization.model_copy(update={"trained_tokens": TRAINED_TOKENS + 11})
    events: list[TrainEvent] = [step_done(0, 3), first, first.model_copy(update={"optimization": longer})]
    for end, tokens in ((1, 0), (2, TRAINED_TOKENS), (3, TRAINED_TOKENS + 11)):
        await store(bench, ingest, logged(events[:end]))
        assert (await bench.job(ingest.lease.id))["trained_tokens"] == tokens


async def test_the_checkpoints_that_a_step_names_are_the_ones_kept(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id, events = ingest.lease.id, list[TrainEvent]()
    for step, kept in enumerate([(0,), (1, 0), (2, 1), (2, 0)]):
        events.append(step_done(step, 3, kept=kept))
        await store(bench, ingest, logged(events))
        rows = await bench.all("select step from checkpoints where job_id = %s and is_kept", job_id)
        assert {row["step"] for row in rows} == set(kept)


async def test_a_gap_is_refused_and_nothing_of_the_batch_is_kept(bench: Workbench) -> None:
    ingest = await leased(bench)
    lines = logged(whole_run(ingest.lease.id, steps=1))
    del lines[3]
    with pytest.raises(LogGap, match="jumps from 3 to 5"):
        await store(bench, ingest, lines)
    assert await bench.all("select 1 from rollouts") == []
    assert (await bench.job(ingest.lease.id))["last_event_seq"] == 0


async def test_a_broken_rollout_is_refused_and_nothing_of_the_batch_is_kept(bench: Workbench) -> None:
    ingest = await leased(bench)
    events = whole_run(ingest.lease.id, steps=1)
    lines = [line.model_dump_json().encode() + b"\n" for line in numbered(events)]
    lines[7] = lines[7].replace(b'"turns":2', b'"turns":"?"')
    with pytest.raises(CorruptLog, match="cannot be read"):
        await store(bench, ingest, [read_line(line) for line in lines])
    assert await bench.all("select 1 from rollouts") == await bench.all("select 1 from steps") == []
    assert (await bench.job(ingest.lease.id))["last_event_seq"] == 0
    await store(bench, ingest, logged(events))
    await bench.assert_every_step_once(ingest.lease.id, steps=1)


@pytest.mark.parametrize(
    "change",
    [
        "update jobs set lease_token = lease_token + 1 where id = %s",
        "update jobs set status = 'queued' where id = %s",
        "update jobs set status = 'cancelled' where id = %s",
    ],
)
async def test_a_stale_token_writes_nothing(bench: Workbench, change: Any) -> None:
    ingest = await leased(bench)
    lines = logged(whole_run(ingest.lease.id, steps=2))
    await store(bench, ingest, lines[:7])
    await bench.do(change, ingest.lease.id)
    before = await state(bench, ingest)
    with pytest.raises(LeaseLost):
        await store(bench, ingest, lines)
    assert await state(bench, ingest) == before


async def test_a_stopped_run_leaves_the_job_running(bench: Workbench) -> None:
    ingest = await leased(bench)
    events: list[TrainEvent] = [
        *whole_run(ingest.lease.id, steps=2)[:-1],
        RunEnded(outcome="stopped", best_step=None),
    ]
    done = await store(bench, ingest, logged(events))
    assert done.ended is not None
    assert (await bench.job(ingest.lease.id))["status"] == "running"


@given(cuts=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_replay_gives_the_same_rows(bench: Workbench, cuts: list[tuple[int, int]]) -> None:
    """Batches as a worker could read them after any number of restarts: each begins at or before what is stored."""
    plain, replayed = await leased(bench), await leased(bench)
    expected_lines = logged(disturbed_run(plain.lease.id))
    await store(bench, plain, expected_lines)
    lines = logged(disturbed_run(replayed.lease.id))
    stored = 0
    for back, length in cuts:
        start = max(0, stored - back)
        done = await store(bench, replayed, lines[start : start + length])
        assert done.last_seq == max(stored, min(len(lines), start + length))
        stored = done.last_seq
        if stored == len(lines):
            break
    if stored < len(lines):
        await store(bench, replayed, lines)
    expected, found = await state(bench, plain), await state(bench, replayed)
    assert without_ids(found) == without_ids(expected)
    for table in TABLES:
        assert len(found[table]) == len(expected[table])


def disturbed_run(job_id: str) -> list[TrainEvent]:
    """Died in step 2, resumed from step 1, ended well."""
    events: list[TrainEvent] = [RunStarted(resumed_from_step=None, total_steps=3, pid=1)]
    for step in (0, 1):
        events.extend(conversed_step(job_id, step, 3, rollouts=3))
    events.extend(list(conversed_step(job_id, 2, 3, rollouts=3))[:3])
    events.append(RunStarted(resumed_from_step=1, total_steps=3, pid=2))
    for step in (2, 3):
        events.extend(conversed_step(job_id, step, 3, rollouts=3, conversation=1))
    return [*events, RunEnded(outcome="succeeded", best_step=3)]
