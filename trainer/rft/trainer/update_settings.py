"""How a policy is updated, in our words and in TRL's."""

from dataclasses import dataclass
from pathlib import Path

import torch
from trl.trainer.grpo_config import GRPOConfig

from rft.core.hyperparameters import LoraSpec
from rft.core.spec import IMPORTANCE_CAP, Budgets
from rft.core.update_spec import Schedule
from rft.trainer.losses import UNCLIPPED, ClipRange, ratio_level, trl_loss

_SCHEDULES = {"linear": "linear", "cosine": "cosine", "constant": "constant_with_warmup"}
"""As transformers calls them."""


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """How the policy is updated."""

    steps: int
    learning_rate: float
    lora: LoraSpec
    loss_type: str
    temperature: float
    seed: int
    micro_batch_tokens: int | None = None
    """Of one micro-batch at most, padding included; None: found by the free memory."""
    max_completion_tokens: int = Budgets().max_tokens
    """What a rollout may sample: dr_grpo divides by it."""
    beta: float = 0.0
    """Weight of the KL divergence from the base model."""
    clip: ClipRange = UNCLIPPED
    warmup_steps: int = 0
    schedule: Schedule = "linear"
    is_weighted: bool = False
    """Whether each token's loss is weighted by how much likelier it is to the trainer than it was to the sampler, up to
    `IMPORTANCE_CAP`. Not needed where both compute in the same arithmetic."""
    keeps_ratios: bool = True
    """Whether somebody wants to know that of every token."""
    base_dtype: torch.dtype = torch.float32
    """Of the base model's weights."""
    ranks_on_host: int = 1
    """Processes that share the memory of its CPU."""
    is_sharded: bool = False
    """Whether each of several ranks keeps a part of every layer of the base model."""
    gives_memory_back: bool = False
    """Whether somebody else computes on the GPU between updates."""


def to_grpo_config(settings: UpdateSettings, output_dir: Path) -> GRPOConfig:
    """TRL's generation settings are idle: two blank rows per step are the fewest it accepts."""
    return GRPOConfig(
        output_dir=str(output_dir),
        max_steps=settings.steps,
        per_device_train_batch_size=2,
        num_generations=2,
        gradient_accumulation_steps=1,
        steps_per_generation=1,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=_SCHEDULES[settings.schedule],
        warmup_steps=settings.warmup_steps,
        adam_beta1=0.9,
        adam_beta2=0.98,
        weight_decay=0.0,
        max_grad_norm=1.0,
        beta=0.0,  # The KL term is ours: TRL's has no weight where another policy sampled.
        loss_type=trl_loss(settings.loss_type),
        importance_sampling_level=ratio_level(settings.loss_type),
        epsilon_high=IMPORTANCE_CAP,  # Idle: TRL's own ratio is 1. But cispo multiplies by it where it is smaller.
        max_completion_length=settings.max_completion_tokens,
        temperature=settings.temperature,
        seed=settings.seed % 2**32,
        shuffle_dataset=False,
        bf16=False,
        use_cpu=not torch.cuda.is_available(),
        gradient_checkpointing=False,  # Switched on for those micro-batches that need it.
        save_strategy="steps",
        save_steps=1,
        logging_steps=1,
        ignore_data_skip=True,
        disable_tqdm=True,
        report_to=[],
    )
