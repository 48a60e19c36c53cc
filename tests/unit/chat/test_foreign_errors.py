"""Whatever a template or a tokenizer raises, a run is told that its model cannot be used, and why."""

import builtins
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import jinja2.exceptions
import pytest

from rft.chat.errors import ChatTemplateError
from rft.chat.model_tokenizer import ModelTokenizer
from rft.chat.opening import open_chat
from rft.chat.template import ChatTemplate
from tests.unit.chat.models import folder_of


class PanicException(BaseException):
    """As the tokenizer library's crashes are called, which are no `Exception`."""


def _every_exception() -> Iterator[BaseException]:
    """Of jinja2 and of Python, each made with as few arguments as it takes."""
    classes = [*vars(jinja2.exceptions).values(), *vars(builtins).values(), PanicException]
    for made in classes:
        if inspect.isclass(made) and issubclass(made, Exception | PanicException) and made is not MemoryError:
            yield _make(made)


def _make(made: type[BaseException]) -> BaseException:
    for arguments in ((), ("name",), ("message", 1), (["name"], "message"), ("utf-8", b"", 0, 1, "why")):
        try:
            return cast(Callable[..., BaseException], made)(*arguments)
        except TypeError:
            continue
    if issubclass(made, BaseExceptionGroup):
        return made("several", [ValueError("one")])
    return UnicodeTranslateError("", 0, 1, "why")


RAISED = {type(error).__name__: error for error in _every_exception() if not isinstance(error, StopIteration)}
"""jinja2 itself takes the end of an iteration for a value that is not defined."""


def test_all_of_jinja2_and_of_python_is_tried() -> None:
    assert len(RAISED) > 60
    assert {"TemplateSyntaxError", "UndefinedError", "SecurityError", "TemplatesNotFound", "KeyError"} <= set(RAISED)


@pytest.mark.parametrize("name", RAISED)
def test_what_a_template_raises_while_it_renders_is_the_models(name: str) -> None:
    def boom() -> None:
        raise RAISED[name]

    template = ChatTemplate("{{ boom() }}", {}, cast(Any, {"boom": boom}))
    with pytest.raises(ChatTemplateError, match=rf"rendering the chat template failed: {name}"):
        template.render([], (), add_generation_prompt=True)


@pytest.mark.parametrize("raised", [MemoryError, KeyboardInterrupt, SystemExit])
def test_what_is_the_machines_is_not_blamed_on_the_model(raised: type[BaseException]) -> None:
    def boom() -> None:
        raise raised

    with pytest.raises(raised):
        ChatTemplate("{{ boom() }}", {}, cast(Any, {"boom": boom})).render([], (), add_generation_prompt=True)


@pytest.mark.parametrize(
    "source",
    [
        "{% if %}",
        "{{ messages[0].content + 1 }}",
        "{{ undefined_name.field }}",
        "{{ messages[99].role }}",
        "{{ 1 / 0 }}",
        "{{ raise_exception('roles must alternate') }}",
        "{% include 'other' %}",
        "{{ ().__class__.__bases__ }}",
        "{{ messages.append(1) }}",
        "{% for i in range(999999999) %}{% endfor %}",
        "{{ messages | nosuchfilter }}",
        "{{ messages | tojson(separators=1) }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ],
)
def test_broken_templates_are_told_of_in_words(source: str) -> None:
    with pytest.raises(ChatTemplateError, match=r"(reading|rendering) the chat template failed: \w+"):
        ChatTemplate(source, {}).render([{"role": "user", "content": "x"}], (), add_generation_prompt=True)


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", "{}", '{"model": 1}', '{"version": "9", "model": {"type": "BPE", "vocab": {}}}']
)
def test_a_tokenizer_that_cannot_be_read_is_told_of_in_words(broken: str) -> None:
    with pytest.raises(ChatTemplateError, match=r"reading tokenizer.json failed"):
        ModelTokenizer(broken, ChatTemplate("x", {}), (0,))


def test_a_model_that_spells_control_tokens_by_merging_text_is_refused() -> None:
    vocabulary = {"<": 0, "a": 1, ">": 2, "<a": 3, "<a>": 4}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [["<", "a"], ["<a", ">"]]}
    control = {"id": 4, "content": "<a>", "special": True, "single_word": False, "lstrip": False, "rstrip": False}
    tokenizer = {"version": "1.0", "model": model, "added_tokens": [{**control, "normalized": False}]}
    with pytest.raises(ChatTemplateError, match="makes the control token '<a>' of plain text"):
        ModelTokenizer(json.dumps(tokenizer), ChatTemplate("x", {}), (4,))


def test_an_unknown_chat_format_is_told_with_those_that_there_are() -> None:
    with pytest.raises(
        ChatTemplateError, match=r"no chat format 'herms'; there are auto, seed_oss, qwen3_5, glm, hermes"
    ):
        open_chat(folder_of("qwen3"), wanted="herms")


@pytest.mark.lengthy
def test_a_named_chat_format_that_the_template_does_not_write_is_refused() -> None:
    with pytest.raises(ChatTemplateError, match="is not read back by the chat format 'glm'"):
        open_chat(folder_of("qwen3"), wanted="glm")
