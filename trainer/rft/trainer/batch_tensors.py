"""Training rows as the tensors that TRL's loss reads."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rft.trainer.samples import TrainingRow


def batch_tensors(rows: Sequence[TrainingRow], *, pad_id: int, step_tokens: int) -> dict[str, Tensor]:
    """One micro-batch, padded on the right; a blank row where there are none.

    The first token stands for the prompt, the rest for the completion. `step_tokens`: sampled tokens of the whole step.
    """
    width = max((row.tokens for row in rows), default=2)
    ids = torch.full((max(len(rows), 1), width), pad_id, dtype=torch.long)
    is_sampled, logprobs = torch.zeros_like(ids), torch.zeros(ids.shape)
    for i, row in enumerate(rows):
        start, end = len(row.prompt_ids), row.tokens
        ids[i, :end] = torch.tensor([*row.prompt_ids, *row.completion_ids_T])
        is_sampled[i, start:end] = torch.tensor(row.mask_T)
        logprobs[i, start:end] = torch.tensor(row.logprobs_T)
    return {
        "prompt_ids": ids[:, :1],
        "prompt_mask": torch.ones_like(ids[:, :1]),
        "completion_ids": ids[:, 1:],
        "completion_mask": torch.ones_like(ids[:, 1:]),
        "tool_mask": is_sampled[:, 1:],
        "sampling_per_token_logps": logprobs[:, 1:],
        "advantages": torch.tensor([row.advantage for row in rows] or [0.0]),
        "num_items_in_batch": torch.tensor(step_tokens),
    }
