"""A closed schema takes no property that the schema does not name, and nothing that the schema refuses."""

from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from rft.chat.closed_schema import closed
from rft.core.base import JsonObject


class Leaf(BaseModel):
    kind: Literal["small", "large"]
    properties: dict[str, int] | None = None


class Tree(BaseModel):
    name: str
    leaves: list[Leaf] = []
    left: "Tree | None" = None


class Small(BaseModel):
    kind: Literal["small"]
    name: str = ""


class Large(BaseModel):
    kind: Literal["large", "a"]
    left: "Union | None" = None


class Union(BaseModel):
    more: Annotated[Small | Large, Field(discriminator="kind")]


VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["small", "large", "a"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "leaves", "left", "kind", "properties", "more"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_what_fits_the_closed_one_fits_the_schema(value: Any) -> None:
    for model in (Leaf, Tree, Union):
        schema: JsonObject = model.model_json_schema()
        if Draft202012Validator(closed(schema)).is_valid(value):
            jsonschema.validate(value, schema)


def test_objects_at_every_depth_are_closed_and_those_that_say_so_stay_open() -> None:
    schema = closed(Tree.model_json_schema())
    whole = {"name": "a", "leaves": [{"kind": "small", "properties": {"any": 1}}], "left": {"name": "b"}}
    jsonschema.validate(whole, schema)
    for place in ({**whole, "more": 1}, {"name": "a", "leaves": [{"kind": "small", "more": 1}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(place, schema)


def test_branches_that_a_tag_tells_apart_are_closed() -> None:
    schema = closed(Union.model_json_schema())
    jsonschema.validate({"more": {"kind": "large", "left": {"more": {"kind": "small", "name": "a"}}}}, schema)
    for more in ({"kind": "small", "left": None}, {"kind": "large", "left": {"more": {"kind": "a", "name": ""}}}):
        jsonschema.validate({"more": more}, Union.model_json_schema())
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"more": more}, schema)


SAME = {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"]}
OTHER = {"type": "object", "properties": {"kind": {"const": "b"}, "c": {}}, "required": ["kind"]}
OPTIONAL = {"type": "object", "properties": {"kind": {"const": "c"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"properties": {"a": {}}, "additionalProperties": True},
        {"properties": {"a": {}}, "required": ["b"]},
        {"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}, {"required": ["c"]}]},
        {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
        {"$ref": "#/$defs/x", "properties": {"a": {}}, "$defs": {"x": {"properties": {"b": {}}}}},
        {"properties": {"a": {}}, "patternProperties": {"b": {}}},
        {"$ref": "#/$defs/x", "required": ["b"], "$defs": {"x": {"properties": {"a": {}}}}},
        {"anyOf": [{"properties": {"a": {}}}], "required": ["b"]},
        {"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]},
        {"oneOf": [SAME, OTHER]},
        {"oneOf": [SAME, OPTIONAL]},
        {"oneOf": [OTHER, {"$ref": "#/$defs/none"}]},
        {"oneOf": [OTHER, {"type": ["object", "null"], **OPTIONAL, "required": ["kind"]}]} | {"required": ["kind"]},
        {"oneOf": []},
        {"properties": {"a": {}}, "dependentRequired": {"a": ["b"]}},
        {"properties": {"a": {}}, "if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"const": {"properties": {"a": {}}}},
        {"type": "array", "items": True},
    ],
)
def test_what_closing_could_break_stays_as_it_is(schema: JsonObject) -> None:
    assert closed(schema) == schema


def test_names_of_properties_are_no_keywords() -> None:
    named: JsonObject = {"properties": {"properties": {"type": "string"}, "if": {}, "const": {"properties": {"a": {}}}}}
    assert closed(named) == {
        "properties": {
            "properties": {"type": "string"},
            "if": {},
            "const": {"properties": {"a": {}}, "additionalProperties": False},
        },
        "additionalProperties": False,
    }
