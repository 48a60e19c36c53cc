"""The trainer tells what it is doing: loading, rounds, and the updates between them."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rft.core.endpoint_load import EndpointLoad, LimitReason, NamedLoad
from rft.core.failure import Stage
from rft.core.progress import Activity, RunProgress
from rft.core.rollout import RolloutKey, Split
from rft.rollouts.live import LiveRollouts
from rft.run_directory import layout
from rft.run_directory.progress import forget_progress, read_progress
from rft.trainer.progress import ProgressReporter


def slots(step: int, count: int = 2, split: Split = Split.TRAIN) -> list[Any]:
    key = RolloutKey(job_id="ftjob-1", job_seed=1, split=split, step=step, epoch=0, row_index=0, index=0)
    return [SimpleNamespace(key=key, rollout=None, pending=None) for _ in range(count)]


def test_it_loads_then_rolls_out_and_trains_in_turn(tmp_path: Path) -> None:
    time = iter(range(1, 100))
    reporter = ProgressReporter(tmp_path, LiveRollouts(), clock=lambda: float(next(time)))

    def told() -> tuple[Activity, float, int | None]:
        reporter.tell()
        progress = read_progress(tmp_path)
        assert progress is not None
        return progress.activity, progress.since, None if progress.round is None else progress.round.ended

    assert told() == (Activity.LOADING, 1, None)
    assert told() == (Activity.LOADING, 1, None)
    first = slots(1)
    with reporter.live.round(first):
        assert told() == (Activity.ROLLING_OUT, 2, 0)
        first[0].rollout = "ended"
        assert told() == (Activity.ROLLING_OUT, 2, 1)
    assert told() == (Activity.TRAINING, 3, None)
    with reporter.live.round(slots(1, split=Split.VALID)):
        assert told() == (Activity.ROLLING_OUT, 4, 0)
    with reporter.live.round(slots(2)):
        assert told() == (Activity.ROLLING_OUT, 5, 0)


def test_nothing_is_written_where_nothing_changed(tmp_path: Path) -> None:
    reporter = ProgressReporter(tmp_path, LiveRollouts())
    reporter.tell()
    (tmp_path / layout.PROGRESS).unlink()
    reporter.tell()
    assert not (tmp_path / layout.PROGRESS).exists()


def test_a_disk_that_takes_nothing_ends_no_run(tmp_path: Path) -> None:
    ProgressReporter(tmp_path / "gone", LiveRollouts()).tell()
    assert read_progress(tmp_path / "gone") is None


def test_what_cannot_be_read_is_no_progress(tmp_path: Path) -> None:
    (tmp_path / layout.PROGRESS).write_text(RunProgress(activity=Activity.LOADING, since=1).model_dump_json()[:-3])
    assert read_progress(tmp_path) is None
    forget_progress(tmp_path)
    forget_progress(tmp_path)
    assert not (tmp_path / layout.PROGRESS).exists()


def test_what_endpoints_bear_is_told_from_their_first_call_on_and_between_rounds(tmp_path: Path) -> None:
    load = EndpointLoad(limit=8, reason=LimitReason.SET, changed_at=1.0, in_flight=1, queued=0, calls_per_s=0.1)
    named = NamedLoad(stage=Stage.TOOL, endpoint="search", is_shared=False, load=load)
    called: list[NamedLoad] = []
    reporter = ProgressReporter(tmp_path, LiveRollouts(), loads=lambda: tuple(called))

    def told() -> tuple[NamedLoad, ...]:
        reporter.tell()
        progress = read_progress(tmp_path)
        assert progress is not None
        return progress.endpoints

    assert told() == ()
    with reporter.live.round(slots(1)):
        called.append(named)
        assert told() == (named,)
    assert told() == (named,), "an update between two rounds changes nothing of what endpoints bear"


@pytest.mark.lengthy
async def test_that_the_run_lives_is_noted_while_conversations_go_on_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rft.trainer.progress._EVERY_S", 0.01)
    noted, live = 0, LiveRollouts()

    def note() -> None:
        nonlocal noted
        noted += 1

    async def noted_meanwhile() -> bool:
        before = noted
        await asyncio.sleep(0.2)
        return noted > before

    reporter = ProgressReporter(tmp_path, live, note_alive=note)
    await reporter.start()
    with live.round(slots(1)):
        assert not await noted_meanwhile()
        with live.conversation("trace_1", SimpleNamespace(holder=Stage.SAMPLER, is_queued=False)):  # pyright: ignore[reportArgumentType]
            assert await noted_meanwhile()
        assert not await noted_meanwhile()
    await reporter.aclose()
