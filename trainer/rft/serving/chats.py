"""The chat of each policy: as its checkpoint was trained with, or as the base model has it."""

from functools import lru_cache
from pathlib import Path

from rft.chat.errors import ChatTemplateError
from rft.chat.model_folder import read_model_folder
from rft.chat.opening import open_chat, open_saved_chat
from rft.chat.saved_chat import CHAT_RECORD, are_other_weights, read_saved_chat, weights_fingerprint
from rft.chat.template_format import TemplateChatFormat
from rft.core.chat_spec import ChatSpec
from rft.serving_wire.records import AdapterRef

_REMEMBERED = 32


class Chats:
    """Opens each once. Raises UnusableModel, ChatTemplateError."""

    def __init__(self, base_model: str, chat: ChatSpec) -> None:
        self._base_model, self._chat = base_model, chat
        self._opened = lru_cache(_REMEMBERED)(self._open)

    def of(self, adapter: AdapterRef | None, reasoning_effort: str | None) -> TemplateChatFormat:
        """`reasoning_effort`: None for that of the training."""
        if adapter is None:
            return self._opened(None, None, reasoning_effort)
        saved = adapter.directory if (Path(adapter.directory) / CHAT_RECORD).is_file() else None
        if saved is not None:
            return self._opened(saved, None, reasoning_effort)
        chat = None if adapter.chat is None else adapter.chat.model_dump_json()
        return self._opened(None, chat, reasoning_effort or adapter.reasoning_effort)

    def _open(self, saved: str | None, chat: str | None, reasoning_effort: str | None) -> TemplateChatFormat:
        if saved is not None:
            self._refuse_other_weights(Path(saved))
            return open_saved_chat(Path(saved), reasoning_effort=reasoning_effort)
        spec = self._chat if chat is None else ChatSpec.model_validate_json(chat)
        return open_base_chat(self._base_model, spec, reasoning_effort or "default")

    def _refuse_other_weights(self, checkpoint: Path) -> None:
        earlier = read_saved_chat(checkpoint)
        if earlier is not None and are_other_weights(weights_fingerprint(self._base_model), earlier.record):
            raise ChatTemplateError(f"it was trained on other weights than {self._base_model} has now; put those back")


def open_base_chat(base_model: str, spec: ChatSpec, reasoning_effort: str) -> TemplateChatFormat:
    """As a run's, from the model's files alone where they lie here. Raises UnusableModel, ChatTemplateError."""
    folder = Path(base_model)
    if (folder / "tokenizer.json").is_file():
        return open_chat(
            read_model_folder(folder),
            wanted=spec.chat_format,
            options=spec.chat_template_kwargs,
            reasoning_effort=reasoning_effort,
        ).chat_format
    from rft.engines.tokenizer import load_tokenizer, open_model_chat  # late: transformers takes seconds

    return open_model_chat(base_model, load_tokenizer(base_model), spec, reasoning_effort=reasoning_effort).chat_format
