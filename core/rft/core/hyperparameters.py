"""How a policy is trained: as ordered, as it is done, and how every `auto` between them is filled in. Pure."""

from math import ceil
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from rft.core.base import Record
from rft.core.update_spec import Auto, Update, UpdateWanted, resolve_update

LossType = Literal["dapo", "grpo", "bnpo", "dr_grpo", "gspo", "cispo"]
ROLLOUTS_PER_ROW = 8
"""Group size at compute_multiplier 1."""
PolicyPin = Literal["rollout", "turn"]
"""For how long a rollout keeps to the policy version that it samples from."""
MAX_EVAL_SAMPLES = 1_000
"""All rollouts of an evaluation are under way at once: a misplaced digit would take the memory of the host."""
MAX_STALENESS = 8
AUTO_STALENESS = 1
"""Rollouts and updates of about the same length never wait for each other then; what nothing else is known for."""


class Hyperparameters(UpdateWanted):
    """As the customer wrote them (contract section 1.2); `auto` where the platform decides."""

    n_epochs: Annotated[int, Field(ge=1, le=50)] | Auto = "auto"
    batch_size: Annotated[int, Field(ge=1, le=256)] | Auto = "auto"
    learning_rate_multiplier: Annotated[FiniteFloat, Field(gt=0)] | Auto = "auto"
    compute_multiplier: Annotated[FiniteFloat, Field(gt=1e-5, le=10)] | Auto = "auto"
    eval_interval: Annotated[int, Field(ge=1)] | Auto = "auto"
    eval_samples: Annotated[int, Field(ge=1)] | Auto = "auto"
    max_staleness: Annotated[int, Field(ge=0, le=MAX_STALENESS)] | Auto = 0
    policy_pin: PolicyPin = "rollout"
    reasoning_effort: Literal["default", "none", "minimal", "low", "medium", "high"] = "default"


class LoraSpec(Record):
    """Adapter shape. `learning_rate` is what learning_rate_multiplier 1 means."""

    rank: int = 16
    alpha: int = 32
    learning_rate: float = 2e-3
    target_modules: tuple[str, ...] | Literal["all-linear"] | None = None
    """Layers that get an adapter, by the last part of their name; None: those that suit the model."""


class ResolvedHyperparameters(Update):
    """What the run really uses."""

    n_epochs: int
    batch_size: int
    """Rows per step."""
    learning_rate_multiplier: float
    compute_multiplier: float
    eval_interval: int
    eval_samples: int
    """Rollouts per validation row and evaluation."""
    group_size: int
    """Rollouts per row and step."""
    steps: int
    """Optimizer steps of the whole run; the last batch wraps around so that no row is dropped."""
    max_staleness: int = 0
    """Steps by which the policy that samples may be behind the one that is updated: rollouts of so many further steps
    are under way while a step is trained."""
    policy_pin: PolicyPin = "rollout"
    """Until its end, or until the end of its turn: then the next one is of the newest version."""
    lora: LoraSpec | None = None
    """The adapter; None in jobs of earlier releases, and where there is none."""
    max_context_tokens: int | None = None
    """Prompt and completion at most; None where it was not known before the run."""

    def is_evaluated(self, step: int) -> bool:
        """Whether the validation rows are rolled out after a step: before the first, every so many, after the last."""
        return step % self.eval_interval == 0 or step == self.steps

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts that a step is trained on, without those of further rows."""
        return self.batch_size * self.group_size

    @property
    def burst(self) -> int:
        """Training rollouts that may be under way at once: what the customer's endpoints must bear."""
        return self.rollouts_per_step * (1 + self.max_staleness)

    def evaluation_burst(self, *rows: int) -> int:
        """Rollouts that an evaluation starts at once, of the largest of these files."""
        return max(rows, default=0) * self.eval_samples


def group_size(compute_multiplier: float) -> int:
    """G = max(2, round(8 x compute_multiplier)), halves rounded up."""
    return max(2, int(ROLLOUTS_PER_ROW * compute_multiplier + 0.5))


def resolve(
    wanted: Hyperparameters,
    *,
    train_rows: int,
    parameters: int | None = None,
    loss_type: LossType = "dapo",
    auto_staleness: int = AUTO_STALENESS,
) -> ResolvedHyperparameters:
    """Replace every `auto`; pure, so that what is reported at creation is what runs. Needs train_rows >= 1.

    `parameters`: of the base model; None where nobody knows. `auto_staleness`: what suits the job's endpoints.
    """
    batch_size = min(16, train_rows) if wanted.batch_size == "auto" else min(wanted.batch_size, train_rows)
    steps_per_epoch = ceil(train_rows / batch_size)
    n_epochs = max(1, min(50, ceil(30 / steps_per_epoch))) if wanted.n_epochs == "auto" else wanted.n_epochs
    steps = ceil(train_rows * n_epochs / batch_size)
    compute_multiplier = 1.0 if wanted.compute_multiplier == "auto" else wanted.compute_multiplier
    max_staleness = auto_staleness if wanted.max_staleness == "auto" else wanted.max_staleness
    update = resolve_update(
        wanted, steps=steps, parameters=parameters, is_stale=max_staleness > 0, is_capped=loss_type == "cispo"
    )
    return ResolvedHyperparameters(
        n_epochs=n_epochs,
        batch_size=batch_size,
        learning_rate_multiplier=1.0 if wanted.learning_rate_multiplier == "auto" else wanted.learning_rate_multiplier,
        compute_multiplier=compute_multiplier,
        eval_interval=max(1, steps // 6) if wanted.eval_interval == "auto" else wanted.eval_interval,
        eval_samples=1 if wanted.eval_samples == "auto" else wanted.eval_samples,
        max_staleness=max_staleness,
        policy_pin=wanted.policy_pin,
        group_size=group_size(compute_multiplier),
        steps=steps,
        **update.model_dump(),
    )
