"""A run's chat: the same tokens from its first launch to its last, and in every checkpoint."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from rft.chat.opening import OpenedChat, saved_chat
from rft.chat.saved_chat import SavedChat, read_saved_chat
from rft.chat.template_format import TemplateChatFormat
from rft.chat.thinking_switch import default_thought_tokens
from rft.core.chat_spec import JobChat
from rft.core.errors import RunPaused
from rft.core.spec import RunSpec
from rft.engines.tokenizer import open_model_chat


@dataclass(frozen=True, slots=True)
class RunChat:
    """The chat format in use, and what checkpoints keep of it."""

    chat_format: TemplateChatFormat
    saved: SavedChat

    def with_thought_limit(self, spec: RunSpec) -> RunSpec:
        """Where the order names none, the one that its effort means for a template without levels."""
        budgets = spec.budgets
        if budgets.max_reasoning_tokens is not None:
            return spec
        limit = default_thought_tokens(self.saved.template, spec.reasoning_effort, budgets.max_tokens)
        return spec.model_copy(update={"budgets": budgets.model_copy(update={"max_reasoning_tokens": limit})})


def open_run_chat(
    spec: RunSpec, tokenizer: PreTrainedTokenizerBase, earlier_folder: Path | None, *, has_samples: bool = True
) -> RunChat:
    """The chat of the run's base model, as it was saved in `earlier_folder`: by the checkpoint that the run goes on
    from, or by its first launch. `has_samples`: whether anything is there that its weights sampled.

    Raises UnusableModel, and RunPaused where the model's files have changed so that the policy would read other tokens
    than it was trained on, or sit on other weights: put back, they let the run go on.
    """
    earlier = None if earlier_folder is None else read_saved_chat(earlier_folder)
    opened = _open(spec, tokenizer, None if earlier is None else earlier.record.rendered_as_of)
    saved = saved_chat(opened).with_weights_of(spec.base_model)
    changed = (
        _since_creation(spec.chat, opened) if earlier is None else saved.changed_since(earlier, or_weights=has_samples)
    )
    if changed:
        raise RunPaused(
            "model_changed",
            f"In the folder of the base model {spec.base_model}, this is no longer what it was when the job began:"
            f" {', '.join(changed)}. What was trained would not be itself with them. Put the earlier files"
            " back and resume the job, or create a new one.",
            "model",
        )
    return RunChat(opened.chat_format, saved)


def _open(spec: RunSpec, tokenizer: PreTrainedTokenizerBase, now: datetime | None) -> OpenedChat:
    return open_model_chat(spec.base_model, tokenizer, spec.chat, reasoning_effort=spec.reasoning_effort, now=now)


def _since_creation(chat: JobChat, opened: OpenedChat) -> tuple[str, ...]:
    """A first launch has only what the order's check found to be held against."""
    return () if chat.template_fingerprint in (None, opened.template.fingerprint) else ("the chat template",)
