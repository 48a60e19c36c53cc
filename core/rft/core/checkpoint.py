"""Checkpoint: weights saved at a step."""

from rft.core.base import Record


class Checkpoint(Record):
    """A usable adapter in PEFT format on disk."""

    step: int
    path: str
    """Directory of the adapter, relative to the run directory."""
    train_reward: float | None
    valid_reward: float | None
    """None when the step was not evaluated."""


def best(checkpoints: "list[Checkpoint]", keep: int = 3) -> "list[Checkpoint]":
    """The `keep` best, best first: by validation reward, else by training reward; later wins ties."""
    evaluated = [checkpoint for checkpoint in checkpoints if checkpoint.valid_reward is not None]
    pool = evaluated or checkpoints
    return sorted(pool, key=_rank, reverse=True)[:keep]


def _rank(checkpoint: Checkpoint) -> tuple[float, int]:
    reward = checkpoint.valid_reward if checkpoint.valid_reward is not None else checkpoint.train_reward
    return (float("-inf") if reward is None else reward, checkpoint.step)
