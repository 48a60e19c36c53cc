"""How a policy is updated, as it is ordered and as it is done. Names are TRL's where it has one."""

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from rft.core.base import Record

Auto = Literal["auto"]
Schedule = Literal["linear", "cosine", "constant"]
LARGE_MODEL_PARAMETERS = 1_000_000_000
"""From here on an update of full size at the first step may do harm that the later ones do not mend."""
MAX_RESAMPLINGS = 8
STALE_EPSILON = 0.2
"""PPO's own (arXiv 1707.06347). Without a range, what a policy learnt from its last step it learns again from rollouts
that know nothing of it, and it overshoots."""
_LONGEST_WARMUP = 10
MANY_STEPS = 1000
"""Of a long job, for whoever tells what `auto` becomes before there is one."""


class UpdateWanted(Record):
    """As the customer wrote it; `auto` where the platform decides."""

    temperature: Annotated[FiniteFloat, Field(gt=0, le=2)] | Auto = "auto"
    beta: Annotated[FiniteFloat, Field(ge=0)] | Auto = "auto"
    epsilon: Annotated[FiniteFloat, Field(gt=0)] | Auto = "auto"
    epsilon_high: Annotated[FiniteFloat, Field(gt=0)] | Auto = "auto"
    warmup_steps: Annotated[int, Field(ge=0)] | Auto = "auto"
    lr_scheduler_type: Schedule | Auto = "auto"
    resample_zero_variance: Annotated[int, Field(ge=0, le=MAX_RESAMPLINGS)] | Auto = "auto"


class Update(Record):
    """What the run really does."""

    temperature: float = 1.0
    """Of sampling, in training and evaluations; log-probabilities are those of this temperature."""
    beta: float = 0.0
    """Weight of the KL divergence from the base model in the loss."""
    epsilon: float | None = None
    """How far below 1 a weight, trainer over sampler, may be where the advantage is negative; None: as far as it is."""
    epsilon_high: float | None = None
    """How far above 1 it may be where the advantage is positive. With cispo: the largest weight itself."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises to its full size."""
    lr_scheduler_type: Schedule = "linear"
    """How it falls to 0 until the last step, or that it does not."""
    resample_zero_variance: int = 0
    """Rounds of further rows in a step at most, in place of groups whose rewards are all equal."""


def resolve_update(
    wanted: UpdateWanted, *, steps: int, parameters: int | None, is_stale: bool = False, is_capped: bool = False
) -> Update:
    """Replace every `auto`.

    `parameters`: of the base model; None where nobody knows. `is_stale`: older policies sample. `is_capped`: the loss
    drops no token, and `epsilon_high` is its largest weight.
    """
    low = (STALE_EPSILON if is_stale and not is_capped else None) if wanted.epsilon == "auto" else wanted.epsilon
    high = None if is_capped else low
    is_large = parameters is not None and parameters >= LARGE_MODEL_PARAMETERS
    warmup_steps = min(_LONGEST_WARMUP, steps // 20) if is_large else 0
    return Update(
        temperature=1.0 if wanted.temperature == "auto" else wanted.temperature,
        beta=0.0 if wanted.beta == "auto" else wanted.beta,
        epsilon=low,
        epsilon_high=high if wanted.epsilon_high == "auto" else wanted.epsilon_high,
        warmup_steps=warmup_steps if wanted.warmup_steps == "auto" else wanted.warmup_steps,
        lr_scheduler_type="linear" if wanted.lr_scheduler_type == "auto" else wanted.lr_scheduler_type,
        resample_zero_variance=0 if wanted.resample_zero_variance == "auto" else wanted.resample_zero_variance,
    )
