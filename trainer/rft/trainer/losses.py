"""The losses that can be ordered: what they are in TRL's words, and what each token and each micro-batch counts.

Each step's rollouts make one update, so the policy in TRL's ratio is the one that it is held against, and the ratio is
1. What may differ is the sampler: its part of the ratio is a weight of its own, truncated at `IMPORTANCE_CAP`.
The KL term is ours as a whole: TRL has no weight for it where another policy sampled.
Sources: dapo arXiv 2503.14476, grpo 2402.03300, dr_grpo 2503.20783, gspo 2507.18071, cispo 2506.13585,
the KL term 2512.02556.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rft.core.spec import IMPORTANCE_CAP

RatioLevel = Literal["token", "sequence"]

_MEANS_OVER_ROWS = {"grpo", "dr_grpo", "gspo", "sapo"}
"""Losses that TRL averages over the rows of a micro-batch; `bnpo` it averages over tokens that way."""


def trl_loss(loss_type: str) -> str:
    """TRL's name of the loss; gspo is grpo with one ratio for each rollout."""
    return "grpo" if loss_type == "gspo" else loss_type


def ratio_level(loss_type: str) -> RatioLevel:
    """What has a ratio of its own."""
    return "sequence" if loss_type == "gspo" else "token"


def share_of_step(loss_type: str, *, rows: int, tokens: int, step_rows: int, step_tokens: int) -> float:
    """What a micro-batch's loss counts in its step's, so that the step's comes out however it is cut.

    `tokens`: sampled ones. 1 where TRL divides by the step's own figures.
    """
    if loss_type in _MEANS_OVER_ROWS:
        return rows / max(step_rows, 1)
    return tokens / max(step_tokens, 1) if loss_type == "bnpo" else 1.0


def token_shares(loss_type: str, mask_B_T: Tensor, *, step_rows: int, step_tokens: int, max_tokens: int) -> Tensor:
    """What each sampled token of a micro-batch counts in its step's loss, all others 0.

    `max_tokens`: what a rollout may sample.
    """
    if loss_type == "dr_grpo":
        return mask_B_T / (max_tokens * max(step_rows, 1))
    if loss_type in _MEANS_OVER_ROWS:
        return mask_B_T / mask_B_T.sum(-1, keepdim=True).clamp(min=1) / max(step_rows, 1)
    return mask_B_T / max(step_tokens, 1)


@dataclass(frozen=True, slots=True)
class ClipRange:
    """How far a ratio may be from 1 on the side that its advantage pulls it to; None: as far as it is."""

    low: float | None = None
    high: float | None = None


UNCLIPPED = ClipRange()


@dataclass(frozen=True, slots=True)
class Weights:
    """What the sampled tokens of a micro-batch weigh."""

    weights_B_T: Tensor
    is_truncated_B_T: Tensor
    """Beyond the cap."""
    is_clipped_B_T: Tensor
    """Beyond the clip range: these weigh nothing."""


def importance_weights(loss_type: str, ratios_B_T: Tensor, advantages_B: Tensor, clip: ClipRange) -> Weights:
    """Ratios of trainer over sampler, truncated and clipped.

    As in PPO, a token has no say any more once its ratio is beyond the range and its advantage would pull it further.
    cispo drops none: there `clip.high` is the cap.
    """
    is_clipped_B_T = torch.zeros_like(ratios_B_T, dtype=torch.bool)
    cap = IMPORTANCE_CAP
    if loss_type == "cispo":
        cap = clip.high or IMPORTANCE_CAP
    else:
        pulls_up_B_1 = advantages_B[:, None] > 0
        if clip.high is not None:
            is_clipped_B_T |= (ratios_B_T > 1 + clip.high) & pulls_up_B_1
        if clip.low is not None:
            is_clipped_B_T |= (ratios_B_T < 1 - clip.low) & ~pulls_up_B_1
    return Weights(ratios_B_T.clamp(max=cap).masked_fill(is_clipped_B_T, 0.0), ratios_B_T > cap, is_clipped_B_T)


def importance_ratios(level: RatioLevel, trainer_B_T: Tensor, sampler_B_T: Tensor, mask_B_T: Tensor) -> Tensor:
    """How much likelier each sampled token is to the trainer than it was to the sampler; 1 for all others.

    At the level of sequences it is the same for all tokens of a rollout: the geometric mean of theirs.
    """
    differences_B_T = (trainer_B_T - sampler_B_T) * mask_B_T
    if level == "sequence":
        tokens_B_1 = mask_B_T.sum(-1, keepdim=True).clamp(min=1)
        differences_B_T = differences_B_T.sum(-1, keepdim=True) / tokens_B_1 * mask_B_T
    return differences_B_T.exp()


def kl_divergences(loss_type: str, trainer_B_T: Tensor, base_B_T: Tensor, ratios_B_T: Tensor) -> Tensor:
    """What each sampled token tells of the KL divergence from the base model: an estimate that is never below 0.

    `trainer_B_T` carries the gradient. `ratios_B_T`: each token's own, trainer over sampler, without gradient. The
    estimate times trainer over sampler has the divergence as its mean, whoever sampled, and its gradient has that of
    the divergence (DeepSeek-V3.2, section 3.1). Truncated as in the loss, but never clipped: no advantage pulls here.
    With gspo the ratio counts and its gradient does not, as tokens have none of their own there.
    """
    behind_B_T = base_B_T - trainer_B_T
    estimates_B_T = ratios_B_T.clamp(max=IMPORTANCE_CAP) * (behind_B_T.exp() - behind_B_T - 1)
    if ratio_level(loss_type) == "sequence":
        return estimates_B_T
    return estimates_B_T * (trainer_B_T - trainer_B_T.detach()).exp()
