"""Calls that stand in blocks of their own within a turn's text."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rft.chat.syntax import WrittenCall, WrittenTurn
from rft.chat.thinking import split_thinking
from rft.core.messages import ToolSchema

ReadBlock: TypeAlias = Callable[[str, int, Sequence[ToolSchema]], tuple[WrittenCall, int]]
"""From the text, the place behind a block's opening mark, and the tools: the call, and where its block ends."""


def read_blocks(text: str, tools: Sequence[ToolSchema], *, opening: str, read_block: ReadBlock) -> WrittenTurn:
    """The calls of all blocks; what stands outside of them is what the model said."""
    reasoning, visible = split_thinking(text, call_open=opening)
    pieces: list[str] = []
    calls: list[WrittenCall] = []
    start = 0
    while (opened := visible.find(opening, start)) >= 0:
        pieces.append(visible[start:opened])
        call, start = read_block(visible, opened + len(opening), tools)
        calls.append(call)
    pieces.append(visible[start:])
    return WrittenTurn("".join(pieces).strip(), tuple(calls), reasoning)
