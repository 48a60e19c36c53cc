"""A finished rollout of two turns, as graders get it."""

from rft.core.base import JsonObject
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import Message, Role, ToolCall

ITEM: JsonObject = {"messages": [{"role": "user", "content": "2+2?"}], "answer": "4"}
CALL = ToolCall(call_id="call_1", name="add", arguments='{"a": 2, "b": 2}')


def finished(answer: str = "4", tool_output: str = "4") -> FinishedTrace:
    messages = (
        Message(role=Role.USER, content="2+2?"),
        Message(role=Role.ASSISTANT, content="let me see", tool_calls=(CALL,)),
        Message(role=Role.TOOL, content=tool_output, tool_call_id="call_1", name="add"),
        Message(role=Role.ASSISTANT, content=answer),
    )
    return FinishedTrace(messages=messages, prompt_messages=1, finish_reason="stop", model="ft:starter")
