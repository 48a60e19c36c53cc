"""The three best and the newest stay; what a crash left half done goes."""

import errno
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rft.core.events import EventLine, StepDone
from rft.core.step_record import CheckpointInfo, RolloutStats, Timing
from rft.rollouts.stats import rollout_stats
from rft.run_directory import layout
from rft.trainer.checkpoints import Checkpoints, PolicyReward, StepRecord, as_ranked, policy_reward
from rft.trainer.events import EventWriter
from rft.trainer.run_health import RunHealth
from rft.trainer.steps import take_over
from tests.shared.by_hand import group_of, trace_of


def record(
    checkpoints: Checkpoints,
    step: int,
    valid: float | None,
    *,
    sampled: PolicyReward | None = None,
    max_staleness: int = 0,
) -> StepRecord:
    """A step whose directory holds one adapter file."""
    folder = checkpoints.path_of(step)
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_text(str(step))
    rewards = checkpoints.policy_rewards_with(sampled)
    kept = checkpoints.kept_with(as_ranked(step, graded(valid)), rewards, max_staleness=max_staleness)
    done = StepDone(
        step=step, total_steps=9, epoch=0, train=graded(None if sampled is None else sampled.reward),
        valid=graded(valid), optimization=None,
        timing=Timing(sampling_s=0, tools_s=0, grading_s=0, training_s=0, eval_s=0, full_step_s=0),
        checkpoint=CheckpointInfo(path=layout.checkpoint_dir(step), kept_steps=kept),
    )  # fmt: skip
    return StepRecord(step_done=done, health=RunHealth(without_signal=step), policy_rewards=rewards)


def graded(reward: float | None) -> RolloutStats | None:
    """Of one rollout."""
    return None if reward is None else rollout_stats([group_of([trace_of([1], ("sampled", [2]))], [reward])])


def trained(folder: Path, rewards: Sequence[float | None], *, max_staleness: int = 0, since: int = 0) -> Checkpoints:
    """A run without validation whose steps from `since` on, after the untrained policy, had these training rewards."""
    checkpoints = Checkpoints(folder)
    if not since:
        checkpoints.complete(record(checkpoints, 0, None))
    for step, reward in enumerate(rewards, start=since + 1):
        sampled = PolicyReward(max(0, step - 1 - max_staleness), reward)
        checkpoints.complete(record(checkpoints, step, None, sampled=sampled, max_staleness=max_staleness))
        checkpoints.prune()
    return checkpoints


def test_without_validation_a_checkpoint_is_ranked_by_what_its_own_policy_sampled(tmp_path: Path) -> None:
    checkpoints = trained(tmp_path, [0.1, 0.2, 0.9, 0.3, 0.4])
    assert checkpoints.best_step == 2, "whose policy sampled the rollouts of step 3"
    assert checkpoints.latest is not None
    assert checkpoints.latest.step_done.checkpoint.kept_steps == (2, 4, 3, 5)
    assert Checkpoints(tmp_path).best_step == 2, "also for another process"


@pytest.mark.parametrize(("rewards", "best"), [([], 0), ([0.9], 1), ([0.9, 0.1], 2), ([0.9, None], 2)])
def test_a_trained_policy_goes_before_the_untrained_one_and_the_newest_counts_as_the_one_before_it(
    tmp_path: Path, rewards: Sequence[float | None], best: int
) -> None:
    assert trained(tmp_path, rewards).best_step == best


def test_the_newest_is_not_credited_with_a_peak_that_is_over(tmp_path: Path) -> None:
    checkpoints = trained(tmp_path, [0.1, 0.9, 0.8, 0.7, 0.0, 0.0, 0.0, 0.0])
    assert checkpoints.best_step == 1, "although the checkpoint of the newest reward is gone"
    assert Checkpoints(tmp_path).best_step == 1


def test_a_short_run_with_rollouts_far_ahead_gives_its_newest_policy(tmp_path: Path) -> None:
    assert trained(tmp_path, [0.1, 0.1, 0.1, 0.1, 0.1, 0.2], max_staleness=4).best_step == 6


