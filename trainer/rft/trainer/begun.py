"""A run that has begun: what its directory says, and the hands that keep it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rft.core.dataset import DatasetRow
from rft.core.spec import RunSecrets, RunSpec
from rft.trainer.background import Background
from rft.trainer.checkpoints import Checkpoints
from rft.trainer.events import EventWriter


@dataclass(frozen=True, slots=True)
class BegunRun:
    """Everything about a run that is known before torch is imported."""

    folder: Path
    spec: RunSpec
    secrets: RunSecrets
    train: Sequence[DatasetRow]
    valid: Sequence[DatasetRow]
    events: EventWriter
    background: Background
    checkpoints: Checkpoints
    resumed_from_step: int | None
