"""A Hugging Face tokenizer as the agent loop needs it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.models.auto.tokenization_auto import get_tokenizer_config

from rft.chat.control_tokens import ControlToken, ControlTokens
from rft.core.base import JsonObject
from rft.core.errors import RunFailed

_GENERIC = {"PreTrainedTokenizerFast", "TokenizersBackend"}


class UnusableModel(RunFailed):
    """The base model cannot be trained as it is."""

    def __init__(self, message: str) -> None:
        super().__init__("unusable_model", message, "model")


def load_tokenizer(base_model: str) -> PreTrainedTokenizerBase:
    """The tokenizer as it was saved. Raises UnusableModel.

    AutoTokenizer trusts the architecture more than the saved files: for a Qwen2 model with a tokenizer of its own it
    silently puts Qwen2's splitting rules in place. A tokenizer saved as the generic class is loaded as that class.
    """
    try:
        saved_class = get_tokenizer_config(base_model).get("tokenizer_class")
        loader = PreTrainedTokenizerFast if saved_class in _GENERIC else AutoTokenizer
        tokenizer = loader.from_pretrained(base_model)
    except (OSError, ValueError) as error:
        raise UnusableModel(f"the tokenizer of {base_model} cannot be loaded: {error}") from error
    if tokenizer.chat_template is None:
        raise UnusableModel(f"the tokenizer of {base_model} has no chat template")
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


class ChatTokenizer:
    """The agent loop's `Tokenizer` over a Hugging Face one."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stop_ids: tuple[int, ...]) -> None:
        self._tokenizer = tokenizer
        self._stop_ids = stop_ids
        self._control = ControlTokens(
            ControlToken(token.content, token_id, is_greedy_left=token.lstrip, is_greedy_right=token.rstrip)
            for token_id, token in tokenizer.added_tokens_decoder.items()
        )

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn."""
        return self._stop_ids

    def encode(self, text: str) -> list[int]:
        """Token ids without added special tokens; literals of control tokens become these."""
        return self._tokenizer.encode(text, add_special_tokens=False)

    def encode_text(self, text: str) -> list[int]:
        """Token ids of a text that somebody wrote, none of them a control token.

        The tokenizer's parts are asked one by one: as a whole it would look for added tokens first.
        """
        backend = cast(Tokenizer, cast(Any, self._tokenizer).backend_tokenizer)
        normal = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
        pieces = [normal] if backend.pre_tokenizer is None else _pre_tokenized(backend, normal)
        return [token.id for piece in pieces for token in backend.model.tokenize(piece)]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text with special tokens kept."""
        text = self._tokenizer.decode(list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return cast(str, text)

    def apply_template(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
        *,
        add_generation_prompt: bool,
        own_messages: int = 0,
    ) -> list[int]:
        """The rendered conversation as token ids."""

        def render(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> str:
            text = self._tokenizer.apply_chat_template(
                cast("list[dict[str, Any]]", list(messages)),
                tools=cast("list[Any]", list(tools)) or None,
                add_generation_prompt=add_generation_prompt,
                tokenize=False,
            )
            return cast(str, text)

        return self._control.encode(
            messages,
            tools,
            render=render,
            encode=self.encode,
            encode_text=self.encode_text,
            own_messages=own_messages,
        )


def _pre_tokenized(backend: Tokenizer, text: str) -> list[str]:
    return [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(text)]
