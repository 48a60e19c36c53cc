"""A model's tokenizer with its chat template, from `tokenizer.json` alone."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import cast

from tokenizers import AddedToken, Tokenizer

from rft.chat.control_tokens import ControlToken, ControlTokens
from rft.chat.errors import ChatTemplateError, foreign_code
from rft.chat.template import ChatTemplate
from rft.chat.token_bytes import TokenBytes
from rft.core.base import JsonObject
from rft.core.foreign_json import encodable

_MARKUP = re.compile(r"<[|｜].+>|<.+[|｜]>|\[/?[A-Z_]+\]")
"""What control tokens look like that neither the tokenizer marks as special nor the template spells."""
_ANCHOR = "\U0010fffd\U0010fffc\U0010fffd"
"""Stands for a control token before a text; no text has it."""


class ModelTokenizer:
    """Implements `rft.chat.tokenizer.Tokenizer`; raises ChatTemplateError where tokenizer or template fail."""

    def __init__(
        self,
        tokenizer_json: str,
        template: ChatTemplate,
        stop_ids: Sequence[int],
        *,
        control_literals: Iterable[str] = (),
    ) -> None:
        """`control_literals`: those that a reader of tool calls gives a meaning, where they are tokens at all."""
        self.template = template
        self._stop_ids = tuple(stop_ids)
        self._json = tokenizer_json
        self._tokenizer = _read_tokenizer(tokenizer_json)
        self._added = [
            ControlToken(token.content, token_id, is_greedy_left=token.lstrip, is_greedy_right=token.rstrip)
            for token_id, token in sorted(self._tokenizer.get_added_tokens_decoder().items())
        ]
        read, special = frozenset(control_literals), self._special()
        self._control_tokens = [
            token
            for token in self._added
            if token.literal in special
            or token.literal in read
            or token.token_id in self._stop_ids
            or _MARKUP.fullmatch(token.literal)
            or (token.literal.strip() and token.literal in template.source)
        ]
        self._control = ControlTokens(self._control_tokens)
        self._refuse_control_from_text()

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn."""
        return self._stop_ids

    @property
    def vocabulary_size(self) -> int:
        """Every token id is below."""
        return 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values())

    @property
    def control_ids(self) -> frozenset[int]:
        """Tokens that no text is."""
        return frozenset(token.token_id for token in self._control_tokens)

    @property
    def control_literals(self) -> tuple[str, ...]:
        """What text never becomes a token of."""
        return tuple(token.literal for token in self._control_tokens if token.literal.strip(" \t\r\n▁"))

    def control_in(self, token_ids: Sequence[int]) -> list[str]:
        """The control tokens among the ids, spelled out."""
        literals = {token.token_id: token.literal for token in self._control_tokens}
        return [literals[token] for token in self._control.among(token_ids)]

    def encode(self, text: str) -> list[int]:
        """Token ids without added special tokens; literals of control tokens become these."""
        with foreign_code("tokenizing"):
            return self._tokenizer.encode(encodable(text), add_special_tokens=False).ids

    def encode_text(self, text: str) -> list[int]:
        """Token ids of a text that somebody wrote, none of them a control token."""
        if not self._control.found_in(text):
            ids = self.encode(text)
            if not self._control.among(ids):
                return ids
        return self._text_tokenizer.encode(encodable(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text with special tokens kept."""
        with foreign_code("reading tokens"):
            return self._tokenizer.decode(list(token_ids), skip_special_tokens=False)

    def token_bytes(self, token_id: int) -> bytes:
        """What one token stands for; empty for an id that the vocabulary does not have."""
        return self._token_bytes.of(token_id)

    @cached_property
    def _token_bytes(self) -> TokenBytes:
        return TokenBytes(self._tokenizer)

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
            return self.template.render(messages, tools, add_generation_prompt=add_generation_prompt)

        return self._control.encode(
            messages,
            tools,
            render=render,
            encode=self.encode,
            encode_text=self.encode_text,
            encode_after_control=self._encode_after_control,
            own_messages=own_messages,
        )

    def _encode_after_control(self, text: str) -> list[int]:
        return self._text_tokenizer.encode(encodable(text), is_after_control=True)

    @cached_property
    def _text_tokenizer(self) -> "_TextTokenizer":
        """Made when a text first spells a control token: it costs as much as the tokenizer itself."""
        return _TextTokenizer(self._json, {token.literal: token.token_id for token in self._control_tokens})

    def _special(self) -> set[str]:
        added = self._tokenizer.get_added_tokens_decoder().values()
        return {token.content for token in added if token.special}

    def _refuse_control_from_text(self) -> None:
        """No merge of text may lead to a control token; a tokenizer where one does cannot keep the two apart."""
        pre, model = self._tokenizer.pre_tokenizer, self._tokenizer.model
        for literal in self.control_literals:
            normalizer = self._tokenizer.normalizer
            normal = literal if normalizer is None else cast(str, normalizer.normalize_str(literal))
            pieces = [normal] if pre is None else [piece for piece, _ in pre.pre_tokenize_str(normal)]
            ids = [token.id for piece in pieces for token in model.tokenize(piece)]
            if self._control.among(ids):
                raise ChatTemplateError(
                    f"the tokenizer makes the control token {literal!r} of plain text, so that a tool's reply could"
                    " end a turn; such a model cannot be trained"
                )


def token_id(tokenizer_json: str, literal: str) -> int | None:
    """The id of a token by its whole text. Raises ChatTemplateError."""
    return _read_tokenizer(tokenizer_json).token_to_id(literal)


@lru_cache(maxsize=1)
def _read_tokenizer(tokenizer_json: str) -> Tokenizer:
    """Never changed: the formats that are tried on a model share it."""
    with foreign_code("reading tokenizer.json"):
        return Tokenizer.from_str(tokenizer_json)


class _TextTokenizer:
    """The same tokenizer without its control tokens; all others, such as runs of newlines, keep their ids."""

    def __init__(self, tokenizer_json: str, control: dict[str, int]) -> None:
        with foreign_code("reading tokenizer.json"):
            whole = json.loads(tokenizer_json)
            kept = [token for token in whole["added_tokens"] if token["content"] not in control]
            self._tokenizer = Tokenizer.from_str(json.dumps({**whole, "added_tokens": kept, "post_processor": None}))
            # Tokens that the vocabulary does not have are numbered anew, in order.
            self._ids = {self._tokenizer.token_to_id(token["content"]): token["id"] for token in kept}
            self._tokenizer.add_special_tokens([AddedToken(_ANCHOR, normalized=False)])

    def encode(self, text: str, *, is_after_control: bool = False) -> list[int]:
        """`is_after_control`: as behind a control token, where some tokenizers put no space before a word."""
        has_anchor = is_after_control and _ANCHOR not in text
        with foreign_code("tokenizing"):
            ids = self._tokenizer.encode(_ANCHOR + text if has_anchor else text, add_special_tokens=False).ids
        return [self._ids.get(token, token) for token in (ids[1:] if has_anchor else ids)]
