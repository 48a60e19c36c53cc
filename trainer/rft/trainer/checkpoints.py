"""Checkpoints of a run: complete or not there at all, and only those worth their space."""

import os
import re
import shutil
from pathlib import Path

from pydantic import AliasChoices, Field

from rft.chat.saved_chat import SavedChat
from rft.core.base import Record
from rft.core.checkpoint import Checkpoint, best
from rft.core.events import StepDone
from rft.core.step_record import RolloutStats
from rft.run_directory import layout
from rft.scratch.disk import require_room
from rft.trainer.run_health import RunHealth

_RECORD = "step.json"
_NAME = re.compile(r"checkpoint-(\d+)")


class StepRecord(Record):
    """What a checkpoint remembers of its step beyond the weights: enough to tell of it again and to go on."""

    step_done: StepDone
    health: RunHealth = Field(validation_alias=AliasChoices("health", "watch"))
    """`watch` in checkpoints of older versions."""

    @property
    def checkpoint(self) -> Checkpoint:
        """As the core ranks it."""
        done = self.step_done
        return as_ranked(done.step, done.train, done.valid)


def as_ranked(step: int, train: RolloutStats | None, valid: RolloutStats | None) -> Checkpoint:
    """What the core ranks a step's checkpoint by."""
    return Checkpoint(
        step=step,
        path=layout.checkpoint_dir(step),
        train_reward=train.reward if train else None,
        valid_reward=valid.reward if valid else None,
        graded_share=_graded_share(valid) if valid else 1.0,
    )


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
            else:  # Left behind by a crash in the middle of a step.
                shutil.rmtree(folder)

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
        ranked = best([record.checkpoint for record in self._records.values()])
        return ranked[0].step if ranked else None

    def path_of(self, step: int) -> Path:
        """The directory of a step's checkpoint."""
        return self._run_dir / layout.checkpoint_dir(step)

    def kept_with(self, newest: Checkpoint) -> tuple[int, ...]:
        """Steps that stay once `newest` is complete: the three best, best first, then the newest for resuming."""
        others = [record.checkpoint for step, record in self._records.items() if step != newest.step]
        ranked = [checkpoint.step for checkpoint in best([*others, newest])]
        return tuple(ranked) if newest.step in ranked else (*ranked, newest.step)

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
            shutil.rmtree(self.path_of(step))
            del self._records[step]


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
