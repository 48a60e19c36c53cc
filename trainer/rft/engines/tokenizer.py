"""The base model's tokenizer: for the optimizer by transformers, for the agent loop by `rft.chat`."""

from datetime import datetime
from pathlib import Path
from typing import Any, cast

from huggingface_hub import snapshot_download
from tokenizers import Tokenizer
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from rft.chat.errors import ChatTemplateError
from rft.chat.formats import CONTROL_LITERALS
from rft.chat.model_folder import ModelFolder, read_model_folder
from rft.chat.model_tokenizer import ModelTokenizer
from rft.chat.opening import OpenedChat, open_chat
from rft.chat.template import ChatTemplate
from rft.chat.token_bytes import TokenBytes
from rft.core.chat_spec import ChatSpec
from rft.core.errors import RunFailed

_CHAT_FILES = ["*.json", "*.jinja", "additional_chat_templates/*.jinja"]


class UnusableModel(RunFailed):
    """The base model cannot be trained as it is."""

    def __init__(self, message: str) -> None:
        super().__init__("unusable_model", message, "model")


def load_tokenizer(base_model: str) -> PreTrainedTokenizerBase:
    """The tokenizer as it was saved, which may have no chat template: there may be one of ours. Raises UnusableModel.

    AutoTokenizer trusts the architecture more than the saved files: for a Qwen2 model with a tokenizer of its own it
    silently puts Qwen2's splitting rules in place, and it reads DeepSeek V3's with those of Llama 2. Where there is a
    `tokenizer.json`, it is loaded as it is.
    """
    try:
        folder = _folder(base_model)
        loader = PreTrainedTokenizerFast if (folder / "tokenizer.json").is_file() else AutoTokenizer
        tokenizer = loader.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise UnusableModel(f"the tokenizer of {base_model} cannot be loaded: {error}") from error
    if tokenizer.eos_token_id is None:
        raise UnusableModel(f"the tokenizer of {base_model} has no end-of-sequence token")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def stop_ids(base_model: str, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The tokenizer's end of sequence first, then whatever the model's generation config adds."""
    wanted = [cast(int, tokenizer.eos_token_id)]
    if (Path(base_model) / "generation_config.json").exists():
        extra = GenerationConfig.from_pretrained(base_model).eos_token_id
        wanted += extra if isinstance(extra, list) else [] if extra is None else [extra]
    return tuple(dict.fromkeys(wanted))


def open_model_chat(
    base_model: str,
    tokenizer: PreTrainedTokenizerBase,
    chat: ChatSpec | None = None,
    *,
    reasoning_effort: str = "default",
    now: datetime | None = None,
) -> OpenedChat:
    """The chat format that fits the model, proven by a round trip. Raises UnusableModel.

    `now`: what templates that tell the date tell.
    """
    wanted = chat or ChatSpec()
    try:
        folder = _folder(base_model)
        has_json = (folder / "tokenizer.json").is_file()
        return open_chat(
            read_model_folder(folder) if has_json else _converted(tokenizer, stop_ids(str(folder), tokenizer)),
            wanted=wanted.chat_format,
            options=wanted.chat_template_kwargs,
            reasoning_effort=reasoning_effort,
            now=now,
        )
    except ChatTemplateError as error:
        raise UnusableModel(f"the model {base_model} cannot be trained to use tools: {error}") from error


def token_bytes(tokenizer: PreTrainedTokenizerBase) -> TokenBytes:
    """What its tokens stand for."""
    return TokenBytes(_backend(tokenizer))


class ChatTokenizer(ModelTokenizer):
    """The agent loop's `Tokenizer` over one that transformers holds."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stop_ids: tuple[int, ...]) -> None:
        folder = _converted(tokenizer, stop_ids)
        template = ChatTemplate(folder.template or "", folder.special_tokens)
        super().__init__(folder.tokenizer_json, template, stop_ids, control_literals=CONTROL_LITERALS)


def _converted(tokenizer: PreTrainedTokenizerBase, stop_ids: tuple[int, ...]) -> ModelFolder:
    """What a folder would say that was saved from this tokenizer."""
    template = cast("str | None", tokenizer.chat_template)
    return ModelFolder(_backend(tokenizer).to_str(), template, dict(tokenizer.special_tokens_map), stop_ids, None)


def _backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    return cast(Tokenizer, cast(Any, tokenizer).backend_tokenizer)


def _folder(base_model: str) -> Path:
    """Where the model's files lie; those of a hub name are fetched first, unless they are here. Raises OSError."""
    folder = Path(base_model)
    return folder if folder.is_dir() else Path(snapshot_download(base_model, allow_patterns=_CHAT_FILES))
