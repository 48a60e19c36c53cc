"""Samples that are JSON of a schema, or text by some rules: which tokens may come next, by llguidance."""

import json
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from rft.chat.closed_schema import closed
from rft.chat.tokenizer import Tokenizer
from rft.core.errors import RftError
from rft.core.grammar import Grammar

_SPACE = r" |\n {0,32}"
"""Between values at most: one that may print as many as it likes may never end."""


class GrammarNotKept(RftError):
    """No sample can be held to the schema, or to the rules; the message says why."""


class GrammarVocabulary:
    """The tokens of one tokenizer as bytes, which takes a second to prepare for a large one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises GrammarNotKept."""
        self._stop_ids = tokenizer.stop_ids
        try:
            self._tokenizer = LLTokenizer(TokenizerWrapper(_Bytes(tokenizer)), eos_token=list(tokenizer.stop_ids))
        except (ValueError, RuntimeError) as error:
            raise GrammarNotKept(f"the tokens of this model cannot be held to a grammar: {error}") from error

    def constraint(self, grammar: Grammar) -> "GrammarConstraint":
        """For one sample; a large schema takes a second. Raises GrammarNotKept for one with a keyword that is not kept,
        or one that is too large."""
        if isinstance(grammar, str):
            rules = LLMatcher.grammar_from_lark(grammar)
        else:
            grammar = closed(grammar)
            rules = LLMatcher.grammar_from_json_schema(json.dumps(grammar), overrides={"whitespace_pattern": _SPACE})
        matcher = LLMatcher(self._tokenizer, rules, log_level=0)
        if matcher.is_error():
            raise GrammarNotKept(matcher.get_error().partition("\n")[0])
        return GrammarConstraint(grammar, matcher, _bits(self._stop_ids))


def vocabulary_of(tokenizer: Tokenizer) -> GrammarVocabulary:
    """Prepared once for each tokenizer, whoever asks at the same time. Raises GrammarNotKept."""
    with _preparing:
        return _prepared(tokenizer)


_preparing = Lock()
_prepared = lru_cache(maxsize=4)(GrammarVocabulary)


class GrammarConstraint:
    """Implements `rft.rollouts.sampler.Constraint`. Of one thread at a time."""

    def __init__(self, grammar: Grammar, matcher: LLMatcher, only_stops: bytes) -> None:
        self.grammar = grammar
        self._matcher, self._consumed, self._only_stops = matcher, 0, only_stops

    def for_another(self) -> "GrammarConstraint":
        """The same for another sample, where nothing was asked of this one."""
        return GrammarConstraint(self.grammar, self._matcher.deep_copy(), self._only_stops)

    def begins(self, token_ids: Sequence[int]) -> bool:
        """Whether a sample that fits may begin so. Asked before any token is drawn."""
        return self._matcher.validate_tokens(list(token_ids)) == len(token_ids)

    def allowed(self, sampled: Sequence[int]) -> bytes:
        """A bit for each token of the vocabulary, the lowest first. Where nothing else fits, the sample ends."""
        self._matcher.consume_tokens(list(sampled[self._consumed :]))
        self._consumed = len(sampled)
        if self._matcher.is_error():
            return self._only_stops
        bits = self._matcher.compute_bitmask()
        return bits if any(bits) else self._only_stops


def _bits(token_ids: Sequence[int]) -> bytes:
    bits = bytearray(max(token_ids) // 8 + 1)
    for token in token_ids:
        bits[token // 8] |= 1 << token % 8
    return bytes(bits)


class _Bytes:
    """A tokenizer in the shape that llguidance reads."""

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = tokenizer.stop_ids[0]
        self.tokens = [tokenizer.token_bytes(token) for token in range(tokenizer.vocabulary_size)]
        self.special_token_ids = sorted(tokenizer.control_ids)

    def __call__(self, text: str) -> list[int]:
        return self._tokenizer.encode_text(text)
