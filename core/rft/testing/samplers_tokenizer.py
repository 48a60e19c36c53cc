"""A tokenizer of bytes with a ChatML template, so that rollouts can be tested without a model."""

import json
import re
from collections.abc import Sequence

from rft.chat.control_tokens import ControlToken, ControlTokens
from rft.core.base import JsonObject

SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
_CONTROL = ControlTokens(ControlToken(literal, token_id) for token_id, literal in enumerate(SPECIALS))
_SPLIT = re.compile("(" + "|".join(re.escape(special) for special in SPECIALS) + ")")


class ByteTokenizer:
    """Implements `rft.chat.tokenizer.Tokenizer`: one token per UTF-8 byte, one per special token.

    The template is Qwen's in small: tools as one JSON line each in the system turn, all results of a turn in one user
    turn. It knows `developer` no more than Qwen's does.
    """

    stop_id = SPECIALS.index("<|im_end|>")
    vocabulary_size = 256 + len(SPECIALS)

    control_ids = frozenset(range(len(SPECIALS)))

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """`<|im_end|>`."""
        return (self.stop_id,)

    def encode(self, text: str) -> list[int]:
        """Token ids; special tokens in the text become one token each."""
        ids: list[int] = []
        for piece in _SPLIT.split(text):
            if piece in SPECIALS:
                ids.append(SPECIALS.index(piece))
            else:
                ids.extend(self.encode_text(piece))
        return ids

    def encode_text(self, text: str) -> list[int]:
        """Token ids; nothing in the text is a special token."""
        return [len(SPECIALS) + byte for byte in text.encode()]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text with special tokens kept; bytes that are no UTF-8 become replacement characters."""
        return b"".join(map(self.token_bytes, token_ids)).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """One byte, or those of a special token's name."""
        return SPECIALS[token_id].encode() if token_id < len(SPECIALS) else bytes([token_id - len(SPECIALS)])

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
            return self.render(messages, tools, add_generation_prompt=add_generation_prompt)

        return _CONTROL.encode(
            messages,
            tools,
            render=render,
            encode=self.encode,
            encode_text=self.encode_text,
            own_messages=own_messages,
        )

    def render(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject], *, add_generation_prompt: bool
    ) -> str:
        """The rendered conversation as text."""
        system = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        text = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
        for i, message in enumerate(messages):
            is_first = i == 0 or messages[i - 1]["role"] != "tool"
            is_last = i + 1 == len(messages) or messages[i + 1]["role"] != "tool"
            text += _rendered(message, is_first_result=is_first, is_last_result=is_last)
        return text + ("<|im_start|>assistant\n" if add_generation_prompt else "")


def _rendered(message: JsonObject, *, is_first_result: bool, is_last_result: bool) -> str:
    content = message["content"]
    match message["role"]:
        case "tool":
            start, end = "<|im_start|>user" * is_first_result, "<|im_end|>\n" * is_last_result
            return f"{start}\n<tool_response>\n{content}\n</tool_response>{end}"
        case "assistant":
            calls = message.get("tool_calls")
            blocks = "".join(
                f"\n<tool_call>\n{json.dumps(call['function'], ensure_ascii=False)}\n</tool_call>"
                for call in (calls if isinstance(calls, list) else [])
                if isinstance(call, dict)
            )
            return f"<|im_start|>assistant\n{content}{blocks}<|im_end|>\n"
        case "user" | "system" as role:
            return f"<|im_start|>{role}\n{content}<|im_end|>\n"
        case _:
            return ""
