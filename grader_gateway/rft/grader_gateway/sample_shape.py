"""The shape of a `sample` (`contract.to_sample`): which paths lead to something, known before any rollout. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias


class End(Enum):
    """Where the known shape ends."""

    VALUE = auto()
    """A text, a number or null: no path goes on into it."""
    ANYTHING = auto()
    """JSON of the model's or of the row's: every path may lead somewhere."""


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with these fields and no others; some samples lack one."""

    by_name: "Mapping[str, Shape]"


@dataclass(frozen=True, slots=True)
class Entries:
    """A list."""

    shape: "Shape"
    is_one: bool = False
    """It has one entry in every sample."""


_MOST_DIGITS = 9
"""Of an index: no list is as long."""

Shape: TypeAlias = End | Fields | Entries

_TOOL_CALLS = Entries(
    Fields(
        {
            "id": End.VALUE,
            "type": End.VALUE,
            # Text that is JSON: paths of templates go on into it.
            "function": Fields({"name": End.VALUE, "arguments": End.ANYTHING}),
        }
    )
)
_ANSWER = Fields(
    {"role": End.VALUE, "content": End.VALUE, "reasoning_content": End.VALUE, "tool_calls": _TOOL_CALLS},
)
_MESSAGE = Fields({**_ANSWER.by_name, "tool_call_id": End.VALUE, "name": End.VALUE})
_FUNCTION = Fields({"name": End.VALUE, "description": End.VALUE, "parameters": End.ANYTHING})
SAMPLE = Fields(
    {
        "choices": Entries(
            Fields({"index": End.VALUE, "finish_reason": End.VALUE, "message": _ANSWER}),
            is_one=True,
        ),
        "finish_reason": End.VALUE,
        "input_tools": Entries(Fields({"type": End.VALUE, "function": _FUNCTION})),
        "model": End.VALUE,
        "output_audio": End.VALUE,
        "output_json": End.ANYTHING,
        "output_reasoning_summary": End.VALUE,
        "output_text": End.VALUE,
        "output_tools": _TOOL_CALLS,
        "trace": Fields({"prompt_messages": End.VALUE, "messages": Entries(_MESSAGE)}),
    }
)
"""What a rollout of ours becomes. A sample that an item of an eval brings along may have more in what it brings."""


def path_problem(steps: Sequence[str | int]) -> str | None:
    """Why this path leads nowhere in every sample of ours; None where it may lead somewhere."""
    shape: Shape = SAMPLE
    for place, step in enumerate(steps):
        if shape is End.ANYTHING:
            return None
        problem, shape = _into(shape, step)
        if problem is not None:
            return f"`{_shown(steps[:place])}` {problem}"
    return None


def index_of(step: str | int) -> int | None:
    """The place in a list that a step names, also as `.0`."""
    if isinstance(step, int):
        return step
    return int(step) if step.isascii() and step.isdigit() and len(step) <= _MOST_DIGITS else None


def _into(shape: Shape, step: str | int) -> tuple[str | None, Shape]:
    match shape:
        case End():
            return "is one value, with nothing inside", shape
        case Fields(by_name):
            if step not in by_name:
                return f"has no {step!r}; it has {', '.join(sorted(by_name))}", shape
            return None, by_name[str(step)]
        case Entries(entry, is_one):
            index = index_of(step)
            if index is None:
                return f"is a list: expected an index, as in `[0]`, in place of {step!r}", shape
            if is_one and index not in (0, -1):
                return "has one entry: `[0]`", shape
            return None, entry


def _shown(steps: Sequence[str | int]) -> str:
    return "sample" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
