"""Checkpoints of a run: complete or not there at all, and only those worth their space."""

import logging
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import AliasChoices, Field

from rft.chat.saved_chat import SavedChat
from rft.core.base import Record
from rft.core.checkpoint import Checkpoint, best
from rft.core.events import StepDone
from rft.core.rollout import Rollout
from rft.core.step_record import RolloutStats
from rft.run_directory import layout
from rft.scratch.disk import require_room
from rft.trainer.run_health import RunHealth

_LOG = logging.getLogger(__name__)
_RECORD = "step.json"
_NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, slots=True)
class PolicyReward:
    """What a step's training rollouts say of the policy that sampled them."""

    version: int
    reward: float | None


def policy_reward(rollouts: Sequence[Rollout], stats: RolloutStats) -> PolicyReward | None:
    """The version that sampled most of a step's graded rollouts, an older one where two are even; None without any."""
    versions = Counter(rollout.policy_version for rollout in rollouts if rollout.reward is not None)
    if not versions:
        return None
    return PolicyReward(max(versions, key=lambda version: (versions[version], -version)), stats.reward)


class StepRecord(Record):
    """What a checkpoint remembers of its step beyond the weights: enough to tell of it again and to go on."""

    step_done: StepDone
    health: RunHealth = Field(validation_alias=AliasChoices("health", "watch"))
    """`watch` in checkpoints of older versions."""
    policy_rewards: dict[int, float] | None = None
    """Training rewards of the policies of the kept checkpoints by step, as known after this step. None in checkpoints
    of older versions, which are ranked by the reward of their own step until that of their policy is known."""

    def checkpoint(self, policy_rewards: Mapping[int, float]) -> Checkpoint:
        """As the core ranks it. `policy_rewards`: as the newest record has them."""
        done = self.step_done
        own = done.train.reward if self.policy_rewards is None and done.train is not None else None
        return as_ranked(done.step, done.valid, train_reward=policy_rewards.get(done.step, own))


def as_ranked(step: int, valid: RolloutStats | None, *, train_reward: float | None = None) -> Checkpoint:
    """What the core ranks a step's checkpoint by. `train_reward`: of what its own policy sampled."""
    return Checkpoint(
        step=step,
        path=layout.checkpoint_dir(step),
        train_reward=train_reward,
        valid_reward=valid.reward if valid else None,
        graded_share=_graded_share(valid) if valid else 1.0,
    )


def _chosen(checkpoints: Sequence[Checkpoint], policy_rewards: Mapping[int, float]) -> int | None:
    """The step of the best one; a policy that has sampled nothing yet counts as much as the newest that has.

    Nothing says that it is worse. Only in the choice: among the kept it takes no place of one whose reward is known.
    """
    newest = max(policy_rewards, default=None)
    counted = [
        checkpoint
        if newest is None or checkpoint.step <= newest or checkpoint.train_reward is not None
        else checkpoint.model_copy(update={"train_reward": policy_rewards[newest]})
        for checkpoint in checkpoints
    ]
    ranked = best(counted)
    return ranked[0].step if ranked else None


def _graded_share(valid: RolloutStats) -> float:
    """Of the slots, not of the attempts: what a hold made good for is not held against the step."""
    slots = valid.rollouts - valid.replaced
    return valid.graded / slots if slots else 1.0


