"""What of a step happens in TRL's own loop, after its gradient is there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rft.core.step_record import Optimization
from rft.trainer.step_figures import StepFigures

OnSaved = Callable[[int, Path, Optimization], None]
"""Called with the step, its checkpoint's directory and its figures once the adapter is on disk."""


class Stepping(Protocol):
    """The trainer whose loop it is."""

    figures: StepFigures

    def checkpoint_of(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        ...


class StepHooks(TrainerCallback):
    """Leaves the weights alone where a step has no rows, and passes its figures on."""

    def __init__(self, trainer: Stepping, on_saved: OnSaved, is_over: Callable[[], bool]) -> None:
        self._trainer, self._on_saved, self._is_over = trainer, on_saved, is_over

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        figures = self._trainer.figures
        figures.learning_rate = float(kwargs["optimizer"].param_groups[0]["lr"])
        if figures.rows == 0:
            # AdamW passes over parameters without gradient; a gradient of zero would still move them by momentum.
            for parameter in kwargs["model"].parameters():
                parameter.grad = None

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if "grad_norm" in kwargs["logs"]:
            self._trainer.figures.grad_norm = float(kwargs["logs"]["grad_norm"])

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        trainer = self._trainer
        self._on_saved(state.global_step, trainer.checkpoint_of(state.global_step), trainer.figures.optimization())
        control.should_training_stop = control.should_training_stop or self._is_over()
