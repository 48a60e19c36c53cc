"""What a run knows before torch is imported: its directory, and what writes to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rft.core.dataset import DatasetRow
from rft.core.spec import RunSecrets, RunSpec
from rft.trainer.checkpoints import Checkpoints
from rft.trainer.events import EventWriter
from rft.trainer.finished_rollouts import FinishedRollouts
from rft.trainer.loop_thread import LoopThread
from rft.trainer.ranks.processes import LaunchedRanks, RankProcesses
from rft.trainer.ranks.world import World


@dataclass(frozen=True, slots=True)
class RunContext:
    """Everything about a run that is known before torch is imported."""

    folder: Path
    spec: RunSpec
    secrets: RunSecrets
    train: Sequence[DatasetRow]
    valid: Sequence[DatasetRow]
    test: Sequence[DatasetRow]
    """None where the order has no test file."""
    events: EventWriter
    loop_thread: LoopThread
    checkpoints: Checkpoints
    resumed_from_step: int | None
    finished: FinishedRollouts
    world: World
    other_ranks: RankProcesses | LaunchedRanks | None
    """None where this process is the only one."""
