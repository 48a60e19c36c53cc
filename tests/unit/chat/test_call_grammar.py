"""What is drawn of the tokens that a call's rules allow is a call that the format reads, in every family."""

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

import jsonschema
import pytest

from rft.chat.call_grammar import CallShape, call_shape
from rft.chat.errors import ChatTemplateError
from rft.chat.grammar import GrammarVocabulary
from rft.chat.template import ChatTemplate
from rft.chat.template_format import TemplateChatFormat
from rft.core.base import JsonObject
from rft.core.messages import ToolSchema
from tests.unit.chat.models import ALL, opened
from tests.unit.chat.test_grammar import drawn

PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 5}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = tuple(ToolSchema(name=name, description="d", parameters=PARAMETERS) for name in ("get", "get_weather", "a-b"))
CALL_ID = "call_77"
NAME_AT_END = re.compile(r"\b(get|get_weather|a-b)\W+\Z")
WITHOUT_JSON = {"qwen3_5", "seed_oss", "glm", "gemma4", "function_gemma", "lfm2", "olmo3"}


@pytest.mark.lengthy
@pytest.mark.parametrize("family", [*ALL])
def test_every_family(family: str) -> None:
    chat_format = opened(family).chat_format
    vocabulary = GrammarVocabulary(chat_format.tokenizer)
    for is_behind_thought in (False, True):
        shape = call_shape(chat_format, TOOLS, call_id=CALL_ID, is_behind_thought=is_behind_thought)
        assert shape.is_whole == (chat_format.syntax.name not in WITHOUT_JSON)
        constraint = vocabulary.constraint(shape.rules(TOOLS))
        for seed in range(3):
            written = drawn(chat_format.tokenizer, constraint.for_another(), Random(seed))
            check(chat_format, shape, written, is_behind_thought=is_behind_thought)


def check(chat_format: TemplateChatFormat, shape: CallShape, written: list[int], *, is_behind_thought: bool) -> None:
    marks, tokenizer = chat_format.syntax.thought_marks, chat_format.tokenizer
    thought = "" if marks is None or not is_behind_thought else f"{marks.opening}hm{marks.closings[0]}"
    if not shape.is_whole:
        assert NAME_AT_END.search(tokenizer.decode(written[:-1]))
        return
    read = chat_format.parse([*tokenizer.encode(thought), *written], call_id_seed=7, tools=TOOLS)
    (call,) = read.tool_calls
    assert call.name in {tool.name for tool in TOOLS}
    arguments = json.loads(call.arguments)
    jsonschema.validate(arguments, PARAMETERS)
    assert len(call.arguments) == len(json.dumps(arguments, ensure_ascii=False, separators=shape.separators))
    assert (read.content, read.reasoning) == ("", "hm" if thought else "")


@pytest.mark.parametrize(
    ("family", "arguments"),
    [
        ("qwen3_5_think", "<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>"),
        ("seed_oss", "<parameter=city>Oslo</parameter>\n</function>\n</seed:tool_call>"),
        ("glm4moe", "<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>"),
        ("gemma4", 'city:<|"|>Oslo<|"|>}<tool_call|>'),
        ("function_gemma", "city:<escape>Oslo<escape>}<end_function_call>"),
        ("lfm2_v2", "city='Oslo')]<|tool_call_end|>"),
        ("olmo3", 'city="Oslo")</function_calls>'),
    ],
)
def test_arguments_that_are_no_json_follow_as_they_are_written(family: str, arguments: str) -> None:
    """The rules end where a call's arguments begin."""
    chat_format = opened(family).chat_format
    shape = call_shape(chat_format, TOOLS, call_id=CALL_ID, is_behind_thought=False)
    vocabulary = GrammarVocabulary(chat_format.tokenizer)
    opening = drawn(chat_format.tokenizer, vocabulary.constraint(shape.rules(TOOLS[:1])), Random(1))[:-1]
    turn = [*opening, *chat_format.tokenizer.encode(arguments), chat_format.stop_token_ids[0]]
    (call,) = chat_format.parse(turn, call_id_seed=7, tools=TOOLS).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("get", {"city": "Oslo"})


def test_a_template_that_takes_no_thoughts_of_ours_writes_calls_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    chat_format = opened("qwen2_5").chat_format
    render = ChatTemplate.render

    def strict(template: ChatTemplate, messages: Sequence[JsonObject], *others: Any, **options: Any) -> str:
        if any("reasoning" in message for message in messages):
            raise ChatTemplateError("what is 'reasoning'?")
        return render(template, messages, *others, **options)

    monkeypatch.setattr(ChatTemplate, "render", strict)
    shape = call_shape(chat_format, TOOLS, call_id=CALL_ID, is_behind_thought=True)
    assert shape.is_whole


def test_calls_have_ids_of_their_own_where_templates_write_them() -> None:
    chat_format = opened("mistral_nemo").chat_format
    ids = set[str]()
    for call_id in ("call_1", "call_2"):
        shape = call_shape(chat_format, TOOLS, call_id=call_id, is_behind_thought=False)
        ids |= {piece for piece in shape.behind_arguments or () if isinstance(piece, str)}
    assert len(ids) == 2


def test_a_tool_that_takes_anything_takes_an_object() -> None:
    chat_format = opened("qwen3").chat_format
    anything = ToolSchema(name="get", description="d", parameters={})
    rules = call_shape(chat_format, [anything], call_id=CALL_ID, is_behind_thought=False).rules([anything])
    assert '%json {"type": "object"' in rules
