"""A tool's schema is judged by itself: no arguments are tried, nothing is fetched, and no few lines take hours."""

import socket
import time

import pytest
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.json_schema import compile_schema, schema_problem
from rft.core.schema_references import MAX_EXPANDED

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NODE: JsonObject = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}


def doubling(levels: int, keyword: str = "allOf") -> JsonObject:
    """Each level refers to the next one twice."""
    definitions: JsonObject = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(levels)
    }
    return {"$defs": {**definitions, f"d{levels}": {"type": "object"}}, "$ref": "#/$defs/d0"}


SOUND: dict[str, JsonObject] = {
    "empty": {},
    "a tree": NODE,
    "a definition": {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
    "a definition of draft 7": {
        "$schema": DRAFT_7,
        "properties": {"a": {"$ref": "#/definitions/A"}},
        "definitions": {"A": {"type": "string"}},
    },
    "an anchor": {"items": {"$ref": "#it"}, "$defs": {"x": {"$anchor": "it", "type": "string"}}},
    "a dynamic anchor": {"$dynamicAnchor": "n", "properties": {"c": {"$dynamicRef": "#n"}}},
    "its own address": {
        "$id": "https://a.example/s",
        "items": {"$ref": "https://a.example/s#/$defs/A"},
        "$defs": {"A": {}},
    },
    "an address within": {"items": {"$ref": "https://a.example/t"}, "$defs": {"A": {"$id": "https://a.example/t"}}},
    "components of another format": {
        "$ref": "#/components/schemas/A",
        "components": {"schemas": {"A": {"type": "object"}}},
    },
    "an escaped place": {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": True}},
    "properties with names of keywords": {"properties": {"$ref": {"type": "string"}, "allOf": {"type": "array"}}},
    "references in values": {"enum": [{"$ref": "#/nowhere"}], "default": {"$ref": "https://a.example"}},
    "an unknown dialect": {"$schema": "https://a.example/dialect", "type": "object"},
    "a long list of objects to choose from": {"$schema": DRAFT_7, "enum": [{"a": n} for n in range(50_000)]},
    "a few doublings": doubling(5),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_schema_has_no_problem(name: str) -> None:
    assert schema_problem(SOUND[name]) is None


PROBLEMS: dict[str, tuple[JsonObject, str]] = {
    "nowhere, in a branch that empty arguments do not reach": (
        {"properties": {"a": {"$ref": "#/$defs/A"}}},
        "#/$defs/A leads nowhere",
    ),
    "nowhere, in a definition": ({"$defs": {"A": {"$ref": "#/x"}}}, "#/x leads nowhere"),
    "no such anchor": ({"items": {"$ref": "#it"}}, "#it leads nowhere"),
    "a dynamic reference": ({"items": {"$dynamicRef": "#it"}}, "leads nowhere"),
    "the network": ({"items": {"$ref": "http://127.0.0.1:9/s"}}, "leads nowhere within"),
    "the dialect's own address": ({"items": {"$ref": DRAFT_7}}, "leads nowhere within"),
    "a list": ({"$ref": "#/required", "required": ["a"]}, "is no schema"),
    "a strange place without a schema": ({"$ref": "#/x", "x": {"type": "strange"}}, "not a JSON Schema"),
    "itself": ({"$ref": "#"}, "without an end"),
    "itself, the long way": (
        {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        "without an end",
    ),
    "itself behind a longer way that ends": (
        {"$defs": {"a": {"properties": {"x": {"$ref": "#/$defs/b"}}, "$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "without an end",
    ),
    "doublings": (doubling(40), f"more than {MAX_EXPANDED:,}"),
    "doublings in parts": (doubling(40, "prefixItems"), f"more than {MAX_EXPANDED:,}"),
    "many schemas": ({"prefixItems": [{} for _ in range(MAX_EXPANDED + 1)]}, f"more than {MAX_EXPANDED:,}"),
    "a long chain": (
        {"$defs": dict[str, JsonValue]({f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3_000)}, d3000={})},
        "nested too deeply",
    ),
    "a long list of what are no names": ({"required": [{"a": n} for n in range(100_000)]}, "not a JSON Schema"),
    "a bad pattern": ({"items": {"pattern": "("}}, "not a JSON Schema"),
    "a bad pattern of names": ({"patternProperties": {"[": {}}}, "is no pattern"),
    "a pattern with a number too long to read": ({"pattern": f"a{{{'9' * 5_000}}}"}, "is no pattern"),
    "a pattern with too many groups in one another": ({"pattern": "(" * 4_000 + ")" * 4_000}, "nested too deeply"),
    "very long patterns": ({"pattern": "[\u0100-\uffff]" * 10_000}, "characters"),
    "draft 3": ({"$schema": "http://json-schema.org/draft-03/schema#", "extends": {"$ref": "#"}}, "draft 3"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_schema_that_nothing_could_be_held_against_is_refused(name: str) -> None:
    schema, message = PROBLEMS[name]
    problem = schema_problem(schema)
    assert problem is not None
    assert message in problem
    assert len(problem) < 500


def test_a_pattern_is_read_in_linear_time() -> None:
    # Compiled, each character of each range has its case folded, which takes 12 seconds.
    pattern = "(?i)[" + "".join(f"{chr(0x100 + n)}-{chr(0xFFFF - n)}" for n in range(2_990)) + "]"
    began = time.process_time()
    assert schema_problem({"pattern": pattern}) is None
    assert time.process_time() - began < 6


def test_a_dialect_is_never_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/dialect"
        assert schema_problem({"$schema": address, "type": "object"}) is None
        assert schema_problem({"items": {"$schema": address, "$id": "x:y", "$ref": address}}) is not None
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_tree_is_held_against_its_schema() -> None:
    validator = compile_schema(NODE)
    assert validator.is_valid({"left": {"right": {}}})
    assert not validator.is_valid({"left": {"right": 5}})
