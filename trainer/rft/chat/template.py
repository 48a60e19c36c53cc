"""A chat template as transformers renders it, without transformers."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import JsonValue

from rft.chat.errors import foreign_code
from rft.core.base import JsonObject


class ChatTemplate:
    """Renders conversations. Raises ChatTemplateError, whatever the template raises."""

    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str],
        options: Mapping[str, JsonValue] | None = None,
        *,
        now: datetime | None = None,
    ) -> None:
        """`special_tokens`: `bos_token` and the like by name. `options`: what else the template reads, such as
        `enable_thinking`. Templates that tell the date tell that of `now`, so that a run's prompts stay the same."""
        self.source = source
        self.options: Mapping[str, JsonValue] = options or {}
        self.now = now or datetime.now(UTC).astimezone()
        self._context = {**special_tokens, **self.options}
        with foreign_code("reading the chat template"):
            self._template = chat_environment(self.now).from_string(source)

    @property
    def fingerprint(self) -> str:
        """Tells templates apart."""
        return fingerprint(self.source)

    def render(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject], *, add_generation_prompt: bool
    ) -> str:
        """The conversation as text. `tools` may be empty."""
        with foreign_code("rendering the chat template"):
            return self._template.render(
                messages=list(messages),
                tools=list(tools) or None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._context,
            )


def fingerprint(source: str) -> str:
    """Sixteen hexadecimal digits of a template; white space around it does not count."""
    return hashlib.sha256(source.strip().encode(errors="replace")).hexdigest()[:16]


class _Generation(Extension):
    """`{% generation %}` of training templates: it marks what to learn and prints nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def chat_environment(now: datetime | None = None) -> ImmutableSandboxedEnvironment:
    """As transformers sets it up. `now`: what `strftime_now` tells."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    functions = cast(dict[str, object], environment.globals)
    functions["raise_exception"] = _raise
    functions["strftime_now"] = (now or datetime.now(UTC)).strftime
    return environment


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Not jinja2's own, which escapes what HTML would read."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
