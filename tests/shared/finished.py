"""A finished rollout, for graders to judge."""

from rft.core.finished_trace import FinishedTrace
from rft.core.messages import Message, Role, ToolCall

CALL = ToolCall(call_id="call_1", name="add", arguments='{"a": 2, "b": 2}')


def finished(answer: str = "4") -> FinishedTrace:
    """One tool call, then the answer, which graders get as JSON where it is any."""
    messages = (
        Message(role=Role.USER, content="2+2?"),
        Message(role=Role.ASSISTANT, content="let me see", tool_calls=(CALL,)),
        Message(role=Role.TOOL, content="4", tool_call_id="call_1", name="add"),
        Message(role=Role.ASSISTANT, content=answer),
    )
    return FinishedTrace(messages=messages, prompt_messages=1, finish_reason="stop", model="ft:starter", has_json=True)
