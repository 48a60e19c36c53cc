"""Answers that have to be JSON: what fits, and what holds a sample to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile

from rft.chat.grammar import GrammarConstraint, GrammarNotKept, vocabulary_of
from rft.chat.tokenizer import Tokenizer
from rft.core.base import JsonObject
from rft.core.response_format import ResponseFormat
from rft.grader_gateway.answer_format import AnswerFormat
from rft.serving.refusals import bad_request

_ANY_OBJECT: JsonObject = {"type": "object"}
_BEGIN_OBJECTS, _BEGIN_JSON = "{", '{["-0123456789tfn'


@dataclass(frozen=True, slots=True)
class AnswersInFormat:
    """Those of one request."""

    tokenizer: Tokenizer
    format: AnswerFormat
    unused: GrammarConstraint
    """Compiled once: each sample has a copy."""

    def problem(self, answer: str) -> str | None:
        """Why it is not what was asked for; None where it is."""
        return self.format.problem(answer)

    def cannot_begin(self, text: str) -> bool:
        """Whether none of them begins with this text, by its first letter."""
        grammar, begun = self.unused.grammar, text.lstrip()
        is_object = not isinstance(grammar, str) and grammar.get("type") == "object"
        return bool(begun) and begun[0] not in (_BEGIN_OBJECTS if is_object else _BEGIN_JSON)

    def begin(self, token_ids: Sequence[int]) -> bool:
        """Whether one of them may begin so, behind white space."""
        written = dropwhile(lambda token: not self.tokenizer.token_bytes(token).strip(), token_ids)
        return self.unused.begins(list(written))

    def constraint(self) -> GrammarConstraint:
        """For one sample."""
        return self.unused.for_another()


def answers_in_format(wanted: ResponseFormat, tokenizer: Tokenizer) -> AnswersInFormat:
    """Takes a second for a tokenizer at its first use. Raises RequestRefused."""
    schema = _ANY_OBJECT if wanted.json_schema is None else wanted.json_schema
    try:
        return AnswersInFormat(tokenizer, AnswerFormat(wanted), vocabulary_of(tokenizer).constraint(schema))
    except (GrammarNotKept, ValueError) as problem:
        message = f"The response_format cannot be kept: {problem}"
        raise bad_request(message, code="invalid_value", param="response_format") from problem
