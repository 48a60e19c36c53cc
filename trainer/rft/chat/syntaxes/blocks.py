"""Calls that stand in blocks of their own within a turn's text."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rft.chat.argument_types import ArgumentTypes
from rft.chat.json_text import object_text
from rft.chat.syntax import WrittenCall, WrittenTurn
from rft.chat.thinking import THINK_TAGS, ThoughtMarks, split_thinking
from rft.core.messages import ToolSchema

ReadBlock: TypeAlias = Callable[[int], tuple[WrittenCall, int]]
"""From the place behind a block's opening mark: the call, and where its block ends."""


def read_blocks(
    text: str,
    *,
    opening: str,
    reader: Callable[[str], ReadBlock],
    is_thinking: bool = False,
    unopened: tuple[str, str] | None = None,
    marks: ThoughtMarks = THINK_TAGS,
) -> WrittenTurn:
    """The calls of all blocks; what stands outside of them is what the model said. `reader`: of blocks in a text.

    `unopened`: a pattern in front of blocks that lack their opening mark, and the closing mark that they do not lack:
    without it, they may as well be quoted. They count where nothing but calls follows. `marks`: around thoughts.
    """
    reasoning, visible = split_thinking(text, call_open=opening, is_opened=is_thinking, marks=marks)
    read_block = reader(visible)
    lacking_pattern, closing = unopened or (r"(?!)", "")
    openings = Places(re.compile(f"{re.escape(opening)}|{lacking_pattern}", re.MULTILINE), visible)
    pieces: list[str] = []
    calls: list[WrittenCall] = []
    start, lacking = 0, False
    while (opened := openings.next(start)) is not None:
        said = visible[start : opened[0]]
        is_lacking = not visible.startswith(opening, opened[0])
        call, start = read_block(opened[1])
        if (lacking and said.strip()) or (is_lacking and not (call.name and visible.endswith(closing, 0, start))):
            break
        lacking = lacking or is_lacking
        pieces.append(said)
        calls.append(call)
    else:
        if not (lacking and visible[start:].strip()):
            return WrittenTurn("".join((*pieces, visible[start:])).strip(), tuple(calls), reasoning)
    return read_blocks(text, opening=opening, reader=reader, is_thinking=is_thinking, marks=marks)


class Places:
    """Where something stands in a text, which is searched once however often it is asked for."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self._spans = [found.span() for found in pattern.finditer(text)]
        self._starts = [start for start, _ in self._spans]

    def next(self, position: int) -> tuple[int, int] | None:
        """The first at or behind a position, and its end."""
        index = bisect_left(self._starts, position)
        return self._spans[index] if index < len(self._spans) else None


@dataclass(frozen=True, slots=True)
class Argument:
    """Where one argument stands."""

    key: slice
    value: slice
    end: int
    """Where what follows it begins."""


class ArgumentReader:
    """Reads arguments that stand one behind the other up to a block's end.

    A value may spell whole blocks. So one that does not end has passed over others, whose arguments may be its own: a
    place from which no block ends is remembered, so that no argument is read twice.
    """

    def __init__(
        self,
        text: str,
        *,
        argument: Callable[[int], Argument | None],
        block_end: Callable[[int], int | None],
        trimmed: Callable[[str], str] = lambda value: value,
    ) -> None:
        """`argument` and the end of the block at a position, if there; `trimmed`: a value without its line breaks."""
        self._text, self._argument, self._block_end, self._trimmed = text, argument, block_end, trimmed
        self._endless: set[int] = set()

    def read(self, position: int, tools: Sequence[ToolSchema], name: str) -> tuple[WrittenCall, int] | None:
        """The call of that name with the arguments at a position, and its block's end; None where it has none."""
        found: list[Argument] = []
        passed = [position]
        while position not in self._endless and (argument := self._argument(position)) is not None:
            found.append(argument)
            position = argument.end
            passed.append(position)
        end = None if position in self._endless else self._block_end(position)
        if end is None:
            self._endless.update(passed)
            return None
        types, arguments = ArgumentTypes(tools, name), dict[str, str]()
        for argument in found:
            key = self._text[argument.key].strip()
            arguments[key] = types.to_json(key, self._trimmed(self._text[argument.value]))
        return WrittenCall(name, object_text(arguments)), end
