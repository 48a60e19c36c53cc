"""An id that a customer was sent can be asked for, whatever became of its conversation; only what counts is counted."""

from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from rft.core.events import RolloutDone, RolloutsVoided, RoundRedone, RunEnded, RunStarted, TrainEvent
from rft.core.grade import Grade
from rft.core.rollout import Split
from rft.platform.worker.ingest import Ingest
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import (
    attempts_made,
    began,
    begun_anew,
    hold_began,
    logged,
    one_step,
    rollout_done,
    step_done,
)


@dataclass(slots=True)
class Log:
    """A trainer's log, told line by line to a worker, and what the API says of it."""

    bench: Workbench
    ingest: Ingest
    http: httpx.AsyncClient
    lines: int = 0

    @property
    def job_id(self) -> str:
        return self.ingest.lease.id

    async def tell(self, *events: TrainEvent) -> None:
        await store(self.bench, self.ingest, logged(events, after=self.lines))
        self.lines += len(events)

    async def ask(self, trace_id: str) -> dict[str, Any]:
        reply = await self.http.get(f"/{self.job_id}/rollouts/{trace_id}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def said(self, trace_id: str) -> tuple[str, str | None, float | None]:
        """Status, successor and reward."""
        found = await self.ask(trace_id)
        return found["status"], found["superseded_by"], found["reward"]

    async def listed(self) -> list[str]:
        page = (await self.http.get(f"/{self.job_id}/rollouts?limit=1000")).json()
        return [one["id"] for one in page["data"]]

    async def unended(self) -> list[dict[str, Any]]:
        return await self.bench.all("select * from begun_rollouts where job_id = %s", self.job_id)


@pytest.fixture
async def log(bench: Workbench, http: httpx.AsyncClient) -> Log:
    log = Log(bench, await leased(bench), http)
    await log.tell(RunStarted(resumed_from_step=None, total_steps=3, pid=1), step_done(0, 3))
    return log


async def test_a_conversation_answers_from_its_beginning_and_is_a_rollout_once_it_ends(log: Log) -> None:
    done = rollout_done(log.job_id, 1, 0)
    await log.tell(began(done))
    found = await log.ask(done.trace_id)
    assert (found["id"], found["object"]) == (done.trace_id, "fine_tuning.job.rollout")
    assert (found["status"], found["superseded_by"], found["record"]) == ("in_progress", None, None)
    assert (found["step"], found["row_index"], found["group_index"], found["attempt"]) == (1, 0, 0, 0)
    assert (found["reward"], found["failure_code"], found["stop_reason"]) == (None, None, None)
    assert await log.listed() == []
    assert (await log.http.get(f"/{log.job_id}/rollouts/{done.trace_id}/attempts")).json()["data"] == []
    await log.tell(attempts_made(1, done.trace_id, None))
    assert len((await log.http.get(f"/{log.job_id}/rollouts/{done.trace_id}/attempts")).json()["data"]) == 1
    await log.tell(done)
    assert await log.said(done.trace_id) == ("ended", None, 1.0)
    assert await log.listed() == [done.trace_id]
    assert await log.unended() == [], "it is kept once"


async def test_one_that_a_killed_trainer_left_is_abandoned_and_names_its_successor_once_there_is_one(log: Log) -> None:
    done = rollout_done(log.job_id, 1, 0)
    again = begun_anew(done, 1)
    await log.tell(began(done))
    await log.tell(RunStarted(resumed_from_step=0, total_steps=3, pid=2))
    assert await log.said(done.trace_id) == ("abandoned", None, None)
    await log.tell(began(again))
    assert await log.said(done.trace_id) == ("abandoned", again.trace_id, None)
    await log.tell(again)
    assert await log.said(done.trace_id) == ("abandoned", again.trace_id, None)
    assert await log.said(again.trace_id) == ("ended", None, 1.0)
    assert await log.listed() == [again.trace_id]


async def test_recorded_rollouts_of_a_step_that_is_done_again_answer_with_all_they_had(log: Log) -> None:
    first = [event for event in one_step(log.job_id, 1, 3, rollouts=3) if isinstance(event, RolloutDone)]
    again = [begun_anew(one, 1) for one in first]
    await log.tell(began(*first), *first)
    before = {one.trace_id: await log.ask(one.trace_id) for one in first}
    await log.tell(RunStarted(resumed_from_step=0, total_steps=3, pid=2))
    assert await log.listed() == []
    await log.tell(began(*again), *again)
    for one, successor in zip(first, again, strict=True):
        found = await log.ask(one.trace_id)
        assert (found.pop("status"), found.pop("superseded_by")) == ("abandoned", successor.trace_id)
        told_before = before[one.trace_id]
        assert (told_before.pop("status"), told_before.pop("superseded_by")) == ("ended", None)
        assert found == told_before, "its record and every figure"
    assert sorted(await log.listed()) == sorted(one.trace_id for one in again)


async def test_whoever_has_the_place_at_last_superseded_all_before(log: Log) -> None:
    """Killed twice, and replaced once in the end: each id leads to the rollout that counts."""
    done = rollout_done(log.job_id, 1, 0)
    tries = [begun_anew(done, number) for number in range(3)]
    await log.tell(began(tries[0]))
    await log.tell(RunStarted(resumed_from_step=0, total_steps=3, pid=2), began(tries[1]))
    await log.tell(RunStarted(resumed_from_step=0, total_steps=3, pid=3), began(tries[2]))
    failed = begun_anew(rollout_done(log.job_id, 1, 0, failed=True), 2)
    instead = done.model_copy(
        update={"key": done.key.model_copy(update={"attempt": 1}), "trace_id": begun_anew(done, 9).trace_id}
    )
    await log.tell(failed, began(instead), instead)
    for abandoned in tries[:2]:
        assert await log.said(abandoned.trace_id) == ("abandoned", instead.trace_id, None)
    assert await log.said(failed.trace_id) == ("ended", None, None), "a replaced failure counts as excluded"
    assert len(await log.listed()) == 2


async def test_a_place_is_of_its_own_split_epoch_and_row(log: Log) -> None:
    done = rollout_done(log.job_id, 1, 0)
    await log.tell(began(done), RunStarted(resumed_from_step=0, total_steps=3, pid=2))
    others = [
        done.model_copy(update={"trace_id": f"trace_{number}", "key": done.key.model_copy(update=change)})
        for number, change in enumerate(
            ({"split": Split.VALID}, {"epoch": 1}, {"row_index": 5}, {"index": 1}, {"step": 2})
        )
    ]
    await log.tell(*others)
    assert await log.said(done.trace_id) == ("abandoned", None, None)


async def test_earlier_steps_stay_as_they_are_when_a_run_is_taken_over(log: Log) -> None:
    kept, lost = rollout_done(log.job_id, 1, 0), rollout_done(log.job_id, 2, 0)
    await log.tell(kept, step_done(1, 3), lost, RunStarted(resumed_from_step=1, total_steps=3, pid=2))
    assert await log.said(kept.trace_id) == ("ended", None, 1.0)
    assert await log.said(lost.trace_id) == ("abandoned", None, 2.0)


async def test_who_is_kept_is_neither_superseded_nor_doubled(log: Log) -> None:
    """Killed with one ended, one ended that the log could not tell of any more, one under way."""
    ended, untold, under_way = (rollout_done(log.job_id, 1, index) for index in range(3))
    calls = [attempts_made(1, one.trace_id, None) for one in (ended, under_way)]
    await log.tell(began(ended, untold, under_way), *calls, ended)
    before = await log.ask(ended.trace_id)
    await log.tell(
        RunStarted(resumed_from_step=0, total_steps=3, pid=2, kept=(ended.trace_id, untold.trace_id)), untold
    )
    assert await log.ask(ended.trace_id) == before
    assert await log.said(untold.trace_id) == ("ended", None, untold_reward(untold))
    assert sorted(await log.listed()) == sorted((ended.trace_id, untold.trace_id))
    again = begun_anew(under_way, 1)
    await log.tell(began(again), again)
    assert await log.said(under_way.trace_id) == ("abandoned", again.trace_id, None)
    assert len(await log.listed()) == 3
    assert {one["trace_id"] for one in await log.unended()} == {under_way.trace_id}
    attempts = await log.bench.all("select trace_id from attempts where job_id = %s", log.job_id)
    assert [one["trace_id"] for one in attempts] == [ended.trace_id], "calls of who is kept count, once"
    events = await log.bench.all("select data from job_events where job_id = %s", log.job_id)
    kept = [one["data"] for one in events if one["data"] and one["data"].get("code") == "rollouts_kept"]
    assert kept == [{"code": "rollouts_kept", "rollouts": 2}]


def untold_reward(done: RolloutDone) -> float:
    assert isinstance(done.outcome, Grade)
    return done.outcome.reward


async def test_who_was_kept_and_found_no_place_is_abandoned_after_all(log: Log) -> None:
    kept, void = rollout_done(log.job_id, 1, 0), rollout_done(log.job_id, 1, 0, split=Split.VALID)
    await log.tell(*(attempts_made(1, one.trace_id, None) for one in (kept, void)), kept, void)
    both = (kept.trace_id, void.trace_id)
    await log.tell(RunStarted(resumed_from_step=0, total_steps=3, pid=2, kept=both))
    assert sorted(await log.listed()) == sorted(both)
    again = begun_anew(void, 1)
    await log.tell(RolloutsVoided(step=1, trace_ids=(void.trace_id,)), began(again), again)
    assert await log.said(void.trace_id) == ("abandoned", again.trace_id, 1.0)
    assert await log.said(kept.trace_id) == ("ended", None, 1.0)
    attempts = await log.bench.all("select trace_id from attempts where job_id = %s", log.job_id)
    assert [one["trace_id"] for one in attempts] == [kept.trace_id]


async def test_of_a_measurement_at_the_end_who_is_kept_keeps_its_place(log: Log) -> None:
    kept, lost = (rollout_done(log.job_id, 1, index, split=Split.TEST) for index in range(2))
    await log.tell(*one_step(log.job_id, 1, 1, rollouts=0), kept, lost)
    await log.tell(RunStarted(resumed_from_step=1, total_steps=1, pid=2, kept=(kept.trace_id,)))
    assert await log.said(kept.trace_id) == ("ended", None, 1.0)
    assert (await log.said(lost.trace_id))[0] == "abandoned"


async def test_a_round_that_is_done_again_within_one_run_is_void_alone(log: Log) -> None:
    """The training rollouts of step 1; not its evaluation, nor who converses at another step."""
    train, valid = rollout_done(log.job_id, 1, 0), rollout_done(log.job_id, 1, 0, split=Split.VALID)
    other = rollout_done(log.job_id, 2, 0)
    await log.tell(began(train), train, valid, began(other))
    redone = RoundRedone(
        step=1, split=Split.TRAIN, rollouts=1, lost=1, failures_by_code={"sampler_error": 1}, message="Once more."
    )
    await log.tell(redone)
    assert await log.said(train.trace_id) == ("abandoned", None, 1.0)
    key = train.key.model_copy(update={"attempt": 1})
    again = begun_anew(train, 1).model_copy(update={"key": key})
    await log.tell(began(again), again)
    assert await log.said(train.trace_id) == ("abandoned", again.trace_id, 1.0)
    assert await log.said(again.trace_id) == ("ended", None, 1.0)
    assert await log.said(valid.trace_id) == ("ended", None, 1.0)
    assert await log.said(other.trace_id) == ("in_progress", None, None)


@pytest.mark.parametrize("status", ["paused", "cancelled", "failed", "queued"])
async def test_where_no_trainer_can_carry_it_on_it_is_abandoned(log: Log, status: str) -> None:
    done = rollout_done(log.job_id, 1, 0)
    await log.tell(began(done), RunEnded(outcome="stopped", best_step=None))
    await log.bench.do(
        "update jobs set status = %s, lease_owner = null, lease_until = null where id = %s", status, log.job_id
    )
    assert await log.said(done.trace_id) == ("abandoned", None, None)


async def test_a_held_jobs_conversations_are_under_way(log: Log) -> None:
    done = rollout_done(log.job_id, 1, 0)
    await log.tell(began(done), hold_began(1))
    assert await log.said(done.trace_id) == ("in_progress", None, None)


async def test_another_jobs_conversation_is_not_found(log: Log, bench: Workbench) -> None:
    done = rollout_done(log.job_id, 1, 0)
    await log.tell(began(done))
    stranger = (await leased(bench)).lease.id
    assert (await log.http.get(f"/{stranger}/rollouts/{done.trace_id}")).status_code == 404
    assert (await log.http.get(f"/{stranger}/rollouts/{done.trace_id}/attempts")).status_code == 404


async def test_a_burst_that_begins_and_ends_in_one_batch_leaves_nothing_behind(log: Log) -> None:
    burst = [rollout_done(log.job_id, 1, index) for index in range(500)]
    await log.tell(began(*burst), *burst[:300])
    assert len(await log.unended()) == 200
    await log.tell(*burst[300:])
    assert await log.unended() == []
    assert len(await log.listed()) == 500
