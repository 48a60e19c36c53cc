"""How the policy learns, as orders say it: hyperparameters, budgets, the adapter, when to end."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rft.core.hyperparameters import MAX_EVAL_SAMPLES, MAX_STALENESS, PolicyPin
from rft.core.update_spec import MAX_RESAMPLINGS
from rft.platform.api.wire import OpenBody, PositiveSeconds, must_be

MAX_COUNT = 2**53 - 1
"""Of steps, tokens and evaluations: the largest whole number that every reader of JSON has exactly (RFC 8259, 6)."""
_AUTO = Literal["auto"]

_Count: TypeAlias = Annotated[int, Field(ge=1, le=MAX_COUNT, strict=True)]
Count: TypeAlias = Annotated[_Count, must_be(f"a whole number from 1 to {MAX_COUNT}")]
_Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
MaxImportanceGap: TypeAlias = Annotated[_Positive, must_be("a number above 0")]


class Hyperparameters(OpenBody):
    """Contract section 1.2; every `auto` is resolved once the rows are counted."""

    n_epochs: Annotated[
        Annotated[int, Field(ge=1, le=50, strict=True)] | _AUTO, must_be("a whole number from 1 to 50, or 'auto'")
    ] = "auto"
    batch_size: Annotated[
        Annotated[int, Field(ge=1, le=256, strict=True)] | _AUTO, must_be("a whole number from 1 to 256, or 'auto'")
    ] = "auto"
    learning_rate_multiplier: Annotated[_Positive | _AUTO, must_be("a number above 0, or 'auto'")] = "auto"
    compute_multiplier: Annotated[
        Annotated[float, Field(gt=1e-5, le=10, allow_inf_nan=False, strict=True)] | _AUTO,
        must_be("a number above 0.00001, 10 at most, or 'auto'"),
    ] = "auto"
    eval_interval: Annotated[_Count | _AUTO, must_be(f"a whole number from 1 to {MAX_COUNT}, or 'auto'")] = "auto"
    eval_samples: Annotated[
        Annotated[int, Field(ge=1, le=MAX_EVAL_SAMPLES, strict=True)] | _AUTO,
        must_be(f"a whole number from 1 to {MAX_EVAL_SAMPLES}, or 'auto'"),
    ] = "auto"
    max_staleness: Annotated[
        Annotated[int, Field(ge=0, le=MAX_STALENESS, strict=True)] | _AUTO,
        must_be(f"a whole number from 0 to {MAX_STALENESS}, or 'auto'"),
    ] = 0
    """Steps by which the policy that samples may be behind the one that is updated; 0: they take turns."""
    policy_pin: PolicyPin = "rollout"
    """With `turn`, each turn of a rollout is sampled by the newest policy, and not by the one it began with."""
    reasoning_effort: Literal["default", "none", "minimal", "low", "medium", "high"] = "default"
    temperature: Annotated[
        Annotated[float, Field(ge=0.01, le=2, allow_inf_nan=False, strict=True)] | _AUTO,
        must_be("a number from 0.01 to 2, or 'auto'"),
    ] = "auto"
    """Ours, like the rest: the temperature that rollouts are sampled at."""
    beta: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)] | _AUTO,
        must_be("a number from 0, or 'auto'"),
    ] = "auto"
    """Weight of the KL divergence from the base model."""
    epsilon: Annotated[_Positive | _AUTO, must_be("a number above 0, or 'auto'")] = "auto"
    """Clip range of importance weights below 1."""
    epsilon_high: Annotated[_Positive | _AUTO, must_be("a number above 0, or 'auto'")] = "auto"
    """Clip range of importance weights above 1; with cispo the largest weight itself."""
    warmup_steps: Annotated[
        Annotated[int, Field(ge=0, le=MAX_COUNT, strict=True)] | _AUTO,
        must_be(f"a whole number from 0 to {MAX_COUNT}, or 'auto'"),
    ] = "auto"
    lr_scheduler_type: Literal["linear", "cosine", "constant", "auto"] = "auto"
    resample_zero_variance: Annotated[
        Annotated[int, Field(ge=0, le=MAX_RESAMPLINGS, strict=True)] | _AUTO,
        must_be(f"a whole number from 0 to {MAX_RESAMPLINGS}, or 'auto'"),
    ] = "auto"
    """Rounds of further rows in a step at most, in place of groups whose rewards are all equal."""


class BudgetsWanted(OpenBody):
    """Ours: what one rollout may use up."""

    max_tokens: Count | None = None
    """Tokens the policy may sample over all turns."""
    max_reasoning_tokens: Count | None = None
    """Of one turn's thoughts; longer ones are closed, and the model goes on with its answer."""
    deadline_s: PositiveSeconds | None = None
    max_context_tokens: (
        Annotated[
            Annotated[int, Field(ge=256, le=MAX_COUNT, strict=True)], must_be(f"a whole number from 256 to {MAX_COUNT}")
        ]
        | None
    ) = None
    """Prompt and completion at most; never more than the platform allows for the model."""


class LoraWanted(OpenBody):
    """Ours: the adapter's shape."""

    rank: (
        Annotated[Annotated[int, Field(ge=1, le=512, strict=True)], must_be("a whole number from 1 to 512")] | None
    ) = None
    alpha: Count | None = None
    learning_rate: Annotated[_Positive, must_be("a number above 0")] | None = None
    """What learning_rate_multiplier 1 means."""
    target_modules: (
        Annotated[
            Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=64)]
            | Literal["all-linear"],
            must_be("a list of 1 to 64 names of layers, or 'all-linear'"),
        ]
        | None
    ) = None
    """Layers that get an adapter, by the last part of their name."""


class EarlyStopWanted(OpenBody):
    """Ours: when a job may end before its last step. Each rule counts alone."""

    target_reward: Annotated[Annotated[float, Field(allow_inf_nan=False, strict=True)], must_be("a number")] | None = (
        None
    )
    """A mean validation reward of at least this."""
    plateau_evaluations: Count | None = None
    """So many evaluations in a row without a better validation reward."""
    overfitting_evaluations: (
        Annotated[
            Annotated[int, Field(ge=2, le=MAX_COUNT, strict=True)], must_be(f"a whole number from 2 to {MAX_COUNT}")
        ]
        | None
    ) = None
    """So many evaluations in a row at which validation fell while training rose."""
