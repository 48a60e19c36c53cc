"""Whatever is drawn of the tokens that a constraint allows is JSON of its schema, in bytes and in real vocabularies."""

import json
from functools import cache
from random import Random

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rft.chat.grammar import GrammarConstraint, GrammarNotKept, GrammarVocabulary
from rft.chat.tokenizer import Tokenizer
from rft.core.base import JsonObject
from rft.testing.samplers_tokenizer import ByteTokenizer
from tests.unit.chat.models import opened

SCHEMAS: list[JsonObject] = [
    {
        "type": "object",
        "properties": {
            "kind": {"enum": ["small", "größer"]},
            "number": {"type": "integer", "minimum": -9, "maximum": 99},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
        },
        "required": ["kind", "number"],
        "additionalProperties": False,
    },
    {"$defs": {"leaf": {"type": ["null", "boolean"]}}, "anyOf": [{"$ref": "#/$defs/leaf"}, {"const": "none"}]},
]
MOST_TOKENS = 2_000
BYTES = GrammarVocabulary(ByteTokenizer())


@cache
def closing(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Ends and closing marks, which are drawn more often than their share: a string may be long."""
    marks = (token for token in range(tokenizer.vocabulary_size) if tokenizer.token_bytes(token) in b'"}],')
    return np.array(sorted({*tokenizer.stop_ids, *marks}))


def drawn(tokenizer: Tokenizer, constraint: GrammarConstraint, random: Random) -> list[int]:
    """Any token that may come next, until the end."""
    sampled = list[int]()
    while not sampled or sampled[-1] not in tokenizer.stop_ids:
        bits = np.frombuffer(constraint.allowed(sampled), dtype=np.uint8)
        allowed = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        assert allowed.size
        ends = np.intersect1d(allowed, closing(tokenizer), assume_unique=True)
        sampled.append(int(random.choice(ends if ends.size and random.random() < 0.5 else allowed)))
        assert len(sampled) < MOST_TOKENS
    return sampled


def walk(tokenizer: Tokenizer, vocabulary: GrammarVocabulary, schema: JsonObject, random: Random) -> str:
    """JSON that may be sampled."""
    sampled, unused = drawn(tokenizer, vocabulary.constraint(schema), random), vocabulary.constraint(schema)
    assert tokenizer.control_ids.isdisjoint(sampled[:-1])
    assert all(unused.begins(sampled[:end]) for end in range(0, len(sampled), 7))
    assert unused.for_another().allowed([]) == vocabulary.constraint(schema).allowed([])
    return tokenizer.decode(sampled[:-1])


@pytest.mark.lengthy
@given(schema=st.sampled_from(SCHEMAS), seed=st.integers(0, 2**32))
def test_bytes(schema: JsonObject, seed: int) -> None:
    text = walk(ByteTokenizer(), BYTES, schema, Random(seed))
    jsonschema.validate(json.loads(text), schema)


@pytest.mark.lengthy
@pytest.mark.parametrize("family", ["qwen3", "mistral_nemo", "llama3_1"])
def test_vocabularies_of_families(family: str) -> None:
    tokenizer = opened(family).chat_format.tokenizer
    vocabulary = GrammarVocabulary(tokenizer)
    for seed, schema in enumerate(SCHEMAS * 4):
        jsonschema.validate(json.loads(walk(tokenizer, vocabulary, schema, Random(seed))), schema)


@pytest.mark.parametrize(
    "schema", [{"not": {"type": "string"}}, {"type": "object", "propertyNames": {"pattern": "a"}}, {"$ref": "#/none"}]
)
def test_a_schema_that_would_not_be_kept_is_refused(schema: JsonObject) -> None:
    with pytest.raises(GrammarNotKept):
        BYTES.constraint(schema)


def test_what_should_never_have_been_sampled_can_only_end() -> None:
    constraint = BYTES.constraint(SCHEMAS[0])
    assert not constraint.begins(ByteTokenizer().encode_text("no JSON"))
    bits = constraint.allowed(ByteTokenizer().encode_text("no JSON"))
    assert [token for token in range(8 * len(bits)) if bits[token // 8] >> token % 8 & 1] == [ByteTokenizer.stop_id]
