"""How a family of models writes thoughts, text and tool calls into a turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rft.chat.json_text import JsonSlice, is_object
from rft.chat.thinking import ThoughtMarks
from rft.core.foreign_json import encodable
from rft.core.messages import ToolSchema


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """One tool call as it was read; an empty name: it cannot be read, and `arguments` holds its raw text."""

    name: str
    arguments: str
    """JSON text of an object, in the model's own bytes where its syntax is JSON."""
    call_id: str | None = None
    """What the model wrote, in syntaxes that have ids."""


@dataclass(frozen=True, slots=True)
class WrittenTurn:
    """One turn as it was read."""

    content: str
    """Text outside thoughts and calls."""
    calls: tuple[WrittenCall, ...] = ()
    reasoning: str = ""
    """Thoughts, without their marks."""


class TurnSyntax(Protocol):
    """Reads turns; templates write them."""

    @property
    def name(self) -> str:
        """As `chat_format` names it."""
        ...

    @property
    def markers(self) -> tuple[str, ...]:
        """Literals of which a template of this syntax spells at least one."""
        ...

    @property
    def control_literals(self) -> tuple[str, ...]:
        """Literals that are control tokens wherever the tokenizer has them: this syntax gives them a meaning."""
        ...

    @property
    def stop_literals(self) -> tuple[str, ...]:
        """Literals after which nothing more of the turn can come, beside the model's own end of sequence."""
        ...

    @property
    def results_opening(self) -> str | None:
        """The stop literal that opens results as well, so that templates continue behind it; None: there is none."""
        ...

    @property
    def call_beginnings(self) -> tuple[str, ...]:
        """How a whole turn may begin that is a call without any mark; empty where all calls have marks."""
        ...

    @property
    def thought_marks(self) -> ThoughtMarks | None:
        """What stands around thoughts; None where this syntax has none."""
        ...

    @property
    def answer_opening(self) -> str | None:
        """What stands in front of the answer alone; None: it is the text outside of thoughts and calls."""
        ...

    @property
    def call_shape(self) -> str:
        """How a call is written, in words for a model whose call could not be read."""
        ...

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A turn without its stop token, special tokens spelled out. Never raises, whatever stands there.

        `tools` give the types of arguments where a syntax writes strings and numbers alike. `is_thinking`: the prompt
        has opened a thought.
        """
        ...

    def shown_id(self, call_id: str) -> str:
        """A call id in the shape that templates of this syntax take."""
        ...


class PlainIds:
    """Any call id will do: most templates print none. What opens results is most templates' own to print, too, most
    calls have marks, and most answers none."""

    results_opening: str | None = None
    call_beginnings: tuple[str, ...] = ()
    answer_opening: str | None = None

    def shown_id(self, call_id: str) -> str:
        """The same."""
        return call_id


def checked_call(name: object, arguments: JsonSlice, call_id: str | None = None) -> WrittenCall:
    """A call from JSON: a string that could be a tool's name, and an object or the JSON text of one.

    Raises ValueError.
    """
    if not isinstance(name, str) or not name or "\x00" in name:
        raise ValueError("name is not a string that could be a tool's")
    name.encode()  # A lone surrogate could never be sent.
    if isinstance(arguments.value, dict):
        return WrittenCall(name, encodable(arguments.text), call_id)
    if isinstance(arguments.value, str):
        arguments.value.encode()
        if is_object(arguments.value):
            return WrittenCall(name, arguments.value, call_id)
    raise ValueError("arguments are not an object")


def unreadable(raw: str) -> WrittenCall:
    """A call that the model is told about."""
    return WrittenCall("", encodable(raw.strip()))