def test_a_checkpoint_stays_until_the_rollouts_of_its_policy_are_trained_on(tmp_path: Path) -> None:
    """With staleness those are steps away, and by then the checkpoint may turn out to be the best."""
    checkpoints = trained(tmp_path, [0.5, 0.5, 0.5, 0.7, 0.6, 0.8, 0.2, 0.9, 0.3], max_staleness=2)
    assert checkpoints.best_step == 5, "whose policy sampled the rollouts of step 8"
    assert checkpoints.latest is not None
    assert checkpoints.latest.step_done.checkpoint.kept_steps == (5, 3, 1, 7, 8, 9)


def test_checkpoints_of_older_versions_keep_what_they_were_ranked_by(tmp_path: Path) -> None:
    trained(tmp_path, [0.1, 0.2, 0.9])
    for path in tmp_path.glob("checkpoints/*/step.json"):
        older = json.loads(path.read_bytes())
        del older["policy_rewards"]
        path.write_text(json.dumps(older))
    assert Checkpoints(tmp_path).best_step == 3, "whose step was rewarded most"
    checkpoints = trained(tmp_path, [0.15, 0.1], since=3)
    assert checkpoints.latest is not None
    assert checkpoints.latest.step_done.checkpoint.kept_steps[:2] == (2, 3), "the last of them by what it sampled"


def test_a_version_is_that_of_most_rollouts_that_were_graded() -> None:
    trace = trace_of([1], ("sampled", [2]))
    old, new = group_of([trace] * 3, [1.0, 0.0, 0.0]), group_of([trace] * 4, [1.0, 1.0, None, None])
    rollouts = [
        replace(one, policy_version=version) for version, group in ((4, old), (5, new)) for one in group.rollouts
    ]
    stats = rollout_stats([old, new])
    assert policy_reward(rollouts, stats) == PolicyReward(4, stats.reward)
    assert policy_reward([one for one in rollouts if one.reward is None], stats) is None


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


def test_what_cannot_be_removed_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = trained(tmp_path, [0.9, 0.8, 0.7])
    (checkpoints.folder / ".DS_Store").write_text("a file")
    record(checkpoints, 9, None)

    def busy(folder: Path) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", str(folder))

    monkeypatch.setattr("shutil.rmtree", busy)
    again = Checkpoints(tmp_path)
    for step, reward in enumerate([0.1, 0.2, 0.3], start=4):
        again.complete(record(again, step, None, sampled=PolicyReward(step - 1, reward)))
        again.prune()
    assert again.latest is not None
    kept = again.latest.step_done.checkpoint.kept_steps
    there = {int(marker.parent.name.split("-")[1]) for marker in again.folder.glob(f"*/{layout.COMPLETE}")}
    assert there == set(kept)
    assert len(list(again.folder.iterdir())) > len(kept) + 1


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
    assert as_ranked(1, rollout_stats([made_good], failed * 6)).graded_share == 1.0
    assert as_ranked(1, rollout_stats([lost], failed * 6)).graded_share == 0.5


def test_a_step_is_ranked_by_the_reward_of_its_rows_and_not_of_the_rollouts_that_are_left() -> None:
    trace = trace_of([1], ("sampled", [2]))
    easy, hard = [group_of([trace] * 4, [1.0] * 4)] * 15, [group_of([trace] * 4, [0.0, None, None, None])] * 5
    ranked = as_ranked(1, rollout_stats([*easy, *hard]))
    assert (ranked.valid_reward, ranked.is_evidence) == (0.75, True)


def test_rewards_without_an_interval_are_ranked_by_their_mean() -> None:
    alone = rollout_stats([group_of([trace_of([1], ("sampled", [2]))] * 2, [3.0, 5.0])])
    assert alone.reward_estimate is None
    assert as_ranked(1, alone).valid_reward == 4.0


def test_a_checkpoint_of_an_older_version_says_watch(tmp_path: Path) -> None:
    written = record(Checkpoints(tmp_path), 2, 0.5)
    older = json.loads(written.model_dump_json())
    older["watch"] = older.pop("health")
    assert StepRecord.model_validate(older) == written
