"""What a chat format asks of a tokenizer."""

from collections.abc import Sequence
from typing import Protocol

from rft.core.base import JsonObject


class Tokenizer(Protocol):
    """What the chat format needs of a tokenizer; the trainer adapts a Hugging Face one."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn; the template must close assistant turns with one of them."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """Every token id is below."""
        ...

    @property
    def control_ids(self) -> frozenset[int]:
        """Tokens that no text is."""
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids without added special tokens; literals of control tokens become these."""
        ...

    def encode_text(self, text: str) -> list[int]:
        """Token ids of a text that somebody wrote: whatever it spells, none of them is a control token."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text with special tokens kept: `<tool_call>` may be one."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """What one token stands for: a part of a character, maybe, and with its space, which `decode` may leave out."""
        ...

    def apply_template(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
        *,
        add_generation_prompt: bool,
        own_messages: int = 0,
    ) -> list[int]:
        """The rendered conversation as token ids. `tools` may be empty.

        Control tokens are those of the template and of the first `own_messages`, which we wrote ourselves; all other
        text is text, see `rft.chat.control_tokens`.
        """
        ...