class Checkpoints:
    """The checkpoints of one run directory, complete ones by step."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.chat: SavedChat | None = None
        """What is saved with every checkpoint, for whoever serves it."""
        self.folder.mkdir(exist_ok=True)
        self._records: dict[int, StepRecord] = {}
        for folder in sorted(self.folder.iterdir()):
            match = _NAME.fullmatch(folder.name)
            if match and (folder / layout.COMPLETE).exists():
                record = StepRecord.model_validate_json((folder / _RECORD).read_bytes())
                self._records[int(match[1])] = record
            elif folder.is_dir():  # Left behind by a crash in the middle of a step, or in part by `prune`.
                _remove(folder)

    @property
    def folder(self) -> Path:
        """Where they all lie."""
        return self._run_dir / layout.CHECKPOINTS

    @property
    def latest(self) -> StepRecord | None:
        """Where the run goes on; None before the baseline is done."""
        return self._records[max(self._records)] if self._records else None

    @property
    def best_step(self) -> int | None:
        """The step whose adapter the customer should take."""
        rewards = self.policy_rewards_with(None)
        return _chosen([record.checkpoint(rewards) for record in self._records.values()], rewards)

    def policy_rewards_with(self, sampled: PolicyReward | None) -> dict[int, float]:
        """Training rewards of the checkpoints' policies by step, and of the newest that has any, with one more step's.

        The untrained policy has none: rows differ from step to step, and easy ones are no reason to give back what
        was not trained.
        """
        rewards = dict((self.latest.policy_rewards if self.latest else None) or {})
        if sampled is not None and sampled.version > 0 and sampled.reward is not None:
            rewards[sampled.version] = sampled.reward
        newest = max(rewards, default=0)
        return {step: reward for step, reward in rewards.items() if step in self._records or step == newest}

    def path_of(self, step: int) -> Path:
        """The directory of a step's checkpoint."""
        return self._run_dir / layout.checkpoint_dir(step)

    def kept_with(
        self, newest: Checkpoint, policy_rewards: Mapping[int, float], *, max_staleness: int
    ) -> tuple[int, ...]:
        """Steps that stay once `newest` is complete: the three best, best first, then the newest for resuming.

        Between them those whose policies sample for steps that are still to be trained, so many steps behind at most:
        their rewards are not known yet.
        """
        records = [record for step, record in self._records.items() if step != newest.step]
        all_of_them = [*(record.checkpoint(policy_rewards) for record in records), newest]
        known = [checkpoint.step for checkpoint in best(all_of_them)]
        oldest = newest.step - max_staleness
        waiting = sorted(record.step_done.step for record in records if record.step_done.step >= oldest)
        kept = [_chosen(all_of_them, policy_rewards), *known, *waiting, newest.step]
        return tuple(dict.fromkeys(step for step in kept if step is not None))

    def complete(self, record: StepRecord) -> None:
        """The step's directory is a checkpoint from now on: everything in it is on disk before the marker is."""
        folder = self.path_of(record.step_done.step)
        (folder / _RECORD).write_text(record.model_dump_json())
        if self.chat is not None:
            self.chat.write(folder)
        for file in folder.iterdir():
            _sync(file)
        (folder / layout.COMPLETE).touch()
        _sync(folder)
        _sync(self.folder)
        self._records[record.step_done.step] = record

    def discard(self, step: int) -> None:
        """The directory of a step that will not be complete."""
        shutil.rmtree(self.path_of(step))

    def prune(self) -> None:
        """Delete what the latest record does not keep."""
        if self.latest is None:
            return
        kept = self.latest.step_done.checkpoint.kept_steps
        for step in [step for step in self._records if step not in kept]:
            (self.path_of(step) / layout.COMPLETE).unlink()
            _remove(self.path_of(step))
            del self._records[step]


def _remove(folder: Path) -> None:
    """What stays of it is no checkpoint, and no reason to end a run: files that a server has open, say, on NFS."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        _LOG.warning("%s cannot be removed: %s", folder, error)


def require_room_for_next(folder: Path) -> None:
    """Raises OSError (ENOSPC) where the disk has no room for another checkpoint like the newest in `folder`."""
    newest = max(folder.glob(f"*/{layout.COMPLETE}"), key=lambda marker: marker.stat().st_mtime, default=None)
    if newest is not None:
        size = sum(file.stat().st_size for file in newest.parent.iterdir())
        require_room(folder, size, "a checkpoint")


def newest_checkpoint(run_dir: Path) -> Path | None:
    """The complete checkpoint of the highest step; None where there is none."""
    complete = [marker.parent for marker in (run_dir / layout.CHECKPOINTS).glob(f"*/{layout.COMPLETE}")]
    return max(complete, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
