"""The template language of graders: text with `{{ item.path }}` and `{{ sample.path }}` (contract section 1.9)."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.grader_gateway.contract import as_json
from rft.grader_gateway.sample_shape import SAMPLE, index_of, path_problem

SAMPLE_NAMES = frozenset(SAMPLE.by_name)
"""What a `sample` always has."""
ANSWER = frozenset({"choices", "output_json", "output_text", "output_tools"})
"""What of it the model wrote."""
_NOT_THE_MODELS = frozenset({"input_tools", "model", "output_audio", "output_reasoning_summary"})
"""What of it no answer changes: a path that leads nowhere in there is the author's doing."""

_STEP = re.compile(
    r"""\.\s*([^.\[\]{}()|"'\s]+(?:[ \t]+[^.\[\]{}()|"'\s]+)*)|\[\s*(-?\d{1,9})\s*\]|\["([^"]*)"\]|\['([^']*)'\]"""
)
_LEFT_OPEN = re.compile(r"\{\{\s*(?:item|sample)(?!\w)[^\n]*")
_SINGLE_BRACES = re.compile(r"\{\s*(?:item|sample)\s*[.\[]")
_ARGUMENTS = ("function", "arguments")
"""Of a tool call: JSON as text. A path goes on into it, as published evals of the hosted service have it."""
_SHOWN_CHARS = 60
MAX_RENDERED_CHARS = 4 << 20
"""What the templates of one grader may become together: more than any model reads, and soon put together."""


class TemplateError(ValueError):
    """A template that is none, in words that its author can act on."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One placeholder: where its value is found."""

    namespace: Literal["item", "sample"]
    steps: tuple[str | int, ...]
    """Keys and indexes, at least one key first."""
    source: str
    """As the author wrote it, without braces."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A variable that names nothing in this sample or item."""

    variable: Variable

    @property
    def is_models_doing(self) -> bool:
        """Whether the model's answer lacks it; otherwise the author named what no row or sample has."""
        steps = self.variable.steps
        return self.variable.namespace == "sample" and steps[0] not in _NOT_THE_MODELS and path_problem(steps) is None


@dataclass(frozen=True, slots=True)
class TooLong:
    """More than `MAX_RENDERED_CHARS`: a template that repeats itself, or a row or tool outputs that fill megabytes."""

    is_models_doing: Literal[False] = False
    """No answer is as long as that."""


Unrenderable: TypeAlias = Unresolved | TooLong


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    parts: tuple[str | Variable, ...]

    def render(
        self,
        *,
        sample: JsonObject,
        item: JsonObject,
        max_chars: int = MAX_RENDERED_CHARS,
        arguments: dict[str, JsonValue] | None = None,
    ) -> str | Unrenderable:
        """The text with every value in its place; what is no text is shown as JSON.

        `arguments`: of tool calls, as far as they were read already; what this reads is added.
        """
        read = {} if arguments is None else arguments
        texts: list[str] = []
        problems: list[Unrenderable] = []
        for part in self.parts:
            text = part if isinstance(part, str) else _text_of(part, sample, item, read)
            if isinstance(text, Unresolved):
                problems.append(text)
            elif (max_chars := max_chars - len(text)) < 0:
                problems.append(TooLong())
                break
            else:
                texts.append(text)
        return _worst(problems) if problems else "".join(texts)


def render_all(
    templates: Sequence[Template], *, sample: JsonObject, item: JsonObject
) -> tuple[str, ...] | Unrenderable:
    """Every template's text. Of several problems, one that is the author's doing is told first."""
    texts: list[str] = []
    problems: list[Unrenderable] = []
    left = MAX_RENDERED_CHARS
    arguments: dict[str, JsonValue] = {}
    for template in templates:
        rendered = template.render(sample=sample, item=item, max_chars=left, arguments=arguments)
        if isinstance(rendered, str):
            texts.append(rendered)
            left -= len(rendered)
        else:
            problems.append(rendered)
    return _worst(problems) if problems else tuple(texts)


def without(names: Collection[str], template: Template, *, instead: str = "") -> Template:
    """The template without what it takes of these parts of the sample."""
    return Template(
        tuple(
            part if isinstance(part, str) or part.namespace == "item" or part.steps[0] not in names else instead
            for part in template.parts
        )
    )


def _worst(problems: Sequence[Unrenderable]) -> Unrenderable:
    return min(problems, key=lambda problem: problem.is_models_doing)


