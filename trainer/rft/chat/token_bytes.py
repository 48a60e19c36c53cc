"""The bytes that a token stands for, for readers: a token may be a part of a character, or a control token."""

import json
import re
from typing import cast

from tokenizers import Tokenizer

from rft.core.base import JsonObject

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SENTENCEPIECE_SPACE = "▁"


class TokenBytes:
    """Those of each token of one tokenizer. Joined, they are what it decodes, but for a space at the very beginning."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        kinds = _decoder_kinds(tokenizer)
        self._is_byte_level = "ByteLevel" in kinds
        self._has_marked_spaces = not kinds.isdisjoint({"Metaspace", "Replace"})
        # What is added and not special is text, and marks its spaces as the vocabulary does: Gemma 3 adds runs of them.
        self._added = {
            token_id: token.content
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
            if token.special or not self._has_marked_spaces
        }
        self._has_byte_tokens = "ByteFallback" in kinds

    def of(self, token_id: int) -> bytes:
        """Empty for an id that the vocabulary does not have: models may have more of them than their tokenizer."""
        if (added := self._added.get(token_id)) is not None:
            return added.encode()
        token = self._tokenizer.id_to_token(token_id)
        if token is None:
            return b""
        if self._is_byte_level:
            return b"".join(_BYTES.get(character) or character.encode() for character in token)
        if self._has_byte_tokens and (byte := _BYTE_TOKEN.fullmatch(token)) is not None:
            return bytes([int(byte[1], 16)])
        return (token.replace(_SENTENCEPIECE_SPACE, " ") if self._has_marked_spaces else token).encode()


def _decoder_kinds(tokenizer: Tokenizer) -> set[str]:
    """Types of the tokenizer's decoder and its parts."""
    if tokenizer.decoder is None:
        return set()
    decoder = cast(JsonObject, json.loads(tokenizer.decoder.__getstate__()))
    parts = cast(list[JsonObject], decoder.get("decoders", []))
    return {cast(str, part["type"]) for part in [decoder, *parts]}


def _byte_characters() -> dict[str, bytes]:
    """How byte-level vocabularies write bytes: what can be seen as itself, the others by characters from 256 on.

    Source: GPT-2's `bytes_to_unicode`.
    """
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(seen)]
    written = {chr(byte): bytes([byte]) for byte in seen}
    return written | {chr(256 + number): bytes([byte]) for number, byte in enumerate(others)}


_BYTES = _byte_characters()
