"""What ranks of one run say to each other: rank 0 speaks first, each other rank answers."""

from dataclasses import dataclass

from rft.trainer.samples import TrainingRow
from rft.trainer.step_figures import StepFigures
from rft.trainer.update_settings import UpdateSettings


@dataclass(frozen=True, slots=True)
class SetUp:
    """Load the base model and an adapter of this shape. Answered by `Ready`."""

    base_model: str
    settings: UpdateSettings
    torch_threads: int
    """Of the whole host."""
    needs_gpu: bool = False
    """Whether the rank is to train on one: `RFT_DEVICES` names one for it, or rank 0 has one."""


@dataclass(frozen=True, slots=True)
class Share:
    """Compute the gradient of these rows; the adapter's weights follow. Answered by `Computed`, then the gradient."""

    rows: tuple[TrainingRow, ...]
    """None where there are fewer rows than ranks."""
    known: StepFigures
    """Of the whole step: its rows and tokens are every rank's denominators."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Make one pass beside one of rank 0's, where no rank has the base model whole. There is no answer."""


@dataclass(frozen=True, slots=True)
class End:
    """The run is over. There is no answer."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The rank can compute."""

    parameters: int
    """Of its adapter."""


@dataclass(frozen=True, slots=True)
class Computed:
    """The sums over the rank's own rows."""

    figures: StepFigures


@dataclass(frozen=True, slots=True)
class Failed:
    """The rank cannot; what the run ends with, as customers are told of it."""

    code: str
    message: str
    param: str | None
    is_ours_to_mend: bool
    """Whether the run pauses for it."""


Request = SetUp | Share | Pass | End
Answer = Ready | Computed | Failed
