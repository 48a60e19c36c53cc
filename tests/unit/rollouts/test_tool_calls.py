"""The calls of one turn: at once, or one after the other where the row wants it so."""

import asyncio
from collections.abc import Sequence

import pytest

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.messages import ToolCall, ToolResult, ToolSchema
from rft.rollouts.tool_calls import BrokenOff, ToolCalls


class CountingGateway:
    """Counts the calls that are inside; a call of `broken` fails."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.made: list[str] = []

    async def call(self, call: ToolCall, *, tools: Sequence[ToolSchema], item: JsonObject, trace_id: str) -> ToolResult:
        del tools, item, trace_id
        self.made.append(call.call_id)
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0)
        self.inside -= 1
        if call.name == "broken":
            failure = Failure(stage=Stage.TOOL, code=FailureCode.TIMEOUT, message="late", endpoint="broken")
            return ToolResult(call_id=call.call_id, name=call.name, output=None, failure=failure)
        return ToolResult(call_id=call.call_id, name=call.name, output=call.call_id)

    def queued(self) -> dict[str, int]:
        """Nothing waits here."""
        return {}


def calls_of(gateway: CountingGateway, item: JsonObject) -> ToolCalls:
    row = DatasetRow(index=0, messages=(), tools=(), item=item)
    return ToolCalls(gateway, row, "trace_1", 10, len, "unreadable")


def turn(*names: str) -> list[ToolCall]:
    return [ToolCall(call_id=f"call_{place}", name=name, arguments="{}") for place, name in enumerate(names)]


@pytest.mark.parametrize(
    ("item", "most"),
    [
        ({}, 3),
        ({"parallel_tool_calls": True}, 3),
        ({"parallel_tool_calls": None}, 3),
        ({"parallel_tool_calls": False}, 1),
    ],
)
async def test_a_row_says_whether_calls_of_a_turn_are_made_at_once(item: JsonObject, most: int) -> None:
    gateway = CountingGateway()
    results = await calls_of(gateway, item).run(turn("search", "search", "cat"))
    assert [result.output for result in results] == ["call_0", "call_1", "call_2"]
    assert gateway.most == most


async def test_after_a_failure_no_further_call_of_such_a_turn_is_made() -> None:
    gateway = CountingGateway()
    calls = calls_of(gateway, {"parallel_tool_calls": False})
    with pytest.raises(BrokenOff):
        await calls.run(turn("search", "broken", "search"))
    assert gateway.made == ["call_0", "call_1"]
