"""The losses that can be ordered: what they are in TRL's words, and what each token and each micro-batch counts.

Each step's rollouts make one update, so the policy in TRL's ratio is the one that it is held against, and the ratio is
1. What may differ is the sampler: its part of the ratio is a weight of its own, truncated at `IMPORTANCE_CAP`.
Sources: dapo arXiv 2503.14476, grpo 2402.03300, dr_grpo 2503.20783, gspo 2507.18071, cispo 2506.13585.
"""

from typing import Literal

from torch import Tensor

_MEANS_OVER_ROWS = {"grpo", "dr_grpo", "gspo", "sapo", "luspo"}
"""Losses that TRL averages over the rows of a micro-batch; `bnpo` it averages over tokens that way."""


def trl_loss(loss_type: str) -> str:
    """TRL's name of the loss; gspo is grpo with one ratio for each rollout."""
    return "grpo" if loss_type == "gspo" else loss_type


def ratio_level(loss_type: str) -> Literal["token", "sequence"]:
    """What has a ratio of its own."""
    return "sequence" if loss_type == "gspo" else "token"


def share_of_step(loss_type: str, *, rows: int, tokens: int, step_rows: int, step_tokens: int) -> float:
    """What a micro-batch's loss counts in its step's, so that the step's comes out however it is cut.

    `tokens`: sampled ones. 1 where TRL divides by the step's own figures.
    """
    if loss_type in _MEANS_OVER_ROWS:
        return rows / max(step_rows, 1)
    return tokens / max(step_tokens, 1) if loss_type == "bnpo" else 1.0


def importance_ratios(loss_type: str, trainer_B_T: Tensor, sampler_B_T: Tensor, mask_B_T: Tensor) -> Tensor:
    """How much likelier each sampled token is to the trainer than it was to the sampler; 1 for all others.

    With gspo it is the same for all tokens of a rollout: the geometric mean of theirs.
    """
    differences_B_T = (trainer_B_T - sampler_B_T) * mask_B_T
    if ratio_level(loss_type) == "sequence":
        tokens_B_1 = mask_B_T.sum(-1, keepdim=True).clamp(min=1)
        differences_B_T = differences_B_T.sum(-1, keepdim=True) / tokens_B_1 * mask_B_T
    return differences_B_T.exp()
