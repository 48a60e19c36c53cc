"""Runs of a `PolicyTrainer` over given rows, for tests of what they come to."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase, TrainerCallback

from rft.core.hyperparameters import LoraSpec
from rft.core.step_record import Optimization
from rft.core.turns import Trace
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.samples import TrainingRow, training_rows
from rft.trainer.update_settings import UpdateSettings
from tests.shared.by_hand import group_of, tiny_model

Gradients = dict[str, torch.Tensor]
LOSSES = ["dapo", "bnpo", "grpo", "dr_grpo", "cispo", "sapo"]
LORA = LoraSpec(rank=4, alpha=8)


class Capture(TrainerCallback):
    """Clones the gradients just before the optimizer uses them."""

    def __init__(self) -> None:
        self.gradients: Gradients = {}

    def on_pre_optimizer_step(self, *args: Any, model: torch.nn.Module, **kwargs: Any) -> None:
        self.gradients = {
            name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
        }


class Update:
    """One run of a `PolicyTrainer` over given rows per step."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        steps: Sequence[Sequence[TrainingRow]],
        path: Path,
        *,
        loss_type: str = "dapo",
        tokens: int | None = None,
        learning_rate: float = 1e-2,
        resume: Path | None = None,
        total: int | None = None,
        is_weighted: bool = False,
        max_completion_tokens: int = 512,
        **more: Any,
    ) -> None:
        """`more`: further fields of the settings."""
        self.figures: list[Optimization] = []
        self.weights: list[Gradients] = []
        model = tiny_model(tokenizer)
        settings = UpdateSettings(
            steps=total or len(steps),
            learning_rate=learning_rate,
            lora=LORA,
            loss_type=loss_type,
            temperature=1.0,
            seed=11,
            micro_batch_tokens=tokens,
            is_weighted=is_weighted,
            max_completion_tokens=max_completion_tokens,
            **more,
        )
        self.trainer = PolicyTrainer(
            model, tokenizer, settings, output_dir=path, source=lambda step: steps[step - 1], on_saved=self._saved
        )
        capture = Capture()
        wide_adapter(self.trainer.policy)
        self.trainer.add_callback(capture)
        with _until_rows_end(len(steps), total):
            self.trainer.train(resume_from_checkpoint=str(resume) if resume else None)
        self.gradients = capture.gradients

    def _saved(self, step: int, path: Path, optimization: Optimization) -> None:
        self.figures.append(optimization)
        self.weights.append(trainable(self.trainer.policy))
        assert (path / "adapter_model.safetensors").exists()


@contextmanager
def _until_rows_end(given: int, total: int | None) -> Generator[None]:
    """A run that is cut short ends when its rows do."""
    if total is None or total == given:
        yield
        return
    with pytest.raises(IndexError):
        yield


def trainable(model: torch.nn.Module) -> Gradients:
    return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}


def wide_adapter(model: torch.nn.Module) -> None:
    """B starts at zero, and with it the gradient of A: give both something to show."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)


def ignore(step: int, path: Path, optimization: Optimization) -> None:
    del step, path, optimization


def worst_difference(left: Gradients, right: Gradients) -> float:
    assert left.keys() == right.keys() != set()
    return max(float((left[name] - right[name]).abs().max()) for name in left)


def rows_of(traces: Sequence[Trace], rewards: Sequence[float | None]) -> list[TrainingRow]:
    return training_rows([group_of(traces, rewards)])
