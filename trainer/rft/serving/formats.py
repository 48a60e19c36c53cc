"""Answers that have to be JSON: what fits, and what holds a sample to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rft.chat.json_constraint import JsonConstraint, JsonVocabulary, SchemaNotKept
from rft.chat.tokenizer import Tokenizer
from rft.core.base import JsonObject
from rft.core.response_format import ResponseFormat
from rft.grader_gateway.answer_format import AnswerFormat
from rft.serving.refusals import bad_request

_ANY_OBJECT: JsonObject = {"type": "object"}


@dataclass(frozen=True, slots=True)
class AnswersInFormat:
    """Those of one request."""

    wanted: ResponseFormat
    format: AnswerFormat
    vocabulary: JsonVocabulary

    def problem(self, answer: str) -> str | None:
        """Why it is not what was asked for; None where it is."""
        return self.format.problem(answer)

    def begin(self, token_ids: Sequence[int]) -> bool:
        """Whether one of them may begin so."""
        return self.constraint().begins(token_ids)

    def constraint(self) -> JsonConstraint:
        """For one sample. Raises SchemaNotKept."""
        return self.vocabulary.constraint(self.wanted.json_schema or _ANY_OBJECT)


def answers_in_format(wanted: ResponseFormat, tokenizer: Tokenizer) -> AnswersInFormat:
    """Takes a second for a tokenizer at its first use. Raises RequestRefused."""
    try:
        answers = AnswersInFormat(wanted, AnswerFormat(wanted), _vocabulary(tokenizer))
        answers.constraint()
    except (SchemaNotKept, ValueError) as problem:
        message = f"The response_format cannot be kept: {problem}"
        raise bad_request(message, code="invalid_value", param="response_format") from problem
    return answers


@lru_cache(maxsize=4)
def _vocabulary(tokenizer: Tokenizer) -> JsonVocabulary:
    return JsonVocabulary(tokenizer)
