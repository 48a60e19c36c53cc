"""The three best and the newest stay; what a crash left half done goes."""

import json
from pathlib import Path

from rft.core.checkpoint import Checkpoint
from rft.core.events import EventLine, StepDone
from rft.core.step_record import CheckpointInfo, Timing
from rft.rollouts.stats import rollout_stats
from rft.run_directory import layout
from rft.trainer.checkpoints import Checkpoints, StepRecord, as_ranked
from rft.trainer.events import EventWriter
from rft.trainer.run_health import RunHealth
from rft.trainer.steps import take_over
from tests.shared.by_hand import group_of, trace_of


def record(checkpoints: Checkpoints, step: int, valid: float | None) -> StepRecord:
    """A step whose directory holds one adapter file."""
    folder = checkpoints.path_of(step)
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_text(str(step))
    stats = None if valid is None else rollout_stats([group_of([trace_of([1], ("sampled", [2]))], [valid])])
    kept = checkpoints.kept_with(
        Checkpoint(step=step, path=layout.checkpoint_dir(step), train_reward=0.5, valid_reward=valid)
    )
    done = StepDone(
        step=step, total_steps=9, epoch=0, train=None, valid=stats, optimization=None,
        timing=Timing(sampling_s=0, tools_s=0, grading_s=0, training_s=0, eval_s=0, full_step_s=0),
        checkpoint=CheckpointInfo(path=layout.checkpoint_dir(step), kept_steps=kept),
    )  # fmt: skip
    return StepRecord(step_done=done, health=RunHealth(without_signal=step))


def on_disk(checkpoints: Checkpoints) -> set[int]:
    return {int(path.name.split("-")[1]) for path in checkpoints.folder.iterdir()}


def test_the_three_best_by_validation_and_the_newest_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step, valid in enumerate([0.2, None, 0.5, None, 0.4, 0.4, 0.1, None]):
        checkpoints.complete(record(checkpoints, step, valid))
        checkpoints.prune()
    assert on_disk(checkpoints) == {2, 4, 5, 7}
    assert checkpoints.latest is not None
    assert checkpoints.latest.step_done.checkpoint.kept_steps == (2, 5, 4, 7)
    assert checkpoints.best_step == 2


def test_another_process_finds_the_same_and_removes_what_is_incomplete(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in range(3):
        checkpoints.complete(record(checkpoints, step, step / 10))
    record(checkpoints, 3, 0.9)
    again = Checkpoints(tmp_path)
    assert on_disk(again) == {0, 1, 2}
    assert again.latest is not None
    assert again.latest.step_done.step == 2
    assert again.latest.health.without_signal == 2
    assert again.best_step == 2


def test_nothing_there_means_a_fresh_start(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.latest is None
    assert checkpoints.best_step is None
    checkpoints.prune()


def test_a_step_whose_event_was_lost_in_a_crash_is_told_once_and_then_gone_on_from(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in range(5):
        checkpoints.complete(record(checkpoints, step, step / 10))
    for told in (1, 1):
        events = EventWriter(tmp_path / layout.EVENTS)
        assert take_over(events, Checkpoints(tmp_path)) == 4
        events.close()
        lines = (tmp_path / layout.EVENTS).read_bytes().splitlines()
        assert len(lines) == told
    event = EventLine.model_validate_json(lines[0]).event
    assert isinstance(event, StepDone)
    assert event.step == 4
    assert on_disk(checkpoints) == set(event.checkpoint.kept_steps) == {4, 3, 2}


def test_an_empty_directory_is_a_fresh_start(tmp_path: Path) -> None:
    events = EventWriter(tmp_path / layout.EVENTS)
    assert take_over(events, Checkpoints(tmp_path)) is None
    events.close()


def test_rollouts_that_a_hold_made_good_are_not_held_against_a_step() -> None:
    trace = trace_of([1], ("sampled", [2]))
    made_good = group_of([trace] * 2, [0.5, 1.0])
    lost = group_of([trace] * 2, [0.5, None])
    failed = [rollout for rollout in lost.rollouts if rollout.reward is None]
    assert as_ranked(1, None, rollout_stats([made_good], failed * 6)).graded_share == 1.0
    assert as_ranked(1, None, rollout_stats([lost], failed * 6)).graded_share == 0.5


def test_a_step_is_ranked_by_the_reward_of_its_rows_and_not_of_the_rollouts_that_are_left() -> None:
    trace = trace_of([1], ("sampled", [2]))
    easy, hard = [group_of([trace] * 4, [1.0] * 4)] * 15, [group_of([trace] * 4, [0.0, None, None, None])] * 5
    ranked = as_ranked(1, None, rollout_stats([*easy, *hard]))
    assert (ranked.valid_reward, ranked.is_evidence) == (0.75, True)


def test_rewards_without_an_interval_are_ranked_by_their_mean() -> None:
    alone = rollout_stats([group_of([trace_of([1], ("sampled", [2]))] * 2, [3.0, 5.0])])
    assert alone.reward_estimate is None
    assert as_ranked(1, alone, None).train_reward == 4.0


def test_a_checkpoint_of_an_older_version_says_watch(tmp_path: Path) -> None:
    written = record(Checkpoints(tmp_path), 2, 0.5)
    older = json.loads(written.model_dump_json())
    older["watch"] = older.pop("health")
    assert StepRecord.model_validate(older) == written