def _text_of(
    variable: Variable, sample: JsonObject, item: JsonObject, arguments: dict[str, JsonValue]
) -> str | Unresolved:
    found = _find(variable, sample if variable.namespace == "sample" else item, arguments)
    if isinstance(found, Unresolved):
        return found
    return found.value if isinstance(found.value, str) else json.dumps(found.value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Found:
    value: JsonValue


def parse(text: str) -> Template:
    """Raises TemplateError."""
    parts: list[str | Variable] = []
    end = 0
    for start, close in _placeholders(text):
        parts += [text[end:start], _variable(text[start + 2 : close].strip())]
        end = close + 2
    parts.append(text[end:])
    return Template(tuple(part for part in parts if part != ""))


def variables_of(text: str) -> list[Variable]:
    """What a template names. Raises TemplateError."""
    return [part for part in parse(text).parts if isinstance(part, Variable)]


def _placeholders(text: str) -> Iterator[tuple[int, int]]:
    """Where each begins and where its closing braces stand; every character is looked at once or twice."""
    end = 0
    while (start := text.find("{{", end)) >= 0 and (close := text.find("}}", start + 2)) >= 0:
        yield start, close
        end = close + 2


def template_problem(text: str) -> str | None:
    """What is wrong with a template, told before any rollout."""
    try:
        template = parse(text)
    except TemplateError as error:
        return str(error)
    for part in template.parts:
        if isinstance(part, Variable) and part.namespace == "sample" and part.steps[0] not in SAMPLE_NAMES:
            return f"{_show(part.source)}: a sample has no {part.steps[0]!r}; it has {', '.join(sorted(SAMPLE_NAMES))}"
    return None


def unfillable(text: str) -> str | None:
    """What no rollout of a job can put into a template that `template_problem` finds none in. Raises TemplateError."""
    template = parse(text)
    last = template.parts[-1] if template.parts else ""
    if isinstance(last, str) and (left_open := _LEFT_OPEN.search(last)) is not None:
        return f"`{_shorten(left_open.group())}`: no `}}}}` closes it, so no value would take its place"
    for variable in (part for part in template.parts if isinstance(part, Variable)):
        problem = path_problem(variable.steps) if variable.namespace == "sample" else None
        if problem is not None:
            return f"{_show(variable.source)}: {problem}"
    return None


def has_single_braces(text: str) -> bool:
    """Whether something looks like a variable and is text, as in `{item.answer}`. Raises TemplateError."""
    return any(isinstance(part, str) and _SINGLE_BRACES.search(part) is not None for part in parse(text).parts)


def _variable(source: str) -> Variable:
    namespace = re.match(r"item|sample", source)
    if namespace is None:
        raise TemplateError(f"{_show(source)}: variables begin with `item.` or `sample.`")
    steps: list[str | int] = []
    at = namespace.end()
    while at < len(source):
        step = _STEP.match(source, at)
        if step is None:
            raise TemplateError(f"{_show(source)}: expected `.name` or `[0]` at position {at + 1}")
        steps.append(_step(step))
        at = step.end()
    if not steps or isinstance(steps[0], int):
        raise TemplateError(f"{_show(source)}: `{namespace.group()}` is followed by a name, as in `item.answer`")
    return Variable(cast("Literal['item', 'sample']", namespace.group()), tuple(steps), source)


def _step(match: re.Match[str]) -> str | int:
    name, index, double_quoted, single_quoted = match.groups()
    if index is not None:
        return int(index)
    return next(key for key in (name, double_quoted, single_quoted) if key is not None)


def _find(variable: Variable, root: JsonObject, arguments: dict[str, JsonValue]) -> _Found | Unresolved:
    value: JsonValue = root
    for place, step in enumerate(variable.steps):
        if isinstance(value, str) and variable.namespace == "sample" and variable.steps[:place][-2:] == _ARGUMENTS:
            if value not in arguments:  # Thousands of variables may name the same, and a text may be megabytes.
                arguments[value] = as_json(value)
            value = arguments[value]
        found = _into(value, step)
        if found is None:
            return Unresolved(variable)
        value = found.value
    if value is None and variable.namespace == "sample" and variable.steps == ("output_json",):
        return Unresolved(variable)  # None says that the answer is no JSON
    return _Found(value)


def _into(value: JsonValue, step: str | int) -> _Found | None:
    if isinstance(value, dict):
        return _Found(value[step]) if isinstance(step, str) and step in value else None
    if isinstance(value, list):
        index = index_of(step)
        return _Found(value[index]) if index is not None and -len(value) <= index < len(value) else None
    return None


def _show(source: str) -> str:
    return f"{{{{ {_shorten(source)} }}}}"


def _shorten(source: str) -> str:
    return source if len(source) <= _SHOWN_CHARS else f"{source[:_SHOWN_CHARS]}..."
